/** A {@link Store} in one SQLite file. */
import type { Lists } from "@payments/core"
import { type Duration, Effect, type Scope } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import type { RowLookup, StoredRow } from "../plan/Plan.ts"
import type { KnownChange } from "../port/Generations.ts"
import { Damaged, type SinkError } from "../port/Sink.ts"
import type { PendingMigration } from "../store/Evolution.ts"
import { personalVersion } from "../store/Migrations.ts"
import { personalColumns, toPersonalState } from "../store/PersonalBinding.ts"
import {
  readNumber,
  readText,
  type Row,
  toChange,
  toChangeCount,
  toConsumerState,
  toFullRow,
  toPiece,
  toQuarantined,
  toRecordedColumn,
  toScan
} from "../store/Rows.ts"
import { stateQuery, toListState } from "../store/StateQuery.ts"
import { type Maintenance, maxBytes, type NewScan, type Reader, type Store } from "../store/Store.ts"
import { type Database, open, type SqliteClient } from "./SqliteClient.ts"
import { fill, requirePersonal, sourceOf, write, writePass, type Written } from "./SqliteCommit.ts"
import { integrityOf } from "./SqliteDamage.ts"
import {
  currentGeneration,
  hasGenerations,
  lastChange,
  lineageIn,
  ownGeneration,
  rangeIn,
  versionOf
} from "./SqliteGenerations.ts"
import { maintain, prunedRowsIn } from "./SqliteMaintenance.ts"
import { redactionOver } from "./SqliteRedaction.ts"
import { pendingIn } from "./SqliteSchema.ts"
import { statusTotalsOver } from "./SqliteStatuses.ts"

/** A reader of a file that other programs may write. */
export interface SqliteReader extends Reader, Pick<SqliteClient, "run" | "lock"> {
  /** A snapshot of the current content, readable until the scope closes. */
  readonly snapshot: Effect.Effect<Reader & Pick<SqliteClient, "run">, SinkError, Scope.Scope>
}

/** A store with snapshots and transactions, from which files are rendered. */
export interface SqliteStore extends Store, Pick<SqliteReader, "run" | "snapshot">, Pick<SqliteClient, "transaction"> {
  /** Fails if the open file is no longer the file at its path. */
  readonly requireInPlace: Effect.Effect<void, SinkError>
}

/** Opens an existing file read-only, until the scope closes, for a program that knows these lists. */
export const openReader = (
  file: string,
  location: string,
  lists?: ReadonlyArray<Lists.AnyList>
): Effect.Effect<SqliteReader, SinkError, Scope.Scope> =>
  Effect.map(open(file, location, "read", lists), (client) => ({
    ...readerOver(client, location),
    lock: client.lock,
    snapshot: snapshotOf(file, location, lists)
  }))

/** Opens the file for writing, until the scope closes, for a program that knows these lists. Creates a missing file. */
export const openStore = (
  file: string,
  location: string,
  lists?: ReadonlyArray<Lists.AnyList>
): Effect.Effect<SqliteStore, SinkError, Scope.Scope> =>
  Effect.map(open(file, location, "write", lists), (client) => ({
    ...readerOver(client, location),
    ...writerOver(client),
    requireInPlace: client.run((db) => db.requireInPlace()),
    snapshot: snapshotOf(file, location, lists)
  }))

/**
 * Opens an existing file for maintenance, until the scope closes, for a program that knows these lists. `patience` limits how long
 * {@link Maintenance.wipe} waits for readers.
 */
export const openMaintenance = (
  file: string,
  location: string,
  lists?: ReadonlyArray<Lists.AnyList>,
  patience?: Duration.Duration
): Effect.Effect<Maintenance, SinkError, Scope.Scope> =>
  Effect.map(
    open(file, location, "maintain", lists, patience),
    (client) => ({ ...readerOver(client, location), ...maintain(client), ...redactionOver(client) })
  )

/** Returns what {@link openStore} would do to the tables of an existing file. Writes nothing. */
export const pendingMigration = (file: string, location: string): Effect.Effect<PendingMigration, SinkError> =>
  Effect.scoped(Effect.flatMap(open(file, location, "inspect"), ({ run }) => run((db) => pendingIn(db))))

const snapshotOf = (file: string, location: string, lists: ReadonlyArray<Lists.AnyList> | undefined) =>
  Effect.map(open(file, location, "snapshot", lists), (snapshot) => readerOver(snapshot, location))

const readerOver = ({ run }: SqliteClient, location: string): Reader & Pick<SqliteClient, "run"> => ({
  location,
  run,
  source: run(sourceOf),
  owner: run((db) => ({
    keys: db.all("SELECT salt, fingerprint FROM known_keys ORDER BY number").map((row) => ({
      salt: readText(row, "salt"),
      fingerprint: readText(row, "fingerprint")
    })),
    merchants: db.all("SELECT merchant FROM known_merchants").map((row) => readText(row, "merchant"))
  })),
  personal: run((db) =>
    toPersonalState(
      versionOf(db) < personalVersion
        ? { source: sourceOf(db) }
        : db.get(
          `SELECT ${personalColumns}, (SELECT source FROM destination) AS source,
            (SELECT group_concat(hash, ' ') FROM suppressed) AS suppressed FROM personal`
        )
    )
  ),
  scans: (list, part) =>
    run((db) =>
      (part === undefined
        ? db.all(
          `SELECT s.* FROM scans AS s LEFT JOIN (
            SELECT part, max(scan) AS scan FROM scans WHERE list = ?1 AND state = 'complete' AND ${noPass} GROUP BY part
          ) AS last ON last.part = s.part
          WHERE s.list = ?1 AND s.scan >= coalesce(last.scan, 0) AND s.${noPass} ORDER BY s.scan DESC`,
          list.label
        )
        : db.all(
          `SELECT * FROM scans WHERE list = ?1 AND part = ?2 AND ${noPass} AND scan >= coalesce((
            SELECT max(scan) FROM scans WHERE list = ?1 AND part = ?2 AND state = 'complete' AND ${noPass}
          ), 0) ORDER BY scan DESC`,
          list.label,
          part
        )).map(toScan)
    ),
  scansFrom: (list, scan) =>
    run((db) => db.all(`SELECT * FROM scans WHERE scan >= ? AND list = ? AND ${noPass}`, scan, list.label).map(toScan)),
  otherScans: (list, part, scan) =>
    run((db) => {
      const row = db.get(
        `SELECT EXISTS (SELECT 1 FROM scans WHERE list = ?1 AND state = 'complete' AND ${noPass}) AS complete,
        EXISTS (SELECT 1 FROM scans WHERE scan > ?3 AND list = ?1 AND (part = '') <> (?2 = '') AND (pages > 0
          OR (tally ->> '$.counts.inserted') + (tally ->> '$.counts.updated') + (tally ->> '$.counts.returned') > 0
        )) AS overtaken`,
        list.label,
        part,
        scan
      )
      return { anyComplete: readNumber(row, "complete") === 1, overtaken: readNumber(row, "overtaken") === 1 }
    }),
  find: (list, lookups) =>
    run((db) => {
      const { table } = layoutOf(list)
      const highest = db.get(`SELECT max(row) AS row FROM ${table}`)?.["row"]
      return { stored: find(db, table, lookups), nextRow: typeof highest === "number" ? highest + 1 : 0 }
    }),
  textsOf: (list, rows) =>
    run((db) => {
      const select = db.prepare(`SELECT raw FROM ${layoutOf(list).table} WHERE row = ?`)
      return new Map(rows.flatMap((row) => {
        const found = select.get(row)
        return found === undefined ? [] : [[row, readText(found, "raw")]]
      }))
    }),
  seen: (scans) =>
    run((db) =>
      scans.flatMap((scan) => db.all("SELECT piece, bits FROM seen WHERE scan = ?", scan))
        .map(toPiece)
    ),
  quarantined: (scan) =>
    run((db) => {
      const counted = db.get(
        "SELECT count(*) AS records, count(*) - count(id) AS without_id FROM quarantine WHERE scan = ?",
        scan
      )
      return { records: readNumber(counted, "records"), withoutId: readNumber(counted, "without_id") }
    }),
  present: (list, rows) =>
    run((db) =>
      db.all(
        `SELECT row FROM ${layoutOf(list).table} WHERE row IN (SELECT value FROM json_each(?))`,
        JSON.stringify(rows)
      ).map((row) => readNumber(row, "row"))
    ),
  missing: (list) =>
    run((db) =>
      db.all(`SELECT row FROM ${layoutOf(list).table} WHERE missing_since IS NOT NULL`).map((row) =>
        readNumber(row, "row")
      )
    ),
  columns: (list) =>
    run((db) =>
      db.all("SELECT list, name, kind, unfilled_from FROM list_columns WHERE list = ?", list.label)
        .map(toRecordedColumn)
    ),
  rows: (list, after, count) =>
    run((db) => {
      const { table } = layoutOf(list)
      // SQLite gets the length of a text without reading the text.
      const fitting = db.get(
        `SELECT count(*) AS rows FROM (SELECT sum(bytes) OVER (ORDER BY row) AS bytes FROM (
          SELECT row, octet_length(raw) AS bytes FROM ${table} WHERE row > ? ORDER BY row LIMIT ?
        )) WHERE bytes <= ?`,
        after,
        count,
        maxBytes
      )
      const limit = Math.max(1, readNumber(fitting, "rows"))
      return db.allExact(`SELECT * FROM ${table} WHERE row > ? ORDER BY row LIMIT ?`, after, limit).map((row) => {
        if (typeof row["row"] === "bigint") {
          throw new Damaged({ problem: `a row number of ${list.label} is too large` })
        }
        return toFullRow(row, row)
      })
    }),
  textsAt: (list, scan, ids) =>
    run((db) => {
      // Scans of earlier versions of the tables did not store their last change, and there were no passes.
      const end = db.get("SELECT last_change FROM scans WHERE scan = ?", scan)?.["last_change"] ?? null
      const first = db.prepare(
        `SELECT before FROM changes WHERE list = ? AND id = ? AND ${end === null ? "scan" : "seq"} > ?
        AND before IS NOT NULL ORDER BY seq LIMIT 1`
      )
      return new Map(ids.flatMap((id) => {
        const change = first.get(list.label, id, end === null ? scan : Number(end))
        return change === undefined ? [] : [[id, readText(change, "before")]]
      }))
    }),
  quarantine: (after, count, lists) =>
    run((db) =>
      db.all(
        `SELECT rowid AS place, list, scan, id, path, expected, raw FROM quarantine
        WHERE rowid > ? AND list IN (SELECT value FROM json_each(?)) ORDER BY rowid LIMIT ?`,
        Number(after ?? 0),
        JSON.stringify(lists.map(({ label }) => label)),
        count
      ).map(toQuarantined)
    ),
  changes: (after, count, lists, since = "") =>
    run((db) =>
      db.all(
        // The plus sign prevents SQLite from using the index by list, because it would sort all changes for each batch.
        `SELECT seq, ${
          hasGenerations(db) ? ownGeneration : "NULL"
        } AS generation, list, scan, at, kind, id, fields, before, after
        FROM changes WHERE seq > ? AND +list IN (SELECT value FROM json_each(?)) AND at >= ? ORDER BY seq LIMIT ?`,
        after,
        JSON.stringify(lists.map(({ label }) => label)),
        since,
        count
      ).map(toChange)
    ),
  state: (list) =>
    run((db) =>
      toListState(
        db.get(stateQuery(list, "", (column) => column, versionOf(db) >= personalVersion)),
        db.holderOf(list.label)
      )
    ),
  consumerStates: run((db) =>
    db.all(
      `SELECT name, position, moved_at, ${lastChange} AS last_change, ${
        hasGenerations(db) ? `${ownGeneration} AS generation, ${currentGeneration}` : "NULL AS generation, NULL"
      } AS current_generation FROM consumers ORDER BY name`
    ).map(toConsumerState)
  ),
  changeCounts: (list, from) =>
    run((db) =>
      db.all("SELECT day, kind, changes FROM change_counts WHERE list = ? AND day >= ?", list.label, from)
        .map(toChangeCount)
    ),
  statusTotals: statusTotalsOver(run),
  changeRange: run(rangeIn),
  lineage: run(lineageIn),
  prunedRows: (list) => run((db) => prunedRowsIn(db, list)),
  damage: run((db) => integrityOf(db))
})

/** SQL for scans that are no passes. It is also the condition of an index. */
const noPass = "kind IN ('full', 'part')"

const writerOver = (
  { lock, takeOver, transaction }: SqliteClient
):
  & Pick<
    Store,
    | "lockAndTakeOver"
    | "lock"
    | "takeOver"
    | "rebind"
    | "start"
    | "fillRows"
    | "commit"
    | "commitPass"
    | "setHeadProblem"
  >
  & Pick<SqliteClient, "transaction"> =>
{
  /** The last change of the last commit. */
  let known: KnownChange | undefined
  const remember = <A>(committed: Effect.Effect<Written<A>, SinkError>) =>
    Effect.map(committed, ({ last, result }) => {
      known = last
      return result
    })
  return {
    lockAndTakeOver: (label, onLocked) => Effect.andThen(lock(label, onLocked), takeOver(label)),
    lock,
    takeOver,
    transaction,
    rebind: (list, source) => transaction(list.label, (db) => db.run("UPDATE destination SET source = ?", source)),
    start: (scan) => transaction(scan.list.label, (db) => start(db, scan)),
    fillRows: (filled) => transaction(filled.list.label, (db) => fill(db, filled)),
    commit: (commit) => remember(transaction(commit.list.label, (db) => write(db, commit, known))),
    commitPass: (commit) => remember(transaction(commit.list.label, (db) => writePass(db, commit, known))),
    setHeadProblem: (list, problem, now) =>
      transaction(list.label, (db) => {
        db.run("DELETE FROM head_passes WHERE list = ?", list.label)
        if (problem === undefined) return
        db.run("INSERT INTO head_passes (list, stopped_at, problem) VALUES (?, ?, ?)", list.label, now, problem)
      })
  }
}

/**
 * Finds the rows of ids. Lists mostly keep their order between scans, so the rows of a page are mostly adjacent. If all hashes
 * match, one query finds the whole page unchanged.
 */
const find = (db: Database, table: string, lookups: ReadonlyArray<RowLookup>): ReadonlyMap<string, StoredRow> => {
  const rowOf = db.prepare(`SELECT row FROM ${table} WHERE id = ?`)
  const [first, last] = [lookups.at(0), lookups.at(-1)].map((lookup) => rowOf.get(lookup?.id ?? null)?.["row"])
  const stored = new Map<string, StoredRow>()
  if (typeof first === "number" && typeof last === "number") {
    if (last - first === lookups.length - 1) {
      const rows = db.get(
        `SELECT group_concat(hash, '') AS hashes, count(missing_since) AS missing
        FROM (SELECT hash, missing_since FROM ${table} WHERE row BETWEEN ? AND ? ORDER BY row)`,
        first,
        last
      )
      // The text contains the id, so an equal hash implies an equal id.
      if (readNumber(rows, "missing") === 0 && readText(rows, "hashes") === lookups.map(({ hash }) => hash).join("")) {
        return new Map(lookups.map(({ hash, id }, index) => [id, { row: first + index, hash, missing: false }]))
      }
    }
    if (Math.abs(last - first) < lookups.length * 2) {
      addRows(stored, db.all(`${selectRows(table)} row BETWEEN ? AND ?`, Math.min(first, last), Math.max(first, last)))
    }
  }
  const remaining = lookups.filter(({ id }) => !stored.has(id)).map(({ id }) => id)
  if (remaining.length > 0) {
    addRows(stored, db.all(`${selectRows(table)} id IN (SELECT value FROM json_each(?))`, JSON.stringify(remaining)))
  }
  return stored
}

const selectRows = (table: string): string => `SELECT row, id, hash, missing_since FROM ${table} WHERE`

const addRows = (stored: Map<string, StoredRow>, found: ReadonlyArray<Row>): void => {
  for (const row of found) {
    stored.set(readText(row, "id"), {
      row: readNumber(row, "row"),
      hash: readText(row, "hash"),
      missing: row["missing_since"] !== null
    })
  }
}

const start = (db: Database, { firstRow, list, now, part, personal, request, totals }: NewScan): number => {
  requirePersonal(db, personal)
  db.run(
    `UPDATE scans SET state = 'abandoned', ended_at = ?
    WHERE list = ? AND part = ? AND state = 'running'`,
    now,
    list.label,
    part
  )
  const { lastInsertRowid } = db.prepare(
    `INSERT INTO scans (list, kind, part, asked, state, first_row, tally, started_at)
    VALUES (?, ?, ?, ?, 'running', ?, ?, ?)`
  ).run(list.label, part === "" ? "full" : "part", part, request, firstRow, totals, now)
  return Number(lastInsertRowid)
}
