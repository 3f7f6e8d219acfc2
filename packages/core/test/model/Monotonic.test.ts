import { assert, describe, it } from "@effect/vitest"
import { overSettableClock } from "@payments/testkit/Clocks"
import { Duration, Effect, Fiber, Layer, Result, Schedule } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { Monotonic, PaymentsApi, RetryPolicy } from "../../src/index.ts"
import { apiOver, service } from "../http/Clients.ts"

/** Not a multiple of the intervals below. */
const day = 86_400_000 + 45_000
const jumps = [["back", -day], ["forward", day]] as const

/** Runs the effect. Fails if it has not ended after `duration` on the test clock. */
const within = <A, E, R>(duration: Duration.Input, effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const fiber = yield* Effect.forkChild(effect)
    yield* TestClock.adjust(duration)
    assert.isDefined(fiber.pollUnsafe(), "it has not ended")
    return yield* Fiber.join(fiber)
  })

describe.each(jumps)("with the wall clock set %s by a day", (_, jump) => {
  it.effect("a ceiling and a rate limit delay requests no longer", () =>
    within(
      "20 seconds",
      overSettableClock((set) =>
        Effect.gen(function*() {
          const api = yield* PaymentsApi
          const pages = Effect.all(Array.from({ length: 4 }, () => api.invoices.page()))
          yield* pages
          set(jump)
          assert.strictEqual((yield* pages).length, 4)
        }).pipe(
          Effect.provide(
            apiOver(service({ faults: [{ fault: "rateLimit", perSecond: 2 }] }), { maxRequestsPerSecond: 4 })
          )
        )
      )
    ))

  it.effect("an attempt ends at its deadline and not before", () =>
    within(
      "1 minute",
      overSettableClock((set) => {
        // A body whose bytes arrive one by one: soon enough for a body that must not stall, too late for the attempt.
        const bodies: Array<(chunk: Uint8Array) => void> = []
        const client = Layer.succeed(
          HttpClient.HttpClient,
          HttpClient.make((request) =>
            Effect.succeed(HttpClientResponse.fromWeb(
              request,
              new Response(
                new ReadableStream({
                  start: (controller) => void bodies.push((chunk) => controller.enqueue(chunk))
                }),
                { status: 200 }
              )
            ))
          )
        )
        return Effect.gen(function*() {
          const api = yield* PaymentsApi
          const page = yield* Effect.forkChild(Effect.result(api.invoices.page()))
          yield* Effect.sleep("5 seconds")
          set(jump)
          const started = yield* Monotonic.millis
          while (page.pollUnsafe() === undefined) {
            bodies.at(-1)?.(new TextEncoder().encode(" "))
            yield* Effect.sleep("5 seconds")
          }
          const waited = (yield* Monotonic.millis) - started
          const result = yield* Fiber.join(page)
          const reason = Result.isFailure(result) ? result.failure.reason : undefined
          assert.deepInclude(reason, { _tag: "Timeout", phase: "attempt" })
          assert.isTrue(waited >= 25_000 && waited <= 30_000, String(waited))
        }).pipe(Effect.provide(apiOver(client, { retry: { ...RetryPolicy.defaultRetryPolicy, attempts: 1 } })))
      })
    ))

  it.effect("a fixed schedule keeps its ticks", () =>
    Effect.gen(function*() {
      let ticks = 0
      yield* Effect.forkChild(overSettableClock((set) =>
        Effect.sync(() => {
          if (++ticks === 3) set(jump)
        }).pipe(Effect.repeat(Monotonic.fixed("1 minute")))
      ))
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(ticks, 6)
    }))

  it.effect("a schedule with a time limit ends at its limit", () =>
    Effect.gen(function*() {
      let attempts = 0
      yield* within(
        "6 seconds",
        overSettableClock((set) =>
          Effect.suspend(() => {
            if (++attempts === 3) set(jump)
            return Effect.fail("unavailable")
          }).pipe(Effect.retry(Schedule.spaced("1 second").pipe(Monotonic.upTo("4500 millis"))), Effect.ignore)
        )
      )
      assert.strictEqual(attempts, 6)
    }))

  it.effect("the elapsed time of a page is correct", () =>
    within(
      "2 seconds",
      overSettableClock((set) =>
        Effect.gen(function*() {
          const api = yield* PaymentsApi
          const page = yield* Effect.forkChild(api.invoices.page())
          yield* Effect.sleep("500 millis")
          set(jump)
          assert.strictEqual(Duration.toMillis((yield* Fiber.join(page)).elapsed), 1000)
        }).pipe(Effect.provide(apiOver(service({ faults: [{ fault: "latency", ms: 1000 }] }))))
      )
    ))
})
