/**
 * The page of a query or of facts: one file with a chart and a table, to send and to print. It loads nothing and has no script, and its
 * policy forbids both. All text of the result is escaped.
 */
import type { Cell } from "@payments/copy"
import { Html, html } from "@payments/program/html"
import { createHash } from "node:crypto"
import { endRows, type Total } from "../output/QuestionRows.ts"
import { numberText, tableCell } from "../output/Rows.ts"
import { type ChartData, groupDigits, isLine, mostBars, visiblePoints } from "./ChartData.ts"
import { svgChart } from "./SvgChart.ts"

/** A table of a page. */
export interface PageTable {
  readonly columns: ReadonlyArray<string>
  readonly rows: ReadonlyArray<ReadonlyArray<Cell>>
}

export interface PageContent {
  readonly title: string
  readonly description: string | undefined
  /** A short table before the other one. */
  readonly summary?: PageTable
  readonly columns: ReadonlyArray<string>
  readonly rows: ReadonlyArray<ReadonlyArray<Cell>>
  /** Whether the result has more rows. */
  readonly isCut: boolean
  /** What the page says if there are no rows. */
  readonly emptyText?: string
  /** The sums of the groups that are not among the rows, and of all; undefined if the rows are no groups. */
  readonly totals: { readonly others: Total; readonly all: Total } | undefined
  /** The chart, or why there is none. */
  readonly chart: ChartData | string
  /** Sentences about the data, such as its age. */
  readonly notes: ReadonlyArray<string>
  /** Undefined if no statement has made the rows. */
  readonly sql: string | undefined
  readonly createdAt: string
}

/** The widths of the chart on a wide and on a narrow page. */
const widths = { wide: 920, narrow: 350 } as const

export const pageText = (content: PageContent): string => {
  const {
    chart,
    columns,
    createdAt,
    description,
    emptyText = "No rows.",
    isCut,
    notes,
    rows,
    sql,
    summary,
    title,
    totals
  } = content
  return `<!doctype html>\n${
    html`<html lang="en">
    <head>
      <meta charset="utf-8">
      <meta http-equiv="Content-Security-Policy" content="${policy}">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <meta name="color-scheme" content="light dark">
      <meta name="referrer" content="no-referrer">
      <title>${title}</title>
      <style>${new Html(style)}</style>
    </head>
    <body><main>
      <header><h1>${title}</h1>${description === undefined ? undefined : html`<p>${description}</p>`}</header>
      ${summary === undefined ? undefined : tableOf("Totals", summary, undefined)}
      ${rows.length === 0 ? html`<p>${emptyText}</p>` : typeof chart === "string" ? undefined : figureOf(chart)}
      ${notes.map((note) => html`<p class="note">${note}</p>`)}
      ${
      isCut
        ? html`<p class="note"><strong>The table has the first ${
          groupDigits(String(rows.length))
        } rows only.</strong></p>`
        : undefined
    }
      ${rows.length === 0 ? undefined : tableOf("Values", { columns, rows }, totals)}
      ${sql === undefined ? undefined : html`<details><summary>Statement</summary><pre>${sql}</pre></details>`}
      <footer>Created ${createdAt}.</footer>
    </main></body>
  </html>`.markup
  }\n`
}

const tableOf = (label: string, { columns, rows }: PageTable, totals: PageContent["totals"]): Html => {
  const numbers = columns.map((_, column) => rows.some((row) => numberText(row[column]) !== undefined))
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${label}"><table>
        <thead><tr>${
    columns.map((name, column) =>
      html`<th scope="col" class="${numbers[column] === true ? "number" : "text"}">${breakable(name)}</th>`
    )
  }</tr></thead>
        <tbody>${rows.map((row) => rowOf(row, numbers))}</tbody>
        ${
    totals === undefined
      ? undefined
      : html`<tfoot>${endRows(totals.others, totals.all).map((row) => rowOf(row, numbers))}</tfoot>`
  }
      </table></div>`
}

/** A name may break after an underscore only. */
const breakable = (name: string): ReadonlyArray<Html> =>
  name.split(/(?<=_)/).map((part, index) => index === 0 ? html`${part}` : html`<wbr>${part}`)

const rowOf = (row: ReadonlyArray<Cell>, isNumber: ReadonlyArray<boolean>): Html =>
  html`<tr>${
    isNumber.map((number, column) =>
      number
        ? html`<td class="number">${cellOf(row[column])}</td>`
        : html`<td class="text"><div>${cellOf(row[column])}</div></td>`
    )
  }</tr>`

/** A text of digits, such as a reference, stays as it is. */
const cellOf = (cell: Cell | undefined): Html | string => {
  if (cell === null || cell === undefined) return html`<span class="null">NULL</span>`
  return numberText(cell) === undefined ? tableCell(cell) : groupDigits(tableCell(cell))
}

const figureOf = (chart: ChartData): Html => {
  const shown = visiblePoints(chart).length
  return html`<figure>
    <figcaption>${chart.y} by ${chart.x}${
    !isLine(chart) && shown < chart.points.length
      ? `; the first ${mostBars} of ${groupDigits(String(chart.points.length))} groups`
      : undefined
  }</figcaption>
    <div class="wide">${svgChart(chart, widths.wide)}</div>
    <div class="narrow" aria-hidden="true">${svgChart(chart, widths.narrow)}</div>
  </figure>`
}

const style =
  `:root{color-scheme:light dark;--text:#1a2230;--muted:#5a6675;--line:#d5dbe3;--bar:#1f6feb;--negative:#c9352b;--ground:#fff;--soft:#f5f7fa}
@media (prefers-color-scheme:dark){:root{--text:#e4e9f0;--muted:#9aa7b6;--line:#39434f;--bar:#5b9dff;--negative:#ff7b72;--ground:#12171e;--soft:#1a212a}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--text);font:16px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem}
h1{font-size:1.5rem;line-height:1.25;margin:0;overflow-wrap:anywhere}
header{margin-bottom:1.25rem}
header p{margin:.25rem 0 0;color:var(--muted)}
figure{margin:0 0 1.25rem}
figcaption{font-weight:600;margin-bottom:.5rem;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--text);font:12px system-ui,sans-serif}
.bar{fill:var(--bar)}.negative{fill:var(--negative)}
.line{fill:none;stroke:var(--bar);stroke-width:1.75;stroke-linejoin:round}
.area{fill:var(--bar);opacity:.12}.point{fill:var(--bar);opacity:0}.point:hover{opacity:1}
.grid{stroke:var(--line)}.axis{stroke:var(--muted)}
.narrow{display:none}
.note{margin:.25rem 0;color:var(--muted)}
.scroll{overflow-x:auto;margin:1rem 0;position:relative;left:50%;transform:translateX(-50%);width:max-content;min-width:100%;max-width:calc(100vw - 2rem)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{font-weight:600}
.number{text-align:right}
td.number{white-space:nowrap}
td.text{white-space:pre-wrap}
td.text>div{width:max-content;max-width:20rem;overflow-wrap:anywhere}
tfoot td{font-weight:600;border-bottom:0}
tfoot tr:first-child td{border-top:1px solid var(--muted)}
th:last-child,td:last-child{padding-right:0}
.null{color:var(--muted)}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);padding:.75rem;border-radius:.375rem;font-size:.8125rem}
summary{cursor:pointer;color:var(--muted)}
footer{margin-top:1.5rem;color:var(--muted);font-size:.875rem}
@media (max-width:600px){.wide{display:none}.narrow{display:block}}
@media print{
:root{color-scheme:light;--text:#000;--muted:#444;--line:#bbb;--bar:#1f5fbf;--negative:#b3261e;--ground:#fff;--soft:#fff}
@page{margin:15mm}
body{font-size:10pt}
main{max-width:none;padding:0}
.wide{display:block}.narrow,details{display:none}
svg,rect,path{-webkit-print-color-adjust:exact;print-color-adjust:exact}
figure,tr{break-inside:avoid}
thead{display:table-header-group}
table{font-size:8.5pt}
th{white-space:normal;overflow-wrap:anywhere}
.scroll{overflow:visible;position:static;transform:none;width:auto;max-width:none}
td.text>div{width:auto;max-width:none}
}`

/** Allows the page's own style and nothing else. */
const policy = `default-src 'none'; style-src 'sha256-${
  createHash("sha256").update(style).digest("base64")
}'; base-uri 'none'; form-action 'none'`
