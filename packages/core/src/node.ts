/** The Node entry: the HTTP client tuned for reading pages. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Effect, Layer } from "effect"
import type { HttpClient } from "effect/http"

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

const directHosts = (): string =>
  ["localhost", ".localhost", "127.0.0.1", "[::1]", process.env["NO_PROXY"] ?? process.env["no_proxy"] ?? ""]
    .filter((host) => host !== "").join(",")
