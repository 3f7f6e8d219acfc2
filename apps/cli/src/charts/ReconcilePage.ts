/** The page of a reconciliation: the totals, and the entries that a person has to look at. */
import { type EntryClass, printable, type Reconciled } from "@payments/copy"
import type { Lists } from "@payments/core"
import { Effect, Stream } from "effect"
import { entryColumns, shapeText, totalColumns, totalRows } from "../output/ReconcileOutput.ts"
import { logWrapped } from "../output/Wrapped.ts"
import { createdAt, writeFile } from "./ChartOutput.ts"
import { pageText } from "./HtmlPage.ts"

/** The most entries of a page. They are in memory at once. */
const mostEntries = 5000

export const writePage = Effect.fnUntraced(function*(
  { classes, file, html, list, notes }: {
    readonly html: string
    /** The statement. */
    readonly file: string
    readonly list: Lists.AnyList
    readonly classes: ReadonlyArray<EntryClass>
    readonly notes: ReadonlyArray<string>
  },
  reconciled: Reconciled
) {
  const read = yield* Stream.runCollect(
    Stream.take(Stream.flattenIterable(reconciled.entries(classes)), mostEntries + 1)
  )
  const columns = entryColumns(reconciled, true)
  const summary = totalColumns(reconciled.hasFees)
  const text = pageText({
    title: `Reconciliation of ${list.title}`,
    description: shapeText(file, reconciled.statement),
    summary: {
      columns: summary.map(({ name }) => name),
      rows: totalRows(reconciled).map((row) => summary.map(({ of }) => of(row)))
    },
    columns: columns.map(({ name }) => name),
    rows: read.slice(0, mostEntries).map((row) => columns.map(({ of }) => of(row))),
    isCut: read.length > mostEntries,
    emptyText: "Nothing differs and nothing is missing.",
    totals: undefined,
    chart: "",
    notes: [
      ...notes,
      "Amounts are integers as the copy has them. A difference is the statement, with its fees, minus the copy."
    ],
    sql: undefined,
    createdAt: yield* createdAt
  })
  yield* writeFile("--html", html, text)
  yield* logWrapped(`The page is written to ${printable(html)}. Open it in a browser.`)
})
