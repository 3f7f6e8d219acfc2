/**
 * The control endpoint: changes faults and looks at what happened while a sandbox serves, from another process. It has a
 * port of its own, so that a client of the API cannot reach it by accident.
 *
 * ```sh
 * curl -X PUT localhost:8788/faults -H 'content-type: application/json' -d '[{"fault":"status","status":401,"from":50}]'
 * ```
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Fault } from "@payments/core/testing"
import { Context, Effect, Layer, Schema } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { createServer } from "node:http"
import { Counters, LoggedRequest } from "./Journal.ts"
import { listenError, type ListenOptions, type SandboxError, urlOf } from "./SocketServer.ts"

/** What can be told to a running sandbox, and asked of it. */
export interface Controls {
  /** Lays other faults over the service; they begin to count now. */
  readonly setFaults: (faults: ReadonlyArray<Fault>) => Effect.Effect<void>
  readonly faults: Effect.Effect<ReadonlyArray<Fault>>
  readonly counters: Effect.Effect<Counters>
  /** The last 1,000 requests, the oldest first. */
  readonly requests: Effect.Effect<ReadonlyArray<LoggedRequest>>
  /** Moves the virtual clock of a live world forward; gives its time. Both in milliseconds since the world began. */
  readonly advance: (ms: number) => Effect.Effect<number>
}

/** The endpoint's contract. */
export class ControlApi extends HttpApi.make("sandbox-control").add(
  HttpApiGroup.make("control").add(
    HttpApiEndpoint.get("faults", "/faults", { success: Schema.Array(Fault) }),
    HttpApiEndpoint.put("setFaults", "/faults", { payload: Schema.Array(Fault), success: Schema.Array(Fault) }),
    HttpApiEndpoint.get("counters", "/counters", { success: Counters }),
    HttpApiEndpoint.get("requests", "/requests", { success: Schema.Array(LoggedRequest) }),
    HttpApiEndpoint.post("advance", "/clock", {
      payload: Schema.Struct({ advanceMs: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)) }),
      success: Schema.Struct({ nowMs: Schema.Finite })
    })
  )
) {}

/** Serves the controls until the scope closes; gives the base address. */
export const serveControls = Effect.fnUntraced(
  function*(controls: Controls, { host = "127.0.0.1", port = 0 }: ListenOptions) {
    const server = createServer()
    const handlers = HttpApiBuilder.group(ControlApi, "control", (group) =>
      Effect.succeed(
        group.handleAll({
          faults: () => controls.faults,
          setFaults: ({ payload }) => Effect.as(controls.setFaults(payload), payload),
          counters: () => controls.counters,
          requests: () => controls.requests,
          advance: ({ payload }) => Effect.map(controls.advance(payload.advanceMs), (nowMs) => ({ nowMs }))
        })
      ))
    const served = HttpRouter.serve(HttpApiBuilder.layer(ControlApi).pipe(Layer.provide(handlers)), {
      disableLogger: true,
      disableListenLog: true
    }).pipe(Layer.provideMerge(NodeHttpServer.layer(() => server, { host, port })))
    const context = yield* Layer.build(served).pipe(
      Effect.mapError((error): SandboxError => listenError(error.cause))
    )
    // Clients keep connections open for the next request; without this the server would wait for them to leave.
    yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    const { address } = Context.get(context, HttpServer.HttpServer)
    return urlOf(host, "port" in address ? address.port : port)
  }
)
