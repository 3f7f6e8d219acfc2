/**
 * A temporary database with both sides of a reconciliation. It is a file without a name that only this process can open,
 * so it disappears with the process, also after a kill. SQLite sorts in such files too.
 *
 * An amount that needs more than 64 bits is stored as text. It equals only the same amount.
 */
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from "node:sqlite"
import { SinkError } from "../port/Sink.ts"
import { isStatementError, reasonOf } from "../sqlite/SqliteErrors.ts"
import { rowsOf } from "../sqlite/SqliteRows.ts"

/** A line of the statement. `amount` is without fees, so that it can be compared with records. */
export interface LedgerLine {
  readonly line: number
  /** The compared texts, as {@link keyText} returns them; null if one of them is empty. */
  readonly key: string | null
  readonly day: number | null
  readonly amount: bigint | null
  readonly fee: bigint | null
}

export interface LedgerRecord {
  readonly id: string
  readonly key: string | null
  /** The compared day, or else the one on which the statement should have it. */
  readonly day: number | null
  /** Whether it has a value for the day, but none that can be read. */
  readonly isDayUnread: boolean
  readonly amount: bigint | null
}

/** The day on which a record is due whose day cannot be read. It is before every other day, so it is never expected. */
export const unreadDay = -1_000_000_000

/** What an entry of a reconciliation is. "There" is the statement, and "here" the copy. The most important come first. */
export const entryClasses = ["different", "missing there", "missing here", "expected", "matched"] as const

export type EntryClass = typeof entryClasses[number]

/** The table of the entries of a class. */
export const entriesIn = (found: EntryClass): string => `entries_${found.replace(" ", "_")}`

/** Lines and records that belong together, or one of them alone. */
export interface LedgerEntry {
  readonly class: EntryClass
  readonly why: string | null
  readonly lines: ReadonlyArray<number>
  /** The records, or the sums of groups. */
  readonly units: ReadonlyArray<number>
  readonly records: number
  /** The amount of the lines, without what was deducted as a fee. */
  readonly there: bigint
  readonly fee: bigint
  readonly here: bigint
}

/** The cache of pages, in KiB. It is the only part that grows with the sides, and this is its limit. */
const cacheKibibytes = 24 * 1024

/** One call that writes several rows takes half the time. */
const rowsAtOnce = 16
/** A line of a statement may have a mebibyte, so these are not many. */
const rowsReadAtOnce = 100

const schema = `
  PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;
  PRAGMA cache_size = -${cacheKibibytes}; PRAGMA temp_store = FILE;
  CREATE TABLE lines (line INTEGER PRIMARY KEY, key TEXT, day INTEGER, amount, fee);
  CREATE TABLE pending (line INTEGER PRIMARY KEY, amount TEXT, fee TEXT, day TEXT);
  CREATE TABLE records (id TEXT, key TEXT, due INTEGER, amount);
  CREATE TABLE sums (unit INTEGER PRIMARY KEY, key TEXT, day INTEGER, amount, due INTEGER, records INTEGER, known);
  CREATE TABLE sum_records (unit INTEGER, place INTEGER, record INTEGER, PRIMARY KEY (unit, place)) WITHOUT ROWID;
  CREATE TABLE sorted_lines (at INTEGER PRIMARY KEY, line INTEGER, key TEXT, day INTEGER, amount, fee);
  CREATE TABLE sorted_records (at INTEGER PRIMARY KEY, id TEXT, key TEXT, day INTEGER, due INTEGER, amount);
  CREATE TABLE left_lines (line INTEGER);
  CREATE TABLE left_units (unit INTEGER);
  ${
  entryClasses.map((found) =>
    `CREATE TABLE ${entriesIn(found)} (entry INTEGER PRIMARY KEY, why TEXT, line INTEGER, unit INTEGER);`
  ).join("")
}
  CREATE TABLE several (entry INTEGER PRIMARY KEY, lines INTEGER, records INTEGER, there, fee, here);
  CREATE TABLE entry_lines (entry INTEGER, place INTEGER, line INTEGER, PRIMARY KEY (entry, place)) WITHOUT ROWID;
  CREATE TABLE entry_units (entry INTEGER, place INTEGER, unit INTEGER, PRIMARY KEY (entry, place)) WITHOUT ROWID;
  BEGIN;`

export type Row = ReadonlyArray<SQLOutputValue>

export class Ledger {
  readonly #db = new DatabaseSync("")
  #entries = 0
  readonly #statements = new Map<string, StatementSync>()
  /** Rows that are not written yet, by table. */
  readonly #waiting = new Map<string, Array<ReadonlyArray<SQLInputValue>>>()

  constructor() {
    this.#db.exec(schema)
  }

  close(): void {
    this.#db.close()
  }

  addLine({ amount, day, fee, key, line }: LedgerLine): void {
    this.insert("lines", line, key, day, stored(amount), stored(fee))
  }

  addRecord({ amount, day, id, isDayUnread, key }: LedgerRecord): void {
    this.insert("records", id, key, isDayUnread ? unreadDay : day, stored(amount))
  }

  /**
   * Sorts both sides by their keys, so that everything after it reads them in the order of the disk. From then on, a
   * line and a record are named by their places in this order.
   */
  sortSides(isGrouped: boolean): void {
    this.run(
      `INSERT INTO sorted_lines (line, key, day, amount, fee)
      SELECT line, key, day, amount, fee FROM lines ORDER BY key, amount, day, line`
    )
    this.run("DELETE FROM lines")
    this.run(
      `INSERT INTO sorted_records (id, key, day, due, amount)
      SELECT id, key, nullif(due, ${unreadDay}) AS day, due, amount FROM records
      ORDER BY key, ${isGrouped ? "day" : "amount, day"}, id`
    )
    this.run("DELETE FROM records")
  }

  /** Adds an entry of lines and units. One with at most one of each, as most are, has the amounts of these two. */
  addEntry(entry: LedgerEntry): void {
    const { lines, records, units, why } = entry
    const number = ++this.#entries
    const into = entriesIn(entry.class)
    if (lines.length <= 1 && units.length <= 1) {
      this.insert(into, number, why, lines[0] ?? null, units[0] ?? null)
      return
    }
    this.insert(into, number, why, null, null)
    this.insert("several", number, lines.length, records, stored(entry.there), stored(entry.fee), stored(entry.here))
    for (const [place, line] of lines.entries()) this.insert("entry_lines", number, place, line)
    for (const [place, unit] of units.entries()) this.insert("entry_units", number, place, unit)
  }

  /** Adds a row with all columns of a table. */
  insert(into: string, ...values: ReadonlyArray<SQLInputValue>): void {
    const waiting = this.#waiting.get(into) ?? []
    if (waiting.length === 0) this.#waiting.set(into, waiting)
    waiting.push(values)
    if (waiting.length === rowsAtOnce) this.#write(into, waiting)
  }

  run(sql: string, ...values: ReadonlyArray<SQLInputValue>): void {
    this.#writeWaiting()
    this.#prepared(sql).run(...values)
  }

  get(sql: string, ...values: ReadonlyArray<SQLInputValue>): Row {
    for (const row of this.rows(sql, ...values)) return row
    return []
  }

  /** Returns the rows as arrays. Integers are bigints. A statement must not run again before its rows are read. */
  rows(sql: string, ...values: ReadonlyArray<SQLInputValue>): Generator<Row, void> {
    this.#writeWaiting()
    // By `setReturnArrays`, rows are arrays.
    return rowsOf(this.#prepared(sql), values) as Generator<never, void>
  }

  /**
   * Returns the rows of a query that ends with `> ? ORDER BY ...`, both of its first column. Its values are positive and
   * unique, such as places and numbers of entries. Reading many rows in one call takes two thirds of the time.
   */
  *ordered(sql: string): Generator<Row, void> {
    this.#writeWaiting()
    for (let last: SQLInputValue = 0;;) {
      // By `setReturnArrays`, rows are arrays.
      const rows = this.#prepared(`${sql} LIMIT ${rowsReadAtOnce}`).all(last) as unknown as ReadonlyArray<Row>
      yield* rows
      if (rows.length < rowsReadAtOnce) return
      last = rows.at(-1)?.[0] ?? null
    }
  }

  #writeWaiting(): void {
    for (const [into, waiting] of this.#waiting) this.#write(into, waiting)
  }

  #write(into: string, waiting: ReadonlyArray<ReadonlyArray<SQLInputValue>>): void {
    this.#waiting.delete(into)
    const row = `(${waiting[0]?.map(() => "?").join(", ") ?? ""})`
    this.#prepared(`INSERT INTO ${into} VALUES ${waiting.map(() => row).join(", ")}`).run(...waiting.flat())
  }

  #prepared(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.#db.prepare(sql)
    statement.setReadBigInts(true)
    statement.setReturnArrays(true)
    this.#statements.set(sql, statement)
    return statement
  }
}

export const stored = (amount: bigint | null): bigint | string | null =>
  amount === null || BigInt.asIntN(64, amount) === amount ? amount : String(amount)

/** Returns the amount in a column. */
export const amountIn = (value: SQLOutputValue | undefined): bigint | null =>
  typeof value === "bigint" ? value : typeof value === "string" ? BigInt(value) : null

export const numberIn = (value: SQLOutputValue | undefined): number | null =>
  typeof value === "bigint" ? Number(value) : null

/** Returns one text for the values of a key, or null if one of them is null or empty: such a key equals none. */
export const keyText = (values: ReadonlyArray<string | null>): string | null => {
  const texts = values.map((value) => value?.trim() ?? "")
  if (texts.includes("")) return null
  return texts.length === 1 ? texts[0] ?? null : JSON.stringify(texts)
}

/** Returns the values of a key. */
export const keyValues = (key: string | null, count: number): ReadonlyArray<string | null> =>
  key === null
    ? Array.from({ length: count }, () => null)
    // `keyText` made it.
    : count === 1
    ? [key]
    : JSON.parse(key) as ReadonlyArray<string>

/** Returns the error of a ledger that cannot be written, because the disk is full for example; undefined for others. */
export const ledgerError = (error: unknown): SinkError | undefined => {
  // Errors of the statement's own file have no code of SQLite.
  const reason = error instanceof Error && "errcode" in error && !isStatementError(error) ? reasonOf(error) : undefined
  return reason === undefined
    ? undefined
    : new SinkError({ location: "the folder for temporary files (TMPDIR)", reason })
}
