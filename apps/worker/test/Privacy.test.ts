/** What the worker logs of a service that repeats keys, cursors, document numbers and names wherever it can. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { canary, echoingEnv, shownField } from "../../cli/test/Echoes.ts"
import { runProgram, temporaryFolder } from "../../cli/test/Program.ts"
import { binary, logOf } from "./Started.ts"

describe("what a service repeats", () => {
  it.live("is not logged, nor are names of undocumented fields that look like values", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const { code, stderr, stdout } = yield* runProgram(
        process.execPath,
        [binary, "run", "--once", "--to", `sqlite:${file}`],
        { env: yield* echoingEnv }
      )
      assert.deepStrictEqual([code, stderr], [4, ""])
      const complete = logOf(stdout).find(({ message }) => message === "scan complete")
      assert.deepInclude(complete?.annotations, {
        list: "payout-requests",
        undocumented: { [shownField]: 1, "(other)": 4 }
      })
      assert.strictEqual(logOf(stdout).filter(({ message }) => message === "scan failed").length, 2)
      for (const secret of Object.values(canary)) assert.notInclude(stdout.toLowerCase(), secret.toLowerCase())
    }).pipe(Effect.scoped))
})
