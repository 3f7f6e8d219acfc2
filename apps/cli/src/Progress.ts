/** Shows people how an export goes: one line that changes on a terminal, few lines elsewhere. Talks on stderr. */
import { Lists, type PaymentsError } from "@payments/core"
import type { ScanEvent, ScanOutcome } from "@payments/export"
import { canRedraw, drawProgress, eraseProgress, logLine } from "@payments/export/program"
import { Duration, Effect, Result, Stdio, Terminal } from "effect"
import type { Told } from "./Summary.ts"

const count = new Intl.NumberFormat("en-US")
const redrawEveryMs = 100
/** Where the terminal does not say its width. */
const usualWidth = 80

/** A line on stderr for each event that a person wants to know of. Records that are not kept may go to the same terminal. */
export const makeProgress = Effect.fnUntraced(function*(isKept: boolean) {
  const stdio = yield* Stdio.Stdio
  const live = (yield* canRedraw) && (isKept || !(yield* stdio.stdoutIsTerminal))
  const width = (yield* (yield* Terminal.Terminal).columns) || usualWidth
  const line = (text: string) => Effect.provideService(logLine(text), Stdio.Stdio, stdio)
  const records = new Map<Lists.ListName, number>()
  const retries = new Map<Lists.ListName, number>()
  const told: Array<Told> = []
  let drawnAt = 0
  const draw = Effect.suspend(() => {
    const now = performance.now()
    if (!live || now - drawnAt < redrawEveryMs) return Effect.void
    drawnAt = now
    const parts = Array.from(records, ([list, read]) => `${Lists.byName[list].label} ${count.format(read)}`)
    const again = sum(retries.values())
    const text = `${parts.join("   ")}${again === 0 ? "" : `   retries ${count.format(again)}`}`
    // A line that wraps could not be taken away: only its last row would be.
    return Effect.provideService(drawProgress(text.slice(0, width - 1)), Stdio.Stdio, stdio)
  })
  const onEvent = (event: ScanEvent): Effect.Effect<void> => {
    const { label } = Lists.byName[event.list]
    if (event._tag === "Begun" || event._tag === "Restarted") told.push(event)
    switch (event._tag) {
      case "Begun":
        records.set(event.list, event.progress.records)
        return event.start === "resumed"
          ? line(`${label}: goes on after ${count.format(event.progress.records)} records of an earlier run`)
          : draw
      case "Committed":
        records.set(event.list, event.progress.records)
        retries.set(event.list, event.retries)
        return draw
      case "Waiting":
        return line(
          `${event.error.message} Asks again in ${
            Duration.format(Duration.seconds(Math.ceil(Duration.toSeconds(event.wait))))
          }.`
        )
      case "Ended":
        return draw
      case "Restarted":
        return line(
          `${label}: the service no longer accepts the cursor; reads the list from its start again, ${
            isKept ? "without doubling" : "and prints it again"
          }`
        )
    }
  }
  const clear = Effect.provideService(eraseProgress, Stdio.Stdio, stdio)
  return { onEvent, clear, told }
})

/** Says what went wrong with each list that failed; what is the same of several, once. */
export const sayFailures = (outcomes: ReadonlyArray<ScanOutcome>) =>
  Effect.forEach(
    new Set(outcomes.flatMap(({ result }) => Result.isFailure(result) ? [messageOf(result.failure)] : [])),
    (message) => logLine(`payments: ${message}`),
    { discard: true }
  )

const messageOf = (error: PaymentsError | { readonly message: string }): string => error.message

const sum = (numbers: Iterable<number>): number => Array.from(numbers).reduce((left, right) => left + right, 0)
