/** Tests that every definition of a list, including a new one, is complete. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Stream } from "effect"
import { Lists, PaymentsApi, PaymentsConfig } from "../../src/index.ts"
import { layerTest } from "../../src/testing.ts"

describe.each(Lists.all.map((list) => [list.label, list] as const))("the definition of %s", (_, list) => {
  it("names fields of its record", () => {
    const fields = Object.keys(list.record.fields)
    assert.includeMembers(fields, [...list.tableFields, ...Object.keys(list.filters)])
    if (list.merchantIdIn !== undefined) assert.include(fields, list.merchantIdIn)
    if (list.windowFilter !== undefined) {
      const filters: { readonly [field: string]: Lists.Filter } = list.filters
      assert.strictEqual(filters[list.windowFilter]?.type, "day")
    }
  })

  it.live("is served by layerTest and read by PaymentsApi", () =>
    Effect.gen(function*() {
      const api = yield* PaymentsApi
      const records = yield* Stream.runCollect(Stream.map(api[list.name].pages(), ({ items }) => items.length))
      assert.deepStrictEqual(records, [1])
      assert.deepStrictEqual(
        Object.keys(api[list.name].parameters),
        list.parameterNames === "assumed" ? Object.keys(Lists.defaultInvoiceParameters) : []
      )
    }).pipe(Effect.provide(layerTest({ [list.name]: [{ id: "a" }] }))))
})

describe("lists", () => {
  it("have unique paths, labels and names", () => {
    for (const member of ["name", "label", "title", "path"] as const) {
      assert.strictEqual(new Set(Lists.all.map((list) => list[member])).size, Lists.all.length, member)
    }
    assert.deepStrictEqual([...Lists.ListName.literals], Lists.all.map(({ name }) => name))
  })

  it("have renamable parameters for the filters of lists with assumed names only", () => {
    const assumed = Lists.all.filter((list) => list.parameterNames === "assumed")
    assert.sameMembers(
      Object.keys(Lists.defaultInvoiceParameters),
      [...new Set(assumed.flatMap((list) => Object.keys(list.filters))), "limit", "cursor"]
    )
  })

  it.effect("have addresses at their own base address", () =>
    Effect.gen(function*() {
      const config = yield* PaymentsConfig.fromSettings({
        PAYMENTS_BASE_URL: "https://a.example/base/",
        PAYMENTS_INVOICES_BASE_URL: "https://b.example",
        PAYMENTS_API_KEY: Redacted.make("key")
      })
      for (const list of Lists.all) {
        const base = list.baseAddress === "invoices" ? "https://b.example" : "https://a.example/base"
        assert.strictEqual(PaymentsConfig.addressOf(config, list).href, base + list.path)
      }
    }))
})
