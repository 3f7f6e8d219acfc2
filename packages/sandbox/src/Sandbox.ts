/**
 * The contract of §4 served locally: `layer` over a real socket, `layerClient` in process. Only keys that begin with
 * `sandbox_` are accepted, so that a real key is never let in; the socket listens on this machine alone unless told
 * otherwise.
 */
import { Lists, PaymentsConfig, PaymentsContract } from "@payments/core"
import {
  type Fault,
  layerClient,
  type ListServer,
  type ListService,
  makeListService,
  MemoryList,
  type ServiceAnswer,
  type ServiceRequest,
  serviceTime
} from "@payments/core/testing"
import { Context, Effect, Layer, Redacted } from "effect"
import type { HttpClient } from "effect/http"
import { OpenApi } from "effect/http-api"
import { BadControl, type Controls, serveControls, StandsStill } from "./Control.ts"
import * as Journal from "./Journal.ts"
import { listen, type ListenOptions, type SandboxError } from "./SocketServer.ts"
import * as World from "./World.ts"

/** How a live world moves: the rates of {@link World.LiveOptions}, and its clock. */
export interface LiveWorld extends Omit<World.LiveOptions, "now"> {
  /** Virtual milliseconds per real one; 0 to 1,000,000; 60 unless given, so that an hour passes in a minute. 0 moves only by hand. */
  readonly speed?: number | undefined
}

/** What the sandbox serves and how. */
export interface SandboxOptions extends Omit<World.WorldOptions, "live"> {
  /** Makes the world move: records appear, change and vanish. */
  readonly live?: LiveWorld | undefined
  /** Served in the place of generated records: objects, or JSON text where exact spelling matters. */
  readonly lists?: { readonly [Name in Lists.ListName]?: ReadonlyArray<object | string> | undefined } | undefined
  /** Records per page when a request names no limit, where the document shows no default (§8); 20 unless given. */
  readonly assumedLimit?: number | undefined
  /** The names of the invoice list's parameters (§4.3); the field names unless given. */
  readonly invoiceParameters?: Partial<Lists.InvoiceParameters> | undefined
  /** What goes wrong, for which requests. */
  readonly faults?: ReadonlyArray<Fault> | undefined
}

/** How the sandbox serves on a socket. */
export interface ServeOptions extends ListenOptions {
  /** Serves the control endpoint on this port too; 0 selects a free port. */
  readonly controlPort?: number | undefined
  /** Where the control endpoint listens: 127.0.0.1 unless given, whatever `host` is. */
  readonly controlHost?: string | undefined
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
        const now = yield* serviceTime
        const { advance, service } = makeService(options, now())
        const journal = Journal.make(options.onRequest)
        const url = yield* listen(options, (request) => {
          const answered = service.answer(request)
          journal.record(answered, request.now)
          return answered.reply
        }, now)
        const controls: Controls = {
          faults: Effect.sync(service.faults),
          setFaults: (faults) => Effect.sync(() => service.setFaults(faults, now())),
          counters: Effect.sync(journal.counters),
          requests: Effect.sync(journal.requests),
          advance
        }
        const controlUrl = options.controlPort === undefined
          ? undefined
          : yield* serveControls(controls, { host: options.controlHost, port: options.controlPort })
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

/** The fastest clock: a virtual hour in 3.6 ms. */
const mostSpeed = 1_000_000

const clockEnds = (longestMs: number) =>
  `the clock ends at ${Math.floor(longestMs)} ms: by then a list has grown by 2^24 records, or a century has passed`

const accepts = (key: string): boolean => key.startsWith("sandbox_")

interface Served {
  readonly service: ListService
  readonly advance: Controls["advance"]
}

const makeService = (options: SandboxOptions, now: number): Served => {
  const { live } = options
  const speed = live?.speed ?? 60
  if (!(speed >= 0 && speed <= mostSpeed)) throw new RangeError(`live.speed must be from 0 to ${mostSpeed}`)
  const began = performance.now()
  let advanced = 0
  const virtualNow = () => (performance.now() - began) * speed + advanced
  const world = options.lists === undefined
    ? World.make({ ...options, live: live === undefined ? undefined : { ...live, now: virtualNow } })
    : undefined
  const servers = world?.servers ?? heldServers(options.lists ?? {}, options)
  const service = makeListService({ ...options, servers, accepts }, now)
  return {
    service: { ...service, answer: (request) => describeContract(request) ?? service.answer(request) },
    advance: (ms) =>
      Effect.suspend(() => {
        if (world === undefined || live === undefined) {
          return Effect.fail(new StandsStill({ problem: "the world stands still; a live one has a clock" }))
        }
        const left = world.longestMs - virtualNow()
        if (!(ms <= left)) return Effect.fail(new BadControl({ problem: clockEnds(world.longestMs) }))
        advanced += ms
        return Effect.succeed(virtualNow())
      })
  }
}

const heldServers = (
  lists: NonNullable<SandboxOptions["lists"]>,
  options: MemoryList.MemoryListOptions
): ListServer.ListServers =>
  Lists.map((list) => MemoryList.serve(list, MemoryList.recordsOf(lists[list.name]), options))

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
