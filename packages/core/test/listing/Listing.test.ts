/** How a listing continues, stops and fails. */
import { assert, describe, it } from "@effect/vitest"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Clock, Duration, Effect, Fiber, Redacted, Stream } from "effect"
import { Lists, PaymentsApi, type PaymentsError } from "../../src/index.ts"
import { layerHttpClient } from "../../src/node.ts"
import { layerClient, layerTest, makeListService } from "../../src/testing.ts"
import { advancingClock, apiOver, recordingTimes, records, service } from "../http/Clients.ts"

/** Waits until the condition is true. */
const until = (condition: () => boolean) => Effect.repeat(Effect.sleep("5 millis"), { until: condition })

/** So long that no request of these tests is cancelled by a deadline. */
const endless = { headers: Duration.hours(1), stalled: Duration.hours(1), attempt: Duration.hours(1) }

describe("a listing", () => {
  it.live("cancels the running request at once when it is interrupted", () =>
    Effect.gen(function*() {
      let cancelled = false
      const server = yield* scriptedServer((_, response, count) => {
        if (count === 1) return pageOf(response, [`{"id":"a"}`], "next")
        response.once("close", () => cancelled = true)
        return undefined
      })
      const api = apiOver(layerHttpClient, { invoicesBaseUrl: new URL(server.url), deadlines: endless })
      const fiber = yield* Effect.forkChild(
        PaymentsApi.use(({ invoices }) => Stream.runDrain(invoices.stream())).pipe(Effect.provide(api))
      )
      yield* until(() => server.requests.length === 2)
      yield* Fiber.interrupt(fiber)
      yield* until(() => cancelled)
    }).pipe(Effect.scoped))

  it.live("cancels the prefetched page when it is stopped early", () =>
    Effect.gen(function*() {
      let cancelled = false
      const server = yield* scriptedServer((_, response, count) => {
        if (count === 1) return pageOf(response, [`{"id":"a"}`], "next")
        response.once("close", () => cancelled = true)
        return undefined
      })
      const api = apiOver(layerHttpClient, { invoicesBaseUrl: new URL(server.url), deadlines: endless })
      yield* PaymentsApi.use(({ invoices }) =>
        invoices.stream().pipe(
          Stream.take(1),
          // Stop only after the second page is requested.
          Stream.runForEach(() => until(() => server.requests.length === 2))
        )
      ).pipe(Effect.provide(api))
      yield* until(() => cancelled)
    }).pipe(Effect.scoped))

  it.live("continues from the position of its error without losing or repeating a record", () =>
    Effect.gen(function*() {
      const { invoices } = yield* PaymentsApi
      const seen: Array<string> = []
      const collectIds = Stream.runForEach(({ id }: { readonly id: string }) => Effect.sync(() => seen.push(id)))
      const error = yield* Effect.flip(collectIds(invoices.stream({ limit: 10 })))
      assert.strictEqual(seen.length, 20)
      yield* collectIds(invoices.stream({ position: error.position }))
      assert.deepStrictEqual(seen, records(50).map(({ id }) => id))
    }).pipe(Effect.provide(apiOver(service({ faults: [{ fault: "status", status: 403, nth: 3 }] })))))

  it.live("matches a date filter by prefix, or as the same instant spelled differently", () =>
    Effect.gen(function*() {
      const { invoices } = yield* PaymentsApi
      const found = (paymentDate: string) => Effect.map(invoices.page({ paymentDate }), ({ items }) => items.length)
      for (const same of ["2024-05-01", "2024-05-01T10:00:00Z", "2024-05-01T10:00:00.000Z"]) {
        assert.strictEqual(yield* found(same), 1, same)
      }
      for (const other of ["2024-05-02", "2024-05-01T10:00:01Z"]) {
        assert.deepInclude((yield* Effect.flip(found(other))).reason, {
          _tag: "FilterNotApplied",
          field: "paymentDate"
        })
      }
    }).pipe(Effect.provide(layerTest({
      invoices: [{ id: "a", paymentDate: "2024-05-01T10:00:00.000Z" }],
      faults: [{ fault: "ignoreFilter" }]
    }))))

  it.live.each([0, 1, 3])("requests at most %s pages before they are consumed", (prefetch) =>
    Effect.gen(function*() {
      const { layer, times } = recordingTimes(service({ length: 1000 }))
      let consumed = 0
      yield* PaymentsApi.use(({ invoices }) =>
        invoices.pages({ limit: 10, prefetch }).pipe(
          Stream.take(2),
          // Wait for the requests that are expected, and then for one that is not.
          Stream.runForEach(() =>
            Effect.andThen(until(() => times.length >= consumed + 1 + prefetch), Effect.sleep("50 millis")).pipe(
              Effect.map(() => void assert.strictEqual(times.length, ++consumed + prefetch))
            )
          )
        )
      ).pipe(Effect.provide(apiOver(layer)))
      assert.strictEqual(times.length, 2 + prefetch)
    }))

  it.live("accepts only text as an id, and takes no pages without ids for repetitions", () =>
    Effect.gen(function*() {
      const hostileRecords = [`{"id":{"toString":1,"valueOf":1}}`, `{"id":${"[".repeat(50_000)}${"]".repeat(50_000)}}`]
      const hostile = layerTest({ invoices: [...hostileRecords, ...hostileRecords, ...records(20)] })
      const error = yield* Effect.flip(
        PaymentsApi.use(({ invoices }) => Stream.runDrain(invoices.stream({ limit: 2 }))).pipe(Effect.provide(hostile))
      )
      assert.deepInclude(error.reason, { _tag: "MalformedResponse", path: "items[0].id" })
      const withoutIds = layerTest({ invoices: Array.from({ length: 300 }, (_, amount) => ({ amount })) })
      const pages = yield* PaymentsApi.use(({ invoices }) =>
        Stream.runCollect(invoices.pages({ limit: 10, onBadRecord: "quarantine" }))
      ).pipe(Effect.provide(withoutIds))
      assert.strictEqual(pages.flatMap(({ bad }) => bad).length, 300)
    }))

  it.live("fails if the same records repeat in another order under ever new cursors", () =>
    Effect.gen(function*() {
      const all = records(100)
      const shuffling = layerClient((now) => {
        let page = 0
        const server = () => {
          page++
          const items = all.map((_, index) => JSON.stringify(all[(index * 37 + page) % 100]))
          return { _tag: "Page", items, next: `new-${page}`, count: 100 } as const
        }
        return makeListService({
          servers: Lists.map(() => server),
          accepts: () => true
        }, now)
      })
      const error = yield* Effect.flip(
        PaymentsApi.use(({ invoices }) => Stream.runDrain(invoices.stream())).pipe(Effect.provide(apiOver(shuffling)))
      )
      assert.isTrue(error._tag === "PaymentsError" && error.reason._tag === "PaginationFault")
      assert.include(error.message, "too many pages in a row brought no new records")
    }))

  it.live("refuses quarantine for streams of records and maxRecords for pages", () =>
    Effect.gen(function*() {
      const api = yield* PaymentsApi
      // Plain JavaScript, or a query built for another operation, can contain these.
      const quarantine: object = { onBadRecord: "quarantine" }
      const counted: object = { maxRecords: 5 }
      for (
        const list of [
          api.invoices.stream(quarantine),
          api.invoices.pages(counted)
        ]
      ) {
        assert.strictEqual(
          (yield* Effect.flip(Stream.runDrain<unknown, PaymentsError, never>(list))).reason._tag,
          "InvalidRequest"
        )
      }
    }).pipe(Effect.provide(layerTest({}))))

  it.live("reports a refused cursor for a single page too", () =>
    Effect.gen(function*() {
      const api = yield* PaymentsApi
      const first = yield* api.invoices.page({ limit: 10 })
      const position = Redacted.make({ ...Redacted.value(first.next ?? assert.fail("one page")), cursor: "expired" })
      const error = yield* Effect.flip(api.invoices.page({ position }))
      assert.deepInclude(error.reason, { _tag: "PaginationFault", kind: "cursorRefused" })
      assert.isUndefined(error.position)
    }).pipe(Effect.provide(layerTest({ invoices: records(30) }))))

  it.effect("over layerTest waits on the test clock", () =>
    Effect.gen(function*() {
      const page = yield* advancingClock(
        PaymentsApi.use(({ invoices }) => invoices.page()).pipe(
          Effect.provide(layerTest({ invoices: [{ id: "a" }], faults: [{ fault: "stall", at: "headers", nth: 1 }] }))
        )
      )
      assert.deepStrictEqual([page.attempts, page.items], [2, [{ id: "a" }]])
      assert.isAtLeast(yield* Clock.currentTimeMillis, 15_000)
    }))
})
