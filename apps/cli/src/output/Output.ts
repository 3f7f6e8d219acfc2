/**
 * Prints the records of a listing. `ndjson` and `json` contain the exact text of each record or of the chosen fields; `csv` has
 * a column for each field; a table is for people. On a terminal, control characters are escaped, because text from the API
 * could otherwise control the terminal. Output to a pipe is exact.
 */
import { type FieldPath, printable } from "@payments/copy"
import type * as Csv from "@payments/copy/csv"
import { exactNumber, Lists, type PaymentsError } from "@payments/core"
import {
  canColor,
  type CommandExit,
  logLine,
  type Next,
  nextMembers,
  print,
  printOrEnd,
  requireOutput
} from "@payments/program"
import { Effect, Stdio, Terminal } from "effect"
import type { OutputFile } from "./OutputFile.ts"
import { fieldReader, plainText, projection } from "./PrintedRecord.ts"
import type { Column, Table } from "./Table.ts"

/** The formats of a listing. */
export const formats = ["table", "json", "ndjson", "csv"] as const
/** {@inheritDoc formats} */
export type Format = typeof formats[number]

/** How a listing ended. */
export interface Ending {
  /** The cursor of the next page, or of a page that was printed in part; null at the start and at the end. */
  readonly cursor: string | null
  /** Whether the listing reached the end of the list. */
  readonly complete: boolean
  /** The command that continues the listing, if it is not complete. */
  readonly next: Next | undefined
  /** How many records were read, if not all of them were printed. */
  readonly read: number | undefined
  /** How many records of the page at the cursor were printed. */
  readonly printedOfPage: number
  /** How many records are repeated: the service returned them more than once. Known if the listing keeps the records. */
  readonly repeated: number
  /** The error that stopped the listing. */
  readonly error?: { readonly reason: string; readonly message: string } | undefined
}

/** Writes the records of one listing. */
export interface Output {
  /** Prints the exact texts of records. Ends the command if the reader of stdout has closed it. */
  readonly records: (texts: ReadonlyArray<string>) => Effect.Effect<void, CommandExit>
  /** Ends the document. */
  readonly end: (ending: Ending) => Effect.Effect<void>
}

/** Returns the format to print. The default depends on whether stdout is a terminal. */
export const chosenFormat = (wanted: Format | undefined) =>
  Effect.flatMap(
    Stdio.Stdio,
    (stdio) => Effect.map(stdio.stdoutIsTerminal, (onTerminal): Format => wanted ?? (onTerminal ? "table" : "ndjson"))
  )

/** What is printed of a list, and where. */
interface OutputOptions {
  readonly format: Format
  /** The fields to print; by default those of the format. */
  readonly fields: ReadonlyArray<FieldPath> | undefined
  /** The file that gets the records instead of stdout. */
  readonly file: OutputFile | undefined
  /** Whether the records follow those of an earlier run, so that CSV has its header already. */
  readonly isContinued: boolean
}

/** Makes the output of the records of a list. */
export const makeOutput = Effect.fnUntraced(function*(
  list: Lists.AnyList,
  { fields, file, format, isContinued }: OutputOptions
) {
  if (file === undefined) yield* requireOutput
  const stdio = yield* Stdio.Stdio
  const terminal = yield* Terminal.Terminal
  const onTerminal = file === undefined && (yield* stdio.stdoutIsTerminal)
  const provideStdio = Effect.provideService(Stdio.Stdio, stdio)
  const write: Write = {
    records: file?.append ?? ((text) => provideStdio(printOrEnd(text))),
    end: (text) =>
      file === undefined
        ? provideStdio(print(text))
        : Effect.catch(file.append(text), ({ message }) => write.log(`payments: ${message}`)),
    log: (line) =>
      provideStdio(Effect.provideService(Effect.flatMap(wrapped(line), logLine), Terminal.Terminal, terminal)),
    toOutput: (text) => onTerminal ? printable(text) : text
  }
  const project = fields === undefined ? (text: string) => text : projection(fields)
  switch (format) {
    case "ndjson":
      return ndjson(write, project)
    case "json":
      return jsonDocument(write, project)
    case "csv": {
      const csv = yield* Effect.promise(() => import("@payments/copy/csv"))
      return csvOutput(csv, write, fields ?? documentedFields(list), isContinued)
    }
    case "table": {
      const { makeTable } = yield* Effect.promise(() => import("./Table.ts"))
      const width = onTerminal ? yield* terminalWidth : Infinity
      const columns = columnsOf(list, fields ?? tableFields(list), width)
      const style = { onTerminal, colors: yield* canColor }
      return tableOutput(makeTable(columns, width, style), write, columns)
    }
  }
})

/** The width of the terminal; Infinity if the terminal does not report it. */
export const terminalWidth = Effect.map(
  Effect.flatMap(Terminal.Terminal, ({ columns }) => columns),
  (columns) => columns || Infinity
)

/** Returns the text with its words wrapped for the terminal. Without a terminal the text is unchanged. */
export const wrapped = Effect.fnUntraced(function*(text: string) {
  const width = (yield* (yield* Stdio.Stdio).stderrIsTerminal) ? yield* terminalWidth : Infinity
  if (width === Infinity) return text
  const { wrapWords } = yield* Effect.promise(() => import("./TextWidth.ts"))
  return wrapWords(text, width).join("\n")
})

/** Writes a message for people to stderr, wrapped for the terminal. */
export const logWrapped = (text: string) => Effect.flatMap(wrapped(text), logLine)

interface Write {
  readonly records: (text: string) => Effect.Effect<void, CommandExit>
  readonly end: (text: string) => Effect.Effect<void>
  readonly log: (line: string) => Effect.Effect<void>
  readonly toOutput: (text: string) => string
}

type Project = (record: string) => string

const ndjson = ({ records, toOutput }: Write, project: Project): Output => ({
  records: (texts) =>
    texts.length === 0 ? Effect.void : records(texts.map((text) => `${toOutput(project(text))}\n`).join("")),
  end: () => Effect.void
})

const jsonDocument = ({ end, records, toOutput }: Write, project: Project): Output => {
  let count = 0
  const opening = () => count === 0 ? `{"items":[` : ","
  return {
    records: (texts) =>
      Effect.suspend(() => {
        if (texts.length === 0) return Effect.void
        const text = `${opening()}\n${texts.map((record) => toOutput(project(record))).join(",\n")}`
        count += texts.length
        return records(text)
      }),
    end: (ending) =>
      Effect.suspend(() => end(`${count === 0 ? opening() : "\n"}],${toOutput(endingMembers(ending, count))}}\n`))
  }
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

const documentedFields = (list: Lists.AnyList): ReadonlyArray<FieldPath> => {
  const paths = Lists.fieldPaths(list)
  // A column for each field of an object replaces the column of the object.
  return paths.filter((path) => !paths.some((inner) => inner.startsWith(`${path}.`))).map(documented)
}

const documented = (path: string): FieldPath => ({ names: path.split("."), header: path, isQuoted: false })

const csvOutput = (
  csv: typeof Csv,
  { end, records, toOutput }: Write,
  fields: ReadonlyArray<FieldPath>,
  isContinued: boolean
): Output => {
  const field = (text: string) => csv.fieldText(toOutput(text), "escape")
  const head = csv.csvText([fields.map(({ header }) => field(header))], "keep")
  let isHeadPrinted = isContinued
  const row = (record: string) => {
    if (!record.startsWith("{")) return [field(record)]
    const read = fieldReader(record)
    return fields.map((path) => {
      const json = read(path)
      if (json === undefined || json === "null") return null
      // A number is not escaped: a negative one begins with a minus sign, but it is no formula.
      return json.startsWith("\"") ? field(plainText(json)) : toOutput(json)
    })
  }
  return {
    records: (texts) =>
      Effect.suspend(() => {
        const rows = csv.csvText(texts.map(row), "keep")
        const text = isHeadPrinted ? rows : head + rows
        isHeadPrinted = true
        return records(text)
      }),
    end: () => Effect.suspend(() => isHeadPrinted ? Effect.void : end(head))
  }
}

/** Ids up to this length stay on one line of a table. It fits a UUID with a prefix. */
const longestUnwrappedId = 40

const tableFields = (list: Lists.AnyList): ReadonlyArray<FieldPath> => ["id", ...list.tableFields].map(documented)

interface FieldColumn extends Column {
  readonly path: FieldPath
}

/** Returns the columns of a table. The column of ids is wider on a wide terminal. */
const columnsOf = (
  list: Lists.AnyList,
  fields: ReadonlyArray<FieldPath>,
  width: number
): ReadonlyArray<FieldColumn> => {
  const amounts = Lists.amountFields(list)
  return fields.map((path): FieldColumn => {
    const { header: name } = path
    return name === "id"
      ? { path, name, wholeUpTo: Math.max(longestUnwrappedId, Math.floor(width / 2)) }
      : amounts.includes(name)
      ? { path, name, kind: "integer" }
      : name === "status"
      ? { path, name, kind: "state" }
      : { path, name }
  })
}

const tableOutput = (table: Table, { log, records }: Write, columns: ReadonlyArray<FieldColumn>): Output => {
  let isEmpty = true
  return {
    records: (texts) =>
      Effect.suspend(() => {
        if (texts.length === 0) return Effect.void
        isEmpty = false
        return records(table.print(texts.map((text) => cellsOf(text, columns))))
      }),
    end: ({ complete, error, read }) =>
      isEmpty && complete && error === undefined
        ? log(read === undefined ? "No records." : `None of the ${read} records matches --where.`)
        : logOmittedColumns(table, log)
  }
}

/** Names the columns that did not fit on the terminal. */
const logOmittedColumns = (table: Table, log: Write["log"]) => {
  const omitted = table.omittedColumns()
  return omitted.length === 0
    ? Effect.void
    : log(
      `The terminal has no room for: ${omitted.map(printable).join(", ")}. Widen it, or choose columns with --fields.`
    )
}

/**
 * Returns the cells of a record. A null field is `null`, and the text `null` has quotes. An absent field is empty. A record that is
 * no object is one cell.
 */
const cellsOf = (record: string, columns: ReadonlyArray<FieldColumn>): ReadonlyArray<string> => {
  if (!record.startsWith("{")) return [record]
  const read = fieldReader(record)
  return columns.map(({ kind, path }) => {
    const json = read(path)
    if (json === undefined) return ""
    const number = kind === "integer" ? exactNumber(json) : undefined
    if (Number.isInteger(number)) return String(number)
    return json === `"null"` ? json : plainText(json)
  })
}

/** Returns the `error` member of a JSON document. */
export const describe = (error: PaymentsError) => ({
  reason: error.reason._tag,
  message: error.message,
  ...(error.status === undefined ? {} : { status: error.status })
})
