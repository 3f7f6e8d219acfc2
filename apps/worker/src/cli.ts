/** The worker's command line. Each flag has an environment variable. */
import type { PaymentsApi, PaymentsConfigError } from "@payments/core"
import { Destination } from "@payments/export"
import {
  checkAll,
  interval,
  listenProblem,
  scanFlags,
  scanOptionsOf,
  setting,
  type SettingParser,
  storedDestinationOf,
  textFlag,
  toFlag,
  usage
} from "@payments/export/program"
import { Duration, Effect, Layer } from "effect"
import { Command, Flag } from "effect/cli"
import { HttpRouter, HttpServer, type HttpServerError } from "effect/http"
import { routes } from "./Health.ts"
import { routes as pageRoutes } from "./page/Page.ts"
import { Status } from "./Status.ts"
import { runForever, runOnce } from "./Worker.ts"

const flags = {
  to: toFlag(),
  once: Flag.Boolean("once").pipe(
    Flag.withDescription("run one round, then exit; no HTTP server (PAYMENTS_ONCE=true)"),
    Flag.withDefault(false)
  ),
  every: textFlag(
    "every",
    "DURATION",
    "the time between the starts of two rounds, at least 1s; default 5m (PAYMENTS_EVERY)"
  ),
  ...scanFlags,
  host: textFlag("host", "HOST", "the address of the HTTP server; default 127.0.0.1 (PAYMENTS_HOST)"),
  port: textFlag("port", "PORT", "the port of the HTTP server; 0 selects a free port; default 9464 (PAYMENTS_PORT)")
}

const text: SettingParser<string> = { expected: "text", parse: (given) => given === "" ? undefined : given }

const yesOrNo: SettingParser<boolean> = {
  expected: "true or false",
  parse: (given) => given === "true" ? true : given === "false" ? false : undefined
}

const port: SettingParser<number> = {
  expected: "a whole number from 0 to 65535",
  parse: (given) => /^\d{1,5}$/.test(given) && Number(given) <= 65_535 ? Number(given) : undefined
}

/** What the worker depends on. */
export interface Services<R> {
  readonly version: string
  readonly api: Layer.Layer<PaymentsApi, PaymentsConfigError, R>
  readonly server: (host: string, port: number) => Layer.Layer<HttpServer.HttpServer, HttpServerError.ServeError>
  /** Runs before the first round, unless the worker runs only one round. From then on SIGTERM ends it with exit code 0. */
  readonly onEndless: Effect.Effect<void>
}

/** `payments-worker`. */
export const worker = <R>({ api, onEndless, server, version }: Services<R>) =>
  Command.make("payments-worker").pipe(
    Command.withDescription("Keep a database or files up to date with the payments API."),
    Command.withSubcommands([
      Command.make(
        "run",
        flags,
        Effect.fnUntraced(function*(given) {
          const read = <A>(name: "every" | "host" | "port", reading: SettingParser<A>) =>
            setting({ name, text: given[name] }, `PAYMENTS_${name.toUpperCase()}`, reading)
          // All settings are checked together, before anything is opened: a wrong setting leaves no empty destination.
          const { every, host, isOnce, listenOn, options, service, to } = yield* checkAll({
            flags: given.once && given.every !== undefined
              ? usage("--once and --every exclude each other.")
              : Effect.void,
            to: storedDestinationOf(
              { name: "to", text: given.to },
              "The worker cannot write to stdout (-), because its stdout is its log. Use payments export --to - instead."
            ),
            options: scanOptionsOf(given),
            isOnce: setting({ name: "once", text: undefined }, "PAYMENTS_ONCE", yesOrNo),
            every: read("every", interval),
            host: read("host", text),
            listenOn: read("port", port),
            service: Layer.build(api)
          })
          const destination = Destination.layer(to)
          // A flag overrides the environment.
          const single = given.once || (given.every === undefined && isOnce === true)
          const health = healthAt(server, host ?? "127.0.0.1", listenOn ?? 9464)
          if (!single) yield* onEndless
          const work = single
            ? runOnce(destination, options)
            : Effect.provide(runForever(every ?? Duration.minutes(5), destination, options), health)
          yield* work.pipe(
            Effect.provide(Status.layer(version)),
            Effect.provide(service),
            Effect.interruptible,
            Effect.onInterrupt(() => Effect.logInfo("stopped"))
          )
        }, Effect.scoped)
      ).pipe(Command.withDescription("Scan all lists concurrently, again and again"))
    ])
  )

const healthAt = (server: Services<never>["server"], host: string, wanted: number) =>
  Layer.mergeAll(
    HttpRouter.serve(Layer.mergeAll(routes, pageRoutes), { disableLogger: true, disableListenLog: true }),
    Layer.effectDiscard(Effect.flatMap(HttpServer.HttpServer, ({ address }) =>
      Effect.annotateLogs(Effect.logInfo("listening"), { host, port: "port" in address ? address.port : wanted })))
  ).pipe(
    Layer.provide(server(host, wanted)),
    Layer.catchTag("ServeError", ({ cause }) =>
      Layer.effectDiscard(usage(listenProblem({ cause, host, port: wanted, hostFlag: "--host", portFlag: "--port" }))))
  )
