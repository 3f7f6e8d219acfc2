/**
 * Formats rows as a table for people. No line is wider than the terminal. Ids and sums are never shortened. Control
 * characters are escaped. Widths are counted in columns of the terminal.
 *
 * The first rows determine the widths of the columns. If a later id or sum is wider than its column, the table prints the
 * header again with new widths. If another cell is wider, it does so only while the line is narrower than the terminal. Without
 * a terminal nothing is shortened, and the header is printed once.
 */
import { printable } from "@payments/copy"
import { grouped } from "@payments/program"
import { colored } from "./StateColor.ts"
import { truncateTo, widthOf, wrapTo } from "./TextWidth.ts"

export interface Column {
  readonly name: string
  readonly align?: "left" | "right"
  /**
   * `integer`: cells are right-aligned and never shortened; on a terminal their digits are grouped. `state`: the usual states
   * have colours.
   */
  readonly kind?: "integer" | "state"
  /** If given, cells are never shortened. The column is at most this wide; a wider cell continues on extra lines. */
  readonly wholeUpTo?: number
  /** The least width to which a column without `wholeUpTo` is narrowed; 12 by default. */
  readonly minWidth?: number
  /** The least width of the column, even if the first rows need less. */
  readonly initialWidth?: number
  /** Shortens a cell to the room; with an ellipsis by default. */
  readonly shorten?: (cell: string, room: number) => string
  /** Returns the lines after the row that show the full content of a shortened cell. */
  readonly details?: (cell: string) => ReadonlyArray<string>
}

export interface Table {
  /** Formats these rows, with a header if the widths are new. Each row has a cell for each column. */
  readonly print: (rows: ReadonlyArray<ReadonlyArray<string>>) => string
  /** The columns that do not fit on the terminal. */
  readonly omittedColumns: () => ReadonlyArray<string>
}

export interface TableStyle {
  /** Whether people read the table on a terminal. Otherwise a program may read it, so digits are not grouped. */
  readonly onTerminal: boolean
  readonly colors: boolean
}

/** The style of a table in a pipe or file. */
const plain: TableStyle = { onTerminal: false, colors: false }

const gap = "  "
const defaultMinWidth = 12

/** The length of a 64-bit integer with its sign and with separators. */
const longestInteger = 26

/** Makes a table for a terminal of this width. The width is Infinity if there is no terminal. */
export const makeTable = (given: ReadonlyArray<Column>, width: number, style: TableStyle = plain): Table => {
  const columns = given.map((column): Column => ({
    ...(column.kind === "integer" ? { align: "right", wholeUpTo: longestInteger } : {}),
    ...column,
    // A name can come from the API: a member of the result of a query.
    name: printable(column.name)
  }))
  /** The widest cell of each column so far. */
  const widest = columns.map(({ name, initialWidth = 0 }) => Math.max(widthOf(name), initialWidth))
  let widths: ReadonlyArray<number> | undefined
  return {
    omittedColumns: () => widths === undefined ? [] : columns.slice(widths.length).map(({ name }) => name),
    print: (rows) => {
      const cells = rows.map((row) =>
        columns.map(({ kind }, column) => {
          const cell = printable(row[column] ?? "")
          return kind === "integer" && style.onTerminal ? grouped(cell) : cell
        })
      )
      for (const row of cells) {
        for (const [column, cell] of row.entries()) {
          const needed = widthOf(cell, width)
          const { wholeUpTo } = columns[column] ?? { wholeUpTo: undefined }
          // A cell that is wider than `wholeUpTo` continues on extra lines. It does not widen the column.
          if (wholeUpTo === undefined || needed <= Math.min(wholeUpTo, width)) {
            widest[column] = Math.max(widest[column] ?? 0, needed)
          }
        }
      }
      const isFirst = widths === undefined
      const next = widths === undefined || isTooNarrow(columns, widths, widest, width)
        ? fit(columns, widest, width)
        : widths
      const isNew = isFirst || (width !== Infinity && !isEqual(next, widths))
      if (isNew) widths = next
      const fitted = widths ?? next
      const header = isNew
        ? linesOf(columns.map(({ name }) => name), { columns, widths: fitted, width, style: plain })
        : []
      return [...header, ...cells.flatMap((row) => linesOf(row, { columns, widths: fitted, width, style }))]
        .map((line) => `${line}\n`).join("")
    }
  }
}

const isEqual = (left: ReadonlyArray<number>, right: ReadonlyArray<number> | undefined): boolean =>
  left.length === right?.length && left.every((width, column) => width === right[column])

const total = (widths: ReadonlyArray<number>): number =>
  widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1))

/**
 * Whether a column needs more room and must get it (`wholeUpTo`) or can get it. The last column is ignored, because it gets the
 * rest of the line in any case.
 */
const isTooNarrow = (
  columns: ReadonlyArray<Column>,
  widths: ReadonlyArray<number>,
  widest: ReadonlyArray<number>,
  room: number
): boolean =>
  widths.some((width, column) => {
    const wanted = widest[column] ?? 0
    return columns[column]?.wholeUpTo !== undefined
      ? Math.min(wanted, room) > width
      : column < widths.length - 1 && wanted > width && total(widths) < room
  })

/** Fits the columns into the room. Removes the last columns first, then narrows the widest. Returns the widths. */
const fit = (columns: ReadonlyArray<Column>, widest: ReadonlyArray<number>, room: number): ReadonlyArray<number> => {
  if (room === Infinity) return widest
  const wanted = widest.map((most) => Math.min(most, room))
  const least = columns.map(({ minWidth = defaultMinWidth, wholeUpTo }, column) =>
    wholeUpTo === undefined ? Math.min(wanted[column] ?? 0, minWidth) : wanted[column] ?? 0
  )
  let count = columns.length
  while (count > 1 && total(least.slice(0, count)) > room) count--
  const widths = wanted.slice(0, count)
  while (total(widths) > room) {
    const spare = widths.map((width, column) => width > (least[column] ?? 0) ? width : 0)
    const most = Math.max(...spare)
    // No column can be narrowed further. One column alone always fits.
    if (most === 0) break
    widths[spare.indexOf(most)] = most - 1
  }
  return widths
}

/** Formats a row as lines. A row has several lines if a cell that is never shortened is wider than its column. */
const linesOf = (
  row: ReadonlyArray<string>,
  { columns, style, width, widths }: {
    readonly columns: ReadonlyArray<Column>
    /** The widths of the columns that fit. */
    readonly widths: ReadonlyArray<number>
    readonly width: number
    readonly style: TableStyle
  }
): ReadonlyArray<string> => {
  const lines: Array<string> = []
  const detailLines: Array<string> = []
  const indent = width === Infinity ? "" : " ".repeat(Math.min((widths[0] ?? 0) + gap.length, Math.floor(width / 2)))
  let line = ""
  let start = 0
  for (const [column, fitted] of widths.entries()) {
    const cell = row[column] ?? ""
    const { align, details, kind, shorten = truncateTo, wholeUpTo } = columns[column] ?? { name: "" }
    const isLast = column === widths.length - 1
    const room = isLast && wholeUpTo === undefined ? width - start : fitted
    const isTooWide = width !== Infinity && widthOf(cell, room) > room
    if (isTooWide && wholeUpTo !== undefined) {
      // The cell gets the rest of this line and as many lines as it needs. The row continues on the line after them.
      const before = " ".repeat(start)
      const [first = "", ...more] = wrapTo(cell, width - start)
      lines.push(`${line}${first}`, ...more.map((part) => `${before}${part}`))
      line = `${before}${" ".repeat(fitted)}`
    } else {
      const shown = isTooWide ? truncateTo(shorten(cell, room), room) : cell
      if (isTooWide) {
        detailLines.push(
          ...(details?.(cell) ?? []).map((text) => `${indent}${truncateTo(text, width - indent.length)}`)
        )
      }
      const padding = " ".repeat(Math.max(0, fitted - widthOf(shown, fitted)))
      const text = kind === "state" && style.colors ? colored(shown, cell) : shown
      line += align === "right" ? `${padding}${text}` : `${text}${padding}`
    }
    if (!isLast) line += gap
    start += fitted + gap.length
  }
  const rowLines = lines.length > 0 && line.trim() === "" ? lines : [...lines, line]
  return [...rowLines, ...detailLines].map((text) => text.trimEnd())
}

/** Shortens a list of names to as many as fit, followed by the number of the rest: `status, contract, +4`. */
export const firstNames = (cell: string, room: number): string => {
  const names = cell.split(", ")
  let text = ""
  for (const [index, name] of names.entries()) {
    const next = `${text}${name}, `
    if (widthOf(next) + `+${names.length - index - 1}`.length > room) return `${text}+${names.length - index}`
    text = next
  }
  return cell
}
