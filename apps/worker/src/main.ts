import "effect/schema/SchemaJITCompiler/enable"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { ExitCode, handleOutputErrors, handOverSignals, lineLogger, run, teardown } from "@payments/program"
import { RateLimitStores, type Source } from "@payments/program/sources"
import { Effect, Layer, Queue } from "effect"
import { createServer } from "node:http"
import { worker } from "./cli.ts"

/** The build replaces this name with the version. */
declare const PAYMENTS_VERSION: string

handleOutputErrors("payments-worker", process.argv.slice(2))

/** SIGTERM is the usual way to stop an endless worker. The exit code is then 0. */
let isSigterm = false
let isEndless = false
const stopCode = () => isSigterm && isEndless ? ExitCode.done : ExitCode.interrupted

/** The longest wait for databases after SIGTERM. Commits are atomic, so an interrupted commit changes nothing. */
const stopWithinMs = 15_000
process.on("SIGTERM", () => {
  if (isSigterm) process.exit(stopCode())
  isSigterm = true
  setTimeout(() => {
    process.stderr.write(
      "payments-worker: stopped. A destination, or the database of the cluster, did not answer for 15 s.\n"
    )
    process.exit(stopCode())
  }, stopWithinMs).unref()
})

/** SIGHUP does not end a worker that has not read its settings yet: it may have a sources file to read again. */
let isHangup = false
const keepHangup = () => {
  isHangup = true
}
process.on("SIGHUP", keepHangup)
/** Returns whether SIGHUP has arrived. */
const endHangup = (): boolean => {
  process.off("SIGHUP", keepHangup)
  return isHangup
}

const services = {
  version: PAYMENTS_VERSION,
  api: (source: Pick<Source, "service" | "rateLimitStore">) =>
    PaymentsApi.layer.pipe(
      Layer.provide(Layer.effect(PaymentsConfig, source.service)),
      Layer.provide(Layer.fresh(layerHttpClient)),
      Layer.provide(Layer.unwrap(Effect.map(RateLimitStores, ({ layerOf }) => layerOf(source))))
    ),
  http: layerHttpClient,
  server: (host: string, port: number) =>
    NodeHttpServer.layer(createServer, { host, port, gracefulShutdownTimeout: "1 second" }),
  onEndless: Effect.sync(() => {
    isEndless = true
  }),
  /** Each SIGHUP is a request. Requests that wait are one request. One that came during the start is the first. */
  reloads: Effect.gen(function*() {
    const requests = yield* Queue.sliding<void>(1)
    const request = () => Queue.offerUnsafe(requests, undefined)
    yield* Effect.acquireRelease(
      Effect.sync(() => {
        process.on("SIGHUP", request)
        if (endHangup()) request()
      }),
      () => Effect.sync(() => process.off("SIGHUP", request))
    )
    return requests
  }),
  noReloads: Effect.callback<void>((resume) => {
    // Node delivers a signal that has arrived before this.
    setImmediate(() => {
      if (endHangup()) process.kill(process.pid, "SIGHUP")
      resume(Effect.void)
    })
  })
}

// The exit code depends on whether the worker is endless. So signals interrupt the program only after it knows its
// flags.
Effect.uninterruptible(
  run(worker(services), process.argv.slice(2), {
    version: PAYMENTS_VERSION,
    environment: process.env,
    settingsCheck: "check"
  })
).pipe(
  Effect.provide(Layer.mergeAll(NodeServices.layer, RateLimitStores.layer, lineLogger("payments-worker"))),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    teardown: teardown(stopCode)
  })
)
handOverSignals()
