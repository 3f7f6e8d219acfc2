/** Ages and durations as people read them. */
import { Duration } from "effect"

type Units = ReadonlyArray<readonly [amount: number, unit: string]>

const joined = (units: Units): string =>
  units.filter(([amount]) => amount > 0).map(([amount, unit]) => `${amount}${unit}`).join(" ")

/** Leaves out zeros. */
const twoLargest = (units: Units): string => {
  const first = units.findIndex(([amount]) => amount > 0)
  return first === -1 ? "" : joined(units.slice(first, first + 2))
}

/** Returns the two largest units of a duration, rounded down: `45s`, `12m 5s`, `3h`, `2d 4h`. */
export const ageText = (age: Duration.Duration): string => {
  const { days, hours, minutes, seconds } = Duration.parts(age)
  return twoLargest([[days, "d"], [hours, "h"], [minutes, "m"], [seconds, "s"]]) || "0s"
}

/**
 * Returns an age and a limit below it, to the millisecond. The age is rounded as by {@link ageText} if the texts still
 * differ.
 */
export const ageAndLimit = (age: Duration.Duration, limit: Duration.Duration): readonly [string, string] => [
  ageText(age) === ageText(limit) ? exactText(age) : ageText(age),
  exactText(limit)
]

const exactText = (age: Duration.Duration): string => {
  const { days, hours, millis, minutes, seconds } = Duration.parts(age)
  return joined([[days, "d"], [hours, "h"], [minutes, "m"], [(seconds * 1000 + Math.trunc(millis)) / 1000, "s"]]) ||
    "0s"
}

/**
 * A duration in coarse words: `under 5 s`, `10 s`, `12 min`, `1 h 30 min`, `2 d 4 h`. So the text of an idle list
 * changes once per minute.
 */
export const durationWords = (seconds: number): string => {
  if (seconds < 5) return "under 5 s"
  if (seconds < 60) return `${Math.floor(seconds / 5) * 5} s`
  const { days, hours, minutes } = Duration.parts(Duration.seconds(seconds))
  return twoLargest([[days, " d"], [hours, " h"], [minutes, " min"]])
}
