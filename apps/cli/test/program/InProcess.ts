/** Runs the command line in this process, over any service, with or without a terminal. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import type { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { chosenConfig, run } from "@payments/program"
import { ConfigProvider, Effect, Layer, Sink, Stdio, Terminal } from "effect"
import { payments } from "../../src/cli.ts"
import { checkRun } from "../contract/CheckedRun.ts"

interface Screen {
  /** Whether stdout and stderr are terminals. */
  readonly terminal: boolean
  out: string
  err: string
  /** Runs after each write to stdout, with everything written so far. */
  readonly onOut: (out: string, screen: Screen) => Effect.Effect<void>
  /** The text of stdout and stderr, in the order of the writes. */
  merged: string
}

/** Standard streams that record what is written. */
const stdio = (screen: Screen) => {
  const record = (stream: "out" | "err") => () =>
    Sink.forEach((text: string | Uint8Array) =>
      Effect.andThen(
        Effect.sync(() => {
          screen[stream] += String(text)
          screen.merged += String(text)
        }),
        Effect.suspend(() => stream === "out" ? screen.onOut(screen.out, screen) : Effect.void)
      )
    )
  return Stdio.layerTest({
    stdout: record("out"),
    stderr: record("err"),
    stdoutIsTerminal: Effect.succeed(screen.terminal),
    stderrIsTerminal: Effect.succeed(screen.terminal)
  })
}

/** A terminal of this width. If the width is 0, the terminal reports none. */
const terminalOf = (columns: number) =>
  Layer.effect(
    Terminal.Terminal,
    Effect.map(Terminal.Terminal, (terminal) => ({ ...terminal, columns: Effect.succeed(columns) }))
  ).pipe(Layer.provide(NodeServices.layer))

/** Turns colours off. */
export const withoutColors = Effect.provide(
  ConfigProvider.layer(ConfigProvider.fromEnvRecord({ NO_COLOR: "1" }))
)

/** Runs `payments` with these arguments. Returns its exit code and output. */
export const runInProcess = Effect.fnUntraced(
  function*(
    api: Layer.Layer<PaymentsApi>,
    args: ReadonlyArray<string>,
    terminal = false,
    columns = 0,
    onOut: Screen["onOut"] = () => Effect.void
  ) {
    const screen: Screen = { terminal, out: "", err: "", merged: "", onOut }
    const services = { api, config: chosenConfig, http: layerHttpClient, version: "0.0.0" }
    const command = yield* Effect.promise(() => payments(services, args))
    const code = yield* run(command, args, { version: "0.0.0", settingsCheck: "doctor" }).pipe(
      Effect.provide(Layer.mergeAll(NodeServices.layer, terminalOf(columns), stdio(screen)))
    )
    // Every test that prints JSON also proves that it keeps the contract.
    checkRun(args, { code, ...screen })
    return { code, ...screen }
  }
)
