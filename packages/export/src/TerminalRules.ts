/** Whether a program may use colours and cursor movements on its terminal. */
import { Config, Effect, Stdio } from "effect"

const variable = (name: string) => Effect.orDie(Config.String(name).pipe(Config.withDefault("")))

/** Whether the terminal does not support escape sequences. */
const isDumb = Effect.map(variable("TERM"), (term) => term === "dumb")

/**
 * Whether stdout gets colours: never with NO_COLOR (https://no-color.org), always with FORCE_COLOR, and otherwise on a
 * terminal that is not dumb. `FORCE_COLOR=0` and `false` mean no colours, as in other Node programs.
 */
export const canColor = Effect.gen(function*() {
  if ((yield* variable("NO_COLOR")) !== "") return false
  const forced = (yield* variable("FORCE_COLOR")).toLowerCase()
  if (forced !== "") return forced !== "0" && forced !== "false"
  return (yield* (yield* Stdio.Stdio).stdoutIsTerminal) && !(yield* isDumb)
})

/** Whether a line on stderr can be redrawn: on a terminal that is not dumb. */
export const canRedraw = Effect.gen(function*() {
  return (yield* (yield* Stdio.Stdio).stderrIsTerminal) && !(yield* isDumb)
})
