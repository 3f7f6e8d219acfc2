/**
 * The result of an export as lines for people: the figures, notes on unusual scans, and the problems that need attention.
 */
import { driftLine, type ScanEvent, type ScanOutcome, type ScanSummary } from "@payments/copy"
import { Lists } from "@payments/core"
import { counted, grouped, shellWord } from "@payments/program"
import { Duration, Result } from "effect"
import { wrapWords } from "./TextWidth.ts"

/** An event that says where a scan starts. The outcome of the scan does not contain it. */
export type StartEvent = Extract<ScanEvent, { readonly _tag: "Begun" | "Restarted" }>

/** The figures of a list. Only a stored destination can count new, changed, unchanged and missing rows. */
const columnsOf = (isStored: boolean): ReadonlyArray<readonly [name: string, of: (scan: ScanSummary) => number]> => [
  ["records", ({ records }) => records],
  ...isStored ? storedColumns : [],
  ["pages", ({ pages }) => pages],
  ["retries", ({ retries }) => retries]
]

const storedColumns: ReturnType<typeof columnsOf> = [
  ["new", ({ inserted }) => inserted],
  ["changed", ({ updated }) => updated],
  ["unchanged", ({ unchanged }) => unchanged],
  ["missing", ({ missing }) => missing]
]

/** Returns the figures and the notes. They fit the width of the terminal. */
export const summarize = (
  outcomes: ReadonlyArray<ScanOutcome>,
  startEvents: ReadonlyArray<StartEvent>,
  isStored: boolean,
  width: number
): ReadonlyArray<string> => {
  const lists = outcomes.map(({ list, result }) => ({
    label: Lists.byName[list].label,
    scans: Result.isSuccess(result) ? result.success : [],
    events: startEvents.filter((event) => event.list === list)
  }))
  const retried = lists.some(({ scans }) => scans.some(({ retries }) => retries > 0))
  const notes = [
    ...(retried ? ["retries: requests that failed and were sent again; no record was lost"] : []),
    ...lists.flatMap(({ events, label, scans }) =>
      [...startNotesOf(events, isStored, scans.length > 0), ...notesOf(scans)].map((note) => `${label}: ${note}`)
    )
  ]
  return [
    ...tableOf(lists.filter(({ scans }) => scans.length > 0), isStored, width),
    ...notes.flatMap((note) => width === Infinity ? [note] : wrapWords(note, width))
  ]
}

/** Returns the problems of the lists that were read completely. They are printed last. */
export const problemsOf = (
  outcomes: ReadonlyArray<ScanOutcome>,
  destination: Destination,
  /** Returns the command that accepts that so many records of a list are missing. */
  acceptMissing: (list: Lists.ListName, records: number) => string,
  /** Whether the rule for personal data holds records with undocumented fields, which are quarantined too. */
  isHolding = false
): ReadonlyArray<string> =>
  outcomes.flatMap(({ list, result }) => {
    const scans = Result.isSuccess(result) ? result.success : []
    const heldBack = sumOf(scans, (scan) => scan.heldBack)
    const quarantined = sumOf(scans, (scan) => scan.quarantined)
    const isShort = scans.some(({ drift }) => drift.some(({ mayLackRecords }) => mayLackRecords))
    return [
      ...(isShort ? [missingRecords(list, destination)] : []),
      ...(heldBack === 0 ? [] : [
        `${counted(heldBack, "record")} held back: ${
          scans.some(({ heldBackBy }) => heldBackBy === "requests")
            ? "they are too many to look for in one scan"
            : "too many would be marked missing at once"
        }. Find out why; if they are really gone, run: ${acceptMissing(list, heldBack)}`
      ]),
      ...(quarantined === 0 ? [] : [
        `records that do not match the document${isHolding ? " or wait for a decision about a field" : ""}: ${
          grouped(quarantined)
        }; ${
          destination === "stdout"
            ? "printed anyway"
            : `list them with: payments quarantine --from ${shellWord(destination.location)}`
        }`
      ])
    ].map((problem) => `${Lists.byName[list].label}: ${problem}`)
  })

/** `count` gave the number of records of the list until now. */
const missingRecords = (list: Lists.ListName, destination: Destination): string => {
  const place = destination === "stdout"
    ? ""
    : ` --list ${Lists.byName[list].label} --from ${shellWord(destination.location)}`
  return `the service counts more records than it has returned, so the copy may lack some. Find out why; if count means something else now, run: payments facts accept count${place}`
}

/** The destination of the records. */
type Destination = "stdout" | { readonly location: string }

/** Returns the table of figures of the lists that were read completely, or no lines if there is none. */
const tableOf = (
  lists: ReadonlyArray<{ readonly label: string; readonly scans: ReadonlyArray<ScanSummary> }>,
  isStored: boolean,
  width: number
): ReadonlyArray<string> => {
  if (lists.length === 0) return []
  const columns = [
    ["", ...lists.map(({ label }) => label)],
    ...columnsOf(isStored).flatMap(([name, of]) => {
      const sums = lists.map(({ scans }) => sumOf(scans, of))
      // A column of zero retries is omitted.
      return name === "retries" && sums.every((times) => times === 0)
        ? []
        : [[name, ...sums.map((number) => grouped(number))]]
    }),
    [
      "seconds",
      ...lists.map(({ scans }) => Math.max(...scans.map(({ elapsed }) => Duration.toSeconds(elapsed))).toFixed(1))
    ]
  ]
  const lines = aligned(columns)
  if (lines.every((line) => line.length <= width)) return lines
  // The table is too wide. A table with one line per figure is narrower than one with one line per list.
  return aligned(["", ...lists].map((_, row) => columns.map((cells) => cells[row] ?? "")))
}

/** Joins columns of cells into lines. Aligns the first column left and the others right. */
const aligned = (columns: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<string> => {
  const padded = columns.map((cells, column) => {
    const width = Math.max(...cells.map((cell) => cell.length))
    return cells.map((cell) => column === 0 ? cell.padEnd(width) : cell.padStart(width))
  })
  return (padded[0] ?? []).map((_, row) => padded.map((cells) => cells[row] ?? "").join("  "))
}

/** Why a scan did not resume an interrupted run. A first scan and a scan after a complete one need no reason. */
const reasons = {
  // If the latest scan began but committed no page, the destination does not show why that scan began. So the text names
  // every possible cause.
  otherRequest:
    "started from the first page: since the interrupted run, the limit, the parameter names or the ignored fields changed, the list was exported in another way (in parts, or as a whole), or personal data was erased or rewritten",
  overtaken:
    "started from the first page: since the interrupted run, the list was exported in another way (in parts, or as a whole)",
  afterFailure: "started from the first page: the previous scan could not reach the end of the list"
} as const

/** Returns where the scans of a list resumed, or why they did not resume. Returns nothing if the destination is stdout. */
const startNotesOf = (
  events: ReadonlyArray<StartEvent>,
  isStored: boolean,
  hasFigures: boolean
): ReadonlyArray<string> => {
  const begun = events.filter((event) => event._tag === "Begun")
  const restarts = events.length - begun.length
  const parts = begun.filter(({ part }) => part !== undefined).length
  return [
    ...[...isStored ? Map.groupBy(begun, ({ start }) => start) : []].flatMap(([start, scans]) => {
      if (start === "first" || start === "afterComplete") return []
      const which = parts === 0 ? "" : `${counted(scans.length, "part")} `
      if (start !== "resumed") return [`${which}${reasons[start]}`]
      const pages = sumOf(scans, ({ progress }) => progress.pages)
      const records = sumOf(scans, ({ progress }) => progress.records)
      return [
        `${which}resumed where an earlier run was interrupted, ${
          parts === 0 ? `at page ${grouped(pages + 1)}, ` : ""
        }after ${counted(records, "record")}${hasFigures ? "; retries and seconds are those of this run only" : ""}`
      ]
    }),
    ...(restarts === 0 ? [] : [
      `started again from the first page, ${
        restarts === 1 ? "once" : `${grouped(restarts)} times`
      }: the service refused a cursor or repeated one`
    ])
  ]
}

/** Returns the notes on a list that its figures do not show. */
const notesOf = (scans: ReadonlyArray<ScanSummary>): ReadonlyArray<string> => {
  const parts = scans.filter(({ part }) => part !== undefined).length
  const returned = sumOf(scans, (scan) => scan.returned)
  const repeats = sumOf(scans, (scan) => scan.repeats)
  const skipped = sumOf(scans, (scan) => scan.skipped)
  const unchecked = sumOf(scans, (scan) => scan.unchecked)
  const replaced = sumOf(scans, (scan) => scan.replaced)
  const acceptedNothing = scans.some(({ accepted }) => accepted === 0)
  const undocumented = undocumentedIn(scans)
  return [
    ...(parts === 0
      ? []
      : [`${counted(parts, "part")}; records outside these parts were not read, and no record was marked missing`]),
    ...(acceptedNothing ? ["the last full scan held nothing back, so --accept-missing has no effect"] : []),
    ...(returned === 0 ? [] : [`${counted(returned, "record")} reappeared after being missing`]),
    ...(skipped === 0
      ? []
      : [`the list did not return ${counted(skipped, "record")} that a filter found; not missing`]),
    ...(unchecked === 0
      ? []
      : [`${counted(unchecked, "record")} could not be looked for, and not marked missing; the next scan tries again`]),
    ...(repeats === 0 ? [] : [`${counted(repeats, "record")} returned more than once; the last version is stored`]),
    ...(replaced === 0 ? [] : [
      `${
        counted(replaced, "text")
      } with characters that some databases cannot store: U+FFFD replaces them in the columns, raw is unchanged`
    ]),
    ...scans.flatMap(({ drift }) => drift.map(driftLine)),
    ...(undocumented.size === 0 ? [] : [
      `undocumented fields: ${Array.from(undocumented, ([path, times]) => `${path} (${grouped(times)})`).join(", ")}`
    ])
  ]
}

/** Counts the records with each undocumented field, by its path. */
export const undocumentedIn = (scans: ReadonlyArray<ScanSummary>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const { undocumented } of scans) {
    for (const [path, times] of Object.entries(undocumented)) counts.set(path, (counts.get(path) ?? 0) + times)
  }
  return counts
}

export const sumOf = <A>(items: ReadonlyArray<A>, of: (item: A) => number): number =>
  items.reduce((sum, item) => sum + of(item), 0)
