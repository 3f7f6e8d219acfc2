/** A worker warns if its request rate is too low for the life of a cursor, which its destination knows. */
import { assert, describe, it } from "@effect/vitest"
import { addCursorLife } from "@payments/testkit/CursorLifeFact"
import { runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { join } from "node:path"
import { binary, logOf, startWorker } from "./RunningWorker.ts"

const warning =
  "invoices: at 0.3 requests per second, two pages are 10 s apart, but a cursor is accepted for less than 10 s: " +
  "the fact cursor-life is certain. Raise max_requests_per_second."

describe("a worker whose requests are far apart", () => {
  it.live("warns at its start, also with --once", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const env = yield* sandboxEnv({ records: 50 })
      const slow = { ...env, PAYMENTS_MAX_REQUESTS_PER_SECOND: "0.3" }
      const once = (settings: Record<string, string>) =>
        Effect.map(
          runProgram(process.execPath, [binary, "run", "--once", "--to", `sqlite:${file}`], { env: settings }),
          ({ stdout }) => logOf(stdout)
        )
      const warnings = (log: ReturnType<typeof logOf>) => log.filter(({ message }) => message.includes("cursor-life"))
      assert.deepStrictEqual(warnings(yield* once(env)), [])
      addCursorLife(file, "less than 10 s", 2)
      assert.deepStrictEqual(warnings(yield* once(env)), [])
      const found = (yield* once(slow)).filter(({ message }) => message === warning)
      assert.deepStrictEqual(found.map(({ level }) => level), ["WARN"])
      const worker = yield* startWorker(["--to", `sqlite:${file}`], slow)
      yield* worker.untilLogged(warning, 1)
    }).pipe(Effect.scoped))
})
