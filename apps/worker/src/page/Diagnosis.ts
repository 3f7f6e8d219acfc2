/** What the state of a list or a source means for a person: how bad it is, in one word and in sentences. */
import { heldBackText, skippedText, undatedIn } from "@payments/copy"
import { allOf, counted, durationWords, grouped, haltCommands, haltText } from "@payments/program"
import { type Html, html } from "@payments/program/html"
import {
  haltedOf,
  type HandoffState,
  isWithoutRunner,
  type ListSnapshot,
  placeOf,
  type Snapshot,
  type SourceSnapshot
} from "../state/StatusSnapshot.ts"
import { kindTitle, limitWords, secondsBetween, time } from "./Words.ts"

/**
 * `bad`: a person has to look. `warn`: it may end by itself, or needs a look some day. `idle`: neither good nor bad.
 */
export type Tone = "bad" | "warn" | "good" | "idle"

export interface Verdict {
  readonly tone: Tone
  readonly word: string
}

/** A sentence about something that is wrong. */
export interface Finding {
  readonly tone: "bad" | "warn"
  readonly sentence: Html
}

/** Whether the list is as fresh as it has to be. */
export const freshness = (list: ListSnapshot): Verdict => {
  if (list.stall !== null) return { tone: "bad", word: "Stalled" }
  if (list.ageSeconds === null) {
    if (list.completeScan !== null) return { tone: list.isFresh ? "idle" : "bad", word: "Age unknown" }
    if (list.progress !== null) return { tone: "idle", word: "First scan" }
    // The first scan begins by itself. Only if it failed, a person has to look.
    return { tone: list.failure === null ? "idle" : "bad", word: "Never scanned" }
  }
  if (!list.isFresh) return { tone: "bad", word: "Stale" }
  return list.maxAgeSeconds === null ? { tone: "idle", word: "No limit" } : { tone: "good", word: "Fresh" }
}

export const sourceState = ({ problem, runner, state }: SourceSnapshot): Verdict => {
  switch (state) {
    case "elsewhere":
      return runner === null ? { tone: "warn", word: "No runner" } : { tone: "idle", word: "Elsewhere" }
    case "stopped":
      return { tone: "bad", word: "Stopped" }
    case "standby":
      return { tone: "idle", word: "Standby" }
    case "starting":
      return problem === null ? { tone: "idle", word: "Starting" } : { tone: "bad", word: "Waiting" }
    case "running":
      return problem === null ? { tone: "good", word: "Running" } : { tone: "bad", word: "Waiting" }
  }
}

/** Everything that is wrong with a source itself, without its lists. */
export const sourceFindings = (source: SourceSnapshot, at: string): ReadonlyArray<Finding> => {
  const { isRateShared, problem, state } = source
  const found: Array<Finding> = []
  if (isWithoutRunner(source)) {
    found.push({ tone: "warn", sentence: html`No live runner of the cluster is known to have this source.` })
  }
  if (problem !== null) {
    const what = state === "stopped" ? "The source is stopped until a person acts" : "The source cannot run"
    found.push({ tone: "bad", sentence: html`${what}: ${said(problem.message)} ${since(problem.since, at)}` })
  }
  if (isRateShared === false) {
    found.push({
      tone: "warn",
      sentence:
        html`The rate limit store cannot be used. Until it can, this process sends only its share of the key's requests. Its log says why.`
    })
  }
  const ofHandoffs = source.handoffs.flatMap((handoff) => handoffFindings(handoff, source, at))
  for (const tone of ["bad", "warn"] as const) found.push(...ofHandoffs.filter((one) => one.tone === tone))
  return found
}

export const handoffVerdict = ({ attempts, problem, setAside, state, undecided }: HandoffState): Verdict => {
  switch (state) {
    case "stopped":
      return { tone: "bad", word: "Stopped" }
    case "waiting":
      return { tone: "bad", word: "Needs a decision" }
    case "removed":
      return { tone: "warn", word: "Not in the settings" }
    case "inactive":
      return problem === null ? { tone: "idle", word: "Not started" } : { tone: "warn", word: "Waiting" }
    case "running":
      if ((undecided ?? 0) > 0) return { tone: "bad", word: "Needs a decision" }
      return problem === null && attempts < 2 && (setAside ?? 0) === 0
        ? { tone: "good", word: "Sending" }
        : { tone: "warn", word: "Waiting" }
  }
}

const handoffFindings = (handoff: HandoffState, source: SourceSnapshot, at: string): ReadonlyArray<Finding> => {
  const { answer, attempts, consumer, nextAttemptAt, problem, resentAt, setAside, state, undecided } = handoff
  const name = html`The hand-off to <bdi>${consumer}</bdi>`
  const place = placeOf(source)
  const last = answer === null ? "" : ` The last answer was ${answer}.`
  const halted = haltedOf(handoff)
  if (halted !== undefined) {
    const commands = haltCommands(halted, place).map(({ command, joint }) =>
      html`${joint === "" ? "" : `, ${joint} `}<code>${command}</code>`
    )
    return [{ tone: "bad", sentence: html`${name} ${haltText(halted)}.${last} To go on: ${commands}` }]
  }
  if (state === "removed") {
    const command = `payments changes consumers --remove ${consumer} ${place}`
    return [{
      tone: "warn",
      sentence:
        html`The settings no longer name the consumer <bdi>${consumer}</bdi>, and changes are kept for it. To remove it: <code>${command}</code>`
    }]
  }
  const aside = setAside === null || setAside === 0
    ? undefined
    : html`${name} has set ${counted(setAside, "change")} aside`
  if (aside !== undefined && undecided !== null && undecided > 0) {
    const verb = undecided === 1 ? "waits" : "wait"
    return [{
      tone: "bad",
      sentence: html`${aside}. ${
        grouped(undecided)
      } of them ${verb} for a decision: <code>payments handoff list ${place}</code>`
    }]
  }
  if (problem !== null) {
    return [{ tone: "warn", sentence: html`${name} waits: ${said(problem.message)} ${since(problem.since, at)}` }]
  }
  if (aside !== undefined) {
    const again = resentAt === null ? "" : html` at ${time(resentAt, at)}`
    const command = `payments handoff resume ${consumer} ${place}`
    return [{
      tone: "warn",
      sentence: html`${aside}, and sends them again${again}.${last} To do so at once: <code>${command}</code>`
    }]
  }
  if (state !== "running" || attempts < 2) return []
  const next = nextAttemptAt === null ? "" : html` It is sent again at ${time(nextAttemptAt, at)}.`
  return [{
    tone: "warn",
    sentence: html`${name} waits: the receiver has not accepted a batch after ${
      counted(attempts, "attempt")
    }.${last}${next}`
  }]
}

/** The worst finding comes first. With the name of the source, a finding links to the details of the list. */
export const listFindings = (list: ListSnapshot, at: string, source?: string): ReadonlyArray<Finding> => {
  const { tone } = freshness(list)
  const found: Array<Finding> = []
  const add = (severity: Finding["tone"], sentence: Html) => found.push({ tone: severity, sentence })
  if (list.stall !== null) {
    add("bad", html`A full scan makes no progress: ${saidOf(list, list.stall.message)} ${since(list.stall.since, at)}`)
  }
  if (list.maxAgeSeconds !== null && !list.isFresh) {
    const allowed = limitWords(list.maxAgeSeconds)
    if (list.ageSeconds !== null) {
      const age = durationWords(list.ageSeconds)
      add("bad", html`The data is ${age === allowed ? `more than ${age}` : age} old. At most ${allowed} is allowed.`)
    } else if (list.completeScan !== null) {
      add("bad", html`The age is unknown until the next full scan: a clock was set back.`)
    }
  }
  const waiting = list.progress?.waiting ?? null
  if (waiting !== null && list.progress !== null) {
    add(
      "warn",
      html`${kindTitle[list.progress.kind]} waits: ${saidOf(list, waiting.message)} ${since(waiting.since, at)}`
    )
  }
  // A run that waits for the reason that ended the run before is one problem.
  const heldBack = heldBackText(list.completeScan?.certificate)
  if (heldBack !== undefined) add("warn", html`${sentence(heldBack)}`)
  const skipped = skippedText(list.completeScan?.certificate)
  if (skipped !== undefined) add("warn", html`${sentence(skipped)}`)
  if (
    list.failure !== null && list.failure.message !== waiting?.message && (heldBack === undefined || hasFailed(list))
  ) {
    const { kind, message } = list.failure
    const what = `The last ${kindTitle[kind].toLowerCase()} ${hasFailed(list) ? "failed" : "held rows back"}`
    add(tone === "bad" ? "bad" : "warn", html`${what}: ${saidOf(list, message)} ${since(list.failure.since, at)}`)
  }
  for (const finding of openFindings(list, source)) add("warn", finding)
  if (list.headProblem !== null) add("warn", html`Head passes are stopped: ${saidOf(list, list.headProblem)}`)
  for (const line of list.drift) add("warn", html`The behaviour of the service has changed: ${said(line)}`)
  if (list.quarantined > 0) {
    add(
      "warn",
      html`${counted(list.quarantined, "record")} in quarantine: not of the form that the API's document describes.`
    )
  }
  return found
}

/** Says which records have been open for too long. */
const openFindings = (
  { list, maxOpenSeconds, open, openRecords }: ListSnapshot,
  source?: string
): ReadonlyArray<Html> => {
  if (maxOpenSeconds === null || openRecords === null) return []
  const { finalStates, lacking } = openRecords
  if (lacking.length > 0) {
    return [html`The copy leaves out or replaces ${allOf(lacking)}, so nobody knows how long records are open.`]
  }
  const undated = undatedIn(openRecords)
  const withoutDate = undated === 0
    ? []
    : [
      html`Nobody knows how long ${counted(undated, "open record")} without a date of creation ${
        undated === 1 ? "has" : "have"
      } been open.`
    ]
  const late =
    open?.flatMap((one) =>
      one.seconds !== null && one.seconds > maxOpenSeconds ? [{ ...one, seconds: one.seconds }] : []
    ) ?? []
  const [oldest] = late
  if (oldest === undefined) return withoutDate
  const statuses = late.length === 1 ? "" : ` and ${counted(late.length - 1, "other status", "other statuses")}`
  const unknown = finalStates.from === "unknown" ? " No final status is known, so every record counts as open." : ""
  const link = source === undefined
    ? undefined
    : html` <a href="/?source=${source}#details:${source}/${list}">How to print the records</a>`
  return [
    html`A record has been open for ${durationWords(oldest.seconds)} (<bdi>${
      oldest.status ?? "without a status"
    }</bdi>${statuses}). At most ${limitWords(maxOpenSeconds)} is allowed.${unknown}${link}`,
    ...withoutDate
  ]
}

/** Makes a sentence of a text. */
const sentence = (text: string): string => `${text[0]?.toUpperCase() ?? ""}${text.slice(1)}.`

/** Whether the last full scan ended, but has marked no row missing because too many would be. */
export const hasHeldBack = ({ completeScan, failure }: ListSnapshot): boolean =>
  failure?.reason === "HeldBack" || (completeScan?.certificate?.heldBack ?? 0) > 0

/** Whether the last run did not reach its end. */
export const hasFailed = ({ failure }: ListSnapshot): boolean => failure !== null && failure.reason !== "HeldBack"

/** Text of an error: isolated from the direction of the text around it, and ended as a sentence. */
const said = (message: string): Html => html`<bdi>${/[.!?]$/.test(message) ? message : `${message}.`}</bdi>`

/** Errors of a list begin with its name, which stands above them already. */
const saidOf = ({ list }: ListSnapshot, message: string): Html =>
  said(message.startsWith(`${list}: `) ? message.slice(list.length + 2) : message)

const since = (from: string, at: string): Html =>
  html`<span class="since">Since ${time(from, at)}, ${durationWords(secondsBetween(from, at))} ago.</span>`

const ranks: { readonly [tone in Tone]: number } = { bad: 0, warn: 1, idle: 2, good: 2 }

/** The rank of a source in the page: the worst has 0. */
export const rankOf = (source: SourceSnapshot, at: string): number =>
  Math.min(
    ranks[sourceState(source).tone],
    ...sourceFindings(source, at).map((finding) => ranks[finding.tone]),
    ...source.lists.flatMap((list) => [
      ranks[freshness(list).tone],
      ...listFindings(list, at).map((finding) => ranks[finding.tone])
    ])
  )

/** The state of all sources in one sentence, and the rest in a second one. */
export const summary = (snapshot: Snapshot): Verdict & { readonly more: string } => {
  const { at, sources } = snapshot
  const lists = sources.flatMap((source) => source.lists)
  const { bad, others } = phrases(snapshot)
  const more = others.length === 0 ? "" : `${others.join(", ")}.`
  if (bad.length > 0) return { tone: "bad", word: joinWords(bad), more }
  if (sources.length === 0) return { tone: "idle", word: "No source is set up", more }
  if (lists.length === 0) {
    return { tone: sources.some(isWithoutRunner) ? "warn" : "idle", word: "This runner has no source", more }
  }
  const needsLook = sources.some((source) => sourceFindings(source, at).length > 0) ||
    lists.some((list) => listFindings(list, at).length > 0)
  const complete = lists.filter((list) => list.ageSeconds !== null).length
  if (complete < lists.length) {
    const word = complete === 0
      ? "No list has a complete full scan yet"
      : `${grouped(complete)} of ${counted(lists.length, "list")} ${
        complete === 1 ? "has" : "have"
      } a complete full scan`
    const isBefore = complete === 0 && lists.every(({ progress }) => progress === null)
    const hint = isBefore ? "The first full scans begin by themselves, and their progress appears here." : ""
    return { tone: needsLook ? "warn" : "idle", word, more: `${hint} ${more}`.trim() }
  }
  const hasLimit = lists.some((list) => list.maxAgeSeconds !== null)
  const word = !hasLimit
    ? "All lists have a complete full scan"
    : lists.length === 1
    ? "The list is fresh"
    : `All ${grouped(lists.length)} lists are fresh`
  return {
    tone: needsLook ? "warn" : hasLimit ? "good" : "idle",
    word: needsLook ? `${word}, but something needs a look` : word,
    more: hasLimit ? more : `No source sets max_age. ${more}`.trim()
  }
}

/** Phrases about all that is wrong, and about what else is worth a word. */
const phrases = ({ cluster, sources }: Snapshot) => {
  const lists = sources.flatMap((source) => source.lists)
  const count = (matches: (list: ListSnapshot) => boolean) => lists.filter(matches).length
  const countSources = (matches: (source: SourceSnapshot) => boolean) => sources.filter(matches).length
  const phrase = (n: number, words: (n: number) => string) => n === 0 ? [] : [words(n)]
  const are = (n: number) => n === 1 ? "is" : "are"
  const is = (word: string) => (list: ListSnapshot) => freshness(list).word === word
  const halted = sources.flatMap(({ handoffs }) => handoffs).filter((one) => handoffVerdict(one).tone === "bad").length
  const quarantined = lists.reduce((sum, list) => sum + list.quarantined, 0)
  return {
    bad: [
      ...phrase(Number(cluster?.isHealthy === false), () => "The database of the cluster does not answer"),
      ...phrase(count(is("Stale")), (n) => `${grouped(n)} of ${counted(lists.length, "list")} ${are(n)} stale`),
      ...phrase(count(is("Stalled")), (n) => `${counted(n, "list")} ${are(n)} stalled`),
      ...phrase(
        count((list) => list.ageSeconds === null && freshness(list).tone === "bad"),
        (n) => `${counted(n, "list")} ${n === 1 ? "has" : "have"} no complete scan`
      ),
      ...phrase(countSources(({ state }) => state === "stopped"), (n) => `${counted(n, "source")} ${are(n)} stopped`),
      ...phrase(
        countSources(({ problem, state }) => problem !== null && state !== "stopped"),
        (n) => `${counted(n, "source")} cannot run`
      ),
      ...phrase(halted, (n) => `${counted(n, "hand-off")} ${n === 1 ? "needs" : "need"} a person`)
    ],
    others: [
      ...phrase(count(is("First scan")), (n) => `${counted(n, "first full scan")} running`),
      ...phrase(count((list) => (list.progress?.waiting ?? null) !== null), (n) => `${counted(n, "run")} waiting`),
      ...phrase(
        count(hasFailed),
        (n) => `${counted(n, "list")} whose last run failed`
      ),
      ...phrase(count(hasHeldBack), (n) => `${counted(n, "list")} with rows held back`),
      ...phrase(quarantined, (n) => `${counted(n, "record")} in quarantine`),
      ...phrase(countSources(({ state }) => state === "standby"), (n) => `${counted(n, "source")} on standby`),
      ...phrase(
        countSources(({ runner, state }) => state === "elsewhere" && runner !== null),
        (n) => `${counted(n, "source")} on other runners`
      ),
      ...phrase(countSources(isWithoutRunner), (n) => `${counted(n, "source")} without a runner`)
    ]
  }
}

const joinWords = (texts: ReadonlyArray<string>): string =>
  texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1) ?? ""}`
