/** The state of the worker's sources. Their loops update it; health checks, metrics and the status page read it. */
import {
  ageOf,
  driftLine,
  driftWithoutSecrets,
  type ListFreshness,
  type PassOutcome,
  type PassSummary,
  type ScanEvent,
  type ScanOutcome,
  type ScanSummary,
  type SinkError
} from "@payments/copy"
import { Lists, Monotonic, type PaymentsError } from "@payments/core"
import { limitSeconds, observedOpen } from "@payments/program"
import type { Source } from "@payments/program/sources"
import { Context, DateTime, Duration, Effect, Layer, Option, Result } from "effect"
import { type IsSecret, problemAnnotations } from "./Log.ts"
import type {
  ClusterSnapshot,
  Failure,
  HandoffState,
  ListSnapshot,
  ListState,
  Problem,
  Progress,
  Snapshot,
  SourceSnapshot
} from "./StatusSnapshot.ts"

export interface SourceState extends Omit<SourceSnapshot, "lists" | "runner"> {
  readonly lists: ReadonlyArray<ListState>
}

export interface ClusterState extends ClusterSnapshot {
  /** The live runners, by source. */
  readonly runners: ReadonlyMap<string, string>
}

export type ListReader = Effect.Effect<ReadonlyArray<ListFreshness>, SinkError>

/** How long the lists of a source elsewhere are not read again, and how long a destination may take to answer. */
const fleetInterval = Duration.seconds(10)
const fleetTimeout = Duration.seconds(5)
/** How many destinations are read at the same time. */
const fleetConcurrency = 8

const noAnswer = { reason: "Unavailable", error: "the destination did not answer within 5 s" }

export class Status extends Context.Service<Status, {
  readonly current: Effect.Effect<Snapshot>
  /**
   * Like `current`, with the lists of the sources that this worker does not run. They are read from their destinations,
   * at most every 10 seconds.
   */
  readonly fleet: Effect.Effect<Snapshot>
  /** Sets how the lists of a source are read from its destination while this worker does not run it. */
  readonly setReader: (source: string, read: ListReader) => Effect.Effect<void>
  /** Adds a source, or replaces the one with this name. */
  readonly set: (source: SourceState) => Effect.Effect<void>
  /** Ignores a source that was removed. */
  readonly update: (source: string, update: (state: SourceState, now: string) => SourceState) => Effect.Effect<void>
  /** Notes whether the last request of a source shared its rate. Ignores a source that was removed. */
  readonly noteRateUnsafe: (source: string, isShared: boolean | null) => void
  readonly remove: (source: string) => Effect.Effect<void>
  readonly setCluster: (cluster: ClusterState) => Effect.Effect<void>
}>()("@payments/worker/Status") {
  static readonly layer = (version: string) => Layer.effect(Status, make(version))
}

/** The moment of a snapshot on both clocks. */
const moment = Effect.all({ now: DateTime.now, monotonic: Monotonic.millis })

const sourceSnapshot = (
  source: SourceState,
  cluster: ClusterState | undefined,
  listOf: (list: ListState) => SourceSnapshot["lists"][number]
): SourceSnapshot =>
  source.state === "elsewhere"
    ? { ...source, runner: cluster?.runners.get(source.name) ?? null, isRateShared: null, lists: [], handoffs: [] }
    : { ...source, runner: cluster?.runner ?? null, lists: source.lists.map(listOf) }

const make = Effect.fnUntraced(function*(version: string) {
  const sources = new Map<string, SourceState>()
  const startedAt = yield* timestamp
  let cluster: ClusterState | undefined
  const ages = makeAges()
  const readers = new Map<string, Effect.Effect<FoundLists>>()
  const readElsewhere = Effect.fnUntraced(function*(shown: SourceSnapshot) {
    const read = readers.get(shown.name)
    const state = sources.get(shown.name)
    if (shown.state !== "elsewhere" || read === undefined || state === undefined) return shown
    const found = yield* read
    const { monotonic, now } = yield* moment
    return {
      ...shown,
      problem: Result.isFailure(found) ? problemOf(found.failure, null, DateTime.formatIso(now)) : null,
      lists: listsFrom(found, state).map((list) => listSnapshot(list, ages.of(shown.name, list, now, monotonic), now))
    }
  })
  const current = Effect.map(moment, ({ monotonic, now }): Snapshot => ({
    version,
    startedAt,
    at: DateTime.formatIso(now),
    cluster: cluster === undefined ? null : { runner: cluster.runner, isHealthy: cluster.isHealthy },
    sources: [...sources.values()].map((source) =>
      sourceSnapshot(source, cluster, (list) => listSnapshot(list, ages.of(source.name, list, now, monotonic), now))
    )
  }))
  const update: Status["Service"]["update"] = (name, change) =>
    Effect.map(moment, ({ monotonic, now }) => {
      const state = sources.get(name)
      if (state === undefined) return
      const updated = change(state, DateTime.formatIso(now))
      sources.set(name, updated)
      for (const list of updated.lists) ages.note(name, list, now, monotonic)
    })
  return Status.of({
    current,
    fleet: Effect.gen(function*() {
      const snapshot = yield* current
      return {
        ...snapshot,
        sources: yield* Effect.forEach(snapshot.sources, readElsewhere, { concurrency: fleetConcurrency })
      }
    }),
    setReader: (name, read) =>
      Effect.mapError(read, problemAnnotations).pipe(
        Effect.result,
        Effect.timeoutOption(fleetTimeout),
        Effect.map(Option.getOrElse((): FoundLists => Result.fail(noAnswer))),
        Effect.cachedWithTTL(fleetInterval),
        Effect.map((cached) => void readers.set(name, cached))
      ),
    set: (source) => Effect.sync(() => void sources.set(source.name, source)),
    update,
    noteRateUnsafe: (name, isShared) => {
      const state = sources.get(name)
      if (state !== undefined && state.isRateShared !== isShared) {
        sources.set(name, { ...state, isRateShared: isShared })
      }
    },
    remove: (name) =>
      Effect.sync(() => {
        sources.delete(name)
        readers.delete(name)
      }),
    setCluster: (state) => Effect.sync(() => void (cluster = state))
  })
})

/** What a destination knows about its lists, or why it cannot be read. */
type FoundLists = Result.Result<
  ReadonlyArray<ListFreshness>,
  { readonly reason: string; readonly error: string }
>

const listsFrom = (found: FoundLists, { lists }: SourceState): ReadonlyArray<ListState> =>
  lists.map((list) => {
    const freshness = Result.isFailure(found) ? undefined : found.success.find((one) => one.list === list.list)
    return freshness === undefined ? list : listFrom(freshness, list)
  })

const timestamp = Effect.map(DateTime.now, DateTime.formatIso)

const listSnapshot = (
  state: ListState,
  age: Duration.Duration | undefined,
  now: DateTime.DateTime
): ListSnapshot => {
  const { maxAgeSeconds, openRecords } = state
  const ageSeconds = age === undefined ? null : Duration.toSeconds(age)
  return {
    ...state,
    ageSeconds,
    open: observedOpen(openRecords, now),
    isFresh: maxAgeSeconds === null || (ageSeconds !== null && ageSeconds <= maxAgeSeconds)
  }
}

/** The age of a complete full scan at the monotonic time `notedAt`. */
interface NotedAge {
  readonly startedAt: string
  readonly notedAt: number
  readonly age: Duration.Duration | undefined
}

/**
 * Knows the ages of lists, although the wall clock may be set back: then a list would seem younger than it is. When a
 * complete full scan is noted, its age also grows on the monotonic clock. The higher age counts.
 */
const makeAges = () => {
  const noted = new Map<string, NotedAge>()
  /** When the last full scans of this process began. The wall-clock time identifies a scan; `at` is monotonic. */
  const begun = new Map<string, { readonly startedAt: string; readonly at: number }>()
  const note = (source: string, list: ListState, now: DateTime.DateTime, monotonic: number) => {
    const key = JSON.stringify([source, list.list])
    const { completeScan, holdsLock, progress } = list
    if (progress?.kind === "full" && begun.get(key)?.startedAt !== progress.startedAt) {
      begun.set(key, { startedAt: progress.startedAt, at: monotonic })
    }
    if (completeScan === null) return void noted.delete(key)
    const before = noted.get(key)
    if (before?.startedAt === completeScan.startedAt) return
    const age = ageOf({ completeScan: { ...completeScan, certificate: undefined } }, now)
    const begin = before === undefined || !holdsLock ? undefined : begun.get(key)
    const own = Duration.millis(begin === undefined ? 0 : monotonic - begin.at)
    noted.set(key, {
      startedAt: completeScan.startedAt,
      notedAt: monotonic,
      age: age === undefined ? undefined : Duration.max(age, own)
    })
  }
  const of = (source: string, list: ListState, now: DateTime.DateTime, monotonic: number) => {
    note(source, list, now, monotonic)
    const before = noted.get(JSON.stringify([source, list.list]))
    if (list.completeScan === null || before?.age === undefined) return undefined
    const age = ageOf({ completeScan: { ...list.completeScan, certificate: undefined } }, now)
    return age === undefined
      ? undefined
      : Duration.max(age, Duration.sum(before.age, Duration.millis(monotonic - before.notedAt)))
  }
  return { note, of }
}

/** Returns the state of a source of which nothing is known yet. */
export const initialState = (
  { handoffs = [], lists, maxAge, maxOpen, name }: Source,
  destination: string
): SourceState => ({
  name,
  destination,
  state: "starting",
  isRateShared: null,
  problem: null,
  handoffs: handoffs.map(({ consumer, origin }) => inactive(consumer, origin)),
  lists: lists.map((list) => ({
    list: Lists.byName[list].label,
    rows: null,
    missing: 0,
    quarantined: 0,
    completeScan: null,
    holder: null,
    holdsLock: false,
    headProblem: null,
    drift: [],
    maxAgeSeconds: limitSeconds(maxAge),
    maxOpenSeconds: limitSeconds(maxOpen?.[Lists.byName[list].label]),
    progress: null,
    failure: null,
    stall: null,
    next: { full: null, window: null, head: null },
    running: null,
    generation: null,
    lastChange: null,
    consumers: [],
    openRecords: null,
    overview: null
  }))
})

/** A hand-off of which nothing is known yet. */
export const inactive = (consumer: string, origin: string | null): HandoffState => ({
  consumer,
  origin,
  state: "inactive",
  reason: null,
  seq: null,
  position: null,
  lagChanges: null,
  lagSeconds: null,
  setAside: null,
  undecided: null,
  resentAt: null,
  attempts: 0,
  nextAttemptAt: null,
  answer: null,
  problem: null
})

/** Returns the state of a list after its destination was read. */
export const listFrom = (
  { completeScan, consumers, generation, headProblem, holder, lastChange, missing, quarantined, rows, running }:
    ListFreshness,
  list: ListState
): ListState => ({
  ...list,
  failure: isOver(list.failure, list, completeScan) ? null : list.failure,
  stall: isOver(list.stall, list, completeScan) ? null : list.stall,
  rows,
  missing,
  quarantined,
  completeScan: completeScan === undefined ? null : { ...completeScan, certificate: completeScan.certificate ?? null },
  holder: list.holdsLock ? null : holder ?? null,
  headProblem: headProblem ?? null,
  running: running ?? null,
  generation: generation ?? null,
  lastChange,
  consumers
})

/** Whether this worker is a standby now, and another one has scanned the list since the problem. */
const isOver = (problem: Problem | null, { holdsLock }: ListState, completeScan: ListFreshness["completeScan"]) =>
  problem !== null && !holdsLock && completeScan !== undefined &&
  Date.parse(completeScan.endedAt) > Date.parse(problem.since)

export const updateList = (state: SourceState, label: string, update: (list: ListState) => ListState): SourceState => ({
  ...state,
  lists: state.lists.map((list) => list.list === label ? update(list) : list)
})

export const updateHandoff = (
  state: SourceState,
  consumer: string,
  update: (handoff: HandoffState) => HandoffState
): SourceState => ({
  ...state,
  handoffs: state.handoffs.map((handoff) => handoff.consumer === consumer ? update(handoff) : handoff)
})

/** If the reason is the same as before, `since` stays. */
export const problemOf = (
  { error, reason }: { readonly error: string; readonly reason: string },
  before: Problem | null,
  now: string
): Problem => ({ reason, message: error, since: before?.reason === reason ? before.since : now })

export const listAfter = (event: ScanEvent, list: ListState, now: string, isSecret: IsSecret): ListState => {
  // A head pass may run within a full scan, whose progress matters more.
  if (event.kind === "head" && list.progress?.kind === "full" && event._tag !== "Ended") return list
  switch (event._tag) {
    case "Begun": {
      const { pages, records } = event.progress
      const expected = event.kind === "full" ? list.completeScan?.certificate?.records ?? null : null
      return { ...list, progress: { kind: event.kind, startedAt: now, pages, records, expected, waiting: null } }
    }
    case "Committed": {
      const { pages, records } = event.progress
      return {
        ...withProgress(list, { pages, records, waiting: null }),
        stall: event.kind === "full" ? null : list.stall
      }
    }
    case "Waiting":
      return withProgress(list, {
        waiting: problemOf(problemAnnotations(event.error), list.progress?.waiting ?? null, now)
      })
    case "Filling":
    case "Restarted":
      return withProgress(list, { waiting: null })
    case "Ended":
      return {
        ...list,
        progress: list.progress?.kind === event.kind ? null : list.progress,
        drift: driftAfter(event, list.drift, isSecret),
        failure: failureAfter(event, list.failure, now)
      }
  }
}

const withProgress = (list: ListState, change: Partial<Progress>): ListState =>
  list.progress === null ? list : { ...list, progress: { ...list.progress, ...change } }

/** How many lines are shown of what a list has shown since its last full scan. */
const maxDrift = 20

/** A full scan says everything again that passes have said before it, unless it fails. */
const driftAfter = (
  { kind, outcome }: Extract<ScanEvent, { readonly _tag: "Ended" }>,
  before: ReadonlyArray<string>,
  isSecret: IsSecret
): ReadonlyArray<string> => {
  const { result }: { readonly result: Result.Result<ReadonlyArray<ScanSummary> | PassSummary, unknown> } = outcome
  if (Result.isFailure(result)) return before
  const ended = "kind" in result.success ? [result.success] : result.success
  const found = ended.flatMap(({ drift }) => driftWithoutSecrets(drift, isSecret).map(driftLine))
  return [...kind === "full" ? [] : before, ...found].slice(-maxDrift)
}

/** A pass does not replace the failure of a full scan. */
const failureAfter = (
  { kind, outcome }: Extract<ScanEvent, { readonly _tag: "Ended" }>,
  before: Failure | null,
  now: string
): Failure | null => {
  if (before?.kind === "full" && kind !== "full") return before
  const reason = reasonOf(outcome)
  if (reason === undefined) return before === null || before.kind === kind || kind === "full" ? null : before
  return { ...problemOf(reason, before?.kind === kind ? before : null, now), kind }
}

const reasonOf = ({ result }: ScanOutcome | PassOutcome) => {
  const ended: Result.Result<ReadonlyArray<ScanSummary> | PassSummary, PaymentsError | SinkError> = result
  if (Result.isFailure(ended)) return problemAnnotations(ended.failure)
  const scans = "kind" in ended.success ? [] : ended.success
  const heldBack = scans.reduce((sum, scan) => sum + scan.heldBack, 0)
  const why = scans.some(({ heldBackBy }) => heldBackBy === "requests")
    ? "rows are too many to look for in one scan"
    : "rows would be missing at once"
  return heldBack === 0 ? undefined : { reason: "HeldBack", error: `${heldBack} ${why}, so none was marked missing.` }
}
