/**
 * The contract of §4 served locally: `layer` over a real socket, `layerClient` in process. Only keys that begin with
 * `sandbox_` are accepted, so that a real key is never let in; the socket listens on this machine alone unless told
 * otherwise.
 */
import { type Lists, PaymentsConfig, PaymentsContract } from "@payments/core"
import {
  type Fault,
  layerClient,
  type ListServer,
  type ListService,
  makeListService,
  MemoryList,
  type ServiceAnswer,
  type ServiceRequest
} from "@payments/core/testing"
import { Clock, Context, Effect, Layer, Redacted } from "effect"
import type { HttpClient } from "effect/http"
import { OpenApi } from "effect/http-api"
import { type Controls, serveControls } from "./Control.ts"
import * as Journal from "./Journal.ts"
import { listen, type ListenOptions, type SandboxError } from "./SocketServer.ts"
import * as World from "./World.ts"

/** How a live world moves: the rates of {@link World.LiveOptions}, and its clock. */
export interface LiveWorld extends Omit<World.LiveOptions, "now"> {
  /** Virtual milliseconds per real one; 60 unless given, so that an hour passes in a minute. 0 moves only by hand. */
  readonly speed?: number | undefined
}

/** What the sandbox serves and how. */
export interface SandboxOptions extends Omit<World.WorldOptions, "live"> {
  /** Makes the world move: records appear, change and vanish. */
  readonly live?: LiveWorld | undefined
  /** Served in the place of generated records: objects, or JSON text where exact spelling matters. */
  readonly lists?: { readonly [Name in Lists.ListName]?: ReadonlyArray<object | string> | undefined } | undefined
  /** Records per page when a request names no limit: 20 (§8), also for invoices, whose default the document leaves open. */
  readonly defaultLimit?: number | { readonly [Name in Lists.ListName]?: number } | undefined
  /** The names of the invoice list's parameters (§4.3); the field names unless given. */
  readonly invoiceParameters?: Partial<Lists.InvoiceParameters> | undefined
  /** What goes wrong, for which requests. */
  readonly faults?: ReadonlyArray<Fault> | undefined
}

/** How the sandbox serves on a socket. */
export interface ServeOptions extends ListenOptions {
  /**
   * Keeps the bytes of every page it has served, and sends them again without making them anew, while there are no faults
   * and the world stands still. Takes as much memory as the pages.
   */
  readonly prepared?: boolean | undefined
  /** Serves the control endpoint on this port too; 0 takes a free one. */
  readonly controlPort?: number | undefined
  /** Told of each request as it is answered. */
  readonly onRequest?: ((request: Journal.LoggedRequest) => void) | undefined
}

/** The key that the sandbox gives its own clients. It opens nothing else. */
export const sandboxKey = Redacted.make("sandbox_key")

/** A running sandbox, and its controls. */
export class Sandbox extends Context.Service<
  Sandbox,
  Controls & {
    /** Its base address, for both parts of the API. */
    readonly url: string
    /** The address of its control endpoint, if it has one. */
    readonly controlUrl: string | undefined
  }
>()("@payments/sandbox/Sandbox") {
  /** Serves over a socket for as long as the layer lives. */
  static readonly layer = (options: SandboxOptions & ServeOptions = {}): Layer.Layer<Sandbox, SandboxError> =>
    Layer.effect(
      Sandbox,
      Effect.gen(function*() {
        const { advance, service } = makeService(options, yield* Clock.currentTimeMillis)
        const journal = Journal.make(options.onRequest)
        const record = (answered: ServiceAnswer, { now }: ServiceRequest) => {
          journal.record(answered, now)
          return answered
        }
        const pages = options.prepared === true && options.live === undefined ? new Map<string, Prepared>() : undefined
        const url = yield* listen(options, (request) => {
          const held = service.faults().length === 0 ? pages?.get(request.target) : undefined
          if (held !== undefined && accepts(keyOf(request))) {
            record(held.answer, request)
            return held.bytes
          }
          const answer = record(service.answer(request), request)
          if (answer.list !== undefined && answer.reply.status === 200 && answer.faults.length === 0) {
            pages?.set(request.target, {
              answer: { ...answer, reply: { ...answer.reply, body: "" } },
              bytes: Buffer.from(answer.reply.body)
            })
          }
          return answer.reply
        })
        const controls: Controls = {
          faults: Effect.sync(service.faults),
          setFaults: (faults) => Effect.map(Clock.currentTimeMillis, (now) => service.setFaults(faults, now)),
          counters: Effect.sync(journal.counters),
          requests: Effect.sync(journal.requests),
          advance: (ms) => Effect.sync(() => advance(ms))
        }
        const controlUrl = options.controlPort === undefined
          ? undefined
          : yield* serveControls(controls, { host: options.host, port: options.controlPort })
        return { ...controls, url, controlUrl }
      })
    )

  /** An `HttpClient` whose every request is answered in process, without a socket. */
  static readonly layerClient = (options: SandboxOptions = {}): Layer.Layer<HttpClient.HttpClient> =>
    layerClient((now) => makeService(options, now).service)

  /** Settings for a client of this sandbox. `source` names the data where the address does not (a free port). */
  static readonly config = (url: string, source?: string): Effect.Effect<PaymentsConfig["Service"]> =>
    PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: sandboxKey }).pipe(
      Effect.orDie,
      Effect.map((config) => source === undefined ? config : { ...config, source })
    )
}

const accepts = (key: string): boolean => key.startsWith("sandbox_")

const makeService = (
  options: SandboxOptions,
  now: number
): { readonly service: ListService; readonly advance: (ms: number) => number } => {
  const { live } = options
  const began = performance.now()
  let advanced = 0
  const virtualNow = () => (performance.now() - began) * (live?.speed ?? 60) + advanced
  const servers = options.lists === undefined
    ? World.make({ ...options, live: live === undefined ? undefined : { ...live, now: virtualNow } }).servers
    : heldServers(options.lists, options)
  const service = makeListService({ ...options, servers, accepts }, now)
  return {
    service: { ...service, answer: (request) => describeContract(request) ?? service.answer(request) },
    advance: (ms) => {
      advanced += ms
      return virtualNow()
    }
  }
}

const heldServers = (
  lists: NonNullable<SandboxOptions["lists"]>,
  options: MemoryList.MemoryListOptions
): ListServer.ListServers => ({
  payoutRequests: MemoryList.serve("payoutRequests", MemoryList.recordsOf(lists.payoutRequests), options),
  payinSources: MemoryList.serve("payinSources", MemoryList.recordsOf(lists.payinSources), options),
  invoices: MemoryList.serve("invoices", MemoryList.recordsOf(lists.invoices), options)
})

/** A page that was served before: its bytes, and the answer without them. */
interface Prepared {
  readonly bytes: Buffer
  readonly answer: ServiceAnswer
}

const keyOf = ({ authorization }: ServiceRequest): string => authorization?.slice("Bearer ".length) ?? ""

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
