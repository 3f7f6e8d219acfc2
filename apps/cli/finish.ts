/**
 * Completes the build: writes the help of each command into `dist/help`, with colours, which the launcher prints; and runs the
 * program, so that Node keeps its compiled code in `dist/compile-cache`.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { chosenConfig, run } from "@payments/program"
import { Sandbox } from "@payments/sandbox"
import { ConfigProvider, Console, Effect, Layer } from "effect"
import type { Command } from "effect/cli"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { payments } from "./src/cli.ts"

const api = PaymentsApi.layer.pipe(Layer.provide(layerHttpClient), Layer.provide(chosenConfig))
const command = await payments({ api, config: chosenConfig, http: layerHttpClient, version: "" }, [])

/** Returns the words that name the command, for it and all commands below it. */
const pathsOf = (parent: Command.Command.Any, path: ReadonlyArray<string>): ReadonlyArray<ReadonlyArray<string>> => [
  path,
  ...parent.subcommands.flatMap(({ commands }) => commands.flatMap((child) => pathsOf(child, [...path, child.name])))
]

const helpOf = Effect.fnUntraced(function*(path: ReadonlyArray<string>) {
  const lines: Array<string> = []
  const console: Console.Console = { ...globalThis.console, log: (line: string) => lines.push(`${line}\n`) }
  yield* run(command, [...path, "--help"], { version: "" }).pipe(Effect.provideService(Console.Console, console))
  return lines.join("")
})

const write = Effect.fnUntraced(function*(path: ReadonlyArray<string>) {
  const file = `${join(import.meta.dirname, "dist/help", ...path)}.txt`
  const text = yield* helpOf(path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
})

await Effect.runPromise(
  Effect.forEach(pathsOf(command, []), write, { discard: true }).pipe(
    Effect.provide(NodeServices.layer),
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({ FORCE_COLOR: "1" })))
  )
)

/** Lists records of a sandbox. The cache has the functions that ran: those of the start, of a request and of a page. */
const warmUp = Effect.gen(function*() {
  const { url } = yield* Sandbox
  const launcher = join(import.meta.dirname, "dist/payments.js")
  const child = spawn(process.execPath, [launcher, "invoices", "list", "--all"], {
    env: { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_build", PAYMENTS_STDOUT: "open" },
    stdio: ["ignore", "ignore", "inherit"]
  })
  const [code] = yield* Effect.promise(() => once(child, "exit"))
  if (code !== 0) throw new Error(`the program ended with code ${code}`)
})

await Effect.runPromise(Effect.provide(warmUp, Sandbox.layer({ records: 200 })))
