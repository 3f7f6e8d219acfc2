/** The worker with a rule for personal data, next to an erasure. */
import { assert, describe, it } from "@effect/vitest"
import { erase } from "@payments/copy"
import { Lists } from "@payments/core"
import { rowsOf, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect, Redacted } from "effect"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { openMaintenance } from "../../../../packages/copy/src/sqlite/SqliteStore.ts"
import { binary, startWorker } from "./RunningWorker.ts"

const secret = "0123456789abcdef0123456789abcdef"
const key = Redacted.make(new TextEncoder().encode(secret))
const invoices = Array.from(
  { length: 60 },
  (_, index) =>
    `{"id":"inv_${index}","amount":${index},"contract":"of person ${index % 3}","customerDocumentNumber":"person-${
      index % 3
    }"}`
)

describe("a worker", () => {
  it.live("refuses to start with an empty variable of the rule, and makes no destination", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = { PAYMENTS_BASE_URL: "http://127.0.0.1:1", PAYMENTS_API_KEY: "k", PAYMENTS_PERSONAL: "" }
      for (const once of [[], ["--once"]]) {
        const args = [binary, "run", ...once, "--port", "0", "--to", `sqlite:${join(folder, "p.db")}`]
        const { code, stderr } = yield* runProgram(process.execPath, args, { env })
        assert.strictEqual(code, 3, stderr)
        assert.include(stderr, "PAYMENTS_PERSONAL is empty.")
      }
      assert.deepStrictEqual(readdirSync(folder), [])
    }).pipe(Effect.scoped))
})

describe("a worker next to an erasure", () => {
  it.live(
    "continues, stores the person no more, and refuses to start with another rule or without the key",
    () =>
      Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "payments.db")
        const env = { ...yield* sandboxEnv({ lists: { invoices } }), PAYMENTS_PERSONAL_KEY: secret }
        const textsOf = () => JSON.stringify(rowsOf(file, "SELECT raw FROM invoices"))
        const args = ["--to", `sqlite:${file}`, "--every", "1s"]
        const running = yield* startWorker(args, env)
        yield* running.untilUpToDate
        assert.include(textsOf(), "person-1")
        yield* Effect.scoped(Effect.flatMap(openMaintenance(file, "here"), (opened) =>
          erase(opened, {
            criteria: [{ kind: "document-number", value: Redacted.make("person-1") }],
            key,
            by: "tester"
          }).pipe(Effect.retry({ times: 20 }))))
        yield* running.untilLogged("scan complete", running.log("scan complete").length + 2 * Lists.all.length)
        assert.notInclude(textsOf(), "person 1")
        assert.notInclude(textsOf(), "person-1")
        assert.include(textsOf(), "person-2")
        assert.deepStrictEqual(running.log("destination failed"), [])
        assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])

        const again = yield* startWorker(args, env)
        yield* again.untilLogged("scan complete", Lists.all.length)
        assert.notInclude(textsOf(), "person-1")
        assert.deepStrictEqual(yield* again.end("SIGTERM"), [0, null])

        const start = (changed: Record<string, string>) =>
          runProgram(process.execPath, [binary, "run", ...args], { env: { ...env, PAYMENTS_PORT: "0", ...changed } })
        for (
          const [changed, code, problem] of [
            [{ PAYMENTS_PERSONAL: "omit" }, 9, "payments rewrite"],
            [{ PAYMENTS_PERSONAL_KEY: "" }, 3, "needs the personal key"],
            [{ PAYMENTS_PERSONAL_KEY: secret.toUpperCase() }, 3, "not the one of its suppression list"]
          ] as const
        ) {
          const refused = yield* start(changed)
          assert.strictEqual(refused.code, code, refused.stderr)
          assert.include(refused.stderr, problem)
        }
      }).pipe(Effect.scoped)
  )
})
