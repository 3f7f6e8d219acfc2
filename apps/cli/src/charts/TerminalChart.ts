/** Draws a chart as text: bars with their exact values, or a line if there are many points in time. */
import { printable } from "@payments/copy"
import { scaleLinear } from "d3-scale"
import { chunksOf } from "effect/Array"
import { stripVTControlCharacters, styleText } from "node:util"
import { plot } from "simple-ascii-chart"
import { truncateTo, widthOf } from "../output/TextWidth.ts"
import { type ChartData, extentOf, groupDigits, isLine, type Point, tickText, visiblePoints } from "./ChartData.ts"

export interface ChartStyle {
  readonly width: number
  readonly colors: boolean
}

const gap = "  "

/** Returns the lines of the chart. No line is wider than the terminal. */
export const chartText = (data: ChartData, style: ChartStyle): string =>
  (isLine(data) ? lineChart(data, style) : bars(data, style)).map((line) => `${line.trimEnd()}\n`).join("")

/** The least room for bars. */
const leastBars = 8

const bars = (data: ChartData, { colors, width }: ChartStyle): ReadonlyArray<string> => {
  const points = visiblePoints(data)
  const values = [data.y, ...points.map(({ text }) => text === undefined ? "NULL" : groupDigits(text))]
  const valueWidth = Math.max(...values.map((value) => widthOf(value)))
  const labels = [data.x, ...points.map(({ label }) => label)].map(printable)
  const labelRoom = Math.max(4, width - valueWidth - leastBars - 2 * gap.length)
  const labelWidth = Math.min(labelRoom, Math.max(...labels.map((label) => widthOf(label))))
  const barRoom = width - labelWidth - valueWidth - 2 * gap.length
  // Without room for a bar, the exact value is more useful.
  const barOf = barRoom < 2 ? () => "" : barDrawer(points, barRoom, colors)
  return labels.map((label, index) => {
    const shown = truncateTo(label, labelWidth)
    const head = `${shown}${" ".repeat(labelWidth - widthOf(shown))}${gap}${(values[index] ?? "").padStart(valueWidth)}`
    const point = points[index - 1]
    return point === undefined ? truncateTo(head, width) : `${truncateTo(head, width)}${gap}${barOf(point)}`.trimEnd()
  })
}

/** Parts of a cell, in eighths. */
const eighths = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"]

/** Returns a function that draws the bar of a point. Bars of negative values end where those of positive values begin. */
const barDrawer = (points: ReadonlyArray<Point>, room: number, colors: boolean) => {
  const domain = extentOf(points)
  const scale = scaleLinear(domain, [0, room])
  const zero = domain[0] === 0 ? 0 : domain[1] === 0 ? room : Math.min(room - 1, Math.max(1, Math.round(scale(0))))
  const paint = (color: "cyan" | "red", text: string) =>
    // The caller has decided whether stdout gets colours.
    colors ? styleText(color, text, { validateStream: false }) : text
  return ({ value }: Point): string => {
    if (value === undefined || value === 0) return ""
    if (value < 0) {
      const length = Math.max(1, Math.round((value / (domain[0] || 1)) * zero))
      return " ".repeat(zero - length) + paint("red", "█".repeat(length))
    }
    const length = Math.max(1, Math.round((value / (domain[1] || 1)) * (room - zero) * 8))
    return " ".repeat(zero) + paint("cyan", "█".repeat(Math.floor(length / 8)) + (eighths[length % 8] ?? ""))
  }
}

const lineHeight = 14

/**
 * Returns at most `most` points. Points that share a place become one, with the label of the first. It has the value
 * that is farthest from 0, so that no peak disappears.
 */
const thinned = (
  points: ReadonlyArray<Point>,
  most: number
): { readonly points: ReadonlyArray<Point>; readonly each: number } => {
  const each = Math.max(1, Math.ceil(points.length / most))
  const farthest = (group: ReadonlyArray<Point>): Point => ({
    ...group.reduce((kept, point) =>
      kept.value === undefined || Math.abs(point.value ?? 0) > Math.abs(kept.value) ? point : kept
    ),
    label: group[0]?.label ?? ""
  })
  return { each, points: chunksOf(points, each).map(farthest) }
}

const lineChart = (data: ChartData, { colors, width }: ChartStyle): ReadonlyArray<string> => {
  const visible = visiblePoints(data)
  const scale = scaleLinear(extentOf(visible), [0, 1]).nice(5)
  const [least = 0, most = 0] = scale.domain()
  const ticks = scale.ticks(5)
  const tickWidth = Math.max(...ticks.map((tick) => tickText(tick).length))
  const plotted = (chartWidth: number) => {
    const { each, points } = thinned(visible, chartWidth)
    const labelWidth = Math.max(...points.map(({ label }) => widthOf(printable(label))))
    const steps = Math.max(1, Math.min(5, Math.floor(chartWidth / (labelWidth + 4))))
    const text = plot(
      points.flatMap(({ value }, index): Array<[number, number]> => value === undefined ? [] : [[index, value]]),
      {
        width: chartWidth,
        height: lineHeight,
        yRange: [least, most === least ? least + 1 : most],
        customYAxisTicks: ticks,
        customXAxisTicks: Array.from(
          { length: steps + 1 },
          (_, step) => Math.round((step / steps) * (points.length - 1))
        ),
        formatter: (value, { axis }) => axis === "x" ? printable(points[value]?.label ?? "") : tickText(value),
        ...(colors ? { color: "ansiCyan" as const } : {})
      }
    )
    return { each, lines: text.split("\n").filter((line) => line.trim() !== "") }
  }
  const wanted = Math.max(10, width - tickWidth - 3)
  const first = plotted(wanted)
  // The first and the last label extend beyond the line. How far is known only after plotting.
  const excess = Math.max(...first.lines.map((line) => widthOf(stripVTControlCharacters(line)))) - width
  const { each, lines } = excess > 0 ? plotted(Math.max(10, wanted - excess)) : first
  const title = `${printable(data.y)} by ${printable(data.x)}${
    each === 1 ? "" : ` (of every ${each} rows, the value farthest from 0)`
  }`
  return [truncateTo(title, width), ...lines]
}
