/** A {@link Store} in one SQLite file. */
import { Effect, type Scope } from "effect"
import { layoutOf } from "./Columns.ts"
import type { StoredRow } from "./Plan.ts"
import { bytes, number, type Row, text, toChange, toFullRow, toScan } from "./Rows.ts"
import type { SinkError } from "./Sink.ts"
import { type Database, open, type SqliteClient } from "./SqliteClient.ts"
import { sourceOf, write } from "./SqliteCommit.ts"
import type { NewScan, Reader, Store } from "./Store.ts"

/** A store whose rows others are made from. */
export interface SqliteStore extends Store, Pick<SqliteClient, "run"> {
  /** The store as it is now, to be read until the scope closes while others go on writing it. */
  readonly snapshot: Effect.Effect<Reader & Pick<SqliteClient, "run">, SinkError, Scope.Scope>
}

/** Opens the file for reading alone, until the scope closes. It must be there. */
export const openReader = (file: string, location: string): Effect.Effect<Reader, SinkError, Scope.Scope> =>
  Effect.map(open(file, location, "read"), (client) => readerOver(client, location))

/** Opens the file, which is made if it is not there, until the scope closes. */
export const openStore = (file: string, location: string): Effect.Effect<SqliteStore, SinkError, Scope.Scope> =>
  Effect.map(open(file, location, "write"), (client) => ({
    ...readerOver(client, location),
    ...writerOver(client),
    snapshot: Effect.map(open(file, location, "snapshot"), (snapshot) => readerOver(snapshot, location))
  }))

const readerOver = ({ run }: SqliteClient, location: string): Reader & Pick<SqliteClient, "run"> => ({
  location,
  run,
  source: run(sourceOf),
  scans: (list) =>
    run((db) =>
      db.all(
        `SELECT * FROM scans AS s WHERE list = ? AND scan >= coalesce((SELECT max(scan) FROM scans
        WHERE list = s.list AND part = s.part AND state = 'complete'), 0) ORDER BY scan DESC`,
        list.label
      ).map(toScan)
    ),
  find: (list, ids) => run((db) => find(db, layoutOf(list).table, ids)),
  textsOf: (list, rows) =>
    run((db) => {
      const one = db.prepare(`SELECT raw FROM ${layoutOf(list).table} WHERE row = ?`)
      return new Map(rows.map((row) => [row, text(one.get(row), "raw")]))
    }),
  seen: (scans) =>
    run((db) =>
      scans.flatMap((scan) => db.all("SELECT piece, bits FROM seen WHERE scan = ?", scan))
        .map((row) => ({ index: number(row, "piece"), bits: bytes(row, "bits") }))
    ),
  missing: (list) =>
    run((db) => {
      const { table } = layoutOf(list)
      const rows = db.all(`SELECT row FROM ${table} WHERE missing_since IS NOT NULL`).map((row) => number(row, "row"))
      return { rows, present: number(db.get(`SELECT count(*) AS n FROM ${table}`), "n") - rows.length }
    }),
  rows: (list, after, count) =>
    run((db) =>
      db.all(`SELECT * FROM ${layoutOf(list).table} WHERE row > ? ORDER BY row LIMIT ?`, after, count)
        .map((row) => toFullRow(row, row))
    ),
  textsAt: (list, scan, ids) =>
    run((db) => {
      const first = db.prepare(
        `SELECT before FROM changes WHERE list = ? AND id = ? AND scan > ? AND before IS NOT NULL ORDER BY seq LIMIT 1`
      )
      return new Map(ids.flatMap((id) => {
        const change = first.get(list.label, id, scan)
        return change === undefined ? [] : [[id, text(change, "before")]]
      }))
    }),
  changes: (after, count, lists) =>
    run((db) =>
      db.all(
        `SELECT * FROM changes WHERE seq > ? AND list IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?`,
        after,
        JSON.stringify(lists.map(({ label }) => label)),
        count
      ).map(toChange)
    )
})

const writerOver = ({ hold, run }: SqliteClient): Pick<Store, "hold" | "rebind" | "start" | "commit"> => ({
  hold,
  rebind: (source) => run((db) => db.run("UPDATE destination SET source = ?", source)),
  start: (scan) => run((db) => db.transaction(() => start(db, scan))),
  commit: (commit) => run((db) => db.transaction(() => write(db, commit)))
})

const find = (db: Database, table: string, ids: ReadonlyArray<string>) => {
  const columns = "row, id, hash, missing_since"
  const stored = new Map<string, StoredRow>()
  const keep = (found: Row | undefined): number | undefined => {
    if (found === undefined) return undefined
    const row = number(found, "row")
    stored.set(text(found, "id"), { row, hash: text(found, "hash"), missing: found["missing_since"] !== null })
    return row
  }
  const one = db.prepare(`SELECT ${columns} FROM ${table} WHERE id = ?`)
  // Lists keep their order from scan to scan, more or less: then the rows of a page stand side by side.
  const [first, last] = [ids.at(0), ids.at(-1)].map((id) => id === undefined ? undefined : keep(one.get(id)))
  if (first !== undefined && last !== undefined && Math.abs(last - first) < ids.length * 2) {
    db.all(
      `SELECT ${columns} FROM ${table} WHERE row BETWEEN ? AND ?`,
      Math.min(first, last),
      Math.max(first, last)
    ).forEach(keep)
  }
  for (const id of ids) if (!stored.has(id)) keep(one.get(id))
  const highest = db.get(`SELECT max(row) AS row FROM ${table}`)?.["row"]
  return { stored, nextRow: typeof highest === "number" ? highest + 1 : 0 }
}

const start = (db: Database, { asked, firstRow, list, now, part, tally }: NewScan): number => {
  db.run(
    `UPDATE scans SET state = 'abandoned', ended_at = ?
    WHERE list = ? AND part = ? AND state = 'running'`,
    now,
    list.label,
    part
  )
  const { lastInsertRowid } = db.prepare(
    `INSERT INTO scans (list, part, asked, state, first_row, tally, started_at) VALUES (?, ?, ?, 'running', ?, ?, ?)`
  ).run(list.label, part, asked, firstRow, tally, now)
  return Number(lastInsertRowid)
}
