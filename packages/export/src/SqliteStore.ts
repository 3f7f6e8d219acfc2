/**
 * A {@link Store} in one SQLite file. Synchronous inside, so that a commit is one unbroken transaction. Every commit is on
 * disk when it returns (WAL, `synchronous=FULL`); the file and its companions are readable by their owner alone.
 */
import type { Lists } from "@payments/core"
import { Duration, Effect, Schedule, type Scope } from "effect"
import { closeSync, existsSync, openSync } from "node:fs"
import { hostname } from "node:os"
import { resolve } from "node:path"
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from "node:sqlite"
import { layoutOf } from "./Columns.ts"
import type { StoredRow } from "./Plan.ts"
import type { Piece } from "./RowSet.ts"
import { Failed, Full, Locked, NotADestination, OtherSource, SinkError, type SinkReason } from "./Sink.ts"
import { migrate, requireCurrent } from "./SqliteSchema.ts"
import type { ChangeRow, Commit, FullRow, NewScan, Reader, ScanRow, Store } from "./Store.ts"

const ownerOnly = 0o600
/** How long SQLite itself waits for another writer. It waits with everything else standing still: the rest is waited here. */
const patienceMs = 50
/** How long another writer of the same database is waited for. Lists are written side by side, a batch at a time. */
const busyFor = Duration.seconds(30)

/** A store whose rows others are made from. */
export interface SqliteStore extends Store {
  /** The store as it is now, to be read until the scope closes while others go on writing it. */
  readonly snapshot: Effect.Effect<Reader & Pick<SqliteStore, "query">, SinkError, Scope.Scope>
  /** Asks the database something. */
  readonly query: <A>(step: (db: DatabaseSync) => A) => Effect.Effect<A, SinkError>
  /** Writes in one transaction, durable when it returns. */
  readonly transaction: <A>(step: (db: DatabaseSync) => A) => Effect.Effect<A, SinkError>
}

/** Opens the file for reading alone, until the scope closes. It must be there. */
export const openReader = (file: string, location: string): Effect.Effect<Reader, SinkError, Scope.Scope> =>
  Effect.map(open(file, location, "read"), (database) => portOf(database, location))

/** Opens the file, which is made if it is not there, until the scope closes. */
export const openStore = (file: string, location: string): Effect.Effect<SqliteStore, SinkError, Scope.Scope> =>
  Effect.map(open(file, location, "write"), (database) => ({
    ...portOf(database, location),
    snapshot: Effect.map(open(file, location, "snapshot"), (snapshot) => portOf(snapshot, location))
  }))

const open = (file: string, location: string, access: "read" | "snapshot" | "write") =>
  Effect.acquireRelease(
    // A whole path is never taken for one of SQLite's own names, such as :memory:.
    once(location, () => new Database(resolve(file), access)),
    (database) => Effect.sync(() => database.close())
  ).pipe(whileBusy(busyFor))

const portOf = (database: Database, location: string): Omit<SqliteStore, "snapshot"> => {
  const run = <A>(step: () => A) => whileBusy(busyFor)(once(location, step))
  return {
    location,
    hold: (label, onLocked) =>
      Effect.acquireRelease(once(location, () => database.lock(label)), (lock) => Effect.sync(() => lock.close()))
        .pipe(
          // Whoever only mends a lost file holds it for a moment; whoever exports, for long: that is said within a second.
          whileBusy(onLocked === "wait" ? Duration.infinity : Duration.millis(700)),
          Effect.andThen(run(() => database.noteHolder(label)))
        ),
    source: run(() => database.source()),
    rebind: (source) => run(() => database.rebind(source)),
    scans: (list) => run(() => database.scans(list)),
    start: (scan) => run(() => database.start(scan)),
    find: (list, ids) => run(() => database.find(list, ids)),
    textsOf: (list, rows) => run(() => database.textsOf(list, rows)),
    seen: (scans) => run(() => database.seen(scans)),
    missing: (list) => run(() => database.missing(list)),
    commit: (commit) => run(() => database.commit(commit)),
    rows: (list, after, count) => run(() => database.rows(list, after, count)),
    textsAt: (list, scan, ids) => run(() => database.textsAt(list, scan, ids)),
    changes: (after, count, lists) => run(() => database.changes(after, count, lists)),
    query: (step) => run(() => database.query(step)),
    transaction: (step) => run(() => database.transaction(step))
  }
}

class Database {
  readonly #db: DatabaseSync
  readonly #file: string
  readonly #statements = new Map<string, StatementSync>()

  constructor(file: string, access: "read" | "snapshot" | "write") {
    this.#file = file
    if (access === "write") createOwned(file)
    else if (!existsSync(file)) throw new NotADestination({ problem: "there is nothing there. Export into it first." })
    this.#db = new DatabaseSync(file, { timeout: patienceMs, readOnly: access !== "write" })
    try {
      // Nothing is written into a file before it is known to be ours or empty.
      if (access === "write") {
        migrate(this.#db)
        this.#db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
      } else requireCurrent(this.#db)
      // A read transaction begins with its first read. With a write-ahead log it holds up no writer.
      if (access === "snapshot") this.#db.exec("BEGIN; SELECT 1 FROM sqlite_schema")
    } catch (error) {
      this.#db.close()
      throw error
    }
  }

  close(): void {
    this.#db.close()
  }

  /** Takes the list, for one user of it, until the returned lock is closed; it also ends with the process. */
  lock(label: string): { readonly close: () => void } {
    const file = `${this.#file}.${label}.lock`
    createOwned(file)
    const lock = new DatabaseSync(file, { timeout: 0 })
    try {
      lock.exec("BEGIN EXCLUSIVE")
      return lock
    } catch (error) {
      lock.close()
      if (errcodeOf(error) !== sqliteCode.busy) throw error
      const row = this.#get("SELECT holder FROM holders WHERE label = ?", label)
      throw new Locked({ label, holder: row === undefined ? undefined : text(row, "holder") })
    }
  }

  /** Says who holds it, for whoever is refused. */
  noteHolder(label: string): void {
    const holder = `process ${process.pid} on ${hostname()} since ${new Date().toISOString()}`
    this.#run("INSERT OR REPLACE INTO holders (label, holder) VALUES (?, ?)", label, holder)
  }

  source(): string | undefined {
    const row = this.#get("SELECT source FROM destination")
    return row === undefined ? undefined : text(row, "source")
  }

  rebind(source: string): void {
    this.#run("UPDATE destination SET source = ?", source)
  }

  scans(list: Lists.AnyList): ReadonlyArray<ScanRow> {
    return this.#all(
      `SELECT * FROM scans AS s WHERE list = ? AND scan >= coalesce((SELECT max(scan) FROM scans
      WHERE list = s.list AND part = s.part AND state = 'complete'), 0) ORDER BY scan DESC`,
      list.label
    ).map(toScan)
  }

  start({ asked, firstRow, list, now, part, tally }: NewScan): number {
    return this.#transaction(() => {
      this.#run(
        `UPDATE scans SET state = 'abandoned', ended_at = ?
        WHERE list = ? AND part = ? AND state = 'running'`,
        now,
        list.label,
        part
      )
      const { lastInsertRowid } = this.#statement(
        `INSERT INTO scans (list, part, asked, state, first_row, tally, started_at) VALUES (?, ?, ?, 'running', ?, ?, ?)`
      ).run(list.label, part, asked, firstRow, tally, now)
      return Number(lastInsertRowid)
    })
  }

  find(list: Lists.AnyList, ids: ReadonlyArray<string>) {
    const { table } = layoutOf(list)
    const columns = "row, id, hash, missing_since"
    const stored = new Map<string, StoredRow>()
    const keep = (found: Row): number | undefined => {
      if (found === undefined) return undefined
      const row = number(found, "row")
      stored.set(text(found, "id"), { row, hash: text(found, "hash"), missing: found["missing_since"] !== null })
      return row
    }
    const one = this.#statement(`SELECT ${columns} FROM ${table} WHERE id = ?`)
    // Lists keep their order from scan to scan, more or less: then the rows of a page stand side by side.
    const ends = [ids.at(0), ids.at(-1)].map((id) => id === undefined ? undefined : keep(one.get(id)))
    const [first, last] = ends
    if (first !== undefined && last !== undefined && Math.abs(last - first) < ids.length * 2) {
      this.#all(
        `SELECT ${columns} FROM ${table} WHERE row BETWEEN ? AND ?`,
        Math.min(first, last),
        Math.max(first, last)
      ).forEach(keep)
    }
    for (const id of ids) if (!stored.has(id)) keep(one.get(id))
    const highest = this.#get(`SELECT max(row) AS row FROM ${table}`)?.["row"]
    return { stored, nextRow: typeof highest === "number" ? highest + 1 : 0 }
  }

  textsOf(list: Lists.AnyList, rows: ReadonlyArray<number>): ReadonlyMap<number, string> {
    const one = this.#statement(`SELECT raw FROM ${layoutOf(list).table} WHERE row = ?`)
    return new Map(rows.map((row) => [row, text(one.get(row), "raw")]))
  }

  seen(scans: ReadonlyArray<number>): ReadonlyArray<Piece> {
    return scans.flatMap((scan) =>
      this.#all("SELECT piece, bits FROM seen WHERE scan = ?", scan)
        .map((row) => ({ index: number(row, "piece"), bits: bytes(row, "bits") }))
    )
  }

  missing(list: Lists.AnyList) {
    const { table } = layoutOf(list)
    const rows = this.#all(`SELECT row FROM ${table} WHERE missing_since IS NOT NULL`).map((row) => number(row, "row"))
    return { rows, present: number(this.#get(`SELECT count(*) AS n FROM ${table}`), "n") - rows.length }
  }

  commit({ again = false, checkpoint, end, list, now, plan, scan, seen, source, tally }: Commit): void {
    const { columns, table } = layoutOf(list)
    this.#transaction(() => {
      // Bound by the first rows, not by the first attempt: an address may have been mistyped.
      const bound = this.source()
      if (bound === undefined) this.#run("INSERT INTO destination (only, source) VALUES (1, ?)", source)
      else if (bound !== source) throw new OtherSource({ bound, given: source })
      if (again) {
        this.#run("DELETE FROM quarantine WHERE scan = ?", scan)
        this.#run("DELETE FROM seen WHERE scan = ?", scan)
      }
      const names = columns.map(({ name }) => name)
      const insert = this.#statement(
        `INSERT INTO ${table} (${names.join(", ")}, raw, hash, changed_at, first_seen_at, row) VALUES (${
          Array.from({ length: names.length + 5 }, () => "?").join(", ")
        })`
      )
      const update = this.#statement(
        `UPDATE ${table} SET ${names.map((name) => `${name} = ?`).join(", ")}, raw = ?, hash = ?, changed_at = ?,
        missing_since = NULL WHERE row = ?`
      )
      for (const { cells, hash, isNew, raw, row } of plan.writes) {
        if (isNew) insert.run(...cells, raw, hash, now, now, row)
        else update.run(...cells, raw, hash, now, row)
      }
      for (const row of plan.found) this.#run(`UPDATE ${table} SET missing_since = NULL WHERE row = ?`, row)
      const tell = this.#statement(
        "INSERT INTO changes (list, scan, at, kind, id, fields, before, after) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
      )
      for (const { after, before = null, fields, id, kind } of plan.changes) {
        tell.run(list.label, scan, now, kind, id, JSON.stringify(fields), before, after)
      }
      for (const { expected, id = null, path, raw } of plan.quarantined) {
        this.#run(
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
        this.#run("INSERT OR REPLACE INTO seen (scan, piece, bits) VALUES (?, ?, ?)", scan, index, bits)
      }
      const pages = "json_extract(?1, '$.counts.pages')"
      const records = "json_extract(?1, '$.counts.records')"
      this.#run(
        `UPDATE scans SET tally = ?1, pages = ${pages}, records = ${records}, checkpoint = ?2 WHERE scan = ?3`,
        tally,
        checkpoint ?? null,
        scan
      )
      if (end === undefined) return
      this.#run(
        "UPDATE scans SET state = ?, certificate = ?, ended_at = ? WHERE scan = ?",
        end.state,
        end.certificate ?? null,
        now,
        scan
      )
      for (const row of end.missing) {
        this.#run(`UPDATE ${table} SET missing_since = ? WHERE row = ?`, now, row)
        this.#run(
          `INSERT INTO changes (list, scan, at, kind, id, fields) SELECT ?, ?, ?, 'missing', id, '[]' FROM ${table}
          WHERE row = ?`,
          list.label,
          scan,
          now,
          row
        )
      }
      for (const one of end.forget) {
        this.#run("DELETE FROM seen WHERE scan = ?", one)
        this.#run("DELETE FROM quarantine WHERE scan = ?", one)
      }
    })
  }

  rows(list: Lists.AnyList, after: number, count: number): ReadonlyArray<FullRow> {
    return this.#all(`SELECT * FROM ${layoutOf(list).table} WHERE row > ? ORDER BY row LIMIT ?`, after, count)
      .map((row) => ({
        row: number(row, "row"),
        id: text(row, "id"),
        raw: text(row, "raw"),
        hash: text(row, "hash"),
        cells: row,
        firstSeenAt: text(row, "first_seen_at"),
        changedAt: text(row, "changed_at"),
        missingSince: optional(row, "missing_since")
      }))
  }

  textsAt(list: Lists.AnyList, scan: number, ids: ReadonlyArray<string>): ReadonlyMap<string, string> {
    const first = this.#statement(
      `SELECT before FROM changes WHERE list = ? AND id = ? AND scan > ? AND before IS NOT NULL ORDER BY seq LIMIT 1`
    )
    return new Map(ids.flatMap((id) => {
      const change = first.get(list.label, id, scan)
      return change === undefined ? [] : [[id, text(change, "before")]]
    }))
  }

  changes(after: number, count: number, lists: ReadonlyArray<Lists.AnyList>): ReadonlyArray<ChangeRow> {
    return this.#all(
      `SELECT * FROM changes WHERE seq > ? AND list IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?`,
      after,
      JSON.stringify(lists.map(({ label }) => label)),
      count
    ).map((row) => ({
      seq: number(row, "seq"),
      list: text(row, "list"),
      scan: number(row, "scan"),
      at: text(row, "at"),
      kind: text(row, "kind") as ChangeRow["kind"], // the table's own check
      id: text(row, "id"),
      fields: JSON.parse(text(row, "fields")) as ReadonlyArray<string>, // only commit writes it
      before: optional(row, "before"),
      after: optional(row, "after")
    }))
  }

  query<A>(step: (db: DatabaseSync) => A): A {
    return step(this.#db)
  }

  transaction<A>(step: (db: DatabaseSync) => A): A {
    return this.#transaction(() => step(this.#db))
  }

  #statement(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.#db.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }

  #run(sql: string, ...values: ReadonlyArray<SQLInputValue>): void {
    this.#statement(sql).run(...values)
  }

  #get(sql: string, ...values: ReadonlyArray<SQLInputValue>): Row {
    return this.#statement(sql).get(...values)
  }

  #all(sql: string, ...values: ReadonlyArray<SQLInputValue>) {
    return this.#statement(sql).all(...values)
  }

  #transaction<A>(body: () => A): A {
    this.#db.exec("BEGIN IMMEDIATE")
    try {
      const result = body()
      this.#db.exec("COMMIT")
      return result
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK")
      throw error
    }
  }
}

/** Makes the file, readable by its owner alone, before SQLite would make it readable by others. */
const createOwned = (file: string): void => {
  try {
    closeSync(openSync(file, "wx", ownerOnly))
  } catch (error) {
    // One that is there is not even opened: closing it again would end every lock that this process has on it
    // (https://sqlite.org/howtocorrupt.html, 2.2).
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error
  }
}

type Row = Readonly<Record<string, SQLOutputValue>> | undefined

const text = (row: Row, name: string): string => String(row?.[name] ?? "")
const optional = (row: Row, name: string): string | undefined => row?.[name] == null ? undefined : String(row[name])
const number = (row: Row, name: string): number => Number(row?.[name] ?? 0)
const bytes = (row: Row, name: string): Uint8Array => {
  const value = row?.[name]
  return value instanceof Uint8Array ? value : new Uint8Array()
}

const toScan = (row: Row): ScanRow => ({
  scan: number(row, "scan"),
  part: text(row, "part"),
  asked: text(row, "asked"),
  state: text(row, "state") as ScanRow["state"], // the table's own check
  checkpoint: optional(row, "checkpoint"),
  firstRow: number(row, "first_row"),
  tally: text(row, "tally"),
  certificate: optional(row, "certificate"),
  startedAt: text(row, "started_at"),
  endedAt: optional(row, "ended_at")
})

/** Tries again while another program is at it, and lets other things go on meanwhile. */
const whileBusy = (duration: Duration.Duration) => <A, R>(self: Effect.Effect<A, SinkError, R>) =>
  Effect.retry(self, {
    while: ({ reason }) => reason._tag === "Locked",
    schedule: Schedule.spaced("50 millis").pipe(Schedule.jittered, Schedule.upTo({ duration }))
  })

/** Runs one step of the database. What its files do to it is a reason; anything else that it throws is a bug of ours. */
const once = <A>(location: string, step: () => A): Effect.Effect<A, SinkError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(step())
    } catch (error) {
      const reason = reasonOf(error)
      return reason === undefined ? Effect.die(error) : Effect.fail(new SinkError({ location, reason }))
    }
  })

/** SQLite's primary result codes (https://sqlite.org/rescode.html). */
const sqliteCode = { busy: 5, full: 13, notADatabase: 26 } as const

/** The primary result code of an error from SQLite. */
const errcodeOf = (error: unknown): number | undefined =>
  typeof error === "object" && error !== null && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode & 0xff
    : undefined

const reasonOf = (error: unknown): SinkReason | undefined => {
  if (error instanceof Locked || error instanceof OtherSource || error instanceof NotADestination) return error
  const errcode = errcodeOf(error)
  switch (errcode) {
    case undefined:
      return error instanceof Error && "code" in error && "syscall" in error
        ? reasonOfCode(String(error.code))
        : undefined
    case sqliteCode.busy:
      return new Locked({ label: "the database" })
    case sqliteCode.full:
      return new Full()
    case sqliteCode.notADatabase:
      return new NotADestination({ problem: "it is not an SQLite database. Choose another file." })
    default:
      return new Failed({ code: `SQLite ${errcode}` })
  }
}

/** The reason of a system code, such as `ENOSPC`. */
export const reasonOfCode = (code: string): SinkReason => code === "ENOSPC" ? new Full() : new Failed({ code })
