/** The consumers of changes in a PostgreSQL schema, and the removal of old changes and scans. */
import { Effect } from "effect"
import { number, text, toCertifiedScan, toChangeRange, toOldChange } from "../engine/Rows.ts"
import type { Maintenance } from "../engine/Store.ts"
import { iso, type PostgresClient, type Query } from "./PostgresClient.ts"
import { setIdleTimeout, times } from "./PostgresLease.ts"

/** SQL for a row of `toChangeRange`. */
export const rangeQuery = (s: string): string =>
  `SELECT coalesce((SELECT seq FROM ${s}.changes_pruned), 0) AS pruned, changes AS last FROM ${s}.destination`

/** SQL conditions for a consumer that exists. */
const moves = { create: "false", forward: "excluded.position > c.position", any: "true" } as const

/** SQL for the last complete full scan of each list; without one, for its running full scan. */
const certifiedQuery = (s: string): string =>
  `SELECT DISTINCT ON (list) list, scan, last_change FROM ${s}.scans
  WHERE kind = 'full' AND part = '' AND state IN ('complete', 'running') ORDER BY list, state = 'complete' DESC, scan DESC`

/** SQL for the scans that ended before `$1` and that nothing needs any more. */
const oldScans = (s: string): string =>
  `SELECT scan FROM ${s}.scans AS s
  WHERE state <> 'running' AND coalesce(ended_at, started_at) < $1::timestamptz AND scan < coalesce(
    (SELECT max(scan) FROM ${s}.scans WHERE list = s.list AND kind = 'full' AND part = '' AND state = 'complete'),
    (SELECT max(scan) FROM ${s}.scans WHERE list = s.list AND kind = 'part' AND part = s.part AND state = 'complete')
  )`

/** Makes the functions of {@link Maintenance} that write. Each of them can be run again without further effect. */
export const maintain = (
  { query: single, transaction }: Pick<PostgresClient, "query" | "transaction">,
  s: string
): Pick<Maintenance, "moveConsumer" | "removeConsumer" | "pruneChanges" | "pruneScans"> => {
  /** Excludes the removal of changes while consumers move. Unlike a lock of a table, this lock needs no privilege. */
  const lock = (query: Query, mode: "shared" | "exclusive") =>
    query(
      `SELECT ${setIdleTimeout(times.idleTimeout)},
        pg_advisory_xact_lock${mode === "shared" ? "_shared" : ""}(hashtextextended($1, 0))`,
      [`payments changes ${s}`]
    )
  return {
    moveConsumer: ({ name, now, position, when }) =>
      transaction(Effect.fnUntraced(function*(query) {
        yield* lock(query, "shared")
        const range = toChangeRange((yield* query(rangeQuery(s)))[0])
        if (position >= range.pruned && position <= range.last) {
          yield* query(
            `INSERT INTO ${s}.consumers AS c (name, position, created_at, moved_at)
            VALUES ($1, $2::bigint, $3::timestamptz, $3::timestamptz)
            ON CONFLICT (name) DO UPDATE SET position = excluded.position, moved_at = excluded.moved_at WHERE ${
              moves[when]
            }`,
            [name, String(position), now]
          )
        }
        const [row] = yield* query(`SELECT position FROM ${s}.consumers WHERE name = $1`, [name])
        return { range, position: row === undefined ? undefined : number(row, "position") }
      })),
    removeConsumer: (name) =>
      Effect.map(
        single(`DELETE FROM ${s}.consumers WHERE name = $1 RETURNING name`, [name]),
        (removed) => removed.length > 0
      ),
    pruneChanges: ({ after, count, isDryRun, now }, choose) =>
      transaction(Effect.fnUntraced(function*(query) {
        yield* lock(query, "exclusive")
        const changes = yield* query(
          `SELECT seq, list, scan, ${iso("at")} FROM ${s}.changes WHERE seq > $1::bigint ORDER BY seq LIMIT $2::bigint`,
          [String(after), String(count)]
        )
        const consumers = yield* query(`SELECT name, position FROM ${s}.consumers ORDER BY name`)
        const certified = yield* query(certifiedQuery(s))
        const chosen = choose(changes.map(toOldChange), {
          consumers: consumers.map((row) => ({ name: text(row, "name"), position: number(row, "position") })),
          certified: certified.map(toCertifiedScan)
        })
        if (!isDryRun && chosen.through > after) {
          yield* query(`DELETE FROM ${s}.changes WHERE seq <= $1::bigint`, [String(chosen.through)])
          yield* query(
            `INSERT INTO ${s}.changes_pruned AS p (seq, pruned_at) VALUES ($1::bigint, $2::timestamptz)
            ON CONFLICT (singleton) DO UPDATE SET seq = excluded.seq, pruned_at = excluded.pruned_at
              WHERE excluded.seq > p.seq`,
            [String(chosen.through), now]
          )
        }
        return chosen
      })),
    pruneScans: ({ before, count, isDryRun }) =>
      isDryRun
        ? Effect.map(
          single(`SELECT count(*) AS scans FROM (${oldScans(s)}) AS old`, [before]),
          ([row]) => number(row, "scans")
        )
        : Effect.map(
          // The end of a later scan has deleted the seen rows and the quarantine already, unless another program has changed
          // the tables.
          single(
            `WITH removed AS (
              DELETE FROM ${s}.scans WHERE scan IN (${oldScans(s)} ORDER BY scan LIMIT $2::bigint) RETURNING scan
            ), seen AS (
              DELETE FROM ${s}.seen WHERE scan IN (SELECT scan FROM removed)
            ), quarantine AS (
              DELETE FROM ${s}.quarantine WHERE scan IN (SELECT scan FROM removed)
            )
            SELECT count(*) AS scans FROM removed`,
            [before, String(count)]
          ),
          ([row]) => number(row, "scans")
        )
  }
}
