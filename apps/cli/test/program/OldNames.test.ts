/** The names of 0.1.0 that have changed. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { runInProcess } from "./InProcess.ts"

const api = layerTest({ invoices: [{ id: "inv_1", amount: 1 }] })

const warning = (from: string, to: string) =>
  `${from} is now called ${to}. Version 0.3.0 no longer accepts the old name.`

describe("an old name", () => {
  it.effect("of the filter by settlement time works", () =>
    Effect.gen(function*() {
      const invoices = layerTest({ invoices: [{ id: "a", settlementTime: "1" }, { id: "b", settlementTime: "2" }] })
      const { code, err, out } = yield* runInProcess(invoices, ["invoices", "list", "--settlement-cycle", "2"])
      assert.deepStrictEqual([code, out], [0, `{"id":"b","settlementTime":"2"}\n`])
      assert.include(err, `payments: ${warning("--settlement-cycle", "--settlement-time")}\n`)
    }))

  it.live("of a question works with a warning", () =>
    Effect.gen(function*() {
      const from = `sqlite:${yield* temporaryFolder}/p.db`
      yield* runInProcess(layerTest({ invoices: [{ id: "a", settlementTime: "1" }] }), ["export", "--to", from])
      const ask = (question: string) => runInProcess(api, ["query", question, "--from", from])
      const [old, current] = [yield* ask("settled-by-cycle"), yield* ask("settled-by-time")]
      assert.deepStrictEqual([old.code, old.out], [0, current.out])
      assert.include(old.err, warning("payments query settled-by-cycle", "payments query settled-by-time"))
    }).pipe(Effect.scoped))
})
