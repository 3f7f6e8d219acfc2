/**
 * Writes rows as an xlsx file: one sheet, or more if one has no room, and a control sheet after them. The rows are written as
 * they arrive, so that a large result takes no more memory than a small one. The file has no formula.
 */
import {
  type AddWorksheetOptions,
  type CellValue,
  type Style,
  WorkbookWriter,
  type WorksheetWriter
} from "@cj-tech-master/excelts"
import { type Cell, errorCode, printable } from "@payments/copy"
import { grouped, usage } from "@payments/program"
import { DateTime, Effect, Stream } from "effect"
import { createWriteStream, type WriteStream } from "node:fs"
import { type Cells, type Column, type Heading, numberText } from "./Rows.ts"
import { cellText, ColumnSum, hasControls, limits, sheetNames, type SheetValue, sheetValue } from "./SheetCell.ts"
import { notWritten, writeFileWith } from "./WrittenFile.ts"

/** What the sheets of rows have. */
export interface Written {
  readonly rows: number
  readonly sheets: number
  readonly sums: ReadonlyArray<{ readonly name: string; readonly sum: ColumnSum }>
  /** How many numbers are text, because a spreadsheet would not show all of their digits. */
  readonly numbersAsText: number
  /** How many texts have control characters. */
  readonly textsWithControls: number
}

/**
 * Replaces the file. `control` returns the rows of the control sheet when the others are written. Fails, and leaves the file as it
 * was, if a value is longer than a cell may be.
 */
export const writeWorkbook = <Row, E, R, E2, R2>(
  file: string,
  { columns, rows }: {
    readonly columns: ReadonlyArray<Column<Row>>
    readonly rows: Stream.Stream<ReadonlyArray<Row>, E, R>
  },
  control: (written: Written) => Effect.Effect<ReadonlyArray<Cells>, E2, R2>
) =>
  writeFileWith("--output", file, (_, temporary) =>
    Effect.scoped(Effect.gen(function*() {
      const out = yield* Effect.acquireRelease(
        // The stream keeps an error until it is asked for.
        Effect.sync(() => createWriteStream(temporary, { flags: "r+" }).on("error", () => {})),
        (stream) => Effect.sync(() => stream.destroy())
      )
      const fail = (error: unknown) => {
        const code = errorCode(out.errored ?? error)
        return code === undefined ? Effect.die(error) : Effect.fail(notWritten("--output", file, code))
      }
      const now = DateTime.toDate(yield* DateTime.now)
      const book = new WorkbookWriter({
        stream: out,
        useSharedStrings: false,
        useStyles: true,
        creator: "payments",
        lastModifiedBy: "payments",
        created: now,
        modified: now
      })
      const drained = Effect.flatMap(turn(out), () => out.errored === null ? Effect.void : fail(out.errored))
      const sheets = makeRowSheets(book, columns)
      yield* Stream.runForEach(rows, (batch) =>
        Effect.suspend(() => {
          const problem = sheets.add(batch.map((row) => columns.map(({ of }) => of(row))))
          return problem === undefined ? drained : usage(problem)
        }))
      const written = sheets.end()
      addControlSheet(book, yield* control(written))
      yield* Effect.catch(Effect.tryPromise(() => book.commit()), ({ cause }) => fail(cause))
      return written
    })))

/** Gives other work of the program its turn, and waits until the file has taken what was written. */
const turn = (out: WriteStream): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const go = () => {
      out.off("drain", go).off("close", go)
      resume(Effect.void)
    }
    setImmediate(() => out.writableNeedDrain && !out.destroyed ? void out.on("drain", go).on("close", go) : go())
  })

/** The styles of cells. A cell is text if its style says so, also after a person has edited it. */
const styles = {
  head: { numFmt: "@", font: { bold: true } },
  text: { numFmt: "@" },
  integer: { numFmt: "0" },
  amount: { numFmt: "#,##0" },
  other: {}
} as const satisfies { readonly [name: string]: Partial<Style> }

/** A text as one run, because the writer writes only runs as the format's inline text. */
const textOf = (text: string): CellValue => ({ richText: [{ text: cellText(text) }] })

/** Adds a row, and returns the values of its cells. */
const addCells = (
  sheet: WorksheetWriter,
  cells: Cells,
  styleOf: (value: SheetValue, column: number) => Partial<Style>
): ReadonlyArray<SheetValue> => {
  const values = cells.map(sheetValue)
  const row = sheet.addRow(values.map((value) => typeof value === "string" ? textOf(value) : value))
  for (const [index, value] of values.entries()) {
    if (value !== null) row.getCell(index + 1).style = styleOf(value, index)
  }
  row.commit()
  return values
}

interface RowSheets {
  /** Returns why a row cannot be written. */
  readonly add: (rows: ReadonlyArray<Cells>) => string | undefined
  readonly end: () => Written
}

const makeRowSheets = (book: WorkbookWriter, headings: ReadonlyArray<Heading>): RowSheets => {
  // If it is known which columns can be added, the others are line numbers and the like.
  const isKnown = headings.some(({ kind }) => kind === "integer")
  const sums = headings.map(({ kind, name }) => ({
    name,
    sum: new ColumnSum(),
    isShown: !isKnown || kind === "integer"
  }))
  let sheet: WorksheetWriter | undefined
  let [rows, sheets, rowsOfSheet, numbersAsText, textsWithControls] = [0, 0, 0, 0, 0]
  const styleOf = (value: SheetValue, column: number) =>
    typeof value === "string"
      ? styles.text
      : !Number.isInteger(value)
      ? styles.other
      : headings[column]?.kind === "integer"
      ? styles.amount
      : styles.integer
  const next = (first: ReadonlyArray<Cells>): WorksheetWriter => {
    sheet?.commit()
    sheets++
    rowsOfSheet = 1
    const added = book.addWorksheet(sheets === 1 ? sheetNames.rows : `${sheetNames.rows} ${sheets}`, frozen())
    added.columns = headings.map(({ name }, column) => ({ width: widthOf(name, first.map((row) => row[column])) }))
    addCells(added, headings.map(({ name }) => name), () => styles.head)
    return sheet = added
  }
  const addRow = (cells: Cells, batch: ReadonlyArray<Cells>): string | undefined => {
    const tooLong = cells.findIndex((cell) => lengthOf(cell) > limits.text)
    if (tooLong !== -1) {
      return `Row ${grouped(rows + 1)} has a value of ${
        grouped(lengthOf(cells[tooLong] ?? null))
      } characters in the column ${
        printable(headings[tooLong]?.name ?? "")
      }, and a cell of a spreadsheet has room for ${
        grouped(limits.text)
      }. Nothing was written. Leave the column out, or use --format csv.`
    }
    const values = addCells(sheet === undefined || rowsOfSheet === limits.rows ? next(batch) : sheet, cells, styleOf)
    rows++
    rowsOfSheet++
    for (const [column, cell] of cells.entries()) {
      const value = values[column]
      sums[column]?.sum.add(cell)
      if (typeof value !== "string") continue
      if (numberText(cell) !== undefined) numbersAsText++
      else if (hasControls(value)) textsWithControls++
    }
    return undefined
  }
  return {
    add: (batch) => {
      for (const cells of batch) {
        const problem = addRow(cells, batch)
        if (problem !== undefined) return problem
      }
      return undefined
    },
    end: () => {
      ;(sheet ?? next([])).commit()
      return { rows, sheets, sums: sums.filter(({ isShown }) => isShown), numbersAsText, textsWithControls }
    }
  }
}

/** The row with the names stays visible. */
const frozen = (): Partial<AddWorksheetOptions> => ({ views: [{ state: "frozen", ySplit: 1 }] })

const lengthOf = (cell: Cell): number => {
  const value = sheetValue(cell)
  return typeof value === "string" ? value.length : 0
}

/** How many rows say how wide a column is, and the widths of columns in characters. */
const measured = { rows: 100, least: 8, most: 60 } as const

const widthOf = (name: string, cells: ReadonlyArray<Cell | undefined>): number => {
  // A quarter is for the separators of thousands, and the wider letters of names.
  const lengths = cells.slice(0, measured.rows).map((cell) => String(cell == null ? "" : sheetValue(cell)).length)
  return Math.min(measured.most, Math.max(measured.least, Math.ceil(Math.max(name.length, ...lengths) * 1.25)))
}

const addControlSheet = (book: WorkbookWriter, rows: ReadonlyArray<Cells>) => {
  const sheet = book.addWorksheet(sheetNames.control, frozen())
  sheet.columns = [40, measured.most, 12, 12].map((width) => ({ width }))
  for (const [index, row] of rows.entries()) {
    addCells(
      sheet,
      row,
      (value, column) =>
        index === 0
          ? styles.head
          : typeof value === "string"
          ? styles.text
          : column === 1
          ? styles.amount
          : styles.integer
    )
  }
  sheet.commit()
}
