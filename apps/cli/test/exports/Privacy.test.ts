/** The output of the command line when a service repeats keys, cursors, document numbers and names in its responses. */
import { assert, describe, it } from "@effect/vitest"
import { canary, echoingEnv, harmlessField } from "@payments/testkit/programs/EchoingService"
import { labels, payments, rowsOf, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { join } from "node:path"

describe("a secret that a service repeats", () => {
  it.live("is not printed by an export, nor is an undocumented field name that looks like a value", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* echoingEnv
      const file = join(folder, "payments.db")
      const { code, stderr, stdout } = yield* payments(["export", "--to", `sqlite:${file}`], { env })
      assert.strictEqual(code, 4, stderr)
      assert.include(stderr, "payin-sources: forbidden: the key may not read this list (403).\n")
      assert.include(stderr, "invoices: malformed answer: not JSON (an unknown type). Is this the API's address?\n")
      assert.include(stdout, `undocumented fields: ${harmlessField} (1), (other) (3)`)
      for (const secret of Object.values(canary)) {
        assert.notInclude((stdout + stderr).toLowerCase(), secret.toLowerCase())
      }
      assert.include(String(rowsOf(file, "SELECT raw FROM payout_requests WHERE id = 'a'")[0]?.["raw"]), canary.name)
    }).pipe(Effect.scoped))

  it.live("is not printed by a listing, except in its records", () =>
    Effect.gen(function*() {
      const env = yield* echoingEnv
      for (const label of labels.slice(1)) {
        const { stderr, stdout } = yield* payments([label, "list", "--all"], { env })
        assert.strictEqual(stdout, `{"id":"a"}\n`)
        for (const secret of Object.values(canary)) assert.notInclude(stderr.toLowerCase(), secret.toLowerCase())
      }
    }).pipe(Effect.scoped))
})
