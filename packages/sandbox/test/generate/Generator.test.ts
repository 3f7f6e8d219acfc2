import { assert, describe, it } from "@effect/vitest"
import { Lists, merchantIdOf } from "@payments/core"
import { Schema } from "effect"
import { make } from "../../src/generate/Generator.ts"
import { records } from "../../src/index.ts"
import { fieldsOf, idOf, listNames } from "../serve/WorldFixtures.ts"

const texts = (list: Lists.ListName, length: number, seed = 1, hostileText?: number) => {
  const { textAt } = make(list, { seed, hostileText })
  return Array.from({ length }, (_, index) => textAt(index))
}

describe("generated records", () => {
  it("have one merchant id per seed, in every payment URL", () => {
    const merchantsOf = (seed: number) => {
      const { length, textAt } = records("invoices", 200, seed)
      return new Set(Array.from({ length }, (_, index) => merchantIdOf(JSON.parse(textAt(index)))))
    }
    assert.deepStrictEqual([...merchantsOf(1), ...merchantsOf(2), ...merchantsOf(-3)], ["mer_1", "mer_2", "mer_-3"])
  })

  it("are a function of the seed, unique, and valid with any share of hostile text", () => {
    for (const list of Lists.all) {
      for (const share of [undefined, 0.1]) {
        const { length, textAt } = records(list.name, 2000, 5, share)
        assert.deepStrictEqual(Array.from({ length }, (_, index) => textAt(index)), texts(list.name, 2000, 5, share))
      }
      assert.notDeepEqual(texts(list.name, 2000, 5), texts(list.name, 2000, 6))
      for (const share of [0, 0.02, 1]) {
        const all = texts(list.name, 2000, 5, share)
        assert.isTrue(all.map(fieldsOf).every(Schema.is(list.record)), list.label)
        assert.strictEqual(new Set(all.map(idOf)).size, 2000)
      }
    }
  })

  it("contain every field of §2, nulls, missing fields and undocumented fields", () => {
    for (const list of Lists.all) {
      const all = texts(list.name, 2000)
      const fields = all.map(fieldsOf)
      for (const field of Object.keys(list.record.fields)) {
        assert.isTrue(fields.some((record) => record[field] !== undefined && record[field] !== null), field)
      }
      assert.isTrue(fields.some((record) => Object.values(record).includes(null)), list.label)
      assert.isTrue(fields.some((record) => Object.keys(list.record.fields).some((field) => !(field in record))))
      assert.isTrue(fields.some(({ status }) => status === "on_hold_by_review"), list.label)
      for (const sample of [/"10":1\.10/, /1e400/, /9007199254740993/]) assert.match(all.join("\n"), sample)
    }
    assert.match(texts("payoutRequests", 2000).join("\n"), /"customerDetails":\{[^{}]*"segment":\{"tier":1\.0/)
    assert.match(texts("payoutRequests", 2000).join("\n"), /"customerDetails":null/)
  })

  it("contain names in many scripts, escaped and unescaped", () => {
    const all = texts("payoutRequests", 20_000)
    const parsed = all.map((text) => String(JSON.stringify(fieldsOf(text)["customerDetails"]))).join("\n")
    for (const script of [/[à-ÿ]/, /[Ͱ-Ͽ]/, /[Ѐ-ӿ]/, /[一-鿿]/, /[؀-ۿ]/, /[ạ-ỹ]/]) {
      assert.match(parsed, script)
      assert.match(all.join("\n"), script)
    }
    assert.match(all.join("\n"), /"name":"[^"]*\\u0[34]/)
  })

  it("have timestamps as in §2: to the millisecond in invoices, to the second in other lists, days as dates", () => {
    for (const list of listNames) {
      const precision = list === "invoices"
        ? /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
        : /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/
      const all = [...texts(list, 500), make(list, { seed: 1 }).textAt(2 ** 30 - 1)].map(fieldsOf)
      for (const record of all) {
        for (const field of ["createdAt", "updatedAt", "paymentDate"]) {
          const value = record[field]
          if (typeof value !== "string") continue
          assert.match(value, precision)
          assert.strictEqual(new Date(value).toISOString().slice(0, 19), value.slice(0, 19))
          assert.isAtLeast(value.localeCompare(String(record["createdAt"])), 0)
        }
        if (typeof record["settlementDate"] !== "string") continue
        assert.match(record["settlementDate"], /^\d{4}-\d\d-\d\d$/)
        assert.isAbove(Date.parse(record["settlementDate"]), Date.parse(String(record["paymentDate"])) - 86_400_000)
      }
    }
  })

  it("contain text that breaks other programs, in the given share", () => {
    const samples = [
      `"=HYPERLINK(`,
      `"@SUM`,
      `"-2+3"`,
      `\\u001b[31m`,
      `\u202e`,
      `\\u0000`,
      `"\\ud800"`,
      `\\r\\n`
    ]
    const odd = [`ends in a backslash\\\\"`, `__proto__`, `"description":""`, "very long ".repeat(500)]
    for (const list of listNames) {
      const all = texts(list, 1000, 1, 1).join("\n")
      for (const sample of [...samples, ...odd]) assert.include(all, sample)
      assert.strictEqual(
        texts(list, 1000, 1, 0).filter((text) => samples.some((sample) => text.includes(sample))).length,
        0
      )
      for (const sample of odd) assert.include(texts(list, 20_000).join("\n"), sample)
      const [none, some] = [texts(list, 5000, 1, 0), texts(list, 5000, 1, 0.1)]
      const hostile = some.filter((text, index) => text !== none[index]).length
      assert.approximately(hostile, 500, 100, list)
    }
  })

  it("contain no text that breaks other programs by default", () => {
    // Control characters, formulas, mark-up, and characters that are invisible or change the direction of text. Two are
    // allowed: U+200D, which emoji contain, and the plus sign of a telephone number.
    const hostile = /\p{Cc}|[\u2028\u2029]|(?!\u200d)\p{Cf}|^(?!\+\d+$)[=+\-@\t]|<script|\$\{|\.\.\//u
    const textsIn = (value: unknown): ReadonlyArray<string> =>
      typeof value === "string"
        ? [value]
        : typeof value === "object" && value !== null
        ? Object.values(value).flatMap(textsIn)
        : []
    for (const list of listNames) {
      const all = texts(list, 20_000).flatMap((text) => textsIn(fieldsOf(text)))
      assert.deepStrictEqual(all.filter((text) => hostile.test(text) || !text.isWellFormed()), [], list)
      assert.isAbove(
        texts(list, 2000, 1, 0.1).flatMap((text) => textsIn(fieldsOf(text))).filter((text) => hostile.test(text))
          .length,
        50
      )
    }
  })

  it("have negative, very large and oddly spelled amounts, but only exact integers", () => {
    const amounts = texts("invoices", 20_000).map((text) => /"amount":([^,]+),/.exec(text)?.[1] ?? "")
    assert.isTrue(amounts.every((amount) => Number.isSafeInteger(Number(amount))))
    assert.isTrue(amounts.some((amount) => Number(amount) < 0))
    assert.isTrue(amounts.some((amount) => Number(amount) > 9_007_199_254_739_000))
    for (const odd of [/^\d+e3$/, /^\d+\.0$/]) {
      const share = amounts.filter((amount) => odd.test(amount)).length / amounts.length
      assert.isTrue(share > 0.001 && share < 0.02)
    }
  })

  it("have only usual amounts, and otherwise the same text, without unusual amounts", () => {
    const withoutAmounts = (text: string) => text.replaceAll(/"(amount|amountSent|paymentAmount)":[^,]+/g, "")
    for (const list of ["invoices", "payoutRequests"] as const) {
      const { textAt } = make(list, { seed: 1, unusualAmounts: false })
      const usual = Array.from({ length: 20_000 }, (_, index) => textAt(index))
      const amounts = usual.map((text) => Number(/"amount":([^,]+),/.exec(text)?.[1]))
      assert.isTrue(amounts.every((amount) => amount > 0 && amount <= 900_000 && amount % 1000 === 0), list)
      assert.deepStrictEqual(usual.map(withoutAmounts), texts(list, 20_000).map(withoutAmounts))
    }
  })

  it("belong to a few customers with many records and to many customers with few", () => {
    for (const length of [1000, 100_000]) {
      const counts = new Map<unknown, number>()
      for (const text of texts("payoutRequests", length)) {
        const { customerId } = fieldsOf(text)
        counts.set(customerId, (counts.get(customerId) ?? 0) + 1)
      }
      const sorted = [...counts.values()].toSorted((a, b) => b - a)
      const top = sorted.slice(0, 8).reduce((a, b) => a + b, 0)
      assert.isAbove(top, length * 0.25)
      assert.isBelow(top, length * 0.4)
      assert.isAbove(sorted.length, length / 10)
      assert.isAtMost(sorted[Math.floor(sorted.length / 2)] ?? 0, 5)
    }
  })

  it("are created in peaks, less often at weekends and at night, and are settled in three cycles", () => {
    const all = texts("invoices", 35_000).map(fieldsOf)
    const perDay = new Map<string, number>()
    for (const { createdAt } of all) {
      const day = String(createdAt).slice(0, 10)
      perDay.set(day, (perDay.get(day) ?? 0) + 1)
    }
    const days = [...perDay].filter(([day]) => day < "2024-02-26") // eight whole weeks
    const mean = days.reduce((sum, [, count]) => sum + count, 0) / days.length
    const busiest = Math.max(...days.map(([, count]) => count))
    assert.isAbove(busiest, 2 * mean)
    const on = (...weekdays: ReadonlyArray<number>) =>
      days.filter(([day]) => weekdays.includes(new Date(day).getUTCDay())).reduce((sum, [, count]) => sum + count, 0)
    assert.isBelow(on(0, 6), on(1, 2))
    const hours = all.map(({ createdAt }) => Number(String(createdAt).slice(11, 13)))
    assert.isBelow(hours.filter((hour) => hour < 5).length * 5, hours.filter((hour) => hour >= 9 && hour < 14).length)
    assert.deepStrictEqual(
      [...new Set(all.flatMap(({ settlementTime }) => settlementTime === undefined ? [] : [settlementTime]))]
        .toSorted(),
      ["1", "2", "3"]
    )
    assert.isTrue(all.slice(0, 1000).some(({ settlementDate }) => settlementDate === "2024-01-07")) // as in README.md
  })
})
