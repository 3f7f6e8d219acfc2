/** A `PaymentsApi` that reads from a base address. */
import { PaymentsApi, PaymentsConfig } from "@payments/core"
import { Effect, Layer, Redacted } from "effect"
import type { HttpClient } from "effect/http"

/** Long lists repeat their pages, so the limit on repeated pages is off. */
export const serviceAt = <E>(url: string, client: Layer.Layer<HttpClient.HttpClient, E>) =>
  PaymentsApi.layer.pipe(
    Layer.provide(client),
    Layer.provide(Layer.effect(
      PaymentsConfig,
      Effect.map(
        PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make("sandbox_key") }),
        (config) => ({ ...config, progress: { emptyPages: 0, repeatedPages: Number.POSITIVE_INFINITY } })
      )
    ))
  )
