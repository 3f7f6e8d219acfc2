/** Exports a list of a sandbox into an SQLite file, with `@payments/export`, and verifies the file. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Lists, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Destination, scan, verify } from "@payments/export"
import { Sandbox } from "@payments/sandbox"
import { Console, Effect, Layer } from "effect"

const destination = { _tag: "Sqlite", file: "exported.db" } as const

const main = Effect.gen(function*() {
  const { url } = yield* Sandbox
  const services = Layer.mergeAll(PaymentsApi.layer, Destination.layer(destination)).pipe(
    Layer.provide([layerHttpClient, NodeServices.layer, Layer.effect(PaymentsConfig, Sandbox.config(url))])
  )
  yield* Effect.provide(scan("invoices"), services)
  const reader = yield* Destination.reader(destination)
  const { certificate, differences } = yield* verify(reader, Lists.invoices)
  yield* Console.log(JSON.stringify({ rows: certificate?.records, differences }))
})

await Effect.runPromise(Effect.scoped(Effect.provide(main, Sandbox.layer({ records: 120 }))))
