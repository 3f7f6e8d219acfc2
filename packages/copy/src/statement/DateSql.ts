/**
 * SQL about the texts of instants and days, which SQLite and PostgreSQL understand alike. Functions for dates would differ, and
 * PostgreSQL's fail for a text that is no date.
 */

/** The text with 0 for each digit. No form has more characters than those that are looked at. */
export const shapeOf = (text: string): string =>
  Array.from({ length: 9 }, (_, digit) => digit + 1).reduce(
    (shape, digit) => `replace(${shape}, '${digit}', '0')`,
    `substr(${text}, 1, 40)`
  )

const zones = { "Z": "Z", "+00:00": "offset", "-00:00": "offset", "": "no zone" }

/** What follows the minutes, for up to nine decimals of a second. */
const precisions = {
  minutes: "",
  seconds: ":00",
  ...Object.fromEntries(
    Array.from({ length: 9 }, (_, index) => [`${index + 1} decimals`, `:00.${"0".repeat(index + 1)}`])
  )
}

/** Returns the shapes with this precision and zone. */
const shapesOf = (end: string, zone: string): ReadonlyArray<string> =>
  Object.entries(zones).flatMap(([text, name]) => name === zone ? [`0000-00-00T00:00${end}${text}`] : [])

/** The shapes of dates, by what people call the form. */
export const formsOfDates: { readonly [form: string]: ReadonlyArray<string> } = {
  day: ["0000-00-00"],
  ...Object.fromEntries(
    Object.entries(precisions).flatMap(([precision, end]) =>
      [...new Set(Object.values(zones))].map((zone) => [`${precision} ${zone}`, shapesOf(end, zone)])
    )
  )
}

export const isIn = (text: string, values: ReadonlyArray<string>): string =>
  `${text} IN (${values.map((value) => `'${value}'`).join(", ")})`

const { minutes: _, ...secondsOrFiner } = precisions

/** The shapes of instants in UTC to the second or finer, and of all instants that can be compared exactly. */
const utcShapes = Object.values(secondsOrFiner).flatMap((end) => shapesOf(end, "Z"))
const exactShapes = [...utcShapes, ...Object.values(secondsOrFiner).flatMap((end) => shapesOf(end, "offset"))]

const numberAt = (text: string, from: number | string, length: number): string =>
  `CAST(substr(${text}, ${from}, ${length}) AS BIGINT)`

/** The days since 1970 of a text that begins with digits as a day does. The years begin in March, so that a leap day is the last one. */
const daysOf = (text: string): string => {
  const [year, month, day] = [numberAt(text, 1, 4), numberAt(text, 6, 2), numberAt(text, 9, 2)]
  const early = `(CASE WHEN ${month} <= 2 THEN 1 ELSE 0 END)`
  const years = `(${year} - ${early})`
  return `(365 * ${years} + ${years} / 4 - ${years} / 100 + ${years} / 400 + ` +
    `(153 * (${month} - 3 + 12 * ${early}) + 2) / 5 + ${day} - 719469)`
}

/** The microseconds since 1970 of a text in one of the exact shapes. */
const exactMicroseconds = (text: string): string => {
  const [hour, minute, second] = [12, 15, 18].map((from) => numberAt(text, from, 2))
  const isUtc = `substr(${text}, length(${text}), 1) = 'Z'`
  const [hours, minutes] = [numberAt(text, `length(${text}) - 4`, 2), numberAt(text, `length(${text}) - 1`, 2)]
  const ahead = `CASE WHEN ${isUtc} THEN 0 WHEN substr(${text}, length(${text}) - 5, 1) = '-' ` +
    `THEN - ${hours} * 60 - ${minutes} ELSE ${hours} * 60 + ${minutes} END`
  const decimals = `substr(${text}, 21, length(${text}) - 20 - CASE WHEN ${isUtc} THEN 1 ELSE 6 END)`
  const fraction = `CASE WHEN substr(${text}, 20, 1) = '.' ` +
    `THEN CAST(substr(${decimals} || '000000', 1, 6) AS BIGINT) ELSE 0 END`
  return `(((${daysOf(text)} * 24 + ${hour}) * 60 + ${minute} - (${ahead})) * 60 + ${second}) * 1000000 + ${fraction}`
}

const isExact = (text: string): string => isIn(shapeOf(text), exactShapes)

/** Returns the microseconds since 1970 of a text; null if it has no seconds or no zone. */
export const microsecondsOf = (text: string): string => `CASE WHEN ${isExact(text)} THEN ${exactMicroseconds(text)} END`

/** Whether a text that begins with digits as a day does begins with a day of the calendar. */
const isCalendarDay = (text: string): string => {
  const year = numberAt(text, 1, 4)
  const month = `substr(${text}, 6, 2)`
  const last = `CASE WHEN ${month} IN ('04', '06', '09', '11') THEN 30 WHEN ${month} <> '02' THEN 31 ` +
    `WHEN ${year} % 4 = 0 AND (${year} % 100 <> 0 OR ${year} % 400 = 0) THEN 29 ELSE 28 END`
  return `${numberAt(text, 6, 2)} BETWEEN 1 AND 12 AND ${numberAt(text, 9, 2)} BETWEEN 1 AND ${last}`
}

/**
 * Does the same as {@link microsecondsOf}, but returns null also for an instant that no calendar and no clock has, such as
 * `0000-00-00T00:00:00Z`. A leap second (60) is one.
 */
export const instantOf = (text: string): string => {
  const times = [[12, 23], [15, 59], [18, 60]] as const
  const isTime = times.map(([from, most]) => `${numberAt(text, from, 2)} <= ${most}`).join(" AND ")
  return `CASE WHEN ${isExact(text)} THEN CASE WHEN ${isCalendarDay(text)} AND ${isTime} ` +
    `THEN ${exactMicroseconds(text)} END END`
}

/** Returns the days since 1970 of a text that is a day of the calendar; null for any other text. */
export const dayNumberOf = (text: string): string =>
  `CASE WHEN ${shapeOf(text)} = '0000-00-00' THEN CASE WHEN ${isCalendarDay(text)} THEN ${daysOf(text)} END END`

/** Returns whether an instant is after another one; null if a text has no seconds or no zone. Most have the same form in UTC. */
export const isAfter = (one: string, other: string): string =>
  `CASE WHEN ${isIn(`${shapeOf(one)} || '|' || ${shapeOf(other)}`, utcShapes.map((shape) => `${shape}|${shape}`))} ` +
  `THEN ${one} > ${other} ELSE ${microsecondsOf(one)} > ${microsecondsOf(other)} END`

/** More rows than a table can have. A subquery with this limit computes its columns once for each row, however often they are used. */
export const everyRow = "LIMIT 9223372036854775807"
