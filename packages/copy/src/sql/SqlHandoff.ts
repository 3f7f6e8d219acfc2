/** The tables of hand-offs. */
import { Effect } from "effect"
import type { SinkError } from "../port/Sink.ts"
import type { ConsumerMove, ConsumerMoved } from "../store/ConsumerMove.ts"
import type {
  Handoff,
  HandoffAside,
  HandoffBatch,
  HandoffChange,
  HandoffSkip,
  HandoffStore
} from "../store/HandoffStore.ts"
import { attemptsVersion, handoffVersion } from "../store/Migrations.ts"
import { readNumber, readOptional, readOptionalNumber, readText, type Row } from "../store/StoredRows.ts"
import { moveConsumerIn } from "./SqlConsumers.ts"
import { readTime } from "./SqlDialect.ts"
import { hasVersion, ownGeneration, rangeIn, requireVersion } from "./SqlGenerations.ts"
import { Given, integer, join, raw, schema, type Sql, sql, type SqlDatabase, time } from "./SqlStatement.ts"

/** Reads the hand-offs. */
export const storedHandoffs = (db: Sql): HandoffStore["handoffs"] =>
  Effect.flatMap(hasVersion(db, handoffVersion), (has) => has ? handoffsIn(db) : Effect.succeed([]))

/** The functions of {@link HandoffStore}. */
export const handoffsOver = (database: SqlDatabase): HandoffStore => ({
  handoffs: storedHandoffs(database),
  takeOverHandoff: (consumer) =>
    database.transaction(
      "shared",
      Effect.fnUntraced(function*(db) {
        yield* requireVersion(db, attemptsVersion)
        yield* db.run(
          sql`INSERT INTO ${schema}.handoffs AS h (consumer, epoch, state, attempts) VALUES (${consumer}, 1, 'running', 0)
            ON CONFLICT (consumer) DO UPDATE SET epoch = h.epoch + 1`
        )
        return yield* handoffIn(db, consumer)
      })
    ),
  changeHandoff: ({ boundaries = [], change, consumer, createdAt, epoch, from, move, skip, ...asides }) =>
    database.transaction(
      "shared",
      Effect.fnUntraced(function*(db) {
        yield* requireVersion(db, attemptsVersion)
        // The locks exclude other senders until the commit. A removal of the consumer locks in the same order.
        if (db.dialect === "postgres") {
          yield* db.all(sql`SELECT name FROM ${schema}.consumers WHERE name = ${consumer} FOR NO KEY UPDATE`)
          yield* db.all(sql`SELECT consumer FROM ${schema}.handoffs WHERE consumer = ${consumer} FOR UPDATE`)
        }
        const [stored] = yield* handoffsIn(db, consumer)
        if (
          stored === undefined || (epoch ?? stored.epoch) !== stored.epoch ||
          (createdAt ?? stored.createdAt) !== stored.createdAt
        ) {
          return { handoff: undefined, moved: undefined }
        }
        const changed = change(stored)
        if (changed === undefined) return { handoff: stored, moved: undefined }
        if (skip !== undefined && asides.settledAside !== undefined) {
          const refused = (yield* asidesIn(db, consumer)).filter(({ isRefused }) => isRefused)
          const isWaiting = refused.some(({ generation, seq }) => generation === skip.generation && seq === skip.seq)
          if (!isWaiting) return { handoff: stored, moved: undefined }
        }
        if (move !== undefined && from !== undefined && (yield* isMovedBack(db, move, from))) {
          return { handoff: stored, moved: undefined }
        }
        const moved: ConsumerMoved | undefined = move === undefined ? undefined : yield* moveConsumerIn(db, move)
        if (moved !== undefined && !hasMoved(moved)) return { handoff: stored, moved }
        if (skip !== undefined) yield* writeSkip(db, consumer, skip)
        yield* changeAsides(db, consumer, asides)
        yield* writeBatches(db, consumer, [...changed.batch === undefined ? [] : [changed.batch], ...boundaries])
        yield* write(db, consumer, changed)
        if (moved !== undefined) yield* removePruned(db, consumer)
        return { handoff: yield* handoffIn(db, consumer), moved }
      })
    ),
  handoffBatches: (consumer, { after, count, generation, selection }) =>
    database.read(
      sql`SELECT ${batchColumns} FROM ${schema}.handoff_batches AS b
        WHERE consumer = ${consumer} AND generation = ${generation} AND first_seq > ${after} AND selection = ${selection}
        ORDER BY first_seq LIMIT ${count}`,
      (rows) => rows.map(toBatch)
    ),
  handoffAsides: (consumer) =>
    Effect.flatMap(
      hasVersion(database, handoffVersion),
      (has) => has ? asidesIn(database, consumer) : Effect.succeed([])
    ),
  handoffSkips: (consumer) =>
    database.read(
      sql`SELECT generation, seq, reason, by, ${readTime("skipped_at")} FROM ${schema}.handoff_skips
        WHERE consumer = ${consumer} ORDER BY seq`,
      (rows) => rows.map(toSkip)
    )
})

const hasMoved = ({ verdict }: ConsumerMoved): boolean => verdict._tag === "move" || verdict._tag === "stay"

/** Whether somebody has moved the consumer back meanwhile. If the destination was restored, `move` has to show it. */
const isMovedBack = Effect.fnUntraced(function*(
  db: Sql,
  { name, position }: ConsumerMove,
  from: number
): Effect.fn.Return<boolean, SinkError> {
  const { generation, last } = yield* rangeIn(db)
  return yield* db.read(
    sql`SELECT ${ownGeneration} AS generation, position FROM ${schema}.consumers WHERE name = ${name}`,
    ([row]) =>
      row !== undefined && readOptional(row, "generation") === generation && readNumber(row, "position") < from &&
      position <= last
  )
})

const batchColumns = sql`b.generation, b.after_seq, b.first_seq, b.last_seq, b.list, b.changes, b.selection, b.nonce, ${
  join(["stored_at", "scanned_at"].map(readTime))
}`

const handoffsIn = (db: Sql, consumer?: string): Effect.Effect<ReadonlyArray<Handoff>, SinkError> =>
  db.read(
    sql`SELECT h.consumer, h.epoch, h.state, h.reason, h.attempts, h.most_changes, h.suspect_through,
        ${join(["created_at", "first_attempt_at", "next_attempt_at"].map(readTime))}, ${batchColumns}
      FROM ${schema}.handoffs AS h JOIN ${schema}.consumers AS c ON c.name = h.consumer LEFT JOIN ${schema}.handoff_batches AS b
        ON b.consumer = h.consumer AND b.generation = h.batch_generation AND b.first_seq = h.batch_first
      WHERE ${consumer === undefined ? raw("true") : sql`h.consumer = ${consumer}`} ORDER BY h.consumer`,
    (rows) => rows.map(toHandoff)
  )

/** Returns the hand-off of a consumer that has one. */
const handoffIn = (db: Sql, consumer: string): Effect.Effect<Handoff, SinkError> =>
  Effect.flatMap(
    handoffsIn(db, consumer),
    ([found]) => found === undefined ? Effect.die(new Error("the hand-off was not stored")) : Effect.succeed(found)
  )

const write = Effect.fnUntraced(function*(
  db: Sql,
  consumer: string,
  { attempts, batch, firstAttemptAt, mostChanges, nextAttemptAt, reason, state, suspectThrough }: Handoff
): Effect.fn.Return<void, SinkError> {
  yield* db.run(
    sql`UPDATE ${schema}.handoffs SET state = ${state}, reason = ${reason ?? null}, attempts = ${attempts},
        batch_generation = ${batch?.generation ?? null}, batch_first = ${integer(batch?.first ?? null)},
        first_attempt_at = ${time(firstAttemptAt ?? null)}, next_attempt_at = ${time(nextAttemptAt ?? null)},
        most_changes = ${integer(mostChanges ?? null)}, suspect_through = ${integer(suspectThrough ?? null)}
      WHERE consumer = ${consumer}`
  )
})

/** Another batch replaces the one that begins with the same change. An equal one stays. */
const writeBatches = (
  db: Sql,
  consumer: string,
  batches: ReadonlyArray<HandoffBatch>
): Effect.Effect<void, SinkError> => {
  const { given, names } = givenOf(boundaryColumns, batches)
  return db.run(
    sql`INSERT INTO ${schema}.handoff_batches AS b (consumer, ${raw(names.join(", "))})
      ${given.values(sql`${consumer}, ${given.cells(names)}`)}
      ON CONFLICT (consumer, generation, first_seq) DO UPDATE SET ${
      raw(names.map((name) => `${name} = excluded.${name}`).join(", "))
    } WHERE b.nonce <> excluded.nonce OR b.after_seq <> excluded.after_seq`
  )
}

const boundaryColumns: {
  readonly [name: string]: readonly ["text" | "bigint" | "timestamptz", (batch: HandoffBatch) => string | number | null]
} = {
  generation: ["text", ({ generation }) => generation],
  after_seq: ["bigint", ({ after }) => after],
  first_seq: ["bigint", ({ first }) => first],
  last_seq: ["bigint", ({ last }) => last],
  list: ["text", ({ list }) => list],
  changes: ["bigint", ({ changes }) => changes],
  selection: ["text", ({ selection }) => selection],
  nonce: ["text", ({ nonce }) => nonce],
  stored_at: ["timestamptz", ({ storedAt }) => storedAt],
  scanned_at: ["timestamptz", ({ scannedAt = null }) => scannedAt]
}

const asideColumns: {
  readonly [name: string]: readonly ["text" | "bigint" | "timestamptz", (aside: HandoffAside) => string | number | null]
} = {
  generation: ["text", ({ generation }) => generation],
  seq: ["bigint", ({ seq }) => seq],
  list: ["text", ({ list }) => list],
  id: ["text", ({ id }) => id],
  refused: ["bigint", ({ isRefused }) => Number(isRefused)],
  selection: ["text", ({ selection }) => selection],
  nonce: ["text", ({ nonce }) => nonce],
  stored_at: ["timestamptz", ({ storedAt }) => storedAt],
  scanned_at: ["timestamptz", ({ scannedAt = null }) => scannedAt],
  attempts: ["bigint", ({ attempts }) => attempts],
  first_attempt_at: ["timestamptz", ({ firstAttemptAt = null }) => firstAttemptAt],
  next_attempt_at: ["timestamptz", ({ nextAttemptAt = null }) => nextAttemptAt]
}

const asidesIn = Effect.fnUntraced(function*(
  db: Sql,
  consumer: string
): Effect.fn.Return<ReadonlyArray<HandoffAside>, SinkError> {
  const times = ["first_attempt_at", "next_attempt_at"]
  const attempts = (yield* hasVersion(db, attemptsVersion))
    ? sql`attempts, ${join(times.map(readTime))}`
    : raw(`0 AS attempts, ${times.map((name) => `NULL AS ${name}`).join(", ")}`)
  return yield* db.read(
    sql`SELECT generation, seq, list, id, refused, selection, nonce, ${
      join(["stored_at", "scanned_at"].map(readTime))
    }, ${attempts} FROM ${schema}.handoff_asides WHERE consumer = ${consumer} ORDER BY seq`,
    (rows) => rows.map(toAside)
  )
})

const changeAsides = Effect.fnUntraced(function*(
  db: Sql,
  consumer: string,
  { asides = [], forgetAfter, retriesAsides = false, settledAside }: Pick<
    HandoffChange,
    "asides" | "forgetAfter" | "retriesAsides" | "settledAside"
  >
): Effect.fn.Return<void, SinkError> {
  const { names, given } = givenOf(asideColumns, asides)
  yield* db.run(
    sql`INSERT INTO ${schema}.handoff_asides AS a (consumer, ${raw(names.join(", "))})
      ${given.values(sql`${consumer}, ${given.cells(names)}`)}
      ON CONFLICT (consumer, generation, seq) DO UPDATE SET refused = excluded.refused, attempts = excluded.attempts,
        first_attempt_at = excluded.first_attempt_at, next_attempt_at = excluded.next_attempt_at
      WHERE excluded.refused = 1 AND excluded.attempts = 0 OR excluded.attempts = a.attempts + 1`
  )
  if (retriesAsides) {
    yield* db.run(
      sql`UPDATE ${schema}.handoff_asides SET refused = ${0}, attempts = ${0}, first_attempt_at = NULL,
        next_attempt_at = NULL WHERE consumer = ${consumer}`
    )
  }
  if (settledAside !== undefined) {
    yield* db.run(
      sql`DELETE FROM ${schema}.handoff_asides WHERE consumer = ${consumer}
        AND generation = ${settledAside.generation} AND seq = ${settledAside.seq}`
    )
  }
  if (forgetAfter !== undefined) {
    yield* db.run(
      sql`DELETE FROM ${schema}.handoff_batches WHERE consumer = ${consumer} AND first_seq > ${forgetAfter}`
    )
  }
})

const givenOf = <A>(
  columns: {
    readonly [name: string]: readonly ["text" | "bigint" | "timestamptz", (row: A) => string | number | null]
  },
  rows: ReadonlyArray<A>
) => ({
  names: Object.keys(columns),
  given: new Given(
    Object.fromEntries(Object.entries(columns).map(([name, [type]]) => [name, type])),
    rows.map((row) => Object.values(columns).map(([, valueOf]) => valueOf(row)))
  )
})

/** After a replay, a change can be passed over once more. The last decision is the one that counts. */
const writeSkip = (db: Sql, consumer: string, skip: HandoffSkip): Effect.Effect<void, SinkError> =>
  db.run(
    sql`INSERT INTO ${schema}.handoff_skips (consumer, generation, seq, reason, by, skipped_at)
      VALUES (${consumer}, ${skip.generation}, ${skip.seq}, ${skip.reason}, ${skip.by}, ${time(skip.at)})
      ON CONFLICT (consumer, generation, seq)
        DO UPDATE SET reason = excluded.reason, by = excluded.by, skipped_at = excluded.skipped_at`
  )

/**
 * Removes the boundaries of batches whose changes were removed: they cannot be sent again. It runs once a second, so the
 * conditions are those of the key: a consumer may have a million boundaries.
 */
const removePruned = (db: Sql, consumer: string): Effect.Effect<void, SinkError> =>
  db.run(
    sql`DELETE FROM ${schema}.handoff_batches
      WHERE consumer = ${consumer} AND generation IN (SELECT generation FROM ${schema}.generations)
        AND first_seq <= (SELECT seq FROM ${schema}.changes_pruned) AND last_seq <= (SELECT seq FROM ${schema}.changes_pruned)`
  )

const toHandoff = (row: Row): Handoff => ({
  consumer: readText(row, "consumer"),
  createdAt: readText(row, "created_at"),
  epoch: readNumber(row, "epoch"),
  state: readText(row, "state") as Handoff["state"], // a CHECK of the table ensures this
  reason: readOptional(row, "reason") as Handoff["reason"], // only this program writes the table
  batch: readOptional(row, "nonce") === undefined ? undefined : toBatch(row),
  attempts: readNumber(row, "attempts"),
  firstAttemptAt: readOptional(row, "first_attempt_at"),
  nextAttemptAt: readOptional(row, "next_attempt_at"),
  mostChanges: readOptionalNumber(row, "most_changes"),
  suspectThrough: readOptionalNumber(row, "suspect_through")
})

const toBatch = (row: Row): HandoffBatch => ({
  generation: readText(row, "generation"),
  after: readNumber(row, "after_seq"),
  first: readNumber(row, "first_seq"),
  last: readNumber(row, "last_seq"),
  list: readText(row, "list"),
  changes: readNumber(row, "changes"),
  selection: readText(row, "selection"),
  nonce: readText(row, "nonce"),
  storedAt: readText(row, "stored_at"),
  scannedAt: readOptional(row, "scanned_at")
})

const toAside = (row: Row): HandoffAside => ({
  generation: readText(row, "generation"),
  seq: readNumber(row, "seq"),
  list: readText(row, "list"),
  id: readText(row, "id"),
  isRefused: readNumber(row, "refused") === 1,
  selection: readText(row, "selection"),
  nonce: readText(row, "nonce"),
  storedAt: readText(row, "stored_at"),
  scannedAt: readOptional(row, "scanned_at"),
  attempts: readNumber(row, "attempts"),
  firstAttemptAt: readOptional(row, "first_attempt_at"),
  nextAttemptAt: readOptional(row, "next_attempt_at")
})

const toSkip = (row: Row): HandoffSkip => ({
  generation: readText(row, "generation"),
  seq: readNumber(row, "seq"),
  reason: readText(row, "reason"),
  by: readText(row, "by"),
  at: readText(row, "skipped_at")
})
