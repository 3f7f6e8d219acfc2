/** The export engine into its destinations, as the programs run it. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Destination, scan } from "@payments/export"
import { Effect, Layer, Redacted } from "effect"
import type { Tally } from "../Tally.ts"

const service = (url: string) =>
  PaymentsApi.layer.pipe(
    Layer.provide(layerHttpClient),
    Layer.provide(Layer.effect(
      PaymentsConfig,
      Effect.map(
        PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make("sandbox_key") }),
        (config) => ({ ...config, progress: { emptyPages: 0, repeatedPages: Number.POSITIVE_INFINITY } })
      )
    ))
  )

/** Scans the payout requests below the address into the destination. */
export const exportTo = (destination: string) => (url: string): Promise<Tally> =>
  Effect.runPromise(
    Effect.gen(function*() {
      const sink = Destination.layer(yield* Destination.parse(destination))
      const { records } = yield* scan("payoutRequests").pipe(Effect.provide(Layer.merge(sink, service(url))))
      return { records, sum: 0, characters: 0 }
    }).pipe(Effect.provide(NodeServices.layer))
  )
