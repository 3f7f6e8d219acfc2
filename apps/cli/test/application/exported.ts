/** Exports a list of a sandbox into the destination that the argument names, with `@payments/copy`, and verifies it. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Destination, scan, verify } from "@payments/copy"
import { Lists, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox } from "@payments/sandbox"
import { Console, Effect, Layer } from "effect"

const main = Effect.gen(function*() {
  const destination = yield* Destination.parse(process.argv[2] ?? "sqlite:exported.db")
  if (destination._tag === "Stdout") return yield* Effect.die("stdout cannot be verified")
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
