/** The log of a worker whose service repeats keys, cursors, document numbers and names in its responses. */
import { assert, describe, it } from "@effect/vitest"
import { canary, echoingEnv, harmlessField } from "@payments/testkit/programs/EchoingService"
import { runProgram, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { join } from "node:path"
import { binary, logOf } from "../loop/RunningWorker.ts"

describe("the worker", () => {
  it.live("logs no secret that a service repeats, and no undocumented field name that looks like a value", () =>
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
        undocumented: { [harmlessField]: 1, "(other)": 3 }
      })
      assert.strictEqual(logOf(stdout).filter(({ message }) => message === "scan failed").length, 2)
      for (const secret of Object.values(canary)) assert.notInclude(stdout.toLowerCase(), secret.toLowerCase())
    }).pipe(Effect.scoped))
})
