/**
 * The page of a snapshot as fragments of HTML: a heading, the findings and a group of table rows per source. For a few
 * sources, it also has the details of each list. A fragment is the unit that is sent again when its text has changed.
 */
import { counted, durationWords, grouped } from "@payments/program"
import { type Html, html } from "@payments/program/html"
import type { ListSnapshot, Progress, Snapshot, SourceSnapshot } from "../state/StatusSnapshot.ts"
import { listDetails, sourceDetails } from "./Details.ts"
import {
  type Finding,
  freshness,
  hasFailed,
  hasHeldBack,
  listFindings,
  rankOf,
  sourceFindings,
  sourceState,
  summary,
  type Verdict
} from "./Diagnosis.ts"
import type { Container, Fragment } from "./Message.ts"
import { badge, bar, icon } from "./Parts.ts"
import { kindTitle, limitWords, listTitle, scheduled, time } from "./Words.ts"

/** A view shows details only for this many sources. The details of others are one link away. */
const detailedSources = 3

const shownFindings = 20

/** The fragments are in the order of the page: the worst source first. */
export const fragments = (snapshot: Snapshot): ReadonlyArray<Fragment> => {
  const { at } = snapshot
  const sources = snapshot.sources
    .map((source) => ({ source, rank: rankOf(source, at) }))
    // The sort is stable: sources of one rank stay in the order of the file.
    .toSorted((a, b) => a.rank - b.rank)
  const isDetailed = sources.length <= detailedSources
  const rendered: Array<Fragment> = []
  const add = (container: Container, id: string, content: Html) =>
    rendered.push({ id, in: container, html: content.markup })
  add("summary", "summary-text", heading(snapshot))
  add("findings", "findings-list", findings(sources.map(({ source }) => source), at))
  for (const { rank, source } of sources) add("sources", `source:${source.name}`, group(source, rank, isDetailed, at))
  if (isDetailed) {
    for (const { source } of sources) {
      if (!source.lists.some(hasDetails)) continue
      add("details", `source-details:${source.name}`, sourceDetails(source, sources.length > 1, at))
      for (const list of source.lists.filter(hasDetails)) {
        add("details", `details:${source.name}/${list.list}`, listDetails(source, list, sources.length > 1, at))
      }
    }
  }
  return rendered
}

/** Before its first full scan, a list has nothing to show in detail. */
const hasDetails = ({ completeScan, overview }: ListSnapshot): boolean => completeScan !== null || overview !== null

const heading = (snapshot: Snapshot): Html => {
  const { more, tone, word } = summary(snapshot)
  return html`<div id="summary-text" class="summary ${tone}" data-tone="${tone}">
    ${icon(tone)}<div><h1 id="verdict">${word}</h1>${more === "" ? undefined : html`<p>${more}</p>`}</div>
  </div>`
}

const findings = (sources: ReadonlyArray<SourceSnapshot>, at: string): Html => {
  const items = sources.flatMap((source) => [
    ...itemOf(source, undefined, sourceFindings(source, at)),
    ...source.lists.flatMap((list) => itemOf(source, list, listFindings(list, at, source.name)))
  ]).toSorted((a, b) => a.tone === b.tone ? 0 : a.tone === "bad" ? -1 : 1)
  if (items.length === 0) return html`<div id="findings-list"></div>`
  const rest = items.length - shownFindings
  return html`<section id="findings-list" aria-labelledby="findings-title">
    <h2 id="findings-title">What is wrong</h2>
    <ul class="findings">${items.slice(0, shownFindings).map(({ content }) => content)}</ul>
    ${rest > 0 ? html`<p class="muted">And ${counted(rest, "more entry", "more entries")}.</p>` : undefined}
  </section>`
}

const itemOf = (source: SourceSnapshot, list: ListSnapshot | undefined, found: ReadonlyArray<Finding>) => {
  if (found.length === 0) return []
  const tone = found.some((finding) => finding.tone === "bad") ? "bad" : "warn"
  const content = html`<li class="${tone}">${icon(tone)}<div>
    <strong><bdi>${source.name}</bdi>${list === undefined ? undefined : html` · ${listTitle(list.list)}`}</strong>
    ${found.map(({ sentence }) => html`<p>${sentence}</p>`)}
  </div></li>`
  return [{ tone, content }]
}

const group = (source: SourceSnapshot, rank: number, isDetailed: boolean, at: string): Html => {
  const state = sourceState(source)
  const words = [
    source.name,
    source.destination,
    state.word,
    source.runner ?? "",
    ...source.lists.flatMap((list) => [
      list.list,
      freshness(list).word
    ])
  ].join(" ").toLowerCase()
  return html`<tbody role="rowgroup" id="source:${source.name}" class="source" data-words="${words}" data-rank="${rank}">
    <tr role="row" class="source-row"><th role="rowheader" scope="rowgroup" colspan="7"><div class="source-head">
      <span class="source-name"><bdi>${source.name}</bdi></span>${badge(state)}${
    source.state === "elsewhere" && source.runner !== null
      ? html`<span class="runner">Runner <bdi>${source.runner}</bdi></span>`
      : undefined
  }
      <span class="destination"><bdi>${source.destination}</bdi></span>
      ${
    isDetailed || source.state === "elsewhere"
      ? undefined
      : html`<a href="/?source=${source.name}">Details<span class="unseen"> of ${source.name}</span></a>`
  }
    </div></th></tr>
    ${source.lists.map((list) => row(source, list, isDetailed, at))}
  </tbody>`
}

const row = (source: SourceSnapshot, list: ListSnapshot, isDetailed: boolean, at: string): Html => {
  const verdict = freshness(list)
  const title = listTitle(list.list)
  return html`<tr role="row" class="list-row ${verdict.tone}">
    <th role="rowheader" scope="row" class="name">${
    isDetailed && hasDetails(list) ? html`<a href="#details:${source.name}/${list.list}">${title}</a>` : title
  }</th>
    <td role="cell" class="fresh" data-label="Age">${badge(verdict)}${age(list, verdict)}</td>
    <td role="cell" class="run" data-label="Now">${activity(source, list, at)}</td>
    ${number("Rows", list.rows, false)}
    ${number("Missing", list.rows === null ? null : list.missing, false)}
    ${number("Quarantine", list.rows === null ? null : list.quarantined, list.quarantined > 0)}
    <td role="cell" class="next" data-label="Next run">${next(list, at)}</td>
  </tr>`
}

const number = (label: string, value: number | null, isRemarkable: boolean): Html =>
  html`<td role="cell" class="number${isRemarkable ? " remarkable" : ""}" data-label="${label}">${
    value === null ? "–" : grouped(value)
  }</td>`

const age = ({ ageSeconds, maxAgeSeconds }: ListSnapshot, { tone }: Verdict): Html => {
  if (ageSeconds === null) return html``
  const share = maxAgeSeconds === null ? undefined : Math.min(1, ageSeconds / maxAgeSeconds)
  return html`<span class="note"><b>${durationWords(ageSeconds)}</b> old${
    maxAgeSeconds === null ? undefined : html`<span class="limit">, limit ${limitWords(maxAgeSeconds)}</span>`
  }</span>${share === undefined ? undefined : bar(share, tone)}`
}

const activity = (source: SourceSnapshot, list: ListSnapshot, at: string): Html => {
  if (list.progress !== null) return progress(list.progress, at)
  if (!list.holdsLock && list.holder !== null) {
    return html`<span class="note">Another worker <span class="limit"><bdi>${
      list.holder.replace(/ since \S+$/, "")
    }</bdi></span></span>`
  }
  if (list.failure !== null && hasFailed(list)) {
    return html`<span class="note warn">${icon("warn")}${kindTitle[list.failure.kind]} failed</span>`
  }
  if (hasHeldBack(list)) return html`<span class="note warn">${icon("warn")}Rows held back</span>`
  if (source.state === "stopped") return html`<span class="note">Stopped</span>`
  if (source.state === "starting") return html`<span class="note">Opening the destination</span>`
  if (list.completeScan === null) return html`<span class="note">Idle</span>`
  return html`<span class="note">Idle <span class="limit">since ${time(list.completeScan.endedAt, at)}</span></span>`
}

const progress = ({ expected, kind, records, waiting }: Progress, at: string): Html => {
  const share = expected === null || expected === 0 ? undefined : Math.min(1, records / expected)
  const done = share === undefined ? "" : ` ${Math.floor(share * 100)} %`
  const read = expected === null ? counted(records, "record") : `${grouped(records)} of about ${grouped(expected)}`
  return html`<span class="note"><b>${kindTitle[kind]}${done}</b> <span class="limit">${read}</span></span>${
    share === undefined ? undefined : bar(share, "running")
  }${
    waiting === null
      ? undefined
      : html`<span class="note warn">${icon("warn")}Waits since ${time(waiting.since, at)}</span>`
  }`
}

const next = (list: ListSnapshot, at: string): Html => {
  const soonest = scheduled(list).toSorted((a, b) => Date.parse(a.iso) - Date.parse(b.iso))[0]
  return soonest === undefined
    ? html`<span class="note">–</span>`
    : html`<span class="note">${kindTitle[soonest.kind]} <span class="limit">${time(soonest.iso, at)}</span></span>`
}
