/**
 * An application that uses the library and the sandbox as their documentation shows. `testRelease.ts` compiles and runs it in
 * an empty folder, with the packed packages.
 */
import { PaymentsApi, PaymentsConfig } from "@payments/core"
import { connectFromEnvironment, layerHttpClient } from "@payments/core/node"
import { Sandbox } from "@payments/sandbox"
import { Console, Effect, Layer } from "effect"
import { openInvoices } from "./openInvoices.ts"

const withoutEffect = async (url: string) => {
  // Node 22 has no `await using`.
  const payments = await connectFromEnvironment({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_key" })
  const page = await payments.invoices.page({ limit: 7 })
  let streamed = 0
  for await (const { id } of payments.payoutRequests.stream({ limit: 50 })) streamed += id === "" ? 0 : 1
  await payments.close()
  return { listed: page.items.length, streamed }
}

const main = Effect.gen(function*() {
  const { url } = yield* Sandbox
  const live = PaymentsApi.layer.pipe(
    Layer.provide(layerHttpClient),
    Layer.provide(Layer.effect(PaymentsConfig, Sandbox.config(url)))
  )
  const counts = yield* Effect.promise(() => withoutEffect(url))
  const open = yield* Effect.provide(openInvoices, live)
  yield* Console.log(JSON.stringify({ ...counts, isSomeOpen: open > 0 && open < 120 }))
})

await Effect.runPromise(Effect.provide(main, Sandbox.layer({ records: 120 })))
