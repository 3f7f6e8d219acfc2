import { assert, describe, it } from "@effect/vitest"
import { records as generated, type SandboxOptions } from "@payments/sandbox"
import { destinations, rowsIfAny } from "@payments/testkit/programs/Destinations"
import { payments, rowsOf, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import type { Target } from "@payments/testkit/programs/Target"
import { isLongRun, seed } from "@payments/testkit/Seed"
import { Cause, Console, Effect, Exit, Random } from "effect"
import { join } from "node:path"

const size = isLongRun ? 100_000 : 20_000
const kills = isLongRun ? 200 : 10
const kinds = destinations.filter(({ isInShortRun }) => isLongRun || isInShortRun)

const hostileText = 0.02

const served = (): ReadonlyArray<string> => {
  const { length, textAt } = generated("payoutRequests", size, seed, hostileText)
  return Array.from({ length }, (_, index) => textAt(index)).toSorted()
}

const assertEqual = Effect.fnUntraced(function*(target: Target, expected: ReadonlyArray<string>) {
  const stored = (yield* target.texts).toSorted()
  const differing = expected.findIndex((text, index) => stored[index] !== text)
  assert.deepStrictEqual([stored.length, differing], [expected.length, -1], `first difference at ${differing}`)
})

describe(`SIGKILL at ${kills} random moments of exports of ${size} records (seed ${seed})`, () => {
  it.live.each(kinds.map((destination) => [destination.name, destination] as const))(
    "%s equals the API's list in the end, and a reader never sees an incomplete commit",
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
        const interruptions: Array<string> = []
        let latestMs = 420
        let done = 0
        const isEnough = () => done >= kills && (interruptions.length >= 3 || done >= 20 * kills)
        /** Exports twice into one destination: a first load and a rescan. Kills each of them until it completes. */
        const pass = Effect.gen(function*() {
          const target = yield* open
          const args = ["export", "payout-requests", "--to", target.to]
          const run = (killAfterMs?: number) => payments(args, { env: { ...env, ...target.env }, killAfterMs })
          yield* target.whileReading(Effect.gen(function*() {
            let last: string | undefined
            for (let completed = 0; completed < 2 && !isEnough();) {
              const { code, signal, stderr } = yield* run(yield* Random.nextIntBetween(120, Math.ceil(latestMs)))
              if (signal === "SIGKILL") {
                done++
                const at = yield* target.interruptedAt
                if (at !== undefined && at !== last) interruptions.push(last = at)
                // On a slow machine an export needs more time to commit a page.
                else latestMs *= 1.3
              } else {
                assert.strictEqual(code, 0, stderr)
                yield* assertEqual(target, expected)
                completed++
                latestMs = Math.max(420, latestMs * 0.7)
              }
            }
            const { code, stderr } = yield* run()
            assert.strictEqual(code, 0, stderr)
            yield* assertEqual(target, expected)
          }))
        })
        while (!isEnough()) yield* Effect.scoped(pass)
        yield* Console.log(`interrupted at scan:page ${interruptions.join(" ")}`)
        assert.isAtLeast(interruptions.length, 3, "too few kills hit a scan between its first and its last page")
      }).pipe(Effect.scoped, Random.withSeed(seed)),
    isLongRun ? 3_600_000 : 600_000
  )
})

describe("the concurrent reader", () => {
  it.live("detects a deleted row and a truncated file", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 50 })
      for (const { open } of kinds) {
        const target = yield* open
        assert.strictEqual((yield* payments(["export", "payout-requests", "--to", target.to], { env })).code, 0)
        yield* target.whileReading(Effect.sleep("300 millis"))
        yield* target.damage
        const seen = yield* Effect.exit(target.whileReading(Effect.sleep("300 millis")))
        assert.isTrue(Exit.isFailure(seen) && Cause.pretty(seen.cause).includes("inconsistencies that the reader saw"))
      }
    }).pipe(Effect.scoped))
})

describe("Ctrl-C", () => {
  it.live("ends an export with code 130 and prints how to resume it", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 5000 })
      const args = ["export", "--to", `sqlite:${folder}/payments.db`]
      const file = join(folder, "payments.db")
      const interrupted = yield* payments(args, {
        env,
        interruptWhen: () => rowsIfAny(file, "SELECT 1 FROM invoices LIMIT 1").length > 0
      })
      assert.deepStrictEqual([interrupted.code, interrupted.stdout], [130, ""])
      assert.strictEqual(
        interrupted.stderr,
        "payments: interrupted. Committed records are stored. Run the same command again to resume.\n"
      )
      assert.strictEqual((yield* payments(args, { env })).code, 0)
      assert.deepStrictEqual(rowsOf(file, "SELECT count(*) AS n FROM invoices"), [{ n: 5000 }])
    }).pipe(Effect.scoped))
})
