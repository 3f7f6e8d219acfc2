/** Runs the command line in this process, over any service, on a terminal or not. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { type PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { run } from "@payments/export/program"
import { Effect, Layer, Sink, Stdio, Terminal } from "effect"
import { payments } from "../src/cli.ts"

interface Screen {
  /** Whether stdout and stderr are terminals. */
  readonly terminal: boolean
  out: string
  err: string
  /** Run after each text that was written to stdout, with all of it. */
  readonly onOut: (out: string) => Effect.Effect<void>
  /** Both, in the order in which they were written. */
  merged: string
}

/** Standard streams that are kept, on a terminal or not. */
const stdio = (screen: Screen) => {
  const keep = (where: "out" | "err") => () =>
    Sink.forEach((text: string | Uint8Array) =>
      Effect.andThen(
        Effect.sync(() => {
          screen[where] += String(text)
          screen.merged += String(text)
        }),
        Effect.suspend(() => where === "out" ? screen.onOut(screen.out) : Effect.void)
      )
    )
  return Stdio.layerTest({
    stdout: keep("out"),
    stderr: keep("err"),
    stdoutIsTerminal: Effect.succeed(screen.terminal),
    stderrIsTerminal: Effect.succeed(screen.terminal)
  })
}

/** A terminal of that width; of none that it tells, where it is 0. */
const terminalOf = (columns: number) =>
  Layer.effect(
    Terminal.Terminal,
    Effect.map(Terminal.Terminal, (terminal) => ({ ...terminal, columns: Effect.succeed(columns) }))
  ).pipe(Layer.provide(NodeServices.layer))

/** Runs `payments` with these arguments; gives its exit code and what it wrote. */
export const payment = Effect.fnUntraced(
  function*(
    api: Layer.Layer<PaymentsApi>,
    args: ReadonlyArray<string>,
    terminal = false,
    columns = 0,
    onOut: Screen["onOut"] = () => Effect.void
  ) {
    const screen: Screen = { terminal, out: "", err: "", merged: "", onOut }
    const code = yield* run(payments(api, PaymentsConfig.layerConfig, layerHttpClient), args, "0.0.0").pipe(
      Effect.provide(Layer.mergeAll(NodeServices.layer, terminalOf(columns), stdio(screen)))
    )
    return { code, ...screen }
  }
)
