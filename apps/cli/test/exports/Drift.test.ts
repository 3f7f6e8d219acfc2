/** What `payments export` says about records that look like no earlier one. */
import { assert, describe, it } from "@effect/vitest"
import { payments, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"

const invoices = (length: number, last: string) =>
  Array.from({ length }, (_, index) => ({ id: `inv_${index}`, status: index === length - 1 ? last : "paid" }))

describe("payments export", () => {
  it.live("names a new status in the export that finds it, and not again", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const exported = Effect.fnUntraced(function*(length: number, last: string, ...args: ReadonlyArray<string>) {
        const env = yield* sandboxEnv({ lists: { invoices: invoices(length, last) } })
        return yield* payments(["export", "invoices", "--to", "sqlite:copy.db", "--rebind", ...args], {
          env,
          cwd
        })
      })
      for (const length of [10, 11]) assert.strictEqual((yield* exported(length, "paid")).code, 0)
      const sentence = "invoices: new: status on_hold is a value that no earlier record had (1 record)"
      const { code, stdout: found } = yield* exported(12, "on_hold")
      assert.strictEqual(code, 0)
      assert.include(found, sentence)
      assert.notInclude((yield* exported(12, "on_hold")).stdout, "new:")
      const { stdout } = yield* exported(13, "lost", "--format", "json")
      assert.include(stdout, `"drift":[{"fact":"new-value","what":"status lost","records":1}]`)
    }).pipe(Effect.scoped))
})
