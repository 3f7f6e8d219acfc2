/**
 * The only file that opens SQLite. A step runs synchronously, so that no other step interrupts a transaction. A commit
 * is on disk when it returns (WAL, `synchronous=FULL`). Only their owner may read the database and the files next to
 * it.
 */
import { Lists, Monotonic } from "@payments/core"
import { Duration, Effect, Schedule, type Scope } from "effect"
import { existsSync } from "node:fs"
import { hostname } from "node:os"
import { basename, dirname } from "node:path"
import {
  type AggregateOptions,
  DatabaseSync,
  type SQLInputValue,
  type SQLOutputValue,
  type StatementSync
} from "node:sqlite"
import type { PathUse } from "../filesystem/Permission.ts"
import { Damaged, LeaseLost, Locked, LogInUse, NotADestination, SinkError } from "../port/Sink.ts"
import { readNumber, readOptional, readText, type Row } from "../store/StoredRows.ts"
import { locate, OpenFile, openUnreplaced, readNote, removeNote, requireOwned, writeNote } from "./DatabaseFile.ts"
import { adviceFor } from "./SqliteDamage.ts"
import { damageOf, denialIn, isBusy, isNoDatabase, reasonOf } from "./SqliteErrors.ts"
import { migrate, refuseLater, requireReadable } from "./SqliteSchema.ts"

/** How long SQLite waits for another writer. It blocks the thread meanwhile, so longer waits happen in `whileBusy`. */
const sqliteTimeoutMs = 50
/** How long a step waits for another writer of the same database. Writers of other lists commit between its batches. */
const busyTimeout = Duration.seconds(30)
/** How long emptying the log waits for readers. Most of them read for milliseconds. */
const logTimeout = Duration.seconds(5)

/**
 * How to open the file. `read` sees later commits, `snapshot` does not. `inspect` reads, also the tables of an earlier
 * version. `maintain` writes without the lock of a list. `write` creates a missing file and migrates an older one.
 */
export type Access = "read" | "snapshot" | "inspect" | "maintain" | "write"

/** The options of the functions of a connection. Integers are bigints. */
export const functionOptions = { deterministic: true, useBigIntArguments: true } as const

export interface SqliteClient {
  /** Runs a step, with retries while another program writes. With `read`, fails if the file is no longer in place. */
  readonly run: <A>(step: (db: Database) => A) => Effect.Effect<A, SinkError>
  /**
   * Locks a label, such as a list, exclusively until the scope closes or the process ends. Writes nothing into the
   * database.
   */
  readonly lock: (label: string, onLocked: "refuse" | "wait") => Effect.Effect<void, SinkError, Scope.Scope>
  /** Increments the label's epoch once per lock, so earlier holders are invalid. The first transaction does so too. */
  readonly takeOver: (label: string) => Effect.Effect<boolean, SinkError>
  /** Runs a step as a transaction of the holder. Fails without writing if another program has taken the label over. */
  readonly transaction: <A>(label: string, step: (db: Database) => A) => Effect.Effect<A, SinkError>
  /**
   * Rebuilds the file and empties the log, so that neither has a byte of deleted content. Fails with `LogInUse` if
   * another program still reads from the log.
   */
  readonly wipe: Effect.Effect<void, SinkError>
  readonly unlockedTransaction: <A>(step: (db: Database) => A) => Effect.Effect<A, SinkError>
}

/** Opens the file until the scope closes, for a program that knows these lists. */
export const openDatabase = (
  path: string,
  location: string,
  access: Access,
  { lists = Lists.all, patience = logTimeout }: {
    readonly lists?: ReadonlyArray<Lists.AnyList> | undefined
    readonly patience?: Duration.Duration | undefined
  } = {}
): Effect.Effect<SqliteClient, SinkError, Scope.Scope> =>
  Effect.acquireRelease(
    once(location, () => new Database(path, access, lists)),
    (db) => Effect.sync(() => db.close())
  ).pipe(
    whileBusy(busyTimeout),
    Effect.map((db): SqliteClient => {
      const run: SqliteClient["run"] = (step) =>
        whileBusy(busyTimeout)(once(location, () => {
          // A writer's transactions check the path themselves.
          if (access === "read" || access === "maintain") db.requireInPlace()
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
            // A program that only renders a file again releases the lock quickly, but an export does not.
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
          Effect.suspend(() =>
            locks.get(label)?.epoch === undefined ? transaction(label, () => true) : Effect.succeed(false)
          ),
        transaction,
        wipe: Effect.andThen(
          run((opened) => opened.rebuild()),
          once(location, () => db.emptyLog()).pipe(
            whileBusy(patience),
            Effect.catchReason("SinkError", "Locked", () => new SinkError({ location, reason: new LogInUse() }))
          )
        ),
        unlockedTransaction: (step) => run(() => db.transaction(() => step(db)))
      }
    })
  )

/** A lock of this process. */
interface Lock {
  readonly holder: string
  /** The holder and epoch in the database when the label was locked, or undefined if it had none. */
  readonly before: { readonly epoch: number; readonly holder: string } | undefined
  /** The epoch of this lock, which its first transaction sets. Only the lock with the latest epoch may write. */
  epoch: number | undefined
  readonly close: () => void
}

/**
 * The bytes of a page in a new file. An export takes 9 % less time than with SQLite's default of 4096, and 3 % less if the
 * ids are in random order. In random order it writes 1.8 times the bytes.
 */
const pageSize = 16_384

/** The page cache of a connection in KiB: SQLite's default, divided by the number of open connections. */
const cacheSize = { default: 2000, least: 128 } as const

/** The open connections of this thread. A worker has one for each SQLite destination. */
let openConnections = 0

/** A connection, with a cache of its prepared statements. */
export class Database {
  readonly #db: DatabaseSync
  readonly #isReadOnly: boolean
  readonly #file: string
  readonly #place: OpenFile
  readonly #statements = new Map<string, StatementSync>()

  constructor(path: string, access: Access, lists: ReadonlyArray<Lists.AnyList>) {
    this.#isReadOnly = access === "read" || access === "snapshot" || access === "inspect"
    // SQLite gives names such as :memory: a meaning of its own. The real path is never such a name.
    this.#file = explainDenial(
      [{ path, isReadOnly: this.#isReadOnly }],
      () => locate(path, this.#isReadOnly ? "read" : access === "write" ? "create" : "write")
    )
    refuseLater(this.#file, lists)
    this.#place = new OpenFile(path, this.#file)
    this.#db = explainDenial(
      this.#files(),
      () => new DatabaseSync(this.#file, { timeout: sqliteTimeoutMs, readOnly: this.#isReadOnly })
    )
    try {
      this.#place.requireInPlace()
      // `migrate` writes only into a file that is empty or a destination of this program.
      if (access === "write") {
        // Counts for a new file only. Fewer pages are allocated, written and checked per row.
        this.#db.exec(`PRAGMA page_size = ${pageSize}`)
        migrate(this.#db, lists)
        this.#db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; SELECT 1 FROM sqlite_schema")
        // The caches of a hundred destinations would take 200 MB. SQLite keeps what it has allocated until it is told.
        const kibibytes = Math.max(cacheSize.least, Math.floor(cacheSize.default / (openConnections + 1)))
        this.#db.exec(`PRAGMA cache_size = -${kibibytes}; PRAGMA shrink_memory`)
      } else if (access !== "inspect") requireReadable(this.#db, lists)
      if (access === "maintain") this.#db.exec("PRAGMA synchronous = FULL")
      // Deleted content is overwritten, also by exports and removals of old changes.
      if (!this.#isReadOnly) this.#db.exec("PRAGMA secure_delete = ON")
      this.#place.rememberCompanions()
      // A read transaction starts with its first read. In WAL mode it blocks no writer.
      if (access === "snapshot") this.#db.exec("BEGIN; SELECT 1 FROM sqlite_schema")
      openConnections++
    } catch (error) {
      const explained = this.#explained(error)
      this.#db.close()
      throw explained
    }
  }

  /** Runs a step. If the file is damaged, the error lists the data that is still readable. */
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

  #files(): ReadonlyArray<PathUse> {
    const companions = [`${this.#file}-wal`, `${this.#file}-shm`, dirname(this.#file)].map((path) => ({ path }))
    return [{ path: this.#file, isReadOnly: this.#isReadOnly }, ...companions]
  }

  close(): void {
    openConnections--
    // If the database is no longer at its path, SQLite leaves the log there. A database that replaced it would take the
    // log for its own and be destroyed (https://sqlite.org/howtocorrupt.html, 1.4). So empty the log first.
    if (this.#place.hasOrphanedLog()) {
      try {
        this.#db.exec("PRAGMA wal_checkpoint(TRUNCATE)")
      } catch {
        // The disk is full, or another program reads the database. Nothing else helps a file that was moved away.
      }
    }
    this.#db.close()
  }

  /**
   * Locks the label exclusively until the returned lock is closed or the process ends. Until then, a file next to the
   * database names the holder.
   */
  lock(label: string): Lock {
    this.requireInPlace()
    const file = `${this.#file}.${label}.lock`
    const holderFile = `${this.#file}.${label}.holder`
    const lock = lockExclusively(file, () => new Locked({ label, holder: this.#recordedHolder(label) }))
    let before: Lock["before"]
    try {
      const row = this.get("SELECT epoch, holder FROM holders WHERE label = ?", label)
      if (row !== undefined) before = { epoch: readNumber(row, "epoch"), holder: readText(row, "holder") }
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

  /** Returns the last holder that was recorded. It may no longer have the lock. */
  #recordedHolder(label: string): string | undefined {
    // A program of an earlier version wrote its name only into the database.
    return readNote(`${this.#file}.${label}.holder`) ??
      readOptional(this.get("SELECT holder FROM holders WHERE label = ?", label), "holder")
  }

  /**
   * Returns the process that has the label's lock, or undefined if none has it. Reading the lock file fails while a
   * process has the exclusive lock. Otherwise it takes a shared lock for a moment; `lock` retries for longer than that.
   */
  holderOf(label: string): string | undefined {
    const file = `${this.#file}.${label}.lock`
    if (!existsSync(file)) return undefined
    let lock: DatabaseSync | undefined
    try {
      lock = new DatabaseSync(file, { timeout: 0, readOnly: true })
      lock.prepare("SELECT 1 FROM sqlite_schema").all()
      return undefined
    } catch (error) {
      return isBusy(error) ? this.#recordedHolder(label) ?? "another program" : "unknown: the lock file cannot be read"
    } finally {
      lock?.close()
    }
  }

  /**
   * Records this process as the holder and increments the epoch. If the lock file was removed, an earlier holder may
   * still run; its epoch is no longer valid, so it can commit nothing more. Throws if another program has taken the
   * list over since the lock, because data that this process has read may be outdated. The caller starts the
   * transaction.
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
    if (row === undefined) throw new LeaseLost({ label, loss: "lockRemoved" })
    return readNumber(row, "epoch")
  }

  /** Throws if another program has taken the list over. The caller's transaction excludes other writers. */
  requireEpoch(label: string, holder: string, epoch: number): void {
    const row = this.get("SELECT 1 FROM holders WHERE label = ? AND epoch = ? AND holder = ?", label, epoch, holder)
    if (row === undefined) throw new LeaseLost({ label, loss: "lockRemoved" })
  }

  /** Throws if the database, its log or its index is no longer the file at its path. */
  requireInPlace(): void {
    this.#place.requireInPlace()
    this.#place.requireCompanions()
  }

  /** The first call with this text prepares it as `written` returns it. */
  prepare(sql: string, written?: (sql: string) => string): StatementSync {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.#db.prepare(written?.(sql) ?? sql)
    this.#statements.set(sql, statement)
    return statement
  }

  aggregate(name: string, options: AggregateOptions<SQLInputValue>): void {
    this.#db.aggregate(name, options)
  }

  /** Its result depends on its arguments only. */
  function(name: string, call: (...values: ReadonlyArray<SQLOutputValue>) => SQLInputValue): void {
    this.#db.function(name, functionOptions, call)
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

  /** Returns the rows as {@link all} does, but an integer that is not exact as a `number` is a `bigint`. */
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

  /**
   * Rebuilds the file without free pages and free space in pages. SQLite copies the database into a temporary file
   * without a name, and back. The file is put next to the database, where there may be more space, and the same
   * protection.
   */
  rebuild(): void {
    this.requireInPlace()
    // SQLite documents this setting as deprecated, but an environment variable would only count before its first use.
    this.#db.exec(`PRAGMA temp_store_directory = '${dirname(this.#file).replaceAll("'", "''")}'`)
    try {
      this.#db.exec("VACUUM")
    } finally {
      this.#db.exec("PRAGMA temp_store_directory = ''")
    }
  }

  /** Moves the content of the log into the database and truncates the log. */
  emptyLog(): void {
    if (!this.tryEmptyLog()) throw new Locked({ label: "the log" })
  }

  /** Does the same as {@link emptyLog}, but returns false if another program uses the log now. */
  tryEmptyLog(): boolean {
    this.requireInPlace()
    return readNumber(this.#db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get(), "busy") === 0
  }

  /** Runs the body in a transaction. When it returns, the commit is on disk, in the file at the path. */
  transaction<A>(body: () => A): A {
    this.#db.exec("BEGIN IMMEDIATE")
    try {
      const result = body()
      this.requireInPlace()
      this.#db.exec("COMMIT")
      // If the file was removed between the first check and COMMIT, the committed data is lost.
      this.requireInPlace()
      return result
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK")
      throw error
    }
  }
}

/** Runs a step. If the system denies access, the error says to which of the files. */
const explainDenial = <A>(files: ReadonlyArray<PathUse>, step: () => A): A => {
  try {
    return step()
  } catch (error) {
    throw denialIn(error, files) ?? error
  }
}

/** Creates the file if it is missing, and locks it exclusively. Throws `locked()` if another program has the lock. */
const lockExclusively = (file: string, locked: () => Locked): DatabaseSync => {
  const lock = explainDenial([{ path: file }], () => {
    requireOwned(file)
    return openUnreplaced(file, () => new DatabaseSync(file, { timeout: 0 }), (opened) => opened.close())
  })
  // Another program removed the lock file meanwhile. The next attempt creates a new one.
  if (lock === undefined) throw locked()
  try {
    // The file stays empty. With small pages, SQLite reserves less memory: a worker may have hundreds of locks.
    lock.exec("PRAGMA page_size = 512; BEGIN EXCLUSIVE")
    return lock
  } catch (error) {
    lock.close()
    if (isNoDatabase(error)) {
      throw new NotADestination({ problem: `${basename(file)} is not a lock file of this program. Remove it.` })
    }
    if (!isBusy(error)) throw denialIn(error, [{ path: file }]) ?? error
    throw locked()
  }
}

/**
 * Locks a lock file exclusively until the scope closes or the process ends. While another program has the lock, waits
 * at most so long.
 */
export const lockFile = (
  file: string,
  patience: Duration.Duration
): Effect.Effect<void, SinkError, Scope.Scope> =>
  Effect.acquireRelease(
    once(file, () => lockExclusively(file, () => new Locked({ label: basename(file) }))),
    (lock) => Effect.sync(() => lock.close())
  ).pipe(whileBusy(patience), Effect.asVoid)

const narrowed = (value: unknown): unknown =>
  typeof value === "bigint" && Number.isSafeInteger(Number(value)) ? Number(value) : value

/** Retries while another program has the lock, without blocking the thread. */
const whileBusy = (duration: Duration.Duration) => <A, R>(self: Effect.Effect<A, SinkError, R>) =>
  Effect.retry(self, {
    while: ({ reason }) => reason._tag === "Locked",
    schedule: Schedule.spaced("50 millis").pipe(Schedule.jittered, Monotonic.upTo(duration))
  })

/** Runs a step of the database. A problem of the files becomes a `SinkError`; any other exception is a defect. */
const once = <A>(location: string, step: () => A): Effect.Effect<A, SinkError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(step())
    } catch (error) {
      const reason = reasonOf(error)
      return reason === undefined ? Effect.die(error) : Effect.fail(new SinkError({ location, reason }))
    }
  })
