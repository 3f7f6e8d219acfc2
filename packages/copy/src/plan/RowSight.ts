/**
 * What the rows of a list show together once a scan of it is complete: how many records the service has created on each day, and
 * whether records share a reference. Pure.
 */
import type { Drift } from "../port/Drift.ts"
import type { Sighting } from "../port/Sink.ts"
import { exceedsChance } from "./Contents.ts"

export interface RowSight {
  /** When the last complete scan began, and the one before it, in milliseconds since 1970. Undefined without two of them. */
  readonly scans: { readonly before: number; readonly last: number } | undefined
  /** The number of records by the day of `createdAt`, such as `2026-05-01`, of the last {@link sightDays} days. */
  readonly created: ReadonlyMap<string, number>
  /** Undefined if no row was added since the scan before the last one began. */
  readonly references: References | undefined
}

/** The rows that the service still returns. */
export interface References {
  /** The rows with a reference. */
  readonly rows: number
  /** Those with a reference that an earlier row has. */
  readonly shared: number
  /** The number of the first of them. */
  readonly firstShared: number | undefined
  /** The first unused row number. */
  readonly nextRow: number
}

const msPerDay = 86_400_000

/** A day is judged by the days before it. So many have two ends of months. */
export const sightDays = 70

/** How long after its end a day is judged: a record may appear late. */
const graceMs = msPerDay

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
const startOf = (day: string): number => Date.parse(`${day}T00:00:00Z`)

/** The last day that can be judged at this time. */
const lastDayAt = (ms: number): number => Math.floor((ms - graceMs) / msPerDay) * msPerDay - msPerDay

/** Returns the first and the last day whose records have to be counted; undefined if no further day can be judged. */
export const daysToCount = (
  scans: RowSight["scans"]
): { readonly from: string; readonly to: string } | undefined => {
  if (scans === undefined) return undefined
  const last = lastDayAt(scans.last)
  return last > lastDayAt(scans.before)
    ? { from: dayOf(last - (sightDays - 1) * msPerDay), to: dayOf(last) }
    : undefined
}

/** Names the days that can be judged since the scan before the last one, and whose number no earlier day explains. */
export const daysIn = ({ created, scans }: RowSight): ReadonlyArray<Drift> => {
  const days = daysToCount(scans)
  if (scans === undefined || days === undefined) return []
  const judged = dayOf(lastDayAt(scans.before))
  return unusualDays(created, days.to).filter(({ day }) => day > judged).map((
    { day, records, usual: [least, most] }
  ) => ({
    fact: "day-records",
    what: `${day}, where ${least} to ${most} were usual`,
    records
  }))
}

interface Day {
  readonly day: string
  readonly records: number
  readonly isWeekend: boolean
  /** The month whose end is near. At the end of a month there may be many more records. */
  readonly monthEnd: string | undefined
}

export interface UnusualDay extends Pick<Day, "day" | "records"> {
  /** The fewest and the most records of the days that it was compared with. */
  readonly usual: readonly [least: number, most: number]
}

/** The number must differ by so many records, and by this factor, from all earlier days of its kind. */
const [leastDifference, leastFactor] = [20, 3]
/** How much further away it is than the numbers of usual days are from each other. */
const leastDistance = 1.5
/** Fewer days, fewer of the same kind, or fewer ends of months, show nothing. */
const [leastDays, leastOfKind, leastMonthEnds] = [14, 10, 2]
/** So many unusual days in a row are what is usual from then on. So many working days in a row are no holidays. */
const daysToReplace = 3
/** The days at each side of the end of a month. */
const nearMonthEnd = 3

/** Judges each day by the usual ones before it, up to the day `to`. A day without records counts, from the first one with any. */
export const unusualDays = (created: ReadonlyMap<string, number>, to: string): ReadonlyArray<UnusualDay> => {
  const [first] = [...created.keys()].toSorted()
  const unusual: Array<UnusualDay> = []
  let usual: Array<Day> = []
  let inARow: Array<Day> = []
  let holidays: Array<Day> = []
  for (let ms = first === undefined ? Infinity : startOf(first); ms <= startOf(to); ms += msPerDay) {
    const day = dayAt(ms, created.get(dayOf(ms)) ?? 0)
    const { isHoliday, range } = compare(usual, day)
    if (!day.isWeekend) holidays = isHoliday ? [...holidays, day] : []
    if (range === undefined || (isHoliday && holidays.length < daysToReplace)) {
      // A holiday is not compared with other days: it may be the first of several days without records.
      if (!isHoliday) usual.push(day)
      inARow = []
      continue
    }
    unusual.push({ day: day.day, records: day.records, usual: range })
    inARow = isHoliday ? holidays : [...inARow, day]
    if (inARow.length >= daysToReplace) [usual, inARow, holidays] = [inARow, [], []]
  }
  return unusual
}

const dayAt = (ms: number, records: number): Day => {
  const date = new Date(ms)
  const [before, after] = [-nearMonthEnd, nearMonthEnd].map((days) => dayOf(ms + days * msPerDay).slice(0, 7))
  return {
    day: dayOf(ms),
    records,
    isWeekend: date.getUTCDay() % 6 === 0,
    monthEnd: before === after ? undefined : before
  }
}

interface Comparison {
  /** The fewest and most records of comparable days, if this day has many fewer or more. */
  readonly range: UnusualDay["usual"] | undefined
  /** Whether it is a working day that is like a weekend. */
  readonly isHoliday: boolean
}

const compare = (usual: ReadonlyArray<Day>, { isWeekend, monthEnd, records }: Day): Comparison => {
  const alike = usual.filter((day) => day.isWeekend === isWeekend)
  if (usual.length < leastDays || alike.length < leastOfKind) return { range: undefined, isHoliday: false }
  const numbers = alike.map((day) => day.records)
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)]
  const factor = Math.max(leastFactor, (most / Math.max(least, 1)) ** leastDistance)
  const isFewer = Math.max(records, 0.5) * factor <= least && least - records >= leastDifference
  // More than on a working day, too.
  const monthEnds = new Set(usual.flatMap((day) => day.monthEnd ?? []))
  const isMore =
    Math.min(records / factor, records - leastDifference) >= Math.max(...usual.map((day) => day.records)) &&
    (monthEnd === undefined || monthEnds.size >= leastMonthEnds)
  const fewest = Math.min(...usual.map((day) => day.records))
  return {
    range: isFewer || isMore ? [least, most] : undefined,
    isHoliday: isFewer && !isWeekend && (fewest - records < leastDifference || records * leastFactor >= fewest)
  }
}

/** Fewer records can have different references by chance. */
const leastRows = 20

/** A shared reference is named only if many records before had another one each. */
export const referencesIn = ({ references }: RowSight): ReadonlyArray<Sighting> => {
  if (references === undefined || references.rows < leastRows) return []
  const { firstShared = 0, nextRow, rows, shared } = references
  return [{
    fact: "references",
    answer: shared === 0 ? "yes" : "no",
    seen: `${shared} of ${rows} records have a reference that an earlier one has`,
    records: shared === 0 ? rows : shared,
    mayBeChance: shared > 0 && !exceedsChance(shared, firstShared, nextRow - firstShared)
  }]
}
