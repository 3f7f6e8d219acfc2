/**
 * Draws a chart as SVG: vertical bars or a line over time, horizontal bars for other groups. It needs no script and prints sharply.
 * Colours and fonts are attributes, because other programs ignore styles; the style of a page takes precedence over them.
 */
import { type Html, html } from "@payments/program/html"
import { scaleBand, scaleLinear } from "d3-scale"
import { area, line } from "d3-shape"
import { type ChartData, extentOf, groupDigits, isLine, type Point, tickText, visiblePoints } from "./ChartData.ts"
import { linesOf, shortenTo, textWidth } from "./SvgText.ts"

interface Drawn {
  readonly content: Html
  readonly height: number
}

const colors = {
  text: "#1a2230",
  muted: "#5a6675",
  line: "#d5dbe3",
  bar: "#1f6feb",
  negative: "#c9352b",
  ground: "#ffffff"
} as const

const fontSize = 12

/** Room that text keeps from the edge and from bars. */
const gap = 8

const tooltip = ({ label, text }: Point): Html =>
  html`<title>${label}: ${text === undefined ? "NULL" : groupDigits(text)}</title>`

export const svgChart = (data: ChartData, width: number): Html => {
  const { content, height } = draw(data, width)
  return html`<svg viewBox="0 0 ${width} ${height}" role="img" font-family="${fonts}" font-size="${fontSize}" fill="${colors.text}" aria-label="${data.y} by ${data.x}; the table below has the values">${content}</svg>`
}

export interface SvgContent {
  readonly title: string
  readonly chart: ChartData
  /** Sentences about the data, such as its age. */
  readonly notes: ReadonlyArray<string>
}

const fonts = "Arial, Helvetica, sans-serif"
const fileWidth = 920
const margin = 20

/** Returns an SVG file: the chart with its title and notes on a light ground. It loads nothing. */
export const svgFile = ({ chart, notes, title }: SvgContent): string => {
  const room = fileWidth - 2 * margin
  const parts: Array<Html> = []
  let y = margin
  const addText = (text: string, size: number, attributes: Html) => {
    for (const words of linesOf(text, room, size)) {
      y += Math.round(size * 1.4)
      parts.push(
        html`<text x="${margin}" y="${y - Math.round(size * 0.4)}" font-size="${size}" ${attributes}>${words}</text>`
      )
    }
  }
  addText(title, 18, html`font-weight="bold"`)
  addText(chart.points.length === 0 ? "No rows." : `${chart.y} by ${chart.x}`, 13, html`fill="${colors.muted}"`)
  y += gap
  if (chart.points.length > 0) {
    const { content, height } = draw(chart, room)
    parts.push(html`<g transform="translate(${margin} ${y})">${content}</g>`)
    y += height + gap
  }
  for (const note of notes) addText(note, fontSize, html`fill="${colors.muted}"`)
  const height = y + margin
  const { markup } =
    html`<svg xmlns="http://www.w3.org/2000/svg" width="${fileWidth}" height="${height}" viewBox="0 0 ${fileWidth} ${height}" role="img" font-family="${fonts}" font-size="${fontSize}" fill="${colors.text}"><title>${title}</title>
    <rect width="${fileWidth}" height="${height}" fill="${colors.ground}"/>${parts}</svg>`
  // XML allows neither of these characters, not even escaped.
  return `${markup.toWellFormed().replaceAll(/[\uFFFE\uFFFF]/g, "\uFFFD")}\n`
}

const draw = (data: ChartData, width: number): Drawn =>
  data.isOverTime ? overTime(data, width) : horizontalBars(data, width)

/** The domain of the values. It contains 0. */
const domainOf = (points: ReadonlyArray<Point>): [number, number] => {
  const [least, most] = extentOf(points)
  return least === most ? [0, 1] : [least, most]
}

const widest = (texts: ReadonlyArray<string>): number =>
  texts.reduce((most, text) => Math.max(most, textWidth(text, fontSize)), 0)

const barOf = ({ value = 0 }: Point): Html => {
  const name = value < 0 ? "negative" : "bar"
  return html`class="${name}" fill="${colors[name]}"`
}

const axis = (x1: number, y1: number, x2: number, y2: number): Html =>
  html`<line class="axis" stroke="${colors.muted}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`

const overTime = (data: ChartData, width: number): Drawn => {
  const points = visiblePoints(data)
  const y = scaleLinear(domainOf(points), [0, 1]).nice(5)
  const ticks = y.ticks(5)
  const labelWidth = Math.min(widest(points.map(({ label }) => label)), width / 2)
  // Half of the first label stands to the left of its place.
  const left = Math.ceil(Math.max(widest(ticks.map(tickText)) + gap, labelWidth / 2))
  const frame = { width, height: 300, left, right: 12, top: 12, bottom: 28 }
  y.range([frame.height - frame.bottom, frame.top])
  const x = scaleBand(points.map((_, index) => index), [left, width - frame.right]).padding(isLine(data) ? 0 : 0.2)
  const center = (index: number): number => (x(index) ?? 0) + x.bandwidth() / 2
  const step = Math.max(1, Math.ceil((labelWidth + 2 * gap) / Math.max(x.step(), 0.1)))
  const content = html`${[
    grid(ticks, (tick) => y(tick), frame),
    ...(isLine(data) ?
      lineOf(points, center, (value) => y(value)) :
      points.map((point, index) =>
        point.value === undefined ?
          undefined :
          html`<rect ${barOf(point)} x="${x(index) ?? 0}" y="${
            Math.min(y(0), y(point.value))
          }" width="${x.bandwidth()}" height="${Math.abs(y(point.value) - y(0))}">${tooltip(point)}</rect>`
      )),
    axis(left, y(0), width - frame.right, y(0)),
    ...points.flatMap(({ label }, index) => {
      // The last label may stand a little to the left of its place.
      const at = Math.min(center(index), width - labelWidth / 2)
      return index % step !== 0 || center(index) - at > gap
        ? []
        : [
          html`<text x="${at}" y="${frame.height - gap}" text-anchor="middle">${
            shortenTo(label, labelWidth, fontSize)
          }</text>`
        ]
    })
  ]}`
  return { content, height: frame.height }
}

const grid = (
  ticks: ReadonlyArray<number>,
  y: (tick: number) => number,
  { left, right, width }: { readonly [place in "left" | "right" | "width"]: number }
): Html =>
  html`${
    ticks.map((tick) =>
      html`<line class="grid" stroke="${colors.line}" x1="${left}" x2="${width - right}" y1="${y(tick)}" y2="${
        y(tick)
      }"/>
      <text x="${left - gap + 2}" y="${y(tick) + 4}" text-anchor="end">${tickText(tick)}</text>`
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
    html`<path class="area" fill="${colors.bar}" opacity="0.12" d="${
      area<Point>(at, y(0), to).defined(isKnown).digits(1)(points) ?? ""
    }"/>`,
    html`<path class="line" fill="none" stroke="${colors.bar}" stroke-width="1.75" stroke-linejoin="round" d="${
      line<Point>(at, to).defined(isKnown).digits(1)(points) ?? ""
    }"/>`,
    ...(points.length > mostTooltips ? [] : points.flatMap((point, index) =>
      point.value === undefined
        ? []
        : [
          html`<circle class="point" fill="${colors.bar}" opacity="0" cx="${x(index)}" cy="${y(point.value)}" r="4">${
            tooltip(point)
          }</circle>`
        ]
    ))
  ]
}

/** The largest share of the width for the labels of bars. */
const labelShare = 0.36

/** The largest share of the width for the values beside bars. */
const valueShare = 0.7

/** The least room for bars, in pixels. */
const leastBar = 20

const horizontalBars = (data: ChartData, width: number): Drawn => {
  const points = visiblePoints(data)
  const texts = points.map(({ text }) =>
    // The table has the digits that do not fit.
    shortenTo(text === undefined ? "NULL" : groupDigits(text), width * valueShare, fontSize)
  )
  const rowHeight = 26
  const right = Math.ceil(widest(texts)) + gap
  const labelRoom = Math.min(
    widest(points.map(({ label }) => label)),
    width * labelShare,
    width - right - leastBar - gap
  )
  const left = Math.ceil(labelRoom) + gap
  const frame = { height: points.length * rowHeight + 8, top: 4, bottom: 4 }
  const x = scaleLinear(domainOf(points), [left, Math.max(left + leastBar, width - right)])
  const content = html`${[
    ...points.map((point, index) => {
      const top = frame.top + index * rowHeight
      const { value = 0 } = point
      return html`<text x="${left - gap}" y="${top + 17}" text-anchor="end">${
        shortenTo(point.label, labelRoom, fontSize)
      }</text>
      <rect ${barOf(point)} x="${Math.min(x(0), x(value))}" y="${top + 4}" width="${
        Math.abs(x(value) - x(0))
      }" height="${rowHeight - 8}">${tooltip(point)}</rect>
      <text class="value" x="${Math.max(x(0), x(value)) + gap - 2}" y="${top + 17}">${texts[index]}</text>`
    }),
    axis(x(0), frame.top, x(0), frame.height - frame.bottom)
  ]}`
  return { content, height: frame.height }
}
