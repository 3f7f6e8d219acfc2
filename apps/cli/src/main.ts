import "effect/schema/SchemaJITCompiler/enable"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { ExitCode } from "@payments/export"
import { run, teardown } from "@payments/export/program"
import { Effect, Layer, Logger } from "effect"
import { payments } from "./cli.ts"

/** Replaced by the build. */
declare const PAYMENTS_VERSION: string

process.stdout.on("error", ({ code }: NodeJS.ErrnoException) => {
  // A reader that has seen enough, such as `head`, is no error.
  if (code === "EPIPE") process.exit(ExitCode.done)
  process.stderr.write(`payments: the output cannot be written (${code}).\n`)
  process.exit(ExitCode.destination)
})

const api = PaymentsApi.layerConfig.pipe(Layer.provide(layerHttpClient))

run(payments(api, layerHttpClient), process.argv.slice(2), PAYMENTS_VERSION).pipe(
  Effect.provide(NodeServices.layer),
  Effect.provideService(Logger.LogToStderr, true),
  NodeRuntime.runMain({ disableErrorReporting: true, teardown: teardown(() => ExitCode.interrupted) })
)
