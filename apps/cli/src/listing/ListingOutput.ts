/**
 * Prints the records of a listing. `ndjson` and `json` contain the exact text of each record or of the chosen fields.
 * `csv` has a column for each field. A table is for people. Output to a pipe is exact.
 */
import type { Cell, FieldPath } from "@payments/copy"
import { exactNumber, Lists, type PaymentsError } from "@payments/core"
import { type CommandExit, logLine, type Next, nextMembers, print, printOrEnd, requireOutput } from "@payments/program"
import { Effect, type Stdio, type Terminal } from "effect"
import { list as listOutput } from "../contract/ListOutput.ts"
import type { OutputFile } from "../output/OutputFile.ts"
import { fieldReader, plainText, projection } from "../output/PrintedRecord.ts"
import {
  type Heading,
  logOmitted,
  type Look,
  lookOf,
  makeRowWriter,
  type RowFormat,
  type Shape
} from "../output/Rows.ts"
import { wrapped } from "../output/Wrapped.ts"

/** The formats of a listing, in the order of its help. */
export const formats = ["table", "json", "ndjson", "csv"] as const satisfies ReadonlyArray<RowFormat>

export interface Ending {
  /** The cursor of the next page, or of a page that was printed in part; null at the start and at the end. */
  readonly cursor: string | null
  readonly complete: boolean
  /** The command that continues the listing, if it is not complete. */
  readonly next: Next | undefined
  /** How many records were read, if not all of them were printed. */
  readonly read: number | undefined
  /** How many records of the page at the cursor were printed. */
  readonly printedOfPage: number
  /** How many records are repeated: the service returned them more than once. Known if the listing keeps the records. */
  readonly repeated: number
  readonly error?: { readonly reason: string; readonly message: string } | undefined
}

export interface ListingOutput {
  /** Prints the exact texts of records. Ends the command if the reader of stdout has closed it. */
  readonly records: (texts: ReadonlyArray<string>) => Effect.Effect<void, CommandExit>
  readonly end: (ending: Ending) => Effect.Effect<void>
}

interface OutputOptions {
  readonly format: RowFormat
  /** The fields to print; by default those of the format. */
  readonly fields: ReadonlyArray<FieldPath> | undefined
  /** The file that gets the records instead of stdout. */
  readonly file: OutputFile | undefined
  /** Whether the records follow those of an earlier run, so that CSV has its header already. */
  readonly isContinued: boolean
}

export const makeListingOutput = Effect.fnUntraced(function*(
  list: Lists.AnyList,
  { fields, file, format, isContinued }: OutputOptions
) {
  if (file === undefined) yield* requireOutput
  const services = yield* Effect.context<Stdio.Stdio | Terminal.Terminal>()
  const onStdout = yield* lookOf(format)
  const look = file === undefined ? onStdout : { ...onStdout, style: { ...onStdout.style, onTerminal: false } }
  const writer = yield* makeRowWriter({ ...shapeOf(list, fields, look), isContinued }, look)
  const log = (text: string) => Effect.flatMap(wrapped(text), logLine)
  const append = file?.append ?? ((text: string) => Effect.provide(printOrEnd(text), services))
  const writeEnd = (text: string) =>
    file === undefined
      ? print(text)
      : Effect.catch(file.append(text), ({ message }) => log(`payments: ${message}`))
  let count = 0
  const output: ListingOutput = {
    records: (texts) =>
      Effect.suspend(() => {
        const text = writer.rows(texts)
        count += texts.length
        return text === "" ? Effect.void : append(text)
      }),
    end: Effect.fnUntraced(function*(ending: Ending) {
      const { complete, error, read } = ending
      const text = writer.end(endingMembers(ending, count))
      if (text !== "") yield* writeEnd(text)
      if (format !== "table") return
      yield* count === 0 && complete && error === undefined
        ? log(read === undefined ? "No records." : `None of the ${read} records matches --where.`)
        : logOmitted(writer.omittedColumns(), "choose columns with --fields")
    }, Effect.provide(services))
  }
  return output
})

const shapeOf = (
  list: Lists.AnyList,
  fields: ReadonlyArray<FieldPath> | undefined,
  { format, width }: Look
): Shape<string> => {
  const columns = format === "table"
    ? columnsOf(list, fields ?? ["id", ...list.tableFields].map(documented), width)
    : (fields ?? documentedFields(list)).map((path): FieldColumn => ({ name: path.header, path }))
  return {
    columns,
    // A record that is no object is one cell.
    cells: (record) => {
      if (!record.startsWith("{")) return [record]
      const read = fieldReader(record)
      return columns.map(({ kind, path }) => cellOf(read(path), kind === "integer"))
    },
    json: fields === undefined ? (record) => record : projection(fields),
    document: "items",
    // Lines are the records as the service sent them.
    output: format === "json" ? listOutput : undefined,
    findsNumbers: false
  }
}

interface FieldColumn extends Heading {
  readonly path: FieldPath
}

const documentedFields = (list: Lists.AnyList): ReadonlyArray<FieldPath> => {
  const paths = Lists.fieldPaths(list)
  // A column for each field of an object replaces the column of the object.
  return paths.filter((path) => !paths.some((inner) => inner.startsWith(`${path}.`))).map(documented)
}

const documented = (path: string): FieldPath => ({ names: path.split("."), header: path, isQuoted: false })

/** Ids up to this length stay on one line of a table. It fits a UUID with a prefix. */
const longestUnwrappedId = 40

/** Returns the columns of a table. The column of ids is wider on a wide terminal. */
const columnsOf = (
  list: Lists.AnyList,
  fields: ReadonlyArray<FieldPath>,
  width: number
): ReadonlyArray<FieldColumn> => {
  const amounts = Lists.amountFields(list)
  return fields.map((path) =>
    path.header === "id"
      ? { path, name: "id", wholeUpTo: Math.max(longestUnwrappedId, Math.floor(width / 2)) }
      : { path, ...headingOf(path.header, amounts) }
  )
}

/** Returns the head of the column of a field. Amounts are integers, and a status is a state. */
export const headingOf = (name: string, amounts: ReadonlyArray<string>): Heading => {
  if (amounts.includes(name)) return { name, kind: "integer" }
  return name === "status" ? { name, kind: "state" } : { name }
}

/** Returns the cell of a field. In a table, null is `null`, the text `null` has quotes, and an absent field is empty. */
const cellOf = (json: string | undefined, isInteger: boolean): Cell => {
  if (json === undefined || json === "null") return { json: "null", csv: null, table: json ?? "" }
  if (json.startsWith("\"")) {
    const text = plainText(json)
    return { json, csv: text, table: text === "null" ? json : text }
  }
  const number = isInteger ? exactNumber(json) : undefined
  return { json, table: Number.isInteger(number) ? String(number) : json }
}

/** Returns the last members of a JSON document, without brackets. */
export const endingMembers = (
  { complete, cursor, error, next, printedOfPage, read, repeated }: Ending,
  count: number
): string =>
  JSON.stringify({
    cursor,
    count,
    complete,
    read,
    printedOfPage: printedOfPage === 0 ? undefined : printedOfPage,
    repeated: repeated === 0 ? undefined : repeated,
    ...(complete ? {} : nextMembers(next)),
    error
  }).slice(1, -1)

export const describe = (error: PaymentsError) => ({
  reason: error.reason._tag,
  message: error.message,
  ...(error.status === undefined ? {} : { status: error.status })
})
