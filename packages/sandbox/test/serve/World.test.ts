import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { make } from "../../src/serve/World.ts"
import {
  cursorKinds,
  fieldsOf,
  filterOf,
  idOf,
  listNames,
  orders,
  pageOf,
  random,
  randomWorld,
  readAll,
  testSeed
} from "./WorldFixtures.ts"

describe(`a world (WORLD_SEED=${testSeed})`, () => {
  it("returns exactly the records that match the filters, alone and combined, in the list's order", () => {
    let matches = 0
    for (let run = 0; run < 60; run++) {
      const seed = testSeed + run
      const { clock, ...options } = randomWorld(seed)
      const { integerBelow, pickOne } = random(seed + 0.5)
      const world = make(options)
      for (const list of listNames) {
        const all = world.snapshot(list, clock.ms)
        const matching = filterOf(all)
        const names = Object.keys(Lists.byName[list].filters)
        for (let trial = 0; trial < 12; trial++) {
          const filters: Record<string, string> = {}
          // Most values are from the same record, so that it matches all filters. Some are from another record.
          let record = fieldsOf(all.length === 0 ? "{}" : pickOne(all))
          for (const name of trial < names.length ? [names[trial] ?? ""] : names.filter(() => integerBelow(2) === 0)) {
            if (all.length > 0 && integerBelow(6) === 0) record = fieldsOf(pickOne(all))
            const value = String(record[name])
            filters[name] = name === "paymentDate" && integerBelow(2) === 0 ? value.slice(0, 10) : value
          }
          const expected = matching(filters)
          const read = readAll(world, list, { filters, limit: 1 + integerBelow(100) })
          const context = `WORLD_SEED=${testSeed} run ${run} ${list} ${JSON.stringify(filters)} ${
            JSON.stringify(options)
          }`
          assert.deepStrictEqual(read.map(idOf), expected.map(idOf), context)
          assert.deepStrictEqual(read, expected, context)
          matches += expected.length
        }
      }
    }
    assert.isAbove(matches, 1000)
  })

  it("returns an empty page for a value that no record can have, and for an unknown filter", () => {
    const world = make({ records: 3000 })
    for (
      const [list, field, values] of [
        ["payoutRequests", "reference", [
          "",
          "payout-",
          "payout-3000",
          "payout-07",
          "payout-1e3",
          "source-1",
          "payout--1"
        ]],
        ["payoutRequests", "customerId", ["cus_99999999999999", "cus_1073741824", "cus_-1", "customer-1", "cus_1 "]],
        ["payoutRequests", "payoutTargetId", ["tgt_1_3", "tgt_1", "tgt__0", "tgt_1_00"]],
        ["invoices", "contract", ["con_", "con_1.5", "con_99999999999999"]],
        ["invoices", "customerDocumentNumber", ["1", "0000000000", "9999999999", "100000000O"]],
        ["invoices", "settlementDate", [
          "2024-02-30",
          "2024-1-7",
          "1969-01-01",
          "2999-01-01",
          "2024-01-07T00:00:00.000Z"
        ]],
        ["invoices", "paymentDate", ["2024-01-07T", "2024-01-07T00:00:00Z", "now", "1900-01-01"]],
        ["invoices", "settlementTime", ["0", "4", "11", ""]],
        ["invoices", "status", ["not a filter of §4"]]
      ] as const
    ) {
      for (const value of values) {
        const page = pageOf(world, list, { filters: { [field]: value } })
        assert.deepStrictEqual(page, { _tag: "Page", items: [], next: null, count: 0 }, `${field}=${value}`)
      }
    }
    const both = { customerId: "cus_0", payoutTargetId: "tgt_1_1" }
    assert.deepStrictEqual(pageOf(world, "payoutRequests", { filters: both }).items, [])
  })

  it("starts with 10,000,000 records without delay, and finds the first, middle and last by every filter", () => {
    for (const order of orders) {
      const world = make({ records: 10_000_000, order, seed: testSeed })
      for (const list of listNames.filter((name) => "reference" in Lists.byName[name].filters)) {
        const prefix = String(fieldsOf(pageOf(world, list).items[0] ?? "")["reference"]).replace(/\d+$/, "")
        for (const number of [0, 1_234_567, 9_999_999]) {
          const { items, next } = pageOf(world, list, { filters: { reference: prefix + number } })
          assert.deepStrictEqual([items.length, next], [1, null])
          const record = fieldsOf(items[0] ?? "")
          for (const field of Object.keys(Lists.byName[list].filters)) {
            if (record[field] === undefined || record[field] === null) continue
            const page = pageOf(world, list, { filters: { [field]: String(record[field]) } })
            assert.isAbove(page.items.length, 0, field)
            for (const item of page.items) assert.strictEqual(fieldsOf(item)[field], record[field])
          }
        }
      }
    }
  })

  it("returns the same records in every order: newest, oldest, shuffled by the seed", () => {
    const read = (order: typeof orders[number], seed: number) =>
      readAll(make({ records: 2500, order, seed }), "payinSources", { limit: 90 })
    const [newest, oldest, shuffled] = [read("newest", testSeed), read("oldest", testSeed), read("shuffled", testSeed)]
    const created = oldest.map((text) => String(fieldsOf(text)["createdAt"]))
    assert.strictEqual(oldest.length, 2500)
    assert.deepStrictEqual(created, created.toSorted())
    assert.deepStrictEqual(newest, oldest.toReversed())
    assert.deepStrictEqual(shuffled.toSorted(), oldest.toSorted())
    assert.deepStrictEqual(read("shuffled", testSeed), shuffled)
    // In a shuffled list, about half of all neighbours are out of order. In a sorted list, all or none are.
    const times = shuffled.map((text) => String(fieldsOf(text)["createdAt"]))
    const descents = times.filter((time, at) => at > 0 && time < (times[at - 1] ?? "")).length
    assert.isAbove(descents, 2500 * 0.25)
    assert.isBelow(descents, 2500 * 0.75)
  })

  it("counts the page, all matching records, the remaining ones or both, as `count` says", () => {
    for (const order of orders) {
      for (const filters of [{}, { customerId: "cus_0" }, { customerId: "cus_30" }]) {
        for (const cursors of cursorKinds) {
          // As long as the clock of a live world is stopped, the answers do not change.
          for (const live of [undefined, { now: () => 5 * 3_600_000, appearPerHour: 20 }]) {
            const counts = (count: "page" | "total" | "remaining" | "unread") => {
              const world = make({ records: 2600, order, cursors, count, live, seed: testSeed })
              const all: Array<number> = []
              for (let cursor: string | undefined;;) {
                const page = pageOf(world, "payoutRequests", { filters, limit: 60, cursor })
                all.push(page.count)
                if (page.next === null) return all
                cursor = page.next
              }
            }
            const pages = counts("page")
            const sum = pages.reduce((a, b) => a + b, 0)
            const all = make({ records: 2600, live, seed: testSeed }).snapshot("payoutRequests")
            assert.strictEqual(sum, filterOf(all)(filters).length)
            assert.deepStrictEqual(counts("total"), pages.map(() => sum))
            let remaining = sum
            assert.deepStrictEqual(counts("remaining"), pages.map((count) => (remaining -= count)))
            let unread = sum
            assert.deepStrictEqual(counts("unread"), pages.map((count) => (unread -= count) + count))
          }
        }
      }
    }
  })

  it("accepts a cursor only with its list, limit and filters, and not a cursor of another kind", () => {
    const [keyset, offset] = [make({ reservedCursors: true }), make({ cursors: "offset" })]
    const filters = { customerId: "cus_0" }
    const cursor = pageOf(keyset, "payoutRequests", { filters, limit: 10 }).next ?? ""
    const offsetCursor = pageOf(offset, "payoutRequests", { filters, limit: 10 }).next ?? ""
    assert.match(cursor, /[+/=&?#%~ ñ漢]{5}$/)
    const request = { filters, limit: 10, cursor }
    assert.strictEqual(keyset.servers.payoutRequests(request)._tag, "Page")
    for (
      const answer of [
        keyset.servers.payinSources(request),
        keyset.servers.payoutRequests({ ...request, limit: 11 }),
        keyset.servers.payoutRequests({ ...request, filters: { customerId: "cus_1" } }),
        keyset.servers.payoutRequests({ ...request, filters: {} }),
        keyset.servers.payoutRequests({ ...request, cursor: offsetCursor }),
        keyset.servers.payoutRequests({ ...request, cursor: "" }),
        keyset.servers.payoutRequests({ ...request, cursor: "x" }),
        offset.servers.payoutRequests(request)
      ]
    ) {
      assert.strictEqual(answer._tag, "CursorRefused")
    }
  })
})
