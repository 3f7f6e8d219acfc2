/**
 * `payments-worker runners`: lists the runners of a cluster and the sources of each. It writes nothing into the
 * cluster.
 */
import { printable } from "@payments/copy"
import { allSettings, contract, print, requireOutput, settingFlag, terminalWidth, usage } from "@payments/program"
import { type ClusterFlags, clusterOf, type LoadedSources, loadSources } from "@payments/program/sources"
import { Effect, Result } from "effect"
import { Command, Flag } from "effect/cli"
import type { Fleet, SourceRunner } from "../cluster/Runners.ts"
import { outputs } from "../contract/WorkerOutputs.ts"

export const runnersCommand = (config: ReturnType<typeof settingFlag>, noReloads: Effect.Effect<void>) =>
  Command.make(
    "runners",
    {
      config,
      cluster: settingFlag(
        allSettings.cluster.url,
        "the PostgreSQL database of the cluster; default: that of the sources file"
      ),
      clusterPrefix: settingFlag(
        allSettings.cluster.prefix,
        "the beginning of the names of its tables; default payments"
      ),
      format: Flag.Literals("format", ["table", "json"]).pipe(
        Flag.withDescription("tables for people, or one JSON object"),
        Flag.withDefault("table")
      )
    },
    Effect.fnUntraced(function*({ format, ...given }) {
      yield* noReloads
      const { file, settings } = yield* readSettings(given)
      const { connect } = yield* Effect.promise(() => import("@payments/copy/postgres"))
      const { databaseOf } = yield* Effect.promise(() => import("../cluster/ClusterDatabase.ts"))
      const { readFleet } = yield* Effect.promise(() => import("../cluster/Runners.ts"))
      yield* requireOutput
      const client = yield* Effect.flatMap(databaseOf(settings.url), connect)
      const found = (yield* readFleet(client.once, settings.prefix)) ?? { runners: [], sources: [] }
      const fleet = { ...found, sources: file === undefined ? found.sources : sourcesIn(file, found.sources) }
      yield* print(
        format === "json"
          ? `${JSON.stringify(contract.withVersion(outputs.runners, fleet))}\n`
          : tablesOf(fleet, yield* terminalWidth)
      )
    }, Effect.scoped)
  ).pipe(Command.withDescription("List the runners of a cluster, and which source each of them runs"))

/** Without a file, the cluster comes from a flag or the environment. */
const readSettings = Effect.fnUntraced(function*(given: ClusterFlags & { readonly config: string | undefined }) {
  const loaded = yield* Effect.result(loadSources({ config: given.config, flags: {} }))
  if (Result.isFailure(loaded) && loaded.failure._tag === "SourcesError") return yield* loaded.failure
  const file: LoadedSources | undefined = Result.isSuccess(loaded) ? loaded.success : undefined
  // Sources that a cluster refuses do not matter here.
  const settings = yield* clusterOf({ cluster: file?.cluster, sources: [] }, given)
  if (settings !== undefined) return { settings, file }
  return yield* usage(
    "no cluster is set. Name it in --cluster, PAYMENTS_CLUSTER or the table [cluster] of the sources file."
  )
})

/** Returns the sources of the file, also those that no runner has had yet. Others only while a runner has them. */
const sourcesIn = ({ sources }: LoadedSources, found: ReadonlyArray<SourceRunner>): ReadonlyArray<Shown> => {
  const pins = new Map(sources.map(({ name, runner = null }) => [name, runner]))
  const known = new Set(found.map(({ source }) => source))
  return [
    ...found.filter(({ runner, source }) => runner !== null || pins.has(source)),
    ...[...pins.keys()].filter((name) => !known.has(name)).map((source): WithoutRunner => ({
      source,
      runner: null,
      lastRunner: null,
      since: null,
      takeovers: 0
    }))
  ].map((owner) => ({ ...owner, pinnedTo: pins.get(owner.source) ?? null })).toSorted((a, b) =>
    a.source < b.source ? -1 : 1
  )
}

/** A source, and if there is a file, the runner to which it is pinned. */
type Shown = (SourceRunner | WithoutRunner) & { readonly pinnedTo?: string | null }

/** A source that no runner has had yet. */
interface WithoutRunner extends Record<"runner" | "lastRunner" | "since", null> {
  readonly source: string
  readonly takeovers: 0
}

const tablesOf = (
  { runners, sources }: Omit<Fleet, "sources"> & { readonly sources: ReadonlyArray<Shown> },
  width: number
): string =>
  [
    tableOf([
      ["runner", "state", "sources", "seen", "version", "started", "process"],
      ...runners.map(({ alive, process, runner, seenAt, sources: own, startedAt, version }) => [
        runner,
        alive ? "alive" : "dead",
        String(own.length),
        time(seenAt),
        version,
        time(startedAt),
        process
      ])
    ], width),
    tableOf([
      ["source", "runner", "since", "takeovers", "last runner"],
      ...sources.map(({ lastRunner, pinnedTo = null, runner, since, source, takeovers }) => [
        source,
        runner ?? (pinnedTo === null ? "-" : `- (pinned to ${pinnedTo})`),
        time(since ?? "-"),
        String(takeovers),
        lastRunner ?? "-"
      ])
    ], width)
  ].join("\n")

/** Aligns the columns. Leaves out the last columns that do not fit, but not the first two. */
const tableOf = (cells: ReadonlyArray<ReadonlyArray<string>>, width: number): string => {
  const rows = cells.map((row) => row.map(printable))
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const widthOf = (columns: number) => widths.slice(0, columns).reduce((sum, each) => sum + each + 2, -2)
  let shown = widths.length
  while (shown > 2 && widthOf(shown) > width) shown--
  return rows.map((row) =>
    `${row.slice(0, shown).map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd()}\n`
  ).join("")
}

/** Leaves out the milliseconds. */
const time = (iso: string): string => iso.replace(/\.\d+Z$/, "Z")
