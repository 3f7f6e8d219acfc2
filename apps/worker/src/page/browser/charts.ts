/**
 * The charts of changes per day: stacked bars, drawn from the numbers in the attribute `data-points`. This script is
 * separate, so that the page stays up to date if a browser cannot draw charts.
 */
// oxlint-disable-next-line no-unassigned-import -- It runs before uPlot is loaded.
import "./Locale.ts"
import uPlot from "uplot"

const kinds = ["insert", "update", "missing", "returned"]
const titles = ["inserted", "updated", "missing", "returned"]
const heightPx = 190
const halfDay = 43_200

/** The seconds of a day since 1970, then the number of changes of each kind. */
type Point = ReadonlyArray<number>

interface Chart {
  readonly plot: uPlot
  readonly points: string
}

const charts = new Map<Element, Chart>()

/** Draws new charts and those whose numbers have changed. Removes charts that have left the page. */
const drawCharts = (): void => {
  for (const [element, { plot }] of charts) {
    if (element.isConnected) continue
    plot.destroy()
    charts.delete(element)
    resized.unobserve(element)
  }
  for (const element of document.querySelectorAll<HTMLElement>(".plot")) {
    const points = element.dataset["points"] ?? "[]"
    const chart = charts.get(element)
    if (chart?.points === points) continue
    chart?.plot.destroy()
    const words = element.querySelector(".undrawn")
    charts.set(element, { plot: draw(element, JSON.parse(points) as ReadonlyArray<Point>), points }) // of Details.ts
    // Without a chart the words stay.
    words?.remove()
    resized.observe(element)
  }
}

const resized = new ResizeObserver((entries) => {
  for (const { contentRect: { width }, target } of entries) {
    const plot = charts.get(target)?.plot
    if (plot !== undefined && width > 0 && plot.width !== width) plot.setSize({ width, height: heightPx })
  }
})

// The colours of a canvas do not follow the style by themselves.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const { plot } of charts.values()) plot.destroy()
  charts.clear()
  drawCharts()
})

const draw = (element: HTMLElement, points: ReadonlyArray<Point>): uPlot => {
  const style = getComputedStyle(element)
  const color = (name: string) => style.getPropertyValue(`--${name}`).trim()
  // Bars are stacked: each series is the sum of its kind and the kinds below it, and the highest is drawn first.
  const stacked = kinds.map((_, kind) => points.map((point) => sum(point.slice(1, kind + 2))))
  const order = kinds.map((_, index) => kinds.length - 1 - index)
  const readout = document.createElement("p")
  readout.className = "readout"
  const total = `${grouped(sum(points.map((point) => sum(point.slice(1)))))} changes in all`
  readout.textContent = total
  const bars = uPlot.paths.bars?.({ size: [0.75, 28], align: 0 })
  const axis = {
    stroke: color("muted"),
    font: `12px ${style.fontFamily}`,
    grid: { stroke: color("line"), width: 1 },
    ticks: { show: false }
  }
  const plot = new uPlot(
    {
      width: Math.max(element.clientWidth, 200),
      height: heightPx,
      padding: [8, 14, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: true, range: (_plot, min, max) => [min - halfDay, max + halfDay] },
        y: { range: (_plot, _min, max) => [0, Math.max(4, max * 1.05)] }
      },
      axes: [
        { ...axis, size: 26, gap: 6, grid: { show: false }, space: 64, values: (_plot, splits) => splits.map(dayOf) },
        {
          ...axis,
          size: 48,
          space: 36,
          values: (_plot, splits) => splits.map((n) => Number.isInteger(n) ? short(n) : "")
        }
      ],
      series: [
        {},
        ...order.map((kind): uPlot.Series => ({
          fill: color(kinds[kind] ?? ""),
          width: 0,
          points: { show: false },
          ...bars !== undefined && { paths: bars }
        }))
      ],
      hooks: {
        setCursor: [({ cursor }) => {
          const point = (cursor.left ?? -1) < 0 ? undefined : points[cursor.idx ?? -1]
          readout.textContent = point === undefined
            ? total
            : `${dayOf(point[0] ?? 0)}: ${
              titles.map((title, kind) => `${grouped(point[kind + 1] ?? 0)} ${title}`).join(", ")
            }`
        }]
      }
    },
    [points.map(([day = 0]) => day), ...order.map((kind) => stacked[kind] ?? [])],
    element
  )
  plot.root.append(readout)
  return plot
}

const sum = (numbers: ReadonlyArray<number>): number => numbers.reduce((total, n) => total + n, 0)

const grouped = (n: number): string => n.toLocaleString("en-US")

const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" })
const dayOf = (seconds: number): string => dayFormat.format(new Date(seconds * 1000))

const shortFormat = new Intl.NumberFormat("en-US", { notation: "compact" })
const short = (n: number): string => shortFormat.format(n)

drawCharts()
document.addEventListener("page:changed", drawCharts)
