/**
 * Serves the API of §4 locally: `layer` over a socket, `layerClient` in process. Accepts only keys that begin with
 * `sandbox_`, so that a real key is never accepted. The socket listens on this machine only, unless `host` says otherwise.
 */
import { Lists, PaymentsConfig, PaymentsContract } from "@payments/core"
import {
  type Behaviour,
  type Fault,
  layerClient,
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
import { listen, type ListenOptions, type SandboxError } from "../serve/SocketServer.ts"
import * as World from "../serve/World.ts"
import { type Controls, InvalidControl, NotLive, serveControls } from "./Control.ts"
import * as RequestLog from "./RequestLog.ts"

/** How a live world changes: the rates of {@link World.LiveOptions}, and the speed of its clock. */
export interface LiveWorld extends Omit<World.LiveOptions, "now"> {
  /**
   * Virtual milliseconds per real millisecond, 0 to 1,000,000; default 60, which is an hour per minute. With 0, only
   * {@link Controls.advance} moves the clock.
   */
  readonly speed?: number | undefined
}

/** What the sandbox serves. */
export interface SandboxOptions extends Omit<World.WorldOptions, "live" | "anyLimit" | "perList"> {
  /** Makes records appear, change and vanish. */
  readonly live?: LiveWorld | undefined
  /** The records to serve instead of generated ones: objects, or JSON texts if the exact text matters. */
  readonly lists?: { readonly [Name in Lists.ListName]?: ReadonlyArray<object | string> | undefined } | undefined
  /** Records per page if neither the request nor the document (§8) names a limit; default 20. */
  readonly assumedLimit?: number | undefined
  /** The parameter names of the invoice list (§4.3); default: the field names. */
  readonly invoiceParameters?: Partial<Lists.InvoiceParameters> | undefined
  /** What the service does where the document is silent. */
  readonly behaviour?: Behaviour | undefined
  /** What is otherwise in single lists. */
  readonly perList?: { readonly [Name in Lists.ListName]?: OptionsOfList | undefined } | undefined
  /** The faults, which apply from the start. */
  readonly faults?: ReadonlyArray<Fault> | undefined
}

/** What one list can have otherwise. */
export interface OptionsOfList extends Omit<World.OptionsOfOne, "anyLimit"> {
  readonly behaviour?: Behaviour | undefined
}

/** Where the sandbox listens, and what it reports. */
export interface ServeOptions extends ListenOptions {
  /** The port of the control endpoint; 0 selects a free port. Default: no control endpoint. */
  readonly controlPort?: number | undefined
  /** The address at which the control endpoint listens; default 127.0.0.1, even if `host` is another address. */
  readonly controlHost?: string | undefined
  /** Called for each request when it is answered. */
  readonly onRequest?: ((request: RequestLog.LoggedRequest) => void) | undefined
}

/** A key that every sandbox accepts. It is not secret. */
export const sandboxKey = Redacted.make("sandbox_key")

/** A running sandbox. */
export class Sandbox extends Context.Service<
  Sandbox,
  Controls & {
    /** The base address of all lists. */
    readonly url: string
    /** The address of the control endpoint, if there is one. */
    readonly controlUrl: string | undefined
  }
>()("@payments/sandbox/Sandbox") {
  /** Serves over a socket until the layer's scope closes. */
  static readonly layer = (options: SandboxOptions & ServeOptions = {}): Layer.Layer<Sandbox, SandboxError> =>
    Layer.effect(
      Sandbox,
      Effect.gen(function*() {
        const now = yield* serviceTime
        const { advance, misplace, service } = makeService(options, now())
        const log = RequestLog.make(options.onRequest)
        const url = yield* listen(options, (request) => {
          const answer = service.answer(request)
          log.add(answer, request.now)
          return answer.reply
        }, now)
        const controls: Controls = {
          faults: Effect.sync(service.faults),
          setFaults: (faults) => Effect.sync(() => service.setFaults(faults, now())),
          counters: Effect.sync(log.counters),
          requests: Effect.sync(log.requests),
          advance,
          misplace
        }
        const controlUrl = options.controlPort === undefined
          ? undefined
          : yield* serveControls(controls, { host: options.controlHost, port: options.controlPort })
        return { ...controls, url, controlUrl }
      })
    )

  /** Provides an `HttpClient` whose requests the sandbox answers in process, without a socket. */
  static readonly layerClient = (options: SandboxOptions = {}): Layer.Layer<HttpClient.HttpClient> =>
    layerClient((now) => makeService(options, now).service)

  /**
   * Returns the settings of a client of a sandbox. `source` names the source of the data, for exports; give it if the
   * address changes from run to run, as with a free port.
   */
  static readonly config = (url: string, source?: string): Effect.Effect<PaymentsConfig["Service"]> =>
    PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: sandboxKey }).pipe(
      Effect.orDie,
      Effect.map((config) => source === undefined ? config : { ...config, source })
    )
}

/** Virtual hours per hour. */
export const defaultSpeed = 60

/** With this speed, a virtual hour passes in 3.6 ms. */
const maxSpeed = 1_000_000

const endOfClock = (endMs: number) =>
  `the clock ends at ${Math.floor(endMs)} ms, when a list has grown by 2^24 records or a century has passed`

const accepts = (key: string): boolean => key.startsWith("sandbox_")

interface SandboxService {
  readonly service: ListService
  readonly advance: Controls["advance"]
  readonly misplace: Controls["misplace"]
}

const makeService = (options: SandboxOptions, now: number): SandboxService => {
  const { live } = options
  const speed = live?.speed ?? defaultSpeed
  if (!(speed >= 0 && speed <= maxSpeed)) throw new RangeError(`live.speed must be from 0 to ${maxSpeed}`)
  const start = performance.now()
  let advancedMs = 0
  const virtualNow = () => (performance.now() - start) * speed + advancedMs
  const behaviours = Lists.map(({ name }) => ({ ...options.behaviour, ...options.perList?.[name]?.behaviour }))
  const perList = Lists.map(({ name }) => ({
    ...options.perList?.[name],
    anyLimit: behaviours[name].cursorLimit === "obey"
  }))
  const world = options.lists === undefined
    ? World.make({ ...options, perList, live: live === undefined ? undefined : { ...live, now: virtualNow } })
    : undefined
  const servers = world?.servers ??
    Lists.map((list) =>
      MemoryList.serve(list, MemoryList.recordsOf(options.lists?.[list.name]), { ...options, ...perList[list.name] })
    )
  const service = makeListService({ ...options, behaviours, servers, accepts }, now)
  return {
    service: { ...service, answer: (request) => answerOpenApi(request) ?? service.answer(request) },
    advance: (ms) =>
      Effect.suspend(() => {
        if (world === undefined || live === undefined) {
          return Effect.fail(
            new NotLive({
              problem: "this sandbox has no clock, because it is not live. Start it with --live (in code: `live: {}`)"
            })
          )
        }
        // The negated comparison also refuses NaN.
        if (!(ms <= world.endMs - virtualNow())) {
          return Effect.fail(new InvalidControl({ problem: endOfClock(world.endMs) }))
        }
        advancedMs += ms
        return Effect.succeed(virtualNow())
      }),
    misplace: (share) =>
      Effect.suspend(() => {
        if (world?.misplace !== undefined) return Effect.sync(() => world.misplace?.(share))
        const problem = "records can be misplaced only if the lists are live and newest first (--live --order newest)"
        return Effect.fail(new InvalidControl({ problem }))
      })
  }
}

/** Returns the OpenAPI document of the contract, if the request is for it. */
const answerOpenApi = ({ target }: ServiceRequest): ServiceAnswer | undefined =>
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
