import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Effect, Schema } from "effect"
import { stripVTControlCharacters } from "node:util"
import stringWidth from "string-width"
import { type Column, firstNames, makeTable } from "../../src/output/Table.ts"
import { runInProcess } from "../program/InProcess.ts"

/** Measures a line without the table's own code: the greater width of terminals that combine characters or do not. */
const columnsOf = (line: string): number =>
  Math.max(
    stringWidth(line),
    Array.from(stripVTControlCharacters(line)).reduce((sum, character) => sum + stringWidth(character), 0)
  )

/** Text whose width is hard to count: wide, combining, joined, directional, unprintable, unpaired, long. */
const hostile = [
  "漢字",
  "ｆｕｌｌ",
  "한국어",
  "\u1112\u1161\u11ab",
  "e\u0301",
  "z\u0310\u0351\u036b\u0343",
  "\u0301",
  "👩‍👩‍👧",
  "🇬🇧🇺",
  "👍🏽",
  "❤️",
  "நிிிிிிிிிிிிி",
  "क्षत्रिय",
  "ﾊﾞ",
  "\u202e\u200b",
  "\u001b[31m\u0007\u009b2J",
  "a\tb\r\nc",
  "\ud83d",
  "\udc00",
  "עברית",
  "，",
  " ",
  "…",
  "0123456789".repeat(9)
]

const Hostile = Schema.Array(Schema.Literals(hostile))
const Rows = Schema.Array(Schema.Tuple([Hostile, Schema.Int, Schema.String, Hostile, Schema.String]))
const Width = Schema.Int.check(Schema.isBetween({ minimum: 20, maximum: 200 }))

const columns: ReadonlyArray<Column> = [
  { name: "id", wholeUpTo: 40 },
  { name: "amount", align: "right", wholeUpTo: 20 },
  { name: "reference" },
  { name: "settlementDate" },
  { name: "fields", minWidth: 6, shorten: firstNames }
]

describe("a table", () => {
  it.prop("is never wider than the terminal, for any text", [Schema.Array(Rows), Width], ([pages, width]) => {
    const table = makeTable(columns, width)
    for (const rows of pages) {
      const text = table.print(
        rows.map((
          [id, amount, reference, date, fields]
        ) => [id.join(""), String(amount), reference, date.join(""), fields])
      )
      for (const line of text.split("\n")) assert.isAtMost(columnsOf(line), width, JSON.stringify(line))
    }
  })

  it.prop("shows every character of an id and of an amount, if necessary on several lines", [Schema.BigInt, Width], (
    [amount, width]
  ) => {
    const id = `inv_${"0123456789abcdef".repeat(15)}`
    const table = makeTable(columns.slice(0, 2), width)
    const text = table.print([[id, String(amount)]])
    assert.include(text.replaceAll("\n", ""), id)
    const [, rest = ""] = text.replaceAll(/\n */g, "").split(id)
    assert.strictEqual(rest.trim(), table.omittedColumns().length === 0 ? String(amount) : "")
  })

  it("aligns later rows with the header, and prints it again if an id or an amount needs more room", () => {
    const table = makeTable(columns.slice(0, 3), 40)
    assert.strictEqual(table.print([["a", "1", "first"]]), "id  amount  reference\na        1  first\n")
    assert.strictEqual(table.print([["b", "22", "second"]]), "b       22  second\n")
    // The last column has the rest of the line.
    assert.strictEqual(
      table.print([["c", "3", "a reference that is far too long for it"]]),
      "c        3  a reference that is far too…\n"
    )
    assert.strictEqual(
      table.print([["inv_1", "1234567", "x"], ["d", "4", "y"]]),
      "id      amount  reference\ninv_1  1234567  x\nd            4  y\n"
    )
  })

  it("uses all room of the terminal before it shortens a cell", () => {
    const table = makeTable([{ name: "id", wholeUpTo: 40 }, { name: "status" }, { name: "date" }], 40)
    table.print([["a", "paid", "2024"]])
    assert.strictEqual(
      table.print([["b", "partially refunded", "2024"]]),
      "id  status              date\nb   partially refunded  2024\n"
    )
  })

  it("names the columns that do not fit", () => {
    const table = makeTable(columns, 30)
    assert.strictEqual(
      table.print([["a".repeat(20), "100", "r", "d", "f"]]).split("\n")[0],
      `id${" ".repeat(20)}amount`
    )
    assert.deepStrictEqual(table.omittedColumns(), ["reference", "settlementDate", "fields"])
  })

  it("shortens nothing without a terminal, and prints one header", () => {
    const table = makeTable(columns.slice(0, 3), Infinity)
    const long = "x".repeat(500)
    const text = table.print([["a", "1", "r"]]) + table.print([[long, "9".repeat(30), long]])
    assert.strictEqual(text.split("\n").length, 4)
    assert.include(text, `${long}  ${"9".repeat(30)}  ${long}\n`)
  })

  it("escapes control characters in names of columns", () => {
    const table = makeTable([{ name: "a\u001b[31m" }, { name: "b" }], 30)
    assert.strictEqual(table.print([["1", "2"]]), "a\\u001b[31m  b\n1            2\n")
  })

  it("groups the digits of integers and colours the usual states on a terminal only", () => {
    const kinds: ReadonlyArray<Column> = [
      { name: "id" },
      { name: "amount", kind: "integer" },
      { name: "status", kind: "state" },
      { name: "note" }
    ]
    const rows = [
      ["a", "-9223372036854775808", "paid", "1234567"],
      ["b", "999", "on_hold", ""],
      ["c", "1234.5", "\u001b[5mpaid", "x"],
      ["d", "007000", "FAILED", ""]
    ]
    assert.strictEqual(
      makeTable(kinds, 70, { onTerminal: true, colors: true }).print(rows),
      [
        "id                      amount  status         note",
        "a   -9,223,372,036,854,775,808  \u001b[32mpaid\u001b[39m           1234567",
        "b                          999  \u001b[33mon_hold\u001b[39m",
        "c                       1234.5  \\u001b[5mpaid  x",
        "d                       007000  \u001b[31mFAILED\u001b[39m",
        ""
      ].join("\n")
    )
    assert.include(makeTable(kinds, 70).print(rows), "a   -9223372036854775808  paid ")
    // Colours do not change which text fits.
    const narrow = makeTable([{ name: "id" }, { name: "status", kind: "state", minWidth: 6 }], 10, {
      onTerminal: true,
      colors: true
    })
    assert.strictEqual(narrow.print([["a", "processing"]]), "id  status\na   \u001b[33mproce…\u001b[39m\n")
  })

  it.effect("of a listing fits 80 columns on every page, however wide the records become", () =>
    Effect.gen(function*() {
      const invoices = Array.from({ length: 300 }, (_, index) => ({
        id: `inv_${"x".repeat(index / 15)}`,
        amount: 10 ** (index / 20 | 0),
        status: "paid",
        reference: "漢".repeat(index / 4),
        contract: "c".repeat(index),
        settlementDate: "2024-05-01"
      }))
      const { code, out } = yield* runInProcess(layerTest({ invoices }), ["invoices", "list", "--all"], true, 80)
      assert.strictEqual(code, 0)
      const lines = out.split("\n")
      assert.deepStrictEqual(lines.filter((line) => columnsOf(line) > 80), [])
      for (const { amount, id } of invoices) {
        assert.isTrue(
          lines.some((line) => line.startsWith(id) && line.includes(` ${amount.toLocaleString("en-US")} `)),
          id
        )
      }
    }))
})
