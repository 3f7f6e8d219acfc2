/** Shows people how an export goes: one line that changes on a terminal, few lines elsewhere. Talks on stderr. */
import { Lists, type PaymentsError } from "@payments/core"
import type { ScanEvent, ScanOutcome, ScanSummary } from "@payments/export"
import { say } from "@payments/export/program"
import { Duration, Effect, Result, Stdio, Stream } from "effect"

const count = new Intl.NumberFormat("en-US")
const redrawEveryMs = 100

/** A line on stderr for each event that a person wants to know of. Records that are not kept may go to the same terminal. */
export const makeProgress = Effect.fnUntraced(function*(isKept: boolean) {
  const stdio = yield* Stdio.Stdio
  const live = (yield* stdio.stderrIsTerminal) && (isKept || !(yield* stdio.stdoutIsTerminal))
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
          `${label}: the service no longer accepts the cursor; reads the list from its start again, ${
            isKept ? "without doubling" : "and prints it again"
          }`
        )
    }
  }
  const clear = live ? write("\r\u001b[K") : Effect.void
  return { onEvent, clear }
})

/** What is counted of a list; where nothing is kept, nothing is new and nothing has changed. */
const columnsOf = (isKept: boolean): ReadonlyArray<readonly [name: string, of: (scan: ScanSummary) => number]> => [
  ["records", ({ records }) => records],
  ...isKept ? keptColumns : [],
  ["pages", ({ pages }) => pages],
  ["retries", ({ retries }) => retries]
]

const keptColumns: ReturnType<typeof columnsOf> = [
  ["new", ({ inserted }) => inserted],
  ["changed", ({ updated }) => updated],
  ["unchanged", ({ unchanged }) => unchanged],
  ["missing", ({ missing }) => missing]
]

/** The result of an export as lines for people. */
export const summarize = (outcomes: ReadonlyArray<ScanOutcome>, isKept: boolean): ReadonlyArray<string> => {
  const lists = outcomes.flatMap(({ list, result }) =>
    Result.isSuccess(result) && result.success.length > 0
      ? [{ label: Lists.byName[list].label, scans: result.success }]
      : []
  )
  if (lists.length === 0) return []
  const row = (name: string, cells: ReadonlyArray<string>) =>
    name.padEnd(16) + cells.map((cell) => cell.padStart(10)).join("")
  const columns = columnsOf(isKept)
  const rows = lists.map(({ label, scans }) =>
    row(label, [
      ...columns.map(([, of]) => count.format(sum(scans.map(of)))),
      Math.max(...scans.map(({ elapsed }) => Duration.toSeconds(elapsed))).toFixed(1)
    ])
  )
  return [
    row("", [...columns.map(([name]) => name), "seconds"]),
    ...rows,
    ...lists.flatMap(({ label, scans }) => notesOf(scans, isKept).map((note) => `${label}: ${note}`))
  ]
}

/** What a person should know of a list beside its figures. */
const notesOf = (scans: ReadonlyArray<ScanSummary>, isKept: boolean): ReadonlyArray<string> => {
  const parts = scans.filter(({ part }) => part !== undefined).length
  const resumed = scans.filter(({ start }) => start === "resumed").length
  const total = (of: (scan: ScanSummary) => number) => sum(scans.map(of))
  const quarantined = total((scan) => scan.quarantined)
  const heldBack = total((scan) => scan.heldBack)
  const returned = total((scan) => scan.returned)
  const repeats = total((scan) => scan.repeats)
  const replaced = total((scan) => scan.replaced)
  const undocumented = new Map<string, number>()
  for (const scan of scans) {
    for (const [path, times] of Object.entries(scan.undocumented)) {
      undocumented.set(path, (undocumented.get(path) ?? 0) + times)
    }
  }
  return [
    ...(parts === 0
      ? []
      : [`${count.format(parts)} parts; what is in none of them was not read, and nothing is concluded missing`]),
    ...(resumed === 0 ? [] : [
      parts === 0
        ? "went on where an earlier run was cut; retries and seconds are this run's"
        : `${count.format(resumed)} parts went on where an earlier run was cut`
    ]),
    ...(scans.some(({ start }) => start === "otherRequest")
      ? ["began anew: the run that was cut had another limit, other parameter names or other ignored fields"]
      : []),
    ...(returned === 0 ? [] : [`${count.format(returned)} records that were missing are there again`]),
    ...(repeats === 0 ? [] : [`${count.format(repeats)} records came more than once; the last one read stands`]),
    ...(heldBack === 0 ? [] : [
      `${
        count.format(heldBack)
      } records did not come, too many to be marked missing at once: look why, and if it is right run again with a higher --missing-limit`
    ]),
    ...(quarantined === 0
      ? []
      : [
        `not as documented: ${count.format(quarantined)} records, ${
          isKept ? "see the table quarantine" : "printed as they came"
        }`
      ]),
    ...(replaced === 0 ? [] : [
      `${
        count.format(replaced)
      } texts hold characters that not every database takes: their columns have U+FFFD there, raw has them whole`
    ]),
    ...(undocumented.size === 0 ? [] : [
      `fields that the document does not show: ${
        Array.from(undocumented, ([path, times]) => `${path} (${count.format(times)})`).join(", ")
      }`
    ])
  ]
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
