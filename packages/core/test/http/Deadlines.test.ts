import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Redacted } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { PaymentsApi, PaymentsConfig } from "../../src/index.ts"

const config = Layer.effect(
  PaymentsConfig,
  PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: "https://api.example.com", PAYMENTS_API_KEY: Redacted.make("k") })
)

/** A body that starts and then sends nothing more. */
const stalling = () =>
  new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode(`{"items":[`))
  })

/** A body that sends one byte every ten seconds and never ends. */
const dripping = (sleep: Effect.Effect<void>) =>
  new ReadableStream({
    pull: async (controller) => {
      await Effect.runPromise(sleep)
      controller.enqueue(new TextEncoder().encode(" "))
    }
  })

describe("an attempt times out", () => {
  const timeoutOver = Effect.fnUntraced(function*(client: HttpClient.HttpClient) {
    const fiber = yield* Effect.forkChild(
      PaymentsApi.use((api) => Effect.flip(api.invoices.page())).pipe(
        Effect.provide(PaymentsApi.layer.pipe(
          Layer.provide(Layer.succeed(HttpClient.HttpClient, client)),
          Layer.provide(config)
        ))
      )
    )
    for (let second = 0; second < 120; second++) yield* TestClock.adjust("1 second")
    const error = yield* Fiber.join(fiber)
    assert.strictEqual(error.attempts, 3)
    return error.reason
  })

  it.effect("when no headers arrive", () =>
    Effect.gen(function*() {
      const reason = yield* timeoutOver(HttpClient.make(() => Effect.never))
      assert.deepInclude(reason, { _tag: "Timeout", phase: "headers" })
    }))

  it.effect("when the body stalls", () =>
    Effect.gen(function*() {
      const reason = yield* timeoutOver(
        HttpClient.make((request) => Effect.succeed(HttpClientResponse.fromWeb(request, new Response(stalling()))))
      )
      assert.deepInclude(reason, { _tag: "Timeout", phase: "body" })
    }))

  it.effect("when the body never ends", () =>
    Effect.gen(function*() {
      const clock = yield* Effect.context<never>()
      const sleep = Effect.provideContext(Effect.sleep("10 seconds"), clock)
      const reason = yield* timeoutOver(
        HttpClient.make((request) => Effect.succeed(HttpClientResponse.fromWeb(request, new Response(dripping(sleep)))))
      )
      assert.deepInclude(reason, { _tag: "Timeout", phase: "attempt" })
    }))
})
