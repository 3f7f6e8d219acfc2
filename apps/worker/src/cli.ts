/** The worker's command line. Each flag has an environment variable. */
import { Destination, Sink } from "@payments/copy"
import { makeKeyFile, type PaymentsApi, PaymentsConfig, PaymentsConfigError } from "@payments/core"
import {
  allSettings,
  checkAll,
  isLoopback,
  listenProblem,
  Metrics,
  type ProgramError,
  settingFlag,
  settingFlags,
  settingGiven,
  toFlag,
  usage,
  valueGiven
} from "@payments/program"
import {
  type ClusterFlags,
  clusterOf,
  type ClusterSettings,
  type LoadedSources,
  loadSources,
  type Source
} from "@payments/program/sources"
import { Effect, FileSystem, Layer, type Queue, Redacted, References, Result, type Scope } from "effect"
import { Command, Flag } from "effect/cli"
import { type HttpClient, HttpMiddleware, HttpRouter, HttpServer, type HttpServerError } from "effect/http"
import { isDeepStrictEqual } from "node:util"
import { checkSources } from "./commands/CheckCommand.ts"
import { runnersCommand } from "./commands/RunnersCommand.ts"
import { runForever, runOnce, type WorkerOptions } from "./loop/Worker.ts"
import { routes as pageRoutes } from "./page/StatusPage.ts"
import { type Access, guard } from "./state/Access.ts"
import { routes as healthRoutes } from "./state/Health.ts"
import { layer as logLayer } from "./state/Log.ts"
import { Status } from "./state/Status.ts"
import * as Telemetry from "./state/WorkerTelemetry.ts"

const configFlag = settingFlag(
  allSettings.program.config,
  "the sources file; default: the environment if PAYMENTS_BASE_URL is set, else payments/payments.toml in the configuration folder"
)

const clusterFlags = {
  ...settingFlags(allSettings.cluster, "payments-worker"),
  runner: settingFlag(allSettings.worker.runner)
}

const flags = {
  config: configFlag,
  to: toFlag(),
  once: Flag.Boolean("once").pipe(
    Flag.withDescription("scan each list once, then exit; no HTTP server (PAYMENTS_ONCE=true)"),
    Flag.withDefault(false)
  ),
  ...settingFlags(allSettings.source, "payments-worker"),
  ...clusterFlags,
  ...settingFlags(allSettings.worker, "payments-worker")
}

/** Returns undefined if no file is named. */
const tokenOf = Effect.fnUntraced(function*(flag: string | undefined, fs: FileSystem.FileSystem) {
  const file = yield* settingGiven(allSettings.worker.token_file, flag)
  if (file === undefined) return undefined
  const found = yield* makeKeyFile(fs, file.from, file.value).read
  const problem = "problem" in found
    ? found.problem
    : /^[!-~]{16,}$/.test(Redacted.value(found.value))
    ? undefined
    : "names a file without a usable token: 16 or more letters, digits or signs. Make one: openssl rand -hex 32"
  return "value" in found && problem === undefined
    ? found.value
    : yield* new PaymentsConfigError({ problems: [{ setting: file.from, problem: problem ?? "cannot be used" }] })
})

/** What the worker depends on. */
export interface Services<R> {
  readonly version: string
  /** The client of a source. Each source has its own. */
  readonly api: (source: Pick<Source, "service" | "rateLimitStore">) => Layer.Layer<PaymentsApi, PaymentsConfigError, R>
  readonly server: (host: string, port: number) => Layer.Layer<HttpServer.HttpServer, HttpServerError.ServeError>
  /** Reaches the collector of telemetry. */
  readonly http: Layer.Layer<HttpClient.HttpClient>
  /** Runs before the first scan, unless the worker scans only once. From then on SIGTERM ends it with exit code 0. */
  readonly onEndless: Effect.Effect<void>
  /** The requests to read the sources again. */
  readonly reloads: Effect.Effect<Queue.Dequeue<void>, never, Scope.Scope>
  /** Runs instead if no file is read again. */
  readonly noReloads: Effect.Effect<void>
}

export const worker = <R>(services: Services<R>) =>
  Command.make("payments-worker").pipe(
    Command.withDescription("Keep databases or files up to date with the payments API."),
    Command.withSubcommands([
      runCommand(services),
      checkCommand(services),
      runnersCommand(configFlag, services.noReloads)
    ])
  )

const runCommand = <R>({ api, http, noReloads, onEndless, reloads, server, version }: Services<R>) =>
  Command.make(
    "run",
    flags,
    Effect.fnUntraced(function*(given) {
      const fs = yield* FileSystem.FileSystem
      const load = Effect.provideService(loadSources({ config: given.config, flags: given }), FileSystem.FileSystem, fs)
      const loaded = yield* Effect.result(load)
      const isFromEnvironment = yield* isEnvironment(given.config, loaded)
      // All settings are checked together, before anything is opened: a wrong setting leaves no empty destination.
      const { allowed, cluster, format, host, listenOn, service, set, single, token } = yield* checkAll({
        flags: given.once && given.every !== undefined
          ? usage("--once and --every exclude each other.")
          : given.once && given.cluster !== undefined
          ? usage("--once and --cluster exclude each other.")
          : Effect.void,
        set: Effect.fromResult(loaded),
        single: isSingle(given),
        cluster: Effect.flatMap(isSingle(given), (once) =>
          once || Result.isFailure(loaded) ? Effect.undefined : clusterOf(loaded.success, given)),
        format: valueGiven(allSettings.worker.log_format, given.logFormat),
        host: valueGiven(allSettings.worker.host, given.host),
        allowed: valueGiven(allSettings.worker.allow_host, given.allowHost),
        token: tokenOf(given.tokenFile, fs),
        listenOn: valueGiven(allSettings.worker.port, given.port),
        personal: isFromEnvironment && Result.isSuccess(loaded)
          ? Effect.forEach(loaded.success.sources, ({ personal }) =>
            personal)
          : Effect.void,
        service: isFromEnvironment
          ? Layer.build(
            api({
              service: Effect.provideService(PaymentsConfig.fromEnvironment, FileSystem.FileSystem, fs),
              rateLimitStore: Result.isSuccess(loaded) ? loaded.success.sources[0]?.rateLimitStore : undefined
            })
          )
          : Effect.undefined
      })
      const workerOptions: WorkerOptions<R | Layer.Services<ReturnType<typeof destinationOf>>> = {
        api: service === undefined ? api : () => Layer.succeedContext(service),
        open: (source) => destinationOf(source, cluster?.runner)
      }
      const access = { host: host ?? "127.0.0.1", allowedHosts: allowed ?? [], token }
      const routes = httpAt(server, access, listenOn ?? 9464)
      if (!single) yield* onEndless
      const reload = set.file === undefined
        ? yield* Effect.as(noReloads, undefined)
        : { requests: yield* reloads, sources: cluster === undefined ? load : reloadInCluster(load, cluster, given) }
      const work = single
        ? runOnce(set, workerOptions)
        : Effect.provide(
          runForever(set, {
            ...workerOptions,
            reload,
            joining: cluster === undefined ? undefined : joinCluster(cluster)
          }),
          routes
        )
      const logs = logLayer(format ?? "json", yield* Telemetry.isTraced)
      yield* Effect.provide(endingWithNote(work), observation({ http, version, single, logs }))
    }, (effect, given) =>
      // The settings are read before telemetry starts. Their warnings belong into the log too.
      valueGiven(allSettings.worker.log_format, given.logFormat).pipe(
        Effect.orElseSucceed(() => undefined),
        Effect.flatMap((format) => Effect.provide(Effect.scoped(effect), logLayer(format ?? "json", false)))
      ))
  ).pipe(Command.withDescription("Scan the lists of all sources on their schedules"))

const endingWithNote = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  work.pipe(Effect.interruptible, Effect.onInterrupt(() => Effect.logInfo("stopped")))

/** The state, the metrics, the log and the telemetry of a run. */
const observation = ({ http, logs, single, version }: {
  readonly http: Layer.Layer<HttpClient.HttpClient>
  readonly version: string
  readonly single: boolean
  readonly logs: ReturnType<typeof logLayer>
}) =>
  Telemetry.layerOtlp(http, version, single).pipe(
    Layer.provideMerge(Layer.mergeAll(Status.layer(version), Metrics.layer(version), logs))
  )

/** Whether the worker scans only once. A flag overrides the environment. */
const isSingle = ({ every, once }: { readonly every: string | undefined; readonly once: boolean }) =>
  Effect.map(
    valueGiven(allSettings.worker.once),
    (isOnce) => once || (every === undefined && isOnce === true)
  )

/** Loads the cluster's code only when it is needed. */
const joinCluster = (cluster: ClusterSettings) =>
  Effect.flatMap(Effect.promise(() => import("./cluster/Cluster.ts")), ({ join }) => join(cluster))

/** Reads the sources of a runner again. It stays in its cluster. */
const reloadInCluster = <E, R>(
  load: Effect.Effect<LoadedSources, E, R>,
  cluster: ClusterSettings,
  given: ClusterFlags
) =>
  Effect.tap(load, (set) =>
    Effect.flatMap(clusterOf(set, given), (now) =>
      isDeepStrictEqual(now, cluster)
        ? Effect.void
        : Effect.logWarning("the settings of the cluster have changed: start the worker again to use them")))

/** Whether the environment is the only source, so that its settings have to be right at the start. */
const isEnvironment = (config: string | undefined, loaded: Result.Result<LoadedSources, ProgramError>) =>
  Effect.map(
    valueGiven(allSettings.program.config, config),
    (file) =>
      file === undefined &&
      (Result.isSuccess(loaded) ? loaded.success.file === undefined : loaded.failure._tag !== "SourcesError")
  )

const checkCommand = <R>({ api, noReloads }: Services<R>) =>
  Command.make(
    "check",
    { config: configFlag, to: toFlag(), ...clusterFlags },
    Effect.fnUntraced(function*(given) {
      yield* noReloads
      const set = yield* loadSources({ config: given.config, flags: given })
      // The findings say what the log would say.
      yield* Effect.provideService(
        checkSources(set, yield* clusterOf(set, given), api),
        References.MinimumLogLevel,
        "None"
      )
    }, Effect.scoped)
  ).pipe(
    Command.withDescription(
      "Check the settings, services, keys and destinations of all sources, and print the next runs"
    )
  )

const destinationOf = ({ name, to }: Source, runner: string | undefined) =>
  to === undefined
    ? Layer.effect(Sink, Effect.die(new Error(`the source ${name} has no destination`)))
    : Destination.layer(runner === undefined ? to : { ...to, runner })

const httpAt = (server: Services<never>["server"], access: Access, wanted: number) => {
  const { host, token } = access
  return Layer.mergeAll(
    HttpRouter.serve(Layer.mergeAll(healthRoutes, Telemetry.routes, pageRoutes, guard(access)), {
      disableLogger: true,
      disableListenLog: true
    }),
    Layer.effectDiscard(Effect.flatMap(HttpServer.HttpServer, ({ address }) => {
      const boundPort = "port" in address ? address.port : wanted
      const warning = token !== undefined || isLoopback(host) ? Effect.void : Effect.logWarning(
        "other machines can read the status page and the metrics: guard them with --token-file, or listen on 127.0.0.1"
      )
      // A program that waits for "listening" has then read the warning.
      return Effect.annotateLogs(Effect.andThen(warning, Effect.logInfo("listening")), { host, port: boundPort })
    }))
  ).pipe(
    Layer.provide(server(host, wanted)),
    // Scrapes and health checks would outnumber all other traces.
    Layer.provide(Layer.succeed(HttpMiddleware.TracerDisabledWhen, () => true)),
    Layer.catchTag(
      "ServeError",
      ({ cause }) =>
        Layer.effectDiscard(usage(listenProblem({ cause, host, port: wanted, hostFlag: "--host", portFlag: "--port" })))
    )
  )
}
