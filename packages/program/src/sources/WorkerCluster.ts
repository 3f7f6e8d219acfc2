/**
 * The cluster of `payments-worker`: a PostgreSQL database through which several workers share the sources. A flag
 * overrides the environment, which overrides `[cluster]` in the sources file.
 */
import { Destination, PostgresUrl } from "@payments/copy"
import { Effect, Result } from "effect"
import { hostname } from "node:os"
import { checkAll, usage } from "../outcome/ProgramError.ts"
import { type Given, given as givenBy, valueGiven } from "../settings/Setting.ts"
import { allSettings } from "../settings/SettingTable.ts"
import { databaseIn, type Note } from "./FileSource.ts"
import type { Source } from "./Source.ts"
import type { Container } from "./Toml.ts"

/** The cluster of a worker. */
export interface ClusterSettings {
  /** The schema has no meaning: the tables are in the first schema of the search path. */
  readonly url: PostgresUrl.PostgresUrl
  /** The beginning of the names of the tables. */
  readonly prefix: string
  /** The name of this worker in the cluster. */
  readonly runner: string
}

/** The texts of the worker's flags. */
export interface ClusterFlags {
  readonly cluster?: string | undefined
  readonly clusterPrefix?: string | undefined
  readonly runner?: string | undefined
}

export type FileCluster = Omit<ClusterSettings, "runner">

const defaultPrefix = "payments"

/** The problem is a sentence that repeats no part of the URL. */
const parseUrl = (text: string): Result.Result<PostgresUrl.PostgresUrl, string> =>
  URL.parse(text)?.searchParams.has("schema") === true
    ? Result.fail("postgres: the URL of a cluster has no schema. Set a prefix instead.")
    : PostgresUrl.parse(text)

/** The values of `[cluster]` match the schema or were reported. */
export const clusterIn = (table: Container, folder: string, note: Note): FileCluster | undefined => {
  const { prefix = defaultPrefix, url } = table
  if (typeof url !== "string" || typeof prefix !== "string") return undefined
  const parsed = /^postgres(ql)?:/.test(url) ? parseUrl(url) : Result.fail("It must be postgres://HOST/DATABASE.")
  const database = databaseIn(parsed, folder, (problem) => note(["cluster", "url"], `cluster.url ${problem}`))
  return database === undefined ? undefined : { url: database, prefix }
}

/** Returns the cluster of the worker, if it has one. Refuses sources that a cluster cannot run. */
export const clusterOf = Effect.fnUntraced(function*(
  { cluster: inFile, sources }: {
    readonly cluster?: FileCluster | undefined
    readonly sources: ReadonlyArray<Pick<Source, "name" | "to" | "runner">>
  },
  flags: ClusterFlags
) {
  const given = yield* checkAll({
    url: givenBy(allSettings.cluster.url, flags.cluster),
    prefix: valueGiven(allSettings.cluster.prefix, flags.clusterPrefix),
    runner: valueGiven(allSettings.worker.runner, flags.runner)
  })
  const url = given.url === undefined ? inFile?.url : yield* urlOf(given.url)
  if (url === undefined) return undefined
  const refused = sources.flatMap(({ name, runner, to }) =>
    runner === undefined && isOfOneMachine(to)
      ? [
        `sources.${name}: only one machine can write an SQLite or file destination, but every runner of a cluster may run the source. Use a PostgreSQL destination, or set runner = "NAME" for the source.`
      ]
      : []
  )
  if (refused.length > 0) return yield* usage(refused.join("\n"))
  const cluster: ClusterSettings = {
    url,
    prefix: given.prefix ?? inFile?.prefix ?? defaultPrefix,
    runner: given.runner ?? defaultRunner()
  }
  return cluster
})

const urlOf = Effect.fnUntraced(function*({ from, text }: Given<string>) {
  const parsed = parseUrl(text)
  if (Result.isFailure(parsed)) return yield* usage(`${from}: ${parsed.failure}`)
  // Other users of the machine can read the arguments of a process.
  if (from.startsWith("--") && parsed.success.password !== undefined) {
    return yield* usage(
      `${from}: Other users of this machine can read a password in an argument. Set PGPASSWORD, PGPASSFILE or PAYMENTS_CLUSTER instead.`
    )
  }
  return parsed.success
})

const isOfOneMachine = (to: Destination.StoredDestination | undefined): boolean =>
  to !== undefined && Destination.operations(to).place.isLocal

const defaultRunner = (): string => {
  const id = String(process.pid)
  const host = hostname().replaceAll(/[^A-Za-z0-9._-]/g, "-").slice(0, 59 - id.length)
  return `${host}-${id}`
}
