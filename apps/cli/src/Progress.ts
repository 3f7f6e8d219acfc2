/** The progress of an export on stderr: one line that is redrawn on a terminal, and a line for each unusual event. */
import { Lists, type PaymentsError } from "@payments/core"
import type { ScanEvent, ScanOutcome } from "@payments/export"
import { canRedraw, drawProgress, eraseProgress, logLine } from "@payments/export/program"
import { Duration, Effect, Result, Stdio, Terminal } from "effect"
import type { StartEvent } from "./Summary.ts"

const count = new Intl.NumberFormat("en-US")
const redrawEveryMs = 100
/** The width if the terminal does not report one. */
const defaultWidth = 80

/**
 * Makes the handler of scan events. Without a stored destination the records go to stdout. The line is then not redrawn if
 * stdout is the terminal, too.
 */
export const makeProgress = Effect.fnUntraced(function*(isStored: boolean) {
  const stdio = yield* Stdio.Stdio
  const redraws = (yield* canRedraw) && (isStored || !(yield* stdio.stdoutIsTerminal))
  const width = (yield* (yield* Terminal.Terminal).columns) || defaultWidth
  const line = (text: string) => Effect.provideService(logLine(text), Stdio.Stdio, stdio)
  const records = new Map<Lists.ListName, number>()
  const retries = new Map<Lists.ListName, number>()
  const startEvents: Array<StartEvent> = []
  /** The lists whose filling was printed. Each part of a list sends the event. */
  const filling = new Set<Lists.ListName>()
  let drawnAt = 0
  const draw = Effect.suspend(() => {
    const now = performance.now()
    if (!redraws || now - drawnAt < redrawEveryMs) return Effect.void
    drawnAt = now
    const parts = Array.from(records, ([list, read]) => `${Lists.byName[list].label} ${count.format(read)}`)
    const retried = sum(retries.values())
    const text = `${parts.join("   ")}${retried === 0 ? "" : `   retries ${count.format(retried)}`}`
    // The line must not wrap: the terminal would erase only its last row.
    return Effect.provideService(drawProgress(text.slice(0, width - 1)), Stdio.Stdio, stdio)
  })
  const onEvent = (event: ScanEvent): Effect.Effect<void> => {
    const { label } = Lists.byName[event.list]
    if (event._tag === "Begun" || event._tag === "Restarted") startEvents.push(event)
    switch (event._tag) {
      case "Begun":
        records.set(event.list, event.progress.records)
        return event.start === "resumed"
          ? line(`${label}: resumes after ${count.format(event.progress.records)} records of an earlier run`)
          : draw
      case "Filling": {
        if (filling.has(event.list)) return Effect.void
        filling.add(event.list)
        const { columns, filled, rows } = event.filling
        const done = filled === 0 ? "" : ` (an earlier run filled ${count.format(filled)} of them)`
        return line(`${label}: filling new columns of ${count.format(rows)} rows first${done}: ${columns.join(", ")}`)
      }
      case "Committed":
        records.set(event.list, event.progress.records)
        retries.set(event.list, event.retries)
        return draw
      case "Waiting":
        return line(
          `${event.error.message} Retries in ${
            Duration.format(Duration.seconds(Math.ceil(Duration.toSeconds(event.wait))))
          }.`
        )
      case "Ended":
        return draw
      case "Restarted":
        return line(
          `${label}: the service no longer accepts the cursor. The scan starts again from the first page; ${
            isStored ? "no row is stored twice" : "its records are printed again"
          }`
        )
    }
  }
  const clear = Effect.provideService(eraseProgress, Stdio.Stdio, stdio)
  return { onEvent, clear, startEvents }
})

/** Prints the error of each failed list. If several lists have the same error, prints it once. */
export const logFailures = (outcomes: ReadonlyArray<ScanOutcome>) =>
  Effect.forEach(
    new Set(outcomes.flatMap(({ result }) => Result.isFailure(result) ? [messageOf(result.failure)] : [])),
    (message) => logLine(`payments: ${message}`),
    { discard: true }
  )

const messageOf = (error: PaymentsError | { readonly message: string }): string => error.message

const sum = (numbers: Iterable<number>): number => Array.from(numbers).reduce((left, right) => left + right, 0)
