/** The Node entry: an HTTP client tuned for reading pages, and the promise API over it. */
// oxlint-disable-next-line import/no-unassigned-import -- throws on an old Node, which could not load the next imports
import "./http/NodeVersion.ts"

import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as NodeStream from "@effect/platform-node/NodeStream"
import type { Dispatcher } from "@effect/platform-node/Undici"
import { ConfigProvider, Duration, Effect, Layer, Stream } from "effect"
import { HttpClient, HttpClientError, HttpClientRequest, HttpClientResponse } from "effect/http"
import { PaymentsApi } from "./api/PaymentsApi.ts"
import { connectWith, type Payments } from "./api/PromiseApi.ts"
import type { Checked } from "./config/KeySource.ts"
import { proxyProblem, proxyVariables } from "./config/ProxyAddress.ts"
import { connectForVersion, type HttpVersion } from "./http/NodeAlpn.ts"
import { acceptEncoding, decodeStream } from "./http/NodeDecoder.ts"
import { makePoolFactory } from "./http/NodeInterim.ts"
import { type TunedRead, withTunedRead } from "./http/TunedRead.ts"
import { ReadDeadlines, readOverUndici } from "./http/UndiciRead.ts"
import { InvalidRequest, type Reason, Transport } from "./model/PaymentsError.ts"

/** The connections of the Node client. */
export interface ConnectionOptions {
  /**
   * The time limit to make a connection, TLS included: more than 0; default 3 s. The deadline for headers starts with
   * the request, so a longer `connectTimeout` than that has no effect.
   */
  readonly connectTimeout?: Duration.Duration | undefined
  /** The most connections to one address at a time: a whole number above 0; default 64. Further requests wait. */
  readonly connections?: number | undefined
}

/**
 * Provides an `HttpClient` over undici. It keeps connections alive and never follows a redirect. It uses the proxy that
 * `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` name, as other Node programs do, but reaches this machine directly. Extra
 * certificate authorities come from `NODE_EXTRA_CA_CERTS`. It decompresses answers in gzip, deflate, br and zstd.
 * Options out of range are a defect. If the address of a proxy is invalid, every request through it fails;
 * `PaymentsConfig.layerConfig` reports that earlier.
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
      // Loaded on first use: a program that sends no request should not wait for it.
      const { default: undici } = yield* Effect.promise(() => import("@effect/platform-node/Undici"))
      // A timer of Node can wait for 2^31 - 1 ms at most.
      const options = {
        connect: { timeout: Math.min(timeout, 2 ** 31 - 1) },
        connections,
        factory: makePoolFactory(undici)
      }
      const release = (agent: Dispatcher) => Effect.promise(() => agent.destroy())
      const directAgent = yield* Effect.acquireRelease(Effect.sync(() => new undici.Agent(options)), release)
      const problem = findProxyProblem()
      // Without a proxy, `EnvHttpProxyAgent` would only cost time.
      const proxyAgent = problem !== undefined || !isProxySet() ? directAgent : yield* Effect.acquireRelease(
        Effect.sync(() => new undici.EnvHttpProxyAgent({ ...options, noProxy: directHosts() })),
        release
      )
      const deadlines = yield* Effect.acquireRelease(
        Effect.sync(() => new ReadDeadlines()),
        (open) => Effect.sync(() => open.close())
      )
      const client = withDecoding(
        yield* Effect.provideService(NodeHttpClient.makeUndici, NodeHttpClient.Dispatcher, proxyAgent)
      )
      if (problem !== undefined) {
        return localOnly(client, problem, (request) => readOverUndici(directAgent, deadlines, request))
      }
      return withTunedRead(
        client,
        (request) =>
          Effect.suspend(() =>
            proxyAgent === directAgent || isThisMachine(request.origin)
              ? readOverUndici(directAgent, deadlines, request)
              : Effect.mapError(readOverUndici(proxyAgent, deadlines, request), withProxy)
          )
      )
    })
  )

/**
 * Returns the version of HTTP that the server at an address chooses if 2 and 1.1 are offered, or why that cannot be seen. It
 * makes a TLS connection, and sends neither a request nor a key.
 */
export const httpVersionOf = (url: URL, deadline: Duration.Duration): Effect.Effect<Checked<HttpVersion>> =>
  Effect.suspend(() =>
    url.protocol !== "https:"
      ? Effect.succeed({ problem: "the address is not https" })
      : isProxySet()
      ? Effect.succeed({ problem: "a proxy is set, which may make the connections" })
      : connectForVersion(url, deadline)
  )

/** {@link layerHttpClientWith} with the defaults: 64 connections to an address, and 3 s to make one. */
export const layerHttpClient: Layer.Layer<HttpClient.HttpClient> = layerHttpClientWith({})

/** Says of a failed connection that it may be that to the proxy. */
const withProxy = (reason: Reason): Reason =>
  reason._tag === "Transport" ? new Transport({ kind: reason.kind, code: reason.code, hasProxy: true }) : reason

/** Whether the environment names a proxy. */
const isProxySet = (): boolean => proxyVariables.some((name) => (process.env[name] ?? "") !== "")

/** Returns what is wrong with the first proxy variable that is invalid. */
const findProxyProblem = (): string | undefined => {
  const name = proxyVariables.find((variable) => proxyProblem(process.env[variable]) !== undefined)
  return name === undefined ? undefined : `${name} ${proxyProblem(process.env[name])}.`
}

/** Returns a client that fails all requests, except those to this machine, because they need the invalid proxy. */
const localOnly = (client: HttpClient.HttpClient, problem: string, direct: TunedRead): HttpClient.HttpClient =>
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
    (request) => isThisMachine(request.origin) ? direct(request) : Effect.fail(new InvalidRequest({ problem }))
  )

const isThisMachine = (origin: string): boolean => /^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/.test(origin)

/**
 * For code without Effect: returns a client whose service and key are set by environment variables
 * (`PAYMENTS_BASE_URL`, `PAYMENTS_API_KEY` or `PAYMENTS_API_KEY_FILE`, …), over {@link layerHttpClient}.
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
 * Returns a client that requests compressed answers and decodes them, as `fetch` does; `NodeHttpClient` returns
 * compressed bodies. Over plain http, which is for this machine only, compression costs more time than it saves.
 */
const withDecoding = (client: HttpClient.HttpClient): HttpClient.HttpClient =>
  client.pipe(
    HttpClient.mapRequest((request) =>
      request.url.startsWith("http:") || request.headers["accept-encoding"] !== undefined
        ? request
        : HttpClientRequest.setHeader(request, "accept-encoding", acceptEncoding)
    ),
    HttpClient.transformResponse(Effect.map(decodeResponse))
  )

const decodeResponse = (response: HttpClientResponse.HttpClientResponse): HttpClientResponse.HttpClientResponse => {
  const { headers, request, status } = response
  const decoder = decodeStream(headers["content-encoding"])
  // `new Response` with a body does not allow these statuses.
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
