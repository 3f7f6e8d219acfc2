/** The suite that every implementation of `PaymentsApi` must pass: in memory, over the sandbox, over a socket. */
import { assert, describe, it } from "@effect/vitest"
import { type Invoice, type PayinSource, PaymentsApi, type PaymentsError, type PayoutRequest } from "@payments/core"
import type { TestLists } from "@payments/core/testing"
import { Duration, Effect, type Layer, Redacted, Stream } from "effect"

const payouts = (count: number): ReadonlyArray<PayoutRequest> =>
  Array.from({ length: count }, (_, index) => ({
    id: `por_${index}`,
    reference: `ref+${index} &=?#%ñ`,
    customerId: `cus_${index % 7}`,
    payoutTargetId: `tgt_${index % 5}`,
    amount: index
  }))

const payinSources: ReadonlyArray<PayinSource> = Array.from({ length: 30 }, (_, index) => ({
  id: `pis_${index}`,
  reference: `source ${index}`,
  customerId: `cus_${index % 3}`
}))

const invoices: ReadonlyArray<Invoice> = Array.from({ length: 60 }, (_, index) => ({
  id: `inv_${index}`,
  reference: `invoice/${index}`,
  customerDocumentNumber: String(1000 + index % 4),
  contract: `con_${index % 6}`,
  paymentDate: `2024-05-0${1 + index % 9}T10:00:00.000Z`,
  settlementDate: `2024-05-${String(1 + index % 28).padStart(2, "0")}`,
  settlementTime: String(1 + index % 3)
}))

const ids = (records: ReadonlyArray<{ readonly id: string }>) => records.map(({ id }) => id)

/** `layer` returns the implementation over the given lists. */
export const suite = (name: string, layer: (lists: TestLists) => Layer.Layer<PaymentsApi, unknown>) => {
  const over = (lists: TestLists, use: (api: PaymentsApi["Service"]) => Effect.fn.Return<void, unknown>) =>
    PaymentsApi.use((api) => Effect.gen(() => use(api))).pipe(Effect.provide(layer(lists)))
  const everything = { payoutRequests: payouts(250), payinSources, invoices }

  describe(name, () => {
    it.live("reads every page, in order, to the null cursor", () =>
      over(everything, function*(api) {
        const pages = yield* Stream.runCollect(api.payoutRequests.pages())
        assert.deepStrictEqual(pages.map(({ items }) => items.length), [100, 100, 50])
        assert.deepStrictEqual(pages.map(({ next }) => next === null), [false, false, true])
        assert.deepStrictEqual(ids(pages.flatMap(({ items }) => items)), ids(payouts(250)))
        assert.deepStrictEqual(ids(yield* Stream.runCollect(api.payinSources.stream())), ids(payinSources))
        assert.deepStrictEqual(ids(yield* Stream.runCollect(api.invoices.stream({ limit: 7 }))), ids(invoices))
      }))

    it.live("reads an empty list as one empty page", () =>
      over({}, function*(api) {
        const pages = yield* Stream.runCollect(api.invoices.pages())
        assert.deepStrictEqual(pages.map(({ items, next }) => [items.length, next]), [[0, null]])
      }))

    it.live("ends after one page, and after an exact multiple of the limit", () =>
      over(everything, function*(api) {
        const one = yield* Stream.runCollect(api.payinSources.pages({ limit: 30 }))
        assert.deepStrictEqual(one.map(({ items }) => items.length), [30])
        const three = yield* Stream.runCollect(api.payinSources.pages({ limit: 10 }))
        assert.deepStrictEqual(three.map(({ items }) => items.length), [10, 10, 10])
      }))

    it.live("continues after an empty page that has a cursor", () =>
      over({ ...everything, faults: [{ fault: "emptyPage", every: 2 }] }, function*(api) {
        const pages = yield* Stream.runCollect(api.payinSources.pages({ limit: 10 }))
        assert.deepStrictEqual(pages.map(({ items }) => items.length), [10, 0, 10, 0, 10])
      }))

    it.live("sends a cursor with reserved and non-ASCII characters back unchanged", () =>
      over({ ...everything, reservedCursors: true }, function*(api) {
        const first = yield* api.payoutRequests.page({ limit: 20 })
        assert.include(first.next === null ? "" : Redacted.value(first.next).cursor, "+/=&?#%~ ñ漢")
        assert.deepStrictEqual(
          ids(yield* Stream.runCollect(api.payoutRequests.stream({ limit: 20 }))),
          ids(payouts(250))
        )
      }))

    it.live("applies every filter of §4, alone and together", () =>
      over({ ...everything, reservedCursors: true }, function*(api) {
        const check = Effect.fnUntraced(function*<Record extends object>(
          records: ReadonlyArray<Record>,
          filter: Partial<Record>,
          list: Stream.Stream<Record, PaymentsError>
        ) {
          const expected = records.filter((record) =>
            Object.entries(filter).every(([field, value]) =>
              Object.entries(record).some((entry) => entry[0] === field && entry[1] === value)
            )
          )
          assert.isAbove(expected.length, 0)
          assert.deepStrictEqual(yield* Stream.runCollect(list), expected)
        })
        const limit = 5
        for (
          const filter of [
            { reference: "ref+17 &=?#%ñ" },
            { customerId: "cus_3" },
            { payoutTargetId: "tgt_2" },
            { customerId: "cus_3", payoutTargetId: "tgt_2" }
          ]
        ) {
          yield* check(everything.payoutRequests, filter, api.payoutRequests.stream({ ...filter, limit }))
        }
        for (const filter of [{ reference: "source 4" }, { customerId: "cus_1" }]) {
          yield* check(payinSources, filter, api.payinSources.stream({ ...filter, limit }))
        }
        for (
          const filter of [
            { reference: "invoice/9" },
            { customerDocumentNumber: "1002" },
            { contract: "con_5" },
            { paymentDate: "2024-05-04T10:00:00.000Z" },
            { settlementDate: "2024-05-17" },
            { settlementTime: "2" },
            { contract: "con_5", settlementTime: "3" }
          ]
        ) {
          yield* check(invoices, filter, api.invoices.stream({ ...filter, limit }))
        }
        const none = yield* api.payoutRequests.page({ customerId: "nobody" })
        assert.deepStrictEqual([none.items, none.next], [[], null])
      }))

    it.live("continues from a saved position with its filters and limit", () =>
      over(everything, function*(api) {
        const query = { customerId: "cus_1", limit: 10 }
        const first = yield* api.payoutRequests.page(query)
        assert.isNotNull(first.next)
        if (first.next === null) return
        const rest = yield* Stream.runCollect(api.payoutRequests.stream({ position: first.next }))
        assert.deepStrictEqual(
          [...first.items, ...rest],
          payouts(250).filter(({ customerId }) => customerId === "cus_1")
        )
        for (const other of [{ limit: 11 }, { customerId: "cus_2" }, { payoutTargetId: "tgt_1" }]) {
          const error = yield* Effect.flip(api.payoutRequests.page({ position: first.next, ...other }))
          assert.deepStrictEqual([error.reason._tag, error.attempts], ["InvalidRequest", 0])
        }
        const error = yield* Effect.flip(api.payinSources.page({ position: first.next }))
        assert.strictEqual(error.reason._tag, "InvalidRequest")
      }))

    it.live("refuses a limit of 0 or 101 and an empty filter before any request", () =>
      over(everything, function*(api) {
        for (const query of [{ limit: 0 }, { limit: 101 }, { limit: 1.5 }, { reference: "" }]) {
          for (
            const error of [
              yield* Effect.flip(api.invoices.page(query)),
              yield* Effect.flip(Stream.runDrain(api.invoices.pages(query)))
            ]
          ) {
            assert.strictEqual(error.reason._tag, "InvalidRequest")
            assert.deepStrictEqual([error.status, error.attempts], [undefined, 0])
          }
        }
      }))

    it.live("reports a refused cursor if the list can be read without it", () =>
      over(everything, function*(api) {
        const first = yield* api.payoutRequests.page({ limit: 10 })
        assert.isNotNull(first.next)
        if (first.next === null) return
        const position = Redacted.make({ ...Redacted.value(first.next), cursor: "expired" })
        const error = yield* Effect.flip(Stream.runDrain(api.payoutRequests.pages({ position })))
        assert.strictEqual(error.reason._tag, "PaginationFault")
        assert.strictEqual(error.reason._tag === "PaginationFault" && error.reason.kind, "cursorRefused")
        assert.notInclude(error.message, "expired")
      }))

    it.live("refuses queries that the types do not allow, before any request", () =>
      over(everything, function*({ invoices: list }) {
        const first = yield* list.page({ limit: 10 })
        const cursor = first.next === null ? "" : Redacted.value(first.next).cursor
        const wrongQueries: ReadonlyArray<unknown> = [
          null,
          5,
          "text",
          "",
          true,
          Symbol("query"),
          ["contract"],
          () => ({}),
          { colour: "red" },
          ...[5, null, [], {}, true].map((value) => ({ contract: value })),
          ...["5", null, 0n, Symbol("limit")].map((limit) => ({ limit })),
          ...["5", null, {}].map((prefetch) => ({ prefetch })),
          ...[null, "start", cursor, {}, Redacted.make(cursor), Redacted.make(null), Redacted.make({ cursor })].map(
            (position) => ({ position })
          ),
          ...[null, "drop", true].map((onBadRecord) => ({ onBadRecord })),
          ...[null, "now", {}, new EventTarget()].map((signal) => ({ signal }))
        ]
        // Plain JavaScript can pass any value.
        const untyped = (wrong: unknown) => wrong as object & { readonly contract?: never }
        const attempts = [
          ...wrongQueries.map(untyped).flatMap((query) => [
            list.page(query),
            ...[list.pages(query), list.stream(query)]
              .map((listing) => Stream.runDrain<unknown, PaymentsError, never>(listing))
          ]),
          ...["4", null, {}].flatMap((maxRecords) => Stream.runDrain(list.stream(untyped({ maxRecords }))))
        ]
        for (const [index, attempt] of attempts.entries()) {
          const error = yield* Effect.flip<unknown, PaymentsError, never>(attempt)
          assert.deepStrictEqual(
            [error.reason?._tag, error.attempts, error.status],
            ["InvalidRequest", 0, undefined],
            `attempt ${index}: ${String(error)}`
          )
        }
      }))

    it.live("stops after maxRecords records", () =>
      over(everything, function*(api) {
        for (const maxRecords of [0, 1, 99, 100, 101, 250, 1000]) {
          const some = yield* Stream.runCollect(api.payoutRequests.stream({ maxRecords }))
          assert.deepStrictEqual(ids(some), ids(payouts(250)).slice(0, maxRecords))
        }
        const wrong = yield* Effect.flip(Stream.runCollect(api.payoutRequests.stream({ maxRecords: -1 })))
        assert.strictEqual(wrong.reason._tag, "InvalidRequest")
      }))

    it.live("reports status, headers, elapsed time and attempts of a page", () =>
      over({ ...everything, faults: [{ fault: "reset", nth: 1 }] }, function*(api) {
        const page = yield* api.invoices.page()
        assert.deepStrictEqual([page.status, page.attempts, page.headers["content-type"]], [
          200,
          2,
          "application/json"
        ])
        assert.isTrue(Duration.isGreaterThanOrEqualTo(page.elapsed, Duration.zero))
      }))

    it.live("quarantines records that do not decode, in order, with path and exact text", () => {
      const texts = [`{"id":"a"}`, `{"id":"b","amount":1.50}`, `{"amount":1}`, `{"id":"c","amount":2e0}`] as const
      return over({ invoices: texts }, function*(api) {
        const page = yield* api.invoices.page({ onBadRecord: "quarantine" })
        assert.deepStrictEqual(ids(page.items), ["a", "c"])
        assert.deepStrictEqual(page.records().map(({ id, problem, text }) => [id, problem?.path, text]), [
          ["a", undefined, texts[0]],
          ["b", "amount", texts[1]],
          [undefined, "id", texts[2]],
          ["c", undefined, texts[3]]
        ])
        assert.deepStrictEqual<ReadonlyArray<unknown>>(page.bad, page.records().slice(1, 3))
      })
    })

    it.live("keeps undocumented fields, the difference between absent and null, and the exact text", () => {
      const text =
        `{"id":"x","reference":null,"customerDetails":{"name":"Zoë","vip":{"10":1.10,"b":[ 1e400 , 9007199254740993]}},"10":1,"b":1.10,"__proto__":{"a":1}}`
      return over({ payoutRequests: [text] }, function*(api) {
        const page = yield* api.payoutRequests.page()
        assert.deepStrictEqual(page.records().map((record) => record.text), [
          text.replaceAll(/ (?=[\]1,])|(?<=,) /g, "")
        ])
        const [record] = page.items
        assert.isTrue(record !== undefined && "10" in record && record.reference === null && !("amount" in record))
        assert.isTrue(record?.customerDetails != null && "vip" in record.customerDetails)
      })
    })
  })
}
