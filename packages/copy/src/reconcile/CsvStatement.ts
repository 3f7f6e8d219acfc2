/** Reads a statement in CSV. The names of its columns may follow other lines, as in the files of many banks. */
import { CsvError, parse } from "csv-parse"
import { parse as parseSync } from "csv-parse/sync"
import { distance } from "fastest-levenshtein"
import { pipeline } from "node:stream/promises"
import { folded } from "../text/Folded.ts"
import { printable } from "../text/Printable.ts"
import type { Lines } from "./Lines.ts"
import { type Separator, separatorNames, separators } from "./Notations.ts"
import { problemAt, StatementError } from "./StatementError.ts"

/** A column that is needed, by what it is for. */
export interface WantedColumn {
  /** The field of the copy, for messages. */
  readonly field: string
  /** The names that it may have. */
  readonly names: ReadonlyArray<string>
}

export interface WantedColumns {
  readonly keys: ReadonlyArray<WantedColumn>
  readonly amount: WantedColumn
  readonly fee: WantedColumn | undefined
  readonly day: WantedColumn & { readonly isOptional: boolean } | undefined
}

/** How a file was read. */
export interface CsvShape {
  readonly separator: Separator
  readonly headerLine: number
}

/** The most lines before the names of the columns. */
const mostLinesBefore = 50
const mostRecordBytes = 1024 * 1024

interface Header extends CsvShape {
  /** The number of records before it. */
  readonly record: number
  readonly width: number
  readonly keys: ReadonlyArray<number>
  readonly amount: number
  readonly fee: number | undefined
  readonly day: number | undefined
}

/**
 * Reads the lines. `head` is the beginning of the text, which ends with a whole line, and `rest` is all that follows.
 * Returns how the file was read.
 */
export const readCsv = async (
  head: string,
  rest: AsyncIterable<string>,
  { lines, separator, wanted }: {
    readonly lines: Lines
    readonly wanted: WantedColumns
    readonly separator: Separator | undefined
  }
): Promise<CsvShape> => {
  const header = headerIn(head, wanted, separator === undefined ? separatorNames : [separator])
  const { amount, day, fee, keys, width } = header
  const placeOf = (index: number | undefined, name: string) =>
    index === undefined ? { name } : { column: index + 1, name }
  lines.places = {
    amount: placeOf(amount, "amount"),
    fee: placeOf(fee, "fee"),
    day: placeOf(day, wanted.day?.field ?? "date")
  }
  let number = 0
  let end = 0
  const add = (record: ReadonlyArray<string>, endLine: number): void => {
    number++
    const start = end + 1
    end = endLine
    if (number <= header.record + 1) return
    // Empty lines and line breaks in quotes both count.
    const line = end === start ? start : end - breaksIn(record)
    if (record.length !== width) {
      if (record.every((cell) => cell === "")) return
      throw problemAt({ line }, `it has ${record.length} columns, but line ${header.headerLine} names ${width}`)
    }
    if (record.every((cell) => cell === "")) return
    lines.add({
      line,
      keys: keys.map((index) => record[index] ?? ""),
      amount: record[amount] ?? "",
      fee: fee === undefined ? undefined : record[fee],
      day: day === undefined ? undefined : record[day]
    })
  }
  const parser = parse({
    delimiter: separators[header.separator],
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: mostRecordBytes,
    // Records that are taken here need not pass through a stream one by one.
    on_record: (record: ReadonlyArray<string>, info) => {
      add(record, info.lines)
      return null
    }
  })
  try {
    await pipeline(texts(head, rest), parser.resume())
  } catch (error) {
    throw error instanceof CsvError ? problemAt({ line: lineOf(error) ?? end + 1 }, messageOf(error.code)) : error
  }
  lines.finish()
  lines.requireLines()
  return header
}

interface ParsedRecord {
  readonly info: { readonly lines: number }
  readonly record: ReadonlyArray<string>
}

/** With single line breaks: the parser counts CR LF within quotes as two lines. */
async function* texts(head: string, rest: AsyncIterable<string>) {
  let before = ""
  for await (const text of chain(head, rest)) {
    const whole = before + text
    before = whole.endsWith("\r") ? "\r" : ""
    const broken = whole.slice(0, whole.length - before.length).replaceAll("\r\n", "\n")
    if (broken !== "") yield broken
  }
  if (before !== "") yield before
}

async function* chain(head: string, rest: AsyncIterable<string>) {
  yield head
  yield* rest
}

const breaksIn = (record: ReadonlyArray<string>): number => {
  let breaks = 0
  for (const cell of record) breaks += cell.includes("\n") ? cell.split("\n").length - 1 : 0
  return breaks
}

/** The line is a member of the errors that the parser throws, but not of their type. */
const lineOf = (error: CsvError): number | undefined => typeof error["lines"] === "number" ? error["lines"] : undefined

/** The parser's own messages repeat values. */
const messageOf = (code: string): string => {
  switch (code) {
    case "CSV_QUOTE_NOT_CLOSED":
      return "a quote is opened here or before, and never closed"
    case "CSV_MAX_RECORD_SIZE":
      return `a line is longer than ${mostRecordBytes / 1024 / 1024} MiB: a quote that is never closed, or no CSV file`
    default:
      return "a quote stands within a value. A value with a quote must be in quotes, and its quotes doubled"
  }
}

/** Finds the line with the names of the columns, and the separator by which it has all of them. */
const headerIn = (head: string, wanted: WantedColumns, candidates: ReadonlyArray<Separator>): Header => {
  let widest: Widest | undefined
  for (const separator of candidates) {
    for (const [record, { info, record: cells }] of firstRecords(head, separator).entries()) {
      const found = columnsIn(cells, wanted)
      if (found !== undefined) {
        return { ...found, separator, record, headerLine: info.lines, width: cells.length }
      }
      const names = cells.map((cell) => cell.trim()).filter((name) => name !== "")
      const looksLikeNames = names.length > 1 && names.every((name) => nameShape.test(name))
      if (
        widest === undefined || (looksLikeNames && !widest.looksLikeNames) ||
        (looksLikeNames === widest.looksLikeNames && names.length > widest.names.length)
      ) widest = { names, line: info.lines, width: cells.length, looksLikeNames }
    }
  }
  throw missingColumns(wanted, widest)
}

const firstRecords = (head: string, separator: Separator): ReadonlyArray<ParsedRecord> =>
  // The parser's types say nothing about the option `info`.
  parseSync(head, {
    delimiter: separators[separator],
    info: true,
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
    skip_records_with_error: true,
    to: mostLinesBefore
  }) as unknown as ReadonlyArray<ParsedRecord>

/** Returns the columns that are needed and have none of the names. */
const missingIn = (
  names: ReadonlyArray<string>,
  { amount, day, fee, keys }: WantedColumns
): ReadonlyArray<WantedColumn> => {
  const known = new Set(names.map(folded))
  return [...keys, amount, ...fee === undefined ? [] : [fee], ...day?.isOptional === false ? [day] : []]
    .filter((one) => !one.names.some((name) => known.has(folded(name))))
}

const columnsIn = (cells: ReadonlyArray<string>, { amount, day, fee, keys }: WantedColumns) => {
  const names = cells.map((cell) => cell.trim())
  const indexOf = ({ field, names: accepted }: WantedColumn): number | undefined => {
    for (const isSame of [(a: string, b: string) => a === b, (a: string, b: string) => folded(a) === folded(b)]) {
      const found = names.flatMap((name, index) => accepted.some((one) => isSame(one, name)) ? [index] : [])
      if (found.length > 1) {
        throw new StatementError({
          problem: `The file has several columns for ${field}. Name one with --map ${field}=COLUMN.`
        })
      }
      if (found[0] !== undefined) return found[0]
    }
    return undefined
  }
  if (missingIn(names, { amount, day, fee, keys }).length > 0) return undefined
  return {
    keys: keys.map((one) => indexOf(one) ?? -1),
    amount: indexOf(amount) ?? -1,
    fee: fee === undefined ? undefined : indexOf(fee),
    day: day === undefined ? undefined : indexOf(day)
  }
}

/** The line that has the most names, or else the most cells. */
interface Widest {
  readonly names: ReadonlyArray<string>
  readonly line: number
  readonly width: number
  readonly looksLikeNames: boolean
}

const nameShape = /^\p{L}[\p{L} _./()%€$#-]{0,60}$/u

/** No line is known to have names, so its cells may be personal. Only a cell that nearly is a wanted name is shown. */
const missingColumns = (
  wanted: WantedColumns,
  widest: Widest | undefined
): StatementError => {
  if (widest === undefined) return new StatementError({ problem: "The file is empty." })
  const { line, names, width } = widest
  const missing = missingIn(names, wanted)
  const example = missing[0]
  const near = example?.names.flatMap((name) => names.filter((one) => isNearly(one, name)))[0]
  const advice = example === undefined
    ? ""
    : ` Say which column it is, such as --map ${example.field}=${near === undefined ? "COLUMN" : printable(near)}.`
  return new StatementError({
    problem: `The file has no column for ${
      missing.map(({ field, names: [name = field] }) => name === field ? field : `${field} (${printable(name)})`).join(
        ", "
      )
    }. No line among the first ${mostLinesBefore} has all of them. Line ${line} comes nearest, with ${width} ${
      width === 1 ? "column" : "columns"
    }.${advice}`
  })
}

/** Whether a cell is a name with at most two letters mistyped. A short name has to be the same. */
const isNearly = (cell: string, name: string): boolean => {
  const [one, other] = [folded(cell), folded(name)]
  return one === other || (other.length > 5 && distance(one, other) <= 2)
}
