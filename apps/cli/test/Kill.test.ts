import { assert, describe, it } from "@effect/vitest"
import { records as generated, type SandboxOptions } from "@payments/sandbox"
import { Cause, Console, Effect, Exit, Random } from "effect"
import { join } from "node:path"
import { crash, seed } from "../../../packages/export/test/Seed.ts"
import { destinations, rowsIfAny, type Target } from "./Destinations.ts"
import { payments, rowsOf, sandboxEnv, temporaryFolder } from "./Program.ts"

const size = crash ? 100_000 : 20_000
const kills = crash ? 200 : 10
const killed = destinations.filter(({ isBrief }) => crash || isBrief)

const hostileText = 0.02

const served = (): ReadonlyArray<string> => {
  const { length, textAt } = generated("payoutRequests", size, seed, hostileText)
  return Array.from({ length }, (_, index) => textAt(index)).toSorted()
}

const assertEqual = Effect.fnUntraced(function*(target: Target, expected: ReadonlyArray<string>) {
  const held = (yield* target.texts).toSorted()
  const differing = expected.findIndex((text, index) => held[index] !== text)
  assert.deepStrictEqual([held.length, differing], [expected.length, -1], `first difference at ${differing}`)
})

describe(`SIGKILL at ${kills} random moments of exports of ${size} records (seed ${seed})`, () => {
  it.live.each(killed.map((destination) => [destination.name, destination] as const))(
    "%s ends equal to what the API returned, and no reader ever saw half of it",
    ([, { open }]) =>
      Effect.gen(function*() {
        const expected = served()
        const options: SandboxOptions = {
          records: size,
          seed,
          hostileText,
          faults: [{ fault: "reset", rate: 0.01 }, { fault: "status", status: 500, rate: 0.01 }]
        }
        const env = yield* sandboxEnv(options)
        const cuts: Array<string> = []
        let latestMs = 420
        let done = 0
        const isEnough = () => done >= kills && (cuts.length >= 3 || done >= 20 * kills)
        /** Into one destination: a first load, then a rescan, each killed until it comes to its end. */
        const pass = Effect.gen(function*() {
          const target = yield* open
          const args = ["export", "payout-requests", "--to", target.to]
          const run = (killAfterMs?: number) => payments(args, { env: { ...env, ...target.env }, killAfterMs })
          yield* target.watched(Effect.gen(function*() {
            let last: string | undefined
            for (let ended = 0; ended < 2 && !isEnough();) {
              const { code, signal, stderr } = yield* run(yield* Random.nextIntBetween(120, Math.ceil(latestMs)))
              if (signal === "SIGKILL") {
                done++
                const at = yield* target.cutAt
                if (at !== undefined && at !== last) cuts.push(last = at)
                // A slow machine needs longer to get anywhere.
                else latestMs *= 1.3
              } else {
                assert.strictEqual(code, 0, stderr)
                yield* assertEqual(target, expected)
                ended++
                latestMs = Math.max(420, latestMs * 0.7)
              }
            }
            const { code, stderr } = yield* run()
            assert.strictEqual(code, 0, stderr)
            yield* assertEqual(target, expected)
          }))
        })
        while (!isEnough()) yield* Effect.scoped(pass)
        yield* Console.log(`cut at scan:page ${cuts.join(" ")}`)
        assert.isAtLeast(cuts.length, 3, "too few kills hit a scan between its first and its last page")
      }).pipe(Effect.scoped, Random.withSeed(seed)),
    crash ? 3_600_000 : 300_000
  )
})

describe("the reader that looks on", () => {
  it.live("sees a row that no scan counts", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 50 })
      for (const { open } of killed) {
        const target = yield* open
        assert.strictEqual((yield* payments(["export", "payout-requests", "--to", target.to], { env })).code, 0)
        yield* target.watched(Effect.sleep("300 millis"))
        yield* target.harm
        const seen = yield* Effect.exit(target.watched(Effect.sleep("300 millis")))
        assert.isTrue(Exit.isFailure(seen) && Cause.pretty(seen.cause).includes("what a reader saw"))
      }
    }).pipe(Effect.scoped), 180_000)
})

describe("Ctrl-C", () => {
  it.live("ends an export with code 130 and a word on how to go on, which the next run does", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 5000 })
      const args = ["export", "--to", `sqlite:${folder}/payments.db`]
      const file = join(folder, "payments.db")
      const cut = yield* payments(args, {
        env,
        interruptWhen: () => rowsIfAny(file, "SELECT 1 FROM invoices LIMIT 1").length > 0
      })
      assert.deepStrictEqual([cut.code, cut.stdout], [130, ""])
      assert.strictEqual(cut.stderr, "payments: interrupted. What was committed is kept: run again to go on.\n")
      assert.strictEqual((yield* payments(args, { env })).code, 0)
      assert.deepStrictEqual(rowsOf(file, "SELECT count(*) AS n FROM invoices"), [{ n: 5000 }])
    }).pipe(Effect.scoped))
})
