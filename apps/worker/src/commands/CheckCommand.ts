/**
 * `payments-worker check`: makes the checks of `payments doctor` for every source, checks the cluster's database, and
 * prints the next runs. It writes nothing except lines on stdout.
 */
import { Destination, printable } from "@payments/copy"
import { Lists, type PaymentsApi, type PaymentsConfigError } from "@payments/core"
import {
  CommandExit,
  Doctor,
  ExitCode,
  exitCodeOf,
  lowestExitCode,
  print,
  terminalWidth,
  wordsIn
} from "@payments/program"
import type { ClusterSettings, LoadedSource, LoadedSources, Source } from "@payments/program/sources"
import { DateTime, Effect, Layer, Option, Result } from "effect"
import { nextRuns } from "../loop/Schedule.ts"

/** How many runs of each schedule are printed. */
const shownRuns = 5
/** How many sources are checked at the same time. */
const concurrency = 8

interface Line {
  readonly text: string
  readonly exitCode: ExitCode
}

/** Prints one line per finding. Fails with the lowest exit code, unless all is well. */
export const checkSources = Effect.fnUntraced(function*<R>(
  set: LoadedSources,
  cluster: ClusterSettings | undefined,
  api: (source: LoadedSource) => Layer.Layer<PaymentsApi, PaymentsConfigError, R>
) {
  const lines = yield* Effect.forEach(
    set.sources,
    (source) => checkSource(source, api),
    { concurrency }
  )
  const all = [
    ...(cluster === undefined ? [] : yield* checkCluster(cluster)),
    ...lines.flat(),
    ...(yield* checkIdentities(set.sources))
  ]
  const width = yield* terminalWidth
  const shown = all.flatMap(({ text }) => wordsIn(printable(text), "", width, "  "))
  yield* print(shown.map((line) => `${line}\n`).join(""))
  const exitCode = lowestExitCode(all.map((line) => line.exitCode))
  if (exitCode !== ExitCode.done) return yield* new CommandExit({ exitCode, problem: "" })
})

/** The spellings of one destination may differ, such as two names of one server. So this compares the opened ones. */
const checkIdentities = Effect.fnUntraced(function*(sources: ReadonlyArray<Source>) {
  if (sources.length < 2) return []
  const identities = yield* Effect.forEach(
    sources,
    ({ name, to }) =>
      Effect.map(
        to === undefined
          ? Effect.undefined
          : Effect.map(Effect.timeoutOption(Destination.identityOf(to), Doctor.checkTime), Option.getOrUndefined),
        (identity) => ({ name, to, identity })
      ),
    { concurrency }
  )
  const first = new Map<string, string>()
  return identities.flatMap(({ identity, name, to }): ReadonlyArray<Line> => {
    if (identity === undefined || to === undefined) return []
    const other = first.get(identity)
    if (other === undefined) {
      first.set(identity, name)
      return []
    }
    return [{
      text: `${name}: ${Destination.shown(to)} is also the destination of ${other}. Each source needs its own.`,
      exitCode: ExitCode.configuration
    }]
  })
})

const checkCluster = Effect.fnUntraced(function*(cluster: ClusterSettings): Effect.fn.Return<ReadonlyArray<Line>> {
  const { checkDatabase } = yield* Effect.promise(() => import("../cluster/ClusterDatabase.ts"))
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
  source: LoadedSource,
  api: (source: LoadedSource) => Layer.Layer<PaymentsApi, PaymentsConfigError, R>
) {
  const lines: Array<Line> = []
  const add = (text: string, exitCode: ExitCode = ExitCode.done) =>
    void lines.push({ text: `${source.name}: ${text}`, exitCode })
  yield* Doctor.diagnose(
    source,
    // These settings have been read, so they cannot fail.
    (config) => Layer.orDie(Layer.fresh(api({ ...source, service: Effect.succeed(config) }))),
    Doctor.checkTime,
    ({ advice, check, exitCode, found }) =>
      Effect.sync(() => add(`${check}: ${found}${advice === undefined ? "" : `. ${advice}`}`, exitCode))
  )
  const now = DateTime.toEpochMillis(yield* DateTime.now)
  for (const [kind, schedule] of schedulesOf(source)) {
    add(`next ${kind}: ${nextRuns(schedule, now, shownRuns).join(", ")}`)
  }
  return lines
})

/** Returns only the schedules that run. */
const schedulesOf = ({ full, head, lists, order, window }: Source) => [
  ["full scan", full] as const,
  ...(window === undefined || lists.every((name) => Lists.byName[name].windowFilter === undefined)
    ? []
    : [["window pass", window.schedule] as const]),
  ...(head === undefined || order !== "newest-first" ? [] : [["head pass", head.schedule] as const])
]
