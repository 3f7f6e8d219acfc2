/** A worker that hands changes off to a receiver over a socket. */
import { assert, describe, it } from "@effect/vitest"
import { rowsOf } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { startWorker } from "./RunningWorker.ts"
import { assertSigned, handedOff, numbersOf } from "./WorkerReceiver.ts"

type Worker = Effect.Success<ReturnType<typeof startWorker>>

const handoffOf = (worker: Worker, consumer = "ledger") =>
  Effect.map(worker.readiness, ({ body }) => body.sources[0]?.handoffs.find((one) => one.consumer === consumer))

/** The numbers of the changes, as the destination has them. */
const feedOf = (file: string): ReadonlyArray<number> =>
  rowsOf(file, "SELECT seq FROM changes ORDER BY seq").map(({ seq }) => Number(seq))

/** Advances the world until the destination has more changes than before. */
const change = Effect.fnUntraced(function*(worker: Worker, file: string, advance: Effect.Effect<unknown>) {
  const before = feedOf(file).length
  yield* advance
  yield* worker.until(Effect.sync(() => feedOf(file).length), (now) => now > before)
})

describe("a worker with a consumer that has a URL", () => {
  it.live("creates the consumer, and hands each change off, in order and signed", () =>
    Effect.gen(function*() {
      const { advance, args, env, file, keys, received } = yield* handedOff()
      const worker = yield* startWorker(args, env)
      yield* worker.untilUpToDate
      for (let round = 0; round < 3; round++) yield* change(worker, file, advance)
      yield* worker.until(Effect.sync(() => numbersOf(received).length), (count) => count >= feedOf(file).length)
      assert.deepStrictEqual(numbersOf(received).slice(0, feedOf(file).length), feedOf(file))
      assertSigned(received, readFileSync(keys, "utf8"))
      yield* worker.until(handoffOf(worker), (handoff) => handoff?.lagChanges === 0 && handoff.answer === "200")
      const handoff = yield* handoffOf(worker)
      assert.deepInclude(handoff, { state: "running", reason: null, lagSeconds: 0, problem: null, attempts: 0 })
      assert.strictEqual(handoff?.origin, new URL(handoff?.origin ?? "").origin)
      assert.deepStrictEqual(yield* worker.end("SIGTERM"), [0, null])
      assert.notInclude(worker.out(), "hook")
    }).pipe(Effect.scoped))
})
