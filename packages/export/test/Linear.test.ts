/** Text of the API that is made to take long, or much memory, on its way into a destination. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layoutOf, readable } from "../src/engine/Columns.ts"
import { printable } from "../src/index.ts"

const many = 1_000_000

describe("the work on a text is linear in its length", () => {
  it("also where an amount has a million digits", () => {
    const layout = layoutOf(Lists.invoices)
    const startedAt = performance.now()
    for (
      const [amount, kept] of [
        [`1${"0".repeat(many)}1`, null],
        [`1.${"0".repeat(many)}1`, null],
        [`0.${"0".repeat(many)}1`, null],
        [`${"1".repeat(many)}`, null],
        [`-1e${"0".repeat(many)}1`, -10],
        [`7.${"0".repeat(many)}`, 7]
      ] as const
    ) {
      const text = `{"amount":${amount}}`
      assert.deepStrictEqual(readable(layout, JSON.parse(text), text), { amount: kept }, amount.slice(0, 3))
    }
    // The first of them took five minutes.
    assert.isBelow(performance.now() - startedAt, 20_000)
  })

  it("also where all of it is escaped for a terminal, in pieces that no character is split by", () => {
    for (
      const [character, escaped] of [["\u0085", "\\u0085"], ["\u{e0001}", "\\udb40\\udc01"], ["😀", "😀"]] as const
    ) {
      for (const before of ["", "x"]) {
        assert.isTrue(printable(before + character.repeat(many)) === before + escaped.repeat(many), escaped)
      }
    }
    // Half a pair at the edge of a piece is a character of its own.
    const half = `${"x".repeat(64 * 1024 - 1)}\ud83d\u0007`
    assert.isTrue(printable(half) === `${half.slice(0, -1)}\\u0007`)
  })
})
