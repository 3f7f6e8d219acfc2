/** Writes the result of a query as a chart in the terminal, as a page, and as an SVG file. */
import { type Cell, type Destination, printable } from "@payments/copy"
import { grouped, printOrEnd, requireOutput, usage } from "@payments/program"
import { DateTime, Effect, Stream } from "effect"
import type { Total } from "../output/QuestionRows.ts"
import { lookOf } from "../output/Rows.ts"
import { logWrapped } from "../output/Wrapped.ts"
import { checkWrittenFiles, writeFileWith } from "../output/WrittenFile.ts"
import type { ChartColumns } from "./ChartData.ts"

interface Result<E, R> {
  readonly columns: ReadonlyArray<string>
  readonly rows: Stream.Stream<ReadonlyArray<ReadonlyArray<Cell>>, E, R>
}

export interface ChartOutputs {
  readonly chart: boolean
  readonly html: string | undefined
  readonly svg: string | undefined
}

/** What the chart and the page say about their result. */
export interface Subject {
  readonly title: string
  readonly description: string | undefined
  readonly sql: string
  readonly chart: ChartColumns | undefined
  readonly notes: ReadonlyArray<string>
  /** Printed on stderr if there are no rows. */
  readonly emptyMessage: string
  /** The number of rows to show; the other rows are only counted and added. Undefined for a statement, whose rows are all shown. */
  readonly totals: { readonly shown: number; readonly empty: Total } | undefined
}

/** The most rows that a chart or a page shows. They are in memory at once. */
const mostRows = 5_000

const readRows = Effect.fnUntraced(function*<E, R>({ rows }: Result<E, R>, totals: Subject["totals"]) {
  if (totals === undefined) {
    const read = yield* Stream.runCollect(Stream.take(Stream.flattenIterable(rows), mostRows + 1))
    return { rows: read.slice(0, mostRows), isCut: read.length > mostRows, others: undefined, all: undefined }
  }
  const { addRow } = yield* Effect.promise(() => import("../output/QuestionRows.ts"))
  const most = Math.min(totals.shown, mostRows)
  const read: Array<ReadonlyArray<Cell>> = []
  let [others, all] = [totals.empty, totals.empty]
  yield* Stream.runForEach(rows, (chunk) =>
    Effect.sync(() => {
      for (const row of chunk) {
        if (read.length < most) read.push(row)
        else others = addRow(others, row)
        all = addRow(all, row)
      }
    }))
  return { rows: read, isCut: most < totals.shown && others.groups > 0, others, all }
})

/** The width of a chart in a pipe or file. */
const defaultWidth = 80

/** Writes the result everywhere. Nothing is written anywhere if no chart can be made and one is wanted. */
export const writeChart = Effect.fnUntraced(
  function*<E, R>(outputs: ChartOutputs, result: Result<E, R>, subject: Subject) {
    const { style, width } = yield* lookOf("table")
    if (outputs.chart) yield* requireOutput
    const { chartData, chartNotes, isLine, mostBars } = yield* Effect.promise(() => import("./ChartData.ts"))
    const { all, isCut, others, rows } = yield* readRows(result, subject.totals)
    const { columns } = result
    const data = chartData(columns, rows, subject.chart)
    const isWanted = outputs.svg !== undefined || (outputs.chart && rows.length > 0)
    if (typeof data === "string" && isWanted) return yield* usage(data)
    const isPart = isCut || (others !== undefined && others.groups > 0)
    const dataNotes = typeof data === "string" ? [] : chartNotes(data, columns, rows, isPart)
    const otherNotes = others === undefined || others.groups === 0
      ? []
      : [`The first ${grouped(rows.length)} of ${grouped(rows.length + others.groups)} groups.`]
    const notes = [...otherNotes, ...dataNotes, ...subject.notes]
    if (outputs.html !== undefined) {
      const { pageText } = yield* Effect.promise(() => import("./HtmlPage.ts"))
      const text = pageText({
        ...subject,
        columns,
        rows,
        isCut,
        chart: data,
        notes,
        totals: others === undefined || all === undefined ? undefined : { others, all },
        createdAt: yield* createdAt
      })
      const cut = isCut ? ` It has the first ${mostRows} rows only.` : ""
      yield* writeFile("--html", outputs.html, text)
      yield* logWrapped(`The page is written to ${printable(outputs.html)}. Open it in a browser.${cut}`)
    }
    if (outputs.svg !== undefined && typeof data !== "string") {
      const { svgFile } = yield* Effect.promise(() => import("./SvgChart.ts"))
      const text = svgFile({ title: subject.title, chart: data, notes })
      yield* writeFile("--svg", outputs.svg, text)
      yield* logWrapped(`The chart is written to ${printable(outputs.svg)}.`)
    }
    if (!outputs.chart) return
    if (rows.length === 0 || typeof data === "string") return yield* logWrapped(subject.emptyMessage)
    const { chartText } = yield* Effect.promise(() => import("./TerminalChart.ts"))
    const chart = chartText(data, { width: Number.isFinite(width) ? width : defaultWidth, colors: style.colors })
    yield* printOrEnd([chart, ...[...otherNotes, ...dataNotes].map((note) => `${printable(note)}\n`)].join(""))
    const shown = isLine(data) ? rows.length : Math.min(rows.length, mostBars)
    if (isCut || shown < rows.length) {
      yield* logWrapped(
        `The chart shows the first ${shown} of ${
          isCut ? "more than " : ""
        }${rows.length} rows. Use --format csv for all.`
      )
    }
  }
)

/** The current minute, as pages show it. */
export const createdAt = Effect.map(
  DateTime.now,
  (now) => `${DateTime.formatIso(now).slice(0, 16).replace("T", " ")} UTC`
)

/** Fails as {@link checkWrittenFiles} does. */
export const checkFiles = (
  { html, output, svg }: ChartOutputs & { readonly output?: string | undefined },
  destination: Destination.StoredDestination
) =>
  checkWrittenFiles(
    [{ flag: "--html", file: html }, { flag: "--svg", file: svg }, { flag: "--output", file: output }],
    destination
  )

/** Replaces the file. Only its owner may read it. */
export const writeFile = (flag: string, file: string, text: string) =>
  writeFileWith(flag, file, (temporary) => temporary.writeAll(new TextEncoder().encode(text)))
