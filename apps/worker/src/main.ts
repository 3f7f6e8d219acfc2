import "effect/schema/SchemaJITCompiler/enable"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { ExitCode } from "@payments/export"
import { guardOutput, handOverSignals, run, teardown } from "@payments/export/program"
import { Effect, Layer, Logger } from "effect"
import { createServer } from "node:http"
import { worker } from "./cli.ts"

/** Replaced by the build. */
declare const PAYMENTS_VERSION: string

guardOutput("payments-worker")
// Only the owner may read the files of this process, those that libraries create included.
process.umask(0o077)

/** SIGTERM is the usual way to stop an endless worker, so that it ends with 0. */
let asked = false
let endless = false
const stopCode = () => asked && endless ? ExitCode.done : ExitCode.interrupted

/** How long to wait for a destination that does not answer. Commits are atomic: one that is cut off leaves nothing half done. */
const stopWithinMs = 15_000
process.once("SIGTERM", () => {
  asked = true
  setTimeout(() => {
    process.stderr.write("payments-worker: stopped without the destination, which has not answered for 15 s.\n")
    process.exit(stopCode())
  }, stopWithinMs).unref()
})

const services = {
  api: PaymentsApi.layerConfig.pipe(Layer.provide(layerHttpClient)),
  server: (host: string, port: number) =>
    NodeHttpServer.layer(createServer, { host, port, gracefulShutdownTimeout: "1 second" }),
  onEndless: Effect.sync(() => {
    endless = true
  })
}

// Interruptible once it is known whether the worker is endless, on which the exit code depends.
Effect.uninterruptible(run(worker(services), process.argv.slice(2), PAYMENTS_VERSION, Object.keys(process.env))).pipe(
  Effect.provide(Layer.mergeAll(NodeServices.layer, Logger.layer([Logger.consoleJson]))),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    teardown: teardown(stopCode)
  })
)
handOverSignals()
