/** Measures `payments reconcile` next to reading both of its sides: a statement and a copy with as many records. */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { closeSync, openSync } from "node:fs"
import { join } from "node:path"
import { memory } from "../harness/ProcessFigures.ts"
import { atRoot, temporaryFolder } from "../harness/Programs.ts"
import { type Figure, medianOf, ratioOf } from "../harness/Report.ts"
import { inTurn } from "../harness/Rounds.ts"
import { Process, runAlone } from "../workloads/Process.ts"

export interface ReconcileSizes {
  readonly records: number
  /** Measured rounds after a warm-up round. */
  readonly rounds: number
}

/** The sizes for which the targets are defined. */
export const fullReconcileSizes: ReconcileSizes = { records: 1_000_000, rounds: 3 }

const payments = atRoot("bin/payments")

/** How often the memory of a process is read. Its largest size since its start is read, so a peak is not lost. */
const pollMs = 50

/** Runs the program. Its output goes to `file`. Returns its time and its largest resident memory. */
const run = async (
  args: ReadonlyArray<string>,
  { codes = [0], env = {}, file = "/dev/null" }: {
    readonly codes?: ReadonlyArray<number>
    readonly env?: Readonly<Record<string, string>>
    readonly file?: string
  } = {}
) => {
  const output = openSync(file, "w")
  const start = performance.now()
  const child = spawn(payments, args, {
    env: { PATH: process.env["PATH"], HOME: "/nonexistent", XDG_CONFIG_HOME: "/dev/null", ...env },
    stdio: ["ignore", output, "ignore"]
  })
  closeSync(output)
  let peak = 0
  const poll = setInterval(() => {
    try {
      peak = Math.max(peak, memory(child.pid ?? 0, "VmHWM") || 0)
    } catch {
      // The process has ended since the last poll.
    }
  }, pollMs)
  const [code] = await once(child, "exit")
  clearInterval(poll)
  if (!codes.includes(Number(code))) throw new Error(`payments ${args.join(" ")} ended with code ${String(code)}`)
  return { ms: performance.now() - start, mebibytes: peak / 1024 / 1024 }
}

/** `log` receives a line after each step. */
export const measureReconcile = async (
  { records, rounds }: ReconcileSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  execFileSync(process.execPath, [atRoot("scripts/programs.mjs")])
  await using stack = new AsyncDisposableStack()
  const { folder } = stack.use(temporaryFolder())
  const from = `sqlite:${join(folder, "payments.db")}`
  {
    await using service = new Process()
    const [url = ""] = await service.run("serveMany", [{ records }])
    await run(["export", "invoices", "--to", from], {
      env: { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_key" }
    })
  }
  log(`a copy of ${records} invoices`)
  // In an order of no meaning, as lines of a bank have it.
  const linesOf = async (name: string, reference: string) => {
    const file = join(folder, name)
    const columns = `${reference} AS reference, amount, coalesce(settlement_date, '2024-01-01') AS settlement_date`
    await run(["query", "--from", from, "--format", "csv", `SELECT ${columns} FROM invoices ORDER BY payment_id`], {
      file
    })
    return file
  }
  const matching = await linesOf("matching.csv", "reference")
  const strange = await linesOf("strange.csv", "'x' || reference")
  log("two statements of as many lines")
  const copySql = "SELECT reference, id, amount, settlement_date FROM invoices"
  const reconcile = (file: string, format: string, code: number) =>
    run(["reconcile", "--from", from, "--with", file, "--format", format], { codes: [code] })
  const { all, none, pairs, rows } = await inTurn({
    rows: async () => {
      const statement = await runAlone({ records }, "readCsv", matching)
      const copy = await run(["query", "--from", from, "--format", "csv", copySql])
      return { ms: statement.ms + copy.ms, mebibytes: 0 }
    },
    pairs: () => reconcile(matching, "table", 0),
    all: () => reconcile(matching, "csv", 0),
    none: () => reconcile(strange, "csv", 11)
  }, { rounds, log })
  const cases = [
    ["all lines match, table", pairs],
    ["all lines match, CSV of all", all],
    ["no line matches, CSV of all", none]
  ] as const
  return [
    { name: "reading both sides", value: medianOf(rows, "ms") / 1000, unit: "s" },
    ...cases.flatMap(([name, runs]): ReadonlyArray<Figure> => [
      { name, value: medianOf(runs, "ms") / 1000, unit: "s" },
      ratioOf(`${name} ÷ reading both sides`, "ms", [runs, rows], { atMost: 3 }),
      { name: `${name}: memory`, value: medianOf(runs, "mebibytes"), unit: "MiB", atMost: 300 }
    ])
  ]
}
