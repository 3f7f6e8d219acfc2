/** Formats ages for people. */
import { Duration } from "effect"

/** Returns the two largest units of a duration, rounded down: `45s`, `12m 5s`, `3h`, `2d 4h`. */
export const ageText = (age: Duration.Duration): string => {
  const { days, hours, minutes, seconds } = Duration.parts(age)
  const units = [[days, "d"], [hours, "h"], [minutes, "m"], [seconds, "s"]] as const
  const first = units.findIndex(([amount]) => amount > 0)
  if (first === -1) return "0s"
  return units.slice(first, first + 2).filter(([amount]) => amount > 0).map(([amount, unit]) => `${amount}${unit}`)
    .join(" ")
}

/** Returns an age and a limit below it, to the millisecond. The age is rounded as by {@link ageText} if the texts still differ. */
export const ageAndLimit = (age: Duration.Duration, limit: Duration.Duration): readonly [string, string] => [
  ageText(age) === ageText(limit) ? exactText(age) : ageText(age),
  exactText(limit)
]

const exactText = (age: Duration.Duration): string => {
  const { days, hours, millis, minutes, seconds } = Duration.parts(age)
  const units = [[days, "d"], [hours, "h"], [minutes, "m"], [
    (seconds * 1000 + Math.trunc(millis)) / 1000,
    "s"
  ]] as const
  return units.filter(([amount]) => amount > 0).map(([amount, unit]) => `${amount}${unit}`).join(" ") || "0s"
}
