/** Draws a chart as SVG: vertical bars or a line over time, horizontal bars for other groups. It needs no script and prints sharply. */
import { type Html, html } from "@payments/export/html"
import { scaleBand, scaleLinear } from "d3-scale"
import { area, line } from "d3-shape"
import { type ChartData, groupDigits, isLine, type Point, tickText, visiblePoints } from "./ChartData.ts"

/** The drawing area of a chart, in CSS pixels. */
interface Frame {
  readonly width: number
  readonly height: number
  readonly left: number
  readonly right: number
  readonly top: number
  readonly bottom: number
}

/** The approximate width of a character of the text in a chart. */
const characterWidth = 6.6

const shorten = (text: string, characters: number): string =>
  text.length <= characters ? text : `${Array.from(text).slice(0, Math.max(1, characters - 1)).join("")}…`

const tooltip = ({ label, text }: Point): Html =>
  html`<title>${label}: ${text === undefined ? "NULL" : groupDigits(text)}</title>`

/** Returns the chart for a page of this width. */
export const svgChart = (data: ChartData, width: number): Html =>
  data.isOverTime ? overTime(data, width) : horizontalBars(data, width)

/** The domain of the values. It contains 0. */
const domainOf = (points: ReadonlyArray<Point>): [number, number] => {
  let [least, most] = [0, 0]
  for (const { value = 0 } of points) {
    least = Math.min(least, value)
    most = Math.max(most, value)
  }
  return least === most ? [0, 1] : [least, most]
}

const svg = ({ height, width }: Frame, { x, y }: ChartData, content: ReadonlyArray<Html | undefined>): Html =>
  html`<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${y} by ${x}; the table below has the values">${content}</svg>`

const overTime = (data: ChartData, width: number): Html => {
  const points = visiblePoints(data)
  const domain = domainOf(points)
  const y = scaleLinear(domain, [0, 1]).nice(5)
  const ticks = y.ticks(5)
  const left = Math.ceil(Math.max(...ticks.map((tick) => tickText(tick).length)) * characterWidth) + 10
  const frame: Frame = { width, height: 300, left, right: 12, top: 12, bottom: 28 }
  y.range([frame.height - frame.bottom, frame.top])
  const x = scaleBand(points.map((_, index) => index), [left, width - frame.right]).padding(isLine(data) ? 0 : 0.2)
  const center = (index: number): number => (x(index) ?? 0) + x.bandwidth() / 2
  const labelWidth = Math.max(...points.map(({ label }) => label.length)) * characterWidth + 14
  const step = Math.max(1, Math.ceil(labelWidth / Math.max(x.step(), 0.1)))
  return svg(frame, data, [
    grid(ticks, (tick) => y(tick), frame),
    ...(isLine(data) ?
      lineOf(points, center, (value) => y(value)) :
      points.map((point, index) =>
        point.value === undefined ?
          undefined :
          html`<rect class="${point.value < 0 ? "negative" : "bar"}" x="${x(index) ?? 0}" y="${
            Math.min(y(0), y(point.value))
          }" width="${x.bandwidth()}" height="${Math.abs(y(point.value) - y(0))}">${tooltip(point)}</rect>`
      )),
    html`<line class="axis" x1="${left}" x2="${width - frame.right}" y1="${y(0)}" y2="${y(0)}"/>`,
    ...points.map(({ label }, index) =>
      index % step === 0 && center(index) + labelWidth / 2 < width + 14
        ? html`<text x="${Math.max(center(index), labelWidth / 2 - 7)}" y="${
          frame.height - 8
        }" text-anchor="middle">${label}</text>`
        : undefined
    )
  ])
}

const grid = (ticks: ReadonlyArray<number>, y: (tick: number) => number, { left, right, width }: Frame): Html =>
  html`${
    ticks.map((tick) =>
      html`<line class="grid" x1="${left}" x2="${width - right}" y1="${y(tick)}" y2="${y(tick)}"/>
      <text x="${left - 6}" y="${y(tick) + 4}" text-anchor="end">${tickText(tick)}</text>`
    )
  }`

/** The number of points up to which a line has a tooltip for each of them. */
const mostTooltips = 1_000

const lineOf = (
  points: ReadonlyArray<Point>,
  x: (index: number) => number,
  y: (value: number) => number
): ReadonlyArray<Html> => {
  const isKnown = ({ value }: Point) => value !== undefined
  const at = (_: Point, index: number) => x(index)
  const to = ({ value = 0 }: Point) => y(value)
  return [
    html`<path class="area" d="${area<Point>(at, y(0), to).defined(isKnown).digits(1)(points) ?? ""}"/>`,
    html`<path class="line" d="${line<Point>(at, to).defined(isKnown).digits(1)(points) ?? ""}"/>`,
    ...(points.length > mostTooltips ? [] : points.flatMap((point, index) =>
      point.value === undefined
        ? []
        : [html`<circle class="point" cx="${x(index)}" cy="${y(point.value)}" r="4">${tooltip(point)}</circle>`]
    ))
  ]
}

const horizontalBars = (data: ChartData, width: number): Html => {
  const points = visiblePoints(data)
  const texts = points.map(({ text }) => text === undefined ? "NULL" : groupDigits(text))
  const rowHeight = 26
  const labelCharacters = Math.min(
    Math.max(...points.map(({ label }) => label.length), 1),
    Math.floor(width * 0.32 / characterWidth)
  )
  const left = Math.ceil(labelCharacters * characterWidth) + 10
  const right = Math.ceil(Math.max(...texts.map((text) => text.length), 1) * characterWidth) + 10
  const frame: Frame = { width, height: points.length * rowHeight + 8, left, right, top: 4, bottom: 4 }
  const x = scaleLinear(domainOf(points), [left, Math.max(left + 20, width - right)])
  return svg(frame, data, [
    ...points.map((point, index) => {
      const top = frame.top + index * rowHeight
      const { value = 0 } = point
      return html`<text x="${left - 8}" y="${top + 17}" text-anchor="end">${
        shorten(point.label, labelCharacters)
      }</text>
      <rect class="${value < 0 ? "negative" : "bar"}" x="${Math.min(x(0), x(value))}" y="${top + 4}" width="${
        Math.abs(x(value) - x(0))
      }" height="${rowHeight - 8}">${tooltip(point)}</rect>
      <text class="value" x="${Math.max(x(0), x(value)) + 6}" y="${top + 17}">${texts[index]}</text>`
    }),
    html`<line class="axis" x1="${x(0)}" x2="${x(0)}" y1="${frame.top}" y2="${frame.height - frame.bottom}"/>`
  ])
}
