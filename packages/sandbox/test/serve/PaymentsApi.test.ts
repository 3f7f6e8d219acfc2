import { PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { suite } from "@payments/testkit/PaymentsApiTest"
import { Effect, Layer } from "effect"
import { Sandbox } from "../../src/index.ts"

const configLayer = (url: string) => Layer.effect(PaymentsConfig, Sandbox.config(url))

suite("sandbox in process", ({ faults, reservedCursors, ...lists }) =>
  PaymentsApi.layer.pipe(
    Layer.provide(Sandbox.layerClient({ lists, faults, reservedCursors })),
    Layer.provide(configLayer("https://sandbox.localhost"))
  ))

suite("sandbox over a socket", ({ faults, reservedCursors, ...lists }) =>
  PaymentsApi.layer.pipe(
    Layer.provide(Layer.unwrap(Effect.map(Sandbox, ({ url }) => configLayer(url)))),
    Layer.provide(layerHttpClient),
    Layer.provide(Sandbox.layer({ lists, faults, reservedCursors }))
  ))
