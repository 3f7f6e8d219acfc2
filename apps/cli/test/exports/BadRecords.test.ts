/** Listings of records that do not match the document. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { join } from "node:path"
import { runInProcess, withoutColors } from "../program/InProcess.ts"

const texts = [
  `{"id":"a","amount":1,"status":"paid"}`,
  `{"id":"b","amount":9007199254740993,"status":"paid"}`,
  `{"amount":"1,50","status":["paid"]}`,
  `{"id":7,"amount":1.10}`,
  `"text"`,
  `{"id":"c","amount":3,"status":"paid"}`
]
const api = layerTest({ invoices: texts })

describe("a listing with records that do not match the document", () => {
  it.effect("prints the exact text of each into a pipe, warns on stderr and exits with code 10", () =>
    Effect.gen(function*() {
      for (const limit of ["2", "100"]) {
        const { code, err, out } = yield* runInProcess(api, ["invoices", "list", "--all", "--limit", limit])
        assert.deepStrictEqual([code, out], [10, texts.map((text) => `${text}\n`).join("")])
        assert.match(
          err,
          /^payments: invoices: records that do not match the document: 4; printed as sent\. The first is record 2 of the output \(amount: .+\)\. Use --strict to stop at such a record\.\n$/
        )
      }
      const json = yield* runInProcess(api, ["invoices", "list", "--all", "--format", "json"])
      assert.deepStrictEqual([json.code, JSON.parse(json.out).count], [10, texts.length])
      for (const text of texts) assert.include(json.out, `\n${text}`)
    }))

  it.effect("shows their readable fields in a table, with exact numbers", () =>
    Effect.gen(function*() {
      const { code, out } = yield* runInProcess(api, ["invoices", "list", "--all"], true, 80).pipe(withoutColors)
      assert.strictEqual(code, 10)
      assert.deepStrictEqual(out.split("\n").map((line) => line.trim().split(/ {2,}/).slice(0, 3)), [
        ["id", "amount", "status"],
        ["a", "1", "paid"],
        ["b", "9,007,199,254,740,993", "paid"],
        ["1,50", `["paid"]`],
        ["7", "1.10"],
        [`"text"`],
        ["c", "3", "paid"],
        [""]
      ])
    }))

  it.effect("with --strict, ends at the first of them with exit code 8", () =>
    Effect.gen(function*() {
      const { code, err, out } = yield* runInProcess(api, ["invoices", "list", "--all", "--limit", "1", "--strict"])
      assert.deepStrictEqual([code, out], [8, `${texts[0]}\n`])
      assert.include(err, "items[0].amount")
    }))

  it.live("continues after the last printed one with --cursor-file, also after a record without an id", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "position.json")
      let out = ""
      for (let run = 0; run < texts.length; run++) {
        out +=
          (yield* runInProcess(api, ["invoices", "list", "--max", "1", "--limit", "100", "--cursor-file", file])).out
      }
      assert.strictEqual(out, texts.map((text) => `${text}\n`).join(""))
    }).pipe(Effect.scoped))
})
