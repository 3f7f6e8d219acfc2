/**
 * The only file that opens SQLite. Synchronous inside, so that a commit is one unbroken transaction. Every commit is on disk
 * when it returns (WAL, `synchronous=FULL`); the file and its companions are readable by their owner alone.
 */
import { Monotonic } from "@payments/core"
import { Duration, Effect, Schedule, type Scope } from "effect"
import { hostname } from "node:os"
import { basename, dirname } from "node:path"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { number, type Row, text } from "../engine/Rows.ts"
import type { PathUse } from "../Permission.ts"
import { Damaged, LeaseLost, Locked, NotADestination, SinkError } from "../Sink.ts"
import { locate, OpenFile, openingSame, readNote, removeNote, requireOwned, writeNote } from "./DatabaseFile.ts"
import { adviceFor } from "./SqliteDamage.ts"
import { damageOf, denialIn, isBusy, isNoDatabase, reasonOf } from "./SqliteErrors.ts"
import { migrate, requireCurrent } from "./SqliteSchema.ts"

/** How long SQLite itself waits for another writer. It waits with everything else standing still: the rest is waited here. */
const patienceMs = 50
/** How long another writer of the same database is waited for. Lists are written side by side, a batch at a time. */
const busyFor = Duration.seconds(30)

/** What the file is opened for: to read it as it goes on, to read it as it is now, or to write it, made if it is not there. */
export type Access = "read" | "snapshot" | "write"

/** A database that is open. */
export interface SqliteClient {
  /** Runs one step of it, again while another program writes. A reader's fails where the file is no longer at its path. */
  readonly run: <A>(step: (db: Database) => A) => Effect.Effect<A, SinkError>
  /**
   * Locks a list, or another thing of that name, for one user of it until the scope closes; the lock also ends with the
   * process. Writes nothing into the database.
   */
  readonly lock: (label: string, onLocked: "refuse" | "wait") => Effect.Effect<void, SinkError, Scope.Scope>
  /** Ends the epoch of anybody who held it before, once for each lock. The first transaction does so too. */
  readonly takeOver: (label: string) => Effect.Effect<void, SinkError>
  /**
   * Runs one step as a transaction of the holder of that name. Fails, and writes nothing, where another program has taken it
   * over.
   */
  readonly transaction: <A>(label: string, step: (db: Database) => A) => Effect.Effect<A, SinkError>
}

/** Opens the file until the scope closes. */
export const open = (
  path: string,
  location: string,
  access: Access
): Effect.Effect<SqliteClient, SinkError, Scope.Scope> =>
  Effect.acquireRelease(
    once(location, () => new Database(path, access)),
    (db) => Effect.sync(() => db.close())
  ).pipe(
    whileBusy(busyFor),
    Effect.map((db): SqliteClient => {
      const run: SqliteClient["run"] = (step) =>
        whileBusy(busyFor)(once(location, () => {
          // A writer's transactions check that themselves.
          if (access === "read") db.requireInPlace()
          return db.explaining(() => step(db))
        }))
      const locks = new Map<string, Lock>()
      const transaction: SqliteClient["transaction"] = (label, step) =>
        run(() => {
          const lock = locks.get(label)
          if (lock === undefined) throw new Error(`${label} is not locked`)
          let { epoch } = lock
          const result = db.transaction(() => {
            if (epoch === undefined) epoch = db.takeOver(label, lock)
            else db.requireEpoch(label, lock.holder, epoch)
            return step(db)
          })
          lock.epoch = epoch
          return result
        })
      return {
        run,
        lock: (label, onLocked) =>
          Effect.acquireRelease(once(location, () => db.lock(label)), (lock) => Effect.sync(() => lock.close())).pipe(
            // A program that only renders a file again releases the lock quickly, an export does not: give up after 300 ms.
            whileBusy(onLocked === "wait" ? Duration.infinity : Duration.millis(300)),
            Effect.flatMap((lock) =>
              Effect.acquireRelease(
                Effect.sync(() => locks.set(label, lock)),
                () => Effect.sync(() => locks.delete(label))
              )
            ),
            Effect.asVoid
          ),
        takeOver: (label) =>
          Effect.suspend(() => locks.get(label)?.epoch === undefined ? transaction(label, () => {}) : Effect.void),
        transaction
      }
    })
  )

/** A lock that is held. */
interface Lock {
  readonly holder: string
  /** Who had the list when it was locked; undefined where nobody ever had it. */
  readonly before: { readonly epoch: number; readonly holder: string } | undefined
  /** Counted up by every lock's first transaction; undefined before it. Only the last one may write. */
  epoch: number | undefined
  readonly close: () => void
}

/** One connection. Statements are prepared once. */
export class Database {
  readonly #db: DatabaseSync
  readonly #access: Access
  readonly #file: string
  readonly #place: OpenFile
  readonly #statements = new Map<string, StatementSync>()

  constructor(path: string, access: Access) {
    this.#access = access
    // By its real path, which no name of SQLite's own, such as :memory:, is.
    this.#file = permitted(
      [{ path, isReadOnly: access !== "write" }],
      () => locate(path, access === "write" ? "write" : "read")
    )
    this.#place = new OpenFile(path, this.#file)
    this.#db = permitted(
      this.#files(),
      () => new DatabaseSync(this.#file, { timeout: patienceMs, readOnly: access !== "write" })
    )
    try {
      this.#place.requireInPlace()
      // Nothing is written into a file before it is known to be ours or empty.
      if (access === "write") {
        migrate(this.#db)
        this.#db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; SELECT 1 FROM sqlite_schema")
      } else requireCurrent(this.#db)
      this.#place.rememberCompanions()
      // A read transaction begins with its first read. With a write-ahead log it holds up no writer.
      if (access === "snapshot") this.#db.exec("BEGIN; SELECT 1 FROM sqlite_schema")
    } catch (error) {
      const explained = this.#explained(error)
      this.#db.close()
      throw explained
    }
  }

  /** Runs a step; where it finds the file damaged, says what can still be read. */
  explaining<A>(step: () => A): A {
    try {
      return step()
    } catch (error) {
      throw this.#explained(error)
    }
  }

  #explained(error: unknown): unknown {
    const problem = damageOf(error)
    return problem === undefined
      ? denialIn(error, this.#files()) ?? error
      : new Damaged({ problem, advice: adviceFor(this.#db) })
  }

  /** What SQLite opens: the file, its log and the folder that the log is made in. */
  #files(): ReadonlyArray<PathUse> {
    const companions = [`${this.#file}-wal`, `${this.#file}-shm`, dirname(this.#file)].map((path) => ({ path }))
    return [{ path: this.#file, isReadOnly: this.#access !== "write" }, ...companions]
  }

  close(): void {
    // SQLite leaves the log behind where the database is no longer at its path. To the file that is there instead it would be
    // a log of its own, and destroy it (https://sqlite.org/howtocorrupt.html, 1.4).
    if (this.#place.leavesItsLog()) {
      try {
        this.#db.exec("PRAGMA wal_checkpoint(TRUNCATE)")
      } catch {
        // The disk is full, or another program reads it: nothing more can be done for a file that was taken away.
      }
    }
    this.#db.close()
  }

  /**
   * Locks the list, for one user of it, until the returned lock is closed; it also ends with the process. A file beside the
   * database names its holder, as long as it is held.
   */
  lock(label: string): Lock {
    this.requireInPlace()
    const file = `${this.#file}.${label}.lock`
    const holderFile = `${this.#file}.${label}.holder`
    const lock = permitted([{ path: file }], () => {
      requireOwned(file)
      return openingSame(file, () => new DatabaseSync(file, { timeout: 0 }), (opened) => opened.close())
    })
    // Somebody removed it just now: the next attempt makes another one.
    if (lock === undefined) throw new Locked({ label })
    try {
      lock.exec("BEGIN EXCLUSIVE")
    } catch (error) {
      lock.close()
      if (isNoDatabase(error)) {
        throw new NotADestination({ problem: `${basename(file)} is no lock file of this program. Remove it.` })
      }
      if (!isBusy(error)) throw denialIn(error, [{ path: file }]) ?? error
      // A program of an earlier version wrote its name into the database alone.
      const row = this.get("SELECT holder FROM holders WHERE label = ?", label)
      const holder = readNote(holderFile) ?? (row === undefined ? undefined : text(row, "holder"))
      throw new Locked({ label, holder })
    }
    let before: Lock["before"]
    try {
      const row = this.get("SELECT epoch, holder FROM holders WHERE label = ?", label)
      if (row !== undefined) before = { epoch: number(row, "epoch"), holder: text(row, "holder") }
    } catch (error) {
      lock.close()
      throw error
    }
    const holder = `process ${process.pid} on ${hostname()} since ${new Date().toISOString()}`
    writeNote(holderFile, holder)
    return {
      holder,
      before,
      epoch: undefined,
      close: () => {
        if (readNote(holderFile) === holder) removeNote(holderFile)
        lock.close()
      }
    }
  }

  /**
   * Records this process as the holder and counts the epoch up. A former holder may still run, where its lock file was
   * removed: its epoch is over, so it commits nothing more. Fails where another program has taken the list over since the
   * lock: what this one has read may be outdated. To be called within a transaction.
   */
  takeOver(label: string, { before, holder }: Lock): number {
    const row = this.get(
      `INSERT INTO holders (label, holder, epoch) VALUES (?, ?, 1)
      ON CONFLICT (label) DO UPDATE SET holder = excluded.holder, epoch = epoch + 1 WHERE epoch = ? AND holder = ?
      RETURNING epoch`,
      label,
      holder,
      before?.epoch ?? null,
      before?.holder ?? null
    )
    if (row === undefined) throw new LeaseLost({ label, why: "lock" })
    return number(row, "epoch")
  }

  /** Fails where the list was taken over: to be called within a transaction, which no other program writes beside. */
  requireEpoch(label: string, holder: string, epoch: number): void {
    const mine = this.get("SELECT 1 FROM holders WHERE label = ? AND epoch = ? AND holder = ?", label, epoch, holder)
    if (mine === undefined) throw new LeaseLost({ label, why: "lock" })
  }

  /** Fails where the database is no longer the file at its path. */
  requireInPlace(): void {
    this.#place.requireInPlace()
    this.#place.requireCompanions()
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

  /** As {@link all}; an integer that no `number` holds is a `bigint`. */
  allExact(sql: string, ...values: ReadonlyArray<SQLInputValue>): ReadonlyArray<Row> {
    try {
      return this.all(sql, ...values)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
    }
    const statement = this.#db.prepare(sql)
    statement.setReadBigInts(true)
    return statement.all(...values).map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, narrowed(value)]))
    )
  }

  /** All of it durable when it returns, in the file that is at the path, or nothing of it. */
  transaction<A>(body: () => A): A {
    this.#db.exec("BEGIN IMMEDIATE")
    try {
      const result = body()
      this.requireInPlace()
      this.#db.exec("COMMIT")
      // What was committed into a file that was removed in this very moment is lost.
      this.requireInPlace()
      return result
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK")
      throw error
    }
  }
}

/** Runs a step; where the system refuses it, says which of the files is in the way. */
const permitted = <A>(files: ReadonlyArray<PathUse>, step: () => A): A => {
  try {
    return step()
  } catch (error) {
    throw denialIn(error, files) ?? error
  }
}

const narrowed = (value: unknown): unknown =>
  typeof value === "bigint" && Number.isSafeInteger(Number(value)) ? Number(value) : value

/** Tries again while another program is at it, and lets other things go on meanwhile. */
const whileBusy = (duration: Duration.Duration) => <A, R>(self: Effect.Effect<A, SinkError, R>) =>
  Effect.retry(self, {
    while: ({ reason }) => reason._tag === "Locked",
    schedule: Schedule.spaced("50 millis").pipe(Schedule.jittered, Monotonic.upTo(duration))
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
