/**
 * The tables that say which runners a cluster has and which source each of them runs. They are only an observation for
 * people. The cluster decides nothing by them, except that no two live runners have the same name. They are next to the
 * tables of Effect Cluster and have the same prefix.
 */
import type { SinkError } from "@payments/copy"
import { iso, type PostgresClient, type Query } from "@payments/copy/postgres"
import { Duration, Effect } from "effect"

/** How often a runner notes that it is alive. */
export const beatInterval = Duration.seconds(5)
/** A runner that has not noted it for so long counts as dead. */
const aliveFor = "30 seconds"
/** Runners that have been dead for so long are forgotten. */
const keptFor = "1 day"

/** A runner can have several processes in succession. */
export interface RunnerProcess {
  readonly runner: string
  /** A random id: a process that ended and its successor have the same name. */
  readonly instance: string
  /** The process and its host, for people. */
  readonly process: string
  readonly version: string
}

/** A runner that is alive, or was within the last day. */
export interface Runner extends Omit<RunnerProcess, "instance"> {
  readonly alive: boolean
  /** ISO 8601 UTC. */
  readonly startedAt: string
  readonly seenAt: string
  /** The sources that it runs now, in alphabetical order. */
  readonly sources: ReadonlyArray<string>
}

export interface SourceRunner {
  readonly source: string
  /** The live runner that runs it; null if none does. */
  readonly runner: string | null
  /** The runner that ran it last. */
  readonly lastRunner: string
  /** When `lastRunner` began, ISO 8601 UTC. */
  readonly since: string
  /** How often a runner has taken the source over from another one. */
  readonly takeovers: number
}

export interface Fleet {
  readonly runners: ReadonlyArray<Runner>
  readonly sources: ReadonlyArray<SourceRunner>
}

const processes = (prefix: string): string => `${prefix}_processes`
const sources = (prefix: string): string => `${prefix}_sources`

/** SQL that is true for a live runner. A time in the future is from before the server's clock was set back. */
const isAlive = (column: string): string =>
  `${column} BETWEEN clock_timestamp() - interval '${aliveFor}' AND clock_timestamp() + interval '${aliveFor}'`

/** Needs no privilege to create tables if they exist. */
export const createTables = ({ query: single, transaction }: PostgresClient, prefix: string) =>
  Effect.flatMap(
    exist(single, prefix),
    (found) =>
      found ? Effect.void : transaction(Effect.fnUntraced(function*(query) {
        // A runner that hangs here must not block the others.
        yield* query(
          "SELECT set_config('lock_timeout', '20s', true), set_config('idle_in_transaction_session_timeout', '10s', true)"
        )
        // Runners that start at the same moment would otherwise fail: IF NOT EXISTS does not wait for another
        // transaction.
        yield* query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`payments runners ${prefix}`])
        yield* query(`CREATE TABLE IF NOT EXISTS ${processes(prefix)} (runner text PRIMARY KEY, instance text NOT NULL,
      process text NOT NULL, version text NOT NULL, started_at timestamptz NOT NULL, seen_at timestamptz NOT NULL)`)
        yield* query(`CREATE TABLE IF NOT EXISTS ${sources(prefix)} (source text PRIMARY KEY, runner text NOT NULL,
      instance text NOT NULL, since timestamptz NOT NULL, until timestamptz, takeovers bigint NOT NULL)`)
      }))
  )

const exist = (query: Query, prefix: string): Effect.Effect<boolean, SinkError> =>
  Effect.map(
    query("SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL AS exist", [
      processes(prefix),
      sources(prefix)
    ]),
    ([tables]) => tables?.["exist"] === true
  )

export interface Registration {
  readonly query: Query
  readonly prefix: string
  readonly own: RunnerProcess
}

/** Returns false if another live process has the name. */
export const register = (
  { own: { instance, process, runner, version }, prefix, query }: Registration
): Effect.Effect<boolean, SinkError> =>
  Effect.andThen(
    query(`DELETE FROM ${processes(prefix)} WHERE seen_at < clock_timestamp() - interval '${keptFor}'`),
    Effect.map(
      query(
        `INSERT INTO ${processes(prefix)} AS p (runner, instance, process, version, started_at, seen_at)
        VALUES ($1, $2, $3, $4, clock_timestamp(), clock_timestamp())
        ON CONFLICT (runner) DO UPDATE SET instance = excluded.instance, process = excluded.process,
          version = excluded.version, started_at = excluded.started_at, seen_at = excluded.seen_at
        WHERE p.instance = excluded.instance OR NOT (${isAlive("p.seen_at")}) RETURNING runner`,
        [runner, instance, process, version]
      ),
      ({ length }) => length > 0
    )
  )

/** Returns the process that has the runner's name, and when it last noted that it is alive. */
export const processOf = (
  { own: { runner }, prefix, query }: Registration
): Effect.Effect<{ readonly process: string; readonly seenAt: string } | undefined, SinkError> =>
  Effect.map(
    query(`SELECT process, seen_at::text FROM ${processes(prefix)} WHERE runner = $1`, [runner]),
    ([row]) => row === undefined ? undefined : { process: String(row["process"]), seenAt: String(row["seen_at"]) }
  )

/** Notes that the process is alive. Returns false if it is not registered any more. */
export const beat = (
  { own: { instance, runner }, prefix, query }: Registration
): Effect.Effect<boolean, SinkError> =>
  Effect.map(
    query(
      `UPDATE ${
        processes(prefix)
      } SET seen_at = clock_timestamp() WHERE runner = $1 AND instance = $2 RETURNING runner`,
      [runner, instance]
    ),
    ({ length }) => length > 0
  )

/** Returns the other runner that ran the source before, if any. */
export const noteTaken = (
  { own: { instance, runner }, prefix, query }: Registration,
  source: string
): Effect.Effect<string | undefined, SinkError> =>
  Effect.map(
    query(
      `WITH before AS (SELECT runner FROM ${sources(prefix)} WHERE source = $1)
      INSERT INTO ${sources(prefix)} AS s (source, runner, instance, since, takeovers)
      VALUES ($1, $2, $3, clock_timestamp(), 0)
      ON CONFLICT (source) DO UPDATE SET runner = excluded.runner, instance = excluded.instance, until = NULL,
        since = excluded.since, takeovers = s.takeovers + (s.runner <> excluded.runner)::integer
      RETURNING (SELECT runner FROM before) AS before`,
      [source, runner, instance]
    ),
    ([row]) => {
      const before = row?.["before"]
      return typeof before === "string" && before !== runner ? before : undefined
    }
  )

export const noteReleased = (
  { own: { instance }, prefix, query }: Registration,
  source: string
): Effect.Effect<void, SinkError> =>
  Effect.asVoid(
    query(
      `UPDATE ${sources(prefix)} SET until = clock_timestamp() WHERE source = $1 AND instance = $2 AND until IS NULL`,
      [source, instance]
    )
  )

export const unregister = (
  { own: { instance, runner }, prefix, query }: Registration
): Effect.Effect<void, SinkError> =>
  Effect.asVoid(
    query(
      `WITH ended AS (UPDATE ${sources(prefix)} SET until = clock_timestamp() WHERE instance = $2 AND until IS NULL)
      DELETE FROM ${processes(prefix)} WHERE runner = $1 AND instance = $2`,
      [runner, instance]
    )
  )

export const readSources = (query: Query, prefix: string): Effect.Effect<ReadonlyArray<SourceRunner>, SinkError> =>
  Effect.map(
    query(
      `SELECT s.source, s.runner AS last_runner, ${iso("s.since").replace(/ AS .*/, "")} AS since, s.takeovers,
        CASE WHEN s.until IS NULL AND ${isAlive("p.seen_at")} THEN s.runner END AS runner
      FROM ${sources(prefix)} AS s LEFT JOIN ${
        processes(prefix)
      } AS p ON p.runner = s.runner AND p.instance = s.instance
      ORDER BY s.source COLLATE "C"`
    ),
    (rows) =>
      rows.map((row): SourceRunner => ({
        source: String(row["source"]),
        runner: typeof row["runner"] === "string" ? row["runner"] : null,
        lastRunner: String(row["last_runner"]),
        since: String(row["since"]),
        takeovers: Number(row["takeovers"])
      }))
  )

/** Returns undefined if no runner has ever joined the cluster. Writes nothing. */
export const readFleet = Effect.fnUntraced(function*(
  query: Query,
  prefix: string
): Effect.fn.Return<Fleet | undefined, SinkError> {
  if (!(yield* exist(query, prefix))) return undefined
  const taken = yield* readSources(query, prefix)
  const rows = yield* query(
    `SELECT runner, process, version, ${iso("started_at")}, ${iso("seen_at")}, ${isAlive("seen_at")} AS alive
    FROM ${processes(prefix)} ORDER BY runner COLLATE "C"`
  )
  return {
    runners: rows.map((row): Runner => ({
      runner: String(row["runner"]),
      alive: row["alive"] === true,
      process: String(row["process"]),
      version: String(row["version"]),
      startedAt: String(row["started_at"]),
      seenAt: String(row["seen_at"]),
      sources: taken.filter(({ runner }) => runner === row["runner"]).map(({ source }) => source)
    })),
    sources: taken
  }
})
