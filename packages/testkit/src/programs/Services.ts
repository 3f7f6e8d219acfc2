/** The services over which both programs are tested: memory, the sandbox in process, the sandbox over a socket. */
import { Lists, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { layerTest } from "@payments/core/testing"
import { records, Sandbox } from "@payments/sandbox"
import { Effect, Layer } from "effect"

/** The number of records in each list. */
export const size = 120
const hostileText = 0.1

const generated = ({ name }: Lists.AnyList) => {
  const { length, textAt } = records(name, size, 1, hostileText)
  return Array.from({ length }, (_, index) => textAt(index))
}

const configured = (url: string) => Layer.effect(PaymentsConfig, Sandbox.config(url, "sandbox seed 1"))

/** All services serve the same records. */
export const services: ReadonlyArray<readonly [name: string, api: Layer.Layer<PaymentsApi>]> = [
  [
    "layerTest",
    layerTest(Lists.map(generated))
  ],
  [
    "the sandbox in process",
    PaymentsApi.layer.pipe(
      Layer.provide(Sandbox.layerClient({ records: size, hostileText })),
      Layer.provide(configured("https://sandbox.localhost"))
    )
  ],
  [
    "the sandbox over a socket",
    PaymentsApi.layer.pipe(
      Layer.provide(Layer.unwrap(Effect.map(Sandbox, ({ url }) => configured(url)))),
      Layer.provide(layerHttpClient),
      Layer.provide(Layer.orDie(Sandbox.layer({ records: size, hostileText })))
    )
  ]
]
