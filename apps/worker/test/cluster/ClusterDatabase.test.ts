/** What a runner reads and writes in the database of its cluster, and poolers in front of it. */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { connect, settingsOf } from "@payments/copy/postgres"
import { freePort } from "@payments/testkit/FreePort"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { makeTcpGate } from "@payments/testkit/TcpGate"
import { Clock, Context, Effect, Exit, Layer, Logger, Scope } from "effect"
import { findPooling, refusePooler } from "../../src/cluster/Pooler.ts"
import { RunnerLeases } from "../../src/cluster/RunnerLeases.ts"
import * as Runners from "../../src/cluster/Runners.ts"
import { Status } from "../../src/state/Status.ts"
import { testStatus } from "../loop/TestSources.ts"
import { type Mode, startPooler } from "./PoolerProxy.ts"

let server: PostgresServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.stop())

/** Starts a runner, until its scope closes. */
const runnerIn = Effect.fnUntraced(function*(prefix: string, runner: string) {
  const scope = yield* Scope.make()
  const context = yield* RunnerLeases.layer({ prefix, runner }).pipe(
    Layer.provideMerge(Layer.fresh(testStatus)),
    Layer.buildWithScope(scope)
  )
  const leases = Context.get(context, RunnerLeases)
  return {
    register: Effect.provide(Effect.flatMap(settingsOf(urlOf(server, "s")), leases.register), Logger.layer([])),
    leases,
    status: Context.get(context, Status),
    end: Scope.close(scope, Exit.void)
  }
})

const fleetOf = (prefix: string) =>
  Effect.scoped(
    Effect.flatMap(
      Effect.flatMap(settingsOf(urlOf(server, "s")), connect),
      ({ once }) => Runners.readFleet(once, prefix)
    )
  )

/** Returns each runner with its sources, and each source with its runner and takeovers. */
const summaryOf = (prefix: string) =>
  Effect.map(fleetOf(prefix), (fleet) => [
    fleet?.runners.map(({ alive, runner, sources }) => `${runner} ${alive ? "alive" : "dead"} ${sources.join("+")}`),
    fleet?.sources.map(({ lastRunner, runner, source, takeovers }) => `${source} ${runner} ${lastRunner} ${takeovers}`)
  ])

/** Lets the fibers that an effect starts sleep for ever. So a runner notes only once that it is alive, as before a kill. */
const withoutTime = Effect.updateService(Clock.Clock, (clock): Clock.Clock => ({
  currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe(),
  currentTimeMillis: clock.currentTimeMillis,
  currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
  currentTimeNanos: clock.currentTimeNanos,
  monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
  monotonicTimeNanos: clock.monotonicTimeNanos,
  sleep: () => Effect.never
}))

/** Makes a runner look as if it had not noted for a while that it is alive, as after a kill. */
const killed = (prefix: string, runner: string) =>
  Effect.promise(() =>
    query(server, `UPDATE ${prefix}_processes SET seen_at = seen_at - interval '1 minute' WHERE runner = $1`, [runner])
  )

describe("the table of runners", () => {
  it.live("says who runs which source, over handovers, takeovers and ends", () =>
    Effect.gen(function*() {
      assert.isUndefined(yield* fleetOf("told"))
      const [first, second] = yield* Effect.all([runnerIn("told", "a"), runnerIn("told", "b")])
      // Both create the tables at the same moment.
      yield* Effect.all([withoutTime(first.register), second.register], { concurrency: "unbounded" })
      assert.isUndefined(yield* first.leases.noteTaken("north"))
      assert.isUndefined(yield* first.leases.noteTaken("south"))
      assert.deepStrictEqual(yield* summaryOf("told"), [
        ["a alive north+south", "b alive "],
        ["north a a 0", "south a a 0"]
      ])
      yield* first.leases.noteReleased("south")
      assert.strictEqual(yield* second.leases.noteTaken("south"), "a")
      // It ended before the second runner began, and is noted only now.
      yield* first.leases.noteReleased("south")
      assert.deepStrictEqual((yield* summaryOf("told"))[1], ["north a a 0", "south b b 1"])
      yield* killed("told", "a")
      assert.deepStrictEqual(yield* summaryOf("told"), [
        ["a dead ", "b alive south"],
        ["north null a 0", "south b b 1"]
      ])
      assert.strictEqual(yield* second.leases.noteTaken("north"), "a")
      yield* second.end
      assert.deepStrictEqual((yield* summaryOf("told"))[1], ["north null b 1", "south null b 1"])
      yield* first.end
    }))

  it.live("says so too of sources that leave a runner and come back at once", () =>
    Effect.gen(function*() {
      const { end, leases, register } = yield* runnerIn("again", "a")
      yield* register
      const names = Array.from({ length: 30 }, (_, at) => `source ${at}`)
      const noteAll = Effect.forEach(names, leases.noteTaken, { concurrency: "unbounded" })
      yield* noteAll
      yield* Effect.forEach(names, leases.noteReleased)
      yield* noteAll
      const fleet = yield* fleetOf("again")
      assert.deepStrictEqual(fleet?.sources.filter(({ runner }) => runner !== "a"), [])
      yield* end
    }))

  it.live("shows each runner the runners of the other sources, and whether the database answers", () =>
    Effect.gen(function*() {
      const [first, second] = yield* Effect.all([runnerIn("shown", "a"), runnerIn("shown", "b")])
      assert.deepStrictEqual((yield* first.status.current).cluster, { runner: "a", isHealthy: false })
      yield* second.register
      yield* second.leases.noteTaken("north")
      yield* first.status.set({
        name: "north",
        destination: "",
        state: "elsewhere",
        isRateShared: null,
        problem: null,
        lists: [],
        handoffs: []
      })
      yield* first.register
      yield* Effect.repeat(Effect.andThen(Effect.sleep("10 millis"), first.status.current), {
        until: ({ sources }) => sources[0]?.runner === "b"
      }).pipe(Effect.timeout("60 seconds"))
      assert.strictEqual((yield* first.status.current).cluster?.isHealthy, false)
      yield* first.leases.noteJoined
      assert.strictEqual((yield* first.status.current).cluster?.isHealthy, true)
      yield* Effect.all([first.end, second.end])
    }))

  it.live("refuses the name of a live runner, and waits for that of a killed one", () =>
    Effect.gen(function*() {
      const [first, second] = yield* Effect.all([runnerIn("named", "a"), runnerIn("named", "a")])
      yield* withoutTime(first.register)
      const note = Effect.promise(() => query(server, "UPDATE named_processes SET seen_at = seen_at + interval '1 ms'"))
      // The second runner reads the time twice.
      const refused = yield* Effect.flip(Effect.raceFirst(
        second.register,
        Effect.forever(Effect.delay(note, "500 millis"))
      ))
      assert.match(
        refused.message,
        /^--runner: another live runner of this cluster has the name a: process \d+ on .*\. Give each runner a name of its own\.$/
      )
      yield* Effect.all([second.register, Effect.delay(killed("named", "a"), "200 millis")], {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(yield* summaryOf("named"), [["a alive "], []])
      // The end of the process that lost its name is not the end of the other one.
      yield* first.end
      assert.deepStrictEqual(yield* summaryOf("named"), [["a alive "], []])
      yield* second.end
      assert.deepStrictEqual(yield* summaryOf("named"), [[], []])
    }))
})

const findAt = (port: number) => Effect.flatMap(settingsOf(urlOf({ port }, "s")), findPooling)

describe("a pooler before the database of a cluster", () => {
  const cases: ReadonlyArray<readonly [Mode, number, string | undefined]> = [
    ["transaction", 1, "transaction"],
    ["transaction", 3, "transaction"],
    ["statement", 3, "statement"],
    ["session", 3, undefined]
  ]
  it.live.each(cases)(
    "in %s mode with %i connections is found to share them by %s",
    ([mode, size, found]) =>
      Effect.gen(function*() {
        const { port } = yield* startPooler(server.port, mode, size)
        assert.strictEqual(yield* findAt(port), found)
      }).pipe(Effect.scoped)
  )

  it.live("is not found in a direct connection", () =>
    Effect.gen(function*() {
      assert.isUndefined(yield* findAt(server.port))
    }))

  it.live("is not found in a direct connection to a server that answers late", () =>
    Effect.gen(function*() {
      const gate = yield* makeTcpGate(yield* Effect.promise(freePort))
      yield* gate.open(server.port)
      // Both sessions ask for it, the first one while the transaction of the second one is open.
      let asked = 0
      const isFirstSession = (chunk: Buffer) => chunk.includes("current_setting('payments.session'") && ++asked === 2
      yield* gate.holdAfter(isFirstSession, 3000)
      assert.isUndefined(yield* findAt(gate.port))
      assert.strictEqual(asked, 2)
    }).pipe(Effect.scoped))

  it.live("is refused with the place of the mistake and what to name instead", () =>
    Effect.gen(function*() {
      const { port } = yield* startPooler(server.port, "transaction", 3)
      const refused = yield* Effect.flip(refusePooler(urlOf({ port }, "s")))
      assert.deepStrictEqual(
        [refused._tag, refused.message],
        [
          "CommandExit",
          `cluster: a connection pooler in transaction mode is in front of postgres://127.0.0.1:${port}/postgres. ` +
          "Statements of one session ran on different connections to the server, and runners hold their locks on one " +
          "connection. Name the server's own port, or a pool in session mode."
        ]
      )
      yield* refusePooler(urlOf(server, "s"))
    }).pipe(Effect.scoped))
})
