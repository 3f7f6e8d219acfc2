/** What a cell of a spreadsheet has: the exact value, as a number only if the spreadsheet shows all of its digits. */
import { assert, describe, it } from "@effect/vitest"
import { diceOf, seed } from "@payments/testkit/Seed"
import { cellText, ColumnSum, hasControls, sheetValue } from "../../src/output/SheetCell.ts"

const notInXml =
  // oxlint-disable-next-line no-control-regex -- these are the characters that XML cannot have
  /[\u0000-\u0008\u000b-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

describe("a cell of a spreadsheet", () => {
  it.each(
    [
      ["0", 0],
      ["-5", -5],
      ["999999999999999", 999_999_999_999_999],
      ["1000000000000000", "1000000000000000"],
      ["-1000000000000000", "-1000000000000000"],
      ["9007199254740993", "9007199254740993"],
      ["12.50", 12.5],
      ["-0.000", 0],
      ["3333.3333333333335", 3333.333_333_333_333_5],
      ["3333.3333333333333333", "3333.3333333333333333"],
      ["1.5e+300", 1.5e300],
      ["1e999", "1e999"],
      ["true", true],
      ["[1]", "[1]"]
    ] as const
  )("has %s as it is", (json, value) => {
    assert.strictEqual(Object.is(sheetValue({ json }), -0) ? 0 : sheetValue({ json }), value)
  })

  it("has texts as texts, and null as nothing", () => {
    const texts = ["", "0012", "=1+1", "+1", "-1", "@a", "1e5", "NULL"]
    assert.deepStrictEqual(texts.map(sheetValue), texts)
    assert.deepStrictEqual([null, { json: "\"a\"", csv: "a" }, { json: "[]", csv: null }].map(sheetValue), [
      null,
      "a",
      null
    ])
  })

  it(`has any text, and shows characters that XML cannot have (PAYMENTS_SEED=${seed})`, () => {
    const dice = diceOf(seed, "cells")
    const parts = ["_x0041_", "A", "\u0000", "\u0007", "\r", "\n", "\t", "\ud83d", "\ude00", "\uffff", "é"]
    for (let run = 0; run < 2000; run++) {
      const text = Array.from({ length: dice.below(8) }, () => dice.pick(parts)).join("")
      const shown = cellText(text)
      assert.notMatch(shown, notInXml)
      assert.strictEqual(hasControls(text), notInXml.test(text.replaceAll("\r", "\n")))
      const codes = shown.replaceAll(
        /\\u([0-9a-f]{4})/g,
        (_, code: string) => String.fromCharCode(Number.parseInt(code, 16))
      )
      assert.strictEqual(codes, text.replaceAll(/\r\n?/g, "\n"))
    }
  })

  it(`sums a column exactly (PAYMENTS_SEED=${seed})`, () => {
    const dice = diceOf(seed, "sums")
    for (let run = 0; run < 200; run++) {
      const sum = new ColumnSum()
      let expected = 0n
      for (let count = dice.below(20); count > 0; count--) {
        const thousandths = BigInt(dice.below(1_000_000_000)) * BigInt(dice.below(1_000_000_000)) - 10n ** 17n
        const digits = String(thousandths < 0n ? -thousandths : thousandths).padStart(4, "0")
        sum.add({ json: `${thousandths < 0n ? "-" : ""}${digits.slice(0, -3)}.${digits.slice(-3)}` })
        expected += thousandths
      }
      assert.strictEqual(BigInt((sum.text() ?? "x").replace(".", "")), expected)
    }
    const mixed = new ColumnSum()
    for (const cell of [{ json: "5" }, null, "7", { json: "-0.25" }, { json: "true" }]) mixed.add(cell)
    assert.deepStrictEqual([mixed.text(), mixed.numbers, mixed.nulls], ["4.75", 2, 1])
    mixed.add({ json: "1e5" })
    assert.isUndefined(mixed.text())
  })
})
