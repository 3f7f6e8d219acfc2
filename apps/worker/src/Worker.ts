/**
 * Rounds of scans. A round scans all lists concurrently. Each round opens the destination again, because it may have been
 * moved, replaced or restarted since. If a round fails, the worker logs the error, and the next round resumes from the
 * last commit. If the destination cannot be reached, the worker tries again until it can.
 */
import { Lists, Monotonic, PaymentsApi, type PaymentsError } from "@payments/core"
import {
  ExitCode,
  lowestExitCode,
  namesForLogs,
  scanAll,
  type ScanEvent,
  type ScanOptions,
  type ScanOutcome,
  type ScanProgress,
  type Sink,
  type SinkError
} from "@payments/export"
import { CommandExit } from "@payments/export/program"
import { DateTime, Duration, Effect, type Layer, Result } from "effect"
import { initialState, listAfter, problemOf, Status, updateList } from "./Status.ts"

/** The options of each scan. */
export type WorkerOptions = Omit<ScanOptions, "onEvent">

/** Opens the destination. */
export type OpenSink<R> = Layer.Layer<Sink, SinkError, R>

const allLists = Lists.all.map(({ name }) => name)

/** Scans these lists once and logs every step. Fails if the destination cannot be opened. */
const runRound = <R>(
  destination: OpenSink<R>,
  options: WorkerOptions,
  names: ReadonlyArray<Lists.ListName> = allLists
) =>
  Effect.gen(function*() {
    const status = yield* Status
    yield* status.update(source, (state) => ({ ...state, state: "running", problem: null }))
    const { isSecret } = yield* PaymentsApi
    const onEvent = (event: ScanEvent) => Effect.andThen(note(status, event), logEvent(event, isSecret))
    return yield* scanAll(names, { ...options, onEvent })
  }).pipe(Effect.provide(destination, { local: true }))

/** The name of the only source. */
const source = "default"

const note = (status: Status["Service"], event: ScanEvent) =>
  status.update(source, (state, now) =>
    updateList(state, Lists.byName[event.list].label, (list) => {
      const next = listAfter(event, list, now)
      if (event._tag !== "Ended" || event.kind !== "full" || Result.isFailure(event.outcome.result)) return next
      const [summary] = event.outcome.result.success
      if (summary === undefined) return next
      const startedAt = DateTime.formatIso(
        DateTime.subtractDuration(DateTime.makeUnsafe(now), summary.elapsed)
      )
      return {
        ...next,
        quarantined: summary.quarantined,
        completeScan: { scan: summary.scan, startedAt, endedAt: now, certificate: null }
      }
    }))

/** Stores why the destination could not be opened or reached. These lists were therefore not scanned. */
const noteProblem = (status: Status["Service"], error: SinkError, names: ReadonlyArray<Lists.ListName>) =>
  status.update(source, (state, now) => ({
    ...state,
    state: "starting",
    problem: problemOf(error, state.problem, now),
    lists: state.lists.map((list) =>
      names.some((name) => Lists.byName[name].label === list.list)
        ? { ...list, failure: problemOf(error, list.failure, now) }
        : list
    )
  }))

/** Runs one round. Fails with the lowest exit code of its lists, unless all succeed. */
export const runOnce = Effect.fnUntraced(function*<R>(destination: OpenSink<R>, options: WorkerOptions) {
  const exitCode = lowestExitCode((yield* runRound(destination, options)).map((outcome) => outcome.exitCode))
  if (exitCode !== ExitCode.done) return yield* new CommandExit({ exitCode, problem: "" })
})

const firstWait = Duration.seconds(1)
const longestWait = Duration.minutes(1)

/**
 * Runs a round at once and then one per interval. If a round takes longer than the interval, the next round starts as soon as
 * it ends. Ends in three cases: the worker is interrupted, the destination belongs to another source or merchant, or the first
 * round cannot open the destination for a reason that waiting does not change.
 */
export const runForever = Effect.fnUntraced(function*<R>(
  every: Duration.Duration,
  destination: OpenSink<R>,
  options: WorkerOptions
) {
  const status = yield* Status
  yield* status.set(
    initialState(
      { name: source, destination: "" },
      Lists.all.map(({ label }) => ({ list: label, maxAgeSeconds: null }))
    )
  )
  let wasOpened = false
  let wait = firstWait

  /** Runs a round. Returns the lists that it did not scan because the destination could not be reached. */
  const attempt = Effect.fnUntraced(function*(names: ReadonlyArray<Lists.ListName>) {
    const result = yield* Effect.result(runRound(destination, options, names))
    if (Result.isSuccess(result)) {
      const outcomes = result.success
      if (outcomes.some(isForeign)) return yield* new CommandExit({ exitCode: ExitCode.destination, problem: "" })
      wasOpened = true
      wait = firstWait
      return unreachedIn(outcomes)
    }
    const error = result.failure
    const isUnavailable = error.reason._tag === "Unavailable"
    if (!wasOpened && !isUnavailable && !isTransient(error)) return yield* error
    if (isUnavailable) return { names, error }
    yield* noteProblem(status, error, names)
    yield* Effect.annotateLogs(Effect.logError("destination failed"), annotationsOf(error))
    return undefined
  })

  const attemptUntilReached = Effect.gen(function*() {
    let unreached = yield* attempt(allLists)
    while (unreached !== undefined) {
      const { error, names } = unreached
      yield* noteProblem(status, error, names)
      yield* Effect.logWarning("destination waits").pipe(
        Effect.annotateLogs({ ...annotationsOf(error), waitMs: Duration.toMillis(wait) })
      )
      yield* Effect.sleep(wait)
      wait = Duration.min(Duration.times(wait, 2), longestWait)
      unreached = yield* attempt(names)
    }
  })

  yield* Effect.repeat(attemptUntilReached, Monotonic.fixed(every))
})

interface Unreached {
  readonly names: ReadonlyArray<Lists.ListName>
  readonly error: SinkError
}

const unreachedIn = (outcomes: ReadonlyArray<ScanOutcome>): Unreached | undefined => {
  const names: Array<Lists.ListName> = []
  let error: SinkError | undefined
  for (const { list, result } of outcomes) {
    if (Result.isSuccess(result) || !isSinkError(result.failure, "Unavailable")) continue
    names.push(list)
    error = result.failure
  }
  return error === undefined ? undefined : { names, error }
}

const isSinkError = (error: PaymentsError | SinkError, tag: SinkError["reason"]["_tag"]): error is SinkError =>
  error._tag === "SinkError" && error.reason._tag === tag

/** Whether the destination belongs to another source or merchant. No later round would change that. */
const isForeign = ({ result }: ScanOutcome): boolean =>
  Result.isFailure(result) &&
  (isSinkError(result.failure, "OtherSource") || isSinkError(result.failure, "OtherMerchant"))

/** Whether the problem may end by itself. */
const isTransient = ({ reason }: SinkError): boolean => reason._tag === "Locked" || reason._tag === "Full"

const annotationsOf = ({ message, reason }: PaymentsError | SinkError) => ({ reason: reason._tag, error: message })

type IsSecret = PaymentsApi["Service"]["isSecret"]

const logEvent = (event: ScanEvent, isSecret: IsSecret): Effect.Effect<void> => {
  const list = Lists.byName[event.list].label
  switch (event._tag) {
    case "Begun":
      return Effect.logInfo("scan begun").pipe(
        Effect.annotateLogs({ list, start: event.start, records: event.progress.records })
      )
    case "Filling":
      return Effect.logInfo("filling columns").pipe(Effect.annotateLogs({ list, ...event.filling }))
    case "Committed":
      return Effect.logDebug("page committed").pipe(
        Effect.annotateLogs({ list, ...loggable(event.progress, isSecret) })
      )
    case "Waiting":
      return Effect.logWarning("scan waits").pipe(
        Effect.annotateLogs({ list, ...annotationsOf(event.error), waitMs: Duration.toMillis(event.wait) })
      )
    case "Ended":
      return event.kind === "full" ? logOutcome(event.outcome, isSecret) : Effect.void
    case "Restarted":
      return Effect.logWarning("scan restarted: the service no longer accepts its cursor").pipe(
        Effect.annotateLogs({ list })
      )
  }
}

/** The progress of a scan for the log, without field names that could be values. */
const loggable = <Progress extends ScanProgress>(progress: Progress, isSecret: IsSecret): Progress => ({
  ...progress,
  undocumented: namesForLogs(progress.undocumented, isSecret)
})

const logOutcome = ({ exitCode, list, result }: ScanOutcome, isSecret: IsSecret): Effect.Effect<void> => {
  const { label } = Lists.byName[list]
  if (Result.isFailure(result)) {
    return Effect.logError("scan failed").pipe(
      Effect.annotateLogs({ list: label, ...annotationsOf(result.failure), exitCode })
    )
  }
  return Effect.forEach(
    result.success,
    ({ elapsed, list: _list, part: _part, ...scan }) =>
      Effect.logInfo("scan complete").pipe(
        Effect.annotateLogs({ list: label, ...loggable(scan, isSecret), elapsedMs: Duration.toMillis(elapsed) })
      ),
    { discard: true }
  )
}
