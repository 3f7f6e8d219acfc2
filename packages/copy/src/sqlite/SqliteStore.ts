/** A {@link Store} in one SQLite file. */
import type { Lists } from "@payments/core"
import { type Duration, Effect, type Scope } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import type { RowLookup, StoredRow } from "../plan/Plan.ts"
import type { SinkError } from "../port/Sink.ts"
import { boundColumns, toBound } from "../sql/SqlBinding.ts"
import { numberingColumns, toNumbering } from "../sql/SqlGenerations.ts"
import { maintain } from "../sql/SqlMaintenance.ts"
import { readerOver } from "../sql/SqlReader.ts"
import { redactionOver } from "../sql/SqlRedaction.ts"
import { raw, sql } from "../sql/SqlStatement.ts"
import { type Locks, type Memory, writerOver } from "../sql/SqlWriter.ts"
import type { PendingMigration } from "../store/Evolution.ts"
import type { Maintenance, Reader, Store } from "../store/Store.ts"
import { readNumber, readText, type Row } from "../store/StoredRows.ts"
import { type Database, openDatabase, type SqliteClient } from "./SqliteClient.ts"
import { integrityOf } from "./SqliteDamage.ts"
import { pendingIn } from "./SqliteSchema.ts"
import { databaseOver, settle, sqlIn, sqlOver } from "./SqliteSql.ts"
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
  Effect.map(openDatabase(file, location, "read", { lists }), (client) => ({
    ...readerOf(client, location),
    lock: client.lock,
    snapshot: snapshotOf(file, location, lists)
  }))

/** Opens the file for writing, until the scope closes, for a program that knows these lists. Creates a missing file. */
export const openStore = (
  file: string,
  location: string,
  lists?: ReadonlyArray<Lists.AnyList>
): Effect.Effect<SqliteStore, SinkError, Scope.Scope> =>
  Effect.map(openDatabase(file, location, "write", { lists }), (client) => ({
    ...readerOf(client, location),
    ...writerOver(locksOf(client, location)),
    transaction: client.transaction,
    requireInPlace: client.run((db) => db.requireInPlace()),
    snapshot: snapshotOf(file, location, lists)
  }))

/**
 * Opens an existing file for maintenance, until the scope closes, for a program that knows these lists. `patience`
 * limits how long {@link Maintenance.wipe} waits for readers.
 */
export const openMaintenance = (
  file: string,
  location: string,
  lists?: ReadonlyArray<Lists.AnyList>,
  patience?: Duration.Duration
): Effect.Effect<Maintenance, SinkError, Scope.Scope> =>
  Effect.map(
    openDatabase(file, location, "maintain", { lists, patience }),
    (client) => {
      const db = databaseOver(client, location)
      return {
        ...readerOf(client, location),
        ...maintain(db),
        ...redactionOver(db),
        emptyLog: Effect.asVoid(client.run((opened) => opened.tryEmptyLog())),
        wipe: client.wipe
      }
    }
  )

/** Returns what {@link openStore} would do to the tables of an existing file. Writes nothing. */
export const pendingMigration = (file: string, location: string): Effect.Effect<PendingMigration, SinkError> =>
  Effect.scoped(Effect.flatMap(openDatabase(file, location, "inspect"), ({ run }) => run((db) => pendingIn(db))))

const snapshotOf = (file: string, location: string, lists: ReadonlyArray<Lists.AnyList> | undefined) =>
  Effect.map(openDatabase(file, location, "snapshot", { lists }), (snapshot) => readerOf(snapshot, location))

const readerOf = (client: SqliteClient, location: string): Reader & Pick<SqliteClient, "run"> => {
  const { run } = client
  const db = sqlOver(client, location)
  return {
    ...readerOver(db, {
      find: (list, lookups) =>
        run((opened) => {
          const { table } = layoutOf(list)
          const highest = opened.get(`SELECT max(row) AS row FROM ${table}`)?.["row"]
          return { stored: find(opened, table, lookups), nextRow: typeof highest === "number" ? highest + 1 : 0 }
        }),
      statusTotals: statusTotalsOver(db),
      damage: run((opened) => integrityOf(opened)),
      holderOf: (label) => run((opened) => opened.holderOf(label))
    }),
    run
  }
}

const locksOf = ({ lock, takeOver, transaction }: SqliteClient, location: string): Locks => {
  const memory: Memory = { known: undefined }
  return {
    lock,
    takeOver,
    memory,
    transaction: (list, body) =>
      transaction(list.label, (opened) => {
        const db = sqlIn(opened, location)
        return settle(
          Effect.flatMap(
            db.read(
              sql`SELECT ${boundColumns}, ${numberingColumns(raw("NULL"))}`,
              ([row]) => ({ bound: toBound(row), numbering: toNumbering(row, memory.known) })
            ),
            ({ bound, numbering }) => body(db, bound, numbering)
          )
        )
      })
  }
}

/**
 * Finds the rows of ids. Lists mostly keep their order between scans, so the rows of a page are mostly adjacent. If all
 * hashes match, one query finds the whole page unchanged.
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
