import { assert, describe, it } from "@effect/vitest"
import { scan } from "@payments/copy"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { rowsOf, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { without } from "@payments/testkit/SmallerLists"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import * as SqliteSink from "../../../../packages/copy/src/sqlite/SqliteSink.ts"
import { runInProcess } from "../program/InProcess.ts"

const invoices = Array.from({ length: 1200 }, (_, index) => ({ id: `inv_${index}`, amount: 1, contract: `c${index}` }))
const api = layerTest({ invoices })

describe("a destination whose columns are not filled yet", () => {
  it.live("is read with a note, and the next export fills it and reports that", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const to = `sqlite:${file}`
      const lists = [without(Lists.invoices, "contract", "paymentAmount")]
      yield* scan("invoices", { lists }).pipe(Effect.provide(Layer.merge(SqliteSink.layer(file, lists), api)))
      const verified = yield* runInProcess(api, ["verify", "--from", to])
      assert.strictEqual(verified.code, 0)
      assert.strictEqual(
        verified.out,
        "invoices: matches the certificate of scan 1: 1,200 records\n" +
          "invoices: columns that are not filled yet were not compared: contract, payment_amount; the next export of the list fills them\n"
      )
      const changes = yield* runInProcess(api, ["changes", "--from", to])
      assert.deepStrictEqual([changes.code, changes.out], [0, ""])
      assert.include(
        changes.err,
        "payments: columns of invoices are not filled yet: contract, payment_amount. The next export of the list fills them.\n"
      )
      assert.strictEqual((yield* runInProcess(api, ["quarantine", "--from", to])).code, 0)
      const exported = yield* runInProcess(api, ["export", "invoices", "--to", to])
      assert.strictEqual(exported.code, 0)
      assert.include(exported.err, "invoices: filling new columns of 1,200 rows first: contract, payment_amount\n")
      assert.deepStrictEqual(rowsOf(file, "SELECT count(contract) AS n FROM invoices"), [{ n: 1200 }])
      const again = yield* runInProcess(api, ["verify", "--from", to])
      assert.strictEqual(again.out, "invoices: matches the certificate of scan 2: 1,200 records\n")
      assert.notInclude((yield* runInProcess(api, ["changes", "--from", to])).err, "not filled")
    }).pipe(Effect.scoped))
})
