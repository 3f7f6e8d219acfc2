/** Whether a program may use colours and cursor movements on its terminal. */
import { Config, Effect, Stdio, Terminal } from "effect"
import { hasColors } from "./ColorRule.ts"

const variable = (name: string) => Effect.orDie(Config.String(name).pipe(Config.withDefault("")))

const isDumb = Effect.map(variable("TERM"), (term) => term === "dumb")

/** Whether stdout gets colours ({@link hasColors}). */
export const canColor = Effect.gen(function*() {
  const isTerminal = yield* (yield* Stdio.Stdio).stdoutIsTerminal
  const [NO_COLOR, FORCE_COLOR, TERM] = [
    yield* variable("NO_COLOR"),
    yield* variable("FORCE_COLOR"),
    yield* variable("TERM")
  ]
  return hasColors({ NO_COLOR, FORCE_COLOR, TERM }, () => isTerminal)
})

/** Whether a line on stderr can be redrawn: on a terminal that is not dumb. */
export const canRedraw = Effect.gen(function*() {
  return (yield* (yield* Stdio.Stdio).stderrIsTerminal) && !(yield* isDumb)
})

/**
 * The width of the terminal of stdout. Infinite if stdout is no terminal, or if the terminal does not report its width.
 */
export const terminalWidth = Effect.gen(function*() {
  if (!(yield* (yield* Stdio.Stdio).stdoutIsTerminal)) return Infinity
  return (yield* (yield* Terminal.Terminal).columns) || Infinity
})

/** Whether the screen of stdout can be redrawn: on a terminal that is not dumb. */
export const canRedrawScreen = Effect.gen(function*() {
  return (yield* (yield* Stdio.Stdio).stdoutIsTerminal) && !(yield* isDumb)
})
