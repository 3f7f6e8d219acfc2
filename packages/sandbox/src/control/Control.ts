/**
 * The control endpoint of a running sandbox. Through it, another process changes the faults, reads the request log and
 * moves the clock. It has its own port, so that no client of the API reaches it by accident. It refuses requests that a
 * web page could send.
 *
 * ```sh
 * curl -X PUT localhost:8788/faults -H 'content-type: application/json' -d '[{"fault":"status","status":401,"from":50}]'
 * ```
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Fault } from "@payments/core/testing"
import { ByteSize, Context, Effect, Layer, type Result, Schema } from "effect"
import { HttpIncomingMessage, HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { createServer, IncomingMessage } from "node:http"
import { listenError, type ListenOptions, type SandboxError, urlOf } from "../serve/SocketServer.ts"
import { refusalOf } from "./ControlGuard.ts"
import { Counters, LoggedRequest } from "./RequestLog.ts"
import { faultsFromJson, readJson, type ScenarioName, scenarios } from "./Scenario.ts"

/** The request is invalid; `problem` says why. */
export class InvalidControl extends Schema.Error<InvalidControl>("@payments/sandbox/InvalidControl")(
  { problem: Schema.String },
  { httpApiStatus: 400 }
) {}

/** The sandbox is not live, so it has no clock to move. */
export class NotLive extends Schema.Error<NotLive>("@payments/sandbox/NotLive")(
  { problem: Schema.String },
  { httpApiStatus: 409 }
) {}

/** The controls of a running sandbox. */
export interface Controls {
  /** Replaces the faults. The new faults count requests and time from now on. */
  readonly setFaults: (faults: ReadonlyArray<Fault>) => Effect.Effect<void>
  /** The current faults. */
  readonly faults: Effect.Effect<ReadonlyArray<Fault>>
  /** The counts of requests since the start. */
  readonly counters: Effect.Effect<Counters>
  /** The latest 1,000 requests, the oldest first. */
  readonly requests: Effect.Effect<ReadonlyArray<LoggedRequest>>
  /**
   * Moves the virtual clock forward by `ms`. Returns the new time, in ms since the start. Fails if the sandbox is not
   * live, or if virtual time ends before the new time.
   */
  readonly advance: (ms: number) => Effect.Effect<number, InvalidControl | NotLive>
  /**
   * Puts a share, 0 to 1, of the records that appear from now on at the end of the lists. Fails if the lists are not newest
   * first, or not live.
   */
  readonly misplace: (share: number) => Effect.Effect<void, InvalidControl>
}

const Faults = Schema.Array(Fault)
const Name = Schema.Literals(Object.keys(scenarios) as ReadonlyArray<ScenarioName>) // the scenarios' own names
const Misplaced = Schema.Struct({ share: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 })) })
const Advance = Schema.Struct({ advanceMs: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)) })

/** The contract of the endpoint. A refused request is answered with `{ "problem": "…" }`. */
export class ControlApi extends HttpApi.make("sandbox-control").add(
  HttpApiGroup.make("control").add(
    HttpApiEndpoint.get("faults", "/faults", { success: Faults }),
    HttpApiEndpoint.put("setFaults", "/faults", {
      // One fault, several, or the name of a scenario.
      payload: Schema.Union([Faults, Fault, Name]),
      success: Faults,
      error: InvalidControl
    }),
    HttpApiEndpoint.get("counters", "/counters", { success: Counters }),
    HttpApiEndpoint.get("requests", "/requests", { success: Schema.Array(LoggedRequest) }),
    HttpApiEndpoint.post("advance", "/clock", {
      payload: Advance,
      success: Schema.Struct({ nowMs: Schema.Finite }),
      error: [InvalidControl, NotLive]
    }),
    HttpApiEndpoint.put("misplace", "/misplaced", { payload: Misplaced, success: Misplaced, error: InvalidControl })
  )
) {}

/** Reads the body of a request, at most 1 MiB, and decodes it. */
const bodyOf = <A>(
  request: HttpServerRequest.HttpServerRequest,
  decode: (text: string) => Result.Result<A, string>
): Effect.Effect<A, InvalidControl> =>
  request.text.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.mebibytes(1)),
    Effect.mapError(() => "the body cannot be read, or is larger than 1 MiB"),
    Effect.flatMap((text) => Effect.fromResult(decode(text))),
    Effect.mapError((problem) => new InvalidControl({ problem }))
  )

/** Serves the controls until the scope closes. Returns the base address. */
export const serveControls = Effect.fnUntraced(
  function*(controls: Controls, { host = "127.0.0.1", port = 0 }: ListenOptions) {
    const server = createServer()
    // The handlers decode the bodies themselves, so that an answer can name the problem.
    const handlers = HttpApiBuilder.group(ControlApi, "control", (group) =>
      Effect.succeed(
        group
          .handle("faults", () => controls.faults)
          .handleRaw("setFaults", ({ request }) => Effect.tap(bodyOf(request, faultsFromJson), controls.setFaults))
          .handle("counters", () => controls.counters)
          .handle("requests", () => controls.requests)
          .handleRaw("advance", ({ request }) =>
            bodyOf(request, readJson(Advance)).pipe(
              Effect.flatMap(({ advanceMs }) => controls.advance(advanceMs)),
              Effect.map((nowMs) => ({ nowMs }))
            ))
          .handleRaw("misplace", ({ request }) =>
            Effect.tap(bodyOf(request, readJson(Misplaced)), ({ share }) => controls.misplace(share)))
      ))
    const guard = HttpRouter.middleware((answer) =>
      Effect.gen(function*() {
        const incoming = NodeHttpServerRequest.toIncomingMessage(yield* HttpServerRequest.HttpServerRequest)
        const refusal = incoming instanceof IncomingMessage ? refusalOf(incoming, host) : undefined
        if (refusal === undefined) return yield* answer
        return HttpServerResponse.jsonUnsafe({ problem: refusal.problem }, { status: refusal.status })
      }), { global: true })
    const served = HttpRouter.serve(
      Layer.mergeAll(HttpApiBuilder.layer(ControlApi).pipe(Layer.provide(handlers)), guard),
      { disableLogger: true, disableListenLog: true }
    ).pipe(Layer.provideMerge(NodeHttpServer.layer(() => server, { host, port })))
    const context = yield* Layer.build(served).pipe(
      Effect.mapError((error): SandboxError => listenError(error.cause, { host, port, endpoint: "controls" }))
    )
    // Clients keep idle connections open. Without this, the server would wait until they close them.
    yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    const { address } = Context.get(context, HttpServer.HttpServer)
    return urlOf(host, server.address(), "port" in address ? address.port : port)
  }
)
