/**
 * Writes rows as they arrive: as a table for people, as CSV, as lines of JSON or as one JSON document. A number arrives as text, so
 * that it is never rounded. Output to a terminal has its control characters escaped.
 */
import { type Cell, printable } from "@payments/copy"
import { canColor, contract, logLine, optionalFlag, printOrEnd, requireOutput, terminalWidth } from "@payments/program"
import { Effect, Stdio, Stream } from "effect"
import { Flag } from "effect/cli"
import { type CsvDialect, usualDialect } from "./CsvDialect.ts"
import type * as Table from "./Table.ts"
import { logWrapped } from "./Wrapped.ts"

export const rowFormats = ["table", "csv", "json", "ndjson"] as const
export type RowFormat = typeof rowFormats[number]

/** The format of rows. The default depends on whether stdout is a terminal. */
export const rowFormatFlag = optionalFlag(
  Flag.Literals("format", rowFormats).pipe(
    Flag.withDescription("default: table on a terminal, ndjson in a pipe")
  )
)

/** How rows look: their format, the width of the terminal, which is Infinity if stdout is none, and the style of tables. */
export interface Look {
  readonly format: RowFormat
  readonly width: number
  readonly style: Table.TableStyle
  /** By default that of RFC 4180. */
  readonly csv?: CsvDialect | undefined
}

export const lookOf = Effect.fnUntraced(function*(wanted: RowFormat | undefined, csv?: CsvDialect) {
  const onTerminal = yield* (yield* Stdio.Stdio).stdoutIsTerminal
  const look: Look = {
    format: wanted ?? (onTerminal ? "table" : "ndjson"),
    style: { onTerminal, colors: yield* canColor },
    width: yield* terminalWidth,
    csv
  }
  return look
})

/** Returns the function that makes text safe where it is shown. */
export const shownAs = ({ style }: Look): (text: string) => string => style.onTerminal ? printable : (text) => text

/** The cells of a row whose columns are known only when the program runs. */
export type Cells = ReadonlyArray<Cell>

export interface Heading extends Table.Column {
  /** Whether a table omits the column, because only programs need it. */
  readonly hidden?: boolean
  /** The least width of a terminal on which a table shows the column; any width by default. */
  readonly minTerminalWidth?: number
}

/** A column with the cell that each row has in it. */
export interface Column<Row> extends Heading {
  readonly of: (row: Row) => Cell
}

/** Returns the columns of rows that have a cell for each of them. */
export const columnsOfCells = (headings: ReadonlyArray<Heading>): ReadonlyArray<Column<Cells>> =>
  headings.map((heading, index) => ({ ...heading, of: (row) => row[index] ?? null }))

export const numberCell = (number: number): Cell => ({ json: String(number) })

export interface Shape<Row> {
  readonly columns: ReadonlyArray<Heading>
  readonly cells: (row: Row) => Cells
  /** The exact JSON of a row; by default an object with a member for each column. */
  readonly json?: (row: Row) => string
  /** `array` by default. `items` is an object whose first member has the rows; the end of the document has the others. */
  readonly document?: "array" | "items"
  /** The output of these rows, whose version JSON has. Without one, its members are those of somebody else. */
  readonly output?: contract.JsonOutput | undefined
  /** Whether columns are also taken for columns of numbers if the first rows have numbers there; by default true. */
  readonly findsNumbers?: boolean
  /** Whether the rows follow earlier ones, so that CSV has its header already. */
  readonly isContinued?: boolean
}

export interface RowWriter<Row> {
  /** Formats the next rows. What precedes all rows comes with the first call, in a document of items with the first row. */
  readonly rows: (rows: ReadonlyArray<Row>) => string
  /** Ends the output. A document of items gets these members, without brackets. */
  readonly end: (members?: string) => string
  /** The columns that did not fit on the terminal. */
  readonly omittedColumns: () => ReadonlyArray<string>
}

export const makeRowWriter = <Row>(shape: Shape<Row>, look: Look): Effect.Effect<RowWriter<Row>> =>
  makers[look.format](shape, look)

const none = () => []

const ndjsonWriter = <Row>(shape: Shape<Row>, look: Look): Effect.Effect<RowWriter<Row>> => {
  const json = versioned(shape.output, jsonOf(shape, look))
  return Effect.succeed({
    rows: (rows) => rows.map((row) => `${json(row)}\n`).join(""),
    end: () => "",
    omittedColumns: none
  })
}

const jsonWriter = <Row>(shape: Shape<Row>, look: Look): Effect.Effect<RowWriter<Row>> => {
  const isArray = shape.document !== "items"
  const json = versioned(isArray ? shape.output : undefined, jsonOf(shape, look))
  let hasHead = false
  let hasRows = false
  const head = () => {
    if (hasHead) return ""
    hasHead = true
    return isArray ? "[" : `{"items":[`
  }
  return Effect.succeed({
    rows: (rows) => {
      if (rows.length === 0) return isArray ? head() : ""
      const start = `${head()}${hasRows ? "," : ""}\n`
      hasRows = true
      return start + rows.map(json).join(",\n")
    },
    end: (members = "") => {
      const start = `${head()}${isArray || hasRows ? "\n" : ""}]`
      if (isArray) return `${start}\n`
      const version = shape.output === undefined ? [] : [contract.versionText(shape.output)]
      const others = [...members === "" ? [] : [shownAs(look)(members)], ...version]
      return `${[start, ...others].join(",")}}\n`
    },
    omittedColumns: none
  })
}

/** Returns a function that formats a row with the version of its output as the last member. */
const versioned = <Row>(output: contract.JsonOutput | undefined, json: (row: Row) => string): (row: Row) => string => {
  if (output === undefined) return json
  const end = `${contract.versionText(output)}}`
  return (row) => {
    const text = json(row)
    return `${text.slice(0, -1)}${text === "{}" ? "" : ","}${end}`
  }
}

/** Returns a function that formats a row as a JSON object. Equal names get numbers, since a parser would keep only one. */
const jsonOf = <Row>({ cells, columns, json }: Shape<Row>, look: Look): (row: Row) => string => {
  const toOutput = shownAs(look)
  if (json !== undefined) return (row) => toOutput(json(row))
  const names = memberNames(columns.map(({ name }) => name)).map((name) => JSON.stringify(name))
  return (row) => toOutput(`{${cells(row).map((cell, index) => `${names[index]}:${jsonText(cell)}`).join(",")}}`)
}

/** Returns the names of the members of a row, in the order of its columns. They are different. */
export const memberNames = (columns: ReadonlyArray<string>): ReadonlyArray<string> => {
  const seen = new Set<string>()
  return columns.map((name) => {
    let unique = name
    for (let number = 2; seen.has(unique); number++) unique = `${name}_${number}`
    seen.add(unique)
    return unique
  })
}

export const jsonText = (cell: Cell): string =>
  cell === null ? "null" : typeof cell === "string" ? JSON.stringify(cell) : cell.json

const byteOrderMark = "\ufeff"

const csvWriter = Effect.fnUntraced(function*<Row>(
  { cells, columns, isContinued = false }: Shape<Row>,
  look: Look
) {
  const { csvText, fieldText } = yield* Effect.promise(() => import("@payments/copy/csv"))
  const { delimiter, hasMark, numberOf } = look.csv ?? usualDialect
  const toOutput = shownAs(look)
  const text = (cell: string) => fieldText(toOutput(cell), "escape")
  const field = (cell: Cell): string | null => {
    if (cell === null) return null
    if (typeof cell === "string") return text(cell)
    const { csv: content = cell.json } = cell
    // A number is not escaped: a negative one begins with a minus sign, but it is no formula.
    if (content === null) return null
    return numberText(cell) === undefined ? text(content) : numberOf(content)
  }
  let hasHead = isContinued
  const writer: RowWriter<Row> = {
    rows: (rows) => {
      const head = hasHead ? [] : [columns.map(({ name }) => text(name))]
      const start = hasHead || !hasMark ? "" : byteOrderMark
      hasHead = true
      return start + csvText([...head, ...rows.map((row) => cells(row).map(field))], "keep", delimiter)
    },
    end: () => hasHead ? "" : writer.rows([]),
    omittedColumns: none
  }
  return writer
})

/** Returns the exact text of a number; undefined for other cells. */
export const numberText = (cell: Cell | undefined): string | undefined =>
  cell !== null && typeof cell === "object" && /^-?\d/.test(cell.json) ? cell.json : undefined

/** Returns the text of a cell in a table. Null is `NULL`; the text `NULL` has quotes. */
export const tableCell = (cell: Cell): string => {
  if (cell === null) return "NULL"
  if (cell === "NULL") return `"NULL"`
  return typeof cell === "string" ? cell : cell.table ?? cell.json
}

/** A number up to this length is never shortened. 64-bit integers and their sums are shorter. */
const longestNumber = 40

const tableWriter = Effect.fnUntraced(function*<Row>(
  { cells, columns, findsNumbers = true }: Shape<Row>,
  { style, width }: Look
) {
  const { makeTable } = yield* Effect.promise(() => import("./Table.ts"))
  const visible = columns.flatMap((column, index) =>
    column.hidden !== true && width >= (column.minTerminalWidth ?? 0) ? [{ column, index }] : []
  )
  let table: Table.Table | undefined
  const writer: RowWriter<Row> = {
    rows: (rows) => {
      if (rows.length === 0) return ""
      const values = rows.map(cells)
      table ??= makeTable(
        visible.map(({ column, index }) =>
          // The first rows decide which columns contain numbers. Numbers are never shortened.
          findsNumbers && values.some((row) => numberText(row[index]) !== undefined)
            ? { align: "right" as const, wholeUpTo: longestNumber, ...column }
            : column
        ),
        width,
        style
      )
      return table.print(values.map((row) =>
        visible.map(({ index }) => {
          const cell = row[index]
          return cell === undefined ? "" : tableCell(cell)
        })
      ))
    },
    end: () => "",
    omittedColumns: () => table?.omittedColumns() ?? []
  }
  return writer
})

const makers: {
  readonly [format in RowFormat]: <Row>(shape: Shape<Row>, look: Look) => Effect.Effect<RowWriter<Row>>
} = { table: tableWriter, csv: csvWriter, json: jsonWriter, ndjson: ndjsonWriter }

interface Notes<E, R> {
  /** Printed on stderr if there are no rows. */
  readonly empty: string
  /** Runs after each batch was written. */
  readonly afterBatch?: Effect.Effect<void, E, R> | undefined
  /** Makes a JSON document an object, with the rows as `items`, and with these members, without brackets. By default an array. */
  readonly members?: string | undefined
  /** The output that the rows are, for JSON. */
  readonly output?: contract.JsonOutput | undefined
  readonly csv?: CsvDialect | undefined
}

/** Prints the rows as they arrive. Ends the command when the reader of stdout has closed it. */
export const printRows = Effect.fnUntraced(function*<Row, E, R, E2 = never, R2 = never>(
  columns: ReadonlyArray<Column<Row>>,
  rows: Stream.Stream<ReadonlyArray<Row>, E, R>,
  wanted: RowFormat | undefined,
  { afterBatch = Effect.void, csv, empty, members, output }: Notes<E2, R2>
) {
  const look = yield* lookOf(wanted, csv)
  yield* requireOutput
  const shape = { columns, output, cells: (row: Row) => columns.map(({ of }) => of(row)) }
  const writer = yield* makeRowWriter(members === undefined ? shape : { ...shape, document: "items" }, look)
  yield* printOrEnd(writer.rows([]))
  let count = 0
  yield* Stream.runForEach(rows, (batch) =>
    Effect.suspend(() => {
      count += batch.length
      return Effect.andThen(batch.length === 0 ? Effect.void : printOrEnd(writer.rows(batch)), afterBatch)
    }))
  yield* printOrEnd(writer.end(members))
  if (count === 0) yield* logLine(empty)
  yield* logOmitted(writer.omittedColumns(), "use --format json")
})

/** Names the columns that did not fit on the terminal. */
export const logOmitted = (columns: ReadonlyArray<string>, remedy: string) =>
  columns.length === 0
    ? Effect.void
    : logWrapped(`The terminal has no room for: ${columns.map(printable).join(", ")}. Widen it, or ${remedy}.`)
