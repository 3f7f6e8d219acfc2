/** Text from the API that is designed to use much time or memory. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { processorMs } from "@payments/testkit/ProcessorTime"
import { printable } from "../../src/index.ts"
import { layoutOf, withoutRoundedAmounts } from "../../src/plan/Columns.ts"
import { keepAll, redactorOf } from "../../src/rule/Rule.ts"

const many = 1_000_000

describe("the time for a text is linear in its length", () => {
  it("if an amount has a million digits", () => {
    const layout = layoutOf(Lists.invoices)
    const startedAt = processorMs()
    for (
      const [amount, expected] of [
        [`1${"0".repeat(many)}1`, null],
        [`1.${"0".repeat(many)}1`, null],
        [`0.${"0".repeat(many)}1`, null],
        [`${"1".repeat(many)}`, null],
        [`-1e${"0".repeat(many)}1`, -10],
        [`7.${"0".repeat(many)}`, 7]
      ] as const
    ) {
      const text = `{"amount":${amount}}`
      assert.deepStrictEqual(
        withoutRoundedAmounts(layout, JSON.parse(text), text),
        { amount: expected },
        amount.slice(0, 3)
      )
    }
    // A quadratic implementation took five minutes for the first one.
    assert.isBelow(processorMs() - startedAt, 20_000)
  })

  it("if a rule leaves out every other one of a million members", () => {
    const startedAt = processorMs()
    const redact = redactorOf(Lists.invoices, { ...keepAll, preset: "omit", undocumented: "omit" })
    const members = Array.from({ length: many / 2 }, (_, index) => `"status":"paid","x${index}":${index}`)
    const { text } = redact(`{${members.join(",")}}`)
    assert.strictEqual(text.length, (many / 2) * `"status":"paid",`.length + 1)
    const deep = redact(`{"id":"1","x":${"[".repeat(many)}${"]".repeat(many)}}`)
    assert.strictEqual(deep.text, `{"id":"1"}`)
    assert.isBelow(processorMs() - startedAt, 20_000)
  })

  it("if every character is escaped for a terminal, in chunks that split no character", () => {
    for (
      const [character, escaped] of [["\u0085", "\\u0085"], ["\u{e0001}", "\\udb40\\udc01"], ["😀", "😀"]] as const
    ) {
      for (const before of ["", "x"]) {
        assert.isTrue(printable(before + character.repeat(many)) === before + escaped.repeat(many), escaped)
      }
    }
    // A lone surrogate at the end of a chunk is kept.
    const half = `${"x".repeat(64 * 1024 - 1)}\ud83d\u0007`
    assert.isTrue(printable(half) === `${half.slice(0, -1)}\\u0007`)
  })
})
