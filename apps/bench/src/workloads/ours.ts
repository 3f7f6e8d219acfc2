/** `PaymentsApi` over several HTTP clients. It checks every record and keeps undocumented fields. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Effect, Layer, ManagedRuntime, Redacted, Stream } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { pageSize } from "../PageServer.ts"
import { addRecords, emptyResult, type Workload } from "../WorkloadResult.ts"

/** Makes the runtime of an application that reads this base address. Later runs reuse it. */
const runtimeOf = (url: string, client: Layer.Layer<HttpClient.HttpClient>) =>
  ManagedRuntime.make(PaymentsApi.layer.pipe(
    Layer.provide(client),
    Layer.provide(Layer.effect(
      PaymentsConfig,
      Effect.map(
        PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make("sandbox_key") }),
        // The long lists of the memory figures repeat the same pages.
        (config) => ({ ...config, progress: { emptyPages: 0, repeatedPages: Number.POSITIVE_INFINITY } })
      )
    ))
  ))

const over = (
  client: Layer.Layer<HttpClient.HttpClient>,
  read: (api: PaymentsApi["Service"]) => Effect.Effect<ReturnType<typeof emptyResult>, unknown>
): Workload => {
  const runtimes = new Map<string, ReturnType<typeof runtimeOf>>()
  return (url) => {
    const runtime = runtimes.get(url) ?? runtimeOf(url, client)
    runtimes.set(url, runtime)
    return runtime.runPromise(PaymentsApi.use(read))
  }
}

const records = Effect.fnUntraced(function*(api: PaymentsApi["Service"]) {
  const total = emptyResult()
  yield* Stream.runForEachArray(
    api.payoutRequests.stream({ limit: pageSize }),
    (page) => Effect.sync(() => addRecords(total, page))
  )
  return total
})

const texts = Effect.fnUntraced(function*(api: PaymentsApi["Service"]) {
  const total = emptyResult()
  yield* Stream.runForEach(api.payoutRequests.pages({ limit: pageSize }), (page) =>
    Effect.sync(() => {
      addRecords(total, page.items)
      for (const { text } of page.records()) total.characters += text.length
    }))
  return total
})

const pausing = (ms: number) =>
  Effect.fnUntraced(function*(api: PaymentsApi["Service"]) {
    const total = emptyResult()
    yield* Stream.runForEach(api.payoutRequests.pages({ limit: pageSize }), (page) => {
      addRecords(total, page.items)
      return Effect.sleep(ms)
    })
    return total
  })

export const stream = over(layerHttpClient, records)
export const exactTexts = over(layerHttpClient, texts)
export const slowConsumer = over(layerHttpClient, pausing(30))
export const overFetch = over(FetchHttpClient.layer, records)
export const overStockUndici = over(NodeHttpClient.layerUndici, records)

/** Starts this many listings, a hundred at a time. All of them must fail. */
export const storm = async (url: string, listings: number): Promise<void> => {
  const runtime = runtimeOf(url, layerHttpClient)
  await runtime.runPromise(PaymentsApi.use((api) =>
    Effect.forEach(
      Array.from({ length: listings }),
      () => Effect.flip(Stream.runDrain(api.payoutRequests.stream())),
      { concurrency: 100, discard: true }
    )
  ))
  await runtime.dispose()
}
