/** The consumers of changes in an SQLite file, and the removal of old changes, scans and rows. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import { pieceOf, RowSet } from "../plan/RowSet.ts"
import { judgeMove } from "../port/Generations.ts"
import { NotADestination } from "../port/Sink.ts"
import { currentVersion, earlierVersion, personalVersion } from "../store/Migrations.ts"
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
import type { ChangeNeeds, Maintenance, PrunedRows } from "../store/Store.ts"
import type { Database, SqliteClient } from "./SqliteClient.ts"
import { incrementRevision } from "./SqliteCommit.ts"
import { beginIn, lastChange, lineageIn, ownGeneration, rangeIn, versionOf } from "./SqliteGenerations.ts"

const positionQuery = `SELECT ${ownGeneration} AS generation, position FROM consumers WHERE name = ?`

/** SQL for the last complete full scan of each list; without one, for its running full scan. */
const certifiedQuery = `SELECT list, scan, last_change FROM scans AS s
  WHERE kind = 'full' AND part = '' AND state IN ('complete', 'running') AND scan = coalesce(
    (SELECT max(scan) FROM scans WHERE list = s.list AND kind = 'full' AND part = '' AND state = 'complete'),
    (SELECT max(scan) FROM scans WHERE list = s.list AND kind = 'full' AND part = '' AND state = 'running')
  )`

/** SQL for the scans that ended before `?1` and that nothing needs any more. */
const oldScans = `SELECT scan FROM scans AS s
  WHERE state <> 'running' AND coalesce(ended_at, started_at) < ?1 AND scan < coalesce(
    (SELECT max(scan) FROM scans WHERE list = s.list AND kind = 'full' AND part = '' AND state = 'complete'),
    (SELECT max(scan) FROM scans WHERE list = s.list AND kind = 'part' AND part = s.part AND state = 'complete')
  )`

/** Returns which rows of the list were removed. A reader may read a file of an earlier version, which lacks the table. */
export const prunedRowsIn = (db: Database, list: Lists.AnyList): PrunedRows =>
  toPrunedRows(
    versionOf(db) >= personalVersion
      ? db.get("SELECT removed, seq, last_change FROM rows_pruned WHERE list = ?", list.label)
      : undefined
  )

/** Refuses a file of an earlier version, which lacks tables and columns of this one. */
export const requireCurrentVersion = (db: Database): void => {
  if (versionOf(db) < currentVersion) throw new NotADestination({ problem: earlierVersion })
}

const consumersIn = (db: Database): ChangeNeeds["consumers"] =>
  db.all("SELECT name, position FROM consumers ORDER BY name").map((row) => ({
    name: readText(row, "name"),
    position: readNumber(row, "position")
  }))

/** Makes the functions of {@link Maintenance} that write. */
export const maintain = (
  { run, unlockedTransaction }: Pick<SqliteClient, "run" | "unlockedTransaction">
): Pick<
  Maintenance,
  "moveConsumer" | "beginGeneration" | "removeConsumer" | "pruneChanges" | "pruneRows" | "pruneScans" | "emptyLog"
> => ({
  emptyLog: Effect.asVoid(run((db) => db.tryEmptyLog())),
  moveConsumer: ({ generation, name, now, position, when }) =>
    unlockedTransaction((db) => {
      requireCurrentVersion(db)
      const [range, lineage] = [rangeIn(db), lineageIn(db)]
      const stored = toPosition(db.get(positionQuery, name))
      const verdict = judgeMove({ generation, position, when }, stored, range, lineage)
      if (verdict._tag !== "move") return { verdict, range, lineage, stored }
      db.run(
        `INSERT INTO consumers (name, generation, position, created_at, moved_at) VALUES (?1, ?2, ?3, ?4, ?4)
        ON CONFLICT (name) DO UPDATE SET generation = excluded.generation, position = excluded.position,
          moved_at = excluded.moved_at`,
        name,
        range.generation ?? null,
        position,
        now
      )
      return { verdict, range, lineage, stored: { generation: range.generation, position } }
    }),
  beginGeneration: (begin) =>
    unlockedTransaction((db) => {
      requireCurrentVersion(db)
      return beginIn(db, begin)
    }),
  removeConsumer: (name) =>
    unlockedTransaction((db) => db.get("DELETE FROM consumers WHERE name = ? RETURNING name", name) !== undefined),
  pruneChanges: ({ after, count, isDryRun, now }, choose) =>
    unlockedTransaction((db) => {
      const chosen = choose(
        db.all("SELECT seq, list, scan, at FROM changes WHERE seq > ? ORDER BY seq LIMIT ?", after, count).map(
          toOldChange
        ),
        {
          consumers: consumersIn(db),
          certified: db.all(certifiedQuery).map(toCertifiedScan)
        }
      )
      if (!isDryRun && chosen.through > after) {
        db.run("DELETE FROM changes WHERE seq <= ?", chosen.through)
        db.run(
          `INSERT INTO changes_pruned (only, seq, pruned_at) VALUES (1, ?, ?)
          ON CONFLICT (only) DO UPDATE SET seq = excluded.seq, pruned_at = excluded.pruned_at WHERE excluded.seq > seq`,
          chosen.through,
          now
        )
      }
      return chosen
    }),
  pruneRows: ({ after, before, count, isDryRun, list, now }, choose) =>
    unlockedTransaction((db) => {
      requireCurrentVersion(db)
      const { table } = layoutOf(list)
      const old = db.all(
        `SELECT row, (SELECT max(seq) FROM changes WHERE list = ?1 AND id = t.id AND kind = 'missing') AS missing_change
        FROM ${table} AS t WHERE missing_since IS NOT NULL AND missing_since < ?2 AND row > ?3
          AND row < (SELECT max(row) FROM ${table}) ORDER BY row LIMIT ?4`,
        list.label,
        before,
        after,
        count
      ).map(toOldRow)
      const [first = { row: 0 }, last = first] = [old[0], old.at(-1)]
      const seen = new RowSet(
        db.all(
          `SELECT piece, bits FROM seen WHERE piece BETWEEN ? AND ? AND scan IN (
            SELECT scan FROM scans WHERE list = ? AND state IN ('complete', 'running')
          )`,
          pieceOf(first.row),
          pieceOf(last.row),
          list.label
        ).map(toPiece)
      )
      const chosen = choose(old, { consumers: consumersIn(db), seen })
      if (isDryRun || chosen.rows.length === 0) return chosen
      for (const { row } of chosen.rows) db.run(`DELETE FROM ${table} WHERE row = ?`, row)
      db.run(
        `INSERT INTO rows_pruned (list, seq, last_change, removed, pruned_at) VALUES (?1, ?2, ${lastChange}, ?3, ?4)
        ON CONFLICT (list) DO UPDATE SET seq = max(seq, excluded.seq), last_change = excluded.last_change,
          removed = removed + excluded.removed, pruned_at = excluded.pruned_at`,
        list.label,
        Math.max(...chosen.rows.map(({ missingChange = 0 }) => missingChange)),
        chosen.rows.length,
        now
      )
      incrementRevision(db, list)
      return chosen
    }),
  pruneScans: ({ before, count, isDryRun }) =>
    unlockedTransaction((db) => {
      if (isDryRun) return readNumber(db.get(`SELECT count(*) AS scans FROM (${oldScans})`, before), "scans")
      const removed = db.all(
        `DELETE FROM scans WHERE scan IN (${oldScans} ORDER BY scan LIMIT ?2) RETURNING scan`,
        before,
        count
      )
      // The end of a later scan has deleted these already, unless another program has changed the tables.
      for (const { scan } of removed) {
        db.run("DELETE FROM seen WHERE scan = ?", Number(scan))
        db.run("DELETE FROM quarantine WHERE scan = ?", Number(scan))
      }
      return removed.length
    })
})
