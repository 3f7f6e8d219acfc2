/**
 * When records are created: a function of the index that only grows, and back from a day to the records of that day.
 * Working days have more than weekends, two paydays in four weeks have two and a half times as many, and few come at
 * night.
 */
import { Days } from "@payments/core"

/** Milliseconds in a day. */
export const dayMs = 86_400_000

/** The day of the first record, a Monday, in days since 1970. */
export const firstDay = Date.UTC(2024, 0, 1) / dayMs

const weekday = [1.15, 1.05, 1, 1.05, 1.25, 0.6, 0.35]
const cycleDays = 28
const paydays = new Set([4, 18])
/** One every 138 s on average. */
const perCycle = 17_500
const hour = [1, 1, 1, 1, 1, 2, 4, 8, 14, 18, 20, 18, 14, 14, 16, 16, 15, 14, 12, 10, 8, 6, 4, 2]

/** From shares to where each begins, scaled to `total`. */
const cumulative = (shares: ReadonlyArray<number>, total: number): ReadonlyArray<number> => {
  const sum = shares.reduce((a, b) => a + b, 0)
  let sofar = 0
  return [0, ...shares.map((share) => (sofar += share) / sum * total)]
}

const dayShares = Array.from(
  { length: cycleDays },
  (_, day) => (weekday[day % 7] ?? 1) * (paydays.has(day) ? 2.5 : 1)
)
/** The first record of each day of a cycle. */
const dayStart = Float64Array.from(cumulative(dayShares, perCycle), Math.round)
const dayOf = Uint8Array.from(
  { length: perCycle },
  (_, record) => dayStart.findLastIndex((start) => start <= record)
)

/** The time of day by the share of the day's records that came before, in 1,024 steps. */
const steps = 1024
const timeOfDay = (() => {
  const hourStart = cumulative(hour, steps)
  return Float64Array.from({ length: steps + 1 }, (_, step) => {
    const at = Math.min(hourStart.findLastIndex((start) => start <= step), hour.length - 1)
    const [from = 0, to = steps] = [hourStart[at], hourStart[at + 1]]
    return (at + Math.min(1, (step - from) / (to - from))) * (dayMs / hour.length)
  })
})()

/** When the record was created, in ms since 1970; `within` (0 to 1, exclusive) is its place between its neighbours. */
export const createdMs = (index: number, within: number): number => {
  const cycle = Math.floor(index / perCycle)
  const record = index - cycle * perCycle
  const day = dayOf[record] ?? 0
  const start = dayStart[day] ?? 0
  const share = (record - start + within) / ((dayStart[day + 1] ?? perCycle) - start) * steps
  const step = Math.floor(share)
  const [from = 0, to = dayMs] = [timeOfDay[step], timeOfDay[step + 1]]
  return (firstDay + cycle * cycleDays + day) * dayMs + Math.floor(from + (to - from) * (share - step))
}

/** The index of the first record that was created on that day (days since 1970) or later. */
export const firstOf = (day: number): number => {
  const since = Math.max(0, day - firstDay)
  return Math.floor(since / cycleDays) * perCycle + (dayStart[since % cycleDays] ?? 0)
}

/** The day that `YYYY-MM-DD` names, or undefined where it names none. */
export const dayOfDate = (date: string): number | undefined => Days.isDay(date) ? Date.parse(date) / dayMs : undefined
