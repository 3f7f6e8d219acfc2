/**
 * Rounds of scans: all three lists side by side, then again. A round that fails is logged, and the next one goes on from
 * what was committed; only a destination that is not this source's ends the worker.
 */
import { Lists } from "@payments/core"
import { ExitCode, lowestExitCode, scanAll, type ScanEvent, type ScanOptions, type ScanOutcome } from "@payments/export"
import { Ended } from "@payments/export/program"
import { Duration, Effect, Result, Schedule } from "effect"
import { Status } from "./Status.ts"

/** How to scan. */
export type WorkerOptions = Omit<ScanOptions, "onEvent">

/** One round, every step of it logged. */
export const round = Effect.fnUntraced(function*(options: WorkerOptions) {
  const status = yield* Status
  const onEvent = (event: ScanEvent) => Effect.andThen(status.onEvent(event), logEvent(event))
  return yield* scanAll(Lists.all.map(({ name }) => name), { ...options, onEvent })
})

/** One round, ending as its worst list did. */
export const once = Effect.fnUntraced(function*(options: WorkerOptions) {
  const exitCode = lowestExitCode((yield* round(options)).map((outcome) => outcome.exitCode))
  if (exitCode !== ExitCode.done) return yield* new Ended({ exitCode, problem: "" })
})

/** A round at once and then at each tick of the interval that finds none running. Ends only by interruption or for good reason. */
export const forever = (every: Duration.Duration, options: WorkerOptions) =>
  round(options).pipe(
    Effect.tap((outcomes) =>
      outcomes.some(isForeign) ? new Ended({ exitCode: ExitCode.destination, problem: "" }) : Effect.void
    ),
    Effect.repeat(Schedule.fixed(every)),
    Effect.asVoid
  )

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
