/** `--since`: a moment as people write it. A day or a time without a zone is in the time zone of this machine (`TZ`). */
import { Days } from "@payments/core"
import { duration } from "@payments/program"
import { Duration } from "effect"

/** The accepted forms of a moment, for messages. */
export const expected =
  "a duration such as 24h or 7d, a day such as 2024-05-01, a time such as 2024-05-01T10:00Z, today or yesterday"

/** Returns the moment in milliseconds since 1970, or undefined if the text is not a moment. */
export const sinceMs = (text: string, nowMs: number): number | undefined => {
  if (text === "today" || text === "yesterday") {
    const now = new Date(nowMs)
    return new Date(now.getFullYear(), now.getMonth(), now.getDate() - (text === "today" ? 0 : 1)).getTime()
  }
  const before = duration.parse(text)
  if (before !== undefined) return Math.max(0, nowMs - Duration.toMillis(before))
  return momentMs(text)
}

/** Returns a day's start, or a time, in milliseconds since 1970; undefined for any other text. */
export const momentMs = (text: string): number | undefined => {
  const match = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2}(?:\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})?)?$/.exec(text)
  if (match === null) return undefined
  const [, day = "", minutes = "00:00", seconds = ":00", zone = ""] = match
  if (!Days.isDay(day)) return undefined
  const moment = new Date(`${day}T${minutes}${seconds}${zone}`).getTime()
  return Number.isNaN(moment) ? undefined : moment
}

/** Returns the last millisecond of a day; undefined for any other text. */
export const endOfDayMs = (text: string): number | undefined => {
  if (!Days.isDay(text)) return undefined
  const [year = 0, month = 1, day = 0] = text.split("-").map(Number)
  const next = new Date(0, 0, 1)
  next.setFullYear(year, month - 1, day + 1)
  return next.getTime() - 1
}
