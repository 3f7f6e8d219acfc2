/** The Node entry: the HTTP client tuned for reading pages, and the promise façade over it. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { ConfigProvider, Effect, Layer } from "effect"
import type { HttpClient } from "effect/http"
import { PaymentsApi } from "./PaymentsApi.ts"
import { connectWith, type Payments } from "./PromiseApi.ts"

/**
 * An `HttpClient` over undici: keeps connections alive, gives up on a connection after 3 s, never follows a redirect, and
 * goes through the proxy that `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` name, as other Node programs do. This machine
 * itself is always reached directly. Extra certificate authorities come from `NODE_EXTRA_CA_CERTS`.
 */
export const layerHttpClient: Layer.Layer<HttpClient.HttpClient> = NodeHttpClient.layerUndiciNoDispatcher.pipe(
  Layer.provide(Layer.effect(
    NodeHttpClient.Dispatcher,
    Effect.acquireRelease(
      // Loaded here, so that a program that asks nothing does not wait for it.
      Effect.map(
        Effect.promise(() => import("@effect/platform-node/Undici")),
        ({ default: undici }) => new undici.EnvHttpProxyAgent({ connect: { timeout: 3000 }, noProxy: directHosts() })
      ),
      (agent) => Effect.promise(() => agent.destroy())
    )
  ))
)

/**
 * For code that doesn't write Effect: a client of the service that the environment names (`PAYMENTS_BASE_URL`,
 * `PAYMENTS_API_KEY` or `PAYMENTS_API_KEY_FILE`, …), over {@link layerHttpClient}.
 *
 * @throws `PaymentsConfigError` with every setting that is missing or wrong, by its name.
 */
export const connectFromEnvironment = (
  environment: Readonly<Record<string, string | undefined>> = process.env
): Promise<Payments> =>
  connectWith(PaymentsApi.layerConfig.pipe(
    Layer.provide(layerHttpClient),
    Layer.provide(NodeFileSystem.layer),
    Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord(environment)))
  ))

const directHosts = (): string =>
  ["localhost", ".localhost", "127.0.0.1", "[::1]", process.env["NO_PROXY"] ?? process.env["no_proxy"] ?? ""]
    .filter((host) => host !== "").join(",")
