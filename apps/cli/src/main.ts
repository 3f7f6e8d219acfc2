import * as NodeChildProcessSpawner from "@effect/platform-node/NodeChildProcessSpawner"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeStdio from "@effect/platform-node/NodeStdio"
import { Stdout } from "@payments/copy"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import {
  chosenConfig,
  chosenRateLimitStore,
  ExitCode,
  handleOutputErrors,
  handOverSignals,
  lineLogger,
  run,
  teardown
} from "@payments/program"
import { Effect, Layer } from "effect"
import { payments } from "./cli.ts"
import * as LazyTerminal from "./output/LazyTerminal.ts"

/** The build replaces this name with the version. */
declare const PAYMENTS_VERSION: string

handleOutputErrors("payments", process.argv.slice(2))

const api = PaymentsApi.layer.pipe(
  Layer.provide(layerHttpClient),
  Layer.provide(chosenConfig),
  Layer.provide(chosenRateLimitStore)
)

/** What `NodeServices` provides. */
const platform = NodeChildProcessSpawner.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(NodeFileSystem.layer, NodePath.layer, NodeStdio.layer, LazyTerminal.layer))
)

const args = process.argv.slice(2)
const services = { api, config: chosenConfig, http: layerHttpClient, version: PAYMENTS_VERSION }

/** A function, because the bundle is a script: it has no top-level await. */
const main = async () => {
  const command = await payments(services, args)
  run(command, args, { version: PAYMENTS_VERSION, environment: process.env, settingsCheck: "doctor" }).pipe(
    Effect.provide(Layer.mergeAll(platform, lineLogger("payments"), Stdout.layerProcess)),
    NodeRuntime.runMain({ disableErrorReporting: true, teardown: teardown(() => ExitCode.interrupted) })
  )
  handOverSignals()
  // Compiles the schemas that are first used from now on. Before the first request, that would take longer than it saves.
  // Without it the program only is slower, so it goes on if it may not open that file.
  setImmediate(() => void import("effect/schema/SchemaJITCompiler/enable").catch(() => undefined))
}
void main()
