/**
 * What the worker logs, as JSON lines or as text for people. No line has a key, a cursor, a filter value or a record.
 */
import {
  type Drift,
  driftWithoutSecrets,
  namesForLogs,
  type PassOutcome,
  printable,
  type ScanEvent,
  type ScanOutcome,
  type ScanProgress,
  type SinkError
} from "@payments/copy"
import { Lists, type PaymentsApi, type PaymentsConfigError, type PaymentsError } from "@payments/core"
import { contract, outcomeExitCode } from "@payments/program"
import { Context, Duration, Effect, type Fiber, Logger, Option, Result, Tracer } from "effect"
import { outputs } from "../contract/WorkerOutputs.ts"

export type LogFormat = "json" | "text"

/** Writes the log to stdout. A line of JSON is one flat object. With `isTraced`, each line has the id of its trace. */
export const layer = (format: LogFormat, isTraced: boolean) => {
  const json = Logger.make<unknown, string>((options) => {
    const { annotations, cause, level, message, timestamp } = Logger.formatStructured.log(options)
    const traceId = isTraced ? traceIdOf(options.fiber) : undefined
    const head = { timestamp, level, message }
    // The first spread fixes the order of the members, the second their values.
    return JSON.stringify(contract.withVersion(outputs.log, { ...head, ...annotations, traceId, cause, ...head }))
  })
  const text = Logger.map(Logger.formatStructured, ({ annotations, cause, level, message, timestamp }) => {
    const details = Object.entries(annotations).map(([name, value]) => `${name}=${detail(value)}`)
    const head = `${timestamp} ${level.padEnd(5)} ${String(message)}`
    return printable([head, ...details, ...(cause === undefined ? [] : [cause])].join("  "))
  })
  return Logger.layer([Logger.withConsoleLog(format === "json" ? json : text)])
}

const detail = (value: unknown): string =>
  typeof value === "string" && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value)

const traceIdOf = (fiber: Fiber.Fiber<unknown, unknown>): string | undefined =>
  Option.getOrUndefined(Option.map(Context.getOption(fiber.context, Tracer.ParentSpan), ({ traceId }) => traceId))

/** Returns the reason and the message of an error, for the log. */
export const problemAnnotations = (error: PaymentsError | PaymentsConfigError | SinkError) => ({
  reason: error._tag === "PaymentsConfigError" ? error._tag : error.reason._tag,
  error: error.message
})

/** Whether a text is a secret of the client. */
export type IsSecret = PaymentsApi["Service"]["isSecret"]

export const logEvent = (event: ScanEvent, isSecret: IsSecret): Effect.Effect<void> =>
  Effect.annotateLogs(logOf(event, isSecret), { list: Lists.byName[event.list].label })

const logOf = (event: ScanEvent, isSecret: IsSecret): Effect.Effect<void> => {
  switch (event._tag) {
    case "Begun":
      if (event.kind !== "full") return Effect.annotateLogs(Effect.logDebug("pass begun"), { kind: event.kind })
      return Effect.annotateLogs(Effect.logInfo("scan begun"), { start: event.start, records: event.progress.records })
    case "Filling":
      return Effect.annotateLogs(Effect.logInfo("filling columns"), { ...event.filling })
    case "Committed": {
      // The end of the run says what is new.
      const { drift: _drift, ...progress } = event.progress
      return Effect.annotateLogs(Effect.logDebug("page committed"), loggable(progress, isSecret))
    }
    case "Waiting":
      return Effect.logWarning("scan waits").pipe(
        Effect.annotateLogs({ ...problemAnnotations(event.error), waitMs: Duration.toMillis(event.wait) })
      )
    case "Ended":
      return event.kind === "full" ? logOutcome(event.outcome, isSecret) : logPass(event.outcome, isSecret)
    case "Restarted":
      return Effect.logWarning("scan restarted: the service no longer accepts its cursor")
  }
}

/** The progress of a scan for the log, without field names that could be values. */
const loggable = <Progress extends Omit<ScanProgress, "drift">>(
  { places: _places, ...progress }: Progress,
  isSecret: IsSecret
) => ({
  ...progress,
  undocumented: namesForLogs(progress.undocumented, isSecret)
})

const logOutcome = (outcome: ScanOutcome, isSecret: IsSecret): Effect.Effect<void> => {
  const { result } = outcome
  if (Result.isFailure(result)) {
    return Effect.logError("scan failed").pipe(
      Effect.annotateLogs({ ...problemAnnotations(result.failure), exitCode: outcomeExitCode(outcome) })
    )
  }
  return Effect.forEach(
    result.success,
    ({ drift, elapsed, list: _list, part: _part, ...scan }) =>
      Effect.andThen(
        Effect.logInfo("scan complete").pipe(
          Effect.annotateLogs({ ...loggable(scan, isSecret), elapsedMs: Duration.toMillis(elapsed) })
        ),
        logDrift(drift, isSecret)
      ),
    { discard: true }
  )
}

const logDrift = (drift: ReadonlyArray<Drift>, isSecret: IsSecret): Effect.Effect<void> =>
  Effect.forEach(
    driftWithoutSecrets(drift, isSecret),
    (one) => Effect.annotateLogs(Effect.logWarning("behaviour changed"), { ...one }),
    { discard: true }
  )

/** Logs the end of a pass. One that found nothing new is a debug message, because passes may run every few seconds. */
const logPass = (outcome: PassOutcome, isSecret: IsSecret): Effect.Effect<void> => {
  const { kind, result } = outcome
  if (Result.isFailure(result)) {
    return Effect.logWarning("pass failed").pipe(
      Effect.annotateLogs({ kind, ...problemAnnotations(result.failure), exitCode: outcomeExitCode(outcome) })
    )
  }
  const { drift, elapsed, list: _list, ...pass } = result.success
  const isQuiet = pass.inserted + pass.updated + pass.returned === 0
  return Effect.logWithLevel(isQuiet ? "Debug" : "Info")("pass complete").pipe(
    Effect.annotateLogs({ ...pass, elapsedMs: Duration.toMillis(elapsed) }),
    Effect.andThen(logDrift(drift, isSecret))
  )
}
