/** The Node entry: the HTTP client tuned for reading pages, and the promise façade over it. */
// oxlint-disable-next-line import/no-unassigned-import -- an old Node ends here, since it cannot load what follows
import "./internal/NodeVersion.ts"

import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodeStream from "@effect/platform-node/NodeStream"
import type { Dispatcher } from "@effect/platform-node/Undici"
import { ConfigProvider, Duration, Effect, Layer, Stream } from "effect"
import { HttpClient, HttpClientError, HttpClientRequest, HttpClientResponse } from "effect/http"
import { acceptEncoding, decodeStream } from "./internal/NodeDecoder.ts"
import { skippingPools } from "./internal/NodeInterim.ts"
import { proxyProblem, proxyVariables } from "./internal/ProxyAddress.ts"
import { type TunedRead, withTunedRead } from "./internal/TunedRead.ts"
import { ReadDeadlines, readOverUndici } from "./internal/UndiciRead.ts"
import { PaymentsApi } from "./PaymentsApi.ts"
import { InvalidRequest } from "./PaymentsError.ts"
import { connectWith, type Payments } from "./PromiseApi.ts"

/** How the Node client keeps and makes connections. */
export interface ConnectionOptions {
  /**
   * Gives up on a connection that is not made by then, TLS included: more than 0, 3 s unless given. Beyond the deadline
   * for headers, which counts from the request, it does nothing.
   */
  readonly connectTimeout?: Duration.Duration | undefined
  /** Connections to one address at a time: a whole number above 0, 64 unless given. More requests than that wait. */
  readonly connections?: number | undefined
}

/**
 * An `HttpClient` over undici: keeps connections alive, as many as the options say, never follows a redirect, and goes
 * through the proxy that `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` name, as other Node programs do. This machine itself is
 * always reached directly. Extra certificate authorities come from `NODE_EXTRA_CA_CERTS`. Answers may come compressed (gzip,
 * deflate, br, zstd) and are decoded. Options out of their range are a defect. Where a proxy's address is wrong, every request
 * that would go through it is refused; `PaymentsConfig.layerConfig` says so before.
 */
export const layerHttpClientWith = (
  { connections = 64, connectTimeout = Duration.seconds(3) }: ConnectionOptions
): Layer.Layer<HttpClient.HttpClient> =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.gen(function*() {
      const timeout = Duration.toMillis(connectTimeout)
      if (!(timeout > 0)) throw new RangeError("connectTimeout must be more than 0")
      if (!(Number.isSafeInteger(connections) && connections > 0)) {
        throw new RangeError("connections must be a whole number above 0")
      }
      // Loaded here, so that a program that asks nothing does not wait for it.
      const { default: undici } = yield* Effect.promise(() => import("@effect/platform-node/Undici"))
      // What a timer can wait for.
      const options = {
        connect: { timeout: Math.min(timeout, 2 ** 31 - 1) },
        connections,
        factory: skippingPools(undici)
      }
      const release = (agent: Dispatcher) => Effect.promise(() => agent.destroy())
      const straight = yield* Effect.acquireRelease(Effect.sync(() => new undici.Agent(options)), release)
      const problem = wrongProxy()
      const proxied = problem !== undefined ? straight : yield* Effect.acquireRelease(
        Effect.sync(() => new undici.EnvHttpProxyAgent({ ...options, noProxy: directHosts() })),
        release
      )
      const direct = proxyIsNamed() ? isThisMachine : () => true
      const watch = yield* Effect.acquireRelease(
        Effect.sync(() => new ReadDeadlines()),
        (all) => Effect.sync(() => all.close())
      )
      const client = decoding(
        yield* Effect.provideService(NodeHttpClient.makeUndici, NodeHttpClient.Dispatcher, proxied)
      )
      if (problem !== undefined) return refusing(client, problem, (request) => readOverUndici(straight, watch, request))
      return withTunedRead(
        client,
        (request) => Effect.suspend(() => readOverUndici(direct(request.origin) ? straight : proxied, watch, request))
      )
    })
  )

/** {@link layerHttpClientWith} the defaults: at most 64 connections to an address, and 3 s to make one. */
export const layerHttpClient: Layer.Layer<HttpClient.HttpClient> = layerHttpClientWith({})

/** Asking `EnvHttpProxyAgent` takes long where there is no proxy. */
const proxyIsNamed = (): boolean => proxyVariables.some((name) => (process.env[name] ?? "") !== "")

/** The first variable whose proxy has a wrong address, and what is wrong with it. */
const wrongProxy = (): string | undefined => {
  const name = proxyVariables.find((variable) => proxyProblem(process.env[variable]) !== undefined)
  return name === undefined ? undefined : `${name} ${proxyProblem(process.env[name])}.`
}

/** Sends requests to this machine alone: all others would need the proxy. */
const refusing = (client: HttpClient.HttpClient, problem: string, straight: TunedRead): HttpClient.HttpClient =>
  withTunedRead(
    HttpClient.make((request, url) =>
      isThisMachine(url.origin)
        ? client.execute(request)
        : Effect.fail(
          new HttpClientError.HttpClientError({
            reason: new HttpClientError.TransportError({ request, description: problem })
          })
        )
    ),
    (request) => isThisMachine(request.origin) ? straight(request) : Effect.fail(new InvalidRequest({ problem }))
  )

const isThisMachine = (origin: string): boolean => /^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/.test(origin)

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

/**
 * A client that requests compressed answers and decodes them, as `fetch` does: `NodeHttpClient` returns a body as it was
 * sent. Between programs of one machine, compression costs more than it saves.
 */
const decoding = (client: HttpClient.HttpClient): HttpClient.HttpClient =>
  client.pipe(
    HttpClient.mapRequest((request) =>
      request.url.startsWith("http:") || request.headers["accept-encoding"] !== undefined
        ? request
        : HttpClientRequest.setHeader(request, "accept-encoding", acceptEncoding)
    ),
    HttpClient.transformResponse(Effect.map(decoded))
  )

const decoded = (response: HttpClientResponse.HttpClientResponse): HttpClientResponse.HttpClientResponse => {
  const { headers, request, status } = response
  const decoder = decodeStream(headers["content-encoding"])
  // A `Response` with a body cannot have every status.
  if (decoder === undefined || status > 599 || [204, 205, 304].includes(status)) return response
  const body: Stream.Stream<Uint8Array<ArrayBuffer>, unknown> = NodeStream.pipeThroughDuplex(response.stream, {
    evaluate: () => decoder,
    onError: (error) => error
  })
  return HttpClientResponse.fromWeb(request, new Response(Stream.toReadableStream(body), { status, headers }))
}

const directHosts = (): string =>
  ["localhost", ".localhost", "127.0.0.1", "[::1]", process.env["NO_PROXY"] ?? process.env["no_proxy"] ?? ""]
    .filter((host) => host !== "").join(",")
