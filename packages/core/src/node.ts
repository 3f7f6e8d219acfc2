/** The Node entry: the HTTP client tuned for reading pages. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import type { Dispatcher } from "@effect/platform-node/Undici"
import { Effect, Layer } from "effect"
import { HttpClient, HttpClientError, type HttpClientRequest, HttpClientResponse } from "effect/http"
import { NodeAnswer } from "./internal/NodeAnswer.ts"
import { acceptEncoding } from "./internal/NodeDecoder.ts"

/**
 * An `HttpClient` over undici: keeps connections alive, at most 64 to an address, gives up on a connection after 3 s,
 * never follows a redirect, and goes through the proxy that `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` name, as other Node
 * programs do. This machine itself is always reached directly. Extra certificate authorities come from
 * `NODE_EXTRA_CA_CERTS`. Answers may come compressed (gzip, deflate, br, zstd) and are decoded.
 */
export const layerHttpClient: Layer.Layer<HttpClient.HttpClient> = HttpClient.layerMergedContext(
  Effect.map(
    Effect.all([NodeHttpClient.makeUndici, NodeHttpClient.Dispatcher]),
    ([other, dispatcher]) => withReads(other, reads(dispatcher))
  )
).pipe(
  Layer.provide(Layer.effect(
    NodeHttpClient.Dispatcher,
    Effect.acquireRelease(
      // Loaded here, so that a program that asks nothing does not wait for it.
      Effect.map(
        Effect.promise(() => import("@effect/platform-node/Undici")),
        ({ default: undici }) =>
          new undici.EnvHttpProxyAgent({ connect: { timeout: 3000 }, connections: 64, noProxy: directHosts() })
      ),
      (agent) => Effect.promise(() => agent.destroy())
    )
  ))
)

/** Reads go the fast way. Whatever has a body goes Effect's own. */
const withReads = (other: HttpClient.HttpClient, fast: HttpClient.HttpClient): HttpClient.HttpClient =>
  HttpClient.makeWith<never, never, HttpClientError.HttpClientError, never>(
    Effect.flatMap((request) => (isRead(request) ? fast : other).execute(request)),
    Effect.succeed
  )

const isRead = ({ body, headers, method }: HttpClientRequest.HttpClientRequest): boolean =>
  method === "GET" && body._tag === "Empty" && headers["upgrade"] === undefined

const reads = (dispatcher: Dispatcher): HttpClient.HttpClient =>
  HttpClient.make((request, url, signal, fiber) =>
    Effect.callback<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>((resume) => {
      let controller: Dispatcher.DispatchController | undefined
      let answer: NodeAnswer | undefined
      let unwanted = false
      const abort = () => {
        unwanted = true
        if (answer !== undefined) answer.close()
        else controller?.abort(new Error("the request is no longer wanted"))
      }
      const fail = (cause: unknown) =>
        resume(Effect.fail(
          new HttpClientError.HttpClientError({ reason: new HttpClientError.TransportError({ request, cause }) })
        ))
      try {
        dispatcher.dispatch({
          ...fiber.getRef(NodeHttpClient.UndiciOptions),
          method: "GET",
          origin: url.origin,
          path: url.pathname + url.search,
          // Between programs of one machine, packing costs more than it saves.
          headers: url.protocol === "http:" || request.headers["accept-encoding"] !== undefined
            ? request.headers
            : { ...request.headers, "accept-encoding": acceptEncoding },
          // Deadlines are whoever asks'.
          headersTimeout: 0,
          bodyTimeout: 0
        }, {
          onRequestStart: (started) => {
            controller = started
            if (unwanted) abort()
          },
          onResponseStart: (started, status, headers) => {
            if (status < 200) return
            answer = new NodeAnswer(started, status, headers)
            resume(Effect.succeed(HttpClientResponse.fromWeb(request, answer.toResponse())))
          },
          onResponseData: (_, chunk) => answer?.arrived(chunk),
          onResponseEnd: () => answer?.ended(),
          onResponseError: (_, error) => answer === undefined ? fail(error) : answer.ended(error)
        })
      } catch (error) {
        fail(error)
      }
      signal.addEventListener("abort", abort, { once: true })
      return Effect.sync(abort)
    })
  )

const directHosts = (): string =>
  ["localhost", ".localhost", "127.0.0.1", "[::1]", process.env["NO_PROXY"] ?? process.env["no_proxy"] ?? ""]
    .filter((host) => host !== "").join(",")
