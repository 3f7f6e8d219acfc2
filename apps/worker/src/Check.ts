/**
 * `payments-worker check`: reads the settings, requests one page of each list, checks the rate limit store, compares each
 * destination with its source, and prints the next runs. It writes nothing except lines on stdout.
 */
import { Lists, PaymentsApi, type PaymentsConfigError } from "@payments/core"
import { Doctor, ExitCode, exitCodeOf, lowestExitCode, printable } from "@payments/export"
import { CommandExit, print, terminalWidth, wordsIn } from "@payments/export/program"
import type { ClusterSettings, Source, SourceSet } from "@payments/export/sources"
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
  cluster: ClusterSettings | undefined,
  api: (source: Source) => Layer.Layer<PaymentsApi, PaymentsConfigError, R>
) {
  const lines = yield* Effect.forEach(
    set.sources,
    (source) => Effect.scoped(checkSource(source, api(source))),
    { concurrency }
  )
  const all = [...(cluster === undefined ? [] : yield* checkCluster(cluster)), ...lines.flat()]
  const width = yield* terminalWidth
  const shown = all.flatMap(({ text }) => wordsIn(printable(text), "", width, "  "))
  yield* print(shown.map((line) => `${line}\n`).join(""))
  const exitCode = lowestExitCode(all.map((line) => line.exitCode))
  if (exitCode !== ExitCode.done) return yield* new CommandExit({ exitCode, problem: "" })
})

/** Checks the database of the cluster. */
const checkCluster = Effect.fnUntraced(function*(cluster: ClusterSettings): Effect.fn.Return<ReadonlyArray<Line>> {
  const { checkDatabase } = yield* Effect.promise(() => import("./cluster/ClusterDatabase.ts"))
  const database = yield* Effect.result(checkDatabase(cluster))
  if (Result.isFailure(database)) {
    const { failure } = database
    const exitCode = failure._tag === "CommandExit" ? failure.exitCode : exitCodeOf(failure)
    return [{ text: failure.message, exitCode }]
  }
  const { settings, version, warning } = database.success
  return [
    {
      text: `${settings.location}: can be used with the prefix ${cluster.prefix}; PostgreSQL ${version}`,
      exitCode: ExitCode.done
    },
    ...(warning === undefined ? [] : [{ text: `cluster: ${warning}`, exitCode: ExitCode.done }])
  ]
})

const checkSource = Effect.fnUntraced(function*<R>(
  source: Source,
  layer: Layer.Layer<PaymentsApi, PaymentsConfigError, R>
) {
  const lineOf = (text: string, exitCode: ExitCode = ExitCode.done): Line => ({
    text: `${source.name}: ${text}`,
    exitCode
  })
  const ofFinding = ({ advice, check, exitCode, found }: Doctor.Finding) =>
    lineOf(`${check}: ${found}${advice === undefined ? "" : `. ${advice}`}`, exitCode)
  const now = DateTime.toEpochMillis(yield* DateTime.now)
  const runs = schedulesOf(source).map(([kind, schedule]) =>
    lineOf(`next ${kind}: ${nextRuns(schedule, now, shownRuns).join(", ")}`)
  )
  const store = yield* Doctor.checkStore(source)
  // Without the store, data is still read.
  const shared = store === undefined ? [] : [ofFinding(store)]
  const built = yield* Effect.result(Layer.build(Layer.fresh(layer)))
  if (Result.isFailure(built)) return [...Doctor.ofSettings(built.failure).map(ofFinding), ...shared, ...runs]
  const api = Context.get(built.success, PaymentsApi)
  const lists = yield* Effect.forEach(
    source.lists.map((name) => Lists.byName[name]),
    (list) => Effect.map(Doctor.readFirst(api, list), (first) => ofFinding(Doctor.readable(list, first))),
    { concurrency: "unbounded" }
  )
  const personal = yield* Effect.result(source.personal)
  const rule = Result.isSuccess(personal) ? personal.success : undefined
  const mistakes = Result.isFailure(personal) ? Doctor.ofSettings(personal.failure).map(ofFinding) : []
  const destination = source.to === undefined
    ? lineOf("there is no destination", ExitCode.usage)
    : yield* Effect.map(
      Doctor.checkState(source.to, api.source, rule),
      (finding) => finding.state === "ok" ? lineOf(finding.found) : ofFinding(finding)
    )
  return [...lists, ...shared, ...mistakes, destination, ...runs]
})

/** Returns the schedules of a source that run. */
const schedulesOf = ({ full, head, lists, order, window }: Source) => [
  ["full scan", full] as const,
  ...(window === undefined || !lists.includes("invoices") ? [] : [["window pass", window.schedule] as const]),
  ...(head === undefined || order !== "newest-first" ? [] : [["head pass", head.schedule] as const])
]
