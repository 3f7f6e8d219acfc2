/** `payments probe` and `payments conformance` keep the request rate of the source, alone and with other programs. */
import { assert, describe, it } from "@effect/vitest"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { longTimers, payments, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { afterAll, beforeAll } from "vitest"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const perSecond = 20

/** A request that is on its way longer than the next ones seems to come with them. */
const burst = 5

/** Starts a sandbox, and returns the environment of its clients and the times of its requests. */
const loggedSandbox = Effect.gen(function*() {
  const times: Array<number> = []
  const env = yield* sandboxEnv({ records: 1000, onRequest: ({ at }) => void times.push(at) })
  return { times, env: { ...env, PAYMENTS_MAX_REQUESTS_PER_SECOND: String(perSecond) } }
})

/** Asserts that these requests took as long as the rate asks for. */
const assertRate = (times: ReadonlyArray<number>, least: number) => {
  assert.isAtLeast(times.length, least)
  const seconds = (Math.max(...times) - Math.min(...times)) / 1000
  assert.isAtLeast(seconds, (times.length - burst) / perSecond, `${times.length} requests`)
}

describe("the request rate of the source", () => {
  it.live.each<{ readonly args: ReadonlyArray<string> }>([
    { args: ["probe", "--budget", "60", "--pause", "1ms"] },
    { args: ["conformance", "--pages", "2", "--pause", "1ms"] }
  ])("is kept by payments $args", ({ args }) =>
    Effect.gen(function*() {
      const { env, times } = yield* loggedSandbox
      const { code, stderr } = yield* payments(args, { env, cwd: yield* temporaryFolder })
      assert.strictEqual(code, 0, stderr)
      assertRate(times, 40)
    }).pipe(Effect.scoped))

  it.live("is shared by a probe and an export through the rate limit store", () =>
    Effect.gen(function*() {
      const { env: ownEnv, times } = yield* loggedSandbox
      const store = `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=paces`
      // A program that waits for the store for a second in vain goes on without it.
      const env = { ...ownEnv, ...longTimers, PAYMENTS_RATE_LIMIT_STORE: store }
      const cwd = yield* temporaryFolder
      const ended = yield* Effect.all([
        payments(["probe", "--budget", "60", "--pause", "1ms"], { env, cwd }),
        payments(["export", "--to", "sqlite:./payments.db"], { env, cwd })
      ], { concurrency: 2 })
      assert.deepStrictEqual(ended.map(({ code }) => code), [0, 0], ended.map(({ stderr }) => stderr).join("\n"))
      assertRate(times, 85)
    }).pipe(Effect.scoped))
})
