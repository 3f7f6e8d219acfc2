/** The progress of an export on stderr: a line for each list that is redrawn on a terminal, and a line for each unusual event. */
import type { ScanEvent, ScanOutcome, Sink } from "@payments/copy"
import { Lists, type PaymentsError } from "@payments/core"
import { canRedraw, counted, drawProgress, eraseProgress, grouped, logLine } from "@payments/program"
import { Duration, Effect, Result, Schedule, Stdio, Terminal } from "effect"
import type { StartEvent } from "../output/Summary.ts"
import { addSample, type ListProgress, progressLines, startProgress } from "./ProgressLines.ts"

const redrawEveryMs = 100
/** The width if the terminal does not report one. */
const defaultWidth = 80

/**
 * Makes the handler of scan events. Without a stored destination the records go to stdout. The lines are then not redrawn if
 * stdout is the terminal, too. `during` redraws them while an effect runs, and removes them at its end.
 */
export const makeProgress = Effect.fnUntraced(function*(sink: Sink["Service"], isStored: boolean) {
  const stdio = yield* Stdio.Stdio
  const terminal = yield* Terminal.Terminal
  const redraws = (yield* canRedraw) && (isStored || !(yield* stdio.stdoutIsTerminal))
  const line = (text: string) => Effect.provideService(logLine(text), Stdio.Stdio, stdio)
  const lists = new Map<Lists.ListName, ListProgress>()
  const startEvents: Array<StartEvent> = []
  let drawnAt = 0
  const drawNow = Effect.flatMap(terminal.columns, (columns) => {
    drawnAt = performance.now()
    // No line may wrap, also if the terminal shows ^C after it: only its last row would be erased.
    const room = (columns || defaultWidth) - "^C".length - 1
    const lines = progressLines([...lists.values()], drawnAt).map((text) => text.slice(0, room))
    return Effect.provideService(drawProgress(lines.join("\n")), Stdio.Stdio, stdio)
  })
  const draw = Effect.suspend(() =>
    redraws && lists.size > 0 && performance.now() - drawnAt >= redrawEveryMs ? drawNow : Effect.void
  )
  const progressOf = (name: Lists.ListName): ListProgress => {
    const known = lists.get(name)
    if (known !== undefined) return known
    const started = startProgress(Lists.byName[name].label)
    lists.set(name, started)
    return started
  }
  /** Returns the records of the list's last complete scan. The export does not need them, so an error is ignored. */
  const lastRecords = (name: Lists.ListName): Effect.Effect<number | undefined> =>
    redraws && sink.inspect !== undefined
      ? sink.inspect.freshness([Lists.byName[name]]).pipe(
        Effect.map(([found]) => found?.completeScan?.certificate?.records),
        Effect.orElseSucceed(() => undefined)
      )
      : Effect.undefined
  const handle = handlerOf({ draw, isStored, lastRecords, line })
  const onEvent = (event: ScanEvent): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (event._tag === "Begun" || event._tag === "Restarted") startEvents.push(event)
      const progress = progressOf(event.list)
      if (event._tag !== "Waiting") progress.waitsUntil = undefined
      return handle(event, progress)
    })
  const clear = Effect.provideService(eraseProgress, Stdio.Stdio, stdio)
  /** Waits and rates change without events. */
  const redrawing = Effect.repeat(draw, Schedule.spaced("500 millis")).pipe(Effect.andThen(Effect.never))
  const during = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    (redraws ? Effect.raceFirst(effect, redrawing) : effect).pipe(Effect.ensuring(clear))
  return { onEvent, during, startEvents }
})

/** Returns the handler of events. It updates the progress of the list, and prints a line for an unusual event. */
const handlerOf = ({ draw, isStored, lastRecords, line }: {
  readonly draw: Effect.Effect<void>
  readonly isStored: boolean
  readonly lastRecords: (name: Lists.ListName) => Effect.Effect<number | undefined>
  readonly line: (text: string) => Effect.Effect<void>
}) => {
  /** The lists whose filling was printed. Each part of a list sends the event. */
  const filling = new Set<Lists.ListName>()
  const lineOf = ({ list }: ScanEvent, text: string) => line(`${Lists.byName[list].label}: ${text}`)
  return (event: ScanEvent, progress: ListProgress): Effect.Effect<void> => {
    switch (event._tag) {
      case "Begun":
        return Effect.gen(function*() {
          progress.records += event.progress.records
          addSample(progress, performance.now())
          progress.hasParts = event.part !== undefined
          if (event.part === undefined) progress.expected = yield* lastRecords(event.list)
          yield* event.start === "resumed"
            ? lineOf(event, `resumes after ${counted(event.progress.records, "record")} of an earlier run`)
            : draw
        })
      case "Filling": {
        if (filling.has(event.list)) return Effect.void
        filling.add(event.list)
        const { columns, filled, rows } = event.filling
        const done = filled === 0 ? "" : ` (an earlier run filled ${grouped(filled)} of them)`
        return lineOf(event, `filling new columns of ${counted(rows, "row")} first${done}: ${columns.join(", ")}`)
      }
      case "Committed":
        progress.records += event.progress.records - event.before.records
        progress.retries = event.retries
        addSample(progress, performance.now())
        return draw
      case "Waiting": {
        const { error, wait } = event
        progress.waits++
        progress.waitedMs += Duration.toMillis(wait)
        progress.waitsUntil = performance.now() + Duration.toMillis(wait)
        const seconds = Duration.seconds(Math.ceil(Duration.toSeconds(wait)))
        return line(`${error.message} Retries in ${Duration.format(seconds)}.`)
      }
      case "Ended":
        progress.state = event.outcome.result._tag === "Success" ? "done" : "failed"
        return draw
      case "Restarted":
        // Of several parts, only one starts again, and the event does not say after how many records.
        if (!progress.hasParts) progress.records = 0
        progress.samples.length = 0
        return lineOf(
          event,
          `the service no longer accepts the cursor. The scan starts again from the first page; ${
            isStored ? "no row is stored twice" : "its records are printed again"
          }`
        )
    }
  }
}

/** Prints the error of each failed list. If several lists have the same error, prints it once. */
export const logFailures = (outcomes: ReadonlyArray<ScanOutcome>) =>
  Effect.forEach(
    new Set(outcomes.flatMap(({ result }) => Result.isFailure(result) ? [messageOf(result.failure)] : [])),
    (message) => logLine(`payments: ${message}`),
    { discard: true }
  )

const messageOf = (error: PaymentsError | { readonly message: string }): string => error.message
