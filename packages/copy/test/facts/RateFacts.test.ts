/** The rate at which 429 begins, of sandboxes with such a rate, over HTTP. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, makePaces, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox } from "@payments/sandbox"
import { overSkippingClock } from "@payments/testkit/Clocks"
import { Duration, Effect, FileSystem, Layer, Ref } from "effect"
import { HttpClient } from "effect/http"
import { layerStoreMemory } from "effect/persistence/RateLimiter"
import { join } from "node:path"
import { probe } from "../../src/facts.ts"
import { makeAsk, notObserved } from "../../src/facts/Ask.ts"
import { rateLimit } from "../../src/facts/RateFacts.ts"

type Options = NonNullable<Parameters<typeof Sandbox.layer>[0]>

/** Observes once, with at most so many requests. Returns the answer or the reason, and the number of requests. */
const observe = (
  options: Options,
  { budget = 1000, mayThrottle = true, rates = [10, 20, 50] }: {
    readonly budget?: number
    readonly mayThrottle?: boolean
    readonly rates?: ReadonlyArray<number>
  } = {}
) =>
  Sandbox.use(({ counters, url }) =>
    Effect.gen(function*() {
      const config = yield* Sandbox.config(url)
      const left = yield* Ref.make(budget)
      const take = Effect.flatMap(
        Ref.getAndUpdate(left, (count) => Math.max(0, count - 1)),
        (count) => count > 0 ? Effect.void : Effect.fail(notObserved("none left"))
      )
      const ask = makeAsk({
        client: yield* HttpClient.HttpClient,
        config,
        list: Lists.invoices,
        mayThrottle,
        paces: yield* makePaces(config),
        pause: Duration.zero,
        take,
        throttled: { count: 0 }
      })
      const answer = yield* Effect.match(rateLimit(rates).observe(ask), {
        onFailure: ({ reason }) => reason,
        onSuccess: (found) => found.answer
      })
      return { answer, requests: (yield* counters).requests }
    })
  ).pipe(Effect.provide(Sandbox.layer(options)))

/** Runs an effect in a time that stands still during a request. So all requests leave and arrive at their rate. */
const atTheRate = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  overSkippingClock((during) =>
    Effect.flatMap(
      HttpClient.HttpClient,
      (client) =>
        Effect.provideService(effect, HttpClient.HttpClient, HttpClient.transform(client, (request) => during(request)))
    )
  )

const limit = (perSecond: number, burst?: number): Options => ({
  faults: [{ fault: "rateLimit", perSecond, ...(burst === undefined ? {} : { burst }) }]
})

describe("the rate at which 429 begins", () => {
  it.live.each<readonly [title: string, Options, ReadonlyArray<number>, answer: RegExp]>([
    ["is between two rates", limit(35, 10), [20, 50], /^between 20 and 50 a second$/],
    // Without the allowance, 20 requests a second would be accepted for two seconds.
    ["is not that of an allowance for bursts", limit(8, 20), [5, 20, 50], /^between 5 and 20 a second$/],
    ["is below the first rate", limit(3), [10, 20], /^at most 10 a second$/],
    ["is none up to the last rate", {}, [10, 20], /^none up to 20 a second$/],
    [
      "is not that of an allowance for a minute",
      { faults: [{ fault: "status", status: 429, retryAfter: 3, from: 20 }] },
      [10, 20],
      /^429 with a pause of 3 s: an allowance/
    ],
    [
      "is not that of answers that come at any rate",
      { faults: [{ fault: "status", status: 429, every: 12 }] },
      [10, 20],
      /too few for a limit$/
    ],
    [
      "is not that of a service that refuses other requests too",
      { faults: [{ fault: "status", status: 429, nth: 1 }] },
      [10],
      /^429 also came at the rate of the other requests$/
    ],
    [
      "is not that at which a service fails",
      { faults: [{ fault: "status", status: 503, from: 5 }] },
      [10],
      /^the service answered 503 at a high rate$/
    ]
  ])("%s", ([, options, rates, answer]) =>
    Effect.gen(function*() {
      assert.match((yield* atTheRate(observe(options, { rates }))).answer, answer)
    }).pipe(Effect.provide(layerHttpClient)))

  it.live("is not that of a service that is slow", () =>
    Effect.gen(function*() {
      const { answer } = yield* observe({ faults: [{ fault: "latency", ms: 0, jitterMs: 4000 }] }, { rates: [100] })
      assert.strictEqual(answer, "the service is slower than 100 requests a second")
    }).pipe(Effect.provide(layerHttpClient)))

  it.live("takes no request without permission, and no more than are left", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* atTheRate(observe({}, { mayThrottle: false })), {
        answer: "it provokes answers with 429: --may-throttle permits that",
        requests: 0
      })
      assert.deepStrictEqual(yield* atTheRate(observe({}, { budget: 15 })), { answer: "none left", requests: 15 })
    }).pipe(Effect.provide(layerHttpClient)))

  it.live("is observed after all other facts, and slows the clients down that share the rate", () =>
    Effect.gen(function*() {
      const folder = yield* Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
      const statuses: Array<number> = []
      yield* Sandbox.use(({ url }) =>
        Effect.gen(function*() {
          const config = { ...(yield* Sandbox.config(url)), maxRequestsPerSecond: 30 }
          const paces = yield* makePaces(config)
          const other = paces.of(Lists.payoutRequests, PaymentsConfig.keysOf(config).payments)
          yield* other.acquire
          const before = other.rate()
          const options = { to: join(folder, "facts.json"), budget: 350, pause: Duration.zero, mayThrottle: true }
          const { requests } = yield* probe(config, options)
          assert.strictEqual(requests, 350)
          assert.isAbove(statuses.indexOf(429), 150, "after the other facts")
          // A client reads the rate every second.
          yield* Effect.sleep("1.1 seconds")
          yield* other.acquire
          assert.isBelow(other.rate(), before * 0.95)
        })
      ).pipe(
        // The limit is higher than the rate of the other requests.
        Effect.provide(
          Sandbox.layer({ ...limit(40, 3), onRequest: ({ status }) => void statuses.push(status ?? 0) })
        ),
        Effect.provide(layerStoreMemory),
        atTheRate
      )
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(NodeServices.layer, layerHttpClient))))
})
