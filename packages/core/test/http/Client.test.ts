/** What the listings of one client share: the rate limiter, the retry budget, the keys and the telemetry. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { ConfigProvider, Effect, Fiber, FileSystem, Layer, Stream, Tracer } from "effect"
import { TestClock } from "effect/testing"
import { type ObservedRequest, PaymentsApi, RequestObserver } from "../../src/index.ts"
import { layerHttpClient } from "../../src/node.ts"
import { advancingClock, apiOver, recordingTimes, service } from "./Clients.ts"

describe("listings that share a client", () => {
  it.effect("together stay below the ceiling of requests per second", () =>
    Effect.gen(function*() {
      const { layer, times } = recordingTimes(service())
      yield* advancingClock(
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

  it.effect("all wait for the Retry-After of a 429, then continue at a reduced rate", () =>
    Effect.gen(function*() {
      const { layer, times } = recordingTimes(
        service({ faults: [{ fault: "status", status: 429, retryAfter: 10, nth: 20 }], length: 1000 })
      )
      yield* advancingClock(
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
      // After the wait they start one after another.
      assert.isTrue(gaps.slice(gaps.indexOf(pause) + 1).every((gap) => gap >= 1), gaps.join(" "))
    }))

  it.effect("wait for the Retry-After of a 429 even if they were queued before it", () =>
    Effect.gen(function*() {
      const { layer, times } = recordingTimes(
        service({ faults: [{ fault: "status", status: 429, retryAfter: 20, nth: 1 }], length: 1000 })
      )
      yield* advancingClock(
        PaymentsApi.use(({ invoices }) =>
          Effect.forEach(Array.from({ length: 20 }), () => invoices.page(), { concurrency: "unbounded" })
        ).pipe(Effect.provide(apiOver(layer, { maxRequestsPerSecond: 10 })))
      )
      const [first, ...later] = times
      assert.deepStrictEqual([first, later.length], [0, 20])
      assert.isTrue(later.every((time) => time >= 20_000), later.join(" "))
    }))

  it.effect("do not use up the rate while they are queued and interrupted", () =>
    Effect.gen(function*() {
      const { layer, times } = recordingTimes(service())
      yield* PaymentsApi.use(({ invoices }) =>
        Effect.gen(function*() {
          const waiting = yield* Effect.forEach(Array.from({ length: 100 }), () => Effect.forkChild(invoices.page()))
          yield* TestClock.adjust("1500 millis")
          yield* Fiber.interruptAll(waiting)
          yield* advancingClock(invoices.page())
        })
      ).pipe(Effect.provide(apiOver(layer, { maxRequestsPerSecond: 1 })))
      assert.isBelow(times.at(-1) ?? 0, 4000)
    }))

  it.effect("stop retrying when every request fails: 1,000 listings send only 35 retries", () =>
    Effect.gen(function*() {
      const { layer, times } = recordingTimes(service({ faults: [{ fault: "status", status: 503 }] }))
      const failed = yield* advancingClock(
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

  it.effect("get the cost of retries back from requests that succeed", () =>
    Effect.gen(function*() {
      const { layer, times } = recordingTimes(service({ faults: [{ fault: "reset", every: 2 }] }))
      const attempts = yield* advancingClock(
        PaymentsApi.use(({ invoices }) =>
          Effect.forEach(Array.from({ length: 500 }), () => Effect.map(invoices.page(), (page) => page.attempts))
        ).pipe(Effect.provide(apiOver(layer)))
      )
      assert.deepStrictEqual([times.length, new Set(attempts)], [999, new Set([1, 2])])
    }))
})

describe("when the service no longer accepts the key", () => {
  const rotating = Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const file = `${yield* fs.makeTempDirectoryScoped()}/key`
    yield* fs.writeFileString(file, "first-key\n", { mode: 0o600 })
    let accepted = "first-key"
    const { layer, times } = recordingTimes(service({ accepts: (key) => key === accepted }))
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
      write: (key: string) => fs.writeFileString(file, key),
      file,
      remove: fs.remove(file)
    }
  })

  it.live("reads the key file again once and uses the new key from then on", () =>
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

  it.live("fails after one request if the key file contains the same key", () =>
    Effect.gen(function*() {
      const { accept, list, times } = yield* rotating
      yield* accept("second-key")
      const error = yield* Effect.flip(list)
      assert.deepStrictEqual([error.reason._tag, error.attempts, times.length], ["Unauthorized", 1, 1])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it.live("fails with the setting and the path if the key file no longer exists", () =>
    Effect.gen(function*() {
      const { accept, file, list, remove, times } = yield* rotating
      yield* accept("second-key")
      yield* remove
      const error = yield* Effect.flip(list)
      assert.deepStrictEqual([error.reason._tag, error.status, times.length], ["Unauthorized", 401, 1])
      assert.include(
        error.message,
        `did not accept the key (401). PAYMENTS_API_KEY_FILE cannot be used: ${file} does not exist.`
      )
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})

describe("telemetry of a request", () => {
  it.effect("is a client span with OpenTelemetry's attributes, without the query", () =>
    Effect.gen(function*() {
      const spans: Array<Tracer.Span> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      yield* advancingClock(
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
      const recorded = spans.map(({ attributes, kind, name }) => [name, kind, Object.fromEntries(attributes)])
      assert.deepStrictEqual(recorded, [
        ["PaymentsApi.invoices.page", "internal", {}],
        ["GET /v1/invoices", "client", { ...common, "http.response.status_code": 503, "error.type": "503" }],
        ["GET /v1/invoices", "client", {
          ...common,
          "http.request.resend_count": 1,
          "http.response.status_code": 200
        }]
      ])
    }))

  it.effect("is passed to the observer of its context, with the rate limit after it", () =>
    Effect.gen(function*() {
      const seen: Array<ObservedRequest> = []
      const statuses = [503, 429].map((status, index) => ({ fault: "status", status, nth: index + 1 }) as const)
      yield* advancingClock(
        PaymentsApi.use(({ invoices }) => invoices.page({ contract: "c", limit: 7 })).pipe(
          Effect.provide(apiOver(service({ faults: statuses }))),
          Effect.provideService(RequestObserver, (request) => void seen.push(request))
        )
      )
      const facts = seen.map(({ list, maxPerSecond, result, seconds }) => [
        list,
        result,
        maxPerSecond !== undefined,
        seconds >= 0 && seconds < 1
      ])
      assert.deepStrictEqual(facts, [
        ["invoices", "ServerFailure", false, true],
        ["invoices", "RateLimited", true, true],
        ["invoices", "Succeeded", true, true]
      ])
      // Every member is a number or a name from a closed set.
      assert.notInclude(JSON.stringify(seen), "\"c\"")
    }))

  it.live("sends trace headers to the service only if the setting says so", () =>
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
