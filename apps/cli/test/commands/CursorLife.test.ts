/** An export warns if its request rate is too low for the life of a cursor, which its destination knows. */
import { assert, describe, it } from "@effect/vitest"
import { addCursorLife } from "@payments/testkit/CursorLifeFact"
import { payments, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { join } from "node:path"

const warning =
  "invoices: at 0.1 requests per second, two pages are 10 s apart, but a cursor is accepted for less than 10 s: " +
  "the fact cursor-life is certain. Raise max_requests_per_second."

describe("an export whose requests are far apart", () => {
  it.live("says so before its first request, if the life of a cursor is certain and shorter", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const requests: Array<number> = []
      const env = yield* sandboxEnv({ records: 50, onRequest: ({ at }) => void requests.push(at) })
      const exported = (rate: string) =>
        Effect.map(
          payments(["export", "invoices", "--to", "sqlite:./payments.db"], {
            env: { ...env, PAYMENTS_MAX_REQUESTS_PER_SECOND: rate },
            cwd
          }),
          ({ code, stderr }) => {
            assert.strictEqual(code, 0, stderr)
            return stderr
          }
        )
      assert.notInclude(yield* exported("0.1"), "cursor-life")
      const file = join(cwd, "payments.db")
      addCursorLife(file, "less than 10 s", 1)
      assert.notInclude(yield* exported("0.1"), "cursor-life", "one observation is not certain")
      addCursorLife(file, "less than 10 s", 2)
      assert.strictEqual((yield* exported("0.1")).split("\n")[0], warning)
      assert.notInclude(yield* exported("0.2"), "cursor-life", "the next page comes after 5 s")
      addCursorLife(file, "at least 10 s", 2)
      assert.notInclude(yield* exported("0.1"), "cursor-life")
      assert.strictEqual(requests.length, 5)
    }).pipe(Effect.scoped))
})
