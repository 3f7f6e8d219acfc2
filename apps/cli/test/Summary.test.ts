/** What the summary of an export says beside its figures. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Effect } from "effect"
import { payment } from "./InProcess.ts"
import { temporaryFolder } from "./Program.ts"

describe("the summary of an export", () => {
  it.live("tells how many texts a column could not hold, once for each scan", () =>
    Effect.gen(function*() {
      const args = ["export", "invoices", "--to", `sqlite:${yield* temporaryFolder}/p.db`]
      const api = layerTest({
        invoices: [
          String.raw`{"id":"a","reference":"\u0000","contract":"\ud800"}`,
          String.raw`{"id":"b","reference":"\ud83d\ude00","other":"\u0000"}`
        ]
      })
      const said =
        "invoices: 2 texts hold characters that not every database takes: their columns have U+FFFD there, raw has them whole\n"
      assert.include((yield* payment(api, args)).out, said)
      assert.notInclude((yield* payment(api, args)).out, "U+FFFD")
    }).pipe(Effect.scoped))
})
