/** The tables of hand-offs. */
import { Effect } from "effect"
import type { SinkError } from "../port/Sink.ts"
import type { ConsumerMoved } from "../store/ConsumerMove.ts"
import type { Handoff, HandoffBatch, HandoffSkip, HandoffStore } from "../store/HandoffStore.ts"
import { handoffVersion } from "../store/Migrations.ts"
import { readNumber, readOptional, readOptionalNumber, readText, type Row } from "../store/StoredRows.ts"
import { moveConsumerIn } from "./SqlConsumers.ts"
import { readTime } from "./SqlDialect.ts"
import { hasVersion, requireVersion } from "./SqlGenerations.ts"
import { integer, join, raw, schema, type Sql, sql, type SqlDatabase, time } from "./SqlStatement.ts"

/** The functions of {@link HandoffStore}. */
export const handoffsOver = (database: SqlDatabase): HandoffStore => ({
  handoffs: Effect.flatMap(
    hasVersion(database, handoffVersion),
    (has) => has ? handoffsIn(database) : Effect.succeed([])
  ),
  takeOverHandoff: (consumer) =>
    database.transaction(
      "shared",
      Effect.fnUntraced(function*(db) {
        yield* requireVersion(db, handoffVersion)
        yield* db.run(
          sql`INSERT INTO ${schema}.handoffs AS h (consumer, epoch, state, attempts) VALUES (${consumer}, 1, 'running', 0)
            ON CONFLICT (consumer) DO UPDATE SET epoch = h.epoch + 1`
        )
        return yield* handoffIn(db, consumer)
      })
    ),
  changeHandoff: ({ change, consumer, epoch, move, skip }) =>
    database.transaction(
      "shared",
      Effect.fnUntraced(function*(db) {
        yield* requireVersion(db, handoffVersion)
        // The locks exclude other senders until the commit. A removal of the consumer locks in the same order.
        if (db.dialect === "postgres") {
          yield* db.all(sql`SELECT name FROM ${schema}.consumers WHERE name = ${consumer} FOR NO KEY UPDATE`)
          yield* db.all(sql`SELECT consumer FROM ${schema}.handoffs WHERE consumer = ${consumer} FOR UPDATE`)
        }
        const [stored] = yield* handoffsIn(db, consumer)
        if (stored === undefined || (epoch !== undefined && stored.epoch !== epoch)) {
          return { handoff: undefined, moved: undefined }
        }
        const changed = change(stored)
        if (changed === undefined) return { handoff: stored, moved: undefined }
        const moved: ConsumerMoved | undefined = move === undefined ? undefined : yield* moveConsumerIn(db, move)
        if (moved !== undefined && !hasMoved(moved)) return { handoff: stored, moved }
        if (skip !== undefined) yield* writeSkip(db, consumer, skip)
        yield* write(db, consumer, changed)
        if (moved !== undefined) yield* removePruned(db, consumer)
        return { handoff: yield* handoffIn(db, consumer), moved }
      })
    ),
  handoffBatch: (consumer, { after, generation }) =>
    database.read(
      sql`SELECT ${batchColumns} FROM ${schema}.handoff_batches AS b
        WHERE consumer = ${consumer} AND generation = ${generation} AND after_seq = ${after}`,
      ([row]) => row === undefined ? undefined : toBatch(row)
    ),
  handoffSkips: (consumer) =>
    database.read(
      sql`SELECT generation, seq, reason, by, ${readTime("skipped_at")} FROM ${schema}.handoff_skips
        WHERE consumer = ${consumer} ORDER BY seq`,
      (rows) => rows.map(toSkip)
    )
})

const hasMoved = ({ verdict }: ConsumerMoved): boolean => verdict._tag === "move" || verdict._tag === "stay"

const batchColumns = sql`b.generation, b.after_seq, b.first_seq, b.last_seq, b.list, b.changes, b.selection, b.nonce, ${
  join(["stored_at", "scanned_at"].map(readTime))
}`

const handoffsIn = (db: Sql, consumer?: string): Effect.Effect<ReadonlyArray<Handoff>, SinkError> =>
  db.read(
    sql`SELECT h.consumer, h.epoch, h.state, h.reason, h.attempts, h.most_changes, h.suspect_through,
        ${join(["first_attempt_at", "next_attempt_at"].map(readTime))}, ${batchColumns}
      FROM ${schema}.handoffs AS h LEFT JOIN ${schema}.handoff_batches AS b
        ON b.consumer = h.consumer AND b.generation = h.batch_generation AND b.after_seq = h.batch_after
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
  if (batch !== undefined) yield* writeBatch(db, consumer, batch)
  yield* db.run(
    sql`UPDATE ${schema}.handoffs SET state = ${state}, reason = ${reason ?? null}, attempts = ${attempts},
        batch_generation = ${batch?.generation ?? null}, batch_after = ${integer(batch?.after ?? null)},
        first_attempt_at = ${time(firstAttemptAt ?? null)}, next_attempt_at = ${time(nextAttemptAt ?? null)},
        most_changes = ${integer(mostChanges ?? null)}, suspect_through = ${integer(suspectThrough ?? null)}
      WHERE consumer = ${consumer}`
  )
})

/** A smaller batch replaces the one after the same change. An equal one stays. */
const writeBatch = (db: Sql, consumer: string, batch: HandoffBatch): Effect.Effect<void, SinkError> =>
  db.run(
    sql`INSERT INTO ${schema}.handoff_batches AS b
        (consumer, generation, after_seq, first_seq, last_seq, list, changes, selection, nonce, stored_at, scanned_at)
      VALUES (${consumer}, ${batch.generation}, ${batch.after}, ${batch.first}, ${batch.last}, ${batch.list},
        ${batch.changes}, ${batch.selection}, ${batch.nonce}, ${time(batch.storedAt)}, ${time(batch.scannedAt ?? null)})
      ON CONFLICT (consumer, generation, after_seq) DO UPDATE SET first_seq = excluded.first_seq,
        last_seq = excluded.last_seq, list = excluded.list, changes = excluded.changes,
        selection = excluded.selection, nonce = excluded.nonce, stored_at = excluded.stored_at, scanned_at = excluded.scanned_at WHERE b.nonce <> excluded.nonce`
  )

const writeSkip = (db: Sql, consumer: string, skip: HandoffSkip): Effect.Effect<void, SinkError> =>
  db.run(
    sql`INSERT INTO ${schema}.handoff_skips (consumer, generation, seq, reason, by, skipped_at)
      VALUES (${consumer}, ${skip.generation}, ${skip.seq}, ${skip.reason}, ${skip.by}, ${time(skip.at)})
      ON CONFLICT (consumer, generation, seq) DO NOTHING`
  )

/** Removes the boundaries of batches whose changes were removed: they cannot be sent again. */
const removePruned = (db: Sql, consumer: string): Effect.Effect<void, SinkError> =>
  db.run(
    sql`DELETE FROM ${schema}.handoff_batches
      WHERE consumer = ${consumer} AND last_seq <= (SELECT seq FROM ${schema}.changes_pruned)`
  )

const toHandoff = (row: Row): Handoff => ({
  consumer: readText(row, "consumer"),
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

const toSkip = (row: Row): HandoffSkip => ({
  generation: readText(row, "generation"),
  seq: readNumber(row, "seq"),
  reason: readText(row, "reason"),
  by: readText(row, "by"),
  at: readText(row, "skipped_at")
})
