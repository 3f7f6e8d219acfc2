/**
 * `payments-worker check`: reads the settings, requests one page of each list, compares each destination with its source, and
 * prints the next runs. It writes nothing except lines on stdout.
 */
import { Lists, PaymentsApi, type PaymentsConfigError, type PaymentsError } from "@payments/core"
import { Destination, ExitCode, exitCodeOf, lowestExitCode, printable, SinkError, SinkReason } from "@payments/export"
import { CommandExit, print } from "@payments/export/program"
import type { Source, SourceSet } from "@payments/export/sources"
import { Context, DateTime, Effect, Layer, Result } from "effect"
import { nextRuns } from "./Schedule.ts"

/** How many runs of each schedule are printed. */
const shownRuns = 5
/** How many sources are checked at the same time. */
const concurrency = 8

interface Line {
  readonly text: string
  readonly exitCode: ExitCode
}

/** Checks all sources and prints one line per finding. Fails with the lowest exit code, unless all is well. */
export const checkSources = Effect.fnUntraced(function*<R>(
  set: SourceSet,
  api: (source: Source) => Layer.Layer<PaymentsApi, PaymentsConfigError, R>
) {
  const lines = yield* Effect.forEach(
    set.sources,
    (source) => Effect.scoped(checkSource(source, api(source))),
    { concurrency }
  )
  const all = lines.flat()
  yield* print(all.map(({ text }) => `${printable(text)}\n`).join(""))
  const exitCode = lowestExitCode(all.map((line) => line.exitCode))
  if (exitCode !== ExitCode.done) return yield* new CommandExit({ exitCode, problem: "" })
})

const checkSource = Effect.fnUntraced(function*<R>(
  source: Source,
  layer: Layer.Layer<PaymentsApi, PaymentsConfigError, R>
) {
  const said = (text: string, exitCode: ExitCode = ExitCode.done): Line => ({
    text: `${source.name}: ${text}`,
    exitCode
  })
  const failed = (what: string, error: PaymentsError | PaymentsConfigError | SinkError) =>
    said(`${what}: ${error.message}`, exitCodeOf(error))
  const now = DateTime.toEpochMillis(yield* DateTime.now)
  const runs = schedulesOf(source).map(([kind, schedule]) =>
    said(`next ${kind}: ${nextRuns(schedule, now, shownRuns).join(", ")}`)
  )
  const built = yield* Effect.result(Layer.build(Layer.fresh(layer)))
  if (Result.isFailure(built)) return [failed("settings", built.failure), ...runs]
  const api = Context.get(built.success, PaymentsApi)
  const lists = yield* Effect.forEach(source.lists, (name) => {
    const { label } = Lists.byName[name]
    const page: Effect.Effect<unknown, PaymentsError> = api[name].page({ limit: 1, onBadRecord: "quarantine" })
    return Effect.match(page, {
      onFailure: (error) => failed(label, error),
      onSuccess: () => said(`${label}: can be read`)
    })
  }, { concurrency: "unbounded" })
  return [...lists, yield* checkDestination(source, api.source, said, failed), ...runs]
})

const checkDestination = (
  { to }: Source,
  given: string,
  said: (text: string, exitCode?: ExitCode) => Line,
  failed: (what: string, error: SinkError) => Line
) =>
  to === undefined ? Effect.succeed(said("there is no destination", ExitCode.usage)) : Destination.reader(to).pipe(
    Effect.flatMap((reader) =>
      Effect.flatMap(reader.source, (bound) =>
        bound === undefined || bound === given
          ? Effect.succeed(said(`${reader.location}: ${bound === undefined ? "is empty" : "belongs to this source"}`))
          : new SinkError({ location: reader.location, reason: new SinkReason.OtherSource({ bound, given }) }))
    ),
    Effect.catch((error) =>
      Effect.succeed(
        error.reason._tag === "NotADestination" && error.reason.isEmpty === true
          ? said(`${error.location}: does not exist yet; the first scan creates it`)
          : failed("destination", error)
      )
    )
  )

/** Returns the schedules of a source that run. */
const schedulesOf = ({ full, head, lists, order, window }: Source) => [
  ["full scan", full] as const,
  ...(window === undefined || !lists.includes("invoices") ? [] : [["window pass", window.schedule] as const]),
  ...(head === undefined || order !== "newest-first" ? [] : [["head pass", head.schedule] as const])
]
