/** One commit into SQLite. */
import { layoutOf } from "../engine/Columns.ts"
import { optional } from "../engine/Rows.ts"
import type { Commit } from "../engine/Store.ts"
import { OtherSource } from "../Sink.ts"
import type { Database } from "./SqliteClient.ts"

/** Whose data it is; nobody's before the first commit. */
export const sourceOf = (db: Database): string | undefined =>
  optional(db.get("SELECT source FROM destination"), "source")

/** The statements of one commit. Those that have nothing to write are left out. */
export const write = (
  db: Database,
  { again = false, checkpoint, end, list, now, plan, scan, seen, source, tally }: Commit
): void => {
  const { columns, table } = layoutOf(list)
  // Bound by the first rows, not by the first attempt: an address may have been mistyped.
  const bound = sourceOf(db)
  if (bound === undefined) db.run("INSERT INTO destination (only, source) VALUES (1, ?)", source)
  else if (bound !== source) throw new OtherSource({ bound, given: source })
  if (again) {
    db.run("DELETE FROM quarantine WHERE scan = ?", scan)
    db.run("DELETE FROM seen WHERE scan = ?", scan)
  }
  const names = columns.map(({ name }) => name)
  const insert = db.prepare(
    `INSERT INTO ${table} (${names.join(", ")}, raw, hash, changed_at, first_seen_at, row) VALUES (${
      Array.from({ length: names.length + 5 }, () => "?").join(", ")
    })`
  )
  const update = db.prepare(
    `UPDATE ${table} SET ${names.map((name) => `${name} = ?`).join(", ")}, raw = ?, hash = ?, changed_at = ?,
    missing_since = NULL WHERE row = ?`
  )
  for (const { cells, hash, isNew, raw, row } of plan.writes) {
    if (isNew) insert.run(...cells, raw, hash, now, now, row)
    else update.run(...cells, raw, hash, now, row)
  }
  for (const row of plan.found) db.run(`UPDATE ${table} SET missing_since = NULL WHERE row = ?`, row)
  const tell = db.prepare(
    "INSERT INTO changes (list, scan, at, kind, id, fields, before, after) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
  )
  for (const { after, before = null, fields, id, kind } of plan.changes) {
    tell.run(list.label, scan, now, kind, id, JSON.stringify(fields), before, after)
  }
  for (const { expected, id = null, path, raw } of plan.quarantined) {
    db.run(
      "INSERT INTO quarantine (scan, list, id, path, expected, raw) VALUES (?, ?, ?, ?, ?, ?)",
      scan,
      list.label,
      id,
      path,
      expected,
      raw
    )
  }
  for (const { bits, index } of seen) {
    db.run("INSERT OR REPLACE INTO seen (scan, piece, bits) VALUES (?, ?, ?)", scan, index, bits)
  }
  const pages = "json_extract(?1, '$.counts.pages')"
  const records = "json_extract(?1, '$.counts.records')"
  db.run(
    `UPDATE scans SET tally = ?1, pages = ${pages}, records = ${records}, checkpoint = ?2 WHERE scan = ?3`,
    tally,
    checkpoint ?? null,
    scan
  )
  if (plan.writes.length + plan.found.length + (end?.missing.length ?? 0) > 0) {
    db.run(
      "INSERT INTO revisions (list, revision) VALUES (?, 1) ON CONFLICT (list) DO UPDATE SET revision = revision + 1",
      list.label
    )
  }
  if (end === undefined) return
  db.run(
    "UPDATE scans SET state = ?, certificate = ?, ended_at = ? WHERE scan = ?",
    end.state,
    end.certificate ?? null,
    now,
    scan
  )
  for (const row of end.missing) {
    db.run(`UPDATE ${table} SET missing_since = ? WHERE row = ?`, now, row)
    db.run(
      `INSERT INTO changes (list, scan, at, kind, id, fields) SELECT ?, ?, ?, 'missing', id, '[]' FROM ${table}
      WHERE row = ?`,
      list.label,
      scan,
      now,
      row
    )
  }
  for (const one of end.forget) {
    db.run("DELETE FROM seen WHERE scan = ?", one)
    db.run("DELETE FROM quarantine WHERE scan = ?", one)
  }
}
