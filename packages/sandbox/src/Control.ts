/**
 * The control endpoint: changes faults and looks at what happened while a sandbox serves, from another process. It has a
 * port of its own, so that a client of the API cannot reach it by accident, and refuses what a web page could send.
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
import { refusalOf } from "./ControlGuard.ts"
import { Counters, LoggedRequest } from "./Journal.ts"
import { faultsFromJson, readJson, type ScenarioName, scenarios } from "./Scenario.ts"
import { listenError, type ListenOptions, type SandboxError, urlOf } from "./SocketServer.ts"

/** What was sent cannot be done, and why. */
export class BadControl extends Schema.Error<BadControl>("@payments/sandbox/BadControl")(
  { problem: Schema.String },
  { httpApiStatus: 400 }
) {}

/** The world stands still: it has no clock to move. */
export class StandsStill extends Schema.Error<StandsStill>("@payments/sandbox/StandsStill")(
  { problem: Schema.String },
  { httpApiStatus: 409 }
) {}

/** What can be told to a running sandbox, and asked of it. */
export interface Controls {
  /** Lays other faults over the service; they begin to count now. */
  readonly setFaults: (faults: ReadonlyArray<Fault>) => Effect.Effect<void>
  readonly faults: Effect.Effect<ReadonlyArray<Fault>>
  readonly counters: Effect.Effect<Counters>
  /** The last 1,000 requests, the oldest first. */
  readonly requests: Effect.Effect<ReadonlyArray<LoggedRequest>>
  /**
   * Moves the virtual clock of a live world forward; gives its time. Both in milliseconds since the world began. Fails
   * where the world has no clock, or its time would end before.
   */
  readonly advance: (ms: number) => Effect.Effect<number, BadControl | StandsStill>
}

const Faults = Schema.Array(Fault)
const Name = Schema.Literals(Object.keys(scenarios) as ReadonlyArray<ScenarioName>) // their own names
const Advance = Schema.Struct({ advanceMs: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)) })

/** The endpoint's contract. What is refused is told as `{ "problem": "…" }`. */
export class ControlApi extends HttpApi.make("sandbox-control").add(
  HttpApiGroup.make("control").add(
    HttpApiEndpoint.get("faults", "/faults", { success: Faults }),
    HttpApiEndpoint.put("setFaults", "/faults", {
      // One, some, or a scenario's name.
      payload: Schema.Union([Faults, Fault, Name]),
      success: Faults,
      error: BadControl
    }),
    HttpApiEndpoint.get("counters", "/counters", { success: Counters }),
    HttpApiEndpoint.get("requests", "/requests", { success: Schema.Array(LoggedRequest) }),
    HttpApiEndpoint.post("advance", "/clock", {
      payload: Advance,
      success: Schema.Struct({ nowMs: Schema.Finite }),
      error: [BadControl, StandsStill]
    })
  )
) {}

/** The text of a request's body, of 1 MiB at most. */
const textOf = (request: HttpServerRequest.HttpServerRequest): Effect.Effect<string, BadControl> =>
  request.text.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.mebibytes(1)),
    Effect.mapError(() => new BadControl({ problem: "the body cannot be read, or is larger than 1 MiB" }))
  )

const decoded = <A>(result: Result.Result<A, string>): Effect.Effect<A, BadControl> =>
  Effect.mapError(Effect.fromResult(result), (problem) => new BadControl({ problem }))

/** Serves the controls until the scope closes; gives the base address. */
export const serveControls = Effect.fnUntraced(
  function*(controls: Controls, { host = "127.0.0.1", port = 0 }: ListenOptions) {
    const server = createServer()
    // Bodies are read by hand, so that the answer says what is wrong with them.
    const handlers = HttpApiBuilder.group(ControlApi, "control", (group) =>
      Effect.succeed(
        group
          .handle("faults", () => controls.faults)
          .handleRaw("setFaults", ({ request }) =>
            textOf(request).pipe(
              Effect.flatMap((text) => decoded(faultsFromJson(text))),
              Effect.tap(controls.setFaults)
            ))
          .handle("counters", () => controls.counters)
          .handle("requests", () => controls.requests)
          .handleRaw("advance", ({ request }) =>
            textOf(request).pipe(
              Effect.flatMap((text) => decoded(readJson(Advance, text))),
              Effect.flatMap(({ advanceMs }) => controls.advance(advanceMs)),
              Effect.map((nowMs) => ({ nowMs }))
            ))
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
    // Clients keep connections open for the next request; without this the server would wait for them to leave.
    yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    const { address } = Context.get(context, HttpServer.HttpServer)
    return urlOf(host, server.address(), "port" in address ? address.port : port)
  }
)
