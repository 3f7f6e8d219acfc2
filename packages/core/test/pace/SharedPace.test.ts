/** Clients that share one budget of requests through a `RateLimiterStore`. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Effect, Fiber, Layer, Logger, Redacted } from "effect"
import { HttpClient } from "effect/http"
import {
  layerStoreMemory,
  RateLimiterError,
  RateLimiterStore,
  RateLimitStoreError
} from "effect/persistence/RateLimiter"
import { TestClock } from "effect/testing"
import { PaymentsApi, type PaymentsConfig } from "../../src/index.ts"
import { keyFingerprintOf } from "../../src/pace/KeyFingerprint.ts"
import { defaultSlowDown } from "../../src/pace/RateLimiter.ts"
import { makeSharedPace } from "../../src/pace/SharedPace.ts"
import type { Fault } from "../../src/testing.ts"
import { apiOver, service } from "../http/Clients.ts"

/** A request and its answer. */
interface Answer {
  readonly at: number
  readonly client: number
  readonly status: number
}

/** Runs clients that request pages all the time, for so many seconds. Returns the answers. */
const answersOf = Effect.fnUntraced(function*(options: {
  readonly faults: ReadonlyArray<Fault>
  readonly clients: number
  readonly seconds: number
  readonly config?: Partial<PaymentsConfig["Service"]>
  readonly store?: RateLimiterStore["Service"]
  readonly at?: (second: number) => Effect.Effect<void>
}) {
  const store = options.store ?? (yield* memory)
  const apiKey = Redacted.make("key")
  // This takes real time, and is done only once for a key.
  yield* Effect.promise(() => keyFingerprintOf(apiKey)("rate limit of https://api.example.com/"))
  const answers: Array<Answer> = []
  const server = yield* Layer.build(service({ faults: options.faults, length: 1 }))
  const clientOf = (client: number) =>
    Layer.effect(
      HttpClient.HttpClient,
      Effect.map(
        HttpClient.HttpClient,
        HttpClient.tap(({ status }) =>
          Effect.map(Clock.currentTimeMillis, (at) => void answers.push({ at, client, status }))
        )
      )
    ).pipe(Layer.provide(Layer.succeedContext(server)))
  const fibers = yield* Effect.forEach(
    Array.from({ length: options.clients }, (_, index) => index),
    (client) =>
      Effect.gen(function*() {
        const api = Context.get(
          yield* Layer.build(
            apiOver(clientOf(client), { apiKey, invoicesApiKey: apiKey, ...options.config }).pipe(
              Layer.provide(Layer.succeed(RateLimiterStore, store))
            )
          ),
          PaymentsApi
        )
        // An error of a page is no error of the client.
        const endless = Effect.forever(Effect.ignore(Effect.andThen(Effect.sleep(20), api.invoices.page())))
        return yield* Effect.all([endless, endless, endless], { concurrency: "unbounded" })
      }).pipe(Effect.scoped, Effect.forkChild)
  )
  for (let tick = 0; tick < options.seconds * 5; tick++) {
    if (tick % 5 === 0) yield* options.at?.(tick / 5) ?? Effect.void
    yield* TestClock.adjust(200)
  }
  yield* Fiber.interruptAll(fibers)
  return answers
})

const after = (answers: ReadonlyArray<Answer>, seconds: number) => answers.filter(({ at }) => at >= seconds * 1000)

const countOf = (answers: ReadonlyArray<Answer>, status: number) =>
  answers.filter((answer) => answer.status === status).length

/** The answers to each client. */
const counts = (answers: ReadonlyArray<Answer>, clients: number) =>
  Array.from({ length: clients }, (_, client) => answers.filter((answer) => answer.client === client).length)

const limit = (perSecond: number, burst: number): Fault => ({ fault: "rateLimit", perSecond, burst })

/** A store that fails while `isAway` returns true. */
const failing = (store: RateLimiterStore["Service"], isAway: () => boolean): RateLimiterStore["Service"] => {
  const error = Effect.fail(
    new RateLimiterError({ reason: new RateLimitStoreError({ message: "the database is away" }) })
  )
  return {
    ...store,
    tokenBucket: (options) => Effect.suspend(() => isAway() ? error : store.tokenBucket(options)),
    fixedWindow: (options) => Effect.suspend(() => isAway() ? error : store.fixedWindow(options))
  }
}

const memory = Effect.map(Layer.build(layerStoreMemory), (context) => Context.get(context, RateLimiterStore))

describe("clients that share a budget", () => {
  it.effect("use a limit that nobody knows", () =>
    Effect.gen(function*() {
      const answers = yield* answersOf({ faults: [limit(20, 20)], clients: 3, seconds: 90 })
      const steady = after(answers, 60)
      assert.isAtMost(countOf(steady, 429), steady.length / 100)
      assert.isAtLeast(countOf(steady, 200), 30 * 20 * 0.9)
    }).pipe(Effect.scoped))

  it.effect("together keep to their ceiling, with equal shares", () =>
    Effect.gen(function*() {
      const answers = yield* answersOf({
        faults: [limit(20, 3)],
        clients: 3,
        seconds: 20,
        config: { maxRequestsPerSecond: 20 }
      })
      assert.strictEqual(countOf(answers, 429), 0)
      // A twentieth is the reserve.
      assert.closeTo(answers.length, 20 * 19, 5)
      for (const count of counts(answers, 3)) assert.closeTo(count, answers.length / 3, 2)
    }).pipe(Effect.scoped))

  it.effect("all wait for the Retry-After of a 429 to one of them", () =>
    Effect.gen(function*() {
      const answers = yield* answersOf({
        faults: [{ fault: "status", status: 429, retryAfter: 5, nth: 100 }],
        clients: 3,
        seconds: 20,
        config: { maxRequestsPerSecond: 20 }
      })
      const at = answers.find(({ status }) => status === 429)?.at ?? 0
      // The other two clients had a slot each, which began soon after.
      assert.isAtMost(answers.filter((answer) => answer.at > at && answer.at < at + 5000).length, 2)
      const later = answers.filter((answer) => answer.at >= at + 5000).map((answer) => answer.at)
      const gaps = later.slice(1).map((time, index) => time - (later[index] ?? 0))
      assert.isTrue(gaps.every((gap) => gap > 45), gaps.join(" "))
    }).pipe(Effect.scoped))

  it.effect("keep to their ceiling while the store is away for one of them, for all but one, and for all", () =>
    Effect.gen(function*() {
      const clients = 3
      const shared = yield* memory
      for (const cutOff of [1, 2, 3]) {
        let isAway = false
        const paces = Array.from({ length: clients }, (_, index) =>
          makeSharedPace({
            store: failing(shared, () => isAway && index < cutOff),
            name: Effect.succeed(`budget of ${cutOff}`),
            ceiling: 15,
            slowDown: defaultSlowDown
          }))
        const sent: Array<readonly [at: number, client: number]> = []
        const fibers = yield* Effect.forEach(
          paces,
          ({ acquire }, client) =>
            Effect.forkChild(Effect.forever(Effect.andThen(
              acquire,
              Effect.map(Clock.currentTimeMillis, (at) => void sent.push([at, client]))
            )))
        )
        const start = yield* Clock.currentTimeMillis
        for (let tick = 0; tick < 300; tick++) {
          isAway = tick >= 50 && tick < 200
          yield* TestClock.adjust(200)
        }
        yield* Fiber.interruptAll(fibers)
        const times = sent.map(([at]) => at - start)
        // One request more for the start of a window, and one more for each client that has just left the store.
        const most = Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 5000).length))
        assert.isAtMost(most, 15 * 5 + 1, `${cutOff} cut off`)
        const away = sent.filter(([at]) => at - start >= 10_000 && at - start < 40_000)
        const counted = Array.from({ length: clients }, (_, client) => away.filter(([, of]) => of === client).length)
        counted.slice(0, cutOff).forEach((count) => assert.isAtLeast(count, 5, `${cutOff} cut off`))
        counted.slice(cutOff).forEach((count) => assert.isAtLeast(count, 15 * 30 * 0.9 / (clients - cutOff)))
        assert.isTrue(paces.every((pace) => pace.isShared() === true), "all share again")
      }
    }).pipe(Effect.provide(Logger.layer([])), Effect.scoped))

  it.effect("each keep to their share of the reserve while the store is away, say so once, and return to it", () =>
    Effect.gen(function*() {
      const messages: Array<string> = []
      let isAway = false
      const answers = yield* answersOf({
        faults: [],
        clients: 4,
        seconds: 60,
        config: { maxRequestsPerSecond: 40 },
        store: failing(yield* memory, () => isAway),
        at: (second) => Effect.sync(() => void (isAway = second >= 10 && second < 40))
      }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void messages.push(String(message)))])))
      for (const [from, to, rate] of [[1, 10, 38], [11, 40, 2], [46, 60, 38]] as const) {
        const between = answers.filter(({ at }) => at >= from * 1000 && at < to * 1000)
        assert.closeTo(between.length / (to - from), rate, rate / 10, `${from} s to ${to} s`)
      }
      const away =
        "The rate limit store cannot be used: the database is away. Until it can, this process sends at most " +
        "0.50 requests per second, its share of what the others leave unused."
      assert.deepStrictEqual(
        messages,
        [away, "The rate limit store can be used again."].flatMap((message) => Array.from({ length: 4 }, () => message))
      )
    }).pipe(Effect.scoped))

  it.effect("increase their rate only while requests wait for it", () =>
    Effect.gen(function*() {
      const pace = makeSharedPace({
        store: yield* memory,
        name: Effect.succeed("budget"),
        ceiling: undefined,
        slowDown: defaultSlowDown
      })
      const send = (count: number, pauseMs: number) =>
        Effect.gen(function*() {
          const fiber = yield* Effect.forkChild(
            Effect.forEach(Array.from({ length: count }), () => Effect.andThen(pace.acquire, Effect.sleep(pauseMs)))
          )
          for (let tick = 0; fiber.pollUnsafe() === undefined; tick++) {
            assert.isBelow(tick, 1000)
            yield* TestClock.adjust(100)
          }
          return pace.rate()
        })
      assert.closeTo(yield* send(60, 1000), 20, 0.1)
      const grown = yield* send(200, 0)
      assert.isAbove(grown, 40)
      // The next reading may still increase the rate, because a request has waited since the last one.
      const still = yield* send(3, 1000)
      assert.closeTo(yield* send(60, 1000), still, still / 100)
      yield* pace.onRateLimited(0)
      const reduced = yield* send(3, 1000)
      assert.isBelow(reduced, still)
      assert.closeTo(yield* send(60, 1000), reduced, reduced / 10)
    }).pipe(Effect.scoped))

  it.effect("use a store that answers slowly", () =>
    Effect.gen(function*() {
      const messages: Array<string> = []
      const store = yield* memory
      const answers = yield* answersOf({
        faults: [],
        clients: 2,
        seconds: 60,
        config: { maxRequestsPerSecond: 20 },
        store: {
          ...store,
          tokenBucket: (options) => Effect.delay(store.tokenBucket(options), 500),
          fixedWindow: (options) => Effect.delay(store.fixedWindow(options), 500)
        }
      }).pipe(Effect.provide(Logger.layer([Logger.make(({ message }) => void messages.push(String(message)))])))
      assert.deepStrictEqual(messages, [])
      // Each client sends one request per answer of the store. It reads the rate in a sixth of the time.
      assert.isAtLeast(after(answers, 20).length / 40, 2 * 2 * 0.75)
    }).pipe(Effect.scoped))

  it.effect("keep the pause of a Retry-After when the store fails and when it can be used again", () =>
    Effect.gen(function*() {
      for (const isAwayFirst of [false, true]) {
        let isAway = isAwayFirst
        const pace = makeSharedPace({
          store: failing(yield* memory, () => isAway),
          name: Effect.succeed("budget"),
          ceiling: 200,
          slowDown: defaultSlowDown
        })
        yield* pace.acquire
        yield* pace.onRateLimited(20_000)
        isAway = !isAwayFirst
        // The first of these requests finds out that the store has failed, or tries it again.
        yield* TestClock.adjust(6000)
        const requests = yield* Effect.forEach([1, 2], () => Effect.forkChild(pace.acquire))
        yield* TestClock.adjust(13_000)
        assert.isTrue(requests.every((request) => request.pollUnsafe() === undefined), `away first: ${isAwayFirst}`)
        yield* TestClock.adjust(2000)
        assert.isTrue(requests.every((request) => request.pollUnsafe() !== undefined), `away first: ${isAwayFirst}`)
        assert.strictEqual(pace.isShared(), isAwayFirst)
      }
    }).pipe(Effect.provide(Logger.layer([])), Effect.scoped))

  it.effect("do not trust a store that answers with impossible numbers", () =>
    Effect.gen(function*() {
      const store = yield* memory
      const answers = yield* answersOf({
        faults: [],
        clients: 1,
        seconds: 10,
        config: { maxRequestsPerSecond: 20 },
        store: { ...store, tokenBucket: () => Effect.succeed([-1e300, Number.NaN]) }
      })
      // The client keeps to the reserve, as without a store.
      assert.closeTo(answers.length, 10, 1)
    }).pipe(Effect.scoped))
})
