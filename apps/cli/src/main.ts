import "effect/schema/SchemaJITCompiler/enable"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Effect, Exit, Layer, Logger } from "effect"
import { run } from "./cli.ts"

/** Replaced by the build. */
declare const PAYMENTS_VERSION: string

// A reader that has seen enough, such as `head`, is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1))

run(process.argv.slice(2), {
  api: PaymentsApi.layerConfig.pipe(Layer.provide(layerHttpClient)),
  http: layerHttpClient
}, PAYMENTS_VERSION).pipe(
  Effect.provide(NodeServices.layer),
  Effect.provideService(Logger.LogToStderr, true),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    teardown: (exit, onExit) => onExit(Exit.isSuccess(exit) && typeof exit.value === "number" ? exit.value : 130)
  })
)
