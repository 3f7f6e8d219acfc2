import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { type DecodedRecord, PaymentsApi } from "../../src/index.ts"
import { layerTest } from "../../src/testing.ts"

/** Valid and bad records by kind: as the API sends them, and as exact text. */
const kinds = {
  good: (id: string) => [`{ "id": "${id}", "amount": 1 }`, `{"id":"${id}","amount":1}`],
  undocumented: (id: string) => [`{"id":"${id}","x":{"amount":1.50}}`, `{"id":"${id}","x":{"amount":1.50}}`],
  wrongType: (id: string) => [`{"id":"${id}","amount":"1" }`, `{"id":"${id}","amount":"1"}`],
  inexact: (
    id: string
  ) => [`{"id":"${id}","amount":1.00000000000000000001}`, `{"id":"${id}","amount":1.00000000000000000001}`],
  withoutId: () => [`{"amount": 1}`, `{"amount":1}`],
  notAnObject: () => ["[1, 2]", "[1,2]"]
} as const satisfies Record<string, (id: string) => readonly [sent: string, exact: string]>
const Kind = Schema.Literals(Object.keys(kinds) as Array<keyof typeof kinds>) // the keys of a literal object

describe("a page", () => {
  it.effect.prop("has items and bad records in the order of its records", {
    sequence: Schema.Array(Kind).check(Schema.isMaxLength(30))
  }, ({ sequence }) =>
    Effect.gen(function*() {
      const texts = sequence.map((kind, index) => kinds[kind](`id_${index}`))
      const page = yield* PaymentsApi.use(({ invoices }) => invoices.page({ onBadRecord: "quarantine" })).pipe(
        Effect.provide(layerTest({ invoices: texts.map(([sent]) => sent) }))
      )
      const hasId = (kind: typeof Kind.Type) => kind !== "withoutId" && kind !== "notAnObject"
      const decodes = (kind: typeof Kind.Type) => kind === "good" || kind === "undocumented"
      const records = page.records()
      assert.deepStrictEqual(
        records.map(({ id, problem, text, value }) => [id, text, value, problem === undefined]),
        sequence.map((kind, index) => {
          const exact = texts[index]?.[1] ?? ""
          return [hasId(kind) ? `id_${index}` : undefined, exact, JSON.parse(exact), decodes(kind)]
        })
      )
      const isGood = (record: typeof records[number]): record is DecodedRecord<typeof page.items[number]> =>
        record.problem === undefined
      const good = records.filter(isGood)
      assert.strictEqual(page.items.length, good.length)
      for (const [index, item] of page.items.entries()) assert.strictEqual(item, good[index]?.value)
      assert.deepStrictEqual(page.bad, records.filter((record) => !isGood(record)))
      assert.strictEqual(page.records(), records, "the records are made once")
    }), { arbitrary: { runs: 200 } })
})
