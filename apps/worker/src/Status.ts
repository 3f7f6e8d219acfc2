/** The state of the worker's sources, which their loops update and health checks, metrics and the status page read. */
import type { ScanEvent, ScanOutcome } from "@payments/export"
import { Context, DateTime, Effect, Layer, PubSub, Result, Stream } from "effect"
import {
  listSnapshot,
  type ListState,
  type Problem,
  type Progress,
  type Snapshot,
  type SourceSnapshot
} from "./Snapshot.ts"

/** The state of a source. */
export interface SourceState extends Omit<SourceSnapshot, "lists"> {
  readonly lists: ReadonlyArray<ListState>
}

/** The shortest time between two snapshots of a stream of changes. */
const pause = "500 millis"

/** The state of the worker. */
export class Status extends Context.Service<Status, {
  readonly current: Effect.Effect<Snapshot>
  /** The current snapshot and, at most twice per second, a new one after a change. */
  readonly changes: Stream.Stream<Snapshot>
  /** Adds a source, or replaces the state of the source with this name. */
  readonly set: (source: SourceState) => Effect.Effect<void>
  /** Updates the state of a source. Ignores a source that was removed. */
  readonly update: (source: string, update: (state: SourceState, now: string) => SourceState) => Effect.Effect<void>
  readonly remove: (source: string) => Effect.Effect<void>
}>()("@payments/worker/Status") {
  static readonly layer = (version: string) =>
    Layer.effect(
      Status,
      Effect.gen(function*() {
        const sources = new Map<string, SourceState>()
        const startedAt = yield* timestamp
        /** A subscriber that has not read the last notification needs no second one. */
        const changed = yield* PubSub.sliding<void>(1)
        const current = Effect.map(DateTime.now, (now): Snapshot => ({
          version,
          startedAt,
          at: DateTime.formatIso(now),
          sources: [...sources.values()].map((source) => ({
            ...source,
            lists: source.lists.map((list) => listSnapshot(list, DateTime.toEpochMillis(now)))
          }))
        }))
        const change = (update: (now: string) => void) =>
          Effect.andThen(Effect.map(timestamp, update), PubSub.publish(changed, undefined))
        return Status.of({
          current,
          changes: Stream.unwrap(Effect.map(PubSub.subscribe(changed), (subscription) =>
            Stream.concat(
              Stream.fromEffect(current),
              Stream.fromEffectRepeat(Effect.andThen(PubSub.take(subscription), Effect.delay(current, pause)))
            ))),
          set: (source) => change(() => sources.set(source.name, source)),
          update: (name, update) =>
            change((now) => {
              const state = sources.get(name)
              if (state !== undefined) sources.set(name, update(state, now))
            }),
          remove: (name) => change(() => sources.delete(name))
        })
      })
    )
}

const timestamp = Effect.map(DateTime.now, DateTime.formatIso)

/** Returns the state of a source of which nothing is known yet. */
export const initialState = (
  source: Pick<SourceState, "name" | "destination">,
  lists: ReadonlyArray<Pick<ListState, "list" | "maxAgeSeconds">>
): SourceState => ({
  ...source,
  state: "starting",
  problem: null,
  lists: lists.map((list) => ({
    rows: null,
    missing: 0,
    quarantined: 0,
    completeScan: null,
    holder: null,
    holdsLock: false,
    headProblem: null,
    progress: null,
    failure: null,
    stall: null,
    next: { full: null, window: null, head: null },
    running: null,
    consumers: [],
    overview: null,
    ...list
  }))
})

/** Returns the state of a source with one list updated. */
export const updateList = (state: SourceState, label: string, update: (list: ListState) => ListState): SourceState => ({
  ...state,
  lists: state.lists.map((list) => list.list === label ? update(list) : list)
})

/** Returns the error as a problem. If the reason is the same as before, `since` stays. */
export const problemOf = (
  { message, reason }: { readonly message: string; readonly reason: { readonly _tag: string } },
  before: Problem | null,
  now: string
): Problem => ({
  reason: reason._tag,
  message,
  since: before?.reason === reason._tag ? before.since : now
})

/** Returns the state of a list after an event of a run. */
export const listAfter = (event: ScanEvent, list: ListState, now: string): ListState => {
  switch (event._tag) {
    case "Begun": {
      const { pages, records } = event.progress
      const expected = list.completeScan?.certificate?.records ?? null
      return { ...list, progress: { kind: event.kind, startedAt: now, pages, records, expected, waiting: null } }
    }
    case "Committed": {
      const { pages, records } = event.progress
      return withProgress(list, { pages, records, waiting: null })
    }
    case "Waiting":
      return withProgress(list, { waiting: problemOf(event.error, list.progress?.waiting ?? null, now) })
    case "Filling":
    case "Restarted":
      return withProgress(list, { waiting: null })
    case "Ended":
      return event.kind === "full"
        ? { ...list, progress: null, failure: failureOf(event.outcome, list.failure, now) }
        : { ...list, progress: null }
  }
}

const withProgress = (list: ListState, change: Partial<Progress>): ListState =>
  list.progress === null ? list : { ...list, progress: { ...list.progress, ...change } }

const failureOf = ({ result }: ScanOutcome, before: Problem | null, now: string): Problem | null => {
  if (Result.isFailure(result)) return problemOf(result.failure, before, now)
  const heldBack = result.success.reduce((sum, summary) => sum + summary.heldBack, 0)
  return heldBack === 0 ? null : problemOf(
    { reason: { _tag: "HeldBack" }, message: `${heldBack} rows would be missing at once, so none was marked missing.` },
    before,
    now
  )
}
