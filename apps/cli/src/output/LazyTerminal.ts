/** The terminal of this process. It opens stdin when input is first read: that takes 3 ms, and most commands read nothing. */
import * as NodeTerminal from "@effect/platform-node/NodeTerminal"
import { Effect, Layer, Scope, Terminal } from "effect"

export const layer: Layer.Layer<Terminal.Terminal> = Layer.effect(
  Terminal.Terminal,
  Effect.gen(function*() {
    const opened = yield* Effect.cached(Scope.provide(NodeTerminal.make(), yield* Effect.scope))
    return Terminal.make({
      columns: Effect.sync(() => process.stdout.columns ?? 0),
      rows: Effect.sync(() => process.stdout.rows ?? 0),
      size: Effect.flatMap(opened, ({ size }) => size),
      readInput: Effect.flatMap(opened, ({ readInput }) => readInput),
      readLine: Effect.flatMap(opened, ({ readLine }) => readLine),
      display: (text) => Effect.flatMap(opened, ({ display }) => display(text))
    })
  })
)
