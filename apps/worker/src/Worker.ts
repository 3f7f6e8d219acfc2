/**
 * Rounds of scans: all three lists side by side, then again. A round that fails is logged, and the next one goes on from
 * what was committed; only a destination that is not this source's ends the worker.
 */
import { Lists } from "@payments/core"
import {
  ExitCode,
  lowestExitCode,
  scanAll,
  type ScanEvent,
  type ScanOptions,
  type ScanOutcome,
  type Sink,
  type SinkError
} from "@payments/export"
import { Ended } from "@payments/export/program"
import { Duration, Effect, type Layer, Result, Schedule } from "effect"
import { Status } from "./Status.ts"

/** How to scan. */
export type WorkerOptions = Omit<ScanOptions, "onEvent">

/** The destination, opened anew for every round: what is at its path by then may be another file. */
export type Destination<R> = Layer.Layer<Sink, SinkError, R>

const listNames = Lists.all.map(({ name }) => name)

/** One round, every step of it logged. Fails where the destination cannot be opened. */
export const round = Effect.fnUntraced(function*<R>(destination: Destination<R>, options: WorkerOptions) {
  const onEvent = yield* observed
  return yield* Effect.provide(scanAll(listNames, { ...options, onEvent }), destination)
})

const observed = Effect.map(
  Status,
  (status) => (event: ScanEvent) => Effect.andThen(status.onEvent(event), logEvent(event))
)

/** One round, ending as its worst list did. */
export const once = Effect.fnUntraced(function*<R>(destination: Destination<R>, options: WorkerOptions) {
  const exitCode = lowestExitCode((yield* round(destination, options)).map((outcome) => outcome.exitCode))
  if (exitCode !== ExitCode.done) return yield* new Ended({ exitCode, problem: "" })
})

/** A round at once and then at each tick of the interval that finds none running. Ends only by interruption or for good reason. */
export const forever = <R>(every: Duration.Duration, destination: Destination<R>, options: WorkerOptions) =>
  Effect.suspend(() => {
    let wasOpen = false
    return round(destination, options).pipe(
      Effect.tap((outcomes) =>
        outcomes.some(isForeign) ? new Ended({ exitCode: ExitCode.destination, problem: "" }) : Effect.void
      ),
      Effect.tap(() => Effect.sync(() => void (wasOpen = true))),
      // A destination that was there before may be there again in the next round.
      Effect.catchTag("SinkError", (error) => wasOpen ? allFailed(error) : error),
      Effect.repeat(Schedule.fixed(every)),
      Effect.asVoid
    )
  })

/** A round that no list took part in. */
const allFailed = Effect.fnUntraced(function*(error: SinkError) {
  const onEvent = yield* observed
  yield* Effect.forEach(
    listNames,
    (list) =>
      onEvent({ _tag: "Ended", list, outcome: { list, result: Result.fail(error), exitCode: ExitCode.destination } })
  )
})

/** The destination belongs to another source, which no later round changes. */
const isForeign = ({ result }: ScanOutcome): boolean =>
  Result.isFailure(result) && result.failure._tag === "SinkError" && result.failure.reason._tag === "OtherSource"

const logEvent = (event: ScanEvent): Effect.Effect<void> => {
  const list = Lists.byName[event.list].label
  switch (event._tag) {
    case "Begun":
      return Effect.logInfo("scan begun").pipe(
        Effect.annotateLogs({ list, start: event.start, records: event.progress.records })
      )
    case "Committed":
      return Effect.logDebug("page committed").pipe(Effect.annotateLogs({ list, ...event.progress }))
    case "Waiting":
      return Effect.logWarning("scan waits").pipe(
        Effect.annotateLogs({
          list,
          reason: event.error.reason._tag,
          error: event.error.message,
          waitMs: Duration.toMillis(event.wait)
        })
      )
    case "Ended":
      return logOutcome(event.outcome)
    case "Restarted":
      return Effect.logWarning("scan restarted: the service no longer accepts its cursor").pipe(
        Effect.annotateLogs({ list })
      )
  }
}

const logOutcome = ({ exitCode, list, result }: ScanOutcome): Effect.Effect<void> => {
  const { label } = Lists.byName[list]
  if (Result.isFailure(result)) {
    const { message, reason } = result.failure
    return Effect.logError("scan failed").pipe(
      Effect.annotateLogs({ list: label, reason: reason._tag, error: message, exitCode })
    )
  }
  return Effect.forEach(
    result.success,
    ({ elapsed, list: _list, part: _part, ...scan }) =>
      Effect.logInfo("scan complete").pipe(
        Effect.annotateLogs({ list: label, ...scan, elapsedMs: Duration.toMillis(elapsed) })
      ),
    { discard: true }
  )
}
