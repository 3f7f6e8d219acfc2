/** The worker's command line. Each flag has an environment variable. */
import { Lists, type PaymentsApi, PaymentsConfig, type PaymentsConfigError } from "@payments/core"
import { Destination, Metrics, Sink } from "@payments/export"
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
import type { Source, SourceSet } from "@payments/export/sources"
import { Duration, Effect, FileSystem, Layer } from "effect"
import { Command, Flag } from "effect/cli"
import { type HttpClient, HttpMiddleware, HttpRouter, HttpServer, type HttpServerError } from "effect/http"
import { routes } from "./Health.ts"
import { layer as logLayer, type LogFormat } from "./Log.ts"
import { routes as pageRoutes } from "./page/Page.ts"
import { Status } from "./Status.ts"
import * as Telemetry from "./Telemetry.ts"
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
  port: textFlag("port", "PORT", "the port of the HTTP server; 0 selects a free port; default 9464 (PAYMENTS_PORT)"),
  logFormat: textFlag("log-format", "json|text", "the format of the log on stdout; default json (PAYMENTS_LOG_FORMAT)")
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

const logFormat: SettingParser<LogFormat> = {
  expected: "json or text",
  parse: (given) => given === "json" || given === "text" ? given : undefined
}

/** What the worker depends on. */
export interface Services<R> {
  readonly version: string
  /** The client of a source. Each source has its own. */
  readonly api: (source: Pick<Source, "service">) => Layer.Layer<PaymentsApi, PaymentsConfigError, R>
  /** Reaches the collector of telemetry. */
  readonly http: Layer.Layer<HttpClient.HttpClient>
  readonly server: (host: string, port: number) => Layer.Layer<HttpServer.HttpServer, HttpServerError.ServeError>
  /** Runs before the first scan, unless the worker scans only once. From then on SIGTERM ends it with exit code 0. */
  readonly onEndless: Effect.Effect<void>
}

/** `payments-worker`. */
export const worker = <R>({ api, http, onEndless, server, version }: Services<R>) =>
  Command.make("payments-worker").pipe(
    Command.withDescription("Keep a database or files up to date with the payments API."),
    Command.withSubcommands([
      Command.make(
        "run",
        flags,
        Effect.fnUntraced(function*(given) {
          const read = <A>(name: "every" | "host" | "port", reading: SettingParser<A>) =>
            setting({ name, text: given[name] }, `PAYMENTS_${name.toUpperCase()}`, reading)
          const environment = Effect.provide(
            PaymentsConfig,
            PaymentsConfig.layerConfig.pipe(
              Layer.provide(Layer.succeed(FileSystem.FileSystem, yield* FileSystem.FileSystem))
            )
          )
          // All settings are checked together, before anything is opened: a wrong setting leaves no empty destination.
          const { every, format, host, isOnce, listenOn, options, service, to } = yield* checkAll({
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
            format: setting({ name: "log-format", text: given.logFormat }, "PAYMENTS_LOG_FORMAT", logFormat),
            host: read("host", text),
            listenOn: read("port", port),
            service: Layer.build(api({ service: environment }))
          })
          const set: SourceSet = {
            file: undefined,
            concurrency: 32,
            sources: [{
              name: "default",
              service: environment,
              to,
              lists: Lists.all.map(({ name }) => name),
              full: { _tag: "Every", every: every ?? Duration.minutes(5) },
              window: undefined,
              head: undefined,
              order: "unknown",
              maxAge: undefined,
              scan: options,
              keepChanges: undefined,
              keepScans: undefined
            }]
          }
          const workerOptions = { api: () => Layer.succeedContext(service), open: destinationOf }
          // A flag overrides the environment.
          const single = given.once || (given.every === undefined && isOnce === true)
          const health = healthAt(server, host ?? "127.0.0.1", listenOn ?? 9464)
          if (!single) yield* onEndless
          const work = single
            ? runOnce(set, workerOptions)
            : Effect.provide(runForever(set, workerOptions), health)
          yield* work.pipe(
            Effect.interruptible,
            Effect.onInterrupt(() => Effect.logInfo("stopped")),
            Effect.provide(Telemetry.layerOtlp(http, version)),
            Effect.provide([
              Status.layer(version),
              Metrics.layer(version),
              logLayer(format ?? "json", yield* Telemetry.isTraced)
            ])
          )
        }, Effect.scoped)
      ).pipe(Command.withDescription("Scan all lists concurrently, again and again"))
    ])
  )

const destinationOf = ({ name, to }: Source) =>
  to === undefined
    ? Layer.effect(Sink, Effect.die(new Error(`the source ${name} has no destination`)))
    : Destination.layer(to)

const healthAt = (server: Services<never>["server"], host: string, wanted: number) =>
  Layer.mergeAll(
    HttpRouter.serve(Layer.mergeAll(routes, pageRoutes, Telemetry.routes), {
      disableLogger: true,
      disableListenLog: true
    }),
    Layer.effectDiscard(Effect.flatMap(HttpServer.HttpServer, ({ address }) =>
      Effect.annotateLogs(Effect.logInfo("listening"), { host, port: "port" in address ? address.port : wanted })))
  ).pipe(
    Layer.provide(server(host, wanted)),
    // Scrapes and health checks would outnumber all other traces.
    Layer.provide(Layer.succeed(HttpMiddleware.TracerDisabledWhen, () =>
      true)),
    Layer.catchTag("ServeError", ({ cause }) =>
      Layer.effectDiscard(usage(listenProblem({ cause, host, port: wanted, hostFlag: "--host", portFlag: "--port" }))))
  )
