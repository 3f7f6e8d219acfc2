/** The consumers of changes, and the removal of old changes, scans and rows. */
import { Effect } from "effect"
import { pieceOf, RowSet } from "../plan/RowSet.ts"
import type { SinkError } from "../port/Sink.ts"
import { factsVersion, generationVersion, handoffVersion, personalVersion } from "../store/Migrations.ts"
import type { RedactionStore } from "../store/RedactionStore.ts"
import type { ChangeNeeds, Maintenance, Reader } from "../store/Store.ts"
import {
  readNumber,
  readOptional,
  readOptionalNumber,
  readText,
  toCertifiedScan,
  toOldChange,
  toOldRow,
  toPiece
} from "../store/StoredRows.ts"
import { forgetScans, incrementRevision } from "./SqlCommit.ts"
import { moveConsumer } from "./SqlConsumers.ts"
import { greatest, readTime, tableIn } from "./SqlDialect.ts"
import { changeFactsIn } from "./SqlFacts.ts"
import { beginIn, hasVersion, lastChange, requireVersion } from "./SqlGenerations.ts"
import { handoffsOver } from "./SqlHandoff.ts"
import {
  either,
  isOneOfIntegers,
  raw,
  rowOf,
  schema,
  type Sql,
  sql,
  type SqlDatabase,
  type Statement,
  time
} from "./SqlStatement.ts"

const lastScan = (condition: string): Statement =>
  sql`(SELECT max(scan) FROM ${schema}.scans WHERE list = s.list AND ${raw(condition)})`

const [lastComplete, lastRunning, lastOfPart] = [
  lastScan("kind = 'full' AND part = '' AND state = 'complete'"),
  lastScan("kind = 'full' AND part = '' AND state = 'running'"),
  lastScan("kind = 'part' AND part = s.part AND state = 'complete'")
]

/** SQL for the scans that ended before a time and that nothing needs any more. */
const oldScans = (before: string): Statement =>
  sql`SELECT scan FROM ${schema}.scans AS s WHERE state <> 'running' AND coalesce(ended_at, started_at) < ${
    time(before)
  }
    AND scan < coalesce(${lastComplete}, ${lastOfPart})`

/** The consumers, each at its position or before the first change that is set aside: that one is still to be sent. */
const consumersIn = Effect.fnUntraced(function*(db: Sql): Effect.fn.Return<ChangeNeeds["consumers"], SinkError> {
  const aside = (yield* hasVersion(db, handoffVersion))
    ? sql`(SELECT min(seq) FROM ${schema}.handoff_asides WHERE consumer = name)`
    : raw("NULL")
  return yield* db.read(
    sql`SELECT name, position, ${aside} AS aside FROM ${schema}.consumers ORDER BY name`,
    (rows) =>
      rows.map((row) => {
        const first = readOptionalNumber(row, "aside") ?? Infinity
        return { name: readText(row, "name"), position: Math.min(readNumber(row, "position"), first - 1) }
      })
  )
})

/** The last complete full scan of each list; without one, its running full scan. */
const certifiedIn = (db: Sql): Effect.Effect<ChangeNeeds["certified"], SinkError> =>
  db.read(
    sql`SELECT list, scan, last_change FROM ${schema}.scans AS s
      WHERE kind = 'full' AND part = '' AND state IN ('complete', 'running') AND scan = coalesce(${lastComplete}, ${lastRunning})`,
    (rows) => rows.map(toCertifiedScan)
  )

/** The functions of {@link Maintenance} that write. Each can be run again without further effect. */
export const maintain = (
  database: SqlDatabase
): Omit<Maintenance, keyof Reader | keyof RedactionStore | "emptyLog"> => ({
  ...handoffsOver(database),
  moveConsumer: moveConsumer(database),
  beginGeneration: beginGeneration(database),
  removeConsumer: removeConsumer(database),
  pruneChanges: pruneChanges(database),
  pruneRows: pruneRows(database),
  pruneScans: pruneScans(database),
  changeFacts: (list, service, change) =>
    database.transaction(
      "shared",
      (db) => Effect.andThen(requireVersion(db, factsVersion), changeFactsIn(db, list, service, change))
    )
})

const beginGeneration = (database: SqlDatabase): Maintenance["beginGeneration"] => (begin) =>
  Effect.flatMap(database.origin, (origin) =>
    database.transaction(
      "shared",
      Effect.fnUntraced(function*(db) {
        yield* requireVersion(db, generationVersion)
        const server = yield* rowOf(db, sql`SELECT ${origin} AS origin`)
        return yield* beginIn(db, { ...begin, origin: readOptional(server, "origin") })
      })
    ))

const removeConsumer = (database: SqlDatabase): Maintenance["removeConsumer"] => (name) =>
  database.transaction(
    "shared",
    (db) =>
      db.read(sql`DELETE FROM ${schema}.consumers WHERE name = ${name} RETURNING name`, (removed) => removed.length > 0)
  )

const pruneChanges =
  (database: SqlDatabase): Maintenance["pruneChanges"] => ({ after, count, isDryRun, now }, choose) =>
    database.transaction(
      "exclusive",
      Effect.fnUntraced(function*(db) {
        const changes = yield* db.all(
          sql`SELECT seq, list, scan, ${
            readTime("at")
          } FROM ${schema}.changes WHERE seq > ${after} ORDER BY seq LIMIT ${count}`
        )
        const chosen = choose(changes.map(toOldChange), {
          consumers: yield* consumersIn(db),
          certified: yield* certifiedIn(db)
        })
        if (isDryRun || chosen.through <= after) return chosen
        yield* db.run(sql`DELETE FROM ${schema}.changes WHERE seq <= ${chosen.through}`)
        yield* db.run(
          sql`INSERT INTO ${schema}.changes_pruned AS p (${onlyRow}, seq, pruned_at)
        VALUES (${either("1", "true")}, ${chosen.through}, ${time(now)})
        ON CONFLICT (${onlyRow}) DO UPDATE SET seq = excluded.seq, pruned_at = excluded.pruned_at WHERE excluded.seq > p.seq`
        )
        return chosen
      })
    )

const pruneRows =
  (database: SqlDatabase): Maintenance["pruneRows"] => ({ after, before, count, isDryRun, list, now }, choose) =>
    database.transaction(
      "exclusive",
      Effect.fnUntraced(function*(db) {
        yield* requireVersion(db, personalVersion)
        const table = tableIn(list)
        const found = yield* db.all(
          sql`SELECT "row", (
          SELECT max(seq) FROM ${schema}.changes WHERE list = ${list.label} AND id = t.id AND kind = 'missing'
        ) AS missing_change
        FROM ${table} AS t WHERE missing_since IS NOT NULL AND missing_since < ${time(before)} AND "row" > ${after}
          AND "row" < (SELECT max("row") FROM ${table}) ORDER BY "row" LIMIT ${count} ${isDryRun ? raw("") : lockRows}`
        )
        const old = found.map(toOldRow)
        const [first = { row: 0 }, last = first] = [old[0], old.at(-1)]
        const pieces = yield* db.all(
          sql`SELECT piece, bits FROM ${schema}.seen WHERE piece BETWEEN ${pieceOf(first.row)} AND ${pieceOf(last.row)}
          AND scan IN (SELECT scan FROM ${schema}.scans WHERE list = ${list.label} AND state IN ('complete', 'running'))`
        )
        const chosen = choose(old, { consumers: yield* consumersIn(db), seen: new RowSet(pieces.map(toPiece)) })
        if (isDryRun || chosen.rows.length === 0) return chosen
        yield* db.run(sql`DELETE FROM ${table} WHERE "row" ${isOneOfIntegers(chosen.rows.map(({ row }) => row))}`)
        const lastMissingChange = Math.max(...chosen.rows.map(({ missingChange = 0 }) => missingChange))
        yield* db.run(
          sql`INSERT INTO ${schema}.rows_pruned AS p (list, seq, last_change, removed, pruned_at)
        VALUES (${list.label}, ${lastMissingChange}, ${lastChange}, ${chosen.rows.length}, ${time(now)})
        ON CONFLICT (list) DO UPDATE SET seq = ${greatest}(p.seq, excluded.seq), last_change = excluded.last_change,
          removed = p.removed + excluded.removed, pruned_at = excluded.pruned_at`
        )
        yield* incrementRevision(db, list)
        return chosen
      })
    )

const pruneScans = (database: SqlDatabase): Maintenance["pruneScans"] => ({ before, count, isDryRun }) =>
  isDryRun
    ? Effect.map(
      rowOf(database, sql`SELECT count(*) AS scans FROM (${oldScans(before)}) AS old`),
      (row) => readNumber(row, "scans")
    )
    : database.transaction(
      "shared",
      Effect.fnUntraced(function*(db) {
        const removed = yield* db.all(
          sql`DELETE FROM ${schema}.scans WHERE scan IN (${
            oldScans(before)
          } ORDER BY scan LIMIT ${count}) RETURNING scan`
        )
        // The end of a later scan has deleted these already, unless another program has changed the tables.
        yield* forgetScans(db, removed.map((row) => readNumber(row, "scan")))
        return removed.length
      })
    )

/** The key of a table with one row. */
const onlyRow = either("only", "singleton")

/** A commit may be changing a row that has just been returned. PostgreSQL skips that row instead of waiting for it. */
const lockRows = either("", "FOR UPDATE OF t SKIP LOCKED")
