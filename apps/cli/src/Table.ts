/**
 * Rows as lines for people. No line is wider than the terminal; ids and sums are never cut. Control characters are
 * escaped, and widths are counted in columns of the terminal.
 *
 * The first rows determine the widths. Later rows are fitted into them; only where an id or a sum needs more room, or the
 * terminal has room left, the header is printed again with new widths. Where no terminal limits the width, nothing is cut
 * and the header is printed once.
 */
import { printable } from "@payments/export"
import { cutTo, widthOf, wrapTo } from "./TextWidth.ts"

/** A column of a table. */
export interface Column {
  readonly name: string
  readonly align?: "left" | "right"
  /** Its cells are never cut. The column becomes so wide at most; a wider cell has lines of its own. */
  readonly whole?: number
  /** The least width to which a column that is not `whole` is narrowed; 12 unless given. */
  readonly narrowest?: number
  /** The width that is kept for it, even if the first rows need less. */
  readonly usual?: number
  /** How a cell is shortened; with an ellipsis unless given. */
  readonly shorten?: (cell: string, room: number) => string
  /** The lines below its row that show a cell which had to be shortened. */
  readonly below?: (cell: string) => ReadonlyArray<string>
}

/** A table that is printed in parts, one after another. */
export interface Table {
  /** The lines of these rows, with a header where one is due. Each row has a cell for each column. */
  readonly print: (rows: ReadonlyArray<ReadonlyArray<string>>) => string
  /** The columns that the terminal has no room for. */
  readonly hidden: () => ReadonlyArray<string>
}

const gap = "  "
const narrowestUnlessGiven = 12

/** A table for a terminal of this width; Infinity where nothing limits it. */
export const makeTable = (columns: ReadonlyArray<Column>, width: number): Table => {
  /** The widest cell of each column so far. */
  const widest = columns.map(({ name, usual = 0 }) => Math.max(widthOf(name), usual))
  let widths: ReadonlyArray<number> | undefined
  return {
    hidden: () => widths === undefined ? [] : columns.slice(widths.length).map(({ name }) => name),
    print: (rows) => {
      const cells = rows.map((row) => columns.map((_, column) => printable(row[column] ?? "")))
      for (const row of cells) {
        for (const [column, cell] of row.entries()) {
          const needed = widthOf(cell, width)
          const { whole } = columns[column] ?? { whole: undefined }
          // A cell that is never cut and wider than its column may be has lines of its own.
          if (whole === undefined || needed <= Math.min(whole, width)) {
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
      const header = isNew ? [columns.map(({ name }) => name)] : []
      return [...header, ...cells].flatMap((row) => linesOf(columns, fitted, row, width)).map((line) => `${line}\n`)
        .join("")
    }
  }
}

const isEqual = (left: ReadonlyArray<number>, right: ReadonlyArray<number> | undefined): boolean =>
  left.length === right?.length && left.every((width, column) => width === right[column])

const total = (widths: ReadonlyArray<number>): number =>
  widths.reduce((sum, width) => sum + width, gap.length * (widths.length - 1))

/** Whether a column needs more room and must have it, or can have it. The last one takes the rest of the line anyway. */
const isTooNarrow = (
  columns: ReadonlyArray<Column>,
  widths: ReadonlyArray<number>,
  widest: ReadonlyArray<number>,
  room: number
): boolean =>
  widths.some((width, column) => {
    const wanted = widest[column] ?? 0
    return columns[column]?.whole !== undefined
      ? Math.min(wanted, room) > width
      : column < widths.length - 1 && wanted > width && total(widths) < room
  })

/** The widths of the columns that have room: the last columns are left out, then the widest are narrowed. */
const fit = (columns: ReadonlyArray<Column>, widest: ReadonlyArray<number>, room: number): ReadonlyArray<number> => {
  if (room === Infinity) return widest
  const wanted = widest.map((most) => Math.min(most, room))
  const least = columns.map(({ narrowest = narrowestUnlessGiven, whole }, column) =>
    whole === undefined ? Math.min(wanted[column] ?? 0, narrowest) : wanted[column] ?? 0
  )
  let count = columns.length
  while (count > 1 && total(least.slice(0, count)) > room) count--
  const widths = wanted.slice(0, count)
  while (total(widths) > room) {
    const spare = widths.map((width, column) => width > (least[column] ?? 0) ? width : 0)
    const most = Math.max(...spare)
    // The first column alone is never wider than the terminal.
    if (most === 0) break
    widths[spare.indexOf(most)] = most - 1
  }
  return widths
}

/** A row as lines: more than one where a cell that is never cut is wider than its column. */
const linesOf = (
  columns: ReadonlyArray<Column>,
  widths: ReadonlyArray<number>,
  row: ReadonlyArray<string>,
  width: number
): ReadonlyArray<string> => {
  const lines: Array<string> = []
  const lower: Array<string> = []
  const indent = width === Infinity ? "" : " ".repeat(Math.min((widths[0] ?? 0) + gap.length, Math.floor(width / 2)))
  let line = ""
  let start = 0
  for (const [column, fitted] of widths.entries()) {
    const cell = row[column] ?? ""
    const { align, below, shorten = cutTo, whole } = columns[column] ?? { name: "" }
    const isLast = column === widths.length - 1
    const room = isLast && whole === undefined ? width - start : fitted
    const isTooWide = width !== Infinity && widthOf(cell, room) > room
    if (isTooWide && whole !== undefined) {
      // It has the rest of the line, and as many lines as it needs. The row goes on below.
      const before = " ".repeat(start)
      const [first = "", ...more] = wrapTo(cell, width - start)
      lines.push(`${line}${first}`, ...more.map((part) => `${before}${part}`))
      line = `${before}${" ".repeat(fitted)}`
    } else {
      const shown = isTooWide ? cutTo(shorten(cell, room), room) : cell
      if (isTooWide) {
        lower.push(...(below?.(cell) ?? []).map((text) => `${indent}${cutTo(text, width - indent.length)}`))
      }
      const padding = " ".repeat(Math.max(0, fitted - widthOf(shown, fitted)))
      line += align === "right" ? `${padding}${shown}` : `${shown}${padding}`
    }
    if (!isLast) line += gap
    start += fitted + gap.length
  }
  const own = lines.length > 0 && line.trim() === "" ? lines : [...lines, line]
  return [...own, ...lower].map((text) => text.trimEnd())
}

/** Shortens names with commas between them to as many as there is room for, and how many more there are. */
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
