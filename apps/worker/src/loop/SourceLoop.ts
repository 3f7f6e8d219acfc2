/**
 * Runs one source: opens its destination, locks its lists, and runs full scans and passes when they are due (`ListLoop.ts`). If
 * the destination is lost, it is opened again. A source fails alone.
 */
import {
  Destination,
  makeSourceGuard,
  openPersonal,
  type PersonalRule,
  pruneAll,
  Sink,
  type SinkError,
  whilePersonalDataChanges
} from "@payments/copy"
import { Lists, Monotonic, PaymentsApi, type PaymentsConfigError } from "@payments/core"
import type { Source } from "@payments/program/sources"
import { Context, Data, Duration, Effect, type FileSystem, Layer, type Path, Result } from "effect"
import { problemAnnotations } from "../state/Log.ts"
import { initialState, listFrom, problemOf, Status, updateList } from "../state/Status.ts"
import { isWrittenLater, makeListLoop } from "./ListLoop.ts"
import { makeRestoreWatch } from "./Restores.ts"
import type { SourceOptions } from "./SourceOptions.ts"

/** The source cannot continue. A person has to act. */
export class SourceStopped extends Data.TaggedError("SourceStopped")<{
  readonly error: SinkError | PaymentsConfigError
}> {}

/** The wait before the settings are read or the destination is opened again. It doubles up to the maximum. */
const firstWait = Duration.seconds(1)
const longestWait = Duration.minutes(1)
/** A destination that was open for so long is opened again after the first wait. */
const steadyAfter = Duration.minutes(1)
/** The time between two reads of what the destination knows about its lists. */
const refreshInterval = Duration.seconds(15)
/** If another worker still has the locks after this time, the source is a standby. */
const standbyAfter = Duration.millis(500)

/** Runs a source until it is interrupted or stopped. */
export const runSource = Effect.fnUntraced(function*<R>(options: SourceOptions<R>) {
  const { isStrict, source } = options
  const status = yield* Status
  yield* status.set(initialState(source, locationOf(source)))
  let wait = firstWait
  /** Notes why the source does not work now, and waits before the next attempt. */
  const waitAfter = Effect.fnUntraced(
    function*(error: SinkError | PaymentsConfigError, level: "Warn" | "Error", message: string) {
      yield* options.onStart({ error: error.message })
      yield* note(options, status, error, "starting")
      if (error._tag === "SinkError") {
        yield* Effect.forEach(source.lists, (name) => options.metrics.onDestinationWait(source.name, name))
      }
      yield* Effect.logWithLevel(level)(message).pipe(
        Effect.annotateLogs({ ...problemAnnotations(error), waitMs: Duration.toMillis(wait) })
      )
      yield* Effect.sleep(wait)
      wait = Duration.min(Duration.times(wait, 2), longestWait)
    }
  )
  const stop = Effect.fnUntraced(function*(error: SinkError | PaymentsConfigError) {
    yield* options.onStart({ error: error.message })
    yield* note(options, status, error, "stopped")
    yield* Effect.annotateLogs(Effect.logError("source stopped"), problemAnnotations(error))
    return yield* new SourceStopped({ error })
  })

  const settings = Effect.all([Layer.build(Layer.fresh(options.api)), source.personal])
  let read: Effect.Success<typeof settings> | undefined
  while (read === undefined) {
    const built = yield* Effect.result(settings)
    if (Result.isSuccess(built)) read = built.success
    else if (isStrict) return yield* new SourceStopped({ error: built.failure })
    else yield* waitAfter(built.failure, "Error", "settings cannot be read")
  }
  wait = firstWait
  const [api, rule] = read

  let wasOpened = false
  const noticeRestore = makeRestoreWatch(source)
  while (true) {
    let openedAt: number | undefined
    const onOpen = Effect.map(Monotonic.millis, (now) => {
      wasOpened = true
      openedAt = now
    })
    const error = yield* useDestination({ options, rule, status, onOpen, noticeRestore }).pipe(
      Effect.provide(api),
      Effect.scoped,
      Effect.flip
    )
    // The destination is open, so only another setting helps, such as the personal key.
    if (isForeign(error) || (openedAt !== undefined && error.reason._tag === "WrongSetting")) return yield* stop(error)
    if (isStrict && !wasOpened && !isTransient(error)) return yield* new SourceStopped({ error })
    if (openedAt !== undefined && (yield* Monotonic.millis) - openedAt >= Duration.toMillis(steadyAfter)) {
      wait = firstWait
    }
    yield* error.reason._tag === "Unavailable"
      ? waitAfter(error, "Warn", "destination waits")
      : waitAfter(error, "Error", "destination failed")
  }
}, Effect.scoped)

/**
 * Whether the destination belongs to another source or merchant, has another rule, or was written by a later version of this
 * program. No later attempt would change that.
 */
const isForeign = (error: SinkError): boolean => isWrittenLater(error) || hasOtherData(error)

const hasOtherData = ({ reason }: SinkError): boolean =>
  reason._tag === "OtherSource" || reason._tag === "OtherMerchant" ||
  (reason._tag === "OtherRule" && !reason.isRewriting)

/** Whether the problem may end by itself. */
export const isTransient = ({ reason }: SinkError): boolean =>
  reason._tag === "Unavailable" || reason._tag === "Locked" || reason._tag === "Full"

const note = <R>(
  { source }: SourceOptions<R>,
  status: Status["Service"],
  error: SinkError | PaymentsConfigError,
  state: "starting" | "stopped"
) =>
  status.update(source.name, (before, now) => ({
    ...before,
    state,
    problem: problemOf(problemAnnotations(error), before.problem, now),
    // What another source's destination has is no copy of this source.
    lists: (isOtherSource(error) ? initialState(source, before.destination).lists : before.lists).map((list) => ({
      ...list,
      holdsLock: false,
      progress: null,
      next: { full: null, window: null, head: null }
    }))
  }))

const isOtherSource = (error: SinkError | PaymentsConfigError): boolean =>
  error._tag === "SinkError" && error.reason._tag === "OtherSource"

/** Opens the destination and runs its lists until the destination fails. */
const useDestination = Effect.fnUntraced(function*<R>(
  { noticeRestore, onOpen, options, rule, status }: {
    readonly options: SourceOptions<R>
    readonly rule: PersonalRule
    readonly status: Status["Service"]
    readonly onOpen: Effect.Effect<void>
    readonly noticeRestore: ReturnType<typeof makeRestoreWatch>
  }
) {
  const { source } = options
  const api = yield* PaymentsApi
  const sink = Context.get(yield* Layer.build(Layer.fresh(options.open)), Sink)
  yield* onOpen
  // Another worker may have the locks, and the next scan may be far away. A foreign destination is reported at once anyway.
  yield* whilePersonalDataChanges(Effect.gen(function*() {
    const { binding } = yield* openPersonal({ location: sink.location, personal: sink.inspect?.personal }, rule)
    for (const name of source.lists) {
      const { parameters } = api[name]
      const request = { source: api.source, limit: Lists.pageLimit.default, parameters, personal: binding }
      yield* sink.inspect?.scan(Lists.byName[name], request) ?? Effect.void
    }
  }))
  const definitions = source.lists.map((name) => Lists.byName[name])
  const refresh = Effect.gen(function*() {
    const read = sink.inspect?.freshness(definitions, api.source) ?? Effect.succeed([])
    const found = yield* read
    const lists = (yield* noticeRestore(found)) ? yield* read : found
    yield* status.update(
      source.name,
      (state) =>
        lists.reduce((next, freshness) => updateList(next, freshness.list, (list) => listFrom(freshness, list)), state)
    )
    return lists
  })
  yield* options.onStart({ destination: sink.location, lists: yield* refresh })
  yield* status.update(source.name, (state) => ({ ...state, destination: sink.location, problem: null }))
  const sourceGuard = makeSourceGuard()
  const loops = source.lists.map((name) =>
    makeListLoop({ ...options, name, rule, isSecret: api.isSecret, status, sourceGuard, refresh })
  )
  const loopOf = ({ name }: Lists.AnyList) => loops.find((loop) => loop.name === name)
  /** The sink of all lists. A list that is rendered or opened commits no page, but it does not stall. */
  const watched: Sink["Service"] = {
    ...sink,
    begin: (list, request) => loopOf(list)?.opening(sink.begin(list, request)) ?? sink.begin(list, request),
    publish: (list) => loopOf(list)?.longStep(sink.publish(list)) ?? sink.publish(list)
  }
  const charts = makeCharts(sink, source.name, status)
  const becomeStandby = Effect.gen(function*() {
    yield* Effect.sleep(standbyAfter)
    const own = Effect.map(status.current, ({ sources }) => sources.find(({ name }) => name === source.name))
    if ((yield* own)?.state !== "starting") return
    const holders = new Set((yield* refresh).flatMap(({ holder }) => holder ?? []))
    yield* status.update(
      source.name,
      (state) => state.state === "starting" ? { ...state, state: "standby" } : state
    )
    yield* Effect.annotateLogs(Effect.logInfo("standby: waits for the locks"), { holder: [...holders].join(", ") })
  })
  return yield* Effect.all([
    Effect.andThen(becomeStandby, Effect.forever(Effect.andThen(charts, Effect.delay(refresh, refreshInterval)))),
    pruning(
      source,
      Effect.map(status.current, ({ sources }) => sources.find(({ name }) => name === source.name)?.state === "running")
    ),
    ...loops.map(({ run }) => Effect.provideService(run, Sink, watched))
  ], { concurrency: "unbounded" }).pipe(Effect.andThen(Effect.never))
})

/** The time until the first removal of old changes, scans and missing rows, and between two. */
const firstPrune = Duration.minutes(1)
const pruneInterval = Duration.days(1)

/**
 * Removes old changes, scans and missing rows every day, if this worker has a lock (`isActive`). A failure is logged and tried
 * again the next day. Old snapshots of a folder are removed whenever files are rendered.
 */
export const pruning = (
  { keepChanges, keepMissing, keepScans, to }: Pick<Source, "keepChanges" | "keepMissing" | "keepScans" | "to">,
  isActive: Effect.Effect<boolean>
): Effect.Effect<void, never, FileSystem.FileSystem | Path.Path> => {
  if (to === undefined || [keepChanges, keepMissing, keepScans].every((keep) => keep === undefined)) return Effect.never
  const once = Effect.gen(function*() {
    if (!(yield* isActive)) return
    const { changes, rows, scans } = yield* pruneAll(to, { keepChanges, keepScans, keepMissing })
    const heldBack = [...changes.heldBack, ...rows.heldBack]
    yield* Effect.annotateLogs(Effect.logInfo("pruned"), {
      changes: changes.removed,
      scans: scans.removed,
      rows: rows.removed,
      heldBackBy: [
        ...new Set(heldBack.map((held) => held.by === "consumer" ? `consumer ${held.name}` : `scan ${held.scan}`))
      ]
    })
  }).pipe(
    Effect.catch((error) => Effect.annotateLogs(Effect.logWarning("prune failed"), problemAnnotations(error)))
  )
  return Effect.andThen(Effect.sleep(firstPrune), Effect.forever(Effect.andThen(once, Effect.sleep(pruneInterval))))
}

/** Figures for charts are read again after this time, or sooner after a complete full scan. */
const chartInterval = Duration.minutes(5)
const chartIntervalAfterScan = Duration.seconds(30)

/** Returns an effect that reads the figures for charts of those lists whose figures are old. */
const makeCharts = (sink: Sink["Service"], source: string, status: Status["Service"]) => {
  const readAt = new Map<string, { readonly at: number; readonly scan: number }>()
  return Effect.gen(function*() {
    const { sources } = yield* status.current
    for (const { completeScan, list: label } of sources.find(({ name }) => name === source)?.lists ?? []) {
      const list = Lists.all.find((one) => one.label === label)
      const now = yield* Monotonic.millis
      const before = readAt.get(label)
      // Figures of an unfinished copy would only be wrong, and stay for minutes.
      if (list === undefined || completeScan === null) continue
      const interval = before?.scan === completeScan.scan ? chartInterval : chartIntervalAfterScan
      if (before !== undefined && now - before.at < Duration.toMillis(interval)) continue
      readAt.set(label, { at: now, scan: completeScan.scan })
      const overview = yield* sink.inspect?.overview(list) ?? Effect.succeed(null)
      yield* status.update(source, (state) => updateList(state, label, (charted) => ({ ...charted, overview })))
    }
  })
}

/** The location of a destination before it is open, for people. It has no password. */
export const locationOf = ({ to }: Source): string => to === undefined ? "" : Destination.operations(to).location
