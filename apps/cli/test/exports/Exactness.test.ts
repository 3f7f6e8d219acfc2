import { assert, describe, it } from "@effect/vitest"
import { payments, rowsOf, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

/** Records of the API. `JSON.parse` and `JSON.stringify` would change each of them. */
const records = [
  `{"b":1.10,"id":"x1","10":"before b when parsed","reference":null,"amount":1e2}`,
  `{"id":"x2","customerDetails":{"name":"Zoë \\u0000 \\ud800","risk":{"10":1e400,"a":[1.0,-0.0]}},"serial":9007199254740993}`,
  `{"id":"x3","dup":1,"dup":2,"__proto__":{"id":"evil"},"text":"tab\\tslash\\/é\\u00e9"}`
]

/** The same records with white space between the tokens. */
const spaced = records.map((record) => record.replaceAll(/(?<="[:,])(?=")/g, "\r\n\t "))

describe("a record's exact text", () => {
  it.live("is the same byte for byte in --format ndjson, in the NDJSON file and in raw", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* sandboxEnv({ lists: { payoutRequests: spaced } })
      const listed = yield* payments(["payout-requests", "list", "--format", "ndjson"], { env })
      assert.deepStrictEqual([listed.code, listed.stderr, listed.stdout], [0, "", `${records.join("\n")}\n`])

      const database = join(folder, "payments.db")
      for (const to of [`sqlite:${database}`, `file:${folder}/files?format=ndjson`]) {
        const { code, stderr } = yield* payments(["export", "payout-requests", "--to", to], { env })
        assert.deepStrictEqual([code, stderr], [0, ""])
      }
      assert.deepStrictEqual(
        rowsOf(database, "SELECT raw FROM payout_requests ORDER BY id").map(({ raw }) => raw),
        records
      )
      const file = readdirSync(join(folder, "files")).find((name) => name.endsWith(".ndjson")) ?? ""
      assert.strictEqual(readFileSync(join(folder, "files", file), "utf8"), `${records.join("\n")}\n`)
    }).pipe(Effect.scoped))
})
