import "effect/schema/SchemaJITCompiler/enable"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { ExitCode } from "@payments/export"
import { guardOutput, run, teardown } from "@payments/export/program"
import { Effect, Layer, Logger } from "effect"
import { createServer } from "node:http"
import { worker } from "./cli.ts"

/** Replaced by the build. */
declare const PAYMENTS_VERSION: string

guardOutput("payments-worker")
// Also a file that a library makes is its owner's alone.
process.umask(0o077)

/** SIGTERM is how an endless worker is asked to stop, so stopping is what it was to do; it is given this long. */
const stopWithinMs = 15_000
let asked = false
let endless = false
process.once("SIGTERM", () => {
  asked = true
  setTimeout(() => process.exit(ExitCode.unexpected), stopWithinMs).unref()
})

const services = {
  api: PaymentsApi.layerConfig.pipe(Layer.provide(layerHttpClient)),
  server: (host: string, port: number) =>
    NodeHttpServer.layer(createServer, { host, port, gracefulShutdownTimeout: "1 second" }),
  onEndless: Effect.sync(() => {
    endless = true
  })
}

run(worker(services), process.argv.slice(2), PAYMENTS_VERSION, Object.keys(process.env)).pipe(
  Effect.provide(Layer.mergeAll(NodeServices.layer, Logger.layer([Logger.consoleJson]))),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    teardown: teardown(() => asked && endless ? ExitCode.done : ExitCode.interrupted)
  })
)
