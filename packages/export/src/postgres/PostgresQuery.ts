/**
 * One statement over a PostgreSQL destination, in a transaction that can write nothing. A cursor takes no statement but one
 * that reads; its columns are turned into text by the server, which alone knows every type exactly.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Option, type Scope, Stream } from "effect"
import type { Cell } from "../Cell.ts"
import type { Answered } from "../query/Query.ts"
import { QueryError, withoutEnd } from "../query/Statement.ts"
import type { SinkError } from "../Sink.ts"
import { connect } from "./PostgresClient.ts"
import { quoted, requireCurrent } from "./PostgresSchema.ts"
import { settingsOf } from "./PostgresSettings.ts"
import type { PostgresUrl } from "./PostgresUrl.ts"

const { bool, float4, float8, int2, int4, int8, numeric, oid } = PgTypes.OID
const numbers: ReadonlySet<number> = new Set([int2, int4, int8, float4, float8, numeric, oid])

/** Rows are asked for by number; fewer of them where they are long. */
const most = { rows: 500, characters: 1_000_000 }

/** Asks the schema, which must be there, until the scope closes. */
export const query = Effect.fnUntraced(function*(
  url: PostgresUrl,
  sql: string
): Effect.fn.Return<Answered, SinkError | QueryError, Scope.Scope> {
  const settings = yield* settingsOf(url)
  const client = yield* connect(settings)
  yield* requireCurrent(client, settings.schema)
  const run = yield* client.readOnly
  yield* run(`SET LOCAL search_path TO ${quoted(settings.schema)}, public`)
  for (const setting of ["DateStyle TO ISO", "TimeZone TO 'UTC'", "IntervalStyle TO iso_8601", "bytea_output TO hex"]) {
    yield* run(`SET LOCAL ${setting}`)
  }
  // As it was typed, so that what the server says of it is about that.
  yield* run(`DECLARE typed NO SCROLL CURSOR FOR ${sql}`)
  const { fields } = yield* run("FETCH 0 FROM typed")
  yield* run("CLOSE typed")
  if (fields.length === 0) return yield* new QueryError({ problem: "The query has no columns." })
  const names = fields.map((_, index) => `c${index}`)
  yield* run(
    `DECLARE exact NO SCROLL CURSOR FOR SELECT ${names.map((name) => `${name}::text`).join(", ")}
    FROM (${withoutEnd(sql)}\n) AS query (${names.join(", ")})`
  )
  const rows = Stream.paginate(1, (count) =>
    Effect.map(run(`FETCH ${count} FROM exact`), ({ rows: found }) => {
      const cells = found.map((row) => fields.map(({ dataTypeId }, index) => cellOf(row[`c${index}`], dataTypeId)))
      let characters = 0
      for (const row of found) for (const name of names) characters += String(row[name] ?? "").length
      const longestRow = Math.max(1, characters / Math.max(1, found.length))
      const next = Math.max(1, Math.min(most.rows, count * 4, Math.floor(most.characters / longestRow)))
      return [found.length === 0 ? [] : [cells], found.length < count ? Option.none() : Option.some(next)] as const
    }))
  return { columns: fields.map(({ name }) => name), rows }
})

const cellOf = (value: unknown, type: number): Cell => {
  if (value === null || value === undefined) return null
  const text = String(value)
  // NaN and Infinity are no JSON.
  return type === bool || (numbers.has(type) && /^-?\d/.test(text)) ? { json: text } : text
}
