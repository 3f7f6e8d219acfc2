/**
 * Prints rows as a table for people, as CSV or as JSON. A number arrives as text, so that it is never rounded. Output to a
 * terminal has its control characters escaped.
 */
import { type Cell, printable } from "@payments/copy"
import type * as Csv from "@payments/copy/csv"
import { canColor, logLine, optionalFlag, printOrEnd, requireOutput } from "@payments/program"
import { Effect, Stdio, Stream } from "effect"
import { Flag } from "effect/cli"
import { logWrapped, terminalWidth } from "./Output.ts"
import type * as Table from "./Table.ts"

/** The formats of rows. */
export const rowFormats = ["table", "csv", "json", "ndjson"] as const
/** {@inheritDoc rowFormats} */
export type RowFormat = typeof rowFormats[number]

/** The format of rows. The default depends on whether stdout is a terminal. */
export const rowFormatFlag = optionalFlag(
  Flag.Literals("format", rowFormats).pipe(
    Flag.withDescription("default: table on a terminal, ndjson in a pipe")
  )
)

/** Returns the format to print, the width of the terminal, which is Infinity if stdout is none, and the style of tables. */
export const formatOf = Effect.fnUntraced(function*(wanted: RowFormat | undefined) {
  const stdio = yield* Stdio.Stdio
  const onTerminal = yield* stdio.stdoutIsTerminal
  const format: RowFormat = wanted ?? (onTerminal ? "table" : "ndjson")
  const style: Table.TableStyle = { onTerminal, colors: yield* canColor }
  return { format, style, width: onTerminal ? yield* terminalWidth : Infinity }
})

/** A row: a cell for each column. */
export type Cells = ReadonlyArray<Cell>

/** A column of the output. */
export interface Column extends Table.Column {
  /** Whether a table omits the column, because only programs need it. */
  readonly hidden?: boolean
  /** The least width of a terminal on which a table shows the column; any width by default. */
  readonly minTerminalWidth?: number
}

/** Formats rows as text. `head` precedes all rows and `end` follows them. */
interface RowsFormatter {
  readonly head: string
  readonly rows: (rows: ReadonlyArray<Cells>) => string
  readonly end: string
  /** The columns that did not fit on the terminal. */
  readonly omittedColumns: () => ReadonlyArray<string>
}

/**
 * Prints the rows as they arrive. If there are none, prints `emptyMessage` on stderr. Ends the command when the reader of stdout
 * has closed it. `afterBatch` runs after each batch was written.
 */
export const printRows = Effect.fnUntraced(function*<E, R, E2 = never, R2 = never>(
  columns: ReadonlyArray<Column>,
  rows: Stream.Stream<ReadonlyArray<Cells>, E, R>,
  wanted: RowFormat | undefined,
  emptyMessage: string,
  afterBatch?: Effect.Effect<void, E2, R2>
) {
  const { format, style, width } = yield* formatOf(wanted)
  yield* requireOutput
  const formatter = yield* formatterOf(format, columns, width, style)
  yield* printOrEnd(formatter.head)
  let count = 0
  yield* Stream.runForEach(
    rows,
    (batch) =>
      Effect.suspend(() => {
        count += batch.length
        return Effect.andThen(
          batch.length === 0 ? Effect.void : printOrEnd(formatter.rows(batch)),
          afterBatch ?? Effect.void
        )
      })
  )
  yield* printOrEnd(formatter.end)
  if (count === 0) yield* logLine(emptyMessage)
  yield* logOmitted(formatter.omittedColumns())
})

/** Names the columns that did not fit on the terminal. */
export const logOmitted = (columns: ReadonlyArray<string>) =>
  columns.length === 0
    ? Effect.void
    : logWrapped(`The terminal has no room for: ${columns.map(printable).join(", ")}. Widen it, or use --format json.`)

const none = () => []

const formatterOf = (
  format: RowFormat,
  columns: ReadonlyArray<Column>,
  width: number,
  style: Table.TableStyle
): Effect.Effect<RowsFormatter> => {
  const toOutput = style.onTerminal ? printable : (text: string) => text
  switch (format) {
    case "table":
      return Effect.map(
        Effect.promise(() => import("./Table.ts")),
        (module) => tableFormatter(module, columns, width, style)
      )
    case "csv":
      return Effect.map(
        Effect.promise(() => import("@payments/copy/csv")),
        (module) => csvFormatter(module, columns, toOutput)
      )
    case "json":
      return Effect.succeed(jsonFormatter(columns, toOutput))
    case "ndjson": {
      const line = objectOf(columns, toOutput)
      return Effect.succeed({
        head: "",
        rows: (rows) => rows.map((row) => `${line(row)}\n`).join(""),
        end: "",
        omittedColumns: none
      })
    }
  }
}

const jsonFormatter = (columns: ReadonlyArray<Column>, toOutput: (text: string) => string): RowsFormatter => {
  const object = objectOf(columns, toOutput)
  let isFirst = true
  return {
    head: "[",
    rows: (rows) =>
      rows.map((row) => {
        const separator = isFirst ? "\n" : ",\n"
        isFirst = false
        return `${separator}${object(row)}`
      }).join(""),
    end: "\n]\n",
    omittedColumns: none
  }
}

/** Returns a function that formats a row as a JSON object. It numbers equal names, since a parser would keep only one. */
const objectOf = (columns: ReadonlyArray<Column>, toOutput: (text: string) => string) => {
  const seen = new Set<string>()
  const names = columns.map(({ name }) => {
    let unique = name
    for (let number = 2; seen.has(unique); number++) unique = `${name}_${number}`
    seen.add(unique)
    return JSON.stringify(unique)
  })
  return (row: Cells): string =>
    toOutput(`{${names.map((name, column) => `${name}:${jsonOf(row[column] ?? null)}`).join(",")}}`)
}

const jsonOf = (cell: Cell): string =>
  cell === null ? "null" : typeof cell === "string" ? JSON.stringify(cell) : cell.json

const csvFormatter = (
  csv: typeof Csv,
  columns: ReadonlyArray<Column>,
  toOutput: (text: string) => string
): RowsFormatter => {
  const text = (cell: string) => csv.fieldText(toOutput(cell), "escape")
  const field = (cell: Cell): string | null => {
    if (cell === null) return null
    if (typeof cell === "string") return text(cell)
    const { csv: content = cell.json } = cell
    // A number is not escaped: a negative one begins with a minus sign, but it is no formula.
    return content === null || isNumber(cell) ? content : text(content)
  }
  return {
    head: csv.csvText([columns.map(({ name }) => text(name))], "keep"),
    rows: (rows) => csv.csvText(rows.map((row) => row.map(field)), "keep"),
    end: "",
    omittedColumns: none
  }
}

const isNumber = (cell: Cell): boolean => cell !== null && typeof cell !== "string" && /^-?\d/.test(cell.json)

/** Returns the text of a cell in a table. Null is `NULL`; the text `NULL` has quotes. */
const tableCell = (cell: Cell): string =>
  cell === null ? "NULL" : cell === "NULL" ? `"NULL"` : typeof cell === "string" ? cell : cell.table ?? cell.json

/** A number up to this length is never shortened. 64-bit integers and their sums are shorter. */
const longestNumber = 40

const tableFormatter = (
  { makeTable }: typeof Table,
  columns: ReadonlyArray<Column>,
  width: number,
  style: Table.TableStyle
): RowsFormatter => {
  const visible = columns.flatMap((column, index) =>
    column.hidden !== true && width >= (column.minTerminalWidth ?? 0) ? [{ column, index }] : []
  )
  let table: Table.Table | undefined
  return {
    head: "",
    rows: (rows) => {
      table ??= makeTable(
        visible.map(({ column, index }) =>
          // The first rows decide which columns contain numbers. Numbers are never shortened.
          rows.some((row) => isNumber(row[index] ?? null))
            ? { align: "right" as const, wholeUpTo: longestNumber, ...column }
            : column
        ),
        width,
        style
      )
      return table.print(rows.map((row) => visible.map(({ index }) => tableCell(row[index] ?? null))))
    },
    end: "",
    omittedColumns: () => table?.omittedColumns() ?? []
  }
}
