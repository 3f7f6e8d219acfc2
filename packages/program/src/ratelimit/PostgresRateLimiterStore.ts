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

/** Adaptive state is kept for this time after its end. Effect's stores have the same limits. */
const graceMs = 60_000
const longestWindowMs = 60 * 60 * 1000

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
  const table = tableOf(url.schema)
  const statements = statementsOf(table)
  let removedAt = Number.NEGATIVE_INFINITY

  /** Adds to the error which statements a user without privileges needs. */
  const failed = (error: SinkError) =>
    new RateLimiterError({
      reason: new RateLimitStoreError({
        message: codeOf(error) === "42501" ? `${error.message} ${grant(url.schema)}` : error.message
      })
    })

  /**
   * Creates a schema or table, unless another process creates it at the same moment. PostgreSQL reports that after the
   * other process has committed.
   */
  const create = (sql: string) =>
    Effect.catchIf(
      once(sql),
      (error) => ["23505", "42P06", "42P07", "42710"].includes(codeOf(error) ?? ""),
      () => Effect.void
    )

  const prepare = Effect.gen(function*() {
    // CREATE SCHEMA IF NOT EXISTS needs the privilege even if the schema exists.
    const [schema] = yield* once("SELECT FROM pg_namespace WHERE nspname = $1", [url.schema])
    if (schema === undefined) yield* create(createSchema(url.schema))
    yield* create(createTable(url.schema))
  })

  const removeOld = Effect.flatMap(Monotonic.millis, (now) => {
    if (now - removedAt < removalIntervalMs) return Effect.void
    removedAt = now
    return Effect.asVoid(once(statements.removeOld))
  })

  /** Creates the table if there is none. */
  const update = (sql: string, key: string, parameters: ReadonlyArray<number | null>) => {
    const run = once(sql, [key, ...parameters.map((value) => value === null ? null : String(value))])
    return Effect.andThen(removeOld, run).pipe(
      Effect.catchIf((error) => codeOf(error) === "42P01", () => Effect.andThen(prepare, run))
    )
  }

  /** Like {@link update}, but creates the row if there is none. */
  const upsert = Effect.fnUntraced(
    function*(sql: string, key: string, parameters: ReadonlyArray<number | null>) {
      const [row] = yield* update(sql, key, parameters)
      if (row !== undefined) return row
      yield* once(statements.create, [key])
      const [created] = yield* update(sql, key, parameters)
      return created ?? {}
    },
    Effect.mapError(failed)
  )

  return operationsOver(statements, { update, upsert, failed })
})

type Statements = ReturnType<typeof statementsOf>

interface Updates {
  /** Returns no row if the key has none. */
  readonly update: (
    sql: string,
    key: string,
    parameters: ReadonlyArray<number | null>
  ) => Effect.Effect<ReadonlyArray<Row>, SinkError>
  /** Creates the row if the key has none. */
  readonly upsert: (
    sql: string,
    key: string,
    parameters: ReadonlyArray<number | null>
  ) => Effect.Effect<Row, RateLimiterError>
  readonly failed: (error: SinkError) => RateLimiterError
}

const operationsOver = (statements: Statements, { failed, update, upsert }: Updates): RateLimiterStore["Service"] =>
  RateLimiterStore.of({
    fixedWindow: ({ key, limit, refillRate, tokens }) =>
      Effect.map(
        // Effect's stores treat a limit of 0 as none.
        upsert(statements.fixedWindow, `window ${key}`, [tokens, Duration.toMillis(refillRate), limit || null]),
        pairOf
      ),
    tokenBucket: ({ allowOverflow, key, limit, refillRate, tokens }) =>
      Effect.map(
        upsert(statements.tokenBucket, `bucket ${key}`, [
          tokens,
          Duration.toMillis(refillRate),
          limit,
          allowOverflow ? 1 : 0
        ]),
        pairOf
      ),
    adaptiveConsume: ({ fallbackWindow, key, tokens }) =>
      update(statements.adaptiveConsume, `adaptive ${key}`, [tokens, Duration.toMillis(fallbackWindow)]).pipe(
        Effect.mapError(failed),
        Effect.map(([row]) => {
          if (row === undefined) return { delay: Duration.zero, epoch: 0, phase: "inactive" }
          const [delay, epoch] = pairOf(row)
          return { delay: Duration.millis(delay), epoch, phase: phases[Number(row["c"])] ?? "inactive" }
        })
      ),
    adaptiveFeedback: ({ epoch, key, retryAfter, status, tokens }) => {
      if (status !== 429 || retryAfter === undefined) return Effect.void
      const waitMs = Math.min(longestWindowMs, Math.max(1, Duration.toMillis(retryAfter)))
      return Effect.asVoid(upsert(statements.adaptiveFeedback, `adaptive ${key}`, [epoch, tokens, waitMs]))
    }
  })

const pairOf = (row: Row): readonly [number, number] => [Number(row["a"]), Number(row["b"])]

const phases = ["inactive", "cooldown", "learning", "learned"] as const

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
    WHERE t.key = $1 RETURNING answer[1] AS a, answer[2] AS b, answer[3] AS c`
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
    ),
    ...adaptiveStatements(now, update, number)
  }
}

/**
 * The state of adaptive rows: phase, epoch, end of the wait, start of learning, tokens, learned limit, learned window.
 */
const adaptiveStatements = (
  now: string,
  update: (from: string, state: string, expiresAt: string, answer: string) => string,
  number: (parameter: number) => string
) => {
  const before = `${now}
    CROSS JOIN LATERAL (SELECT coalesce(t.expires_at > now AND cardinality(t.state) = 7, false) AS live) AS a
    CROSS JOIN LATERAL (SELECT CASE WHEN live THEN t.state[1] ELSE 0 END AS phase,
      CASE WHEN live THEN t.state[2] ELSE 0 END AS epoch, t.state[3] AS until, t.state[4] AS started,
      t.state[5] AS observed, t.state[6] AS learned, t.state[7] AS width) AS b`
  const tokens = number(2)
  const consume = `${before}
    CROSS JOIN LATERAL (SELECT width / nullif(learned, 0) AS gap, until <= now AS ended) AS c
    CROSS JOIN LATERAL (SELECT CASE WHEN ended THEN 0 ELSE observed END + ${tokens} AS taken,
      CASE WHEN ended THEN now ELSE until END + gap * ${tokens} AS reserved) AS d
    CROSS JOIN LATERAL (SELECT floor((taken - 1) / nullif(learned, 0)) * width - (taken * gap - (reserved - now))
      AS remaining) AS e`
  const feedback = `${before}
    CROSS JOIN LATERAL (SELECT now + ${number(4)} AS cool, observed - ${number(3)} AS accepted,
      least(${longestWindowMs}, greatest(1, now - started + ${number(4)})) AS window_ms) AS c`
  const cooldown = (until: string) => `ARRAY[1, epoch, ${until}, 0, 0, 0, 0]`
  return {
    adaptiveConsume: update(
      consume,
      `CASE WHEN phase = 1 AND ended THEN ARRAY[2, epoch + 1, 0, now, ${tokens}, 0, 0]
        WHEN phase = 2 THEN ARRAY[2, epoch, until, started, observed + ${tokens}, learned, width]
        WHEN phase = 3 THEN ARRAY[3, epoch, reserved, started, taken, learned, width]
        ELSE t.state END`,
      `CASE WHEN phase = 1 AND ended THEN now + ${number(3)} + ${graceMs} ELSE t.expires_at END`,
      `CASE WHEN phase = 1 AND ended THEN ARRAY[0, epoch + 1, 2]
        WHEN phase = 1 THEN ARRAY[until - now, epoch, 1]
        WHEN phase = 3 THEN ARRAY[greatest(0, remaining), epoch, 3]
        ELSE ARRAY[0, epoch, phase] END`
    ),
    adaptiveFeedback: update(
      feedback,
      `CASE WHEN epoch <> ${number(2)} THEN t.state
        WHEN phase = 1 THEN ${cooldown("greatest(until, cool)")}
        WHEN phase = 2 AND accepted > 0
          THEN ARRAY[3, epoch + 1, started + window_ms, started, accepted, accepted, window_ms]
        ELSE ${cooldown("cool")} END`,
      `CASE WHEN epoch <> ${number(2)} THEN t.expires_at
        WHEN phase = 1 THEN greatest(until, cool) + ${graceMs}
        WHEN phase = 2 AND accepted > 0 THEN now + window_ms + ${graceMs}
        ELSE cool + ${graceMs} END`,
      "ARRAY[0, 0, 0]"
    )
  }
}
