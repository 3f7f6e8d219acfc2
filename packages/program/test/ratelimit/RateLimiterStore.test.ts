/** The rate limit store of PostgreSQL: the same answers as Effect's store in memory, and its table. */
import { assert, describe, it } from "@effect/vitest"
import { freePort } from "@payments/testkit/FreePort"
import { roleStatements } from "@payments/testkit/postgres/PostgresRoles"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { connectionTo, query, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { type Dice, diceOf, seed } from "@payments/testkit/Seed"
import { makeTcpGate } from "@payments/testkit/TcpGate"
import { Clock, Console, Context, Duration, Effect, Fiber, Layer } from "effect"
import { layerStoreMemory, type RateLimiterError, RateLimiterStore } from "effect/persistence/RateLimiter"
import { afterAll, beforeAll } from "vitest"
import * as PostgresSink from "../../../copy/src/postgres/PostgresSink.ts"
import { checkRateLimitStore } from "../../src/doctor/RateLimitCheck.ts"
import { make } from "../../src/ratelimit/PostgresRateLimiterStore.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

type Store = RateLimiterStore["Service"]

type Operation = (store: Store) => Effect.Effect<ReadonlyArray<number>, RateLimiterError>

/** Returns an operation with random arguments. */
const operationOf = (dice: Dice): Operation => {
  const key = dice.pick(["one", "two"])
  const tokens = dice.pick([1, 1, 1, 2, 0.5, 0, 7])
  const refillRate = Duration.millis(dice.pick([50, 100, 333]))
  const options = { key, tokens, limit: dice.pick([1, 5, 20]), refillRate }
  const allowOverflow = dice.chance(0.5)
  return dice.chance(0.5)
    ? (store) => store.fixedWindow({ ...options, limit: allowOverflow ? undefined : options.limit })
    : (store) => store.tokenBucket({ ...options, allowOverflow })
}

describe("the rate limit store of PostgreSQL", () => {
  it.live("gives the same answers as the store in memory", () =>
    Effect.gen(function*() {
      yield* Console.log(`seed ${seed}`)
      // For this user, the time of the server is a row of a table.
      const admin = yield* connectionTo(server)
      yield* Effect.forEach([
        "CREATE SCHEMA clock",
        "CREATE TABLE clock.now AS SELECT 0::double precision AS millis",
        "CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT to_timestamp(millis / 1000) FROM clock.now'",
        "CREATE ROLE clocked LOGIN SUPERUSER",
        "ALTER ROLE clocked SET search_path = clock, pg_catalog"
      ], (statement) => admin.query(statement))
      const postgres = yield* make({ ...urlOf(server, "conforming"), user: "clocked" })
      const memory = Context.get(yield* Layer.build(layerStoreMemory), RateLimiterStore)
      const dice = diceOf(seed, "operations")
      const clock = yield* Clock.Clock
      let now = 1_700_000_000_000
      const compare = Effect.fnUntraced(function*(passed: number, operation: Operation, label: string) {
        now += passed
        yield* admin.query(`UPDATE clock.now SET millis = ${now}`)
        const expected = yield* Effect.provideService(operation(memory), Clock.Clock, {
          ...clock,
          currentTimeMillisUnsafe: () => now
        })
        const actual = yield* operation(postgres)
        const rounded = (answer: ReadonlyArray<number>) => answer.map((value) => Math.round(value * 100) / 100)
        assert.deepStrictEqual(rounded(actual), rounded(expected), `seed ${seed}, ${label}`)
      })
      for (let step = 0; step < 600; step++) {
        const passed = dice.chance(0.02) ? 70_000 : dice.pick([0, 0, 1, 30, 100, 700, 4000])
        yield* compare(passed, operationOf(dice), `step ${step}`)
      }
    }).pipe(Effect.scoped))
})

const consumed = Effect.fnUntraced(function*(store: Store, key: string) {
  const [remaining] = yield* store.tokenBucket({
    key,
    tokens: 1,
    limit: 100,
    refillRate: Duration.hours(1),
    allowOverflow: true
  })
  return remaining
})

describe("the table of the rate limit store", () => {
  it.live("is created once by stores that start at the same time, which then count together", () =>
    Effect.gen(function*() {
      const url = urlOf(server, "together")
      const stores = yield* Effect.forEach(Array.from({ length: 8 }), () => make(url))
      const operations = [...stores, ...stores, ...stores].map((store) => consumed(store, "key"))
      const counts = yield* Effect.all(operations, { concurrency: "unbounded" })
      assert.deepStrictEqual(
        counts.toSorted((one, other) => other - one),
        Array.from({ length: 24 }, (_, index) => 99 - index)
      )
    }).pipe(Effect.scoped))

  it.live("is created after another program has created its schema at the same moment", () =>
    Effect.gen(function*() {
      const other = yield* connectionTo(server)
      yield* other.query("BEGIN")
      yield* other.query("CREATE SCHEMA created_meanwhile")
      const counting = yield* Effect.forkChild(consumed(yield* make(urlOf(server, "created_meanwhile")), "key"))
      const waiting = Effect.promise(() =>
        query(server, "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE SCHEMA%'")
      )
      yield* Effect.repeat(Effect.delay(waiting, 20), { until: (found) => found.length > 0 })
      yield* other.query("COMMIT")
      assert.strictEqual(yield* Fiber.join(counting), 99)
    }).pipe(Effect.scoped))

  it.live("may be in the schema of a destination that is created later", () =>
    Effect.gen(function*() {
      const url = urlOf(server, "with_rate_limits")
      yield* consumed(yield* make(url), "key")
      yield* Layer.build(PostgresSink.layer(url))
      const tables = yield* Effect.promise(() =>
        query(
          server,
          "SELECT FROM pg_tables WHERE schemaname = 'with_rate_limits' AND tablename IN ('invoices', 'payments_rate_limits')"
        )
      )
      assert.strictEqual(tables.length, 2)
    }).pipe(Effect.scoped))

  it.live("counts rows with impossible content as absent, and loses rows that are no longer needed", () =>
    Effect.gen(function*() {
      const url = urlOf(server, "hostile")
      const store = yield* make(url)
      yield* consumed(store, "key")
      const run = (sql: string) => Effect.promise(() => query(server, sql))
      for (
        const state of ["NULL", "'{}'", "'{NaN,NaN}'", "'{Infinity,0}'", "'{-1e300,1e300}'", "'{{1,2},{3,4}}'"]
      ) {
        yield* run(`UPDATE hostile.payments_rate_limits SET state = ${state}, expires_at = 'NaN', answer = '{NaN}'`)
        assert.strictEqual(yield* consumed(store, "key"), 99, state)
      }
      // The server's clock was set back by years: no client waits for years.
      yield* run("UPDATE hostile.payments_rate_limits SET state[2] = state[2] + 1e12")
      assert.strictEqual(yield* consumed(store, "key"), 98)
      const windowed = () =>
        store.fixedWindow({ key: "key", tokens: 1, refillRate: Duration.minutes(1), limit: undefined })
      assert.strictEqual((yield* windowed())[0], 1)
      assert.strictEqual((yield* windowed())[0], 2)
      yield* run("UPDATE hostile.payments_rate_limits SET state[2] = state[2] + 1e12, expires_at = expires_at + 1e12")
      const [counted, ttlMs] = yield* windowed()
      assert.strictEqual(counted, 1)
      assert.closeTo(ttlMs, 60_000, 1)
      yield* run("DELETE FROM hostile.payments_rate_limits WHERE key LIKE 'window %'")
      yield* run(
        "INSERT INTO hostile.payments_rate_limits SELECT 'old ' || n, '{1}', 0 FROM generate_series(1, 1000) AS n"
      )
      yield* consumed(yield* make(url), "key")
      const [row] = yield* run("SELECT count(*)::int AS rows FROM hostile.payments_rate_limits")
      assert.strictEqual(row?.["rows"], 1)
    }).pipe(Effect.scoped))

  it.live("is used again after a server that did not answer", () =>
    Effect.gen(function*() {
      const gate = yield* makeTcpGate(yield* Effect.promise(freePort))
      yield* gate.open(server.port)
      const store = yield* make(urlOf(gate, "stalled"))
      assert.strictEqual(yield* consumed(store, "key"), 99)
      yield* gate.stall
      const stalled = yield* Effect.forkChild(consumed(store, "key"))
      yield* Effect.sleep(200)
      assert.isUndefined(stalled.pollUnsafe())
      yield* Effect.forkDetach(Fiber.interrupt(stalled))
      yield* gate.open(server.port)
      // At most a second later than a store that has not waited for such a server, on the same busy machine.
      const [again, other] = yield* Effect.all([
        Effect.timed(consumed(store, "key")),
        Effect.timed(consumed(yield* make(urlOf(server, "stalled")), "other"))
      ], { concurrency: "unbounded" })
      assert.isAtMost(again[1], 98)
      assert.isBelow(Duration.toMillis(again[0]) - Duration.toMillis(other[0]), 1000)
    }).pipe(Effect.scoped))

  it.live("cannot be created by a user without privileges, whose error says what the owner has to run", () =>
    Effect.gen(function*() {
      yield* Effect.promise(() => query(server, "CREATE ROLE nobody_special LOGIN"))
      const url = { ...urlOf(server, "owned"), user: "nobody_special" }
      const store = yield* make(url)
      const error = yield* Effect.flip(consumed(store, "key"))
      assert.include(error.message, "(42501)")
      const finding = yield* checkRateLimitStore(url)
      assert.strictEqual(finding.state, "warning")
      const statements = /Let its owner run: (.*) TO the user\.$/.exec(error.message)?.[1] ?? ""
      assert.include(finding.advice, statements)
      yield* Effect.forEach(
        `${statements.replaceAll("the user", "nobody_special")} TO nobody_special`.split("; "),
        (statement) => Effect.promise(() => query(server, statement))
      )
      assert.strictEqual(yield* consumed(store, "key"), 99)
      assert.strictEqual((yield* checkRateLimitStore(url)).state, "ok")
    }).pipe(Effect.scoped))

  it.live("needs only a schema that its user owns", () =>
    Effect.gen(function*() {
      yield* Effect.promise(() => query(server, "CREATE ROLE payments_write LOGIN"))
      for (const statement of roleStatements.coordination.split(";")) {
        yield* Effect.promise(() => query(server, statement))
      }
      const store = yield* make({ ...urlOf(server, "coordination"), user: "payments_write" })
      assert.strictEqual(yield* consumed(store, "key"), 99)
    }).pipe(Effect.scoped))
})
