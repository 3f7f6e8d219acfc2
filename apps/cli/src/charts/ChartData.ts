/** What a chart shows: a value for each group of a query's result. */
import type { Cell } from "@payments/copy"
import { grouped } from "@payments/program"
import { numberText, tableCell } from "../output/Rows.ts"

export interface Point {
  readonly label: string
  /** The exact digits, or undefined for null. */
  readonly text: string | undefined
  /** The value, perhaps rounded, for the length of a bar; undefined for null. */
  readonly value: number | undefined
}

export interface ChartData {
  /** The name of the values. */
  readonly y: string
  /** The name of the groups. */
  readonly x: string
  readonly points: ReadonlyArray<Point>
  /** Whether the groups are times in their order. A chart of many times is a line. */
  readonly isOverTime: boolean
}

export interface ChartColumns {
  readonly x: ReadonlyArray<string>
  readonly y: string
  readonly isOverTime?: boolean
}

const isTime = (label: string): boolean => /^\d{4}-\d{2}(-\d{2})?([T ]|$)/.test(label)

/**
 * Returns the content of a chart, or why there is none. By default the first column names the groups, and the first column of
 * numbers after it has their values.
 */
export const chartData = (
  columns: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<Cell>>,
  wanted?: ChartColumns
): ChartData | string => {
  const y = wanted === undefined
    ? columns.findIndex((_, column) => column > 0 && rows.some((row) => numberText(row[column]) !== undefined))
    : columns.indexOf(wanted.y)
  if (rows.length > 0 && y === -1) {
    return "A chart needs a column of numbers after the column that names the bars, as in: SELECT status, count(*) …"
  }
  const x = wanted === undefined ? [0] : wanted.x.map((name) => columns.indexOf(name))
  const points = rows.map((row): Point => {
    const text = numberText(row[y])
    const value = Number(text)
    return {
      label: x.map((column) => tableCell(row[column] ?? null)).join(" · "),
      text,
      value: text === undefined || !Number.isFinite(value) ? undefined : value
    }
  })
  const times = points.map(({ label }) => label).filter(isTime)
  return {
    y: columns[y] ?? "",
    x: x.map((column) => columns[column] ?? "").join(" · "),
    points,
    isOverTime: times.length > 0 && x.length === 1 &&
      (wanted?.isOverTime ?? times.every((time, index) => time >= (times[index - 1] ?? "")))
  }
}

/** Groups the digits before the decimal point. Other text is unchanged. */
export const groupDigits = (text: string): string => text.replace(/^[^.]+/, grouped)

const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 2 })

/** Formats a round number of an axis. Very large numbers have an exponent. */
export const tickText = (value: number): string =>
  Math.abs(value) >= 1e15
    ? value.toExponential().replace("e+", "e")
    : Math.abs(value) >= 1_000_000
    ? compact.format(value)
    : value.toLocaleString("en-US")

/** The number of bars over time above which a line is clearer. */
const mostBarsOverTime = 40

/** The largest number of bars that a person can compare. */
export const mostBars = 100

/** Whether the chart is a line: many points in time. */
export const isLine = ({ isOverTime, points }: ChartData): boolean =>
  isOverTime && points.filter(({ value }) => value !== undefined).length > mostBarsOverTime

/** Returns the points that a chart shows: at most {@link mostBars} bars, or a line of all points in time. */
export const visiblePoints = (data: ChartData): ReadonlyArray<Point> =>
  isLine(data) ? data.points.filter(({ label }) => isTime(label)) : data.points.slice(0, mostBars)

/** The least and the most value, also 0. */
export const extentOf = (points: ReadonlyArray<Point>): [least: number, most: number] =>
  points.reduce<[number, number]>(
    ([least, most], { value = 0 }) => [Math.min(least, value), Math.max(most, value)],
    [0, 0]
  )

/** Names the groups without a time, such as null, with their values. They have no place on a line. */
const untimedNote = (data: ChartData): string | undefined => {
  const untimed = isLine(data) ? data.points.filter(({ label }) => !isTime(label)).slice(0, mostBars) : []
  return untimed.length === 0
    ? undefined
    : `Not on the line: ${
      untimed.map(({ label, text }) => `${label} ${text === undefined ? "NULL" : groupDigits(text)}`).join(", ")
    }.`
}

/** Returns sentences about what the chart does not show. `isCut`: whether the result has more rows. */
export const chartNotes = (
  data: ChartData,
  columns: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<Cell>>,
  isCut: boolean
): ReadonlyArray<string> =>
  // The counts of some groups would look like those of all.
  [untimedNote(data), isCut ? undefined : nullNote(data, columns, rows)].filter((note) => note !== undefined)

/** Says in how many records the values are null, if the result counts them as the ready-made questions do. */
const nullNote = (
  { y }: ChartData,
  columns: ReadonlyArray<string>,
  rows: ReadonlyArray<ReadonlyArray<Cell>>
): string | undefined => {
  const [nulls, records] = [`${y}_null`, "records"].map((name) => {
    const column = columns.indexOf(name)
    const texts = rows.map((row) => numberText(row[column]))
    return column === -1 || texts.some((text) => !/^\d+$/.test(text ?? ""))
      ? undefined
      : texts.reduce((sum, text) => sum + BigInt(text ?? 0), 0n)
  })
  return nulls === undefined || records === undefined
    ? undefined
    : `${y} is null in ${groupDigits(String(nulls))} of ${groupDigits(String(records))} records.`
}
