import { assert, describe, it } from "@effect/vitest"
import { Destination, Sink, SinkError, SinkReason } from "@payments/copy"
import { layerTest } from "@payments/core/testing"
import { freePort } from "@payments/testkit/FreePort"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query } from "@payments/testkit/postgres/PostgresTest"
import { rowsOf, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { makeTcpGate } from "@payments/testkit/TcpGate"
import { Duration, Effect, Layer } from "effect"
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { runForever } from "../../src/loop/Worker.ts"
import { Status } from "../../src/state/Status.ts"
import { binary, startWorker } from "./RunningWorker.ts"
import { makeSource, testStatus } from "./TestSources.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const gate = Effect.flatMap(Effect.promise(freePort), makeTcpGate)
const newSchema = () => `t_${randomUUID()}`
const to = (port: number, schema: string, database = "postgres") =>
  `postgres://${user}@127.0.0.1:${port}/${database}?schema=${schema}`
const completeScans = (schema: string) =>
  Effect.promise(() =>
    query(server, `SELECT count(*)::int AS n FROM "${schema}".scans WHERE state = 'complete'`).then(([row]) =>
      Number(row?.["n"])
    )
  )

describe("a worker whose PostgreSQL server cannot be reached", () => {
  it.live("waits for it at startup, logs that, reports not ready, and then scans", () =>
    Effect.gen(function*() {
      const [before, schema] = [yield* gate, newSchema()]
      const env = yield* sandboxEnv({ records: 20 })
      const running = yield* startWorker(["--to", to(before.port, schema), "--every", "1h"], env)
      yield* running.untilLogged("destination waits", 2)
      const { body, status } = yield* running.readiness
      assert.deepStrictEqual([status, body.ready, body.sources[0]?.problem?.reason], [503, false, "Unavailable"])
      assert.include(body.sources[0]?.problem?.message, "no server listens there")
      const [first, second] = running.log("destination waits").map(({ annotations }) => annotations)
      assert.deepInclude(first, { reason: "Unavailable", waitMs: 1000 })
      assert.deepInclude(second, { error: body.sources[0]?.problem?.message, waitMs: 2000 })
      yield* before.open(server.port)
      yield* running.untilUpToDate
      assert.deepStrictEqual([(yield* running.readiness).body.sources[0]?.problem, yield* completeScans(schema)], [
        null,
        3
      ])
      assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
    }).pipe(Effect.scoped))

  it.live("waits for it between rounds", () =>
    Effect.gen(function*() {
      const [before, schema] = [yield* gate, newSchema()]
      yield* before.open(server.port)
      const running = yield* startWorker(
        ["--to", to(before.port, schema), "--every", "1s"],
        yield* sandboxEnv({ records: 20 })
      )
      yield* running.untilUpToDate
      yield* before.refuse
      yield* running.untilLogged("destination waits", 1)
      assert.strictEqual(yield* running.statusOf("/health/ready"), 503)
      const complete = running.log("scan complete").length
      yield* before.open(server.port)
      yield* running.untilLogged("scan complete", complete + 3)
      assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
    }).pipe(Effect.scoped))

  it.live("scans only those lists again whose connection is lost within a round", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      let isLost = false
      // A real destination whose connection is lost once.
      const source = makeSource("default", "http://127.0.0.1:1", file, {
        full: { _tag: "Every", every: Duration.hours(1) }
      })
      const destination = Layer.effect(
        Sink,
        Effect.map(Sink, (sink): Sink["Service"] => ({
          ...sink,
          begin: (list, request) =>
            Effect.map(sink.begin(list, request), (session) => ({
              ...session,
              commit: (batch) =>
                Effect.suspend(() => {
                  if (isLost || list.name !== "invoices") return session.commit(batch)
                  isLost = true
                  return new SinkError({ location: "", reason: new SinkReason.Unavailable({ code: "ECONNRESET" }) })
                })
            }))
        }))
      ).pipe(Layer.provide(Destination.layerInThisThread({ _tag: "Sqlite", file })))
      yield* Effect.forkScoped(runForever({ file: undefined, concurrency: 3, sources: [source] }, {
        api: () => layerTest({ invoices: [`{"id":"a"}`] }),
        open: () => destination
      }))
      const complete = () => rowsOf(file, "SELECT list FROM scans WHERE state = 'complete' ORDER BY list")
      const status = yield* Status
      const { sources } = yield* Effect.repeat(Effect.andThen(Effect.sleep("20 millis"), status.current), {
        until: (now) => now.sources[0]?.lists.every(({ completeScan }) => completeScan !== null) === true
      })
      assert.deepStrictEqual(sources[0]?.lists.map(({ failure }) => failure), [null, null, null])
      assert.deepStrictEqual(complete().map(({ list }) => list), ["invoices", "payin-sources", "payout-requests"])
    }).pipe(
      Effect.provide(testStatus),
      Effect.scoped
    ))

  it.live("exits with code 9 at startup if waiting would not help, or with --once", () =>
    Effect.gen(function*() {
      const env = { ...yield* sandboxEnv({ records: 3 }), PAYMENTS_PORT: "0" }
      const start = (...args: ReadonlyArray<string>) => runProgram(process.execPath, [binary, "run", ...args], { env })
      const noDatabase = yield* start("--to", to(server.port, newSchema(), "absent"))
      assert.deepStrictEqual([noDatabase.code, noDatabase.stderr.split("\n").length], [9, 2])
      assert.include(noDatabase.stderr, "there is no such database")
      const once = yield* start("--once", "--to", to(1, newSchema()))
      assert.deepStrictEqual([once.code, once.stdout], [9, ""])
      assert.include(once.stderr, "no server listens there")
    }).pipe(Effect.scoped))
})

describe("a worker that receives SIGTERM while its PostgreSQL server does not answer", () => {
  const moments = ["at startup", "while it waits for the service", "while it compares rows", "within a commit"]

  it.live("exits with code 0 in time, at every moment", () =>
    Effect.forEach(moments, (moment) =>
      Effect.gen(function*() {
        const [before, schema] = [yield* gate, newSchema()]
        yield* before.open(server.port)
        if (moment === "at startup") yield* before.stall
        const responses: Array<() => void> = []
        const service = yield* scriptedServer((_, response) =>
          void responses.push(() => pageOf(response, [`{"id":"a"}`], "next"))
        )
        const env = { PAYMENTS_BASE_URL: service.url, PAYMENTS_API_KEY: "k" }
        const running = yield* startWorker(["--to", to(before.port, schema), "--every", "1h"], env)
        if (moment !== "at startup") {
          yield* running.until(Effect.sync(() => responses.length), (count) => count >= 3)
          yield* moment === "within a commit" ? before.stallAt("COMMIT") : before.stall
        }
        if (moment === "while it compares rows" || moment === "within a commit") {
          for (const respond of responses) respond()
          yield* running.until(before.droppedChunks, (count) => count > 0)
        }
        assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null], moment)
        assert.include(running.out(), `"message":"stopped"`, moment)
      }).pipe(Effect.scoped), { concurrency: "unbounded", discard: true }))

  it.live("ends at once with code 0 on a second SIGTERM", () =>
    Effect.gen(function*() {
      const start = Effect.gen(function*() {
        const before = yield* gate
        yield* before.open(server.port)
        const args = ["--to", to(before.port, newSchema()), "--every", "1h"]
        const running = yield* startWorker(args, yield* sandboxEnv({ records: 3 }))
        yield* running.untilUpToDate
        yield* before.stallAt("'-infinity'")
        return { ...running, droppedChunks: before.droppedChunks }
      })
      const [twice, once] = yield* Effect.all([start, start], { concurrency: 2 })
      // If the second signal had no effect, the worker that got the first one a second earlier would end first.
      once.child.kill("SIGTERM")
      yield* Effect.sleep("1 second")
      twice.child.kill("SIGTERM")
      // The system merges two signals that wait. So the second one is sent after a release of a lease, which has that text.
      yield* twice.until(twice.droppedChunks, (count) => count > 0)
      assert.deepStrictEqual(yield* twice.end("SIGTERM"), [0, null])
      once.assertRuns()
    }).pipe(Effect.scoped))
})
