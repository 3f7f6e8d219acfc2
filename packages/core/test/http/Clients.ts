/** In-process clients, for tests of what they send and when. */
import { Clock, Effect, Fiber, Layer, Redacted } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import { Lists, PaymentsApi, PaymentsConfig } from "../../src/index.ts"
import { layerClient, makeListService, MemoryList } from "../../src/testing.ts"

/** Returns `count` records. */
export const records = (count: number) => Array.from({ length: count }, (_, index) => ({ id: `inv_${index}` }))

/** Wraps a client so that it records the time of each request. */
export const recordingTimes = (client: Layer.Layer<HttpClient.HttpClient>) => {
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

/** Returns an in-process `HttpClient` over lists of `length` records each. */
export const service = (
  options: Partial<Parameters<typeof makeListService>[0]> & { readonly length?: number } = {}
) => {
  const memory = MemoryList.recordsOf(records(options.length ?? 50))
  return layerClient((now) =>
    makeListService({
      servers: Lists.map((definition) => MemoryList.serve(definition, memory)),
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

/** Returns `PaymentsApi` over a client. `more` replaces settings. */
export const apiOver = (client: Layer.Layer<HttpClient.HttpClient>, more: Partial<PaymentsConfig["Service"]> = {}) =>
  PaymentsApi.layer.pipe(Layer.provide(client), Layer.provide(configured(more)))

/** Runs the effect and advances the test clock until it has ended. */
export const advancingClock = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const fiber = yield* Effect.forkChild(effect)
    for (let second = 0; second < 600 && fiber.pollUnsafe() === undefined; second++) yield* TestClock.adjust("1 second")
    return yield* Fiber.join(fiber)
  })
