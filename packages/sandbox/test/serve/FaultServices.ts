/** The ways to reach the sandbox: over a socket with two clients, and in process. */
import { PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Effect, Layer, Redacted } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { Sandbox, type SandboxOptions } from "../../src/index.ts"
import { canary, type Case } from "./FaultOutcomes.ts"

const key = Redacted.make(canary.key)

const configLayer = (url: string, more: Case["config"] = {}) =>
  Layer.effect(
    PaymentsConfig,
    Effect.map(Sandbox.config(url), (config) => ({ ...config, apiKey: key, invoicesApiKey: key, ...more }))
  )

const overSocket = (client: Layer.Layer<HttpClient.HttpClient>) => (options: SandboxOptions, config: Case["config"]) =>
  PaymentsApi.layer.pipe(
    Layer.provide(Layer.unwrap(Effect.map(Sandbox, ({ url }) => configLayer(url, config)))),
    Layer.provide(client),
    Layer.provide(Sandbox.layer(options))
  )

/** The layers of `PaymentsApi`, by how each reaches the sandbox. */
export const services = {
  "over a socket": overSocket(layerHttpClient),
  "over a socket, with fetch": overSocket(FetchHttpClient.layer),
  "in process": (options: SandboxOptions, config: Case["config"]) =>
    PaymentsApi.layer.pipe(
      Layer.provide(Sandbox.layerClient(options)),
      Layer.provide(configLayer("https://sandbox.localhost", config))
    )
}
