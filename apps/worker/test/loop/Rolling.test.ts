/** A rolling update of two workers over PostgreSQL, and SIGTERM at random moments. */
import { assert, describe, it } from "@effect/vitest"
import { startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query } from "@payments/testkit/postgres/PostgresTest"
import { payments, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Effect } from "effect"
import { binary, startWorker } from "./RunningWorker.ts"

const earlySignal = import.meta.resolve("@payments/testkit/programs/EarlySignal")

type Worker = Effect.Success<ReturnType<typeof startWorker>>
const stateOf = ({ readiness }: Worker) => Effect.map(readiness, ({ body }) => body.sources[0]?.state)

describe("a rolling update of two workers", () => {
  const updates = isLongRun ? 50 : 2
  it.live(`always has a worker that commits, and loses no page: ${updates} times`, () =>
    Effect.gen(function*() {
      const server = yield* Effect.acquireRelease(
        Effect.promise(() => startServer()),
        ({ stop }) => Effect.promise(stop)
      )
      const env = yield* sandboxEnv({ records: 3000, faults: [{ fault: "reset", rate: 0.01 }] })
      const to = `postgres://${user}@127.0.0.1:${server.port}/postgres`
      const start = startWorker(["--to", to, "--every", "1s"], env)
      let active = yield* start
      yield* active.untilLogged("scan complete", 1)
      for (let update = 0; update < updates; update++) {
        const next = yield* start
        yield* next.until(stateOf(next), (state) => state === "standby")
        assert.strictEqual((yield* next.readiness).status, 200)
        assert.deepStrictEqual(yield* active.end("SIGTERM"), [0, null])
        // The lease of a worker that is killed lasts for 30 s. One that ends gives it back.
        const held = yield* Effect.promise(() =>
          query(server, "SELECT holder FROM payments.leases WHERE expires > now()")
        )
        assert.deepStrictEqual(held.filter(({ holder }) => String(holder).includes(`process ${active.child.pid} `)), [])
        const endedAt = Date.now()
        const [begun] = yield* next.untilLogged("scan begun", 1)
        assert.isBelow(Date.parse(begun?.timestamp ?? "") - endedAt, 20_000)
        yield* next.untilLogged("scan complete", 1)
        active = next
      }
      yield* active.untilLogged("scan complete", 4)
      assert.deepStrictEqual(yield* active.end("SIGTERM"), [0, null])
      const verified = yield* payments(["verify", "--from", to])
      assert.strictEqual(verified.code, 0, verified.stderr)
      assert.strictEqual(verified.stdout.match(/3,000 records/g)?.length, 3, verified.stdout)
    }).pipe(Effect.scoped), isLongRun ? 3_600_000 : 180_000)
})

describe("SIGTERM", () => {
  const moments = isLongRun ? 500 : 6
  it.live(
    `ends a worker with code 0 at ${moments} random moments (PAYMENTS_SEED=${seed})`,
    () =>
      Effect.gen(function*() {
        const dice = diceOf(seed, "SIGTERM")
        const to = `sqlite:${yield* temporaryFolder}/p.db`
        const env = yield* sandboxEnv({ records: 3000 })
        for (let moment = 0; moment < moments; moment++) {
          const afterMs = dice.below(1000)
          const ended = yield* runProgram(
            process.execPath,
            ["--import", earlySignal, binary, "run", "--to", to, "--every", "1s"],
            { env: { ...env, PAYMENTS_PORT: "0", EARLY_SIGNAL: "SIGTERM", EARLY_AFTER_MS: String(afterMs) } }
          )
          assert.deepStrictEqual([ended.code, ended.stderr], [0, ""], `${afterMs} ms`)
        }
      }).pipe(Effect.scoped),
    isLongRun ? 3_600_000 : 180_000
  )
})
