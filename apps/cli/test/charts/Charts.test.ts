import { assert, describe, it } from "@effect/vitest"
import type { Cell } from "@payments/copy"
import { type ChartColumns, chartData, chartNotes, tickText } from "../../src/charts/ChartData.ts"
import { chartText } from "../../src/charts/TerminalChart.ts"
import { widthOf } from "../../src/output/TextWidth.ts"

const number = (value: number | bigint | string): Cell => ({ json: String(value) })

const dataOf = (...args: Parameters<typeof chartData>) => {
  const data = chartData(...args)
  if (typeof data === "string") throw new Error(data)
  return data
}

const draw = (rows: ReadonlyArray<ReadonlyArray<Cell>>, width: number, colors = false, wanted?: ChartColumns) => {
  const data = dataOf(["group", "amount"], rows, wanted)
  return chartText(data, { width, colors })
}

const day = (index: number) => new Date(Date.UTC(2024, 0, 1 + index)).toISOString().slice(0, 10)

const cases: { readonly [name: string]: ReadonlyArray<ReadonlyArray<Cell>> } = {
  "bars": [["paid", number(10)], ["pending", number(2_500_000)], [null, number(0)], ["open", null]],
  "negative values": [["a", number(-5)], ["b", number(1)], ["c", number(0)]],
  "only negative values": [["a", number(-5)], ["b", number(-10)]],
  "sums beyond 64 bits": [["a", number(2n ** 100n)], ["b", number(-(2n ** 99n))], ["c", number(1)]],
  "equal values of 0": [["a", number(0)], ["b", number(0)]],
  "fractions": [["a", number("1234567.5")], ["b", number("-0.25")]],
  "wide and hostile labels": [["支払い".repeat(40), number(1)], ["\u001b[31mred\u202e", number(2)], ["é", number(3)]],
  "a line": Array.from({ length: 400 }, (_, index) => [day(index), number(Math.round(Math.sin(index / 20) * 1e6))]),
  "a line of large values": Array.from({ length: 400 }, (_, index) => [day(index), number(10n ** 25n * BigInt(index))]),
  "a line with nulls": Array.from({ length: 90 }, (_, index) => [day(index), index % 3 === 0 ? null : number(index)]),
  "a line of 5,000 points": Array.from({ length: 5_000 }, (_, index) => [day(index), number(index % 7)])
}

describe.each(Object.entries(cases))("a chart of %s", (_, rows) => {
  it.each([40, 60, 80, 160])("fits a terminal of %i columns, without a character that controls it", (width) => {
    const text = draw(rows, width)
    for (const line of text.split("\n")) assert.isAtMost(widthOf(line), width, line)
    assert.notMatch(text.replaceAll("\n", ""), /[\p{Cc}\u202e]/u)
    assert.notMatch(text, /NaN|Infinity|undefined/)
  })
})

describe("a chart in the terminal", () => {
  it("shows every value exactly, and null as NULL", () => {
    assert.strictEqual(
      draw(cases["bars"] ?? [], 40),
      [
        "group       amount",
        "paid            10  ▏",
        `pending  2,500,000  ${"█".repeat(20)}`,
        "NULL             0",
        "open          NULL",
        ""
      ].join("\n")
    )
    const large = draw(cases["sums beyond 64 bits"] ?? [], 80)
    assert.include(large, "1,267,650,600,228,229,401,496,703,205,376")
    assert.include(large, "-633,825,300,114,114,700,748,351,602,688")
    assert.include(draw(cases["fractions"] ?? [], 60), "1,234,567.5")
  })

  it("draws negative values to the left of 0", () => {
    assert.strictEqual(
      draw(cases["negative values"] ?? [], 27),
      ["group  amount", "a          -5  ██████████", "b           1            ██", "c           0", ""].join("\n")
    )
    const painted = draw(cases["negative values"] ?? [], 27, true)
    assert.include(painted, "\u001b[31m██████████\u001b[39m")
    assert.include(painted, "\u001b[36m██\u001b[39m")
  })

  it("is a line over many days, with round ticks", () => {
    const text = draw(cases["a line"] ?? [], 80)
    assert.match(text, /^amount by group \(of every 6 rows, the value farthest from 0\)\n/)
    for (const tick of [" 1M┤", " 500,000┤", " 0┤", "-500,000┤", "-1M┤"]) assert.include(text, tick)
    for (const label of [day(0), day(396)]) assert.include(text, label)
    const rows = [...(cases["a line"] ?? []), [null, number(1_234)]]
    assert.strictEqual(draw(rows, 80), text)
    assert.deepStrictEqual(chartNotes(dataOf(["group", "amount"], rows), [], rows, false), [
      "Not on the line: NULL 1,234."
    ])
    assert.include(draw(cases["a line of large values"] ?? [], 80), "4e27┤")
  })

  it("draws the columns that a question names, and the first numbers of a statement", () => {
    const columns = ["day", "cycle", "records", "amount", "amount_null"]
    const rows = [["2024-05-01", "1", number(3), number(7), number(2)], [
      "2024-05-01",
      null,
      number(9),
      null,
      number(9)
    ]]
    const wanted = { x: ["day", "cycle"], y: "amount", isOverTime: true }
    const data = dataOf(columns, rows, wanted)
    assert.deepInclude(data, { x: "day · cycle", y: "amount", isOverTime: false })
    assert.deepStrictEqual(data.points.map(({ label, text }) => [label, text]), [
      ["2024-05-01 · 1", "7"],
      ["2024-05-01 · NULL", undefined]
    ])
    assert.deepStrictEqual(chartNotes(data, columns, rows, false), ["amount is null in 11 of 12 records."])
    assert.deepStrictEqual(chartNotes(data, columns, rows, true), [])
    assert.deepInclude(dataOf(columns, rows), { x: "day", y: "records" })
    assert.deepStrictEqual(
      dataOf(["status", "n"], [["NULL", number(1)], [null, number(2)]]).points.map(({ label }) => label),
      [`"NULL"`, "NULL"]
    )
    assert.match(String(chartData(["status"], [["paid"]])), /needs a column of numbers/)
    assert.deepInclude(dataOf(["year", "n"], [[number(2024), number(5)]]), { x: "year", y: "n", isOverTime: false })
  })

  it("writes the numbers of an axis briefly", () => {
    assert.deepStrictEqual([0, 1_500, -2_500_000, 3e12, 2e18].map(tickText), ["0", "1,500", "-2.5M", "3T", "2e18"])
  })
})
