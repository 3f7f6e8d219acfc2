/**
 * Runs one statement over a PostgreSQL destination, in a read-only transaction. A cursor accepts only a statement that
 * reads. The server converts the columns to text, because only the server knows every type exactly.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Option, type Scope, Stream } from "effect"
import type { SinkError } from "../port/Sink.ts"
import { quoted } from "../sql/SqlStatement.ts"
import type { AsOf } from "../statement/AsOf.ts"
import { QueryError, type QueryResult, trimStatementEnd } from "../statement/Statement.ts"
import type { Cell } from "../text/Cell.ts"
import { ctesOf, requireHistory, requireIntact, type Run } from "./PostgresAsOf.ts"
import { connect, type Result } from "./PostgresClient.ts"
import { requireReadable } from "./PostgresSchema.ts"
import { settingsOf } from "./PostgresSettings.ts"
import type { PostgresUrl } from "./PostgresUrl.ts"

const { bool, float4, float8, int2, int4, int8, numeric, oid } = PgTypes.OID
const numbers: ReadonlySet<number> = new Set([int2, int4, int8, float4, float8, numeric, oid])

/** Limits of one FETCH. Long rows are fetched in smaller numbers. */
const fetchLimit = { rows: 500, characters: 1_000_000 }

/** The memory of a join. It fits the values of a hundred thousand changed rows. */
const joinBytes = 64 * 1024 * 1024

interface Asked {
  readonly sql: string
  readonly parameters: ReadonlyArray<string>
}

/** Runs a statement over a schema that exists. The cursor stays open until the scope closes. */
export const query = Effect.fnUntraced(function*(
  url: PostgresUrl,
  sql: string,
  parameters: ReadonlyArray<string> = []
): Effect.fn.Return<QueryResult, SinkError | QueryError, Scope.Scope> {
  const { run } = yield* open(url, sql, "readOnly")
  // Declare the statement as the user typed it first, so that positions in the server's messages fit that text.
  const fields = yield* fieldsOf(run, { sql, parameters })
  return yield* rowsOf(run, fields, { ctes: "", sql, parameters })
})

/** Runs a statement over the rows as of a point. */
export const queryAsOf = Effect.fnUntraced(function*(
  url: PostgresUrl,
  { asOf, parameters, sql }: Asked & { readonly asOf: AsOf }
): Effect.fn.Return<QueryResult, SinkError | QueryError, Scope.Scope> {
  const { run, schema } = yield* open(url, sql, "readOnlySnapshot")
  // With less memory, the server would write all rows to its disk to join them with the changed ones.
  yield* run(
    `SELECT set_config('work_mem', greatest(pg_size_bytes(current_setting('work_mem')), ${joinBytes}) / 1024 || 'kB', true)`
  )
  // Otherwise the server expects that only the first rows are fetched.
  yield* run("SET LOCAL cursor_tuple_fraction TO 1")
  const { empty, filled } = yield* ctesOf(run, schema, sql, asOf)
  const fields = yield* fieldsOf(run, {
    sql: `${empty} SELECT * FROM (${trimStatementEnd(sql)}\n) AS query`,
    parameters
  })
  yield* requireHistory(run)
  yield* requireIntact(run, schema, asOf)
  return yield* rowsOf(run, fields, {
    ctes: yield* filled(yield* hasJoinIn(run, { sql, parameters })),
    sql,
    parameters
  })
})

/** Whether the server joins rows for the statement, which it plans over the rows of now. */
const hasJoinIn = (run: Run, { parameters, sql }: Asked): Effect.Effect<boolean, SinkError | QueryError> =>
  Effect.map(
    run(`EXPLAIN (COSTS OFF) ${sql}`, parameters),
    ({ rows }) =>
      rows.some((row) => /^\W*(?:Parallel )?(?:Nested Loop|(?:Hash|Merge) .*Join)/.test(String(row["QUERY PLAN"])))
  )

const open = Effect.fnUntraced(function*(
  url: PostgresUrl,
  sql: string,
  access: "readOnly" | "readOnlySnapshot"
): Effect.fn.Return<{ readonly run: Run; readonly schema: string }, SinkError | QueryError, Scope.Scope> {
  const settings = yield* settingsOf(url)
  const client = yield* connect(settings)
  yield* requireReadable(client, settings.schema)
  const run = yield* client[access](sql)
  yield* run(`SET LOCAL search_path TO ${quoted(settings.schema)}, public`)
  for (const setting of ["DateStyle TO ISO", "TimeZone TO 'UTC'", "IntervalStyle TO iso_8601", "bytea_output TO hex"]) {
    yield* run(`SET LOCAL ${setting}`)
  }
  return { run, schema: settings.schema }
})

/** Returns the columns of the statement. */
const fieldsOf = Effect.fnUntraced(function*(
  run: Run,
  { parameters, sql }: Asked
): Effect.fn.Return<Result["fields"], SinkError | QueryError> {
  yield* run(`DECLARE typed NO SCROLL CURSOR FOR ${sql}`, parameters)
  const { fields } = yield* run("FETCH 0 FROM typed")
  yield* run("CLOSE typed")
  return fields.length === 0 ? yield* new QueryError({ problem: "The query has no columns." }) : fields
})

const rowsOf = Effect.fnUntraced(function*(
  run: Run,
  fields: Result["fields"],
  { ctes, parameters, sql }: Asked & { readonly ctes: string }
): Effect.fn.Return<QueryResult, SinkError | QueryError> {
  const names = fields.map((_, index) => `c${index}`)
  yield* run(
    `DECLARE exact NO SCROLL CURSOR FOR ${ctes} SELECT ${names.map((name) => `${name}::text`).join(", ")}
    FROM (${trimStatementEnd(sql)}\n) AS query (${names.join(", ")})`,
    parameters
  )
  const rows = Stream.paginate(1, (count) =>
    Effect.map(run(`FETCH ${count} FROM exact`), ({ rows: found }) => {
      const cells = found.map((row) => fields.map(({ dataTypeId }, index) => cellOf(row[`c${index}`], dataTypeId)))
      let characters = 0
      for (const row of found) for (const name of names) characters += String(row[name] ?? "").length
      const rowLength = Math.max(1, characters / Math.max(1, found.length))
      const next = Math.max(1, Math.min(fetchLimit.rows, count * 4, Math.floor(fetchLimit.characters / rowLength)))
      return [found.length === 0 ? [] : [cells], found.length < count ? Option.none() : Option.some(next)] as const
    }))
  return { columns: fields.map(({ name }) => name), rows }
})

const cellOf = (value: unknown, type: number): Cell => {
  if (value === null || value === undefined) return null
  const text = String(value)
  // JSON has no NaN and no Infinity.
  return type === bool || (numbers.has(type) && /^-?\d/.test(text)) ? { json: text } : text
}
