/**
 * Keeps a table of another PostgreSQL database equal to the rows of a destination. The table's database stores the
 * position up to which changes are applied, in the transaction that applies them. So a run that is killed at any moment
 * loses and repeats nothing. A destination that was restored from a backup is noticed: its numbers then stand for other
 * changes.
 */
import { Lists } from "@payments/core"
import { Data, Effect, Equal, Result, type Scope, Stream } from "effect"
import * as Destination from "../destination/Destination.ts"
import type { Numbered } from "../port/Generations.ts"
import { NotADestination, SinkError } from "../port/Sink.ts"
import {
  bigintArray,
  booleanArray,
  connect,
  type PostgresClient,
  type Query,
  textArray
} from "../postgres/PostgresClient.ts"
import { settingsOf } from "../postgres/PostgresSettings.ts"
import { parse } from "../postgres/PostgresUrl.ts"
import { quoted } from "../sql/SqlStatement.ts"
import { earlierVersion } from "../store/Migrations.ts"
import type { Snapshot } from "../store/Snapshot.ts"
import type { ChangeRow, Maintenance } from "../store/Store.ts"
import { readNumber, readText } from "../store/StoredRows.ts"
import {
  type BeyondLastChange,
  changesAfter,
  type ChangesLost,
  type ChangesRemoved,
  moveConsumer,
  type OtherGeneration,
  requirePosition
} from "./Consumers.ts"
import { hasList } from "./ExistingColumns.ts"
import { current } from "./PointInTime.ts"

/** What is copied, and where to. */
export interface TableCopyOptions {
  /** The destination of the exports, such as `sqlite:./payments.db`. */
  readonly from: string
  /** The database of the table, `postgres://HOST/DATABASE`. Its password may be in `PGPASSWORD` or `PGPASSFILE`. */
  readonly to: string
  /**
   * The table, or `schema.table`; by default `payments`. It is created if missing, and a table `…_positions` beside it.
   */
  readonly table?: string | undefined
  /** The consumer of the destination whose position follows, so that no change is removed before it is applied. */
  readonly consumer: string
  /** Copies all rows again in one transaction, after changes that the table has were lost in the destination. */
  readonly startAgain?: boolean | undefined
}

/** What a run has done. */
export interface TableCopied {
  /** The generation and number of the last change that is applied. */
  readonly generation: string
  readonly seq: number
  /** The rows that were copied as they are: those of lists that the table did not have. */
  readonly rows: number
  /** The changes that were applied. */
  readonly changes: number
}

/** Why a table cannot be copied. The message says what to do. No message contains a record. */
export class TableCopyError extends Data.TaggedError("TableCopyError")<{
  readonly problem: string
  /** Whether `startAgain` is needed, because changes of the destination are lost or were removed. */
  readonly needsStart: boolean
}> {
  override get message() {
    return this.problem
  }
}

const rowsPerStatement = 1000

/**
 * Copies the rows of all lists that exports have read completely, and later, in each run, the changes since. A list
 * whose first complete export comes later is copied then. The table has the last state of every record, also of missing
 * ones. Its columns are `list`, `id`, `record` (the exact text), `is_missing`, and `seq`, the number of the last change
 * that is applied to it. Only one run at a time copies into a table; another one waits.
 *
 * Fails with {@link TableCopyError} if the table's changes are not those of the destination. The destination was then
 * restored from a backup or failed over. Fails also if changes were removed before they were applied. With
 * `startAgain`, it then copies all rows again.
 */
export const copyToTable = (
  options: TableCopyOptions
): Effect.Effect<TableCopied, TableCopyError | SinkError> =>
  Effect.scoped(copy(options)).pipe(
    Effect.catchTag("ChangesUnsent", ({ message }) => refuse(`consumer: ${message} Choose another name.`)),
    Effect.catchTag(
      ["OtherGeneration", "ChangesLost", "ChangesRemoved", "BeyondLastChange"],
      ({ message }: OtherGeneration | ChangesLost | ChangesRemoved | BeyondLastChange) =>
        Effect.fail(
          new TableCopyError({
            problem: `${message} The table may have changes that the destination lacks. Copy it again: startAgain.`,
            needsStart: true
          })
        )
    )
  )

/** Does the same as {@link copyToTable}, for programs that do not use Effect. Rejects with the same errors. */
export const copyToTablePromise = (options: TableCopyOptions): Promise<TableCopied> =>
  Effect.runPromise(copyToTable(options))

const refuse = (problem: string) => new TableCopyError({ problem, needsStart: false })

const copy = Effect.fnUntraced(
  function*({ consumer, from, startAgain = false, table = "payments", to }: TableCopyOptions) {
    const source = yield* Effect.mapError(Destination.parse(from, "environment"), ({ message }) => refuse(message))
    if (!Destination.isStored(source)) return yield* refuse("from: an export to - (stdout) stores nothing.")
    const url = parse(to)
    if (Result.isFailure(url)) return yield* refuse(`to: ${url.failure}`)
    const maintenance = yield* Destination.maintenance(source)
    if ((yield* maintenance.handoffs).some((handoff) => handoff.consumer === consumer)) {
      return yield* refuse("consumer: the worker moves it, because a hand-off sends its changes. Choose another name.")
    }
    const complete = yield* completeLists(maintenance)
    const snapshot = yield* Destination.snapshot(source)
    const { generation, last } = yield* snapshot.changeRange
    if (generation === undefined) {
      const reason = new NotADestination({ problem: earlierVersion })
      return yield* new SinkError({ location: maintenance.location, reason })
    }
    const now: Numbered & { readonly generation: string } = { generation, seq: last }
    const client = yield* connect(yield* settingsOf(url.success))
    const target = yield* openTarget(table, client)

    const found = yield* positionsIn(client.query, target)
    const stored = startAgain ? new Map<string, Numbered>() : found
    for (const position of stored.values()) {
      // The destination has lost changes. The acknowledgement begins a generation, so that other readers notice it too.
      if (position.seq > last) {
        yield* moveConsumer(maintenance, {
          name: consumer,
          position: position.seq,
          generation: position.generation,
          when: "forward"
        })
      }
      yield* requirePosition(maintenance, position)
    }
    const seqs = [...stored.values()].map(({ seq }) => seq)
    const start = Math.min(last, ...seqs)
    const lists = complete.filter(({ label }) => startAgain || !stored.has(label))
    if (stored.size + lists.length === 0) {
      return yield* refuse(`${maintenance.location}: no export has read a list to its end yet. Run an export first.`)
    }
    // From now on, no change after this number is removed.
    yield* moveConsumer(maintenance, { name: consumer, position: start, generation, when: "forward" })
    const rows = lists.length === 0
      ? 0
      : yield* target.transaction((query) =>
        copyRows(query, { target, snapshot, lists, position: now, startAgain, found })
      )
    if (rows === undefined) return yield* refuse("another run has copied into the table meanwhile. Run again.")
    let changes = 0
    let end = now
    const followed = Lists.all.filter(({ label }) => stored.has(label) || lists.some((list) => list.label === label))
    // Reads from the position of the list that is furthest behind. A change that is applied again changes nothing.
    yield* Stream.runForEach(
      changesAfter(maintenance, start, { lists: followed }),
      Effect.fnUntraced(function*(batch) {
        const position = { generation, seq: batch.through }
        if (batch.generation !== generation) yield* requirePosition(maintenance, position)
        yield* target.transaction((query) =>
          applyChanges(query, { target, changes: batch.rows, lists: followed, position })
        )
        yield* moveConsumer(maintenance, { name: consumer, position: batch.through, generation, when: "forward" })
        changes += batch.rows.length
        end = position
      })
    )
    return { ...end, rows, changes }
  }
)

/** Returns the lists that exports have read to their ends. The others have no `insert` for each of their rows. */
const completeLists = Effect.fnUntraced(function*(maintenance: Maintenance) {
  const existing = yield* Effect.filter(Lists.all, (list) => hasList(maintenance, list))
  return yield* Effect.filter(
    existing,
    (list) => Effect.map(maintenance.state(list), ({ completeScan }) => completeScan !== undefined)
  )
})

interface Target {
  readonly table: string
  readonly positionTable: string
  /** Runs a transaction. Only one at a time writes the table. */
  readonly transaction: <A>(body: (query: Query) => Effect.Effect<A, SinkError>) => Effect.Effect<A, SinkError>
}

const openTarget = Effect.fnUntraced(function*(
  name: string,
  { query, transaction }: PostgresClient
): Effect.fn.Return<Target, SinkError, Scope.Scope> {
  const parts = name.split(".")
  const [table, positionTable] = ["", "_positions"].map((suffix) =>
    parts.map((part, index) => quoted(index === parts.length - 1 ? `${part}${suffix}` : part)).join(".")
  ) as [string, string] // of two suffixes
  const lock = (one: Query) => one("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`payments copy ${table}`])
  const [found] = yield* query("SELECT to_regclass($1) IS NOT NULL AS there", [positionTable])
  // CREATE TABLE IF NOT EXISTS needs the privilege even if the table exists.
  if (found?.["there"] !== true) {
    yield* transaction((one) =>
      Effect.andThen(
        lock(one),
        Effect.forEach([
          `CREATE TABLE IF NOT EXISTS ${table} (
            list text, id text, record json, is_missing boolean NOT NULL, seq bigint NOT NULL, PRIMARY KEY (list, id)
          )`,
          `CREATE TABLE IF NOT EXISTS ${positionTable} (
            list text PRIMARY KEY, generation text NOT NULL, seq bigint NOT NULL
          )`
        ], (statement) => one(statement))
      )
    )
  }
  return {
    table,
    positionTable,
    transaction: (body) => transaction((one) => Effect.andThen(lock(one), body(one)))
  }
})

/** Returns the last applied change of each list. */
const positionsIn = Effect.fnUntraced(function*(query: Query, { positionTable }: Target) {
  const positions = new Map<string, Numbered>()
  for (const row of yield* query(`SELECT list, generation, seq FROM ${positionTable}`)) {
    positions.set(readText(row, "list"), { generation: readText(row, "generation"), seq: readNumber(row, "seq") })
  }
  return positions
})

/** A record of the table. Without a text, the table keeps the text that it has. */
interface TableRow {
  readonly list: string
  readonly id: string
  readonly record: string | undefined
  readonly isMissing: boolean
  readonly seq: number
}

/** Copies the rows of lists, and replaces what the table has of them. Returns undefined if another run has copied. */
const copyRows = Effect.fnUntraced(function*(
  query: Query,
  { found: before, lists, position, snapshot, startAgain, target }: {
    readonly target: Target
    readonly snapshot: Snapshot
    readonly lists: ReadonlyArray<Lists.AnyList>
    readonly position: Numbered
    readonly startAgain: boolean
    /** The positions when this run began. */
    readonly found: ReadonlyMap<string, Numbered>
  }
): Effect.fn.Return<number | undefined, SinkError> {
  const positions = yield* positionsIn(query, target)
  // If the response to COMMIT was lost, this transaction runs again, and finds its own positions.
  const isOwn = lists.every(({ label }) => Equal.equals(positions.get(label), position))
  const isSameAsBefore = Equal.equals(positions, before)
  if (!isOwn && !isSameAsBefore) return undefined
  if (startAgain) { for (const table of [target.table, target.positionTable]) yield* query(`DELETE FROM ${table}`) }
  let copied = 0
  for (const list of lists) {
    yield* query(`DELETE FROM ${target.table} WHERE list = $1`, [list.label])
    const { label } = list
    const rows = current(snapshot).contents(list, "text")
    for (yield* rows.load; rows.current !== undefined; yield* rows.load) {
      const found = rows.takeChunk()
      copied += found.length
      const upserted = found.map(({ content: record, id, missing: isMissing }) => ({
        list: label,
        id,
        record,
        isMissing,
        seq: position.seq
      }))
      yield* upsert(query, target, upserted)
    }
  }
  yield* setPositions(query, target, lists, position)
  return copied
})

/** Applies changes, and notes how far they are applied. */
const applyChanges = Effect.fnUntraced(function*(
  query: Query,
  { changes, lists, position, target }: {
    readonly target: Target
    readonly changes: ReadonlyArray<ChangeRow>
    readonly lists: ReadonlyArray<Lists.AnyList>
    readonly position: Numbered
  }
): Effect.fn.Return<void, SinkError> {
  // One statement may change a row only once, so only the last state of each record is written.
  const rows = new Map<string, TableRow>()
  for (const { after, id, kind, list, seq } of changes) {
    const key = `${list} ${id}`
    rows.set(key, { list, id, record: after ?? rows.get(key)?.record, isMissing: kind === "missing", seq })
  }
  yield* upsert(query, target, [...rows.values()])
  yield* setPositions(query, target, lists, position)
})

/** Writes rows. One whose last change is not earlier stays as it is. */
const upsert = Effect.fnUntraced(function*(
  query: Query,
  { table }: Target,
  rows: ReadonlyArray<TableRow>
): Effect.fn.Return<void, SinkError> {
  for (let from = 0; from < rows.length; from += rowsPerStatement) {
    const some = rows.slice(from, from + rowsPerStatement)
    yield* query(
      `INSERT INTO ${table} AS t (list, id, record, is_missing, seq)
      SELECT u.list, u.id, u.record::json, u.is_missing, u.seq
      FROM unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::bigint[]) AS u (list, id, record, is_missing, seq)
      ON CONFLICT (list, id) DO UPDATE SET record = coalesce(excluded.record, t.record),
        is_missing = excluded.is_missing, seq = excluded.seq WHERE t.seq < excluded.seq`,
      [
        textArray(some.map(({ list }) => list)),
        textArray(some.map(({ id }) => id)),
        textArray(some.map(({ record = null }) => record)),
        booleanArray(some.map(({ isMissing }) => isMissing)),
        bigintArray(some.map(({ seq }) => seq))
      ]
    )
  }
})

/** Notes how far the changes of lists are applied. Another run may have applied later ones. */
const setPositions = (
  query: Query,
  { positionTable }: Target,
  lists: ReadonlyArray<Lists.AnyList>,
  { generation, seq }: Numbered
) =>
  query(
    `INSERT INTO ${positionTable} AS p (list, generation, seq) SELECT u.list, $2, $3::bigint FROM unnest($1::text[]) AS u (list)
    ON CONFLICT (list) DO UPDATE SET generation = excluded.generation, seq = excluded.seq
      WHERE p.seq < excluded.seq OR p.generation <> excluded.generation`,
    [textArray(lists.map(({ label }) => label)), generation ?? null, String(seq)]
  )
