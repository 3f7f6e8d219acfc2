/** A test suite for every kind of destination: the data of two merchants is never mixed. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import type { StoredRow } from "@payments/testkit/postgres/StoredRow"
import { Deferred, Effect, Exit, Fiber, FileSystem, Layer, Redacted, Result, Stream } from "effect"
import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { scan, scanAll, type ScanOptions, scanParts, Sink, type SinkError } from "../../src/index.ts"

/** A kind of destination. Each test has its own folder, or a schema with the folder's name. */
export interface OwnedDestination {
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError, NodeServices.NodeServices>
  readonly read: (
    folder: string,
    list: Lists.AnyList
  ) => ReadonlyArray<StoredRow> | Promise<ReadonlyArray<StoredRow>>
  /** Reads everything that an export writes, except locks. By default, the bytes of all files in the folder. */
  readonly content?: ((folder: string) => Promise<unknown>) | undefined
}

const bytesIn = async (folder: string): Promise<unknown> =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile() && !file.name.endsWith(".lock"))
    .map((
      file
    ) => [file.name, createHash("sha256").update(readFileSync(join(file.parentPath, file.name))).digest("hex")])

const all = Lists.all.map(({ name }) => name)
const numbers = (count: number, from = 0) => Array.from({ length: count }, (_, index) => from + index)

/** Makes records of a merchant by their numbers. The last digit of a number is the number of its customer. */
const payout = (merchant: string) => (index: number) => ({
  id: `por_${merchant}_${index}`,
  customerId: `cus_${index % 10}`
})
const source = (merchant: string) => (index: number) => ({ id: `pis_${merchant}_${index}` })
const invoice = (merchant: string) => (index: number) => ({
  id: `inv_${merchant}_${index}`,
  paymentUrl: `https://pay.example.com/shop/pay/mer_${merchant}/inv_${merchant}_${index}`
})

interface Service {
  readonly key: string
  readonly invoicesKey?: string
  readonly payouts?: ReadonlyArray<{ readonly id: string }>
  readonly sources?: ReadonlyArray<{ readonly id: string }>
  readonly invoices?: ReadonlyArray<{ readonly id: string }>
}

const serving = ({ invoices = [], invoicesKey, key, payouts = [], sources = [] }: Service) => {
  const apiKey = Redacted.make(key)
  return layerTest({
    payoutRequests: payouts,
    payinSources: sources,
    invoices,
    config: { apiKey, invoicesApiKey: invoicesKey === undefined ? apiKey : Redacted.make(invoicesKey) }
  })
}

/** The records that a key of a merchant reads. By default, 30 records of each list. */
const merchant = (name: string, more: Partial<Service> = {}): Service => ({
  key: `key_of_${name}`,
  payouts: numbers(30).map(payout(name)),
  sources: numbers(30).map(source(name)),
  invoices: numbers(30).map(invoice(name)),
  ...more
})

/** Runs the suite over a destination. */
export const ownerSuite = (name: string, { content = bytesIn, layer, read }: OwnedDestination) => {
  const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices>) =>
    FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped()).pipe(
      Effect.flatMap(use),
      Effect.scoped,
      Effect.provide(NodeServices.layer)
    )
  const over = (folder: string, service: Service) => Layer.merge(layer(folder), serving(service))
  const exportOne = (folder: string, list: Lists.ListName, service: Service, options: ScanOptions = {}) =>
    scan(list, options).pipe(Effect.provide(over(folder, service)))
  /** Exports lists and returns "done" or the reason of the error for each. */
  const exportAll = (folder: string, service: Service, options: ScanOptions = {}) =>
    scanAll(all, options).pipe(
      Effect.map((outcomes) =>
        outcomes.map(({ result }) => {
          if (Result.isSuccess(result)) return "done"
          const { message, reason } = result.failure
          return reason._tag === "OtherMerchant" ? `${reason._tag} by ${reason.by}` : message
        })
      ),
      Effect.provide(over(folder, service))
    )
  const idsOf = (folder: string, list: Lists.AnyList) =>
    Effect.promise(async () => (await read(folder, list)).map(({ id }) => id))
  /** Asserts that the export is refused as another merchant's and writes nothing. Returns the evidence. */
  const refused = Effect.fnUntraced(function*<A, E extends { readonly _tag: string }, R>(
    folder: string,
    attempt: Effect.Effect<A, E | SinkError, R>
  ) {
    const before = yield* Effect.promise(() => content(folder))
    const error = yield* Effect.flip(attempt)
    assert(error._tag === "SinkError" && "reason" in error)
    assert(error.reason._tag === "OtherMerchant", error.message)
    assert.deepStrictEqual(yield* Effect.promise(() => content(folder)), before)
    for (const word of ["PAYMENTS_ACCOUNT", "its own destination", "--rebind"]) assert.include(error.message, word)
    assert.notInclude(error.message, "\n")
    return error.reason.by
  })
  /** Interrupts an export of payout requests after a commit. */
  const interruptAfter = Effect.fnUntraced(function*(folder: string, service: Service, pages: number) {
    const reached = yield* Deferred.make<void>()
    const fiber = yield* Effect.forkChild(exportOne(folder, "payoutRequests", service, {
      limit: 10,
      largestBatch: 10,
      onEvent: (event) =>
        event._tag === "Committed" && event.progress.pages === pages
          ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
          : Effect.void
    }))
    yield* Deferred.await(reached)
    yield* Fiber.interrupt(fiber)
  })

  describe(`${name}: the owner of its data`, () => {
    it.live.each(
      [["another key", "key_of_b"], ["the same key", "key_of_a"]] as const
    )(
      "refuses all lists of a run whose invoices are another merchant's, with %s, and writes nothing",
      ([, key]) =>
        inFolder((folder) =>
          Effect.gen(function*() {
            assert.deepStrictEqual(yield* exportAll(folder, merchant("a")), all.map(() => "done"))
            const before = yield* Effect.promise(() => content(folder))
            assert.deepStrictEqual(
              yield* exportAll(folder, merchant("b", { key })),
              all.map(() => "OtherMerchant by merchantId")
            )
            assert.deepStrictEqual(yield* Effect.promise(() => content(folder)), before)
            assert.deepStrictEqual(yield* exportAll(folder, merchant("a")), all.map(() => "done"))
          })
        )
    )

    it.live("refuses a list from a new key without invoices if none of the first 1,000 records is known", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const of = (key: string, payouts: ReadonlyArray<{ readonly id: string }>): Service => ({ key, payouts })
          yield* exportOne(folder, "payoutRequests", of("one", numbers(30).map(payout("a"))))
          for (const size of [0, 1, 100, 101, 1000, 1500]) {
            const attempt = exportOne(folder, "payoutRequests", of("two", numbers(size).map(payout("b"))))
            assert.strictEqual(yield* refused(folder, attempt), "key", `${size} records`)
          }
          const known = payout("a")(7)
          const late = [...numbers(1000).map(payout("b")), known]
          yield* refused(folder, exportOne(folder, "payoutRequests", of("two", late)))
          const inTime = [...numbers(999).map(payout("b")), known]
          yield* exportOne(folder, "payoutRequests", of("two", inTime), { missingLimit: 1 })
          assert.strictEqual((yield* idsOf(folder, Lists.payoutRequests)).length, 30 + 999)
          // From now on the key is known.
          yield* exportOne(folder, "payoutRequests", of("two", numbers(10).map(payout("c"))), { missingLimit: 1 })
        })
      ))

    it.live("buffers at most 1,000 records before it decides", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* exportOne(folder, "payoutRequests", merchant("a"))
          let pages = 0
          const counted = Layer.effect(
            PaymentsApi,
            Effect.map(PaymentsApi, (api): PaymentsApi["Service"] => ({
              ...api,
              payoutRequests: {
                ...api.payoutRequests,
                pages: (query) => Stream.tap(api.payoutRequests.pages(query), () => Effect.sync(() => void pages++))
              }
            }))
          ).pipe(Layer.provide(serving({ key: "two", payouts: numbers(9000).map(payout("b")) })))
          yield* refused(folder, scan("payoutRequests").pipe(Effect.provide(Layer.merge(layer(folder), counted))))
          // The buffered pages, the prefetched pages, and one page that waits for the queue.
          assert.isAtMost(pages, 10 + 10 + 1)
        })
      ))

    it.live("accepts a new key that reads a known merchant id, for all its lists", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* exportAll(folder, merchant("a"))
          const rotated = (key: string) =>
            merchant("a", {
              key,
              payouts: numbers(1200, 100).map(payout("a")),
              sources: numbers(1200, 100).map(source("a")),
              invoices: numbers(30, 100).map(invoice("a"))
            })
          assert.deepStrictEqual(
            yield* exportAll(folder, rotated("new"), { missingLimit: 1 }),
            all.map(() => "done")
          )
          // For a list without invoices in the run, the guard reads the invoices.
          yield* exportOne(folder, "payinSources", {
            ...rotated("newest"),
            sources: numbers(1200, 5000).map(source("a"))
          }, { missingLimit: 1 })
          const foreign = { ...rotated("foreign"), invoices: numbers(30).map(invoice("b")) }
          const sources = numbers(1200, 9000).map(source("b"))
          assert.strictEqual(
            yield* refused(folder, exportOne(folder, "payinSources", { ...foreign, sources })),
            "merchantId"
          )
        })
      ))

    it.live("accepts no evidence from another key than the one that read the list", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const keys = { key: "payments of a", invoicesKey: "invoices of a" }
          yield* exportAll(folder, merchant("a", keys))
          const mixed = merchant("b", { ...keys, key: "payments of b", invoices: numbers(30).map(invoice("a")) })
          assert.deepStrictEqual(
            yield* exportAll(folder, mixed),
            all.map((listName) => listName === "invoices" ? "done" : "OtherMerchant by key")
          )
          const wrong = merchant("a", {
            ...keys,
            invoicesKey: "invoices of b",
            invoices: numbers(30).map(invoice("b"))
          })
          assert.deepStrictEqual(
            yield* exportAll(folder, wrong),
            all.map((listName) => listName === "invoices" ? "OtherMerchant by merchantId" : "done")
          )
        })
      ))

    it.live("accepts no other key for a list that is still empty if the destination has a list of the same key", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const keys = { key: "payments of a", invoicesKey: "invoices of a" }
          yield* exportAll(folder, merchant("a", { ...keys, sources: [] }))
          for (const sources of [[], numbers(30).map(source("b"))]) {
            const mixed = {
              ...merchant("a", keys),
              key: "payments of b",
              payouts: numbers(30).map(payout("b")),
              sources
            }
            assert.deepStrictEqual(
              yield* exportAll(folder, mixed),
              all.map((listName) => listName === "invoices" ? "done" : "OtherMerchant by key")
            )
          }
          assert.deepStrictEqual(
            yield* exportAll(folder, merchant("a", { ...keys, key: "rotated" })),
            all.map(() => "done")
          )
        })
      ))

    it.live("reads the other lists if a list is still empty, and refuses it without evidence", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* exportOne(folder, "payoutRequests", merchant("a"))
          const from = (service: Service, list: Lists.ListName) => exportOne(folder, list, service)
          assert.strictEqual(yield* refused(folder, from(merchant("b"), "payinSources")), "key")
          assert.strictEqual(yield* refused(folder, from(merchant("b"), "invoices")), "key")
          yield* from(merchant("a", { key: "rotated" }), "payinSources")
          // Invoices have a separate key; the other key is known.
          yield* from(merchant("a", { invoicesKey: "for invoices" }), "invoices")
          assert.strictEqual((yield* idsOf(folder, Lists.invoices)).length, 30)
        })
      ))

    it.live("judges invoices without a merchant id by their key, and accepts several merchants of one account", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const bare = (key: string, merchantName: string) =>
            merchant(merchantName, {
              key,
              invoices: numbers(30).map((index) => ({ id: invoice(merchantName)(index).id }))
            })
          const invoices = (service: Service, more = 0) =>
            exportOne(folder, "invoices", service, more === 0 ? {} : { missingLimit: more })
          yield* invoices(bare("one", "a"))
          assert.strictEqual(yield* refused(folder, invoices(bare("two", "b"))), "key")
          yield* invoices(bare("two", "a"))
          // The first merchant ids bind the destination, as do other ids on the same pages.
          yield* invoices(merchant("a", { key: "two" }))
          const both = [...numbers(150).map(invoice("c")), ...numbers(30).map(invoice("a"))]
          yield* invoices(merchant("a", { key: "three", invoices: both }))
          yield* invoices(merchant("c", { key: "four" }), 1)
          assert.strictEqual(yield* refused(folder, invoices(merchant("b", { key: "four" }))), "merchantId")
          assert.strictEqual(yield* refused(folder, invoices(bare("five", "b"))), "key")
        })
      ))

    it.live("guards parts of a list: a new key needs a known record in the list, not in the part", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const parts = (service: Service, values: ReadonlyArray<string>) =>
            scanParts("payoutRequests", { field: "customerId", values, concurrency: 3, limit: 10 }).pipe(
              Effect.provide(over(folder, service))
            )
          const payouts = numbers(30).map(payout("a"))
          yield* parts({ key: "one", payouts }, ["cus_1", "cus_2", "cus_3"])
          const foreign = { key: "two", payouts: numbers(30).map(payout("b")) }
          assert.strictEqual(yield* refused(folder, parts(foreign, ["cus_1", "cus_2", "cus_3", "cus_4"])), "key")
          yield* parts({ key: "three", payouts }, ["cus_7", "cus_8"])
          assert.strictEqual((yield* idsOf(folder, Lists.payoutRequests)).length, 15)
        })
      ))

    it.live("guards a resumed scan: a new key needs a known record at the start of the list, not after the checkpoint", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const payouts = numbers(95).map(payout("a"))
          yield* interruptAfter(folder, { key: "one", payouts }, 4)
          const goOn = (service: Service) => exportOne(folder, "payoutRequests", service, { limit: 10 })
          const foreign = { key: "two", payouts: numbers(95).map(payout("b")) }
          assert.strictEqual(yield* refused(folder, goOn(foreign)), "key")
          assert.deepInclude(yield* goOn({ key: "three", payouts }), { start: "resumed", records: 95, inserted: 95 })
        })
      ))

    it.live("guards a scan whose saved cursor is refused", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const payouts = numbers(95).map(payout("a"))
          yield* interruptAfter(folder, { key: "one", payouts }, 4)
          const refusing = (key: string, records: ReadonlyArray<{ readonly id: string }>) => {
            const apiKey = Redacted.make(key)
            return scan("payoutRequests", { limit: 10 }).pipe(Effect.provide(Layer.merge(
              layer(folder),
              layerTest({
                payoutRequests: records,
                faults: [{ fault: "status", status: 400, pages: "later", times: 1 }],
                config: { apiKey, invoicesApiKey: apiKey }
              })
            )))
          }
          assert.strictEqual(yield* refused(folder, refusing("two", numbers(95).map(payout("b")))), "key")
          assert.deepInclude(yield* refusing("one", payouts), { start: "resumed", records: 95, inserted: 40 + 55 })
          assert.strictEqual((yield* idsOf(folder, Lists.payoutRequests)).length, 95)
        })
      ))

    it.live("guards the rest of a scan from the first page that another key has read", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const [first, second] = [numbers(95).map(payout("a")), numbers(95).map(payout("b"))]
          /** The key changes after three pages. All later requests, also for the first page, use the new key. */
          const rotating = (payouts: ReadonlyArray<{ readonly id: string }>) =>
            Layer.effect(
              PaymentsApi,
              Effect.gen(function*() {
                const [before, after] = yield* Effect.all([
                  Effect.provide(PaymentsApi, serving({ key: "one", payouts: first })),
                  Effect.provide(PaymentsApi, serving({ key: "two", payouts }))
                ])
                return {
                  ...after,
                  payoutRequests: {
                    ...after.payoutRequests,
                    pages: (query = {}) =>
                      Stream.concat(
                        Stream.take(before.payoutRequests.pages(query), 3),
                        Stream.drop(after.payoutRequests.pages(query), 3)
                      )
                  }
                }
              })
            )
          const exported = (api: Layer.Layer<PaymentsApi>) =>
            scan("payoutRequests", { limit: 10, largestBatch: 10 }).pipe(
              Effect.provide(Layer.merge(layer(folder), api))
            )
          const error = yield* Effect.flip(exported(rotating(second)))
          assert.strictEqual(error.reason._tag, "OtherMerchant")
          const kept = yield* idsOf(folder, Lists.payoutRequests)
          assert.isTrue(kept.every((id) => id.startsWith("por_a_")), kept.join(" "))
          yield* exported(rotating(first))
          assert.sameMembers([...yield* idsOf(folder, Lists.payoutRequests)], first.map(({ id }) => id))
        })
      ))

    it.live("accepts another merchant and another key with rebind", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* exportAll(folder, merchant("a"))
          assert.deepStrictEqual(yield* exportAll(folder, merchant("b"), { rebind: true }), all.map(() => "done"))
          assert.strictEqual((yield* idsOf(folder, Lists.invoices)).length, 60)
          for (const known of ["a", "b"]) {
            assert.deepStrictEqual(yield* exportAll(folder, merchant(known)), all.map(() => "done"))
          }
          assert.include(yield* exportAll(folder, merchant("c")), "OtherMerchant by merchantId")
        })
      ))

    /** Two programs find the destination empty. The first one fills a list before the second one writes. */
    const fillTogether = Effect.fnUntraced(function*(folder: string, first: Service, second: Service) {
      const isFound = yield* Deferred.make<void>()
      const isFilled = yield* Deferred.make<void>()
      const late = Layer.effect(
        Sink,
        Effect.map(Sink, (sink) =>
          Sink.of({
            ...sink,
            begin: (list, request) =>
              Deferred.succeed(isFound, undefined).pipe(
                Effect.andThen(Deferred.await(isFilled)),
                Effect.andThen(sink.begin(list, request))
              )
          }))
      ).pipe(Layer.provide(layer(folder)))
      const exported = yield* Effect.forkChild(Effect.exit(
        scan("payinSources").pipe(Effect.provide(Layer.merge(late, serving(second))))
      ))
      yield* Deferred.await(isFound)
      yield* exportOne(folder, "payoutRequests", first)
      yield* Deferred.succeed(isFilled, undefined)
      return yield* Fiber.join(exported)
    })

    it.live("refuses the second of two merchants that fill an empty destination concurrently", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const error = yield* Effect.flip(Effect.flatten(fillTogether(folder, merchant("a"), merchant("b"))))
          assert(error.reason._tag === "OtherMerchant", error.message)
          assert.strictEqual(error.reason.by, "key")
          assert.deepStrictEqual(yield* idsOf(folder, Lists.payinSources), [])
          yield* exportOne(folder, "payinSources", merchant("a"))
        })
      ))

    it.live.each(
      [["one key", {}], ["a key for each", { key: "another_key_of_a" }]] as const
    )(
      "accepts two programs of one merchant that fill an empty destination at the same time, with %s",
      ([, more]) =>
        inFolder((folder) =>
          Effect.gen(function*() {
            yield* Effect.flatten(fillTogether(folder, merchant("a"), merchant("a", more)))
            assert.strictEqual((yield* idsOf(folder, Lists.payinSources)).length, 30)
            assert.deepStrictEqual(yield* exportAll(folder, merchant("a")), all.map(() => "done"))
          })
        )
    )

    it.live("ends the search for evidence in a list with an endless sequence of empty pages", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* exportOne(folder, "payoutRequests", merchant("a"))
          let requests = 0
          const endless = Layer.effect(
            PaymentsApi,
            Effect.map(PaymentsApi, (api): PaymentsApi["Service"] => ({
              ...api,
              payoutRequests: {
                ...api.payoutRequests,
                page: (query = {}) =>
                  Effect.suspend(() => {
                    if (++requests > 2000) return Effect.die(new Error("it asks without end"))
                    const first = api.payoutRequests.page({ ...query, position: undefined, limit: 1 })
                    return Effect.map(first, (page) => ({ ...page, records: () => [], items: [], bad: [] }))
                  })
              }
            }))
          ).pipe(Layer.provide(serving(merchant("b"))))
          const attempt = scan("payinSources").pipe(Effect.provide(Layer.merge(layer(folder), endless)))
          assert.strictEqual(yield* refused(folder, attempt), "key")
          assert.isAtMost(requests, 1000)
        })
      ))

    it.live("retries while evidence is temporarily unavailable, and refuses nothing meanwhile", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* exportAll(folder, merchant("a"))
          const apiKey = Redacted.make("rotated")
          const failing = layerTest({
            payoutRequests: numbers(30, 1000).map(payout("a")),
            invoices: numbers(30).map(invoice("a")),
            faults: [{ fault: "status", status: 503, list: "invoices", times: 4 }],
            config: { apiKey, invoicesApiKey: apiKey }
          })
          const exported = yield* Effect.exit(
            scan("payoutRequests", { missingLimit: 1 }).pipe(Effect.provide(Layer.merge(layer(folder), failing)))
          )
          assert.isTrue(Exit.isSuccess(exported))
        })
      ))
  })
}
