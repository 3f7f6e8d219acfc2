/** The lines of progress of an export: one for each list, with aligned figures. Times are milliseconds of a monotonic clock. */
import { ageText, counted, grouped } from "@payments/program"
import { Duration } from "effect"

export interface ListProgress {
  readonly label: string
  hasParts: boolean
  records: number
  /** The records of the last complete scan, if there was one and the whole list is read. */
  expected: number | undefined
  retries: number
  /** The number of waits before a page was requested again, and their total duration. */
  waits: number
  waitedMs: number
  waitsUntil: number | undefined
  state: "running" | "done" | "failed"
  /** The records at earlier moments, the oldest first. */
  readonly samples: Array<{ readonly at: number; readonly records: number }>
}

export const startProgress = (label: string): ListProgress => ({
  label,
  hasParts: false,
  records: 0,
  expected: undefined,
  retries: 0,
  waits: 0,
  waitedMs: 0,
  waitsUntil: undefined,
  state: "running",
  samples: []
})

/** The rate is that of the last seconds, so that it follows a service that becomes slower. */
const rateMs = 10_000
const sampleMs = 500

export const addSample = ({ records, samples }: ListProgress, now: number): void => {
  const last = samples.at(-1)
  if (last !== undefined && now - last.at < sampleMs) return
  samples.push({ at: now, records })
  while ((samples[1]?.at ?? now) < now - rateMs) samples.shift()
}

/** Returns the records per second, or undefined in the first second. */
const rateOf = ({ records, samples: [oldest] }: ListProgress, now: number): number | undefined =>
  oldest === undefined || now - oldest.at < 1000 ? undefined : (records - oldest.records) / (now - oldest.at) * 1000

const time = (ms: number): string => ageText(Duration.seconds(Math.ceil(ms / 1000)))

/** Formats the lists. The figures of all lists are aligned, and the least important ones come last. */
export const progressLines = (lists: ReadonlyArray<ListProgress>, now: number): ReadonlyArray<string> => {
  const rows = lists.map((list) => {
    const { expected, label, records, retries, state, waitedMs, waits, waitsUntil } = list
    const rate = rateOf(list, now)
    const left = expected === undefined ? 0 : expected - records
    const estimate = left > 0 && rate !== undefined && rate >= 1 ? [`about ${time(left / rate * 1000)} left`] : []
    const remaining = waitsUntil === undefined ? estimate : [`waits ${time(Math.max(0, waitsUntil - now))}`]
    return {
      cells: [
        label,
        grouped(records),
        // The list may be longer now, so an estimate never says that nothing is left.
        expected === undefined || expected === 0 || state !== "running"
          ? ""
          : `${Math.min(99, Math.floor(records / expected * 100))}%`,
        rate === undefined || state !== "running" ? "" : `${grouped(Math.round(rate))}/s`
      ],
      notes: [
        ...(state === "running" ? remaining : [state]),
        ...(retries === 0 ? [] : [retries === 1 ? "1 retry" : `${grouped(retries)} retries`]),
        ...(waits === 0 ? [] : [`${counted(waits, "wait")} (${time(waitedMs)})`])
      ]
    }
  })
  const widths = [0, 1, 2, 3].map((column) => Math.max(0, ...rows.map(({ cells }) => (cells[column] ?? "").length)))
  return rows.map(({ cells, notes }) =>
    [
      ...cells.flatMap((cell, column) => {
        const width = widths[column] ?? 0
        return width === 0 ? [] : [column === 0 ? cell.padEnd(width) : cell.padStart(width)]
      }),
      ...notes
    ].join("  ").trimEnd()
  )
}
