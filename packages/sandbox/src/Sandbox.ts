/**
 * The contract of §4 served locally: `layer` over a real socket, `layerClient` in process. Only keys that begin with
 * `sandbox_` are accepted, so that a real key is never let in; the socket listens on this machine alone unless told
 * otherwise.
 */
import { type Lists, PaymentsConfig, PaymentsContract } from "@payments/core"
import {
  type Fault,
  layerClient,
  type ListService,
  makeListService,
  MemoryList,
  type ServiceAnswer,
  type ServiceRequest
} from "@payments/core/testing"
import { Clock, Context, Effect, Layer, Redacted } from "effect"
import type { HttpClient } from "effect/http"
import { OpenApi } from "effect/http-api"
import { records } from "./Generator.ts"
import { listen, type ListenOptions, type SandboxError } from "./SocketServer.ts"

/** What the sandbox serves and how. */
export interface SandboxOptions extends MemoryList.MemoryListOptions {
  /** Records in each list, or in each list by its name; 1,000 unless given. */
  readonly records?: number | { readonly [Name in Lists.ListName]: number } | undefined
  /** Another seed gives other records, and draws other faults; 1 unless given. */
  readonly seed?: number | undefined
  /** Records per page when a request names no limit; 20 unless given (§8). */
  readonly defaultLimit?: number | { readonly [Name in Lists.ListName]?: number } | undefined
  /** The names of the invoice list's parameters (§4.3); the field names unless given. */
  readonly invoiceParameters?: Partial<Lists.InvoiceParameters> | undefined
  /** Served in the place of generated records: objects, or JSON text where exact spelling matters. */
  readonly lists?: { readonly [Name in Lists.ListName]?: ReadonlyArray<object | string> | undefined } | undefined
  /** What goes wrong, for which requests. */
  readonly faults?: ReadonlyArray<Fault> | undefined
}

/** The key that the sandbox gives its own clients. It opens nothing else. */
export const sandboxKey = Redacted.make("sandbox_key")

/** A running sandbox. */
export class Sandbox extends Context.Service<Sandbox, {
  /** Its base address, for both parts of the API. */
  readonly url: string
  readonly setFaults: (faults: ReadonlyArray<Fault>) => Effect.Effect<void>
}>()("@payments/sandbox/Sandbox") {
  /** Serves over a socket for as long as the layer lives. */
  static readonly layer = (options: SandboxOptions & ListenOptions = {}): Layer.Layer<Sandbox, SandboxError> =>
    Layer.effect(
      Sandbox,
      Effect.gen(function*() {
        const service = makeService(options, yield* Clock.currentTimeMillis)
        const url = yield* listen(options, (request) => service.answer(request).reply)
        return {
          url,
          setFaults: (faults) => Effect.map(Clock.currentTimeMillis, (now) => service.setFaults(faults, now))
        }
      })
    )

  /** An `HttpClient` whose every request is answered in process, without a socket. */
  static readonly layerClient = (options: SandboxOptions = {}): Layer.Layer<HttpClient.HttpClient> =>
    layerClient((now) => makeService(options, now))

  /** Settings for a client of this sandbox. `source` names the data where the address does not (a free port). */
  static readonly config = (url: string, source?: string): Effect.Effect<PaymentsConfig["Service"]> =>
    PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: sandboxKey }).pipe(
      Effect.orDie,
      Effect.map((config) => source === undefined ? config : { ...config, source })
    )
}

const makeService = (options: SandboxOptions, now: number): ListService => {
  const seed = options.seed ?? 1
  const lengthOf = (name: Lists.ListName) =>
    typeof options.records === "object" ? options.records[name] : options.records ?? 1000
  const serve = (name: Lists.ListName) =>
    MemoryList.serve(
      name,
      options.lists === undefined
        ? records(name, lengthOf(name), seed)
        : MemoryList.recordsOf(options.lists[name]),
      options
    )
  const service = makeListService({
    servers: {
      payoutRequests: serve("payoutRequests"),
      payinSources: serve("payinSources"),
      invoices: serve("invoices")
    },
    accepts: (key) => key.startsWith("sandbox_"),
    defaultLimit: options.defaultLimit,
    invoiceParameters: options.invoiceParameters,
    faults: options.faults,
    seed
  }, now)
  return { ...service, answer: (request) => describeContract(request) ?? service.answer(request) }
}

/** The contract itself, for whoever wants to see it. */
const describeContract = ({ target }: ServiceRequest): ServiceAnswer | undefined =>
  target === "/openapi.json"
    ? {
      reply: {
        status: 200,
        headers: { "content-type": "application/json" },
        body: JSON.stringify(OpenApi.fromApi(PaymentsContract))
      },
      list: undefined,
      faults: []
    }
    : undefined
