import { assert, describe, it } from "@effect/vitest"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { connectionTo, query, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Duration, Effect, Fiber, Schedule } from "effect"
import { randomUUID } from "node:crypto"
import { afterAll, beforeAll } from "vitest"
import { connect } from "../../src/postgres/PostgresClient.ts"
import * as Lease from "../../src/postgres/PostgresLease.ts"
import { migrate } from "../../src/postgres/PostgresSchema.ts"
import { settingsOf } from "../../src/postgres/PostgresSettings.ts"
import { quoted } from "../../src/sql/SqlStatement.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const acquirers = 12
/** So long that no result of these tests depends on the speed of the machine. */
const times: Lease.Times = {
  validity: Duration.hours(1),
  renewalInterval: Duration.hours(1),
  idleTimeout: Duration.minutes(10),
  interruptTimeout: Duration.minutes(10),
  lockTimeout: Duration.minutes(10)
}

/** Returns a destination's leases over a new connection, as each process has one. */
const leasesIn = Effect.fnUntraced(function*(schema: string) {
  const client = yield* connect(yield* settingsOf(urlOf(server, schema)))
  yield* migrate(client, schema, times.idleTimeout)
  return { client, schema: quoted(schema), times }
})

/** Blocks writes of the leases from another session, until `end`. */
const blockade = Effect.fnUntraced(function*(schema: string) {
  const leases = `${quoted(schema)}.leases`
  const connection = yield* connectionTo(server)
  yield* connection.query("BEGIN")
  // This lock blocks writes of the table, but not reads.
  yield* connection.query(`LOCK TABLE ${leases} IN SHARE ROW EXCLUSIVE MODE`)
  return {
    run: (sql: string) => connection.query(sql),
    end: connection.query("COMMIT"),
    /** Waits until the given number of sessions wait for the lock. */
    blocked: (count: number) =>
      Effect.promise(() =>
        query(server, `SELECT count(*) AS n FROM pg_locks WHERE NOT granted AND relation = '${leases}'::regclass`)
      ).pipe(
        Effect.repeat({ until: ([row]) => Number(row?.["n"]) === count, schedule: Schedule.spaced("20 millis") })
      )
  }
})

/** Returns the results of acquirers that all find the lease free and then write it at the same time, after `meanwhile`. */
const acquireConcurrently = Effect.fnUntraced(function*(schema: string, meanwhile?: string) {
  const all = yield* Effect.forEach(Array.from({ length: acquirers }), () => leasesIn(schema), {
    concurrency: acquirers
  })
  const blocker = yield* blockade(schema)
  const acquisitions = yield* Effect.forEach(
    all,
    (leases) => Effect.forkChild(Effect.result(Lease.acquire(leases, "invoices", "refuse")))
  )
  yield* blocker.blocked(acquirers)
  if (meanwhile !== undefined) yield* blocker.run(meanwhile)
  yield* blocker.end
  const results = yield* Effect.forEach(acquisitions, Fiber.join)
  return results.map((result) => result._tag === "Success" ? "acquired" : result.failure.reason._tag).toSorted()
})

const oneAcquired = [...Array.from({ length: acquirers - 1 }, () => "Locked"), "acquired"]
const noneAcquired = Array.from({ length: acquirers }, () => "Locked")

const newSchema = () => `t_${randomUUID()}`

/** Inserts a lease of a process that no longer runs, which expires after the given interval. */
const insertLease = (schema: string, expires: string) =>
  Effect.gen(function*() {
    yield* Effect.scoped(leasesIn(schema))
    yield* Effect.promise(() =>
      query(
        server,
        `INSERT INTO ${
          quoted(schema)
        }.leases VALUES ('invoices', 1, 0, 'gone', 'process 1', clock_timestamp() + $1::interval)`,
        [expires]
      )
    )
  })

describe(`${acquirers} concurrent acquisitions of one lease`, () => {
  it.live("succeed for one acquirer if the lease is new", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* acquireConcurrently(newSchema()), oneAcquired)
    }).pipe(Effect.scoped))

  it.live("succeed for one acquirer if the lease has expired", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* insertLease(schema, "-1 second")
      assert.deepStrictEqual(yield* acquireConcurrently(schema), oneAcquired)
    }).pipe(Effect.scoped))

  it.live("are all refused if the owner renews the lease before they write", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* insertLease(schema, "-1 second")
      const renewal = `UPDATE ${quoted(schema)}.leases SET expires = clock_timestamp() + interval '1 hour'`
      assert.deepStrictEqual(yield* acquireConcurrently(schema, renewal), noneAcquired)
      const [row] = yield* Effect.promise(() => query(server, `SELECT epoch, owner FROM ${quoted(schema)}.leases`))
      assert.deepStrictEqual([Number(row?.["epoch"]), row?.["owner"]], [1, "gone"])
    }).pipe(Effect.scoped))

  it.live("are all refused if the lease has an owner", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* insertLease(schema, "1 hour")
      const all = yield* Effect.forEach(Array.from({ length: acquirers }), () => leasesIn(schema), {
        concurrency: acquirers
      })
      const errors = yield* Effect.forEach(
        all,
        (leases) => Effect.flip(Lease.acquire(leases, "invoices", "refuse")),
        { concurrency: acquirers }
      )
      assert.deepStrictEqual(errors.map(({ reason }) => reason._tag), noneAcquired)
    }).pipe(Effect.scoped))
})

describe("a transaction that was interrupted", () => {
  it.live("has ended on the server when the next scan or pass reads its data", () =>
    Effect.gen(function*() {
      const schema = `t_${randomUUID()}`
      const leases = { ...(yield* leasesIn(schema)), times: { ...times, interruptTimeout: Duration.millis(100) } }
      const lease = yield* Lease.acquire(leases, "invoices", "refuse")
      const blocker = yield* blockade(schema)
      const interrupted = yield* Effect.forkChild(
        Lease.commit(
          leases,
          lease,
          (run) => Effect.asVoid(run(`UPDATE ${leases.schema}.destination SET source = 'late'`)),
          () => Effect.void
        )
      )
      yield* blocker.blocked(1)
      yield* Fiber.interrupt(interrupted)
      yield* blocker.blocked(0)
      // It locks the row of the lease, as the interrupted transaction does.
      const settled = yield* Effect.forkChild(Lease.settle(leases, lease))
      yield* blocker.blocked(1)
      yield* blocker.end
      yield* Fiber.join(settled)
      const sources = yield* leases.client.query(`SELECT source FROM ${leases.schema}.destination`)
      assert.deepStrictEqual(sources, [{ source: null }])
      const { transactions } = lease
      yield* Lease.settle(leases, lease)
      assert.strictEqual(lease.transactions, transactions, "all transactions are settled")
    }).pipe(Effect.scoped))

  it.live("has ended on the server also if it may still continue for a while", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const leases = yield* leasesIn(schema)
      const lease = yield* Lease.acquire(leases, "invoices", "refuse")
      const blocker = yield* blockade(schema)
      const interrupted = yield* Effect.forkChild(
        Lease.commit(
          leases,
          lease,
          (run) => Effect.asVoid(run(`UPDATE ${leases.schema}.destination SET source = 'late'`)),
          () => Effect.void
        )
      )
      yield* blocker.blocked(1)
      yield* Effect.forkChild(Fiber.interrupt(interrupted))
      const settled = yield* Effect.forkChild(Lease.settle(leases, lease))
      yield* blocker.blocked(2)
      yield* blocker.end
      yield* Fiber.join(settled)
      const { commit } = (yield* leases.client.query(`SELECT commit FROM ${leases.schema}.leases`))[0] ?? {}
      assert.strictEqual(Number(commit), lease.transactions)
    }).pipe(Effect.scoped))
})
