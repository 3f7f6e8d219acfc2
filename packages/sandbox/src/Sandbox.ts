/**
 * The contract of §4 served locally: `layer` over a real socket, `layerClient` in process. Only keys that begin with
 * `sandbox_` are accepted, so that a real key is never let in; the socket listens on this machine alone unless told
 * otherwise.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { BearerKey, type Lists, PaymentsConfig, PaymentsContract } from "@payments/core"
import { ListServer, MemoryList } from "@payments/core/testing"
import { Context, Data, Effect, Layer, Predicate, Record, Redacted } from "effect"
import {
  HttpClient,
  HttpClientError,
  HttpClientResponse,
  HttpRouter,
  HttpServer,
  HttpServerRequest,
  HttpServerResponse
} from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { createServer } from "node:http"
import { type FaultRates, makeFaults } from "./Faults.ts"
import { records } from "./Generator.ts"

/** What the sandbox serves and how. */
export interface SandboxOptions extends MemoryList.MemoryListOptions {
  /** Records in each list, or in each list by its name; 1,000 unless given. */
  readonly records?: number | { readonly [Name in Lists.ListName]: number } | undefined
  /** Another seed gives other records; 1 unless given. */
  readonly seed?: number | undefined
  /** Records per page when a request names no limit; 20 unless given (§8). */
  readonly defaultLimit?: number | undefined
  /** Served in the place of generated records: objects, or JSON text where exact spelling matters. */
  readonly lists?: Pick<MemoryList.MemoryLists, Lists.ListName> | undefined
  readonly faults?: FaultRates | undefined
}

/** Where the socket listens. */
export interface ListenOptions {
  /** 127.0.0.1 unless given. */
  readonly host?: string | undefined
  /** A free one is taken for 0, the default. */
  readonly port?: number | undefined
}

/** The address cannot be listened on. */
export class SandboxError extends Data.TaggedError("SandboxError")<{ readonly code: string }> {
  override get message() {
    return this.code === "EADDRINUSE"
      ? "the sandbox cannot start: the port is taken. Choose another one."
      : `the sandbox cannot start: the address cannot be listened on (${this.code}).`
  }
}

/** The key that the sandbox gives its own clients. It opens nothing else. */
export const sandboxKey = Redacted.make("sandbox_key")

/** A running sandbox. */
export class Sandbox extends Context.Service<Sandbox, {
  /** Its base address, for both parts of the API. */
  readonly url: string
}>()("@payments/sandbox/Sandbox") {
  /** Serves over a socket for as long as the layer lives. */
  static readonly layer = (options: SandboxOptions & ListenOptions = {}): Layer.Layer<Sandbox, SandboxError> =>
    Layer.unwrap(Effect.sync(() => {
      const host = options.host ?? "127.0.0.1"
      const server = createServer()
      const listening = NodeHttpServer.layer(() => server, { host, port: options.port ?? 0 }).pipe(
        Layer.catch((error) => Layer.effectContext(Effect.fail(new SandboxError({ code: codeOf(error.cause) }))))
      )
      const serve = HttpRouter.serve(routes(options), {
        disableLogger: true,
        disableListenLog: true,
        middleware: faulty(options, cutSocket)
      })
      const running = Layer.effect(
        Sandbox,
        Effect.gen(function*() {
          const { address } = yield* HttpServer.HttpServer
          // Clients keep connections open for the next request; without this the server would wait for them to leave.
          yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
          return { url: `http://${host.includes(":") ? `[${host}]` : host}:${"port" in address ? address.port : 0}` }
        })
      )
      return Layer.provide(Layer.provideMerge(running, serve), listening)
    }))

  /** An `HttpClient` whose every request is answered in process, without a socket. */
  static readonly layerClient = (options: SandboxOptions = {}): Layer.Layer<HttpClient.HttpClient> =>
    Layer.effect(
      HttpClient.HttpClient,
      Effect.gen(function*() {
        const { dispose, handler } = HttpRouter.toWebHandler(
          routes(options).pipe(Layer.provide(HttpServer.layerServices)),
          {
            disableLogger: true,
            middleware: faulty(options, () => Effect.succeed(HttpServerResponse.empty({ status: resetStatus })))
          }
        )
        yield* Effect.addFinalizer(() => Effect.promise(dispose))
        return HttpClient.make((request, url, signal) =>
          Effect.promise(() => handler(new Request(url, { headers: request.headers, signal }))).pipe(
            Effect.flatMap((response) =>
              response.status === resetStatus
                ? Effect.fail(
                  new HttpClientError.HttpClientError({
                    reason: new HttpClientError.TransportError({ request, cause: { code: "ECONNRESET" } })
                  })
                )
                : Effect.succeed(HttpClientResponse.fromWeb(request, response))
            )
          )
        )
      })
    )

  /** Settings for a client of this sandbox. `source` names the data where the address does not (a free port). */
  static readonly config = (url: string, source?: string): Effect.Effect<PaymentsConfig["Service"]> =>
    PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: sandboxKey }).pipe(
      Effect.orDie,
      Effect.map((config) => source === undefined ? config : { ...config, source })
    )
}

/** Records per page when a request names no limit (§8). For invoices the document shows none; the sandbox takes the same. */
const documentedLimit = 20

/** What the in-process handler says in the place of a cut connection; no answer has it. */
const resetStatus = 599

/** The answer goes nowhere. One that never came would keep the server from closing. */
const cutSocket = (request: HttpServerRequest.HttpServerRequest) =>
  Effect.sync(() => {
    NodeHttpServerRequest.toIncomingMessage(request).socket.destroy()
    return HttpServerResponse.empty()
  })

const faulty = (
  options: SandboxOptions,
  cut: (request: HttpServerRequest.HttpServerRequest) => Effect.Effect<HttpServerResponse.HttpServerResponse>
) => {
  const draw = makeFaults(options.faults ?? {}, options.seed ?? 1)
  return <E, R>(app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.flatMap(
      HttpServerRequest.HttpServerRequest,
      (request): Effect.Effect<HttpServerResponse.HttpServerResponse, E, R> => {
        switch (draw(pathOf(request.url))) {
          case undefined:
            return app
          case "rateLimited":
            return Effect.succeed(
              HttpServerResponse.jsonUnsafe({ code: "RATE_LIMITED" }, { status: 429, headers: { "retry-after": "1" } })
            )
          case "serverError":
            return Effect.succeed(HttpServerResponse.jsonUnsafe({ code: "INTERNAL" }, { status: 500 }))
          case "reset":
            return cut(request)
        }
      }
    )
}

/** Path and query: in process a request has its whole address, over a socket it has not. */
const pathOf = (url: string): string => url.replace(/^https?:\/\/[^/]+/, "")

const routes = (options: SandboxOptions) => {
  const seed = options.seed ?? 1
  const lengthOf = (name: Lists.ListName) =>
    typeof options.records === "object" ? options.records[name] : options.records ?? 1000
  const serve = (name: Lists.ListName) => {
    const held = options.lists === undefined
      ? records(name, lengthOf(name), seed)
      : MemoryList.recordsOf(options.lists[name])
    const server = MemoryList.serve(name, held, options)
    return ({ query: { cursor, limit, ...filters } }: {
      readonly query: { readonly cursor?: string; readonly limit?: number } & Readonly<Record<string, unknown>>
    }) => {
      const asked = limit ?? options.defaultLimit ?? documentedLimit
      const answer = server({ filters: Record.filter(filters, Predicate.isString), limit: asked, cursor })
      return Effect.succeed(
        answer._tag === "Page"
          ? HttpServerResponse.text(ListServer.renderPage(answer), { contentType: "application/json" })
          : HttpServerResponse.jsonUnsafe({ code: "INVALID_CURSOR" }, { status: 400 })
      )
    }
  }
  const payments = HttpApiBuilder.group(
    PaymentsContract,
    "payments",
    (handlers) =>
      Effect.succeed(
        handlers.handleAll({ payoutRequests: serve("payoutRequests"), payinSources: serve("payinSources") })
      )
  )
  const invoices = HttpApiBuilder.group(
    PaymentsContract,
    "invoices",
    (handlers) => Effect.succeed(handlers.handleAll({ invoices: serve("invoices") }))
  )
  const bearer = Layer.succeed(BearerKey, {
    bearer: (app, { credential }) =>
      Redacted.value(credential).startsWith("sandbox_")
        ? app
        : Effect.succeed(HttpServerResponse.jsonUnsafe({ code: "UNAUTHORIZED" }, { status: 401 }))
  })
  return HttpApiBuilder.layer(PaymentsContract, { openapiPath: "/openapi.json" }).pipe(
    Layer.provide(Layer.provideMerge(Layer.mergeAll(payments, invoices), bearer))
  )
}

const codeOf = (cause: unknown): string =>
  typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : "unknown"
