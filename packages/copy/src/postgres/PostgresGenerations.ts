/**
 * The generations of a PostgreSQL schema. Every commit compares the server with the one that the current generation was written
 * by: after a failover to another server, changes may be lost, and their numbers are given again.
 */
import { Effect } from "effect"
import { type ChangeRange, isLost, type KnownChange, type Lineage, newName } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import { generationVersion } from "../store/Migrations.ts"
import { readNumber, readOptional, readText, type Row, toChangeRange, toGeneration } from "../store/Rows.ts"
import type { NewGeneration } from "../store/Store.ts"
import { iso, type PostgresClient, type Query } from "./PostgresClient.ts"

/** SQL for the identifier of the database system and its timeline, which every failover to a standby increments. */
const originSql =
  `(SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)`

/** SQL for the identity of a server that does not show it. */
export const unknownOrigin = "NULL::text"

/** Returns SQL for the server's identity, or for NULL if the server does not show it to this user. */
export const originOf = (once: Query): Effect.Effect<string, SinkError> =>
  once(`SELECT ${originSql} AS origin`).pipe(
    Effect.as(originSql),
    // A managed server may lack the functions, or deny them.
    Effect.catchIf(({ reason }) => reason._tag === "Failed", () => Effect.succeed(unknownOrigin))
  )

/**
 * Asks whether the schema has the tables of a version. Readers may read schemas of earlier versions. No migration removes tables, so
 * a yes is remembered.
 */
export const hasVersion = (query: Query, s: string, version: number): Effect.Effect<boolean, SinkError> => {
  let has = false
  return Effect.suspend(() =>
    has ? Effect.succeed(true) : Effect.map(
      query(`SELECT version FROM ${s}.destination`),
      ([row]) => has = readNumber(row, "version") >= version
    )
  )
}

/** Makes the functions that read generations. */
export const generationsOver = (query: Query, s: string) => {
  const hasGenerations = hasVersion(query, s, generationVersion)
  return {
    hasGenerations,
    lineage: Effect.flatMap(hasGenerations, (has) => has ? lineageIn(query, s) : Effect.succeed([])),
    changeRange: Effect.flatMap(hasGenerations, (has) => rangeIn(query, s, has))
  }
}

/** SQL for the generation of a change or a position in a column. NULL is the first generation. */
export const ownGeneration = (s: string, column = "generation"): string =>
  `coalesce(${column}, (SELECT generation FROM ${s}.generations WHERE number = 1))`

/** Returns the generations, the current one last. */
export const lineageIn = (query: Query, s: string): Effect.Effect<Lineage, SinkError> =>
  Effect.map(
    query(`SELECT generation, began_after, ${iso("began_at")}, reason FROM ${s}.generations ORDER BY number`),
    (rows) => rows.map(toGeneration)
  )

/** Returns which changes the schema has. */
export const rangeIn = (query: Query, s: string, hasGenerations = true): Effect.Effect<ChangeRange, SinkError> =>
  Effect.map(
    query(
      `SELECT ${hasGenerations ? "generation" : "NULL AS generation"},
        coalesce((SELECT seq FROM ${s}.changes_pruned), 0) AS pruned, changes AS last FROM ${s}.destination`
    ),
    ([row]) => toChangeRange(row)
  )

/** Begins a generation. The lock of the row of `destination` excludes commits that take numbers of changes. */
export const beginIn = Effect.fnUntraced(function*(
  query: Query,
  s: string,
  { after, instead, now, origin, reason }: NewGeneration & { readonly origin?: string | undefined }
): Effect.fn.Return<Lineage, SinkError> {
  const [row] = yield* query(`SELECT generation, changes FROM ${s}.destination FOR UPDATE`)
  if (instead === undefined || instead === readOptional(row, "generation")) {
    const last = readNumber(row, "changes")
    const name = newName()
    const beganAfter = String(Math.min(after ?? last, last))
    yield* query(
      `INSERT INTO ${s}.generations (number, generation, began_after, began_at, reason, origin)
      SELECT max(number) + 1, $1, $2::bigint, $3::timestamptz, $4, $5 FROM ${s}.generations`,
      [name, beganAfter, now, reason, origin ?? null]
    )
    yield* query(`UPDATE ${s}.destination SET generation = $1`, [name])
    yield* query(`UPDATE ${s}.changes SET generation = $1 WHERE seq > $2::bigint`, [name, beganAfter])
  }
  return yield* lineageIn(query, s)
})

/** What a commit knows about the numbers of changes when it starts. */
export interface Numbering {
  readonly generation: string
  /** The number of the last change. */
  readonly last: number
  /** The server that wrote the current generation, and this one; undefined if unknown. */
  readonly writtenBy: string | undefined
  readonly origin: string | undefined
  /** The last change that this program knew before. */
  readonly known: KnownChange | undefined
}

/** SQL for the row of `destination` as JSON, with the server that wrote the current generation, and this one. */
export const numberingSql = (s: string, origin: string): string =>
  `(SELECT json_build_object('generation', d.generation, 'last', d.changes, 'origin', ${origin},
    'writtenBy', (SELECT g.origin FROM ${s}.generations AS g WHERE g.generation = d.generation))::text
    FROM ${s}.destination AS d) AS numbering`

/** Converts a row with {@link numberingSql}. */
export const toNumbering = (row: Row, known: KnownChange | undefined): Numbering => {
  const { generation, last, origin, writtenBy } = JSON.parse(readText(row, "numbering"))
  return { generation, last, origin: origin ?? undefined, writtenBy: writtenBy ?? undefined, known }
}

/**
 * Begins a generation if the server is not the one that wrote the current one, or if this program knows a higher number of a change.
 * Returns the generation and the number before the changes of this transaction. Usually runs no statement.
 */
export const ensureGeneration = Effect.fnUntraced(function*(
  query: Query,
  s: string,
  { generation, known, last, origin, writtenBy }: Numbering,
  now: string
): Effect.fn.Return<KnownChange, SinkError> {
  const current = { generation, seq: last }
  if (origin !== undefined && writtenBy === undefined) {
    yield* query(`UPDATE ${s}.generations SET origin = $1 WHERE generation = $2 AND origin IS NULL`, [
      origin,
      generation
    ])
  }
  const isOtherServer = origin !== undefined && writtenBy !== undefined && origin !== writtenBy
  const mayBeLost = known !== undefined && (known.generation !== generation || last < known.seq)
  if (!isOtherServer && !(mayBeLost && isLost(known, yield* lineageIn(query, s), last))) return current
  const reason = isOtherServer ? "server" : "writer"
  const lineage = yield* beginIn(query, s, { reason, instead: generation, now, origin })
  return { ...current, generation: lineage.at(-1)?.generation ?? generation }
})

/** The function of `Maintenance` that begins a generation. */
export const beginOver = (
  { once, transaction }: Pick<PostgresClient, "once" | "transaction">,
  s: string
) =>
(begin: NewGeneration): Effect.Effect<Lineage, SinkError> =>
  Effect.flatMap(originOf(once), (originText) =>
    transaction(Effect.fnUntraced(function*(query) {
      const [row] = yield* query(`SELECT ${originText} AS origin`)
      return yield* beginIn(query, s, { ...begin, origin: readOptional(row, "origin") })
    })))
