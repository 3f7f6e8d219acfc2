/** Three runners over a real PostgreSQL server hand the changes of one source off: one is killed, one is frozen. */
import { assert, describe, it } from "@effect/vitest"
import { freePort } from "@payments/testkit/FreePort"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query } from "@payments/testkit/postgres/PostgresTest"
import { makeTcpGate } from "@payments/testkit/TcpGate"
import { Effect } from "effect"
import { afterAll, beforeAll } from "vitest"
import { isUpToDate, startWorker } from "../loop/RunningWorker.ts"
import { handedOff, numbersOf } from "../loop/WorkerReceiver.ts"

let server: PostgresServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.stop())

type Runner = Effect.Success<ReturnType<typeof startWorker>>

const rows = (sql: string) => Effect.promise(() => query(server, sql))

const feed = Effect.map(
  rows("SELECT seq FROM fleet.changes ORDER BY seq"),
  (found) => found.map(({ seq }) => Number(seq))
)

/** Lets the cluster and the destination forget a runner at once, which they would after 15 and 30 seconds. */
const forget = (runner: string) =>
  Effect.andThen(
    rows(`UPDATE fleet_runners SET last_heartbeat = now() - interval '1 minute' WHERE address LIKE '${runner}:%'`),
    rows("UPDATE fleet.leases SET expires = '-infinity'")
  )

describe("three runners whose source has a consumer", () => {
  it.live(
    "hand each change off in order, although the one that sends is killed, and another one is frozen and goes on",
    () =>
      Effect.gen(function*() {
        const url = `postgres://${user}@127.0.0.1:${server.port}/postgres`
        const { advance, args, env, received } = yield* handedOff({
          to: `${url}?schema=fleet`,
          more: "max_changes = 5\n",
          delayMs: () => 15
        })
        const start = (runner: string) =>
          Effect.map(
            startWorker([...args, "--cluster", url, "--cluster-prefix", "fleet", "--runner", runner], env),
            (worker) => ({ ...worker, runner })
          )
        let runners = yield* Effect.all(["a", "b", "c"].map(start), { concurrency: 3 })
        // The source can move when another runner joins.
        yield* Effect.forEach(runners, ({ untilOk }) => untilOk("/health/ready"))
        /** The runner that has the source and has read its lists, among those that answer. */
        const holder = (among: ReadonlyArray<Runner & { readonly runner: string }>) =>
          Effect.forEach(among, (one) => Effect.map(one.readiness, ({ body }) => [one, body] as const)).pipe(
            Effect.map((all) => all.find(([, body]) => body.sources[0]?.state === "running" && isUpToDate(body))?.[0]),
            Effect.delay("50 millis"),
            Effect.repeat({ until: (found) => found !== undefined }),
            Effect.timeout("2 minutes"),
            Effect.map((found) => found ?? assert.fail("no runner has the source"))
          )
        const first = yield* holder(runners)
        /** Changes records, and waits until some of the changes have arrived. */
        const someArrive = Effect.fnUntraced(function*(sender: Runner) {
          const before = received.length
          yield* advance
          yield* sender.until(Effect.sync(() => received.length), (now) => now >= before + 3)
        })
        yield* someArrive(first)
        yield* first.end("SIGKILL")
        runners = runners.filter((one) => one !== first)
        yield* forget(first.runner)
        const second = yield* holder(runners)
        yield* someArrive(second)
        second.child.kill("SIGSTOP")
        yield* forget(second.runner)
        const others = runners.filter((one) => one !== second)
        const third = yield* holder(others)
        yield* someArrive(third)
        second.child.kill("SIGCONT")
        yield* someArrive(third)
        const states = Effect.all([Effect.sync(() => numbersOf(received)), feed])
        yield* third.until(states, ([arrived, all]) => JSON.stringify(arrived) === JSON.stringify(all))
        const [{ epoch } = { epoch: 0 }] = yield* rows("SELECT epoch FROM fleet.handoffs")
        assert.isAtLeast(Number(epoch), 3)
        // Only one of the two that are left sends.
        const sending = Effect.map(
          Effect.forEach(runners, ({ readiness }) => readiness),
          (all) => all.filter(({ body }) => body.sources[0]?.handoffs[0]?.state === "running").length
        )
        yield* third.until(sending, (count) => count === 1)
      }).pipe(Effect.scoped),
    300_000
  )
})

describe("a worker whose PostgreSQL server cannot be reached for a while", () => {
  it.live("loses and reorders nothing of what it hands off", () =>
    Effect.gen(function*() {
      const gate = yield* Effect.flatMap(Effect.promise(freePort), makeTcpGate)
      yield* gate.open(server.port)
      const { advance, args, env, received } = yield* handedOff({
        to: `postgres://${user}@127.0.0.1:${gate.port}/postgres?schema=outage`,
        more: "max_changes = 5\n",
        delayMs: () => 20
      })
      const worker = yield* startWorker(args, env)
      yield* worker.untilUpToDate
      const outage = Effect.map(
        rows("SELECT seq FROM outage.changes ORDER BY seq"),
        (found) => found.map(({ seq }) => Number(seq))
      )
      for (let round = 0; round < 3; round++) {
        const before = received.length
        yield* advance
        yield* worker.until(Effect.sync(() => received.length), (now) => now >= before + 3)
        yield* gate.refuse
        yield* Effect.sleep("1500 millis")
        yield* gate.open(server.port)
      }
      const states = Effect.all([Effect.sync(() => numbersOf(received)), outage])
      yield* worker.until(
        states,
        ([arrived, all]) => arrived.length > 0 && JSON.stringify(arrived) === JSON.stringify(all)
      )
      // The log names no path of the receiver.
      assert.notInclude(worker.out(), "hook")
    }).pipe(Effect.scoped))
})
