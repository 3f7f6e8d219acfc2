/**
 * Effect's `RateLimiterStore` in a PostgreSQL table, for all processes that share a rate limit. Each operation is one
 * statement, which is atomic. All times are the server's. The table needs no migration: a row of a shape that this
 * version does not know counts as absent.
 *
 * The table is unlogged: an operation does not wait for the disk, and after a crash of the server all limits start
 * anew.
 */
import type { SinkError } from "@payments/copy"
import {
  connect,
  type PostgresClient,
  type PostgresUrl,
  type ProbeSettings,
  type Row,
  settingsOf
} from "@payments/copy/postgres"
import { Monotonic } from "@payments/core"
import { Duration, Effect, Layer, type Scope } from "effect"
import { RateLimiterError, RateLimiterStore, RateLimitStoreError } from "effect/persistence/RateLimiter"
import { createSchema, createTable, grant, tableOf } from "./RateLimitTable.ts"

/** A connection that does not respond is closed soon: the caller waits for 1 s only. */
const probes: ProbeSettings = { interval: Duration.seconds(2), timeout: Duration.seconds(1) }

/** Rows that are no longer needed are removed at the first use, and then at this interval. */
const removalIntervalMs = 60 * 60 * 1000

/** Rows are kept for this time after their end. */
const graceMs = 60_000

/** {@link make} as a layer. */
export const layer = (url: PostgresUrl): Layer.Layer<RateLimiterStore> => Layer.effect(RateLimiterStore, make(url))

/**
 * Opens connections on demand, until the scope closes. The first use creates the table. If the settings of the
 * connection cannot be read, each operation fails.
 */
export const make = Effect.fnUntraced(function*(
  url: PostgresUrl
): Effect.fn.Return<RateLimiterStore["Service"], never, Scope.Scope> {
  const connected = yield* Effect.result(Effect.flatMap(settingsOf(url), (settings) => connect(settings, probes)))
  const once: PostgresClient["once"] = (sql, parameters) =>
    Effect.flatMap(Effect.fromResult(connected), (client) => client.once(sql, parameters))
  const statements = statementsOf(tableOf(url.schema))
  let removedAt = Number.NEGATIVE_INFINITY

  const removeOld = Effect.flatMap(Monotonic.millis, (now) => {
    if (now - removedAt < removalIntervalMs) return Effect.void
    removedAt = now
    return Effect.asVoid(once(statements.removeOld))
  })

  /** Updates the row of the key. Creates the table and the row if there are none. */
  const update = Effect.fnUntraced(
    function*(sql: string, key: string, parameters: ReadonlyArray<number | null>) {
      const run = once(sql, [key, ...parameters.map((value) => value === null ? null : String(value))])
      const updated = Effect.andThen(removeOld, run).pipe(
        Effect.catchIf((error) => codeOf(error) === "42P01", () => Effect.andThen(createIn(url.schema, once), run))
      )
      const [row] = yield* updated
      if (row !== undefined) return pairOf(row)
      yield* once(statements.create, [key])
      const [created = {}] = yield* updated
      return pairOf(created)
    },
    Effect.mapError((error) => failed(error, url.schema))
  )

  return RateLimiterStore.of({
    // Effect's stores treat a limit of 0 as none.
    fixedWindow: ({ key, limit, refillRate, tokens }) =>
      update(statements.fixedWindow, `window ${key}`, [tokens, Duration.toMillis(refillRate), limit || null]),
    tokenBucket: ({ allowOverflow, key, limit, refillRate, tokens }) =>
      update(
        statements.tokenBucket,
        `bucket ${key}`,
        [tokens, Duration.toMillis(refillRate), limit, Number(allowOverflow)]
      ),
    adaptiveConsume: () => withoutAdaptiveLimits,
    adaptiveFeedback: () => withoutAdaptiveLimits
  })
})

/** Adds to the error which statements a user without privileges needs. */
const failed = (error: SinkError, schema: string) =>
  new RateLimiterError({
    reason: new RateLimitStoreError({
      message: codeOf(error) === "42501" ? `${error.message} ${grant(schema)}` : error.message
    })
  })

/**
 * Creates the schema and the table, unless another process creates them at the same moment. PostgreSQL reports that
 * after the other process has committed.
 */
const createIn = Effect.fnUntraced(function*(schema: string, once: PostgresClient["once"]) {
  const create = (sql: string) =>
    Effect.catchIf(
      once(sql),
      (error) => ["23505", "42P06", "42P07", "42710"].includes(codeOf(error) ?? ""),
      () => Effect.void
    )
  // CREATE SCHEMA IF NOT EXISTS needs the privilege even if the schema exists.
  const [found] = yield* once("SELECT FROM pg_namespace WHERE nspname = $1", [schema])
  if (found === undefined) yield* create(createSchema(schema))
  yield* create(createTable(schema))
})

const pairOf = (row: Row): readonly [number, number] => [Number(row["a"]), Number(row["b"])]

/** No client of this store learns its limits: core shares its rate through buckets and counters. */
const withoutAdaptiveLimits = Effect.fail(
  new RateLimiterError({ reason: new RateLimitStoreError({ message: "the store has no adaptive limits" }) })
)

const codeOf = ({ reason }: SinkError): string | undefined => reason._tag === "Failed" ? reason.code : undefined

/**
 * In the statements, `state` has the numbers of a row, and `answer` the result of the last operation. Times are
 * milliseconds.
 *
 * The values come from a subquery that depends on the row. PostgreSQL evaluates it again after it has waited for
 * another process to release the row. So the time is never earlier than that of the operation before, unless the
 * server's clock is set back. Then a last refill in the future counts as now, and a window that starts in the future as
 * over.
 */
const statementsOf = (table: string) => {
  const now = `(SELECT t.key, extract(epoch FROM clock_timestamp())::double precision * 1000 AS now OFFSET 0) AS clock`
  const finite = (value: string) => `abs(${value}) < 1e15`
  const update = (from: string, state: string, expiresAt: string, answer: string) =>
    `UPDATE ${table} AS t SET (state, expires_at, answer) = (SELECT ${state}, ${expiresAt}, ${answer} FROM ${from})
    WHERE t.key = $1 RETURNING answer[1] AS a, answer[2] AS b`
  const number = (parameter: number) => `$${parameter}::double precision`

  /** The count, the start and the end of the window before the operation. */
  const window = `${now}
    CROSS JOIN LATERAL (SELECT ${finite("t.state[1]")} AND t.state[2] <= now AND t.expires_at > now AS live) AS a
    CROSS JOIN LATERAL (SELECT CASE WHEN live THEN t.state[1] ELSE 0 END AS count,
      CASE WHEN live THEN t.state[2] ELSE now END AS start,
      CASE WHEN live THEN t.expires_at ELSE now END AS ends) AS b
    CROSS JOIN LATERAL (SELECT coalesce(count + ${number(2)} > ${number(4)}, false) AS refused) AS c
    CROSS JOIN LATERAL (SELECT CASE WHEN refused THEN ends ELSE ends + ${number(3)} * ${number(2)} END AS closes) AS d`

  /** The tokens of the bucket and the time of its last refill, at each step of the operation. */
  const bucket = `${now}
    CROSS JOIN LATERAL (SELECT ${finite("t.state[1]")} AND ${finite("t.state[2]")} AS live) AS a
    CROSS JOIN LATERAL (SELECT CASE WHEN live THEN t.state[1] ELSE ${number(4)} END AS tokens,
      CASE WHEN live THEN least(t.state[2], now) ELSE now END AS refilled) AS b
    CROSS JOIN LATERAL (SELECT floor((now - refilled) / ${number(3)}) AS added) AS c
    CROSS JOIN LATERAL (SELECT CASE WHEN added > 0 THEN least(${number(4)}, tokens + added) ELSE tokens END AS held,
      refilled + added * ${number(3)} AS boundary) AS d
    CROSS JOIN LATERAL (SELECT CASE WHEN held >= ${number(4)} THEN now ELSE boundary END AS begun,
      held - ${number(2)} AS remaining) AS e
    CROSS JOIN LATERAL (SELECT CASE WHEN remaining >= 0 OR ${number(5)} = 1 THEN remaining ELSE held END AS stored,
      greatest(0, now - begun) AS elapsed) AS f`
  return {
    create: `INSERT INTO ${table} (key) VALUES ($1) ON CONFLICT (key) DO NOTHING`,
    removeOld: `DELETE FROM ${table} WHERE expires_at < extract(epoch FROM clock_timestamp()) * 1000 - ${graceMs}`,
    fixedWindow: update(
      window,
      `ARRAY[CASE WHEN refused THEN count ELSE count + ${number(2)} END, start]`,
      "closes",
      `ARRAY[count + ${number(2)}, closes - now]`
    ),
    tokenBucket: update(
      bucket,
      "ARRAY[stored, begun]",
      `now + greatest(0, ceil(${number(4)} - stored) * ${number(3)} - elapsed)`,
      "ARRAY[remaining, elapsed]"
    )
  }
}
