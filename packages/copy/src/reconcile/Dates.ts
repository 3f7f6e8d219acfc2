/**
 * Days as statements write them. A column has one notation. The order of day and month in `03/04/2024` is read only when
 * a date of the column, such as `31/04/2024`, or the caller has shown it.
 */
import { Days } from "@payments/core"
import type { DateOrder } from "./Notations.ts"

/** A day as the number of days since 1970-01-01. */
export type DayNumber = number

const dayMs = 86_400_000

/** Returns the number of a day `YYYY-MM-DD`; undefined if it does not exist. */
export const dayNumber = (day: string): DayNumber | undefined =>
  Days.isDay(day) ? Date.parse(`${day}T00:00:00Z`) / dayMs : undefined

export const dayText = (day: DayNumber): string => new Date(day * dayMs).toISOString().slice(0, 10)

/** Returns the UTC day of a date or a timestamp of a record; undefined if it is neither. */
export const recordDay = (text: string): DayNumber | undefined => {
  const found = instant(text)
  return found === undefined ? undefined : dayNumber(found)
}

/** Returns the day of an ISO 8601 date or time. The day of a time with an offset is that of UTC. */
const instant = (text: string): string | undefined => {
  const [, day, time, zone] =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)(Z|[+-]\d\d:?\d\d)?|(?:Z|[+-]\d\d:\d\d))?$/.exec(
      text
    ) ?? []
  if (day === undefined || time === undefined || zone === undefined || zone === "Z") return day
  const offset = zone.includes(":") ? zone : `${zone.slice(0, 3)}:${zone.slice(3)}`
  const ms = Date.parse(`${day}T${time.slice(0, 5)}:00${offset}`)
  return Number.isNaN(ms) || !Days.isDay(day) ? undefined : new Date(ms).toISOString().slice(0, 10)
}

/** A day that is known, one whose order of day and month is not, or why there is none. */
export type DayReading = DayNumber | "ambiguous" | { readonly problem: string }

/** The dates of one column. It notices a second notation. */
export class DateColumn {
  /** The notation, such as `YYYY-MM-DD`, and the line that showed it. */
  #shape: { readonly name: string; readonly line: number } | undefined
  #order: DateOrder | undefined
  readonly #known = new Map<string, DayNumber>()

  constructor(order: DateOrder | undefined) {
    this.#order = order
  }

  /** The notation for people; undefined if there was no date. */
  get notation(): string | undefined {
    const name = this.#shape?.name
    return name?.startsWith("NN") === true
      ? name.replace("NN", this.#order === "mdy" ? "MM" : "DD").replace("NN", this.#order === "mdy" ? "DD" : "MM")
      : name
  }

  /** Reads a date. No problem repeats it. */
  read(given: string, line: number): DayReading {
    const text = given.trim()
    const known = this.#known.get(text)
    if (known !== undefined) return known
    const found = this.#read(text, line)
    // Statements repeat few days.
    if (typeof found === "number" && this.#known.size < 10_000) this.#known.set(text, found)
    return found
  }

  #read(text: string, line: number): DayReading {
    if (text === "") return { problem: "is empty" }
    const shape = shapeOf(text)
    if (shape === undefined) {
      return {
        problem: /^\d{1,2}[./-]\d{1,2}[./-]\d{2}$/.test(text)
          ? "has a year of two digits"
          : "is no date such as 2024-05-31, 31.05.2024, 31/05/2024 or 20240531"
      }
    }
    const { day, name, parts: [first, second, year] = [] } = shape
    if (this.#shape !== undefined && this.#shape.name !== name) {
      return { problem: `is another notation of dates than in line ${this.#shape.line}` }
    }
    this.#shape ??= { name, line }
    if (day !== undefined || first === undefined || second === undefined || year === undefined) {
      return existing(day ?? "")
    }
    const proved = name.includes(".") || Number(first) > 12 ? "dmy" : Number(second) > 12 ? "mdy" : undefined
    if (proved !== undefined) {
      if (this.#order !== undefined && this.#order !== proved) {
        return { problem: "has day and month in another order than the dates before it, or than --dates says" }
      }
      this.#order = proved
    }
    if (this.#order === undefined && first !== second) return "ambiguous"
    const [month, date] = this.#order === "mdy" ? [first, second] : [second, first]
    return existing(`${year}-${month.padStart(2, "0")}-${date.padStart(2, "0")}`)
  }
}

const existing = (day: string): DayReading => dayNumber(day) ?? { problem: "is no day of the calendar" }

/** Returns the notation of a date. With an order that the digits do not show, its parts. */
const shapeOf = (
  text: string
): { readonly name: string; readonly day?: string; readonly parts?: ReadonlyArray<string> } | undefined => {
  // The day of a statement is the one that it writes, whatever the offset of its time.
  if (instant(text) !== undefined) return { name: "YYYY-MM-DD", day: text.slice(0, 10) }
  const [, year, month, date] = /^(\d{4})(\d\d)(\d\d)$/.exec(text) ?? []
  if (year !== undefined) return { name: "YYYYMMDD", day: `${year}-${month}-${date}` }
  const slashed = /^(\d{4})\/(\d\d)\/(\d\d)$/.exec(text)
  if (slashed !== null) return { name: "YYYY/MM/DD", day: slashed.slice(1).join("-") }
  const parts = /^(\d{1,2})([./-])(\d{1,2})\2(\d{4})$/.exec(text)
  if (parts === null) return undefined
  const [, first = "", mark = "", second = "", last = ""] = parts
  return { name: `NN${mark}NN${mark}YYYY`, parts: [first, second, last] }
}
