import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { payments, rowsOf, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { readdirSync } from "node:fs"
import { join } from "node:path"

const tables = Lists.all.map(({ label }) => label.replaceAll("-", "_"))
const counts = (file: string) => tables.map((table) => rowsOf(file, `SELECT count(*) AS n FROM ${table}`)[0]?.["n"])

describe("payments start", () => {
  it.live("exports the embedded sandbox over HTTP, retries failures, and inserts no row again in a second run", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      let retries = 0
      for (const [added, unchanged] of [["10,000", "0"], ["0", "10,000"]]) {
        const { code, stderr, stdout } = yield* payments(["start"], { cwd })
        assert.strictEqual(code, 0, stderr)
        assert.include(stderr, "embedded sandbox")
        const cells = /^payout-requests +(.*)$/m.exec(stdout)?.[1]?.split(/ +/) ?? []
        assert.deepStrictEqual(cells.slice(0, 6), ["10,000", added, "0", unchanged, "0", "100"])
        // The table has a column of retries only if there were any.
        if (/^ +records .* retries +seconds$/m.test(stdout)) retries += Number(cells[6])
        assert.include(stdout, "./payments-sandbox.db")
        assert.deepStrictEqual(counts(join(cwd, "payments-sandbox.db")), tables.map(() => 10_000))
      }
      assert.isAbove(retries, 0)
    }).pipe(Effect.scoped))

  it.live("exports the API in PAYMENTS_BASE_URL into payments.db", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 30 })
      const { code, stderr } = yield* payments(["start"], { cwd, env })
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.deepStrictEqual(counts(join(cwd, "payments.db")), [30, 30, 30])
    }).pipe(Effect.scoped))

  it.live("names the missing setting and exits if only one is set", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      for (
        const [env, missing] of [
          [
            { PAYMENTS_BASE_URL: "https://api.example.com" },
            "PAYMENTS_API_KEY is not set, nor is PAYMENTS_API_KEY_FILE, which names a file that contains the key"
          ],
          [{ PAYMENTS_API_KEY: "k" }, "PAYMENTS_BASE_URL is not set"]
        ] as const
      ) {
        const { code, stderr, stdout } = yield* payments(["start"], { cwd, env })
        assert.deepStrictEqual([code, stdout, stderr], [
          3,
          "",
          `payments: ${missing}\npayments: check the settings with: payments doctor\n`
        ])
      }
      assert.deepStrictEqual(readdirSync(cwd), [])
    }).pipe(Effect.scoped))
})
