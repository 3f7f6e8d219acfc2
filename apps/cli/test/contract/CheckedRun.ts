/** Compares what a run of `payments` has printed with the schemas of its outputs. */
import { contract } from "@payments/program"
import { mismatchOf } from "@payments/testkit/contract/CheckedOutput"
import { all, outputs } from "../../src/contract/Outputs.ts"

interface Run {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** The exit codes of runs that print all of their output. */
const completeCodes = new Set([0, 10, 11, 12])

/** Throws if JSON of the run is no output of its command. `seen` gets the names of its outputs. Returns how many it checked. */
export const checkRun = (args: ReadonlyArray<string>, run: Run, seen = new Set<string>()): number => {
  const values = [...valuesIn(args, run), ...linesOf(run.err)]
  for (const value of values) {
    const problem = mismatchOf(value.json, value.outputs, seen)
    if (problem !== undefined) throw new Error(`${problem}\npayments ${args.join(" ")}`)
  }
  return values.length
}

interface Value {
  readonly json: unknown
  readonly outputs: ReadonlyArray<contract.JsonOutput>
}

/** The outputs on stderr. */
const onStderr = [...contract.messageOutputs, outputs.exportSummary, outputs.sandboxRequest]

const linesOf = (err: string): ReadonlyArray<Value> =>
  err.split("\n").filter((line) => line.startsWith("{")).map((line) => ({ json: JSON.parse(line), outputs: onStderr }))

const valuesIn = (args: ReadonlyArray<string>, { code, out }: Run): ReadonlyArray<Value> => {
  const own = outputsOf(args).filter((output) => !onStderr.includes(output))
  const format = formatOf(args) ?? (/^(?:\{.*\n)+$/.test(out) ? "ndjson" : undefined)
  if (own.length === 0 || out === "" || (format !== "json" && format !== "ndjson")) return []
  const hasForeign = outputsOf(args).some(({ hasForeignLines }) => hasForeignLines)
  // An export to stdout has lines also with `--format json`, which says how its summary looks.
  const isLines = format === "ndjson" || (hasForeign && !out.startsWith("[") && !/"schemaVersion":\d+\}\n$/.test(out))
  let values: ReadonlyArray<unknown>
  try {
    values = isLines ? out.trimEnd().split("\n").map((line) => JSON.parse(line) as unknown) : [JSON.parse(out)]
  } catch (error) {
    if (completeCodes.has(code)) throw error
    return []
  }
  // Rows of somebody else have no version.
  const isForeign = (json: unknown) => hasForeign && (isLines || Array.isArray(json)) && !hasVersion(json)
  return values.filter((json) => !isForeign(json)).map((json) => ({ json, outputs: own }))
}

/** Whether an object, or the first object of an array, says its version. */
const hasVersion = (json: unknown): boolean =>
  Array.isArray(json)
    ? hasVersion(json[0])
    : typeof json === "object" && json !== null && Object.keys(json).at(-1) === "schemaVersion"

const formatOf = (args: ReadonlyArray<string>): string | undefined =>
  args.flatMap((word, index) => /^--format=(.*)$/.exec(word)?.[1] ?? (args[index - 1] === "--format" ? [word] : []))[0]

/** Returns the outputs of the longest command that the words name. */
const outputsOf = (args: ReadonlyArray<string>): ReadonlyArray<contract.JsonOutput> => {
  const words = ` ${args.join(" ")} `
  const names = [...new Set(all.flatMap(({ commands }) => commands))].filter((name) => words.includes(` ${name} `))
  const [named] = names.toSorted((one, other) =>
    other.split(" ").length - one.split(" ").length || words.indexOf(` ${one} `) - words.indexOf(` ${other} `)
  )
  return named === undefined ? [] : all.filter(({ commands }) => commands.includes(named))
}
