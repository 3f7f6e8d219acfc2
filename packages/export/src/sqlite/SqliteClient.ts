/**
 * The only file that opens SQLite. Synchronous inside, so that a commit is one unbroken transaction. Every commit is on disk
 * when it returns (WAL, `synchronous=FULL`); the file and its companions are readable by their owner alone.
 */
import { Duration, Effect, Schedule, type Scope } from "effect"
import { closeSync, existsSync, openSync } from "node:fs"
import { hostname } from "node:os"
import { resolve } from "node:path"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { type Row, text } from "../engine/Rows.ts"
import { Failed, Full, Locked, NotADestination, OtherSource, SinkError, type SinkReason } from "../Sink.ts"
import { migrate, requireCurrent } from "./SqliteSchema.ts"

const ownerOnly = 0o600
/** How long SQLite itself waits for another writer. It waits with everything else standing still: the rest is waited here. */
const patienceMs = 50
/** How long another writer of the same database is waited for. Lists are written side by side, a batch at a time. */
const busyFor = Duration.seconds(30)

/** What the file is opened for: to read it as it goes on, to read it as it is now, or to write it, made if it is not there. */
export type Access = "read" | "snapshot" | "write"

/** A database that is open. */
export interface SqliteClient {
  /** Runs one step of it, again while another program writes. */
  readonly run: <A>(step: (db: Database) => A) => Effect.Effect<A, SinkError>
  /** Holds a list, or another thing of that name, for one user of it until the scope closes; it also ends with the process. */
  readonly hold: (label: string, onLocked: "refuse" | "wait") => Effect.Effect<void, SinkError, Scope.Scope>
}

/** Opens the file until the scope closes. */
export const open = (
  file: string,
  location: string,
  access: Access
): Effect.Effect<SqliteClient, SinkError, Scope.Scope> =>
  Effect.acquireRelease(
    // A whole path is never taken for one of SQLite's own names, such as :memory:.
    once(location, () => new Database(resolve(file), access)),
    (db) => Effect.sync(() => db.close())
  ).pipe(
    whileBusy(busyFor),
    Effect.map((db): SqliteClient => {
      const run: SqliteClient["run"] = (step) => whileBusy(busyFor)(once(location, () => step(db)))
      return {
        run,
        hold: (label, onLocked) =>
          Effect.acquireRelease(once(location, () => db.lock(label)), (lock) => Effect.sync(() => lock.close())).pipe(
            // Whoever only mends a lost file holds it for a moment; whoever exports, for long: that is said within a second
            // of the start of the program.
            whileBusy(onLocked === "wait" ? Duration.infinity : Duration.millis(300)),
            Effect.andThen(run(() => db.noteHolder(label)))
          )
      }
    })
  )

/** One connection. Statements are prepared once. */
export class Database {
  readonly #db: DatabaseSync
  readonly #file: string
  readonly #statements = new Map<string, StatementSync>()

  constructor(file: string, access: Access) {
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
      const row = this.get("SELECT holder FROM holders WHERE label = ?", label)
      throw new Locked({ label, holder: row === undefined ? undefined : text(row, "holder") })
    }
  }

  /** Says who holds it, for whoever is refused. */
  noteHolder(label: string): void {
    const holder = `process ${process.pid} on ${hostname()} since ${new Date().toISOString()}`
    this.run("INSERT OR REPLACE INTO holders (label, holder) VALUES (?, ?)", label, holder)
  }

  prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.#db.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }

  run(sql: string, ...values: ReadonlyArray<SQLInputValue>): void {
    this.prepare(sql).run(...values)
  }

  get(sql: string, ...values: ReadonlyArray<SQLInputValue>): Row | undefined {
    return this.prepare(sql).get(...values)
  }

  all(sql: string, ...values: ReadonlyArray<SQLInputValue>): ReadonlyArray<Row> {
    return this.prepare(sql).all(...values)
  }

  /** All of it durable when it returns, or nothing of it. */
  transaction<A>(body: () => A): A {
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
