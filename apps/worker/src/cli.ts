/** The worker's command line. Every flag can also come from the environment. */
import type { PaymentsApi, PaymentsConfigError } from "@payments/core"
import { Destination } from "@payments/export"
import { durationFlag, usage } from "@payments/export/program"
import { Config, Duration, Effect, Layer, Option, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { HttpRouter, type HttpServer, type HttpServerError } from "effect/http"
import { routes, Status } from "./Status.ts"
import { forever, once } from "./Worker.ts"

const Port = Schema.Int.check(
  Schema.isBetween({ minimum: 0, maximum: 65_535 }, { message: "a whole number from 0 to 65535" })
)

const flags = {
  to: Flag.String("to").pipe(
    Flag.withMetavar("DESTINATION"),
    Flag.withDescription("sqlite:FILE, or file:FOLDER?format=ndjson (PAYMENTS_TO)"),
    Flag.withFallbackConfig(Config.String("PAYMENTS_TO"))
  ),
  once: Flag.Boolean("once").pipe(
    Flag.withDescription("one round, then end; no HTTP (PAYMENTS_ONCE)"),
    Flag.withFallbackConfig(Config.Boolean("PAYMENTS_ONCE")),
    Flag.withDefault(false)
  ),
  every: durationFlag("every", "PAYMENTS_EVERY").pipe(
    Flag.withDescription(
      "from the beginning of one round to that of the next, such as 5m; 5m unless given (PAYMENTS_EVERY)"
    ),
    Flag.withDefault(Duration.minutes(5))
  ),
  patience: durationFlag("patience", "PAYMENTS_PATIENCE").pipe(
    Flag.withDescription("how long a page that keeps failing is asked for again; 15m unless given (PAYMENTS_PATIENCE)"),
    Flag.optional,
    Flag.map(Option.getOrUndefined)
  ),
  host: Flag.String("host").pipe(
    Flag.withDescription("where HTTP listens (PAYMENTS_HOST)"),
    Flag.withFallbackConfig(Config.String("PAYMENTS_HOST")),
    Flag.withDefault("127.0.0.1")
  ),
  port: Flag.Int("port").pipe(
    Flag.withDescription("the port of HTTP; 0 takes a free one (PAYMENTS_PORT)"),
    Flag.withFallbackConfig(Config.Int("PAYMENTS_PORT")),
    Flag.withSchema(Port),
    Flag.withDefault(9464)
  )
}

/** What the worker runs on. */
export interface Services<R> {
  readonly api: Layer.Layer<PaymentsApi, PaymentsConfigError, R>
  readonly server: (host: string, port: number) => Layer.Layer<HttpServer.HttpServer, HttpServerError.ServeError>
}

/** `payments-worker`. */
export const worker = <R>({ api, server }: Services<R>) =>
  Command.make("payments-worker").pipe(
    Command.withDescription("Keeps a database or files in step with the payments API."),
    Command.withSubcommands([
      Command.make(
        "run",
        flags,
        Effect.fnUntraced(function*({ every, host, once: single, patience, port, to }) {
          const destination = Destination.layer(yield* Destination.parse(to))
          const options = { patience }
          const work = single
            ? once(options)
            : Effect.provide(forever(every, options), health(server, host, port))
          yield* Effect.provide(work, Layer.mergeAll(destination, api, Status.layer))
        })
      ).pipe(Command.withDescription("Scan all three lists side by side, then again"))
    ])
  )

const health = (server: Services<never>["server"], host: string, port: number) =>
  HttpRouter.serve(routes, { disableLogger: true, disableListenLog: true }).pipe(
    Layer.provide(server(host, port)),
    Layer.catchTag(
      "ServeError",
      () =>
        Layer.effectDiscard(usage(`${host} port ${port} cannot be listened on. Choose others with --host and --port.`))
    )
  )
