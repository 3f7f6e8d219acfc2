/** Opens a statement, recognizes its format and its encoding, and puts its lines into the ledger. */
import { Effect } from "effect"
import { createReadStream } from "node:fs"
import { errorCode } from "../filesystem/ErrorCode.ts"
import type { SinkError } from "../port/Sink.ts"
import { nearest } from "../text/Nearest.ts"
import { printable } from "../text/Printable.ts"
import type { DecimalMark } from "./Amounts.ts"
import { type CamtColumn, camtColumns, type CamtShape, readCamt } from "./CamtStatement.ts"
import { type CsvShape, readCsv, type WantedColumn } from "./CsvStatement.ts"
import { Decoder } from "./Encodings.ts"
import { type Ledger, ledgerError } from "./Ledger.ts"
import { Lines } from "./Lines.ts"
import type { DateOrder, Encoding, Separator } from "./Notations.ts"
import { StatementError } from "./StatementError.ts"

/** The column of a field. A minus before its name reverses the sign of an amount. */
export interface MappedColumn {
  readonly column: string
  readonly isNegated: boolean
  /** Whether the caller needs it only if the field is compared. */
  readonly isOptional?: boolean
}

/** What is known about a file in advance. Everything else is recognized, or refused. */
export interface StatementNotation {
  /** By field. `fee` is that of the fee. */
  readonly map: { readonly [field: string]: MappedColumn }
  readonly decimals: number | undefined
  readonly decimal: DecimalMark | undefined
  readonly dates: DateOrder | undefined
  readonly separator: Separator | undefined
  readonly encoding: Encoding | undefined
  readonly hasParentheses: boolean
}

/** A field of the copy that is compared, with the names that its column may have without a mapping. */
export interface ComparedField {
  readonly field: string
  readonly names: ReadonlyArray<string>
}

export interface ReadOptions extends StatementNotation {
  readonly file: string
  readonly keys: ReadonlyArray<ComparedField>
  readonly amount: ComparedField
  /** The date of a line. An optional one is read if the file has it. */
  readonly day: ComparedField & { readonly isOptional: boolean } | undefined
  readonly isDayCompared: boolean
  /** Whether a line is compared with the sum of a group. */
  readonly isGrouped: boolean
  readonly toKey: (values: ReadonlyArray<string>) => ReadonlyArray<string>
}

/** How a statement was read. */
export interface StatementShape {
  readonly format: "csv" | "camt.053"
  readonly encoding: Encoding
  readonly hasMark: boolean
  readonly csv: CsvShape | undefined
  readonly camt: CamtShape | undefined
  readonly decimal: DecimalMark | undefined
  readonly dates: string | undefined
  readonly lines: number
  readonly withoutKey: number
  readonly firstWithoutKey: number | undefined
  /** The lines that have an empty date in the column of the dates. */
  readonly withoutDay: number
  readonly firstDay: number | undefined
  /** The last day of the lines, and of the period that the statement names. */
  readonly lastDay: number | undefined
}

/** Reads the statement, once. */
export const readStatement = (
  ledger: Ledger,
  options: ReadOptions
): Effect.Effect<StatementShape, StatementError | SinkError> =>
  Effect.tryPromise({
    try: (signal) => read(ledger, options, signal),
    catch: (error) => ledgerError(error) ?? errorOf(error, options.file)
  })

const errorOf = (error: unknown, file: string): StatementError => {
  if (error instanceof StatementError) return new StatementError({ problem: `${printable(file)}: ${error.problem}` })
  const code = errorCode(error)
  const why = readProblems[code ?? ""] ?? `cannot be read${code === undefined ? "" : ` (${code})`}`
  return new StatementError({ problem: `${printable(file)} ${why}.` })
}

const readProblems: { readonly [code: string]: string } = {
  ENOENT: "does not exist",
  EACCES: "may not be read by this user",
  EISDIR: "is a folder"
}

const chunkBytes = 256 * 1024

const read = async (ledger: Ledger, options: ReadOptions, signal: AbortSignal): Promise<StatementShape> => {
  const source = createReadStream(options.file, { highWaterMark: chunkBytes, signal })[Symbol.asyncIterator]()
  try {
    const beginning = await firstBytes(source)
    refuseBinary(beginning, options.encoding)
    const isXml = /^(?:\ufeff|\xef\xbb\xbf)?\s*<|^(?:\xff\xfe<\0|\xfe\xff\0<)/.test(
      beginning.subarray(0, 200).toString("latin1")
    )
    if (isXml) refuseCsvNotation(options)
    const decoder = new Decoder(options.encoding ?? (isXml ? xmlEncoding(beginning) : undefined))
    const texts = decoded(decoder, beginning, source, signal)
    const lines = new Lines(ledger, {
      ...options,
      decimal: isXml ? "." : options.decimal,
      dates: isXml ? "ymd" : options.dates,
      isNegated: {
        amount: options.map[options.amount.field]?.isNegated ?? false,
        fee: options.map["fee"]?.isNegated ?? false
      }
    })
    const [csv, camt] = isXml
      ? [undefined, await readCamt(texts, { lines, ...camtOptions(options) })]
      : [await readCsvTexts(texts, lines, options), undefined]
    return {
      format: isXml ? "camt.053" : "csv",
      encoding: decoder.encoding,
      hasMark: decoder.hasMark,
      csv,
      camt,
      decimal: isXml ? undefined : lines.decimal,
      dates: isXml ? undefined : lines.dates.notation,
      lines: lines.count,
      withoutKey: lines.withoutKey,
      firstWithoutKey: lines.firstWithoutKey,
      withoutDay: lines.withoutDay,
      firstDay: lines.firstDay,
      lastDay: lines.lastDay === undefined
        ? camt?.through
        : Math.max(lines.lastDay, camt?.through ?? lines.lastDay)
    }
  } finally {
    await source.return?.()
  }
}

/** Returns the first bytes, enough to recognize the format. */
const firstBytes = async (source: AsyncIterator<Buffer>): Promise<Buffer> => {
  const chunks: Array<Buffer> = []
  for (let size = 0; size < 1024;) {
    // oxlint-disable-next-line no-await-in-loop -- the next bytes follow these
    const { done, value } = await source.next()
    if (done === true) break
    chunks.push(value)
    size += value.length
  }
  return Buffer.concat(chunks)
}

const binaryFormats: ReadonlyArray<readonly [start: string, problem: string]> = [
  ["PK", "It is a ZIP archive, such as an xlsx workbook, and is not read. Save the sheet as CSV."],
  ["\x1f\x8b", "It is compressed with gzip, and is not read. Decompress it first."],
  ["\x28\xb5\x2f\xfd", "It is compressed with zstd, and is not read. Decompress it first."],
  ["\xd0\xcf\x11\xe0", "It is a workbook of an old Excel (xls), and is not read. Save the sheet as CSV."],
  ["%PDF", "It is a PDF, and is not read. Ask the bank for CSV or camt.053."]
]

// oxlint-disable-next-line no-control-regex -- these are the bytes of UTF-32: its mark, or three zeros beside an ASCII character
const utf32 = /^(?:\xff\xfe\0\0|\0\0\xfe\xff|[^\0]\0{3}|\0{3}[^\0])/
/** The control characters without NUL, and without those that texts have: tab, line breaks, form feed and the end of DOS. */
// oxlint-disable-next-line no-control-regex -- these are control characters
const controls = /[\x01-\x08\x0b\x0e-\x19\x1b-\x1f\x7f]/g
/** Random bytes have three times as many. */
const mostControls = 0.03

const refuseBinary = (bytes: Buffer, encoding: Encoding | undefined): void => {
  if (bytes.length === 0) throw new StatementError({ problem: "The file is empty." })
  const start = bytes.subarray(0, 4096).toString("latin1")
  const found = binaryFormats.find(([magic]) => start.startsWith(magic))
  if (found !== undefined) throw new StatementError({ problem: found[1] })
  if (utf32.test(start)) throw new StatementError({ problem: "It is UTF-32, and is not read. Save it as UTF-8." })
  const isUtf16 = /^(?:\xff\xfe|\xfe\xff)/.test(start) || encoding === "utf-16le" || encoding === "utf-16be"
  if (!isUtf16 && (start.match(controls)?.length ?? 0) > mostControls * start.length) {
    throw new StatementError({ problem: "It is no text file, and is not read. Ask the bank for CSV or camt.053." })
  }
}

/** What is said about the notation of a CSV file must not be ignored in silence. */
const refuseCsvNotation = ({ dates, decimal, hasParentheses, separator }: StatementNotation): void => {
  const given = [
    ...separator === undefined ? [] : ["--separator"],
    ...decimal === undefined ? [] : ["--decimal"],
    ...dates === undefined ? [] : ["--dates"],
    ...hasParentheses ? ["--parentheses"] : []
  ]
  if (given.length === 0) return
  throw new StatementError({
    problem: `It is camt.053, which has one notation. Leave out ${
      given.join(", ")
    }, also in the settings that --statement names.`
  })
}

/** Returns the encoding that an XML declaration names. Without one, XML is UTF-8. */
const xmlEncoding = (bytes: Buffer): Encoding | undefined => {
  if (bytes[0] === 0xff || bytes[0] === 0xfe) return undefined
  const name = /^\S{0,3}\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.-]{1,40})["']/.exec(
    bytes.subarray(0, 300).toString("latin1")
  )?.[1]?.toLowerCase()
  if (name === undefined || name === "utf-8" || name === "us-ascii") return "utf-8"
  if (name === "iso-8859-1" || name === "windows-1252") return "windows-1252"
  throw new StatementError({
    problem: "Its XML declaration names an encoding other than UTF-8, ISO-8859-1 and Windows-1252. Save it as UTF-8."
  })
}

async function* decoded(decoder: Decoder, first: Buffer, source: AsyncIterator<Buffer>, signal: AbortSignal) {
  let chunk = first
  for (;;) {
    signal.throwIfAborted()
    // oxlint-disable-next-line no-await-in-loop -- the next bytes follow these
    const next = await source.next()
    yield decoder.decode(chunk, next.done === true)
    if (next.done === true) return
    chunk = next.value
  }
}

/** The separator is recognized in this many characters. */
const headCharacters = 64 * 1024

const readCsvTexts = async (
  texts: AsyncGenerator<string>,
  lines: Lines,
  options: ReadOptions
): Promise<CsvShape> => {
  let head = ""
  for (;;) {
    // oxlint-disable-next-line no-await-in-loop -- the next text follows this one
    const { done, value } = await texts.next()
    if (done === true) break
    head += value
    if (head.length >= headCharacters) break
  }
  const wanted = (field: ComparedField): WantedColumn => {
    const mapped = options.map[field.field]
    return { field: field.field, names: mapped === undefined ? field.names : [mapped.column] }
  }
  return readCsv(head, texts, {
    lines,
    separator: options.separator,
    wanted: {
      keys: options.keys.map(wanted),
      amount: wanted(options.amount),
      day: options.day === undefined ? undefined : { ...wanted(options.day), isOptional: options.day.isOptional },
      fee: options.map["fee"] === undefined ? undefined : wanted({ field: "fee", names: [] })
    }
  })
}

/** The columns of camt.053 that fields have without a mapping. */
const camtDefaults: { readonly [field: string]: CamtColumn } = {
  reference: "endToEndId",
  settlementDate: "valueDate"
}

const camtOptions = ({ amount, day, isGrouped, keys, map }: ReadOptions) => {
  const columnOf = ({ field }: ComparedField, fallback: CamtColumn | undefined): CamtColumn => {
    const mapped = map[field]?.column
    const name = mapped ?? camtDefaults[field] ?? fallback
    const column = columnNames.find((one) => one === name)
    if (column !== undefined) return column
    const near = name === undefined ? [] : nearest(name, columnNames)
    throw new StatementError({
      problem: `camt.053 has no column ${
        mapped === undefined ? `for ${field}` : `${printable(mapped)}, which is given for ${field}`
      }. Say which one it is with --map ${field}=${near[0] ?? "COLUMN"}. Its columns are ${columnNames.join(", ")}.`
    })
  }
  if ((map[amount.field]?.column ?? "amount") !== "amount") {
    throw new StatementError({
      problem: "The amount of camt.053 is the column amount. Use --map amount=-amount to reverse its sign."
    })
  }
  return {
    isGrouped,
    keys: keys.map((key) => columnOf(key, undefined)),
    day: day === undefined ? undefined : columnOf(day, "bookingDate"),
    fee: map["fee"] === undefined ? undefined : columnOf({ field: "fee", names: [] }, undefined)
  }
}

const columnNames = Object.keys(camtColumns) as ReadonlyArray<CamtColumn> // its own keys
