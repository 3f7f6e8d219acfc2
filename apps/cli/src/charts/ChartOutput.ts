/** Writes the result of a query as a chart in the terminal, or as a page. */
import { type Cell, ExitCode, printable, replaceFile, systemCodeOf } from "@payments/export"
import { CommandExit, printOrEnd, requireOutput, usage } from "@payments/export/program"
import { DateTime, Effect, FileSystem, Stream } from "effect"
import { logWrapped } from "../Output.ts"
import { formatOf } from "../RowsOutput.ts"
import type { ChartColumns } from "./ChartData.ts"

/** The result of a query. */
interface Result<E, R> {
  readonly columns: ReadonlyArray<string>
  readonly rows: Stream.Stream<ReadonlyArray<ReadonlyArray<Cell>>, E, R>
}

/** The most rows that a chart or a page shows. They are in memory at once. */
const mostRows = 5_000

const readRows = Effect.fnUntraced(function*<E, R>({ rows }: Result<E, R>) {
  const read = yield* Stream.runCollect(Stream.take(Stream.flattenIterable(rows), mostRows + 1))
  return { rows: read.slice(0, mostRows), isCut: read.length > mostRows }
})

/** The width of a chart in a pipe or file. */
const defaultWidth = 80

/** Prints a chart of the result. If there are no rows, prints `emptyMessage` on stderr. */
export const printChart = Effect.fnUntraced(function*<E, R>(
  result: Result<E, R>,
  wanted: ChartColumns | undefined,
  emptyMessage: string
) {
  const { style, width } = yield* formatOf("table")
  yield* requireOutput
  const modules = yield* Effect.promise(() => Promise.all([import("./ChartData.ts"), import("./TerminalChart.ts")]))
  const [{ chartData, chartNotes, isLine, mostBars }, { chartText }] = modules
  const { isCut, rows } = yield* readRows(result)
  if (rows.length === 0) return yield* logWrapped(emptyMessage)
  const data = chartData(result.columns, rows, wanted)
  if (typeof data === "string") return yield* usage(data)
  const chart = chartText(data, { width: Number.isFinite(width) ? width : defaultWidth, colors: style.colors })
  yield* printOrEnd(
    [chart, ...chartNotes(data, result.columns, rows, isCut).map((note) => `${printable(note)}\n`)].join("")
  )
  const shown = isLine(data) ? rows.length : Math.min(rows.length, mostBars)
  if (isCut || shown < rows.length) {
    yield* logWrapped(
      `The chart shows the first ${shown} of ${isCut ? "more than " : ""}${rows.length} rows. Use --format csv for all.`
    )
  }
})

/** What a page says about its result. */
interface Subject {
  readonly title: string
  readonly description: string | undefined
  readonly sql: string
  readonly chart: ChartColumns | undefined
  readonly notes: ReadonlyArray<string>
}

/** Writes a page with a chart and a table of the result. Only the file's owner may read it. */
export const writePage = Effect.fnUntraced(
  function*<E, R>(file: string, result: Result<E, R>, { chart: wanted, description, notes, sql, title }: Subject) {
    const modules = yield* Effect.promise(() => Promise.all([import("./ChartData.ts"), import("./HtmlPage.ts")]))
    const [{ chartData, chartNotes }, { pageText }] = modules
    const { isCut, rows } = yield* readRows(result)
    const chart = chartData(result.columns, rows, wanted)
    const text = pageText({
      title,
      description,
      columns: result.columns,
      rows,
      isCut,
      chart,
      notes: [...typeof chart === "string" ? [] : chartNotes(chart, result.columns, rows, isCut), ...notes],
      sql,
      createdAt: `${DateTime.formatIso(yield* DateTime.now).slice(0, 16).replace("T", " ")} UTC`
    })
    const fs = yield* FileSystem.FileSystem
    // If the name is a symbolic link, its target is replaced.
    const target = yield* Effect.orElseSucceed(fs.realPath(file), () => file)
    yield* Effect.mapError(replaceFile(target, text), (error) =>
      new CommandExit({
        exitCode: ExitCode.destination,
        problem: `--html: the page cannot be written (${
          systemCodeOf(error)
        }). Check the folder and the space on the disk.`,
        reason: "Output"
      }))
    yield* logWrapped(
      `The page is written. Open it in a browser.${isCut ? ` It has the first ${mostRows} rows only.` : ""}`
    )
  }
)
