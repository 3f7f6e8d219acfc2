/** The consumers of changes in a PostgreSQL schema, and the removal of old changes, scans and rows. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import { pieceOf, RowSet } from "../plan/RowSet.ts"
import { judgeMove } from "../port/Generations.ts"
import { NotADestination, SinkError } from "../port/Sink.ts"
import { earlierVersion, generationVersion, personalVersion } from "../store/Migrations.ts"
import {
  readNumber,
  readText,
  toCertifiedScan,
  toOldChange,
  toOldRow,
  toPiece,
  toPosition,
  toPrunedRows
} from "../store/Rows.ts"
import type { Maintenance, PrunedRows } from "../store/Store.ts"
import { integers, iso, type PostgresClient, type Query } from "./PostgresClient.ts"
import { beginOver, hasVersion, lineageIn, ownGeneration, rangeIn } from "./PostgresGenerations.ts"
import { setIdleTimeout, times } from "./PostgresLease.ts"

/** SQL conditions for a consumer that exists. Its position may have changed since it was judged. */
const moves = {
  create: "false",
  forward: "excluded.position > c.position OR excluded.generation IS DISTINCT FROM c.generation",
  any: "true"
} as const

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

/** Returns which rows of the list were removed. */
export const prunedRowsIn = (
  query: Query,
  s: string,
  list: Lists.AnyList,
  hasTable: boolean
): Effect.Effect<PrunedRows, SinkError> =>
  Effect.map(
    hasTable
      ? query(`SELECT removed, seq, last_change FROM ${s}.rows_pruned WHERE list = $1`, [list.label])
      : Effect.succeed([]),
    ([row]) => toPrunedRows(row)
  )

/** Makes the functions of {@link Maintenance} that write. Each of them can be run again without further effect. */
export const maintain = (
  { location, once, query: single, transaction }: Pick<
    PostgresClient,
    "location" | "once" | "query" | "transaction"
  >,
  s: string
): Pick<
  Maintenance,
  "moveConsumer" | "beginGeneration" | "removeConsumer" | "pruneChanges" | "pruneRows" | "pruneScans" | "emptyLog"
> => {
  const requireVersion = Effect.fnUntraced(function*(query: Query, version: number) {
    if (yield* hasVersion(query, s, version)) return
    return yield* new SinkError({ location, reason: new NotADestination({ problem: earlierVersion }) })
  })
  const consumersIn = (query: Query) =>
    Effect.map(
      query(`SELECT name, position FROM ${s}.consumers ORDER BY name`),
      (rows) => rows.map((row) => ({ name: readText(row, "name"), position: readNumber(row, "position") }))
    )
  /** Excludes the removal of changes and rows while consumers move. Unlike a lock of a table, this lock needs no privilege. */
  const lock = (query: Query, mode: "shared" | "exclusive") =>
    query(
      `SELECT ${setIdleTimeout(times.idleTimeout)},
        pg_advisory_xact_lock${mode === "shared" ? "_shared" : ""}(hashtextextended($1, 0))`,
      [`payments changes ${s}`]
    )
  return {
    emptyLog: Effect.void,
    moveConsumer: ({ generation, name, now, position, when }) =>
      transaction(Effect.fnUntraced(function*(query) {
        yield* requireVersion(query, generationVersion)
        yield* lock(query, "shared")
        const stored = Effect.map(
          query(`SELECT ${ownGeneration(s)} AS generation, position FROM ${s}.consumers WHERE name = $1`, [name]),
          ([row]) => toPosition(row)
        )
        // A generation that begins meanwhile makes the position outdated, which its generation shows.
        const range = yield* rangeIn(query, s)
        const lineage = yield* lineageIn(query, s)
        const verdict = judgeMove({ generation, position, when }, yield* stored, range, lineage)
        if (verdict._tag === "move") {
          yield* query(
            `INSERT INTO ${s}.consumers AS c (name, generation, position, created_at, moved_at)
            VALUES ($1, $2, $3::bigint, $4::timestamptz, $4::timestamptz)
            ON CONFLICT (name) DO UPDATE SET generation = excluded.generation, position = excluded.position,
              moved_at = excluded.moved_at WHERE ${moves[when]}`,
            [name, range.generation ?? null, String(position), now]
          )
        }
        return { verdict, range, lineage, stored: yield* stored }
      })),
    beginGeneration: (begin) =>
      Effect.andThen(requireVersion(single, generationVersion), beginOver({ once, transaction }, s)(begin)),
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
        const certified = yield* query(certifiedQuery(s))
        const chosen = choose(changes.map(toOldChange), {
          consumers: yield* consumersIn(query),
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
    pruneRows: ({ after, before, count, isDryRun, list, now }, choose) =>
      transaction(Effect.fnUntraced(function*(query) {
        yield* requireVersion(query, personalVersion)
        yield* lock(query, "exclusive")
        const table = `${s}.${layoutOf(list).table}`
        // A commit may be changing a row that has just been returned. Skip that row instead of waiting for it.
        const found = yield* query(
          `SELECT "row", (
            SELECT max(seq) FROM ${s}.changes WHERE list = $1 AND id = t.id AND kind = 'missing'
          ) AS missing_change
          FROM ${table} AS t WHERE missing_since IS NOT NULL AND missing_since < $2::timestamptz AND "row" > $3::bigint
            AND "row" < (SELECT max("row") FROM ${table}) ORDER BY "row" LIMIT $4::bigint ${
            isDryRun ? "" : "FOR UPDATE OF t SKIP LOCKED"
          }`,
          [list.label, before, String(after), String(count)]
        )
        const old = found.map(toOldRow)
        const [first = { row: 0 }, last = first] = [old[0], old.at(-1)]
        const pieces = yield* query(
          `SELECT piece, bits FROM ${s}.seen WHERE piece BETWEEN $1::bigint AND $2::bigint AND scan IN (
            SELECT scan FROM ${s}.scans WHERE list = $3 AND state IN ('complete', 'running')
          )`,
          [String(pieceOf(first.row)), String(pieceOf(last.row)), list.label]
        )
        const chosen = choose(old, { consumers: yield* consumersIn(query), seen: new RowSet(pieces.map(toPiece)) })
        if (isDryRun || chosen.rows.length === 0) return chosen
        yield* query(`DELETE FROM ${table} WHERE "row" = ANY ($1)`, [integers(chosen.rows.map(({ row }) => row))])
        yield* query(
          `INSERT INTO ${s}.rows_pruned AS p (list, seq, last_change, removed, pruned_at)
          SELECT $1, $2::bigint, changes, $3::bigint, $4::timestamptz FROM ${s}.destination
          ON CONFLICT (list) DO UPDATE SET seq = greatest(p.seq, excluded.seq), last_change = excluded.last_change,
            removed = p.removed + excluded.removed, pruned_at = excluded.pruned_at`,
          [
            list.label,
            String(Math.max(...chosen.rows.map(({ missingChange = 0 }) => missingChange))),
            String(chosen.rows.length),
            now
          ]
        )
        return chosen
      })),
    pruneScans: ({ before, count, isDryRun }) =>
      isDryRun
        ? Effect.map(
          single(`SELECT count(*) AS scans FROM (${oldScans(s)}) AS old`, [before]),
          ([row]) => readNumber(row, "scans")
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
          ([row]) => readNumber(row, "scans")
        )
  }
}
