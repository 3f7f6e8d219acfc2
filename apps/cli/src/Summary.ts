/**
 * The result of an export as lines for people: the figures, what is unusual about a scan, and, apart from that, what went
 * wrong.
 */
import { Lists } from "@payments/core"
import type { ScanEvent, ScanOutcome, ScanSummary } from "@payments/export"
import { Duration, Result } from "effect"

const count = new Intl.NumberFormat("en-US")
const counted = (number: number, thing: string) => `${count.format(number)} ${thing}${number === 1 ? "" : "s"}`

/** What only the events of a scan tell. */
export type Told = Extract<ScanEvent, { readonly _tag: "Begun" | "Restarted" }>

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

/** The result of an export as lines for people; the figures keep to the width of a terminal. */
export const summarize = (
  outcomes: ReadonlyArray<ScanOutcome>,
  told: ReadonlyArray<Told>,
  isKept: boolean,
  width: number
): ReadonlyArray<string> => {
  const lists = outcomes.map(({ list, result }) => ({
    label: Lists.byName[list].label,
    scans: Result.isSuccess(result) ? result.success : [],
    events: told.filter((event) => event.list === list)
  }))
  const retried = lists.some(({ scans }) => scans.some(({ retries }) => retries > 0))
  return [
    ...tableOf(lists.filter(({ scans }) => scans.length > 0), isKept, width),
    ...(retried ? ["retries: requests that failed and were sent again; no record was lost"] : []),
    ...lists.flatMap(({ events, label, scans }) =>
      [...beginningsOf(events, isKept, scans.length > 0), ...notesOf(scans)].map((note) => `${label}: ${note}`)
    )
  ]
}

/** What went wrong with lists that were read to their end, if anything: it stands after everything else. */
export const problemsOf = (outcomes: ReadonlyArray<ScanOutcome>, destination: Destination): ReadonlyArray<string> =>
  outcomes.flatMap(({ list, result }) => {
    const scans = Result.isSuccess(result) ? result.success : []
    const [heldBack, quarantined] = [
      sum(scans.map((scan) => scan.heldBack)),
      sum(scans.map((scan) => scan.quarantined))
    ]
    return [
      ...(heldBack === 0 ? [] : [
        `${
          counted(heldBack, "record")
        } did not come, too many to be marked missing at once: look why, and if it is right run again with a higher --missing-limit`
      ]),
      ...(quarantined === 0 ? [] : [
        `not as documented: ${counted(quarantined, "record")}, ${
          destination === "stdout"
            ? "printed all the same"
            : `listed by: payments quarantine --from ${shellWord(destination.location)}`
        }`
      ])
    ].map((problem) => `${Lists.byName[list].label}: ${problem}`)
  })

/** Where the records went. */
type Destination = "stdout" | { readonly location: string }

/** Text as one word of a command. */
const shellWord = (text: string): string => /^[\w./:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** The figures of the lists that were read to their end, if any. */
const tableOf = (
  lists: ReadonlyArray<{ readonly label: string; readonly scans: ReadonlyArray<ScanSummary> }>,
  isKept: boolean,
  width: number
): ReadonlyArray<string> => {
  if (lists.length === 0) return []
  const columns = [
    ["", ...lists.map(({ label }) => label)],
    ...columnsOf(isKept).flatMap(([name, of]) => {
      const sums = lists.map(({ scans }) => sum(scans.map(of)))
      // Nobody needs to be told that nothing had to be asked for again.
      return name === "retries" && sums.every((times) => times === 0)
        ? []
        : [[name, ...sums.map((number) => count.format(number))]]
    }),
    [
      "seconds",
      ...lists.map(({ scans }) => Math.max(...scans.map(({ elapsed }) => Duration.toSeconds(elapsed))).toFixed(1))
    ]
  ]
  const lines = aligned(columns)
  if (lines.every((line) => line.length <= width)) return lines
  // One line a figure is narrower than one line a list.
  return aligned(["", ...lists].map((_, row) => columns.map((cells) => cells[row] ?? "")))
}

/** Columns of cells as lines, the first column to the left and the others to the right. */
const aligned = (columns: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const padded = columns.map((cells, column) => {
    const width = Math.max(...cells.map((cell) => cell.length))
    return cells.map((cell) => column === 0 ? cell.padEnd(width) : cell.padStart(width))
  })
  return (padded[0] ?? []).map((_, row) => padded.map((cells) => cells[row] ?? "").join("  "))
}

/** Why a scan did not go on where an earlier one was cut. A first scan, and one after a complete one, need no reason. */
const reasons = {
  // Perhaps by a run in between that came to no page of its own: for either of these reasons.
  otherRequest:
    "began anew: since an earlier run was cut, another limit, other parameter names or other ignored fields were asked for, or another cut of the list was written",
  overtaken:
    "began anew: since an earlier run was cut, another cut of the list was written (parts, or for a part the whole list)",
  afterFailure: "began anew: the scan before could not reach the end of the list"
} as const

/** Where the scans of a list went on, or why they did not go on with one that was cut; nothing where none is kept. */
const beginningsOf = (events: ReadonlyArray<Told>, isKept: boolean, hasFigures: boolean): ReadonlyArray<string> => {
  const begun = events.filter((event) => event._tag === "Begun")
  const restarts = events.length - begun.length
  const parts = begun.filter(({ part }) => part !== undefined).length
  return [
    ...[...isKept ? Map.groupBy(begun, ({ start }) => start) : []].flatMap(([start, scans]) => {
      if (start === "first" || start === "afterComplete") return []
      const which = parts === 0 ? "" : `${counted(scans.length, "part")} `
      if (start !== "resumed") return [`${which}${reasons[start]}`]
      const [pages, records] = [
        sum(scans.map(({ progress }) => progress.pages)),
        sum(scans.map(({ progress }) => progress.records))
      ]
      return [
        `${which}went on where an earlier run was cut, ${
          parts === 0 ? `at page ${count.format(pages + 1)}, ` : ""
        }after ${counted(records, "record")}${hasFigures ? "; retries and seconds are this run's" : ""}`
      ]
    }),
    ...(restarts === 0 ? [] : [
      `began at the first page again, ${
        restarts === 1 ? "once" : `${count.format(restarts)} times`
      }: a cursor was refused or led in circles`
    ])
  ]
}

/** What a person should know of a list beside its figures. */
const notesOf = (scans: ReadonlyArray<ScanSummary>): ReadonlyArray<string> => {
  const parts = scans.filter(({ part }) => part !== undefined).length
  const total = (of: (scan: ScanSummary) => number) => sum(scans.map(of))
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
      : [`${counted(parts, "part")}; what is in none of them was not read, and nothing is concluded missing`]),
    ...(returned === 0 ? [] : [`${counted(returned, "record")} there again after having been missing`]),
    ...(repeats === 0 ? [] : [`${counted(repeats, "record")} came more than once; the last one read stands`]),
    ...(replaced === 0 ? [] : [
      `${
        counted(replaced, "text")
      } with characters that not every database takes: U+FFFD stands for them in the columns, raw has them as they are`
    ]),
    ...(undocumented.size === 0 ? [] : [
      `fields that the document does not show: ${
        Array.from(undocumented, ([path, times]) => `${path} (${count.format(times)})`).join(", ")
      }`
    ])
  ]
}

const sum = (numbers: Iterable<number>): number => Array.from(numbers).reduce((left, right) => left + right, 0)
