import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Schedule } from "effect"
import { randomUUID } from "node:crypto"
import { afterAll, beforeAll } from "vitest"
import { connect } from "../src/postgres/PostgresClient.ts"
import * as Lease from "../src/postgres/PostgresLease.ts"
import { migrate, quoted } from "../src/postgres/PostgresSchema.ts"
import { settingsOf } from "../src/postgres/PostgresSettings.ts"
import { type PostgresServer, startServer, user } from "./PostgresServer.ts"
import { query, urlOf } from "./PostgresTest.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const takers = 12
/** Nothing of these tests depends on how long anything takes. */
const times: Lease.Times = {
  validity: Duration.hours(1),
  renewalInterval: Duration.hours(1),
  idleTimeout: Duration.minutes(10),
  interruptTimeout: Duration.seconds(10),
  lockTimeout: Duration.minutes(10)
}

/** A destination's leases over a connection of their own, as a process has them. */
const leasesIn = Effect.fnUntraced(function*(schema: string) {
  const client = yield* connect(yield* settingsOf(urlOf(server, schema)))
  yield* migrate(client, schema, times.idleTimeout)
  return { client, schema: quoted(schema), times }
})

/** Another user of the server, who keeps every taker from writing the lease until `let go`. */
const blockade = Effect.fnUntraced(function*(schema: string) {
  const leases = `${quoted(schema)}.leases`
  const connection = yield* PgConnection.make({
    host: "127.0.0.1",
    port: server.port,
    username: user,
    database: "postgres"
  })
  yield* connection.query("BEGIN")
  // Conflicts with writing the table, not with reading it.
  yield* connection.query(`LOCK TABLE ${leases} IN SHARE ROW EXCLUSIVE MODE`)
  return {
    run: (sql: string) => connection.query(sql),
    end: connection.query("COMMIT"),
    /** Returns when so many wait for it. */
    blocked: (count: number) =>
      Effect.promise(() =>
        query(server, `SELECT count(*) AS n FROM pg_locks WHERE NOT granted AND relation = '${leases}'::regclass`)
      ).pipe(
        Effect.repeat({ until: ([row]) => Number(row?.["n"]) === count, schedule: Schedule.spaced("20 millis") })
      )
  }
})

/** How the takers end that all find the lease free and then write it at one moment, after `meanwhile`. */
const takenAtOnce = Effect.fnUntraced(function*(schema: string, meanwhile?: string) {
  const all = yield* Effect.forEach(Array.from({ length: takers }), () => leasesIn(schema), { concurrency: takers })
  const others = yield* blockade(schema)
  const taking = yield* Effect.forEach(
    all,
    (leases) => Effect.forkChild(Effect.result(Lease.acquire(leases, "invoices", "refuse")))
  )
  yield* others.blocked(takers)
  if (meanwhile !== undefined) yield* others.run(meanwhile)
  yield* others.end
  const ended = yield* Effect.forEach(taking, Fiber.join)
  return ended.map((result) => result._tag === "Success" ? "taken" : result.failure.reason._tag).toSorted()
})

const one = [...Array.from({ length: takers - 1 }, () => "Locked"), "taken"]
const none = Array.from({ length: takers }, () => "Locked")

const newSchema = () => `t_${randomUUID()}`

/** A lease of a process that is gone; it ends then. */
const leaseOf = (schema: string, expires: string) =>
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

describe(`${takers} takers of one lease at one moment`, () => {
  it.live("come to one holder where nobody held it", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* takenAtOnce(newSchema()), one)
    }).pipe(Effect.scoped))

  it.live("come to one holder where the last one's lease has ended", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* leaseOf(schema, "-1 second")
      assert.deepStrictEqual(yield* takenAtOnce(schema), one)
    }).pipe(Effect.scoped))

  it.live("are all refused where the holder renews its lease before they write", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* leaseOf(schema, "-1 second")
      const renewal = `UPDATE ${quoted(schema)}.leases SET expires = clock_timestamp() + interval '1 hour'`
      assert.deepStrictEqual(yield* takenAtOnce(schema, renewal), none)
      const [row] = yield* Effect.promise(() => query(server, `SELECT epoch, owner FROM ${quoted(schema)}.leases`))
      assert.deepStrictEqual([Number(row?.["epoch"]), row?.["owner"]], [1, "gone"])
    }).pipe(Effect.scoped))

  it.live("are all refused where somebody holds it", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* leaseOf(schema, "1 hour")
      const all = yield* Effect.forEach(Array.from({ length: takers }), () => leasesIn(schema), { concurrency: takers })
      const ended = yield* Effect.forEach(
        all,
        (leases) => Effect.flip(Lease.acquire(leases, "invoices", "refuse")),
        { concurrency: takers }
      )
      assert.deepStrictEqual(ended.map(({ reason }) => reason._tag), none)
    }).pipe(Effect.scoped))
})
