/**
 * The creation times of records. The time grows with the index, and the first record of a day can be computed. Working
 * days have more records than weekends, two paydays in four weeks have 2.5 times as many, and few records are created at
 * night.
 */
import { Days } from "@payments/core"

export const dayMs = 86_400_000

/** The day of the first record, a Monday, in days since 1970. */
const firstDay = Date.UTC(2024, 0, 1) / dayMs

const cycleDays = 28
/** Records in a cycle: one every 138 s on average. */
const recordsPerCycle = 17_500
/** Relative numbers of records from Monday to Sunday. */
const weekdayShares = [1.15, 1.05, 1, 1.05, 1.25, 0.6, 0.35]
/** The paydays, as days of a cycle from 0: its first and third Friday. They have `paydayFactor` times the records. */
const paydays = new Set([4, 18])
const paydayFactor = 2.5
/** Relative numbers of records in each hour of a day. */
const hourShares = [1, 1, 1, 1, 1, 2, 4, 8, 14, 18, 20, 18, 14, 14, 16, 16, 15, 14, 12, 10, 8, 6, 4, 2]

/** Returns the sums of the shares before each share, scaled so that all shares add up to `total`. */
const cumulative = (shares: ReadonlyArray<number>, total: number): ReadonlyArray<number> => {
  const sum = shares.reduce((a, b) => a + b, 0)
  let sofar = 0
  return [0, ...shares.map((share) => (sofar += share) / sum * total)]
}

const dayShares = Array.from(
  { length: cycleDays },
  (_, day) => (weekdayShares[day % 7] ?? 1) * (paydays.has(day) ? paydayFactor : 1)
)
/** The first record of each day of a cycle. */
const dayStart = Float64Array.from(cumulative(dayShares, recordsPerCycle), Math.round)
/** The day of each record of a cycle. */
const dayOf = Uint8Array.from(
  { length: recordsPerCycle },
  (_, record) => dayStart.findLastIndex((start) => start <= record)
)

const steps = 1024
/** The time of day, in ms, at which each of `steps` equal shares of a day's records begins. */
const timeOfDay = (() => {
  const hourStart = cumulative(hourShares, steps)
  return Float64Array.from({ length: steps + 1 }, (_, step) => {
    const hour = Math.min(hourStart.findLastIndex((start) => start <= step), hourShares.length - 1)
    const [from = 0, to = steps] = [hourStart[hour], hourStart[hour + 1]]
    return (hour + Math.min(1, (step - from) / (to - from))) * (dayMs / hourShares.length)
  })
})()

/**
 * Returns when a record was created, in ms since 1970. `offset`, from [0, 1), is the time within the interval from this
 * record to the next one.
 */
export const createdMs = (index: number, offset: number): number => {
  const cycle = Math.floor(index / recordsPerCycle)
  const record = index - cycle * recordsPerCycle
  const day = dayOf[record] ?? 0
  const start = dayStart[day] ?? 0
  const share = (record - start + offset) / ((dayStart[day + 1] ?? recordsPerCycle) - start) * steps
  const step = Math.floor(share)
  const [from = 0, to = dayMs] = [timeOfDay[step], timeOfDay[step + 1]]
  return (firstDay + cycle * cycleDays + day) * dayMs + Math.floor(from + (to - from) * (share - step))
}

/** Returns the index of the first record that was created on that day (days since 1970) or later. */
export const firstIndexOn = (day: number): number => {
  const since = Math.max(0, day - firstDay)
  return Math.floor(since / cycleDays) * recordsPerCycle + (dayStart[since % cycleDays] ?? 0)
}

/** Returns the day (days since 1970) that `YYYY-MM-DD` names, or undefined if the text is no day. */
export const dayOfDate = (date: string): number | undefined => Days.isDay(date) ? Date.parse(date) / dayMs : undefined
