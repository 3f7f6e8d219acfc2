/**
 * How records leave the program. `ndjson` and `json` carry each record's exact text; a table is for people. What goes to
 * a terminal has its control characters escaped, since text from the API is data; what goes into a pipe is exact.
 */
import type { Lists, PaymentsError } from "@payments/core"
import { printable } from "@payments/export"
import { type Ended, print, printOrEnd, say } from "@payments/export/program"
import type CliTable from "cli-table3"
import { Effect, Stdio, Terminal } from "effect"

/** The formats of a listing. */
export const formats = ["table", "json", "ndjson"] as const
/** {@inheritDoc formats} */
export type Format = typeof formats[number]

/** Writes the records of one listing. */
export interface Output {
  /** Ends the command where nobody reads them any more. */
  readonly records: (records: ReadonlyArray<unknown>, texts: ReadonlyArray<string>) => Effect.Effect<void, Ended>
  /** Ends the document: the cursor from which the listing goes on, and the error that stopped it, if any. */
  readonly end: (
    cursor: string | null,
    error?: { readonly reason: string; readonly message: string }
  ) => Effect.Effect<void>
}

/** The output in the given format, or the one that suits where it goes. */
export const makeOutput = Effect.fnUntraced(function*(list: Lists.AnyList, wanted: Format | undefined) {
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
      const { default: Table } = yield* Effect.promise(() => import("cli-table3"))
      const talk = (line: string) => given(say(line))
      return table(Table, { write: write.records, talk }, list, onTerminal ? yield* terminalWidth : Infinity)
    }
  }
})

/** A terminal that does not tell its width gets whole lines. */
export const terminalWidth = Effect.map(
  Effect.flatMap(Terminal.Terminal, ({ columns }) => columns),
  (columns) => columns || Infinity
)

interface Write {
  readonly records: (text: string) => Effect.Effect<void, Ended>
  readonly end: (text: string) => Effect.Effect<void>
}

const ndjson = (write: Write, exact: (text: string) => string): Output => ({
  records: (_, texts) =>
    texts.length === 0 ? Effect.void : write.records(texts.map((text) => `${exact(text)}\n`).join("")),
  end: () => Effect.void
})

const json = (write: Write, exact: (text: string) => string): Output => {
  let count = 0
  const opening = () => count === 0 ? `{"items":[` : ","
  return {
    records: (_, texts) =>
      Effect.suspend(() => {
        if (texts.length === 0) return Effect.void
        const text = `${opening()}\n${texts.map(exact).join(",\n")}`
        count += texts.length
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

/** What a table shows of a record: the fields that tell records apart, no personal data. */
const shown: { readonly [Name in Lists.ListName]: ReadonlyArray<string> } = {
  payoutRequests: ["id", "amount", "status", "reference", "customerId", "fee", "createdAt", "statusMessage"],
  payinSources: ["id", "status", "reference", "customerId", "createdAt", "type", "description"],
  invoices: ["id", "amount", "status", "reference", "contract", "settlementDate", "settlementTime", "paymentDate"]
}

const narrowest = 12
const gap = 2

/** Never cut: a sum that is not whole is another sum, and an id is there to be copied. */
const whole = new Set(["id", "amount", "fee"])

/** The widths of the first page's columns: the widest narrowed until the line fits, then the last ones left out. */
const fit = (fields: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>, width: number) => {
  const widths = fields.map((field, column) =>
    gap + Math.max(field.length, ...rows.map((row) => row[column]?.length ?? 0))
  )
  while (widths.length > 1 && widths.reduce((left, right) => left + right, 0) > width) {
    const narrowable = widths.map((wide, column) => whole.has(fields[column] ?? "") ? 0 : wide)
    const widest = Math.max(...narrowable)
    if (widest > narrowest) widths[narrowable.indexOf(widest)] = widest - 1
    else widths.pop()
  }
  return widths
}

const noLines = {
  "top": "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  "bottom": "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  "left": "",
  "left-mid": "",
  "mid": "",
  "mid-mid": "",
  "right": "",
  "right-mid": "",
  "middle": ""
} as const

const table = (
  Table: typeof CliTable,
  { talk, write }: { readonly write: Write["records"]; readonly talk: (line: string) => Effect.Effect<void> },
  list: Lists.AnyList,
  width: number
): Output => {
  const fields = shown[list.name]
  let widths: ReadonlyArray<number> | undefined
  return {
    records: (records) =>
      Effect.suspend(() => {
        if (records.length === 0) return Effect.void
        const rows = records.map((record) => fields.map((field) => cell(record, field)))
        const head = widths === undefined ? [fields] : []
        widths = (widths ?? fit(fields, rows, width)).map((wide, column) =>
          whole.has(fields[column] ?? "")
            ? Math.max(wide, ...rows.map((row) => gap + (row[column]?.length ?? 0)))
            : wide
        )
        const page = new Table({
          colWidths: [...widths],
          colAligns: fields.map((field) => numeric.has(field) ? "right" : "left"),
          chars: noLines,
          style: { "padding-left": 0, "padding-right": gap, compact: true }
        })
        page.push(...[...head, ...rows].map((row) => row.slice(0, widths?.length)))
        return write(`${page.toString().split("\n").map((line) => line.trimEnd()).join("\n")}\n`)
      }),
    end: (cursor, error) =>
      widths === undefined && cursor === null && error === undefined ? talk("No records.") : Effect.void
  }
}

const numeric = new Set(["amount", "fee"])

/** A field as one line: null is said, absent is blank. */
const cell = (record: unknown, field: string): string => {
  const value: unknown = typeof record === "object" && record !== null
    ? Object.getOwnPropertyDescriptor(record, field)?.value
    : undefined
  return value === undefined
    ? ""
    : value === null
    ? "null"
    : printable(typeof value === "string" ? value : JSON.stringify(value))
}

/** An error as the `error` member of a JSON document. */
export const describe = (error: PaymentsError) => ({
  reason: error.reason._tag,
  message: error.message,
  ...(error.status === undefined ? {} : { status: error.status })
})
