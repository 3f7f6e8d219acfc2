/** Shows people how an export goes: one line that changes on a terminal, few lines elsewhere. Talks on stderr. */
import { Lists, type PaymentsError } from "@payments/core"
import type { ScanEvent, ScanOutcome } from "@payments/export"
import { say } from "@payments/export/program"
import { Duration, Effect, Result, Stdio, Stream } from "effect"

const count = new Intl.NumberFormat("en-US")
const redrawEveryMs = 100

/** A line on stderr for each event that a person wants to know of. */
export const makeProgress = Effect.gen(function*() {
  const stdio = yield* Stdio.Stdio
  const live = yield* stdio.stderrIsTerminal
  const write = (text: string) => Effect.ignore(Stream.run(Stream.make(text), stdio.stderr()))
  const line = (text: string) => live ? write(`\r\u001b[K${text}\n`) : write(`${text}\n`)
  const records = new Map<Lists.ListName, number>()
  const retries = new Map<Lists.ListName, number>()
  let drawnAt = 0
  const draw = Effect.suspend(() => {
    const now = performance.now()
    if (!live || now - drawnAt < redrawEveryMs) return Effect.void
    drawnAt = now
    const parts = Array.from(records, ([list, read]) => `${Lists.byName[list].label} ${count.format(read)}`)
    const again = sum(retries.values())
    return write(`\r\u001b[K${parts.join("   ")}${again === 0 ? "" : `   retries ${count.format(again)}`}`)
  })
  const onEvent = (event: ScanEvent): Effect.Effect<void> => {
    const { label } = Lists.byName[event.list]
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
          `${label}: the service no longer accepts the cursor; reads the list from its start again, without doubling`
        )
    }
  }
  const clear = live ? write("\r\u001b[K") : Effect.void
  return { onEvent, clear }
})

const columns = ["records", "new", "changed", "unchanged", "pages", "retries", "seconds"] as const

/** The result of an export as lines for people. */
export const summarize = (outcomes: ReadonlyArray<ScanOutcome>): ReadonlyArray<string> => {
  const scans = outcomes.flatMap(({ result }) => Result.isSuccess(result) ? [result.success] : [])
  if (scans.length === 0) return []
  const row = (name: string, cells: ReadonlyArray<string>) =>
    name.padEnd(16) + cells.map((cell) => cell.padStart(10)).join("")
  const rows = scans.map((scan) =>
    row(Lists.byName[scan.list].label, [
      ...[scan.records, scan.inserted, scan.updated, scan.unchanged, scan.pages, scan.retries].map((number) =>
        count.format(number)
      ),
      Duration.toSeconds(scan.elapsed).toFixed(1)
    ])
  )
  const notes = scans.flatMap(({ list, quarantined, start }) => [
    ...(start === "resumed"
      ? [`${Lists.byName[list].label}: went on where an earlier run was cut; retries and seconds are this run's`]
      : []),
    ...(quarantined === 0
      ? []
      : [
        `${Lists.byName[list].label}: not as documented: ${count.format(quarantined)} records, see the table quarantine`
      ])
  ])
  return [row("", columns), ...rows, ...notes]
}

/** Says what went wrong with each list that failed. */
export const sayFailures = (outcomes: ReadonlyArray<ScanOutcome>) =>
  Effect.forEach(
    outcomes,
    ({ result }) => Result.isFailure(result) ? say(`payments: ${messageOf(result.failure)}`) : Effect.void,
    { discard: true }
  )

const messageOf = (error: PaymentsError | { readonly message: string }): string => error.message

const sum = (numbers: Iterable<number>): number => Array.from(numbers).reduce((left, right) => left + right, 0)
