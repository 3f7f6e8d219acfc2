/** The figures of a benchmark, and their report as text. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { cpus, totalmem } from "node:os"

/** The units of figures, with their decimal places. */
const digits = {
  "records/s": 0,
  "pages/s": 0,
  "×": 3,
  "%": 1,
  MiB: 1,
  requests: 0,
  ms: 0,
  "µs": 2,
  s: 2,
  files: 2,
  scans: 0,
  count: 0
} as const

export interface Figure {
  readonly name: string
  readonly value: number
  /** The lowest and the highest value, if `value` is the median of several. */
  readonly spread?: readonly [number, number]
  readonly unit: keyof typeof digits
  readonly atLeast?: number
  readonly atMost?: number
}

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const [low = Number.NaN, high = Number.NaN] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]]
  return (low + high) / 2
}

/** Runs that measured the value of this name. */
type Runs<Name extends string> = ReadonlyArray<{ readonly [name in Name]: number }>

/** The median of one of the values that runs measured. */
export const medianOf = <Name extends string>(runs: Runs<Name>, name: Name): number =>
  median(runs.map((run) => run[name]))

/** A figure of several runs: their median, and the lowest and the highest. */
export const figureOf = (
  name: string,
  values: ReadonlyArray<number>,
  rest: Pick<Figure, "unit" | "atLeast" | "atMost">
): Figure => ({ name, value: median(values), spread: [Math.min(...values), Math.max(...values)], ...rest })

/** The ratios of a value of two cases that were measured in turn: one of each round. */
export const ratioOf = <Name extends string>(
  name: string,
  value: Name,
  [runs, others]: readonly [Runs<Name>, Runs<Name>],
  target: Pick<Figure, "atLeast" | "atMost"> = {}
): Figure => {
  const ratios = runs.map((run, round) => run[value] / (others[round]?.[value] ?? Number.NaN))
  return figureOf(name, ratios, { unit: "×", ...target })
}

/** The speed of runs that read so many records. */
export const rateOf = (name: string, records: number, runs: Runs<"ms">): Figure => ({
  name,
  value: records / medianOf(runs, "ms") * 1000,
  unit: "records/s"
})

/** The smallest value that is at least as large as 95 % of the values. */
export const percentile95 = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(values.length * 0.95) - 1)] ?? Number.NaN

/** Returns undefined if the figure has no target. */
export const meetsTarget = ({ atLeast, atMost, value }: Figure): boolean | undefined =>
  atLeast === undefined && atMost === undefined
    ? undefined
    : value >= (atLeast ?? Number.NEGATIVE_INFINITY) && value <= (atMost ?? Number.POSITIVE_INFINITY)

/** Describes the machine and the versions of the measured packages. */
export const machine = () => ({
  cpu: cpus()[0]?.model ?? "unknown",
  cores: cpus().length,
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  node: process.versions.node,
  versions: Object.fromEntries(
    ["effect", "undici", "stripe", "zod", "got"].map((name) => [name, versionOf(name)] as const)
  )
})

const versionOf = (name: string): string => {
  const files = createRequire(import.meta.url).resolve.paths(name)?.map((path) => `${path}/${name}/package.json`) ?? []
  for (const path of files) {
    try {
      return (JSON.parse(readFileSync(path, "utf8")) as { readonly version: string }).version // every package has one
    } catch {
      // The package is not in this folder. Try the parent folder.
    }
  }
  return "unknown"
}

export const render = (figures: ReadonlyArray<Figure>): string => {
  const width = Math.max(...figures.map(({ name }) => name.length))
  return figures.map((figure) => {
    const { atLeast, atMost, name, spread, unit, value } = figure
    const range = spread === undefined ? "" : ` (${spread.map((end) => end.toFixed(digits[unit])).join(" to ")})`
    const target = atLeast !== undefined ? `  target ≥ ${atLeast}` : atMost !== undefined ? `  target ≤ ${atMost}` : ""
    const verdict = { true: "  ok", false: "  MISSED", undefined: "" }[`${meetsTarget(figure)}`]
    return `${name.padEnd(width)}  ${value.toFixed(digits[unit]).padStart(8)} ${unit}${range}${target}${verdict}`
  }).join("\n")
}

/** Returns whether all figures meet their targets. */
export const report = (figures: ReadonlyArray<Figure>): boolean => {
  console.log(`\n${render(figures)}`)
  return figures.every((figure) => meetsTarget(figure) !== false)
}
