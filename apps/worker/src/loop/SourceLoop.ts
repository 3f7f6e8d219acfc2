/**
 * Runs one source: opens its destination, locks its lists, and runs full scans and passes when they are due
 * (`ListLoop.ts`). If the destination is lost, it is opened again. A source fails alone.
 */
import {
  Destination,
  type ListFreshness,
  makeSourceGuard,
  openPersonal,
  type PersonalRule,
  pruneAll,
  Sink,
  type SinkError,
  whilePersonalDataChanges
} from "@payments/copy"
import { Lists, Monotonic, PaymentsApi, type PaymentsConfigError } from "@payments/core"
import { openQuestion } from "@payments/program"
import { buildWithProvenNames, type Source, warnOfCursorLife } from "@payments/program/sources"
import { Context, Data, Duration, Effect, type FileSystem, Layer, type Path, Result } from "effect"
import { problemAnnotations } from "../state/Log.ts"
import { initialState, listFrom, problemOf, type SourceState, Status, updateList } from "../state/Status.ts"
import { makeHandoffs } from "./HandoffLoop.ts"
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

/** What a source remembers between attempts to work. */
export interface Attempts {
  /** The wait after the next error, in milliseconds. */
  readonly waitMs: number
  readonly wasOpened: boolean
}

export const noAttempts: Attempts = { waitMs: Duration.toMillis(firstWait), wasOpened: false }

export interface Failure {
  readonly error: SinkError | PaymentsConfigError
  /** How long the destination was open, in milliseconds; undefined if it could not be opened. */
  readonly openMs: number | undefined
  /** Whether the source is the only one of the worker, which then ends with it. */
  readonly isStrict: boolean
}

/** A source waits, stops until a person acts, or ends the worker. */
export type AfterError =
  | { readonly _tag: "Wait"; readonly level: "Warn" | "Error"; readonly message: string; readonly waitMs: number }
  | { readonly _tag: "Stop" }
  | { readonly _tag: "End" }

export const afterError = (
  attempts: Attempts,
  { error, isStrict, openMs }: Failure
): readonly [Attempts, AfterError] => {
  const wasOpened = attempts.wasOpened || openMs !== undefined
  const isSteady = openMs !== undefined && openMs >= Duration.toMillis(steadyAfter)
  const waitMs = isSteady ? Duration.toMillis(firstWait) : attempts.waitMs
  const next = { wasOpened, waitMs: Math.min(waitMs * 2, Duration.toMillis(longestWait)) }
  if (error._tag === "PaymentsConfigError") {
    return [
      next,
      isStrict ? { _tag: "End" } : { _tag: "Wait", level: "Error", message: "settings cannot be read", waitMs }
    ]
  }
  // The destination is open, so only another setting helps, such as the personal key.
  if (isForeign(error) || (openMs !== undefined && error.reason._tag === "WrongSetting")) {
    return [next, { _tag: "Stop" }]
  }
  if (isStrict && !wasOpened && !isTransient(error)) return [next, { _tag: "End" }]
  const [level, message] = error.reason._tag === "Unavailable"
    ? ["Warn", "destination waits"] as const
    : ["Error", "destination failed"] as const
  return [next, { _tag: "Wait", level, message, waitMs }]
}

export const runSource = Effect.fnUntraced(function*<R>(options: SourceOptions<R>) {
  const { isStrict, source } = options
  const status = yield* Status
  yield* status.set(initialState(source, locationOf(source)))
  let attempts = noAttempts
  const handle = Effect.fnUntraced(function*(error: SinkError | PaymentsConfigError, openMs?: number) {
    const [next, action] = afterError(attempts, { error, openMs, isStrict })
    attempts = next
    if (action._tag === "End") return yield* new SourceStopped({ error })
    yield* options.onStart({ error: error.message })
    yield* note(options, status, { error, state: action._tag === "Stop" ? "stopped" : "starting" })
    if (action._tag === "Stop") {
      yield* Effect.annotateLogs(Effect.logError("source stopped"), problemAnnotations(error))
      return yield* new SourceStopped({ error })
    }
    if (error._tag === "SinkError") {
      yield* Effect.forEach(source.lists, (name) => options.metrics.onDestinationWait(source.name, name))
    }
    yield* Effect.logWithLevel(action.level)(action.message).pipe(
      Effect.annotateLogs({ ...problemAnnotations(error), waitMs: action.waitMs })
    )
    yield* Effect.sleep(action.waitMs)
  })

  const settings = Effect.all([
    Effect.flatMap(
      source.boundTo,
      (boundTo) => buildWithProvenNames(Layer.fresh(options.api), { boundTo, to: source.to }, Effect.logInfo)
    ),
    source.personal
  ])
  let read: Effect.Success<typeof settings> | undefined
  while (read === undefined) {
    const built = yield* Effect.result(settings)
    if (Result.isSuccess(built)) read = built.success
    else yield* handle(built.failure)
  }
  attempts = noAttempts
  const [api, rule] = read
  yield* warnOfCursorLife(Context.get(api, PaymentsApi), source.to, source.lists, Effect.logWarning)

  const noticeRestore = makeRestoreWatch(source)
  while (true) {
    let openedAt: number | undefined
    const onOpen = Effect.map(Monotonic.millis, (now) => void (openedAt = now))
    const error = yield* useDestination({ options, rule, status, onOpen, noticeRestore }).pipe(
      Effect.provide(api),
      Effect.scoped,
      Effect.flip
    )
    yield* handle(error, openedAt === undefined ? undefined : (yield* Monotonic.millis) - openedAt)
  }
}, Effect.scoped)

/**
 * Whether the destination belongs to another source or merchant, has another rule, or was written by a later version of
 * this program. No later attempt would change that.
 */
const isForeign = (error: SinkError): boolean => isWrittenLater(error) || hasOtherData(error)

const hasOtherData = ({ reason }: SinkError): boolean =>
  reason._tag === "OtherSource" || reason._tag === "OtherMerchant" ||
  (reason._tag === "OtherRule" && !reason.isRewriting)

/** Whether the problem may end by itself. */
export const isTransient = ({ reason }: SinkError): boolean =>
  reason._tag === "Unavailable" || reason._tag === "Locked" || reason._tag === "Full"

const note = (
  { source }: Pick<SourceOptions<never>, "source">,
  status: Status["Service"],
  { error, state }: { readonly error: SinkError | PaymentsConfigError; readonly state: "starting" | "stopped" }
) =>
  status.update(source.name, (before, now) => ({
    ...before,
    state,
    problem: problemOf(problemAnnotations(error), before.problem, now),
    handoffs: initialState(source, before.destination).handoffs,
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
  yield* requireOwn(source, api, { sink, rule })
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
  // Of several workers, only the one with the locks hands changes off.
  const handoffs = makeHandoffs({ source, status, metrics: options.metrics })
  const loops = source.lists.map((name) =>
    makeListLoop({ ...options, name, rule, isSecret: api.isSecret, status, sourceGuard, refresh, handoffs })
  )
  const loopOf = ({ name }: Lists.AnyList) => loops.find((loop) => loop.name === name)
  /** The sink of all lists. A list that is rendered or opened commits no page, but it does not stall. */
  const watched: Sink["Service"] = {
    ...sink,
    begin: (list, request) => loopOf(list)?.opening(sink.begin(list, request)) ?? sink.begin(list, request),
    publish: (list) => loopOf(list)?.longStep(sink.publish(list)) ?? sink.publish(list)
  }
  const charts = makeCharts(sink, source, status)
  const state = Effect.map(status.current, ({ sources }) => sources.find(({ name }) => name === source.name)?.state)
  return yield* Effect.all([
    Effect.andThen(
      becomeStandby(source, status, { state, refresh }),
      Effect.forever(Effect.andThen(charts, Effect.delay(refresh, refreshInterval)))
    ),
    pruning(source, Effect.map(state, (now) => now === "running")),
    handoffs.run,
    ...loops.map(({ run }) => Effect.provideService(run, Sink, watched))
  ], { concurrency: "unbounded" }).pipe(Effect.andThen(Effect.never))
})

/**
 * Fails if the destination has another source's data or another rule. Another worker may have the locks, and the next
 * scan may be far away. This is reported at once anyway.
 */
const requireOwn = (
  source: Source,
  api: PaymentsApi["Service"],
  { rule, sink }: { readonly sink: Sink["Service"]; readonly rule: PersonalRule }
) =>
  whilePersonalDataChanges(Effect.gen(function*() {
    const { binding } = yield* openPersonal({ location: sink.location, personal: sink.inspect?.personal }, rule)
    for (const name of source.lists) {
      const { parameters } = api[name]
      const request = { source: api.source, limit: Lists.pageLimit.default, parameters, personal: binding }
      yield* sink.inspect?.scan(Lists.byName[name], request) ?? Effect.void
    }
  }))

/** Shows the source as a standby if it got no lock after a while. */
const becomeStandby = Effect.fnUntraced(function*(
  { name }: Source,
  status: Status["Service"],
  { refresh, state }: {
    readonly state: Effect.Effect<SourceState["state"] | undefined>
    readonly refresh: Effect.Effect<ReadonlyArray<ListFreshness>, SinkError>
  }
) {
  yield* Effect.sleep(standbyAfter)
  if ((yield* state) !== "starting") return
  const holders = new Set((yield* refresh).flatMap(({ holder }) => holder ?? []))
  yield* status.update(name, (before) => before.state === "starting" ? { ...before, state: "standby" } : before)
  yield* Effect.annotateLogs(Effect.logInfo("standby: waits for the locks"), { holder: [...holders].join(", ") })
})

/** The time until the first removal of old changes, scans and missing rows, and between two. */
const firstPrune = Duration.minutes(1)
const pruneInterval = Duration.days(1)

/**
 * Removes old changes, scans and missing rows every day, if this worker has a lock (`isActive`). A failure is logged,
 * and the next day brings the next attempt. Old snapshots of a folder are removed whenever files are rendered.
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

/** Returns an effect that reads the figures of those lists whose figures are old. */
const makeCharts = (sink: Sink["Service"], source: Source, status: Status["Service"]) => {
  const readAt = new Map<string, { readonly at: number; readonly scan: number }>()
  return Effect.gen(function*() {
    const { sources } = yield* status.current
    for (const { completeScan, list: label } of sources.find(({ name }) => name === source.name)?.lists ?? []) {
      const list = Lists.all.find((one) => one.label === label)
      const now = yield* Monotonic.millis
      const before = readAt.get(label)
      // Figures of an unfinished copy would only be wrong, and stay for minutes.
      if (list === undefined || completeScan === null) continue
      const interval = before?.scan === completeScan.scan ? chartInterval : chartIntervalAfterScan
      if (before !== undefined && now - before.at < Duration.toMillis(interval)) continue
      readAt.set(label, { at: now, scan: completeScan.scan })
      const overview = yield* sink.inspect?.overview(list) ?? Effect.succeed(null)
      const found = yield* sink.inspect?.openRecords(list, openQuestion(source, list)) ?? Effect.undefined
      yield* status.update(
        source.name,
        (state) => updateList(state, label, (charted) => ({ ...charted, openRecords: found ?? null, overview }))
      )
    }
  })
}

/** The location of a destination before it is open, for people. It has no password. */
export const locationOf = ({ to }: Source): string => to === undefined ? "" : Destination.operations(to).location
