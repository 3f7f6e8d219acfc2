/** The details of a source: charts of changes and amounts, certificates, runs, and consumers of changes. */
import { finalStatesText, openRecordsSql, type Overview, undatedIn } from "@payments/copy"
import { Lists } from "@payments/core"
import { allOf, counted, durationWords, grouped, quotedWord, shellWord } from "@payments/program"
import { type Content, type Html, html } from "@payments/program/html"
import type { HandoffState, ListSnapshot, SourceSnapshot } from "../state/StatusSnapshot.ts"
import { freshness, handoffVerdict } from "./Diagnosis.ts"
import { badge, bar } from "./Parts.ts"
import { dayWords, kindTitle, limitWords, listTitle, scheduled, secondsBetween, time } from "./Words.ts"

/** The heading of a source's details, with the consumers of its changes. */
export const sourceDetails = ({ handoffs, lists, name }: SourceSnapshot, isOneOfSeveral: boolean, at: string): Html => {
  // Consumers read the changes of all lists, so each list has the same ones.
  const consumers = lists[0]?.consumers ?? []
  return html`<section id="source-details:${name}" class="source-details">
    <h2>${isOneOfSeveral ? html`Details of <bdi>${name}</bdi>` : "Details"}</h2>
    ${
    consumers.length === 0 ? undefined : html`<table class="card plain consumers" role="table">
      <caption>Consumers of changes</caption>
      <thead role="rowgroup"><tr role="row">${
      ["Name", "Behind", "Position", "Last moved"].map(columnHeader)
    }</tr></thead>
      <tbody role="rowgroup">${
      consumers.map(({ lag, movedAt, name: consumer, position }) =>
        html`<tr role="row">
        <th role="rowheader" scope="row"><bdi>${consumer}</bdi></th>
        <td role="cell" data-label="Behind">${
          lag === undefined ? "unknown: the destination was restored" : counted(lag, "change")
        }</td>
        <td role="cell" data-label="Position">${grouped(position)}</td>
        <td role="cell" data-label="Last moved"><time datetime="${movedAt}">${
          durationWords(secondsBetween(movedAt, at))
        } ago</time></td>
      </tr>`
      )
    }</tbody>
    </table>`
  }${handoffs.length === 0 ? undefined : handoffTable(handoffs, at)}
  </section>`
}

const handoffTable = (handoffs: ReadonlyArray<HandoffState>, at: string): Html =>
  html`<table class="card plain consumers handoffs" role="table">
      <caption>Hand-offs</caption>
      <thead role="rowgroup"><tr role="row">${
    ["Consumer", "State", "Behind", "Last answer", "Next attempt"].map(columnHeader)
  }</tr></thead>
      <tbody role="rowgroup">${
    handoffs.map((handoff) =>
      html`<tr role="row">
        <th role="rowheader" scope="row"><bdi>${handoff.consumer}</bdi></th>
        <td role="cell" data-label="State">${badge(handoffVerdict(handoff))}</td>
        <td role="cell" data-label="Behind">${behind(handoff)}</td>
        <td role="cell" data-label="Last answer">${handoff.answer ?? "–"}</td>
        <td role="cell" data-label="Next attempt">${
        handoff.nextAttemptAt === null ? "–" : time(handoff.nextAttemptAt, at)
      }</td>
      </tr>`
    )
  }</tbody>
    </table>`

const behind = ({ lagChanges, lagSeconds }: HandoffState): string =>
  lagChanges === null
    ? "unknown"
    : lagChanges === 0 || lagSeconds === null
    ? counted(lagChanges, "change")
    : `${counted(lagChanges, "change")}, ${durationWords(lagSeconds)}`

const columnHeader = (text: string): Html => html`<th role="columnheader" scope="col">${text}</th>`

export const listDetails = (
  source: SourceSnapshot,
  list: ListSnapshot,
  isOneOfSeveral: boolean,
  at: string
): Html => {
  const id = `details:${source.name}/${list.list}`
  return html`<article id="${id}" class="card details" aria-labelledby="title:${id}">
    <header><h3 id="title:${id}">${
    isOneOfSeveral ? html`<span class="of"><bdi>${source.name}</bdi> · </span>` : undefined
  }${listTitle(list.list)}</h3>${badge(freshness(list))}</header>
    <div class="charts">
      ${
    list.overview === null
      ? html`<p class="empty">The charts appear soon after the first full scan.</p>`
      : [changes(id, list.overview, at), amounts(list, list.overview, at)]
  }
    </div>
    <div class="facts">${lastScan(list, at)}${runs(list, at)}${openRecords(source, list, at)}</div>
  </article>`
}

const kinds = [
  ["insert", "Inserted"],
  ["update", "Updated"],
  ["missing", "Missing"],
  ["returned", "Returned"]
] as const

/** The chart is drawn from `data-points`: the day as seconds since 1970, then the number of changes of each kind. */
const changes = (id: string, { at: readAt, days }: Overview, at: string): Html => {
  const withChanges = days.filter((day) => kinds.some(([kind]) => day[kind] > 0)).toReversed()
  const title = `Changes per day, last ${days.length} days (UTC)`
  if (withChanges.length === 0) {
    return html`<section class="chart"><h4>${title}</h4><p class="empty">No changes, as of ${
      time(readAt, at)
    }.</p></section>`
  }
  const points = days.map((day) => [Date.parse(day.day) / 1000, ...kinds.map(([kind]) => day[kind])])
  return html`<section class="chart"><h4>${title}</h4>
    <ul class="legend">${kinds.map(([kind, words]) => html`<li><span class="swatch ${kind}"></span>${words}</li>`)}</ul>
    <div class="plot" data-points="${
    JSON.stringify(points)
  }" aria-hidden="true"><p class="empty undrawn">This browser does not draw the chart. The table has its numbers.</p></div>
    <details id="days:${id}"><summary>As a table<span class="unseen">: ${title}</span></summary>
      <div class="scroll" tabindex="0" role="group" aria-label="${title}"><table class="plain numbers">
        <thead><tr>${
    ["Day", ...kinds.map(([, words]) => words)].map((text) => html`<th scope="col">${text}</th>`)
  }</tr></thead>
        <tbody>${
    withChanges.map((day) =>
      html`<tr><th scope="row">${dayWords(day.day)}</th>${
        kinds.map(([kind]) => html`<td>${grouped(day[kind])}</td>`)
      }</tr>`
    )
  }</tbody>
      </table></div>
    </details>
  </section>`
}

/** Sums have any number of digits, so they stay text. A bar shows the share of the largest sum, to a thousandth. */
const amounts = (list: ListSnapshot, { at: readAt, otherStatuses, statuses }: Overview, at: string): Html => {
  const all = [
    ...statuses.map(({ status, ...totals }) => ({
      label: status === null ? "(none)" : html`<bdi>${status}</bdi>`,
      ...totals
    })),
    ...(otherStatuses.rows === 0 ? [] : [{ label: "(others)", ...otherStatuses }])
  ]
  const columns = [...new Set(all.flatMap(({ sums }) => Object.keys(sums)))]
  const [first] = columns
  const title = first === undefined ? "Rows by status" : "Amounts by status"
  if (all.length === 0) {
    return html`<section class="chart totals"><h4>${title}</h4><p class="empty">No rows, as of ${
      time(readAt, at)
    }.</p></section>`
  }
  const measure = (totals: { readonly rows: number; readonly sums: { readonly [column: string]: string } }) =>
    magnitude(first === undefined ? String(totals.rows) : totals.sums[first] ?? "0")
  const largest = all.reduce((most, totals) => measure(totals) > most ? measure(totals) : most, 1n)
  return html`<section class="chart totals"><h4>${title}</h4>
    <div class="scroll" tabindex="0" role="group" aria-label="${title} of ${list.list}"><table class="plain numbers amounts">
      <thead><tr><th scope="col">Status</th><th scope="col">Rows</th>${
    columns.map((column) => html`<th scope="col">${listTitle(column.replaceAll("_", " "))}</th>`)
  }</tr></thead>
      <tbody>${
    all.map((totals) =>
      html`<tr>
        <th scope="row"><div class="status">${totals.label}</div>${
        bar(Number(measure(totals) * 1000n / largest) / 1000, "amount")
      }</th>
        <td>${grouped(totals.rows)}</td>
        ${columns.map((column) => html`<td>${grouped(totals.sums[column] ?? "0")}</td>`)}
      </tr>`
    )
  }</tbody>
    </table></div>
    <p class="muted">${
    first === undefined
      ? "The bars compare rows."
      : `Exact sums in the API's own unit, without the missing rows. The bars compare the sums of ${
        first.replaceAll("_", " ")
      }.`
  } As of ${time(readAt, at)}.</p>
  </section>`
}

/** Text that is no integer, which only another program can have written, counts as 0. */
const magnitude = (digits: string): bigint => {
  const value = /^-?\d+$/.test(digits) ? BigInt(digits) : 0n
  return value < 0n ? -value : value
}

const lastScan = ({ completeScan }: ListSnapshot, at: string): Html => {
  if (completeScan === null) return facts("Last full scan", [["Result", "No full scan is complete yet."]])
  const { certificate, endedAt, scan, startedAt } = completeScan
  const times = html`${time(startedAt, at)} to ${time(endedAt, at)}, ${
    durationWords(secondsBetween(startedAt, endedAt))
  }`
  if (certificate === null) {
    return facts("Last full scan", [["Scan", grouped(scan)], ["Time", times], ["Certificate", "Not readable."]])
  }
  return facts("Certificate of the last full scan", [
    ["Scan", grouped(scan)],
    ["Time", times],
    [
      "Read",
      `${counted(certificate.records, "record")} on ${counted(certificate.pages, "page")}, to the ${certificate.end}`
    ],
    ["Different ids", grouped(certificate.distinct)],
    ["Repeats", grouped(certificate.repeats)],
    ["Quarantined", grouped(certificate.quarantined)],
    ...(certificate.withoutId === 0 ? [] : [["Without id", grouped(certificate.withoutId)] as const]),
    ...Object.entries(certificate.sums).map(([column, sum]) =>
      [`Sum of ${column.replaceAll("_", " ")}`, grouped(sum)] as const
    ),
    ["Digest", html`<code>${certificate.digest}</code>`]
  ])
}

const runs = (list: ListSnapshot, at: string): Html =>
  facts("Runs", [
    [
      "Now",
      list.progress === null ?
        "Idle" :
        html`${kindTitle[list.progress.kind]} since ${time(list.progress.startedAt, at)}, ${
          counted(list.progress.records, "record")
        } on ${counted(list.progress.pages, "page")}`
    ],
    ...scheduled(list).map(({ iso, kind }) => [`Next ${kindTitle[kind].toLowerCase()}`, time(iso, at)] as const),
    // This worker shows its own scan as progress. What it has read about it before is older.
    ...(list.running === null || list.running === undefined || list.holdsLock ? [] : [
      [
        list.holder === null ? "Interrupted scan" : "Its scan",
        `${counted(list.running.records, "record")} on ${counted(list.running.pages, "page")}`
      ] as const
    ]),
    ["Lock", list.holdsLock ? "This worker" : list.holder === null ? "Nobody" : html`<bdi>${list.holder}</bdi>`]
  ])

/** The open records, and the command that prints them: the page itself shows no record. */
const openRecords = ({ destination }: SourceSnapshot, list: ListSnapshot, at: string): Html | undefined => {
  const { maxOpenSeconds, open, openRecords: found } = list
  const known = Lists.all.find(({ label }) => label === list.list)
  if (found === null || known === undefined) return undefined
  const [oldest] = open ?? []
  const undated = undatedIn(found)
  const command = `payments query --from ${shellWord(destination)} ${
    quotedWord(openRecordsSql(known, found.finalStates))
  }`
  return facts("Open records", [
    ...found.lacking.length > 0
      ? [["Open", `Not known: the copy leaves out or replaces ${allOf(found.lacking)}.`] as const]
      : [["Open", counted(found.statuses.reduce((sum, one) => sum + one.records, 0), "record")] as const],
    ...oldest === undefined || oldest.seconds === null ? [] : [
      [
        "Oldest",
        html`${durationWords(oldest.seconds)}, <bdi>${oldest.status ?? "without a status"}</bdi>, created ${
          time(found.statuses[0]?.oldestAt ?? at, at)
        }`
      ] as const
    ],
    ...undated === 0 ? [] : [["Without a date", grouped(undated)] as const],
    ...maxOpenSeconds === null ? [] : [["Allowed", limitWords(maxOpenSeconds)] as const],
    ["Final", html`<bdi>${finalStatesText(known, found.finalStates)}</bdi>`],
    ...found.lacking.length > 0 ? [] : [["To print them", html`<code>${command}</code>`] as const]
  ])
}

const facts = (title: string, entries: ReadonlyArray<readonly [string, Content]>): Html =>
  html`<section><h4>${title}</h4><dl>${
    entries.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)
  }</dl></section>`
