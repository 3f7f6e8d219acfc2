import * as NodeServices from "@effect/platform-node/NodeServices"
/** Programs that hang in a transaction, or that are interrupted during a commit, do not block other programs for long. */
import { assert, describe, it } from "@effect/vitest"
import { Monotonic } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { briefTimes, connectionTo, query, recordsOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Deferred, Duration, Effect, Fiber, Layer } from "effect"
import { randomUUID } from "node:crypto"
import { afterAll, beforeAll } from "vitest"
import { Destination, scan, type ScanOptions, SinkError } from "../../src/index.ts"
import { Unavailable } from "../../src/port/Sink.ts"
import { connect, type PostgresClient } from "../../src/postgres/PostgresClient.ts"
import * as Lease from "../../src/postgres/PostgresLease.ts"
import { migrate } from "../../src/postgres/PostgresSchema.ts"
import { settingsOf } from "../../src/postgres/PostgresSettings.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { quoted } from "../../src/sql/SqlStatement.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const newSchema = () => `t_${randomUUID()}`

const unthreaded = (schema: string) => PostgresSink.layer(urlOf(server, schema), briefTimes)

/** A sink whose commits may continue after an interrupt, so long that no result depends on the speed of the machine. */
const patient = (schema: string) =>
  PostgresSink.layer(urlOf(server, schema), { ...briefTimes, interruptTimeout: Duration.hours(1) })

const run = (schema: string, options: ScanOptions = {}, sink = unthreaded) =>
  scan("payoutRequests", { limit: 10, largestBatch: 10, ...options }).pipe(
    Effect.provide(Layer.merge(sink(schema), layerTest({ payoutRequests: recordsOf("a") })))
  )

/** The sink as the programs use it. */
const threaded = (schema: string) =>
  Layer.provide(Destination.layer({ _tag: "Postgres", url: urlOf(server, schema) }), NodeServices.layer)

/** A connection of another program. */
const otherConnection = Effect.suspend(() => connectionTo(server))

/** Runs an effect in the background with a client whose transaction hangs before COMMIT. */
const hangInTransaction = <A, E, R>(schema: string, action: (client: PostgresClient) => Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const client = yield* connect(yield* settingsOf(urlOf(server, schema)))
    const reached = yield* Deferred.make<void>()
    const never = yield* Deferred.make<never>()
    yield* Effect.forkScoped(action({
      ...client,
      transaction: (body) =>
        client.transaction((send) =>
          Effect.andThen(body(send), Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(never)))
        )
    }))
    // The acquisition of a lease is uninterruptible, so end it with a defect.
    yield* Effect.addFinalizer(() => Deferred.die(never, "the end of the test"))
    yield* Deferred.await(reached)
  })

describe("a program that hangs in a transaction", () => {
  /** Hangs while it acquires the lease of a list in a new schema. Returns the schema. */
  const hangAcquiring = Effect.fnUntraced(function*(idleTimeout: Duration.Duration) {
    const schema = newSchema()
    yield* run(schema)
    const times = { ...briefTimes, idleTimeout }
    yield* hangInTransaction(
      schema,
      (client) => Lease.acquire({ client, schema: quoted(schema), times }, "payout-requests", "refuse")
    )
    return schema
  })

  it.live("while it acquires a lease blocks other programs only for the idle timeout", () =>
    Effect.gen(function*() {
      const blocked = yield* hangAcquiring(Duration.hours(1))
      assert.strictEqual((yield* Effect.flip(run(blocked))).reason._tag, "Locked")
      const released = yield* hangAcquiring(briefTimes.idleTimeout)
      assert.strictEqual((yield* run(released, { onLocked: "wait" })).records, 300)
    }).pipe(Effect.scoped))

  it.live("while it creates the tables lets the next program create them", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      // The next program waits for twice as long, which leaves four seconds to a busy server.
      const times = { ...briefTimes, idleTimeout: Duration.seconds(4) }
      yield* hangInTransaction(schema, (client) => migrate(client, schema, times.idleTimeout))
      const next = run(schema, {}, (name) => PostgresSink.layer(urlOf(server, name), times))
      assert.strictEqual((yield* next).records, 300)
    }).pipe(Effect.scoped))
})

describe("a lease", () => {
  /** A renewal would set the time at which it expires again. */
  const unrenewed: Lease.Times = { ...briefTimes, validity: Duration.minutes(2), renewalInterval: Duration.hours(1) }
  const openLeases = Effect.fnUntraced(function*(schema: string) {
    const client = yield* connect(yield* settingsOf(urlOf(server, schema)))
    yield* migrate(client, schema, briefTimes.idleTimeout)
    return { client, schema: quoted(schema), times: unrenewed }
  })
  const acquireOnce = (leases: Lease.Leases) => Effect.scoped(Lease.acquire(leases, "payout-requests", "refuse"))

  it.live("that could not be released is acquired again at once by the same process, and by no other owner", () =>
    Effect.gen(function*() {
      const leases = yield* openLeases(newSchema())
      const unreachable = new SinkError({ location: "", reason: new Unavailable({ code: "ECONNREFUSED" }) })
      const first = yield* acquireOnce({
        ...leases,
        client: { ...leases.client, onceWriting: () => Effect.fail(unreachable) }
      })
      const again = yield* Effect.scoped(Effect.gen(function*() {
        const lease = yield* Lease.acquire(leases, "payout-requests", "refuse")
        assert.strictEqual((yield* Effect.flip(acquireOnce(leases))).reason._tag, "Locked")
        return lease
      }))
      assert.deepStrictEqual(again.epoch, first.epoch + 1n)
      assert.notStrictEqual((yield* acquireOnce(leases)).owner, first.owner)
    }).pipe(Effect.scoped))

  it.live("that was acquired before the server's clock was set back by an hour is taken over", () =>
    Effect.gen(function*() {
      const leases = yield* openLeases(newSchema())
      yield* Lease.acquire(leases, "payout-requests", "refuse")
      const expireIn = (time: string) =>
        leases.client.query(`UPDATE ${leases.schema}.leases SET expires = clock_timestamp() + interval '${time}'`)
      yield* expireIn("2 minutes")
      assert.strictEqual((yield* Effect.flip(acquireOnce(leases))).reason._tag, "Locked")
      yield* expireIn("1 hour")
      yield* acquireOnce(leases)
    }).pipe(Effect.scoped))
})

it.live("an export fails with a message if another program does not finish creating the tables", () =>
  Effect.gen(function*() {
    const schema = newSchema()
    const creator = yield* otherConnection
    yield* creator.query("SELECT pg_advisory_lock(hashtextextended($1, 0))", [`payments ${schema}`])
    const error = yield* Effect.flip(run(schema))
    assert.include(error.message, "another program has a lock there and does not release it")
  }).pipe(Effect.scoped))

describe("an export that is interrupted while it commits", () => {
  /** Interrupts an export whose first commit waits for a lock of another program. `before` is the time of the interruption. */
  const interruptCommit = Effect.fnUntraced(function*(schema: string, sink = unthreaded) {
    const client = yield* connect(yield* settingsOf(urlOf(server, schema)))
    yield* migrate(client, schema, briefTimes.idleTimeout)
    const blocker = yield* otherConnection
    yield* blocker.query("BEGIN")
    // This lock blocks writes of the table, but not reads.
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
    const before = yield* Monotonic.millis
    const interruption = yield* Effect.forkScoped(Fiber.interrupt(exporting))
    yield* Effect.sleep("200 millis")
    return { before, blocker, ended: Fiber.await(interruption) }
  })
  const pages = (schema: string) => Effect.promise(() => query(server, `SELECT pages::int FROM "${schema}".scans`))

  it.live.each([["in the main thread", patient], ["in a worker thread", threaded]] as const)(
    "completes that commit first, %s",
    ([, sink]) =>
      Effect.gen(function*() {
        const schema = newSchema()
        const { blocker, ended } = yield* interruptCommit(schema, sink)
        yield* blocker.query("ROLLBACK")
        yield* ended
        assert.deepStrictEqual(yield* pages(schema), [{ pages: 1 }])
        const summary = yield* run(schema)
        assert.deepInclude(summary, { start: "resumed", records: 300, inserted: 300 })
      }).pipe(Effect.scoped)
  )

  it.live("ends without the commit if that takes too long", () =>
    Effect.gen(function*() {
      const schema = newSchema()
      const { before, blocker, ended } = yield* interruptCommit(schema)
      yield* ended
      assert.isAtLeast((yield* Monotonic.millis) - before, 950)
      yield* blocker.query("ROLLBACK")
      assert.deepStrictEqual(yield* pages(schema), [{ pages: 0 }])
    }).pipe(Effect.scoped))
})
