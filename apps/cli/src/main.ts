import "effect/schema/SchemaJITCompiler/enable"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import {
  chosenConfig,
  chosenRateLimitStore,
  ExitCode,
  handleOutputErrors,
  handOverSignals,
  layerStdout,
  lineLogger,
  run,
  teardown
} from "@payments/export/program"
import { Effect, Layer } from "effect"
import { payments } from "./cli.ts"

/** The build replaces this name with the version. */
declare const PAYMENTS_VERSION: string

handleOutputErrors("payments", process.argv.slice(2))
// Only the owner may read the files that this process creates. Libraries create some of them.
process.umask(0o077)

const api = PaymentsApi.layer.pipe(
  Layer.provide(layerHttpClient),
  Layer.provide(chosenConfig),
  Layer.provide(chosenRateLimitStore)
)

const args = process.argv.slice(2)
const services = { api, config: chosenConfig, http: layerHttpClient, version: PAYMENTS_VERSION }

/** No top-level await: the modules of the commands import the chunk that this module is in, and would wait for it. */
const main = async () => {
  const command = await payments(services, args)
  run(command, args, PAYMENTS_VERSION, Object.keys(process.env)).pipe(
    Effect.provide(Layer.mergeAll(NodeServices.layer, lineLogger("payments"), layerStdout)),
    NodeRuntime.runMain({ disableErrorReporting: true, teardown: teardown(() => ExitCode.interrupted) })
  )
  handOverSignals()
}
void main()
