/** Calendar days in the format of the API, `YYYY-MM-DD` (§2.4). They have no time zone. */
import { Result } from "effect"

/** The longest range that {@link between} returns: ten years. */
export const mostDays = 3660

const dayMs = 86_400_000

/** Whether the text is a day of the calendar: `2024-02-29` is one, `2024-02-30` is not. */
export const isDay = (text: string): boolean => {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const ms = startOf(text)
  // `Date.parse` accepts a day that does not exist, such as 02-30, as a day of the next month.
  return !Number.isNaN(ms) && toDay(ms) === text
}

/**
 * Returns the days from `from` to `to`, both included, or what is wrong with them. The problem does not repeat their
 * text.
 */
export const between = (from: string, to: string): Result.Result<ReadonlyArray<string>, string> => {
  if (!isDay(from) || !isDay(to)) return Result.fail("the days must exist and be written YYYY-MM-DD")
  const days = (startOf(to) - startOf(from)) / dayMs + 1
  if (days < 1) return Result.fail("the first day must not be later than the last")
  if (days > mostDays) return Result.fail(`a range has at most ${mostDays} days`)
  return Result.succeed(Array.from({ length: days }, (_, index) => toDay(startOf(from) + index * dayMs)))
}

const startOf = (day: string): number => Date.parse(`${day}T00:00:00Z`)

const toDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10)
