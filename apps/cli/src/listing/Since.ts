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

const shape = /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2})(:\d{2}(?:\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})?)?$/

/** Returns a day's start, or a time, in milliseconds since 1970; undefined for any other text. */
export const momentMs = (text: string): number | undefined => {
  const match = shape.exec(text)
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

/**
 * Says why a day or a time without a zone is not one moment in the time zone of this machine: the zone is unknown, or the clock
 * was put forward or back at this time. Undefined if it is one, or if the text needs no time zone.
 */
export const localProblem = (text: string): string | undefined => {
  const [, , minutes, , zone] = shape.exec(text) ?? []
  const moment = momentMs(text)
  const isLocal = text === "today" || text === "yesterday" || (moment !== undefined && zone === undefined)
  if (!isLocal) return undefined
  if (isZoneUnknown()) {
    return "TZ does not name a known time zone, so it would count as UTC. Set TZ to a name such as Europe/Berlin, or give a time with an offset, such as 2024-05-01T10:00Z."
  }
  if (moment === undefined || minutes === undefined) return undefined
  const [clock, given] = [clockOf(moment), minutes.replace(/^24/, "00")]
  // Where the clock is put forward, the moment has another time. Where it is put back, the moment is the first of two.
  const second = moment + (offsetMs(moment + dayMs) - offsetMs(moment))
  const problem = clock !== given
    ? "does not exist"
    : second > moment && clockOf(second) === clock
    ? "occurs twice"
    : undefined
  return problem === undefined
    ? undefined
    : `this time ${problem} in the time zone of this machine, because the clock is changed. Add the offset, such as Z or +02:00.`
}

const dayMs = 24 * 3_600_000

/** Returns by how much UTC is ahead of the time zone of this machine. */
const offsetMs = (ms: number): number => new Date(ms).getTimezoneOffset() * 60_000

/** Returns the time of day in the time zone of this machine: `HH:MM`. */
const clockOf = (ms: number): string => {
  const date = new Date(ms)
  return [date.getHours(), date.getMinutes()].map((part) => String(part).padStart(2, "0")).join(":")
}

/** Whether `TZ` is set to a text that Node takes for UTC because it does not know it. The path of a file is not checked. */
const isZoneUnknown = (): boolean => {
  const name = (process.env["TZ"] ?? "").replace(/^:/, "")
  const isUtc = name === "" || /^(?:posix\/)?(?:Etc\/)?(?:UTC|UCT|GMT|Zulu|Universal|Greenwich)[+-]?0?$/.test(name)
  // Node also knows forms such as UTC+3, which Intl refuses.
  if (isUtc || name.startsWith("/") || seasons.some((ms) => offsetMs(ms) !== 0)) return false
  try {
    const { format } = new Intl.DateTimeFormat("en", { timeZone: name, timeStyle: "short", hourCycle: "h23" })
    // Intl knows europe/berlin, which Node takes for UTC.
    return seasons.some((ms) => format(ms) !== "12:00")
  } catch {
    // It throws only because it does not know the zone.
    return true
  }
}

/** Noon in UTC, on a day of winter and on one of summer. */
const seasons = [Date.UTC(2024, 0, 1, 12), Date.UTC(2024, 6, 1, 12)]
