/**
 * Prints the records of a listing. `ndjson` and `json` contain the exact text of each record; a table is for people. On a
 * terminal, control characters are escaped, because text from the API could otherwise control the terminal. Output to a pipe
 * is exact.
 */
import { Lists, membersOf, parseText, type PaymentsError } from "@payments/core"
import { printable } from "@payments/export"
import { canColor, type CommandExit, logLine, print, printOrEnd, requireOutput } from "@payments/export/program"
import { Effect, Stdio, Terminal } from "effect"
import type { Column, Table } from "./Table.ts"

/** The formats of a listing. */
export const formats = ["table", "json", "ndjson"] as const
/** {@inheritDoc formats} */
export type Format = typeof formats[number]

/** A record to print. */
export interface PrintableRecord {
  /** The parsed JSON. */
  readonly value: unknown
  /** The exact text. */
  readonly text: string
  /** Whether the record matches the document. */
  readonly isDocumented: boolean
}

/** Writes the records of one listing. */
export interface Output {
  /** Prints records. Ends the command if the reader of stdout has closed it. */
  readonly records: (records: ReadonlyArray<PrintableRecord>) => Effect.Effect<void, CommandExit>
  /** Ends the document with the cursor of the next page, and with the error that stopped the listing, if any. */
  readonly end: (
    cursor: string | null,
    error?: { readonly reason: string; readonly message: string }
  ) => Effect.Effect<void>
}

/** Makes the output in the given format. The default depends on whether stdout is a terminal. */
export const makeOutput = Effect.fnUntraced(function*(list: Lists.AnyList, wanted: Format | undefined) {
  yield* requireOutput
  const stdio = yield* Stdio.Stdio
  const onTerminal = yield* stdio.stdoutIsTerminal
  const provideStdio = Effect.provideService(Stdio.Stdio, stdio)
  const write = {
    records: (text: string) => provideStdio(printOrEnd(text)),
    end: (text: string) => provideStdio(print(text))
  }
  const toOutput = (text: string) => onTerminal ? printable(text) : text
  switch (wanted ?? (onTerminal ? "table" : "ndjson")) {
    case "ndjson":
      return ndjson(write, toOutput)
    case "json":
      return json(write, toOutput)
    case "table": {
      const { makeTable } = yield* Effect.promise(() => import("./Table.ts"))
      const log = (line: string) => provideStdio(logLine(line))
      const width = onTerminal ? yield* terminalWidth : Infinity
      const columns = columnsOf(list).map(fittedTo(width))
      const style = { onTerminal, colors: yield* canColor }
      return table(makeTable(columns, width, style), { write: write.records, log }, columns)
    }
  }
})

/** The width of the terminal; Infinity if the terminal does not report it. */
export const terminalWidth = Effect.map(
  Effect.flatMap(Terminal.Terminal, ({ columns }) => columns),
  (columns) => columns || Infinity
)

interface Write {
  readonly records: (text: string) => Effect.Effect<void, CommandExit>
  readonly end: (text: string) => Effect.Effect<void>
}

const ndjson = (write: Write, toOutput: (text: string) => string): Output => ({
  records: (records) =>
    records.length === 0 ? Effect.void : write.records(records.map(({ text }) => `${toOutput(text)}\n`).join("")),
  end: () => Effect.void
})

const json = (write: Write, toOutput: (text: string) => string): Output => {
  let count = 0
  const opening = () => count === 0 ? `{"items":[` : ","
  return {
    records: (records) =>
      Effect.suspend(() => {
        if (records.length === 0) return Effect.void
        const text = `${opening()}\n${records.map((record) => toOutput(record.text)).join(",\n")}`
        count += records.length
        return write.records(text)
      }),
    end: (cursor, error) =>
      Effect.suspend(() => {
        const failure = error === undefined ? "" : `,"error":${JSON.stringify(error)}`
        const head = count === 0 ? opening() : "\n"
        return write.end(`${head}],"cursor":${toOutput(JSON.stringify(cursor))},"count":${count}${failure}}\n`)
      })
  }
}

/** Ids up to this length stay on one line of a table. It fits a UUID with a prefix. */
const longestUnwrappedId = 40
const id: Column = { name: "id", wholeUpTo: longestUnwrappedId }
/** Widens the column of ids on a wide terminal. */
const fittedTo = (width: number) => (column: Column): Column =>
  column === id ? { ...id, wholeUpTo: Math.max(longestUnwrappedId, Math.floor(width / 2)) } : column

/** Returns the columns of a list: the id and the fields in its definition. */
const columnsOf = (list: Lists.AnyList): ReadonlyArray<Column> => {
  const amounts = Lists.amountFields(list)
  return [
    id,
    ...list.tableFields.map((name): Column =>
      amounts.includes(name) ? { name, kind: "integer" } : name === "status" ? { name, kind: "state" } : { name }
    )
  ]
}

const table = (
  rows: Table,
  { log, write }: { readonly write: Write["records"]; readonly log: (line: string) => Effect.Effect<void> },
  columns: ReadonlyArray<Column>
): Output => {
  let isEmpty = true
  return {
    records: (records) =>
      Effect.suspend(() => {
        if (records.length === 0) return Effect.void
        isEmpty = false
        return write(rows.print(records.map((record) => cellsOf(record, columns))))
      }),
    end: (cursor, error) => isEmpty && cursor === null && error === undefined ? log("No records.") : Effect.void
  }
}

/**
 * Returns the cells of a record. A null field is `null`, an absent field is empty. If the record does not match the document,
 * a cell is the exact text of its field, because parsing may have rounded it. If it is not an object, the only cell is its text.
 */
const cellsOf = (
  { isDocumented, text, value }: PrintableRecord,
  columns: ReadonlyArray<Column>
): ReadonlyArray<string> => {
  if (isDocumented) return columns.map(({ name }) => cell(value, name))
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [text]
  const members = membersOf(text)
  return columns.map(({ name }) => {
    const member = members.get(name)
    return member === undefined ? "" : member.startsWith("\"") ? String(parseText(member)) : member
  })
}

const cell = (record: unknown, field: string): string => {
  const value: unknown = typeof record === "object" && record !== null
    ? Object.getOwnPropertyDescriptor(record, field)?.value
    : undefined
  return value === undefined
    ? ""
    : value === null
    ? "null"
    : typeof value === "string"
    ? value
    : JSON.stringify(value)
}

/** Returns the `error` member of a JSON document. */
export const describe = (error: PaymentsError) => ({
  reason: error.reason._tag,
  message: error.message,
  ...(error.status === undefined ? {} : { status: error.status })
})
