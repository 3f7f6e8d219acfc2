/**
 * How rows leave the program: as a table for people, as CSV, or as JSON. Every value is printed exactly: it comes as text,
 * never as a number that could be rounded. What goes to a terminal has its control characters escaped.
 */
import { type Cell, printable } from "@payments/export"
import type * as Csv from "@payments/export/csv"
import { logLine, optionalFlag, printOrEnd, requireOutput } from "@payments/export/program"
import { Effect, Stdio, Stream } from "effect"
import { Flag } from "effect/cli"
import { terminalWidth } from "./Output.ts"
import type * as Table from "./Table.ts"

/** The formats of rows. */
export const rowFormats = ["table", "csv", "json", "ndjson"] as const
/** {@inheritDoc rowFormats} */
export type RowFormat = typeof rowFormats[number]

/** The format of rows, or the one that suits where they go. */
export const rowFormatFlag = optionalFlag(
  Flag.Literals("format", rowFormats).pipe(
    Flag.withDescription("table on a terminal, ndjson in a pipe, unless given")
  )
)

/** A row: a cell for each column. */
export type Cells = ReadonlyArray<Cell>

/** A column: its name, and how a table shows it. */
export interface Column extends Table.Column {
  /** Whether a table leaves it out: it is for programs. */
  readonly hidden?: boolean
  /** The width of a terminal that has room for it; any unless given. */
  readonly roomFrom?: number
}

/** Text for the beginning, for rows as they come, and for the end. */
interface RowsText {
  readonly head: string
  readonly rows: (rows: ReadonlyArray<Cells>) => string
  readonly end: string
  /** The columns that the terminal had no room for. */
  readonly hidden: () => ReadonlyArray<string>
}

/**
 * Prints the rows as they come; where there is none, says `nothing` beside the output. Ends the command when nobody reads
 * the rows any more.
 */
export const printRows = Effect.fnUntraced(function*<E, R>(
  columns: ReadonlyArray<Column>,
  rows: Stream.Stream<ReadonlyArray<Cells>, E, R>,
  wanted: RowFormat | undefined,
  nothing: string
) {
  const stdio = yield* Stdio.Stdio
  const onTerminal = yield* stdio.stdoutIsTerminal
  const format = wanted ?? (onTerminal ? "table" : "ndjson")
  yield* requireOutput
  const text = yield* textOf(
    format,
    columns,
    onTerminal ? yield* terminalWidth : Infinity,
    onTerminal ? printable : (exact) => exact
  )
  yield* printOrEnd(text.head)
  let count = 0
  yield* Stream.runForEach(
    rows,
    (some) =>
      Effect.suspend(() => {
        count += some.length
        return printOrEnd(text.rows(some))
      })
  )
  yield* printOrEnd(text.end)
  if (count === 0) yield* logLine(nothing)
  const hidden = text.hidden()
  if (hidden.length > 0) {
    yield* logLine(`The terminal has no room for: ${hidden.map(printable).join(", ")}. Widen it, or use --format json.`)
  }
})

const none = () => []

const textOf = (
  format: RowFormat,
  columns: ReadonlyArray<Column>,
  width: number,
  exact: (text: string) => string
): Effect.Effect<RowsText> => {
  switch (format) {
    case "table":
      return Effect.map(Effect.promise(() => import("./Table.ts")), (module) => tableText(module, columns, width))
    case "csv":
      return Effect.map(
        Effect.promise(() => import("@payments/export/csv")),
        (module) => csvText(module, columns, exact)
      )
    case "json":
      return Effect.succeed(jsonText(columns, exact))
    case "ndjson": {
      const line = objectOf(columns, exact)
      return Effect.succeed({
        head: "",
        rows: (rows) => rows.map((row) => `${line(row)}\n`).join(""),
        end: "",
        hidden: none
      })
    }
  }
}

const jsonText = (columns: ReadonlyArray<Column>, exact: (text: string) => string): RowsText => {
  const object = objectOf(columns, exact)
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
    hidden: none
  }
}

/** A row as an object. A name that comes again gets a number: a parser would keep only one of them. */
const objectOf = (columns: ReadonlyArray<Column>, exact: (text: string) => string) => {
  const seen = new Set<string>()
  const names = columns.map(({ name }) => {
    let unique = name
    for (let number = 2; seen.has(unique); number++) unique = `${name}_${number}`
    seen.add(unique)
    return JSON.stringify(unique)
  })
  return (row: Cells): string =>
    exact(`{${names.map((name, column) => `${name}:${jsonOf(row[column] ?? null)}`).join(",")}}`)
}

const jsonOf = (cell: Cell): string =>
  cell === null ? "null" : typeof cell === "string" ? JSON.stringify(cell) : cell.json

const csvText = (
  csv: typeof Csv,
  columns: ReadonlyArray<Column>,
  exact: (text: string) => string
): RowsText => {
  const text = (cell: string) => csv.fieldText(exact(cell), "escape")
  const field = (cell: Cell): string | null => {
    if (cell === null) return null
    if (typeof cell === "string") return text(cell)
    const { csv: written = cell.json } = cell
    // A number that begins with a minus sign is no formula.
    return written === null || isNumber(cell) ? written : text(written)
  }
  return {
    head: csv.csvText([columns.map(({ name }) => text(name))], "keep"),
    rows: (rows) => csv.csvText(rows.map((row) => row.map(field)), "keep"),
    end: "",
    hidden: none
  }
}

const isNumber = (cell: Cell): boolean => cell !== null && typeof cell !== "string" && /^-?\d/.test(cell.json)

/** Distinguishes null from text that looks like it. */
const shown = (cell: Cell): string =>
  cell === null ? "NULL" : cell === "NULL" ? `"NULL"` : typeof cell === "string" ? cell : cell.table ?? cell.json

/** Digits that are never cut: those of a 64-bit integer, and of sums beyond it. */
const longestNumber = 40

const tableText = (
  { makeTable }: typeof Table,
  columns: ReadonlyArray<Column>,
  width: number
): RowsText => {
  const visible = columns.flatMap((column, index) =>
    column.hidden !== true && width >= (column.roomFrom ?? 0) ? [{ column, index }] : []
  )
  let table: Table.Table | undefined
  return {
    head: "",
    rows: (rows) => {
      table ??= makeTable(
        visible.map(({ column, index }) =>
          // The first rows show which columns hold numbers: they are never cut.
          rows.some((row) => isNumber(row[index] ?? null))
            ? { align: "right" as const, whole: longestNumber, ...column }
            : column
        ),
        width
      )
      return table.print(rows.map((row) => visible.map(({ index }) => shown(row[index] ?? null))))
    },
    end: "",
    hidden: () => table?.hidden() ?? []
  }
}
