/** The progress of an erasure or a rewrite on stderr: a line that is redrawn on a terminal. */
import type { RedactionProgress } from "@payments/copy"
import { canRedraw, drawProgress, eraseProgress, grouped } from "@payments/program"
import { Effect, Stdio } from "effect"
import { logWrapped } from "../output/Wrapped.ts"

const redrawEveryMs = 100

/**
 * Makes the handler of the progress. `done` says what happened to the texts so far, such as `searched`. `during` removes the line
 * at the end of an effect, and says how to continue an interrupted one.
 */
export const redactionProgress = Effect.fnUntraced(function*(done: string) {
  const stdio = yield* Stdio.Stdio
  const redraws = yield* canRedraw
  let drawnAt = 0
  const onProgress = ({ list, position, table }: RedactionProgress): Effect.Effect<void> =>
    Effect.suspend(() => {
      const now = performance.now()
      if (!redraws || now - drawnAt < redrawEveryMs) return Effect.void
      drawnAt = now
      const upTo = position === undefined ? "" : ` up to ${grouped(position)}`
      return Effect.provideService(drawProgress(`${list}: ${table}${upTo} ${done}`), Stdio.Stdio, stdio)
    })
  const during = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    effect.pipe(
      Effect.ensuring(Effect.provideService(eraseProgress, Stdio.Stdio, stdio)),
      Effect.onInterrupt(() => logWrapped("payments: interrupted. Run the same command again to complete it."))
    )
  return { onProgress, during }
})
