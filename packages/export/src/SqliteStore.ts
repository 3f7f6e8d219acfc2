/**
 * The durable engine: tables, checkpoints and locks in one SQLite file. Synchronous, so that a batch is one unbroken
 * transaction; the sinks wrap it in effects. Every commit is on disk when it returns (WAL, `synchronous=FULL`); the file
 * and its companions are readable by their owner alone.
 */
import { type BadRecord, Lists, Position } from "@payments/core"
import { Option } from "effect"
import { hash } from "node:crypto"
import { closeSync, openSync } from "node:fs"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { type Column, columnsOf, tableOf, valueOf } from "./Columns.ts"
import { type Batch, Locked, NotADestination, OtherSource, type ScanProgress, type ScanRequest } from "./Sink.ts"

/** Of the tables below; a file that says more was written by a later version. */
const schemaVersion = 1
/** How a database of ours is told from any other: "PAYR". */
const applicationId = 0x50415952

const ownerOnly = 0o600
/** How long SQLite itself waits for another writer. It waits with everything else standing still: the sinks wait longer. */
const patienceMs = 50

/** A scan that is open, and where it goes on if it was cut. */
export interface OpenScan {
  readonly scan: number
  readonly resumeAt: Position.Position | undefined
}

/** A scan that reached the end of its list. */
export interface CompleteScan {
  readonly scan: number
  readonly completedAt: string
  readonly pages: number
  readonly records: number
  readonly quarantined: number
}

/** An open destination file. */
export class SqliteStore {
  readonly #db: DatabaseSync
  readonly #file: string
  readonly #tables = new Map<Lists.ListName, TableStatements>()

  constructor(file: string) {
    this.#file = file
    createOwned(file)
    this.#db = new DatabaseSync(file, { timeout: patienceMs })
    try {
      // Nothing is written into a file before it is known to be ours or empty.
      if (!this.#isCurrent()) this.#migrate()
      this.#db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
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
      throw errcodeOf(error) === sqliteCode.busy ? new Locked({ label }) : error
    }
  }

  /** The source whose data this is; none before the first commit. */
  source(): string | undefined {
    const row = this.#db.prepare("SELECT source FROM destination").get()
    return row === undefined ? undefined : text(row, "source")
  }

  /** The scan that goes on: the list's last one if it was cut and asked the same, else a new one. */
  begin(list: Lists.AnyList, request: ScanRequest, now: string): OpenScan {
    return this.#transaction(() => {
      this.#refuseOther(request.source)
      const asked = JSON.stringify([request.limit, Object.entries(request.parameters).toSorted()])
      const open = this.#db.prepare("SELECT scan, asked, checkpoint FROM scans WHERE list = ? AND state = 'running'")
        .get(list.label)
      if (open !== undefined && text(open, "asked") === asked) {
        const resumeAt = typeof open["checkpoint"] === "string" ? Position.fromJson(open["checkpoint"]) : Option.none()
        return { scan: number(open, "scan"), resumeAt: Option.getOrUndefined(resumeAt) }
      }
      this.#db.prepare("UPDATE scans SET state = 'abandoned', checkpoint = NULL WHERE list = ? AND state = 'running'")
        .run(list.label)
      const { lastInsertRowid } = this.#db.prepare(
        "INSERT INTO scans (list, asked, state, started_at) VALUES (?, ?, 'running', ?)"
      ).run(list.label, asked, now)
      return { scan: Number(lastInsertRowid), resumeAt: undefined }
    })
  }

  /** Writes the batch and its checkpoint, or the end of the scan, in one transaction. */
  commit(
    list: Lists.AnyList,
    { scan, source }: { readonly scan: number; readonly source: string },
    batch: Batch,
    now: string
  ): ScanProgress {
    return this.#transaction(() => {
      // Bound by the first rows, not by the first attempt: an address may have been mistyped.
      this.#refuseOther(source)
      this.#db.prepare("INSERT INTO destination (only, source) VALUES (1, ?) ON CONFLICT DO NOTHING").run(source)
      const table = this.#tableOf(list)
      const counts = { inserted: 0, updated: 0, unchanged: 0 }
      for (const record of batch.records) counts[table.upsert(record.id, record.value, record.text, now)]++
      for (const record of batch.bad) {
        if (record.id !== undefined) counts[table.upsert(record.id, record.value, record.text, now)]++
        this.#quarantine(list, scan, record)
      }
      this.#db.prepare(
        `UPDATE scans SET pages = pages + 1, records = records + ?, inserted = inserted + ?, updated = updated + ?,
        unchanged = unchanged + ?, quarantined = quarantined + ?, checkpoint = ?, state = ?, completed_at = ? WHERE scan = ?`
      ).run(
        batch.records.length + batch.bad.length,
        counts.inserted,
        counts.updated,
        counts.unchanged,
        batch.bad.length,
        batch.next === null ? null : Position.toJson(batch.next),
        batch.next === null ? "complete" : "running",
        batch.next === null ? now : null,
        scan
      )
      if (batch.next === null) {
        this.#db.prepare("DELETE FROM quarantine WHERE list = ? AND scan < ?").run(list.label, scan)
      }
      return this.progress(scan)
    })
  }

  /** Lets the scan begin its traversal again, rows kept. */
  restart(scan: number): void {
    this.#transaction(() => {
      this.#db.prepare("DELETE FROM quarantine WHERE scan = ?").run(scan)
      this.#db.prepare("UPDATE scans SET checkpoint = NULL, pages = 0, records = 0, quarantined = 0 WHERE scan = ?")
        .run(scan)
    })
  }

  progress(scan: number): ScanProgress {
    const row = this.#db.prepare("SELECT * FROM scans WHERE scan = ?").get(scan)
    return {
      pages: number(row, "pages"),
      records: number(row, "records"),
      inserted: number(row, "inserted"),
      updated: number(row, "updated"),
      unchanged: number(row, "unchanged"),
      quarantined: number(row, "quarantined")
    }
  }

  /** The list's last complete scan, if the rows still are what it left: no later scan has written any. */
  lastComplete(list: Lists.AnyList): CompleteScan | undefined {
    const row = this.#db.prepare("SELECT * FROM scans WHERE list = ? AND pages > 0 ORDER BY scan DESC LIMIT 1").get(
      list.label
    )
    return row === undefined || text(row, "state") !== "complete" ? undefined : {
      scan: number(row, "scan"),
      completedAt: text(row, "completed_at"),
      pages: number(row, "pages"),
      records: number(row, "records"),
      quarantined: number(row, "quarantined")
    }
  }

  /** Remembers that the file is being rendered, before it is there. */
  noteRendered(list: Lists.AnyList, scan: number, file: string): void {
    this.#db.prepare("INSERT INTO rendered (file, list, scan) VALUES (?, ?, ?) ON CONFLICT DO NOTHING").run(
      file,
      list.label,
      scan
    )
  }

  /** Every file that was rendered of the list and not forgotten. */
  rendered(list: Lists.AnyList): ReadonlyArray<string> {
    return this.#db.prepare("SELECT file FROM rendered WHERE list = ?").all(list.label).map((row) => text(row, "file"))
  }

  forgetRendered(file: string): void {
    this.#db.prepare("DELETE FROM rendered WHERE file = ?").run(file)
  }

  /** The exact texts of a list's records behind the given row, in the order they were first seen. */
  texts(
    list: Lists.AnyList,
    after: number,
    count: number
  ): { readonly last: number; readonly texts: ReadonlyArray<string> } {
    const rows = this.#db.prepare(
      `SELECT rowid AS row, raw FROM ${tableOf(list)} WHERE rowid > ? ORDER BY rowid LIMIT ?`
    ).all(after, count)
    const last = rows.at(-1)
    return { last: last === undefined ? after : number(last, "row"), texts: rows.map((row) => text(row, "raw")) }
  }

  #quarantine(list: Lists.AnyList, scan: number, record: BadRecord): void {
    this.#db.prepare("INSERT INTO quarantine (scan, list, id, path, expected, raw) VALUES (?, ?, ?, ?, ?, ?)")
      .run(scan, list.label, record.id ?? null, record.path, record.expected, record.text)
  }

  #tableOf(list: Lists.AnyList): TableStatements {
    const known = this.#tables.get(list.name)
    if (known !== undefined) return known
    const table = new TableStatements(this.#db, list)
    this.#tables.set(list.name, table)
    return table
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

  #refuseOther(source: string): void {
    const bound = this.source()
    if (bound !== undefined && bound !== source) throw new OtherSource({ bound, given: source })
  }

  /** Whether the file has our tables; false for an empty one. */
  #isCurrent(): boolean {
    const pragma = (name: string) => number(this.#db.prepare(`PRAGMA ${name}`).get(), name)
    if (pragma("application_id") !== applicationId) {
      if (number(this.#db.prepare("SELECT count(*) AS n FROM sqlite_schema").get(), "n") === 0) return false
      throw new NotADestination({ problem: "it is a database of something else. Choose another file." })
    }
    if (pragma("user_version") > schemaVersion) {
      throw new NotADestination({ problem: "it was written by a later version of this program. Use that version." })
    }
    return pragma("user_version") === schemaVersion
  }

  #migrate(): void {
    this.#transaction(() => {
      // Another process may have been faster.
      if (this.#isCurrent()) return
      this.#db.exec(`
        CREATE TABLE destination (only INTEGER PRIMARY KEY CHECK (only = 1), source TEXT NOT NULL) STRICT;
        CREATE TABLE scans (
          scan INTEGER PRIMARY KEY AUTOINCREMENT, list TEXT NOT NULL, asked TEXT NOT NULL,
          state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'abandoned')),
          checkpoint TEXT, pages INTEGER NOT NULL DEFAULT 0, records INTEGER NOT NULL DEFAULT 0,
          inserted INTEGER NOT NULL DEFAULT 0, updated INTEGER NOT NULL DEFAULT 0, unchanged INTEGER NOT NULL DEFAULT 0,
          quarantined INTEGER NOT NULL DEFAULT 0, started_at TEXT NOT NULL, completed_at TEXT
        ) STRICT;
        CREATE UNIQUE INDEX one_running_scan ON scans (list) WHERE state = 'running';
        CREATE TABLE quarantine (
          scan INTEGER NOT NULL REFERENCES scans, list TEXT NOT NULL, id TEXT,
          path TEXT NOT NULL, expected TEXT NOT NULL, raw TEXT NOT NULL
        ) STRICT;
        ${Lists.all.map(createTable).join("\n")}
        CREATE TABLE rendered (file TEXT PRIMARY KEY, list TEXT NOT NULL, scan INTEGER NOT NULL REFERENCES scans) STRICT;
        PRAGMA application_id = ${applicationId};
        PRAGMA user_version = ${schemaVersion}`)
    })
  }
}

const sqlTypes = { text: "TEXT", integer: "INTEGER", boolean: "INTEGER" } as const

const createTable = (list: Lists.AnyList): string => {
  const columns = columnsOf(list).map(({ kind, name }) =>
    `${name} ${sqlTypes[kind]}${name === "id" ? " NOT NULL UNIQUE" : ""}`
  )
  return `CREATE TABLE ${tableOf(list)} (
    ${columns.join(", ")}, raw TEXT NOT NULL, hash TEXT NOT NULL, first_seen_at TEXT NOT NULL, changed_at TEXT NOT NULL
  ) STRICT;`
}

/** The prepared statements of one table. A record whose text is the same as before writes nothing. */
class TableStatements {
  readonly #columns: ReadonlyArray<Column>
  readonly #find: StatementSync
  readonly #insert: StatementSync
  readonly #update: StatementSync

  constructor(db: DatabaseSync, list: Lists.AnyList) {
    const table = tableOf(list)
    this.#columns = columnsOf(list).filter(({ name }) => name !== "id")
    const names = this.#columns.map(({ name }) => name)
    this.#find = db.prepare(`SELECT hash FROM ${table} WHERE id = ?`)
    this.#insert = db.prepare(
      `INSERT INTO ${table} (${names.join(", ")}, raw, hash, changed_at, first_seen_at, id) VALUES (${
        Array.from({ length: names.length + 5 }, () => "?").join(", ")
      })`
    )
    this.#update = db.prepare(
      `UPDATE ${table} SET ${
        names.map((name) => `${name} = ?`).join(", ")
      }, raw = ?, hash = ?, changed_at = ? WHERE id = ?`
    )
  }

  upsert(id: string, value: unknown, raw: string, now: string): "inserted" | "updated" | "unchanged" {
    const digest = hash("sha256", raw)
    const found = this.#find.get(id)
    if (found?.["hash"] === digest) return "unchanged"
    const cells: ReadonlyArray<SQLInputValue> = [
      ...this.#columns.map((column) => valueOf(column, value)),
      raw,
      digest,
      now
    ]
    if (found !== undefined) {
      this.#update.run(...cells, id)
      return "updated"
    }
    this.#insert.run(...cells, now, id)
    return "inserted"
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

type Row = Readonly<Record<string, unknown>> | undefined

const text = (row: Row, name: string): string => String(row?.[name] ?? "")
const number = (row: Row, name: string): number => Number(row?.[name] ?? 0)

/** SQLite's primary result codes (https://sqlite.org/rescode.html). */
export const sqliteCode = { busy: 5, full: 13, notADatabase: 26 } as const

/** The primary result code of an error from SQLite. */
export const errcodeOf = (error: unknown): number | undefined =>
  typeof error === "object" && error !== null && "errcode" in error && typeof error.errcode === "number"
    ? error.errcode & 0xff
    : undefined
