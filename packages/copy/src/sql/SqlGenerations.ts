/**
 * The generations of a destination, and the numbers of its changes. After a restore of a file, or a failover to another
 * server, changes may be lost, and their numbers are given again. So every commit compares the last number with the one
 * that its program knows. In PostgreSQL it also compares the server with the one that wrote the current generation.
 */
import { Effect } from "effect"
import { type ChangeRange, isLost, type KnownChange, type Lineage, newName } from "../port/Generations.ts"
import { NotADestination, type SinkError } from "../port/Sink.ts"
import { earlierVersion } from "../store/Migrations.ts"
import type { NewGeneration } from "../store/Store.ts"
import { readNumber, readOptional, readText, type Row, toChangeRange, toGeneration } from "../store/StoredRows.ts"
import { readTime } from "./SqlDialect.ts"
import { either, fail, raw, schema, type Sql, sql, type Statement, time } from "./SqlStatement.ts"

/** SQL for the number of the last change. It grows also after all changes were removed. */
export const lastChange: Statement = either(
  "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'changes'), 0)",
  sql`(SELECT changes FROM ${schema}.destination)`
)

/** SQL for the name of the current generation. In PostgreSQL, commits lock the row that has it. */
export const currentGeneration: Statement = either(
  sql`(SELECT generation FROM ${schema}.generations ORDER BY number DESC LIMIT 1)`,
  sql`(SELECT generation FROM ${schema}.destination)`
)

/** SQL for the generation of a change or a position. NULL is the first generation. */
export const ownGeneration: Statement =
  sql`coalesce(generation, (SELECT generation FROM ${schema}.generations WHERE number = 1))`

const version = either(
  "SELECT user_version AS version FROM pragma_user_version",
  sql`SELECT version FROM ${schema}.destination`
)

/** Asks whether the destination has the tables of a version. No migration removes tables, so a yes is remembered. */
export const hasVersion = (db: Sql, least: number): Effect.Effect<boolean, SinkError> => {
  let has = false
  return Effect.suspend(() =>
    has ? Effect.succeed(true) : db.read(version, ([row]) => has = readNumber(row, "version") >= least)
  )
}

/** Refuses a destination of an earlier version, which lacks tables or columns. */
export const requireVersion = (db: Sql, least: number): Effect.Effect<void, SinkError> =>
  Effect.flatMap(
    hasVersion(db, least),
    (has) => has ? Effect.void : fail(db, new NotADestination({ problem: earlierVersion }))
  )

/** Returns the generations, the current one last. */
export const lineageIn = (db: Sql): Effect.Effect<Lineage, SinkError> =>
  db.read(
    sql`SELECT generation, began_after, ${readTime("began_at")}, reason FROM ${schema}.generations ORDER BY number`,
    (rows) => rows.map(toGeneration)
  )

export const rangeIn = (db: Sql, hasGenerations = true): Effect.Effect<ChangeRange, SinkError> =>
  db.read(
    sql`SELECT ${hasGenerations ? currentGeneration : raw("NULL")} AS generation,
        coalesce((SELECT seq FROM ${schema}.changes_pruned), 0) AS pruned, ${lastChange} AS last`,
    ([row]) => toChangeRange(row)
  )

/** Begins a generation, in a transaction. */
export const beginIn = Effect.fnUntraced(function*(
  db: Sql,
  { after, instead, now, origin, reason }: NewGeneration & { readonly origin?: string | undefined }
): Effect.fn.Return<Lineage, SinkError> {
  // The lock of the row excludes commits that take numbers of changes. SQLite has one writer.
  if (db.dialect === "postgres") yield* db.run(sql`SELECT FROM ${schema}.destination FOR UPDATE`)
  const { generation, last } = yield* rangeIn(db)
  if (instead === undefined || instead === generation) {
    const [name, beganAfter] = [newName(), Math.min(after ?? last, last)]
    yield* db.run(
      sql`INSERT INTO ${schema}.generations (number, generation, began_after, began_at, reason, origin)
      SELECT max(number) + 1, ${name}, ${beganAfter}, ${time(now)}, ${reason}, ${origin ?? null}
      FROM ${schema}.generations`
    )
    yield* db.run(sql`UPDATE ${schema}.changes SET generation = ${name} WHERE seq > ${beganAfter}`)
    if (db.dialect === "postgres") yield* db.run(sql`UPDATE ${schema}.destination SET generation = ${name}`)
  }
  return yield* lineageIn(db)
})

/** What a commit knows about the numbers of changes when it starts. */
export interface Numbering {
  readonly generation: string
  readonly last: number
  /** The server that wrote the current generation, and this one. Undefined if unknown, and in SQLite. */
  readonly writtenBy: string | undefined
  readonly origin: string | undefined
  /** The last change that this program knew before. */
  readonly known: KnownChange | undefined
}

/** SQL for the columns of {@link toNumbering}. */
export const numberingColumns = (origin: Statement): Statement =>
  sql`${currentGeneration} AS generation, ${lastChange} AS last, ${origin} AS origin,
    (SELECT g.origin FROM ${schema}.generations AS g WHERE g.generation = ${currentGeneration}) AS written_by`

export const toNumbering = (row: Row | undefined, known: KnownChange | undefined): Numbering => ({
  generation: readText(row, "generation"),
  last: readNumber(row, "last"),
  writtenBy: readOptional(row, "written_by"),
  origin: readOptional(row, "origin"),
  known
})

/**
 * Begins a generation in two cases: another server wrote the current one, or this program knows a higher number of a
 * change. Returns the generation and the number before the changes of this transaction. Usually runs no statement.
 */
export const ensureGeneration = Effect.fnUntraced(function*(
  db: Sql,
  { generation, known, last, origin, writtenBy }: Numbering,
  now: string
): Effect.fn.Return<KnownChange, SinkError> {
  const current = { generation, seq: last }
  if (origin !== undefined && writtenBy === undefined) {
    yield* db.run(
      sql`UPDATE ${schema}.generations SET origin = ${origin} WHERE generation = ${generation} AND origin IS NULL`
    )
  }
  const isOtherServer = origin !== undefined && writtenBy !== undefined && origin !== writtenBy
  const mayBeLost = known !== undefined && (known.generation !== generation || last < known.seq)
  if (!isOtherServer && !(mayBeLost && isLost(known, yield* lineageIn(db), last))) return current
  const reason = isOtherServer ? "server" : "writer"
  const lineage = yield* beginIn(db, { reason, instead: generation, now, origin })
  return { ...current, generation: lineage.at(-1)?.generation ?? generation }
})
