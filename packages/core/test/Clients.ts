/** Clients in process, for tests of what they send and when. */
import { Clock, Effect, Fiber, Layer, Redacted } from "effect"
import { HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import { Lists, PaymentsApi, PaymentsConfig } from "../src/index.ts"
import { layerClient, makeListService, MemoryList } from "../src/testing.ts"

/** So many invoices. */
export const records = (count: number) => Array.from({ length: count }, (_, index) => ({ id: `inv_${index}` }))

/** A client that counts what it sends, and when. */
export const counting = (client: Layer.Layer<HttpClient.HttpClient>) => {
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

/** An `HttpClient` in process over lists of so many records. */
export const service = (
  options: Partial<Parameters<typeof makeListService>[0]> & { readonly length?: number } = {}
) => {
  const held = MemoryList.recordsOf(records(options.length ?? 50))
  return layerClient((now) =>
    makeListService({
      servers: Lists.map((list) => MemoryList.serve(list, held)),
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

/** The service over a client, with other settings where they are given. */
export const apiOver = (client: Layer.Layer<HttpClient.HttpClient>, more: Partial<PaymentsConfig["Service"]> = {}) =>
  PaymentsApi.layer.pipe(Layer.provide(client), Layer.provide(configured(more)))

/** Moves the clock on until the work is done. */
export const inTime = <A, E>(work: Effect.Effect<A, E>) =>
  Effect.gen(function*() {
    const fiber = yield* Effect.forkChild(work)
    for (let second = 0; second < 600 && fiber.pollUnsafe() === undefined; second++) yield* TestClock.adjust("1 second")
    return yield* Fiber.join(fiber)
  })
