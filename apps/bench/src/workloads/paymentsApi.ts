/** `PaymentsApi` over several HTTP clients. It checks every record and keeps undocumented fields. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { type Page, PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Effect, type Layer, ManagedRuntime, Stream } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { pageSize } from "../harness/PageServer.ts"
import { addRecords, emptyResult, type Workload } from "../harness/WorkloadResult.ts"
import { serviceAt } from "./service.ts"

const runtimeOf = (url: string, client: Layer.Layer<HttpClient.HttpClient>) =>
  ManagedRuntime.make(serviceAt(url, client))

/** All runs of the workload against the same address use the same runtime. */
const workload = (
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

const texts = (list: "payoutRequests" | "invoices") =>
  Effect.fnUntraced(function*(api: PaymentsApi["Service"]) {
    const total = emptyResult()
    const pages: Stream.Stream<Page<{ readonly id: string; readonly amount?: number | null }>, unknown> = api[list]
      .pages({
        limit: pageSize
      })
    yield* Stream.runForEach(pages, (page) =>
      Effect.sync(() => {
        addRecords(total, page.items)
        for (const { text } of page.records()) total.characters += text.length
      }))
    return total
  })

const withPauses = (ms: number) =>
  Effect.fnUntraced(function*(api: PaymentsApi["Service"]) {
    const total = emptyResult()
    yield* Stream.runForEach(api.payoutRequests.pages({ limit: pageSize }), (page) => {
      addRecords(total, page.items)
      return Effect.sleep(ms)
    })
    return total
  })

export const stream = workload(layerHttpClient, records)
export const exactTexts = workload(layerHttpClient, texts("payoutRequests"))
export const exactInvoices = workload(layerHttpClient, texts("invoices"))
export const slowConsumer = workload(layerHttpClient, withPauses(30))
export const overFetch = workload(FetchHttpClient.layer, records)
export const overStockUndici = workload(NodeHttpClient.layerUndici, records)

/** Starts this many listings, a hundred at a time, to provoke a storm of retries. Fails if a listing succeeds. */
export const storm = async (
  { listings, url }: { readonly url: string; readonly listings: number }
): Promise<void> => {
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
