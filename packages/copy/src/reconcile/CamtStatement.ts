/**
 * Reads a statement in camt.053 (ISO 20022), as a stream. A line is an entry, or each transaction of an entry that has
 * several with amounts. A document type is refused, so no entity can be defined, and nothing else is ever loaded.
 */
import * as sax from "sax"
import { dayNumber } from "./Dates.ts"
import type { Lines } from "./Lines.ts"
import { problemAt, StatementError } from "./StatementError.ts"

/** The columns of a camt.053 statement, and the elements that they come from. */
export const camtColumns = {
  endToEndId: ["Refs/EndToEndId"],
  transactionId: ["Refs/TxId"],
  instructionId: ["Refs/InstrId"],
  mandateId: ["Refs/MndtId"],
  creditorReference: ["RmtInf/Strd/CdtrRefInf/Ref"],
  remittance: ["RmtInf/Ustrd"],
  entryReference: ["NtryRef"],
  servicerReference: ["AcctSvcrRef", "Refs/AcctSvcrRef"],
  bookingDate: ["BookgDt/Dt", "BookgDt/DtTm"],
  valueDate: ["ValDt/Dt", "ValDt/DtTm"],
  charges: ["Chrgs/TtlChrgsAndTaxAmt"],
  amount: ["Amt", "AmtDtls/TxAmt/Amt"]
} as const
export type CamtColumn = keyof typeof camtColumns

/** The columns by the path of their element. */
const columnAt: ReadonlyMap<string, CamtColumn> = new Map(
  (Object.entries(camtColumns) as ReadonlyArray<readonly [CamtColumn, ReadonlyArray<string>]>) // its own keys
    .flatMap(([name, paths]) => paths.map((path) => [path, name] as const))
)

interface Value {
  readonly text: string
  /** Of an amount. */
  readonly currency: string | undefined
}

/** An entry or a transaction, as far as it is read. */
interface Part {
  readonly values: Map<CamtColumn, Value>
  isDebit: boolean | undefined
}

/** No document of XML 1.0 has one. */
// oxlint-disable-next-line no-control-regex -- these are control characters
const controlCharacter = /[\u0000-\u0008\u000b\u000c\u000e-\u001f]/

const limits = {
  depth: 40,
  valueCharacters: 64 * 1024,
  tokenCharacters: 1024 * 1024,
  prologCharacters: 64 * 1024
} as const

/** What a statement says besides its lines. */
export interface CamtShape {
  /** The last day of its period. */
  readonly through: number | undefined
  /** The entries that are not booked. They are no lines. */
  readonly notBooked: number
  readonly statements: number
  readonly currency: string | undefined
}

export interface CamtOptions {
  readonly lines: Lines
  readonly keys: ReadonlyArray<CamtColumn>
  readonly fee: CamtColumn | undefined
  readonly day: CamtColumn | undefined
  /** Whether an entry is a line, also if it has several transactions. */
  readonly isGrouped: boolean
}

export const readCamt = async (texts: AsyncIterable<string>, options: CamtOptions): Promise<CamtShape> => {
  const reader = new CamtReader(options)
  for await (const text of texts) reader.write(text)
  return reader.end()
}

/** `strictEntities`: only the five entities of XML itself. Its types do not have this option. */
const parserOptions = { xmlns: true, strictEntities: true, position: true }

class CamtReader {
  readonly #options: CamtOptions
  readonly #parser = sax.parser(true, parserOptions)
  readonly #path: Array<string> = []
  #text = ""
  /** The attributes of the next tag. The parser does not report a repeated one as an error. */
  readonly #attributes = new Set<string>()
  /** The currency that the current element names. */
  #named: string | undefined
  #sinceEvent = 0
  #entry: Part | undefined
  #transaction: Part | undefined
  /** The status of the entry, if it has one: its code, or the name and the text of another child. */
  #status: string | undefined
  /** The first transaction of the entry, until it is known whether there are more. */
  #first: Part | undefined
  #transactions = 0
  /** The sum of the transactions, in the smallest unit that any of them needs. */
  #sum = 0n
  /** Whether one of the transactions has charges of its own. */
  #hasCharges = false
  /** The transactions before the current block of details, and how many the block says that it stands for. */
  #before = 0
  #declared = 0
  /** Whether the entry stands for more transactions than it details. */
  #lacksDetails = false
  #line = 0
  #through: number | undefined
  #notBooked = 0
  #statements = 0
  #currency: string | undefined

  constructor(options: CamtOptions) {
    this.#options = options
    const handlers: Partial<sax.SAXParser> = {
      onerror: ({ message }) => {
        throw this.#problem(`the XML is not well-formed: ${shownXmlMessage(message)}`)
      },
      ondoctype: () => {
        throw this.#problem(doctypeProblem)
      },
      onopentag: (tag) => {
        // With `xmlns`, a tag has these members.
        const { attributes, local, uri } = tag as sax.QualifiedTag
        this.#attributes.clear()
        this.#open(local, uri, attributes["Ccy"]?.value)
      },
      onattribute: (attribute) => {
        // With `xmlns`, an attribute has these members. All attributes of a tag come before the tag.
        const { local, uri } = attribute as sax.QualifiedAttribute
        const name = `${uri} ${local}`
        if (this.#attributes.has(name)) {
          throw this.#problem("the XML is not well-formed: an element has an attribute twice")
        }
        this.#attributes.add(name)
      },
      onclosetag: () => this.#close(),
      ontext: (text) => this.#add(text),
      oncdata: (text) => this.#add(text),
      oncomment: () => void (this.#sinceEvent = 0),
      onprocessinginstruction: () => void (this.#sinceEvent = 0)
    }
    Object.assign(this.#parser, handlers)
  }

  write(text: string): void {
    // The parser keeps a document type until its end, so it is refused at its start.
    if (this.#path.length === 0 && this.#statements === 0) this.#checkProlog(text)
    if (controlCharacter.test(text)) throw this.#problem("the XML is not well-formed: it has a control character")
    this.#sinceEvent += text.length
    this.#parser.write(text)
    if (this.#sinceEvent > limits.tokenCharacters + text.length) throw this.#problem("a tag or a text is too long")
  }

  end(): CamtShape {
    this.#parser.close()
    const { lines } = this.#options
    if (this.#statements === 0) {
      throw new StatementError({ problem: "The XML has no statement of camt.053 (Document, BkToCstmrStmt, Stmt)." })
    }
    lines.finish()
    return {
      through: this.#through,
      notBooked: this.#notBooked,
      statements: this.#statements,
      currency: this.#currency
    }
  }

  #hasRoot = false
  #prolog = ""
  #checkProlog(text: string): void {
    this.#prolog += text.slice(0, limits.prologCharacters)
    const at = this.#prolog.search(/<!DOCTYPE/i)
    if (at !== -1) throw problemAt({ line: this.#prolog.slice(0, at).split("\n").length }, doctypeProblem)
    if (this.#prolog.length > limits.prologCharacters) this.#prolog = this.#prolog.slice(-16)
  }

  #problem(problem: string): StatementError {
    return problemAt({ line: this.#parser.line + 1, column: this.#parser.column + 1 }, problem)
  }

  #open(local: string, uri: string, currency: string | undefined): void {
    this.#sinceEvent = 0
    if (this.#isValue) throw this.#problem("an element stands within a value")
    if (this.#path.length === 0 && this.#hasRoot) {
      throw this.#problem("the XML is not well-formed: it has several roots")
    }
    this.#hasRoot = true
    this.#text = ""
    this.#named = currency
    this.#path.push(local)
    if (this.#path.length > limits.depth) throw this.#problem(`elements are more than ${limits.depth} deep`)
    if (this.#path.length === 2) this.#checkMessage(local, uri)
    const path = this.#path.join("/")
    if (path === statementPath) this.#statements++
    else if (path === entryPath) this.#beginEntry()
    else if (path === statusPath) this.#status ??= ""
    else if (path === detailsPath) [this.#before, this.#declared] = [this.#transactions, 0]
    else if (path === transactionPath) this.#transaction = { values: new Map(), isDebit: undefined }
  }

  #checkMessage(local: string, uri: string): void {
    const isCamt = /:camt\.053\./.test(uri) || uri === ""
    if (this.#path[0] === "Document" && local === "BkToCstmrStmt" && isCamt) return
    const kind = /(camt|pain|pacs)\.\d{3}/.exec(uri)?.[0]
    throw this.#problem(
      `it is no statement of camt.053${
        kind === undefined || isCamt ? "" : `, but ${kind}`
      }. Ask the bank for camt.053, or for CSV`
    )
  }

  /** Amounts of several currencies must not be added. Others, such as what a card was charged abroad, are not used. */
  #checkCurrency({ currency }: Pick<Value, "currency">): void {
    if (currency === undefined || currency === this.#currency) return
    if (this.#currency !== undefined) {
      throw this.#problem("the currency is another one than before. Reconcile one currency at a time")
    }
    this.#currency = /^[A-Z]{3}$/.test(currency) ? currency : undefined
  }

  #add(text: string): void {
    this.#sinceEvent = 0
    this.#text += text
    if (this.#text.length > limits.valueCharacters) throw this.#problem("a text is too long")
  }

  #beginEntry(): void {
    this.#entry = { values: new Map(), isDebit: undefined }
    this.#status = undefined
    this.#first = undefined
    this.#transactions = 0
    this.#sum = 0n
    this.#hasCharges = false
    this.#lacksDetails = false
  }

  #close(): void {
    const path = this.#path.join("/")
    const text = this.#text.trim()
    const part = this.#transaction ?? this.#entry
    const local = this.#path.at(-1)
    if (path === transactionPath) this.#endTransaction()
    else if (path === entryPath) this.#endEntry()
    else if (path === detailsPath) this.#lacksDetails ||= this.#declared > this.#transactions - this.#before
    else if (path === `${detailsPath}/Btch/NbOfTxs`) this.#declared = this.#countIn(text)
    else if (path === periodEndPath || path === `${periodEndPath}Tm`) {
      const day = dayNumber(text.slice(0, 10))
      if (day !== undefined) this.#through = Math.max(this.#through ?? day, day)
    } else if (part !== undefined && text !== "") {
      const own = path.slice((this.#transaction === undefined ? entryPath : transactionPath).length + 1)
      if (own === "CdtDbtInd") {
        if (part.isDebit !== undefined) throw this.#problem("an amount has two signs (CdtDbtInd)")
        part.isDebit = text === "DBIT" ? true : text === "CRDT" ? false : undefined
      } else if ((path === statusPath || path.startsWith(`${statusPath}/`))) {
        this.#status += own === "Sts" || own === "Sts/Cd" ? text : `${own} ${text}`
      } else {
        if (own === "Amt" && part.values.has("amount")) throw this.#problem("an entry has two amounts (Amt)")
        this.#setValue(part, text)
      }
    }
    if (local !== undefined) this.#path.pop()
    this.#text = ""
    this.#sinceEvent = 0
  }

  #countIn(text: string): number {
    if (!/^\d{1,15}$/.test(text)) throw this.#problem("the number of transactions (NbOfTxs) is no whole number")
    return Number(text)
  }

  /** Whether the current element is read, and has only text. A status may have children instead. */
  get #isValue(): boolean {
    const path = this.#path.join("/")
    if (path === statusPath) return this.#text.trim() !== ""
    return this.#columnHere() !== undefined || otherValues.has(path)
  }

  #columnHere(): CamtColumn | undefined {
    const path = this.#path.join("/")
    const start = this.#transaction !== undefined ? transactionPath : entryPath
    return path.startsWith(`${start}/`) ? columnAt.get(path.slice(start.length + 1)) : undefined
  }

  #setValue({ values }: Part, text: string): void {
    const column = this.#columnHere()
    if (column === undefined) return
    const earlier = values.get(column)
    // Remittance information may have several lines. The first amount is that of the entry or transaction itself.
    if (earlier === undefined) values.set(column, { text, currency: this.#named })
    else if (column === "remittance") values.set(column, { ...earlier, text: `${earlier.text} ${text}` })
    else if (this.#isUsed(column) && column === "charges") {
      throw this.#problem(
        "an entry or transaction has charges twice, and they are not added up. Leave fee out of --map"
      )
    } else if (this.#isUsed(column) && column !== "amount" && earlier.text !== text) {
      throw this.#problem(`an entry or transaction has two values of ${column}. Compare another column: --map`)
    }
  }

  /** Whether the column of the current entry or transaction is a part of a line. */
  #isUsed(column: CamtColumn): boolean {
    const { day, fee, isGrouped, keys } = this.#options
    if (!this.#isBooked || (isGrouped && this.#transaction !== undefined)) return false
    return column === day || column === fee || keys.includes(column)
  }

  #endTransaction(): void {
    const { isGrouped } = this.#options
    const transaction = this.#transaction
    this.#transaction = undefined
    if (transaction === undefined || this.#entry === undefined) return
    this.#transactions++
    this.#hasCharges ||= transaction.values.has("charges")
    if (this.#transactions === 1) this.#first = transaction
    if (isGrouped || !this.#isBooked) return
    if (this.#transactions === 2 && this.#first !== undefined) this.#addTransaction(this.#first, this.#entry)
    if (this.#transactions >= 2) this.#addTransaction(transaction, this.#entry)
  }

  get #isBooked(): boolean {
    return this.#status === undefined || this.#status === "BOOK"
  }

  #addTransaction(transaction: Part, entry: Part): void {
    const amount = transaction.values.get("amount")
    if (amount === undefined) {
      throw this.#problem(
        "an entry has several transactions, and one of them has no amount. --group compares whole entries"
      )
    }
    const isDebit = transaction.isDebit ?? entry.isDebit
    this.#sum += this.#exact(amount, isDebit)
    // The charges of the entry are no charges of each transaction.
    const shared = [...entry.values].filter(([column]) => column !== "charges")
    this.#addLine(new Map([...shared, ...transaction.values]), isDebit)
  }

  #endEntry(): void {
    const entry = this.#entry
    this.#entry = undefined
    if (entry === undefined) return
    if (!this.#isBooked) {
      this.#notBooked++
      return
    }
    const amount = entry.values.get("amount")
    if (amount === undefined) throw this.#problem("an entry has no amount")
    if (this.#options.isGrouped || this.#transactions < 2) {
      // The entry's own amount counts, because that of its transaction may be in another currency. One transaction of
      // several does not name the whole entry.
      const values = this.#options.isGrouped || this.#first === undefined || this.#lacksDetails
        ? entry.values
        : new Map([...this.#first.values, ...entry.values])
      this.#addLine(values, entry.isDebit)
    } else if (this.#sum !== this.#exact(amount, entry.isDebit)) {
      throw this.#problem("the amounts of the entry's transactions do not add up to that of the entry")
    } else if (this.#options.fee === "charges" && entry.values.has("charges") && !this.#hasCharges) {
      throw this.#problem(
        "an entry has charges and several transactions, and none of them has charges. --group compares whole entries"
      )
    }
  }

  /** Returns the amount in units of 10 to the power of -20, which is exact for every amount of ISO 20022. */
  #exact(amount: Value, isDebit: boolean | undefined): bigint {
    this.#checkCurrency(amount)
    const [, whole = "", fraction = ""] = /^(\d{1,30})(?:\.(\d{0,20}))?$/.exec(amount.text) ?? []
    if (whole === "") throw this.#problem("the amount is no number of ISO 20022, such as 12.34")
    const size = BigInt(whole + fraction.padEnd(20, "0"))
    return isDebit === true ? -size : size
  }

  #addLine(values: ReadonlyMap<CamtColumn, Value>, isDebit: boolean | undefined): void {
    if (isDebit === undefined) throw this.#problem("an entry or transaction has neither CRDT nor DBIT (CdtDbtInd)")
    const { day, fee, keys, lines } = this.#options
    const amount = values.get("amount") ?? { text: "", currency: undefined }
    const deducted = fee === undefined ? undefined : values.get(fee)
    this.#exact(amount, isDebit)
    if (deducted !== undefined) this.#checkCurrency(deducted)
    this.#line++
    try {
      lines.add({
        line: this.#line,
        keys: keys.map((key) => values.get(key)?.text ?? ""),
        amount: `${isDebit ? "-" : ""}${amount.text}`,
        fee: deducted?.text,
        day: day === undefined ? undefined : values.get(day)?.text ?? ""
      })
    } catch (error) {
      // The number of an entry is no line of the file.
      throw error instanceof StatementError
        ? this.#problem(error.problem.replace(/^line /, "entry ").replace(/\.$/, ""))
        : error
    }
  }
}

const doctypeProblem = "there is a document type (DOCTYPE). A statement needs none, and it could define entities"
const statementPath = "Document/BkToCstmrStmt/Stmt"
const entryPath = `${statementPath}/Ntry`
const statusPath = `${entryPath}/Sts`
const detailsPath = `${entryPath}/NtryDtls`
const transactionPath = `${detailsPath}/TxDtls`
const periodEndPath = `${statementPath}/FrToDt/ToDt`

/** The paths of the values that are no columns. */
const otherValues: ReadonlySet<string> = new Set([
  periodEndPath,
  `${periodEndPath}Tm`,
  `${statusPath}/Cd`,
  `${entryPath}/CdtDbtInd`,
  `${transactionPath}/CdtDbtInd`,
  `${detailsPath}/Btch/NbOfTxs`
])

/** The parser's messages repeat names of the file after a colon. */
const shownXmlMessage = (message: string): string =>
  message.startsWith("Max buffer length exceeded")
    ? "a tag or a text is too long"
    : message.replace(/[:&"'\n].*$/s, "").replace(/\.$/, "").trim() || "it cannot be parsed"
