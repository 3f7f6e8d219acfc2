/** What a program leaves to the others that stops in the middle of a transaction, for good or because it is told to end. */
import { PgConnection } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Clock, Deferred, Effect, Fiber, Layer } from "effect"
import { randomUUID } from "node:crypto"
import { afterAll, beforeAll } from "vitest"
import { scan, type ScanOptions, SinkError } from "../src/index.ts"
import { connect, type PostgresClient } from "../src/postgres/PostgresClient.ts"
import * as Lease from "../src/postgres/PostgresLease.ts"
import { migrate, quoted } from "../src/postgres/PostgresSchema.ts"
import { settingsOf } from "../src/postgres/PostgresSettings.ts"
import * as PostgresSink from "../src/postgres/PostgresSink.ts"
import { Unavailable } from "../src/Sink.ts"
import * as ThreadedSink from "../src/thread/ThreadedSink.ts"
import { type PostgresServer, startServer, user } from "./PostgresServer.ts"
import { briefTimes, query, recordsOf, urlOf } from "./PostgresTest.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const newSchema = () => `t_${randomUUID()}`

const here = (schema: string) => PostgresSink.layer(urlOf(server, schema), briefTimes)

const run = (schema: string, options: ScanOptions = {}, sink = here) =>
  scan("payoutRequests", { limit: 10, largestBatch: 10, ...options }).pipe(
    Effect.provide(Layer.merge(sink(schema), layerTest({ payoutRequests: recordsOf("a") })))
  )

/** As the programs have it. */
const threaded = (schema: string) => ThreadedSink.layer({ _tag: "Postgres", url: urlOf(server, schema) })

/** A connection of somebody else's. */
const other = Effect.suspend(() =>
  PgConnection.make({ host: "127.0.0.1", port: server.port, username: user, database: "postgres" })
)

/** Begins what is to run in a transaction, with a client that stops for good before COMMIT. */
const stopped = <A, E, R>(schema: string, begin: (client: PostgresClient) => Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const client = yield* connect(yield* settingsOf(urlOf(server, schema)))
    const reached = yield* Deferred.make<void>()
    const gone = yield* Deferred.make<never>()
    yield* Effect.forkScoped(begin({
      ...client,
      transaction: (body) =>
        client.transaction((ask) =>
          Effect.andThen(body(ask), Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(gone)))
        )
    }))
    // Nothing interrupts who takes a lease.
    yield* Effect.addFinalizer(() => Deferred.die(gone, "the end of the test"))
    yield* Deferred.await(reached)
  })

describe("a program that stops for good within a transaction", () => {
  it.live("while it takes a lease keeps it from nobody for longer than the silence that is allowed", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* run(schema)
      yield* stopped(
        schema,
        (client) => Lease.acquire({ client, schema: quoted(schema), times: briefTimes }, "payout-requests", "refuse")
      )
      assert.strictEqual((yield* Effect.flip(run(schema))).reason._tag, "Locked")
      assert.strictEqual((yield* run(schema, { onLocked: "wait" })).records, 300)
    }).pipe(Effect.scoped))

  it.live("while it makes the tables leaves that to the next one", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* stopped(schema, (client) => migrate(client, schema, briefTimes.idleTimeout))
      assert.strictEqual((yield* run(schema)).records, 300)
    }).pipe(Effect.scoped))
})

describe("a lease", () => {
  const opened = Effect.fnUntraced(function*(schema: string) {
    const client = yield* connect(yield* settingsOf(urlOf(server, schema)))
    yield* migrate(client, schema, briefTimes.idleTimeout)
    return { client, schema: quoted(schema), times: briefTimes }
  })
  const taken = (leases: Lease.Leases) => Effect.scoped(Lease.acquire(leases, "payout-requests", "refuse"))

  it.live("that could not be released is taken again at once by the same process, and by no other owner", () =>
    Effect.gen(function*() {
      const leases = yield* opened(newSchema())
      const unreachable = new SinkError({ location: "", reason: new Unavailable({ code: "ECONNREFUSED" }) })
      const first = yield* taken({ ...leases, client: { ...leases.client, once: () => Effect.fail(unreachable) } })
      const again = yield* Effect.scoped(Effect.gen(function*() {
        const lease = yield* Lease.acquire(leases, "payout-requests", "refuse")
        assert.strictEqual((yield* Effect.flip(taken(leases))).reason._tag, "Locked")
        return lease
      }))
      assert.deepStrictEqual(again.epoch, first.epoch + 1n)
      assert.notStrictEqual((yield* taken(leases)).owner, first.owner)
    }).pipe(Effect.scoped))

  it.live("that was given before the server's clock was set back by an hour is taken over", () =>
    Effect.gen(function*() {
      const leases = yield* opened(newSchema())
      yield* Lease.acquire(leases, "payout-requests", "refuse")
      const expireIn = (time: string) =>
        leases.client.query(`UPDATE ${leases.schema}.leases SET expires = clock_timestamp() + interval '${time}'`)
      yield* expireIn("30 seconds")
      assert.strictEqual((yield* Effect.flip(taken(leases))).reason._tag, "Locked")
      yield* expireIn("1 hour")
      yield* taken(leases)
    }).pipe(Effect.scoped))
})

it.live("whoever makes the tables and does not come to an end is not waited for, and that is said", () =>
  Effect.gen(function*() {
    const schema = newSchema()
    const maker = yield* other
    yield* maker.query("SELECT pg_advisory_lock(hashtextextended($1, 0))", [`payments ${schema}`])
    const error = yield* Effect.flip(run(schema))
    assert.include(error.message, "another program holds a lock there and does not let go")
  }).pipe(Effect.scoped))

describe("an export that is told to end while it commits", () => {
  /** An export whose first commit waits for a lock of somebody else's, told to end. */
  const interrupted = Effect.fnUntraced(function*(schema: string, sink = here) {
    const client = yield* connect(yield* settingsOf(urlOf(server, schema)))
    yield* migrate(client, schema, briefTimes.idleTimeout)
    const blocker = yield* other
    yield* blocker.query("BEGIN")
    // Reading goes on beside it, writing does not.
    yield* blocker.query(`LOCK TABLE ${quoted(schema)}.payout_requests IN EXCLUSIVE MODE`)
    const exporting = yield* Effect.forkScoped(run(schema, {}, sink))
    yield* Effect.repeat(
      Effect.promise(() =>
        query(
          server,
          `SELECT FROM pg_locks WHERE NOT granted AND relation = '${quoted(schema)}.payout_requests'::regclass`
        )
      ),
      { until: (waiting) => waiting.length > 0 }
    )
    const ending = yield* Effect.forkScoped(Fiber.interrupt(exporting))
    yield* Effect.sleep("200 millis")
    return { blocker, ended: Fiber.await(ending) }
  })
  const pages = (schema: string) => Effect.promise(() => query(server, `SELECT pages::int FROM "${schema}".scans`))

  it.live.each([["in the main thread", here], ["in a thread of its own", threaded]] as const)(
    "finishes that commit first, %s",
    ([, sink]) =>
      Effect.gen(function*() {
        const schema = newSchema()
        const { blocker, ended } = yield* interrupted(schema, sink)
        yield* blocker.query("ROLLBACK")
        yield* ended
        assert.deepStrictEqual(yield* pages(schema), [{ pages: 1 }])
        const summary = yield* run(schema)
        assert.deepInclude(summary, { start: "resumed", records: 300, inserted: 300 })
      }).pipe(Effect.scoped)
  )

  it.live("ends without it where it would take too long", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const { blocker, ended } = yield* interrupted(schema)
      const before = yield* Clock.currentTimeMillis
      yield* ended
      assert.isAbove((yield* Clock.currentTimeMillis) - before, 500)
      yield* blocker.query("ROLLBACK")
      assert.deepStrictEqual(yield* pages(schema), [{ pages: 0 }])
    }).pipe(Effect.scoped))
})
