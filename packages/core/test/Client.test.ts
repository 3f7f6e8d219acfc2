/** What the listings of one client share: its pace, its budget for retries, its keys, and what is told of its requests. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Clock, ConfigProvider, Effect, Fiber, FileSystem, Layer, Redacted, Stream, Tracer } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import { PaymentsApi, PaymentsConfig, type PaymentsError } from "../src/index.ts"
import { layerHttpClient } from "../src/node.ts"
import { layerClient, layerTest, makeListService, MemoryList } from "../src/testing.ts"
import { pageOf, scriptedServer } from "./ScriptedServer.ts"

const records = (count: number) => Array.from({ length: count }, (_, index) => ({ id: `inv_${index}` }))

/** A client that counts what it sends, and when. */
const counting = (client: Layer.Layer<HttpClient.HttpClient>) => {
  const times: Array<number> = []
  const counted = Layer.effect(
    HttpClient.HttpClient,
    Effect.map(
      HttpClient.HttpClient,
      HttpClient.tapRequest(() => Effect.map(Clock.currentTimeMillis, (now) => times.push(now)))
    )
  )
  return { times, layer: Layer.provide(counted, client) }
}

const service = (options: Partial<Parameters<typeof makeListService>[0]> & { readonly length?: number } = {}) => {
  const held = MemoryList.recordsOf(records(options.length ?? 50))
  return layerClient((now) =>
    makeListService({
      servers: {
        payoutRequests: MemoryList.serve("payoutRequests", held),
        payinSources: MemoryList.serve("payinSources", held),
        invoices: MemoryList.serve("invoices", held)
      },
      accepts: () => true,
      ...options
    }, now)
  )
}

const configured = (more: Partial<PaymentsConfig["Service"]> = {}) =>
  Layer.effect(
    PaymentsConfig,
    Effect.map(
      PaymentsConfig.fromSettings({
        PAYMENTS_BASE_URL: "https://api.example.com",
        PAYMENTS_API_KEY: Redacted.make("key")
      }),
      (config) => ({ ...config, ...more })
    )
  )

const apiOver = (client: Layer.Layer<HttpClient.HttpClient>, more: Partial<PaymentsConfig["Service"]> = {}) =>
  PaymentsApi.layer.pipe(Layer.provide(client), Layer.provide(configured(more)))

/** Moves the clock on until the work is done. */
const inTime = <A, E>(work: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const fiber = yield* Effect.forkChild(work)
    for (let second = 0; second < 600 && fiber.pollUnsafe() === undefined; second++) yield* TestClock.adjust("1 second")
    return yield* Fiber.join(fiber)
  })

describe("the listings of one client", () => {
  it.effect("never ask faster, all together, than the ceiling of requests per second", () =>
    Effect.gen(function*() {
      const { layer, times } = counting(service())
      yield* inTime(
        PaymentsApi.use(({ invoices, payinSources, payoutRequests }) =>
          Effect.forEach(
            [invoices, payinSources, payoutRequests],
            (list) => Stream.runDrain(list.pages({ limit: 10 })),
            { concurrency: "unbounded" }
          )
        ).pipe(Effect.provide(apiOver(layer, { maxRequestsPerSecond: 5 })))
      )
      assert.strictEqual(times.length, 15)
      const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0))
      assert.isTrue(gaps.every((gap) => gap >= 199), gaps.join(" "))
    }))

  it.effect("all slow down after a 429, wait as long as it asks, and recover", () =>
    Effect.gen(function*() {
      const { layer, times } = counting(
        service({ faults: [{ fault: "status", status: 429, retryAfter: 10, nth: 20 }], length: 1000 })
      )
      yield* inTime(
        PaymentsApi.use(({ invoices, payoutRequests }) =>
          Effect.forEach(
            [invoices, payoutRequests],
            (list) => Stream.runDrain(list.pages({ limit: 10 })),
            { concurrency: 2 }
          )
        ).pipe(Effect.provide(apiOver(layer)))
      )
      assert.strictEqual(times.length, 201)
      const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0))
      const pause = Math.max(...gaps)
      assert.isAtLeast(pause, 10_000)
      // When the wait is over they begin one after another.
      assert.isTrue(gaps.slice(gaps.indexOf(pause) + 1).every((gap) => gap >= 1), gaps.join(" "))
    }))

  it.effect("that wait for their turn wait longer when a 429 says so", () =>
    Effect.gen(function*() {
      const { layer, times } = counting(
        service({ faults: [{ fault: "status", status: 429, retryAfter: 20, nth: 1 }], length: 1000 })
      )
      yield* inTime(
        PaymentsApi.use(({ invoices }) =>
          Effect.forEach(Array.from({ length: 20 }), () => invoices.page(), { concurrency: "unbounded" })
        ).pipe(Effect.provide(apiOver(layer, { maxRequestsPerSecond: 10 })))
      )
      const [first, ...later] = times
      assert.deepStrictEqual([first, later.length], [0, 20])
      assert.isTrue(later.every((time) => time >= 20_000), later.join(" "))
    }))

  it.effect("that are interrupted give their turn back", () =>
    Effect.gen(function*() {
      const { layer, times } = counting(service())
      yield* PaymentsApi.use(({ invoices }) =>
        Effect.gen(function*() {
          const waiting = yield* Effect.forEach(Array.from({ length: 100 }), () => Effect.forkChild(invoices.page()))
          yield* TestClock.adjust("1500 millis")
          yield* Fiber.interruptAll(waiting)
          yield* inTime(invoices.page())
        })
      ).pipe(Effect.provide(apiOver(layer, { maxRequestsPerSecond: 1 })))
      assert.isBelow(times.at(-1) ?? 0, 4000)
    }))

  it.effect("stop retrying when a service fails everything: 1,000 listings cost 35 requests more", () =>
    Effect.gen(function*() {
      const { layer, times } = counting(service({ faults: [{ fault: "status", status: 503 }] }))
      const failed = yield* inTime(
        PaymentsApi.use(({ invoices }) =>
          Effect.forEach(
            Array.from({ length: 1000 }),
            () => Effect.flip(Stream.runDrain(invoices.stream())),
            { concurrency: 100 }
          )
        ).pipe(Effect.provide(apiOver(layer)))
      )
      assert.isTrue(failed.every(({ reason }) => reason._tag === "ServerFailure"))
      assert.strictEqual(times.length, 1035)
    }))

  it.effect("earn retries back by what succeeds", () =>
    Effect.gen(function*() {
      const { layer, times } = counting(service({ faults: [{ fault: "reset", every: 2 }] }))
      const attempts = yield* inTime(
        PaymentsApi.use(({ invoices }) =>
          Effect.forEach(Array.from({ length: 500 }), () => Effect.map(invoices.page(), (page) => page.attempts))
        ).pipe(Effect.provide(apiOver(layer)))
      )
      assert.deepStrictEqual([times.length, new Set(attempts)], [999, new Set([1, 2])])
    }))
})

describe("a key that is no longer accepted", () => {
  const rotating = Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const file = `${yield* fs.makeTempDirectoryScoped()}/key`
    yield* fs.writeFileString(file, "first-key\n")
    let accepted = "first-key"
    const { layer, times } = counting(service({ accepts: (key) => key === accepted }))
    const api = yield* Layer.build(
      PaymentsApi.layerConfig.pipe(
        Layer.provide(layer),
        Layer.provide(ConfigProvider.layer(
          ConfigProvider.fromEnvRecord({ PAYMENTS_BASE_URL: "https://api.example.com", PAYMENTS_API_KEY_FILE: file })
        ))
      )
    )
    return {
      times,
      list: PaymentsApi.use(({ invoices, payoutRequests }) => Effect.all([invoices.page(), payoutRequests.page()]))
        .pipe(
          Effect.provide(api)
        ),
      accept: (key: string) => Effect.sync(() => accepted = key),
      write: (key: string) => fs.writeFileString(file, key)
    }
  })

  it.live("is read again from its file, once, and used from then on", () =>
    Effect.gen(function*() {
      const { accept, list, times, write } = yield* rotating
      yield* list
      yield* accept("second-key")
      yield* write("second-key")
      const [first, second] = yield* list
      assert.deepStrictEqual([first.attempts, second.attempts], [2, 1])
      assert.strictEqual(times.length, 5)
      const again = yield* list
      assert.deepStrictEqual(again.map(({ attempts }) => attempts), [1, 1])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it.live("ends the listing where the file has no other, after one request", () =>
    Effect.gen(function*() {
      const { accept, list, times } = yield* rotating
      yield* accept("second-key")
      const error = yield* Effect.flip(list)
      assert.deepStrictEqual([error.reason._tag, error.attempts, times.length], ["Unauthorized", 1, 1])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})

describe("what is told of a request", () => {
  it.effect("is a client span by OpenTelemetry's conventions, without the query", () =>
    Effect.gen(function*() {
      const spans: Array<Tracer.Span> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      yield* inTime(
        PaymentsApi.use(({ invoices }) => invoices.page({ contract: "c", limit: 7 })).pipe(
          Effect.provide(apiOver(service({ faults: [{ fault: "status", status: 503, nth: 1 }] }))),
          Effect.withTracer(tracer)
        )
      )
      const common = {
        "http.request.method": "GET",
        "server.address": "api.example.com",
        "server.port": 443,
        "url.template": "/v1/invoices",
        "url.full": "https://api.example.com/v1/invoices",
        "url.scheme": "https"
      }
      const told = spans.map(({ attributes, kind, name }) => [name, kind, Object.fromEntries(attributes)])
      assert.deepStrictEqual(told, [
        ["PaymentsApi.invoices.page", "internal", {}],
        ["GET /v1/invoices", "client", { ...common, "http.response.status_code": 503, "error.type": "503" }],
        ["GET /v1/invoices", "client", {
          ...common,
          "http.request.resend_count": 1,
          "http.response.status_code": 200
        }]
      ])
    }))

  it.live("goes to the service only when asked for", () =>
    Effect.gen(function*() {
      const seen: Array<Record<string, unknown>> = []
      const server = yield* scriptedServer((request, response) => {
        seen.push(request.headers)
        pageOf(response, [], null)
      })
      for (const traceHeaders of [false, true]) {
        yield* PaymentsApi.use(({ invoices }) => invoices.page()).pipe(
          Effect.provide(apiOver(layerHttpClient, { invoicesBaseUrl: new URL(server.url), traceHeaders }))
        )
      }
      const [silent, traced] = seen
      assert.deepStrictEqual(Object.keys(silent ?? {}).filter((name) => /trace|b3/.test(name)), [])
      assert.match(String(traced?.["traceparent"]), /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/)
      assert.isUndefined(traced?.["b3"])
    }).pipe(Effect.scoped))
})

describe("a listing", () => {
  it.live("that is interrupted cancels the request in flight at once", () =>
    Effect.gen(function*() {
      const closed: Array<number> = []
      const server = yield* scriptedServer((_, response, count) => {
        if (count === 1) return pageOf(response, [`{"id":"a"}`], "next")
        response.once("close", () => closed.push(Date.now()))
        return undefined
      })
      const api = apiOver(layerHttpClient, { invoicesBaseUrl: new URL(server.url) })
      const fiber = yield* Effect.forkChild(
        PaymentsApi.use(({ invoices }) => Stream.runDrain(invoices.stream())).pipe(Effect.provide(api))
      )
      while (server.requests.length < 2) yield* Effect.sleep("5 millis")
      yield* Fiber.interrupt(fiber)
      for (let wait = 0; wait < 100 && closed.length === 0; wait++) yield* Effect.sleep("5 millis")
      assert.strictEqual(closed.length, 1)
    }).pipe(Effect.scoped))

  it.live("that is stopped early cancels the page it has asked for ahead", () =>
    Effect.gen(function*() {
      let cancelled = false
      const server = yield* scriptedServer((_, response, count) => {
        if (count === 1) return pageOf(response, [`{"id":"a"}`], "next")
        response.once("close", () => cancelled = true)
        return undefined
      })
      const api = apiOver(layerHttpClient, { invoicesBaseUrl: new URL(server.url) })
      yield* PaymentsApi.use(({ invoices }) =>
        invoices.stream().pipe(
          Stream.take(1),
          // Not left before the second page is on its way.
          Stream.runForEach(() =>
            Effect.repeat(Effect.sleep("5 millis"), { until: () => server.requests.length === 2 })
          )
        )
      ).pipe(Effect.provide(api))
      for (let wait = 0; wait < 100 && !cancelled; wait++) yield* Effect.sleep("5 millis")
      assert.isTrue(cancelled)
    }).pipe(Effect.scoped))

  it.live.each([0, 1, 3])("asks for at most %s pages before they are wanted", (prefetch) =>
    Effect.gen(function*() {
      const { layer, times } = counting(service({ length: 1000 }))
      yield* PaymentsApi.use(({ invoices }) =>
        invoices.pages({ limit: 10, prefetch }).pipe(
          Stream.take(2),
          Stream.runForEach(() => Effect.sleep("50 millis")),
          Effect.map(() => times.length)
        )
      ).pipe(Effect.provide(apiOver(layer)))
      assert.strictEqual(times.length, 2 + prefetch)
    }))

  it.live("takes an id for nothing but text, and pages without one for no repetition", () =>
    Effect.gen(function*() {
      const monsters = [`{"id":{"toString":1,"valueOf":1}}`, `{"id":${"[".repeat(50_000)}${"]".repeat(50_000)}}`]
      const hostile = layerTest({ invoices: [...monsters, ...monsters, ...records(20)] })
      const error = yield* Effect.flip(
        PaymentsApi.use(({ invoices }) => Stream.runDrain(invoices.stream({ limit: 2 }))).pipe(Effect.provide(hostile))
      )
      assert.deepInclude(error.reason, { _tag: "MalformedResponse", path: "items[0].id" })
      const nameless = layerTest({ invoices: Array.from({ length: 300 }, (_, amount) => ({ amount })) })
      const pages = yield* PaymentsApi.use(({ invoices }) =>
        Stream.runCollect(invoices.pages({ limit: 10, onBadRecord: "quarantine" }))
      ).pipe(Effect.provide(nameless))
      assert.strictEqual(pages.flatMap(({ bad }) => bad).length, 300)
    }))

  it.live("ends where the same records come again and again in another order under fresh cursors", () =>
    Effect.gen(function*() {
      const held = records(100)
      const shuffling = layerClient((now) => {
        let page = 0
        const server = () => {
          page++
          const items = held.map((_, index) => JSON.stringify(held[(index * 37 + page) % 100]))
          return { _tag: "Page", items, next: `fresh-${page}`, count: 100 } as const
        }
        return makeListService({
          servers: { payoutRequests: server, payinSources: server, invoices: server },
          accepts: () => true
        }, now)
      })
      const error = yield* Effect.flip(
        PaymentsApi.use(({ invoices }) => Stream.runDrain(invoices.stream())).pipe(Effect.provide(apiOver(shuffling)))
      )
      assert.isTrue(error._tag === "PaymentsError" && error.reason._tag === "PaginationFault")
      assert.include(error.message, "page after page brings nothing new")
    }))

  it.live("by records refuses to set a record aside, and by pages to count records", () =>
    Effect.gen(function*() {
      const api = yield* PaymentsApi
      // As plain JavaScript, or a query made for another operation, could ask.
      const quarantine: object = { onBadRecord: "quarantine" }
      const counted: object = { maxRecords: 5 }
      for (
        const list of [
          api.invoices.stream(quarantine),
          api.invoices.streamBy({ contract: ["a"] }, quarantine),
          api.invoices.pages(counted)
        ]
      ) {
        assert.strictEqual(
          (yield* Effect.flip(Stream.runDrain<unknown, PaymentsError, never>(list))).reason._tag,
          "InvalidRequest"
        )
      }
    }).pipe(Effect.provide(layerTest({}))))

  it.live("in parts names the part that failed, to the caller alone", () =>
    Effect.gen(function*() {
      const api = layerTest({
        invoices: records(10).map((record) => ({ ...record, contract: "canary-contract" })),
        faults: [{ fault: "status", status: 403 }]
      })
      const error = yield* Effect.flip(
        PaymentsApi.use(({ invoices }) => Stream.runDrain(invoices.streamBy({ contract: ["canary-contract"] }))).pipe(
          Effect.provide(api)
        )
      )
      assert.strictEqual(error.reason._tag, "Forbidden")
      assert.strictEqual(error.part === undefined ? "" : Redacted.value(error.part), "canary-contract")
      assert.notInclude(`${error.message} ${JSON.stringify(error)}`, "canary")
    }))

  it.live("says of one page too that its cursor was refused", () =>
    Effect.gen(function*() {
      const api = yield* PaymentsApi
      const first = yield* api.invoices.page({ limit: 10 })
      const position = Redacted.make({ ...Redacted.value(first.next ?? assert.fail("one page")), cursor: "expired" })
      const error = yield* Effect.flip(api.invoices.page({ position }))
      assert.deepInclude(error.reason, { _tag: "PaginationFault", kind: "cursorRefused" })
      assert.isUndefined(error.position)
    }).pipe(Effect.provide(layerTest({ invoices: records(30) }))))

  it.effect("over layerTest waits on the test's clock", () =>
    Effect.gen(function*() {
      const page = yield* inTime(
        PaymentsApi.use(({ invoices }) => invoices.page()).pipe(
          Effect.provide(layerTest({ invoices: [{ id: "a" }], faults: [{ fault: "stall", at: "headers", nth: 1 }] }))
        )
      )
      assert.deepStrictEqual([page.attempts, page.items], [2, [{ id: "a" }]])
      assert.isAtLeast(yield* Clock.currentTimeMillis, 15_000)
    }))
})
