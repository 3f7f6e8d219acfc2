/**
 * How records leave the program. `ndjson` and `json` carry each record's exact text; a table is for people. What goes to
 * a terminal has its control characters escaped, since text from the API is data; what goes into a pipe is exact.
 */
import { Lists, membersOf, parseText, type PaymentsError } from "@payments/core"
import { printable } from "@payments/export"
import { type CommandExit, logLine, print, printOrEnd, requireOutput } from "@payments/export/program"
import { Effect, Stdio, Terminal } from "effect"
import type { Column, Table } from "./Table.ts"

/** The formats of a listing. */
export const formats = ["table", "json", "ndjson"] as const
/** {@inheritDoc formats} */
export type Format = typeof formats[number]

/** A record, as it is printed. */
export interface Printed {
  /** What was parsed. */
  readonly value: unknown
  /** Its exact text. */
  readonly text: string
  /** Whether it is as the document describes it. */
  readonly isDocumented: boolean
}

/** Writes the records of one listing. */
export interface Output {
  /** Ends the command where nobody reads them any more. */
  readonly records: (records: ReadonlyArray<Printed>) => Effect.Effect<void, CommandExit>
  /** Ends the document: the cursor from which the listing goes on, and the error that stopped it, if any. */
  readonly end: (
    cursor: string | null,
    error?: { readonly reason: string; readonly message: string }
  ) => Effect.Effect<void>
}

/** The output in the given format, or the one that suits where it goes. */
export const makeOutput = Effect.fnUntraced(function*(list: Lists.AnyList, wanted: Format | undefined) {
  yield* requireOutput
  const stdio = yield* Stdio.Stdio
  const onTerminal = yield* stdio.stdoutIsTerminal
  const given = Effect.provideService(Stdio.Stdio, stdio)
  const write = { records: (text: string) => given(printOrEnd(text)), end: (text: string) => given(print(text)) }
  const exact = (text: string) => onTerminal ? printable(text) : text
  switch (wanted ?? (onTerminal ? "table" : "ndjson")) {
    case "ndjson":
      return ndjson(write, exact)
    case "json":
      return json(write, exact)
    case "table": {
      const { makeTable } = yield* Effect.promise(() => import("./Table.ts"))
      const talk = (line: string) => given(logLine(line))
      const width = onTerminal ? yield* terminalWidth : Infinity
      const columns = columnsOf(list).map(fittedTo(width))
      return table(makeTable(columns, width), { write: write.records, talk }, columns)
    }
  }
})

/** A terminal that does not tell its width gets whole lines. */
export const terminalWidth = Effect.map(
  Effect.flatMap(Terminal.Terminal, ({ columns }) => columns),
  (columns) => columns || Infinity
)

interface Write {
  readonly records: (text: string) => Effect.Effect<void, CommandExit>
  readonly end: (text: string) => Effect.Effect<void>
}

const ndjson = (write: Write, exact: (text: string) => string): Output => ({
  records: (records) =>
    records.length === 0 ? Effect.void : write.records(records.map(({ text }) => `${exact(text)}\n`).join("")),
  end: () => Effect.void
})

const json = (write: Write, exact: (text: string) => string): Output => {
  let count = 0
  const opening = () => count === 0 ? `{"items":[` : ","
  return {
    records: (records) =>
      Effect.suspend(() => {
        if (records.length === 0) return Effect.void
        const text = `${opening()}\n${records.map((record) => exact(record.text)).join(",\n")}`
        count += records.length
        return write.records(text)
      }),
    end: (cursor, error) =>
      Effect.suspend(() => {
        const failure = error === undefined ? "" : `,"error":${JSON.stringify(error)}`
        const head = count === 0 ? opening() : "\n"
        return write.end(`${head}],"cursor":${exact(JSON.stringify(cursor))},"count":${count}${failure}}\n`)
      })
  }
}

/** The widest id that stays on one line of a table: a UUID behind a prefix. */
const longestId = 40
/** The digits and the sign of a 64-bit integer. */
const longestAmount = 20

const id: Column = { name: "id", whole: longestId }
/** A wide terminal has room for longer ones. */
const fittedTo = (width: number) => (column: Column): Column =>
  column === id ? { ...id, whole: Math.max(longestId, Math.floor(width / 2)) } : column

/** The columns of a list: the id and the fields that its definition names. */
const columnsOf = (list: Lists.AnyList): ReadonlyArray<Column> => {
  const amounts = Lists.amountFields(list)
  return [
    id,
    ...list.tableFields.map((name): Column =>
      amounts.includes(name) ? { name, align: "right", whole: longestAmount } : { name }
    )
  ]
}

const table = (
  rows: Table,
  { talk, write }: { readonly write: Write["records"]; readonly talk: (line: string) => Effect.Effect<void> },
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
    end: (cursor, error) => isEmpty && cursor === null && error === undefined ? talk("No records.") : Effect.void
  }
}

/**
 * The fields of a record: null is said, absent is blank. Of a record that is not as documented, the exact text of a field
 * is shown, since parsing may have rounded it, and of what is no object all of it.
 */
const cellsOf = ({ isDocumented, text, value }: Printed, columns: ReadonlyArray<Column>): ReadonlyArray<string> => {
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

/** An error as the `error` member of a JSON document. */
export const describe = (error: PaymentsError) => ({
  reason: error.reason._tag,
  message: error.message,
  ...(error.status === undefined ? {} : { status: error.status })
})
