/** The progress of a comparison on stderr: a line that is redrawn on a terminal. */
import type { ListComparison } from "@payments/copy"
import type { Lists } from "@payments/core"
import { canRedraw, drawProgress, eraseProgress } from "@payments/program"
import { Effect, Schedule, Stdio, Terminal } from "effect"
import { addSample, type ListProgress, progressLines, startProgress } from "./ProgressLines.ts"

/** The width if the terminal does not report one. */
const defaultWidth = 80

/** Makes the progress. `during` redraws the line while an effect runs, and removes it at its end. */
export const makeDiffProgress = Effect.gen(function*() {
  const stdio = yield* Stdio.Stdio
  const terminal = yield* Terminal.Terminal
  const redraws = yield* canRedraw
  let current: { readonly progress: ListProgress; readonly counted: ListComparison | undefined } | undefined
  const line = (): string => {
    if (current === undefined) return ""
    const { counted, progress } = current
    if (counted === undefined) return `${progress.label}  totals`
    progress.records = Math.max(counted.a, counted.b)
    addSample(progress, performance.now())
    return progressLines([progress], performance.now()).join("")
  }
  const drawNow = Effect.flatMap(terminal.columns, (columns) => {
    const text = line()
    // The line must not wrap, also if the terminal shows ^C after it.
    return text === "" ? Effect.void : drawProgress(text.slice(0, (columns || defaultWidth) - "^C".length - 1))
  })
  const draw = redraws ? Effect.provideService(drawNow, Stdio.Stdio, stdio) : Effect.void
  const redrawing = Effect.repeat(draw, Schedule.spaced("200 millis")).pipe(Effect.andThen(Effect.never))
  return {
    /** Shows that the totals of a list are computed. */
    totals: (list: Lists.AnyList) =>
      Effect.suspend(() => {
        current = { progress: startProgress(list.label), counted: undefined }
        return draw
      }),
    /** Shows how many of the `expected` records of a list were compared. */
    records: (list: Lists.AnyList, counted: ListComparison, expected: number) =>
      Effect.suspend(() => {
        const progress = startProgress(list.label)
        progress.expected = expected
        current = { progress, counted }
        return draw
      }),
    during: <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      redraws
        ? Effect.raceFirst(effect, redrawing).pipe(
          Effect.ensuring(Effect.provideService(eraseProgress, Stdio.Stdio, stdio))
        )
        : effect
  }
})
