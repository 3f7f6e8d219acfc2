/** The stored positions of consumers. */
import { Effect } from "effect"
import { judgeMove, type PositionMove } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import type { ConsumerMove, ConsumerMoved } from "../store/ConsumerMove.ts"
import { generationVersion, handoffVersion } from "../store/Migrations.ts"
import { toPosition } from "../store/StoredRows.ts"
import { hasVersion, lineageIn, ownGeneration, rangeIn, requireVersion } from "./SqlGenerations.ts"
import { either, schema, type Sql, sql, type SqlDatabase, time } from "./SqlStatement.ts"

/** PostgreSQL's conditions for a consumer that exists: its position may have changed since it was judged. */
const mayMove = {
  create: "false",
  forward: "excluded.position > c.position OR excluded.generation IS DISTINCT FROM c.generation",
  any: "true"
} as const

/** Moves a consumer, in a transaction of its own, but not past changes that its hand-off has not sent. */
export const moveConsumer = (database: SqlDatabase) => (move: ConsumerMove): Effect.Effect<ConsumerMoved, SinkError> =>
  database.transaction(
    "shared",
    Effect.fnUntraced(function*(db) {
      yield* requireVersion(db, generationVersion)
      // A sender that moves it meanwhile waits until the commit.
      if (db.dialect === "postgres") {
        yield* db.all(sql`SELECT name FROM ${schema}.consumers WHERE name = ${move.name} FOR NO KEY UPDATE`)
      }
      const isHandedOff = (yield* hasVersion(db, handoffVersion)) &&
        (yield* db.all(sql`SELECT consumer FROM ${schema}.handoffs WHERE consumer = ${move.name}`)).length > 0
      return yield* moveConsumerIn(db, { ...move, isHandedOff })
    })
  )

/** Moves a consumer, in a transaction, if `judgeMove` says so. */
export const moveConsumerIn = Effect.fnUntraced(function*(
  db: Sql,
  { generation, isHandedOff, name, now, position, when }: ConsumerMove & Pick<PositionMove, "isHandedOff">
): Effect.fn.Return<ConsumerMoved, SinkError> {
  yield* requireVersion(db, generationVersion)
  const stored = db.read(
    sql`SELECT ${ownGeneration} AS generation, position FROM ${schema}.consumers WHERE name = ${name}`,
    ([row]) => toPosition(row)
  )
  // A generation that begins meanwhile makes the position outdated, which its generation shows.
  const [range, lineage] = [yield* rangeIn(db), yield* lineageIn(db)]
  const verdict = judgeMove({ generation, isHandedOff, position, when }, yield* stored, range, lineage)
  if (verdict._tag === "move") {
    yield* db.run(
      sql`INSERT INTO ${schema}.consumers AS c (name, generation, position, created_at, moved_at)
        VALUES (${name}, ${range.generation ?? null}, ${position}, ${time(now)}, ${time(now)})
        ON CONFLICT (name) DO UPDATE SET generation = excluded.generation, position = excluded.position,
          moved_at = excluded.moved_at WHERE ${either("true", mayMove[when])}`
    )
  }
  return { verdict, range, lineage, stored: yield* stored }
})
