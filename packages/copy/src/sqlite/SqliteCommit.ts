/** The statements of a commit into SQLite. */
import type { Lists } from "@payments/core"
import { layoutOf } from "../plan/Columns.ts"
import type { KnownChange } from "../port/Generations.ts"
import { OtherMerchant, OtherSource, type OwnerClaim, type PersonalBinding, RowsRemoved } from "../port/Sink.ts"
import { changeSince, personalColumns, toColumns, toPersonalState } from "../store/PersonalBinding.ts"
import { readNumber, readOptional, type Row } from "../store/Rows.ts"
import {
  type Certified,
  type ChangeRow,
  type Commit,
  type Committed,
  type Fill,
  maxKeys,
  type PassCommit
} from "../store/Store.ts"
import type { Database } from "./SqliteClient.ts"
import { currentGeneration, generationFor, lastChange } from "./SqliteGenerations.ts"

/** Returns the source of the data, or undefined before the first commit. */
export const sourceOf = (db: Database): string | undefined =>
  readOptional(db.get("SELECT source FROM destination"), "source")

/** The result of a commit, and the number of the last change after it. */
export interface Written<A> {
  readonly result: A
  readonly last: KnownChange
}

/** Writes a commit. Statements with nothing to write are skipped. `known` is the last change that this program has written. */
export const write = (db: Database, commit: Commit, known: KnownChange | undefined): Written<Committed> => {
  const before = generationFor(db, bind(db, commit.source, commit.personal), known, commit.now)
  const { changes, result } = writeScan(db, commit, before.generation)
  return { result, last: { ...before, seq: before.seq + changes } }
}

/** The result of a commit, and the number of changes that it has written. */
interface Counted<A> {
  readonly result: A
  readonly changes: number
}

const writeScan = (
  db: Database,
  { checkpoint, end, list, now, owner, plan, restart = false, scan, seen, totals }: Commit,
  generation: string
): Counted<Committed> => {
  const { table } = layoutOf(list)
  if (!hasReappeared(db, table, plan)) return { result: "outdated", changes: 0 }
  if (owner !== undefined) bindOwner(db, owner)
  if (restart) {
    db.run("DELETE FROM quarantine WHERE scan = ?", scan)
    db.run("DELETE FROM seen WHERE scan = ?", scan)
  }
  writePlan(db, list, plan, scan, now, generation)
  for (const { bits, index } of seen) {
    db.run("INSERT OR REPLACE INTO seen (scan, piece, bits) VALUES (?, ?, ?)", scan, index, bits)
  }
  const pages = "json_extract(?1, '$.counts.pages')"
  const records = "json_extract(?1, '$.counts.records')"
  const updated = db.prepare(
    `UPDATE scans SET tally = ?1, pages = ${pages}, records = ${records}, checkpoint = ?2 WHERE scan = ?3`
  ).run(totals, checkpoint ?? null, scan)
  if (updated.changes === 0) throw new RowsRemoved({ label: list.label })
  if (plan.writes.length + plan.reappeared.length + (end?.missing.length ?? 0) > 0) incrementRevision(db, list)
  const changes = plan.changes.length
  if (end === undefined) return { result: "whole", changes }
  if (end.certified !== undefined && !isPresent(db, table, scan, end.certified)) {
    db.run("UPDATE scans SET state = 'incomplete', ended_at = ? WHERE scan = ?", now, scan)
    return { result: "rowsRemoved", changes }
  }
  const insertMissing = db.prepare(
    `INSERT INTO changes (list, scan, at, kind, id, fields, generation) SELECT ?, ?, ?, 'missing', id, '[]', ?
    FROM ${table} WHERE row = ?`
  )
  let missing = 0
  for (const row of end.missing) {
    db.run(`UPDATE ${table} SET missing_since = ? WHERE row = ?`, now, row)
    missing += Number(insertMissing.run(list.label, scan, now, generation, row).changes)
  }
  if (missing > 0) countChanges(db, list, now, "missing", missing)
  db.run(
    `UPDATE scans SET state = ?1, certificate = ?2, ended_at = ?3,
    last_change = CASE ?1 WHEN 'complete' THEN ${lastChange} END WHERE scan = ?4`,
    end.state,
    end.certificate ?? null,
    now,
    scan
  )
  for (const obsolete of end.forget) {
    db.run("DELETE FROM seen WHERE scan = ?", obsolete)
    db.run("DELETE FROM quarantine WHERE scan = ?", obsolete)
  }
  if (end.previous !== undefined) {
    db.run(
      `DELETE FROM quarantine WHERE scan IN (
        SELECT scan FROM scans WHERE list = ? AND kind IN ('head', 'window') AND scan > ? AND scan < ?
      )`,
      list.label,
      end.previous,
      scan
    )
  }
  return { result: "whole", changes: changes + missing }
}

/**
 * Writes a commit of a pass. Returns its number. Writes nothing if the totals to correct have changed, or if a row that
 * reappeared was removed. `known` is as for {@link write}.
 */
export const writePass = (
  db: Database,
  commit: PassCommit,
  known: KnownChange | undefined
): Written<number | "outdated"> => {
  const before = generationFor(db, bind(db, commit.source, commit.personal), known, commit.now)
  const result = writePassIn(db, commit, before.generation)
  const changes = result === "outdated" ? 0 : commit.plan.changes.length
  return { result, last: { ...before, seq: before.seq + changes } }
}

const writePassIn = (
  db: Database,
  { correction, list, now, owner, pass, plan }: PassCommit,
  generation: string
): number | "outdated" => {
  if (!hasReappeared(db, layoutOf(list).table, plan)) return "outdated"
  if (correction !== undefined) {
    const { changes } = db.prepare("UPDATE scans SET tally = ? WHERE scan = ? AND tally = ?")
      .run(correction.totals, correction.scan, correction.before)
    if (changes === 0) return "outdated"
  }
  if (owner !== undefined) bindOwner(db, owner)
  const { firstRow, kind, request, startedAt, totals } = pass
  const scan = pass.scan ?? Number(
    db.prepare(
      `INSERT INTO scans (list, kind, part, asked, state, first_row, tally, started_at)
      VALUES (?, ?, '', ?, 'complete', ?, ?, ?)`
    ).run(list.label, kind, request, firstRow, totals, startedAt).lastInsertRowid
  )
  writePlan(db, list, plan, scan, now, generation)
  if (plan.writes.length + plan.reappeared.length > 0) incrementRevision(db, list)
  db.run(
    `UPDATE scans SET tally = ?1, pages = json_extract(?1, '$.counts.pages'),
    records = json_extract(?1, '$.counts.records'), ended_at = ?2, last_change = ${lastChange} WHERE scan = ?3`,
    totals,
    now,
    scan
  )
  return scan
}

/** Whether the rows that reappeared exist. `prune` may have removed them, because they were missing. It removes no other rows. */
const hasReappeared = (db: Database, table: string, { reappeared }: Commit["plan"]): boolean => {
  const exists = db.prepare(`SELECT 1 FROM ${table} WHERE row = ?`)
  return reappeared.every((row) => exists.get(row) !== undefined)
}

/**
 * The first rows bind the destination to its source and its rule, not the first attempt, because an address may be mistyped.
 * Throws if the destination has another source, or if its personal data has changed. Returns the row of {@link requirePersonal}.
 */
const bind = (db: Database, source: string, personal: PersonalBinding): Row | undefined => {
  const stored = requirePersonal(db, personal)
  const bound = readOptional(stored, "source")
  if (bound === undefined) {
    db.run("INSERT INTO destination (only, source) VALUES (1, ?)", source)
    const columns = toColumns(personal.rule)
    if (columns !== undefined) db.run("UPDATE personal SET rule = ?, key_check = coalesce(key_check, ?)", ...columns)
  } else if (bound !== source) throw new OtherSource({ bound, given: source })
  else if (toPersonalState(stored).rule === personal.before) {
    db.run("UPDATE personal SET rule = ?", toColumns(personal.rule)?.[0] ?? null)
  }
  return stored
}

/**
 * Returns the row of `personal` with the source, the current generation and the number of the last change. Throws if personal
 * data has changed since a scan or pass read its state.
 */
export const requirePersonal = (db: Database, personal: PersonalBinding): Row | undefined => {
  const stored = db.get(
    `SELECT ${personalColumns}, (SELECT source FROM destination) AS source, ${currentGeneration} AS generation,
      ${lastChange} AS last FROM personal`
  )
  const changed = changeSince(toPersonalState(stored), personal)
  if (changed !== undefined) throw changed
  return stored
}

/** Writes the rows, changes and quarantined records of a batch. */
const writePlan = (
  db: Database,
  list: Lists.AnyList,
  { changes, quarantined, reappeared, writes }: Commit["plan"],
  scan: number,
  now: string,
  generation: string
): void => {
  const { columns, table } = layoutOf(list)
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
  for (const { cells, hash, isNew, raw, row } of writes) {
    if (isNew) insert.run(...cells, raw, hash, now, now, row)
    else update.run(...cells, raw, hash, now, row)
  }
  for (const row of reappeared) db.run(`UPDATE ${table} SET missing_since = NULL WHERE row = ?`, row)
  const insertChange = db.prepare(
    `INSERT INTO changes (list, scan, at, kind, id, fields, before, after, generation)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
  )
  for (const { after, before = null, fields, id, kind } of changes) {
    insertChange.run(list.label, scan, now, kind, id, JSON.stringify(fields), before, after, generation)
  }
  for (const [kind, { length }] of Map.groupBy(changes, (change) => change.kind)) {
    countChanges(db, list, now, kind, length)
  }
  for (const { expected, id = null, path, raw } of quarantined) {
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
}

/** Adds changes to the counts of the list and the UTC day. */
export const countChanges = (
  db: Database,
  list: Lists.AnyList,
  now: string,
  kind: ChangeRow["kind"],
  count: number
): void =>
  db.run(
    `INSERT INTO change_counts (list, day, kind, changes) VALUES (?, ?, ?, ?)
    ON CONFLICT (list, day, kind) DO UPDATE SET changes = changes + excluded.changes`,
    list.label,
    now.slice(0, "2024-05-01".length),
    kind,
    count
  )

/** Notes that rows of the list have changed, so that its rendered file is outdated. */
export const incrementRevision = (db: Database, list: Lists.AnyList): void =>
  db.run(
    "INSERT INTO revisions (list, revision) VALUES (?, 1) ON CONFLICT (list) DO UPDATE SET revision = revision + 1",
    list.label
  )

/** Fills columns of rows, and records how far they are filled. */
export const fill = (db: Database, { columns, list, personal, rows, unfilledFrom }: Fill): void => {
  requirePersonal(db, personal)
  const update = db.prepare(
    `UPDATE ${layoutOf(list).table} SET ${columns.map(({ name }) => `${name} = ?`).join(", ")} WHERE row = ?`
  )
  for (const { cells, row } of rows) update.run(...cells, row)
  for (const { name } of columns) {
    db.run(
      "UPDATE list_columns SET unfilled_from = ? WHERE list = ? AND name = ?",
      unfilledFrom ?? null,
      list.label,
      name
    )
  }
}

/** How many row numbers one statement of {@link isPresent} looks up. */
const rowsPerLookup = 10_000

/** Whether the tables have the certified rows and quarantined records. */
const isPresent = (db: Database, table: string, scan: number, { withoutId, quarantined, rows }: Certified): boolean => {
  const counted = db.get(
    `SELECT (SELECT count(*) FROM ${table}) AS count, (SELECT max(row) FROM ${table}) AS highest,
    (SELECT count(*) FROM quarantine WHERE scan = ?1) AS quarantined,
    (SELECT count(*) FROM quarantine WHERE scan = ?1 AND id IS NULL) AS without_id`,
    scan
  )
  if (readNumber(counted, "quarantined") !== quarantined || readNumber(counted, "without_id") !== withoutId) {
    return false
  }
  const highest = readOptional(counted, "highest") === undefined ? -1 : readNumber(counted, "highest")
  if (rows.highest > highest) return false
  const count = readNumber(counted, "count")
  // If the row numbers have no gap, all rows exist.
  if (count === highest + 1) return true
  // Other writers wait for this transaction, so look up either the certified row numbers or the others, whichever are fewer.
  const areCertified = rows.size <= highest / 2
  const exist = db.prepare(
    `SELECT count(*) AS count FROM json_each(?) AS given CROSS JOIN ${table} ON row = given.value`
  )
  let found = 0
  let numbers: Array<number> = []
  for (let row = 0; row <= highest; row++) {
    if (rows.has(row) === areCertified) numbers.push(row)
    if (numbers.length < rowsPerLookup && row < highest) continue
    found += readNumber(exist.get(JSON.stringify(numbers)), "count")
    numbers = []
  }
  return (areCertified ? found : count - found) === rows.size
}

const bindOwner = (db: Database, { isFirst, key, merchants }: OwnerClaim): void => {
  if (isFirst && key !== undefined && db.get("SELECT 1 FROM known_keys WHERE salt <> ?", key.salt) !== undefined) {
    throw new OtherMerchant({ by: "race" })
  }
  for (const merchant of merchants) db.run("INSERT OR IGNORE INTO known_merchants (merchant) VALUES (?)", merchant)
  if (key === undefined) return
  db.run("INSERT OR IGNORE INTO known_keys (salt, fingerprint) VALUES (?, ?)", key.salt, key.fingerprint)
  db.run("DELETE FROM known_keys WHERE number <= (SELECT max(number) FROM known_keys) - ?", maxKeys)
}
