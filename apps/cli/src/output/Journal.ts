/**
 * Rows as a journal for hledger or Beancount: each row is a transaction of two postings that sum to zero. An amount is the exact
 * integer of the copy, written in the unit of the source's settings. The end of the journal says which copy it is from, and how many
 * rows are left out, because they have no day or no whole amount.
 */
import { type Cell, dayText, decimalsOf, printable, Questions, recordDay } from "@payments/copy"
import { Lists } from "@payments/core"
import {
  allOf,
  type CommandExit,
  counted,
  grouped,
  type JournalSettings,
  printOrEnd,
  requireOutput,
  usage
} from "@payments/program"
import { Effect, Stream, String } from "effect"
import { type Cells, lookOf, numberText, shownAs } from "./Rows.ts"
import { logWrapped } from "./Wrapped.ts"
import { printingTo } from "./WrittenFile.ts"

export const journalFormats = ["hledger", "beancount"] as const
export type JournalFormat = typeof journalFormats[number]

export const isJournal = (format: string | undefined): format is JournalFormat =>
  journalFormats.some((one) => one === format)

export interface JournalWriter {
  readonly rows: (rows: ReadonlyArray<Cells>) => string
  readonly end: () => string
  /** Says which rows are not in the journal. Undefined if all are. */
  readonly leftOut: () => string | undefined
  /** The columns that a journal has no place for. */
  readonly unused: ReadonlyArray<string>
}

interface Transaction {
  readonly day: string
  readonly id: string
  readonly payee: string
  readonly description: string
  /** What the clearing account gets. */
  readonly clearing: bigint
}

interface Book {
  readonly clearing: string
  readonly account: string
  readonly commodity: string
  readonly decimals: number
}

/** A format. Both programs read a line that begins with `;` as a comment. */
interface Syntax {
  readonly head: (book: Book) => ReadonlyArray<string>
  readonly transaction: (transaction: Transaction, book: Book) => ReadonlyArray<string>
  /** Why the program would not read an account. */
  readonly accountProblem: (account: string) => string | undefined
}

/** Returns text without line breaks and other control characters. */
const oneLine = (text: string): string => text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, " ").trim()

/** A semicolon begins a comment, and `|` divides payee and note. Nothing escapes them. */
const hledgerText = (text: string): string => oneLine(text).replaceAll(";", ",").replaceAll("|", "/").trim()

const beancountText = (text: string): string => `"${oneLine(text).replaceAll(/["\\]/g, "\\$&")}"`

/** hledger needs quotes around a commodity that has not only letters. */
const hledgerCommodity = (commodity: string): string => /^[A-Z]+$/.test(commodity) ? commodity : `"${commodity}"`

/** Writes an amount exactly: with two decimals, 1234 is `12.34`. */
const amountText = (amount: bigint, decimals: number): string => {
  const digits = `${amount < 0n ? -amount : amount}`.padStart(decimals + 1, "0")
  const sign = amount < 0n ? "-" : ""
  return decimals === 0 ? `${sign}${digits}` : `${sign}${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

const postings = ({ account, clearing, decimals }: Book, amount: bigint, commodity: string): ReadonlyArray<string> => [
  `  ${clearing}  ${amountText(amount, decimals)} ${commodity}`,
  `  ${account}  ${amountText(-amount, decimals)} ${commodity}`,
  ""
]

const namesOf = ({ account, clearing }: Book): ReadonlyArray<string> => [...new Set([clearing, account])]

/** Beancount reads days of these years. */
const [firstYear, lastYear] = [1900, 2099]

const syntaxes: { readonly [format in JournalFormat]: Syntax } = {
  hledger: {
    head: (book) => [
      "decimal-mark .",
      `commodity 1000.${"0".repeat(book.decimals)} ${hledgerCommodity(book.commodity)}`,
      ...namesOf(book).map((name) => `account ${name}`),
      ""
    ],
    transaction: ({ clearing, day, description, id, payee }, book) => {
      const text = [payee, description].map(hledgerText).filter((one) => one !== "").join(" | ")
      // Without a code, text in parentheses would be read as one.
      const code = `(${hledgerText(id).replaceAll(/[()]/g, "_")})`
      return [`${day} * ${code} ${text}`.trimEnd(), ...postings(book, clearing, hledgerCommodity(book.commodity))]
    },
    accountProblem: () => undefined
  },
  beancount: {
    head: (book) => [...namesOf(book).map((name) => `${firstYear}-01-01 open ${name} ${book.commodity}`), ""],
    transaction: ({ clearing, day, description, id, payee }, book) => {
      const texts = [...payee === "" ? [] : [payee], description].map(beancountText).join(" ")
      const metadata = id === "" ? [] : [`  id: ${beancountText(id)}`]
      return [`${day} * ${texts}`, ...metadata, ...postings(book, clearing, book.commodity)]
    },
    accountProblem: (account) =>
      /^(Assets|Liabilities|Equity|Income|Expenses)(:[\p{Lu}\p{N}][\p{L}\p{N}-]*)+$/u.test(account)
        ? undefined
        : `Beancount has no account ${printable(account)}. Its accounts are such as Assets:Clearing or Income:Invoices.`
  }
}

/** What the service collects, the clearing account gets. What it pays out, the clearing account loses. */
const signOf = (list: Lists.AnyList): bigint => list === Lists.payoutRequests ? -1n : 1n

/** Returns where the day and the amount of a statement are. Fails if they are not clear. */
const placesOfStatement = Effect.fnUntraced(function*(columns: ReadonlyArray<string>, list: Lists.AnyList) {
  const dates = Object.keys(Lists.dateFields(list)).map(String.camelToSnake)
  const amounts = Lists.amountFields(list).map(String.camelToSnake)
  if (amounts.length === 0) return yield* usage(`A journal needs amounts, and ${list.title} have none.`)
  const days = columns.includes("date") ? ["date"] : columns.filter((name) => dates.includes(name.replace(/_day$/, "")))
  const booked = columns.filter((name) => name === "amount" || amounts.includes(name))
  const [date] = days
  const [amount] = booked
  if (date === undefined || days.length > 1) {
    return yield* usage(`A journal needs a column with the day. Name it: SELECT ${dates[0]} AS date, …`)
  }
  if (amount === undefined) {
    return yield* usage(`A journal needs a column with the amount. Name it: SELECT ${amounts[0]} AS amount, …`)
  }
  if (booked.length > 1) {
    return yield* usage(
      `A journal books one amount, and the statement has ${allOf(booked)}. Select only the one to book, such as ${
        booked.at(-1)
      } AS amount.`
    )
  }
  return { date, amount }
})

/** Returns where the parts of a transaction are. */
const placesIn = Effect.fnUntraced(function*({ columns, list, question }: JournalOptions) {
  const named = question === undefined ? yield* placesOfStatement(columns, list) : question.journal
  if (named === undefined) {
    const others = Questions.questions.flatMap(({ journal, name }) => journal === undefined ? [] : [name])
    return yield* usage(
      `The answer to ${question?.name} has no day, so it cannot be a journal. Those of ${allOf(others)} can.`
    )
  }
  const [date, amount] = [columns.indexOf(named.date), columns.indexOf(named.amount)]
  const others = {
    id: columns.indexOf("id"),
    payee: columns.indexOf("payee"),
    description: columns.indexOf("description")
  }
  return { date, amount, nulls: columns.indexOf(`${named.amount}_null`), ...others }
})

interface JournalOptions {
  readonly format: JournalFormat
  readonly settings: JournalSettings
  readonly list: Lists.AnyList
  readonly columns: ReadonlyArray<string>
  /** The question that the rows answer; undefined for a statement. */
  readonly question?: Pick<Questions.Question, "name" | "journal"> | undefined
  /** Sentences about the copy and its rows, for the end of the journal. It runs after the rows. */
  readonly notes?: (() => ReadonlyArray<string>) | undefined
  /** Makes a line safe where it is shown. */
  readonly toOutput: (line: string) => string
}

/** Fails if the settings or the columns are not enough for a journal. */
export const makeJournal = Effect.fnUntraced(function*(
  options: JournalOptions
): Effect.fn.Return<JournalWriter, CommandExit> {
  const { columns, format, list, notes = () => [], settings, toOutput } = options
  const places = yield* placesIn(options)
  // The keys of the setting are the labels of the lists that have amounts.
  const account = (settings.accounts as { readonly [label: string]: string | undefined })[list.label]
  if (account === undefined) {
    return yield* usage(
      `A journal of ${list.title} needs their account: set accounts.${list.label} of the source's journal.`
    )
  }
  const syntax = syntaxes[format]
  const book: Book = {
    clearing: settings.clearing_account,
    account,
    commodity: settings.commodity,
    decimals: decimalsOf(settings.unit) ?? 0
  }
  const problem = namesOf(book).map(syntax.accountProblem).find((one) => one !== undefined)
  if (problem !== undefined) return yield* usage(problem)
  const used = new Set<number>(Object.values(places))
  const tally: Tally = { rows: 0, sum: 0n, withoutDay: 0, withoutAmount: 0, firstLeftOut: undefined, nulls: 0n }
  const textOf = (lines: ReadonlyArray<string>) => lines.map((line) => `${toOutput(line)}\n`).join("")
  let hasHead = false
  const head = () => {
    if (hasHead) return []
    hasHead = true
    return syntax.head(book)
  }
  return {
    rows: (rows) => {
      const lines = rows.flatMap((row) => {
        const transaction = transactionOf(row, places, list, tally)
        return transaction === undefined ? [] : syntax.transaction(transaction, book)
      })
      return textOf([...head(), ...lines])
    },
    end: () => {
      const transactions = tally.rows - tally.withoutDay - tally.withoutAmount
      const sum = `${amountText(tally.sum, book.decimals)} ${book.commodity}`
      const figures = [
        `${counted(transactions, "transaction")}, ${book.clearing} gets ${sum}.`,
        leftOutText(tally) ?? []
      ]
        .flat()
      return textOf([...head(), ...[...figures, ...notes()].map((note) => `; ${oneLine(note)}`)])
    },
    leftOut: () => leftOutText(tally),
    unused: columns.filter((_, index) => !used.has(index))
  }
})

/** The figures of the rows so far. */
interface Tally {
  rows: number
  sum: bigint
  withoutDay: number
  withoutAmount: number
  firstLeftOut: number | undefined
  /** The records without an amount in the groups of a question. */
  nulls: bigint
}

const leftOutText = ({ firstLeftOut, nulls, withoutAmount, withoutDay }: Tally): string | undefined => {
  const sentences = [
    ...firstLeftOut === undefined ? [] : [
      `${counted(withoutDay + withoutAmount, "row is", "rows are")} not in the journal: ${
        allOf([
          ...withoutDay === 0 ? [] : [`${grouped(withoutDay)} without a day of ${firstYear} to ${lastYear}`],
          ...withoutAmount === 0 ? [] : [`${grouped(withoutAmount)} without a whole amount`]
        ])
      }. The first one is row ${grouped(firstLeftOut)}.`
    ],
    ...nulls === 0n ? [] : [`Records without an amount in the groups of the transactions: ${grouped(nulls)}.`]
  ]
  return sentences.length === 0 ? undefined : sentences.join(" ")
}

/** Returns the transaction of a row, and counts it. Undefined if it has no day or no amount. */
const transactionOf = (
  row: Cells,
  places: Effect.Success<ReturnType<typeof placesIn>>,
  list: Lists.AnyList,
  tally: Tally
): Transaction | undefined => {
  tally.rows++
  const day = dayOf(row[places.date])
  const digits = numberText(row[places.amount])
  if (day === undefined || digits === undefined || !/^-?\d+$/.test(digits)) {
    if (day === undefined) tally.withoutDay++
    else tally.withoutAmount++
    tally.firstLeftOut ??= tally.rows
    return undefined
  }
  const clearing = BigInt(digits) * signOf(list)
  tally.sum += clearing
  const nulls = numberText(row[places.nulls])
  if (nulls !== undefined) tally.nulls += BigInt(nulls)
  const description = textIn(row[places.description])
  return {
    day,
    id: textIn(row[places.id]),
    payee: textIn(row[places.payee]),
    description: oneLine(description) === "" ? list.title : description,
    clearing
  }
}

const dayOf = (cell: Cell | undefined): string | undefined => {
  const day = typeof cell === "string" ? recordDay(cell) : undefined
  const text = day === undefined ? undefined : dayText(day)
  const year = Number(text?.slice(0, 4))
  return year >= firstYear && year <= lastYear ? text : undefined
}

const textIn = (cell: Cell | undefined): string => cell == null ? "" : typeof cell === "string" ? cell : cell.json

/** Writes the rows as they arrive. Returns which are left out. */
export const writeJournal = Effect.fnUntraced(function*<E, R>(
  rows: Stream.Stream<ReadonlyArray<Cells>, E, R>,
  output: string | undefined,
  options: Omit<JournalOptions, "toOutput">
) {
  const look = yield* lookOf("csv")
  const journal = yield* makeJournal({ ...options, toOutput: output === undefined ? shownAs(look) : (line) => line })
  if (output === undefined) yield* requireOutput
  yield* printingTo(
    output,
    Effect.andThen(
      Stream.runForEach(rows, (batch) => printOrEnd(journal.rows(batch))),
      Effect.suspend(() => printOrEnd(journal.end()))
    )
  )
  if (journal.unused.length > 0) {
    yield* logWrapped(`The journal has no place for the columns ${allOf(journal.unused.map(printable))}.`)
  }
  return journal.leftOut()
})
