/** Measures queries of a copy as it was before many changes, next to the same queries of the copy as it is. */
import type { SandboxOptions } from "@payments/sandbox"
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { startDatabase, user } from "../harness/Database.ts"
import { atRoot } from "../harness/Programs.ts"
import { type Figure, figureOf, ratioOf } from "../harness/Report.ts"
import { inTurn } from "../harness/Rounds.ts"
import { Process } from "../workloads/Process.ts"

export interface HistorySizes {
  /** Invoices of the copy. A tenth of them change once after the point. */
  readonly records: number
  readonly rounds: number
}

/** The sizes for which the targets are defined. */
export const fullHistorySizes: HistorySizes = { records: 1_000_000, rounds: 5 }

/** Every query reads the whole list. */
const queries = {
  "settled-by-day": ["query", "settled-by-day"],
  "sums by status": ["query", "SELECT status, count(*), sum(amount) FROM invoices GROUP BY status ORDER BY status"],
  "find a customer": ["find", "no such customer"],
  "texts and times": ["query", "SELECT max(length(CAST(raw AS TEXT))), min(first_seen_at) FROM invoices"]
} as const

const payments = atRoot("bin/payments")

/** Runs the program, and returns its output. */
const run = async (args: ReadonlyArray<string>, url: string) => {
  const start = performance.now()
  const child = spawn(payments, args, {
    env: { PATH: process.env["PATH"], PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_key" },
    stdio: ["ignore", "pipe", "pipe"]
  })
  let [output, problem] = ["", ""]
  child.stdout.setEncoding("utf8").on("data", (text: string) => output += text)
  child.stderr.setEncoding("utf8").on("data", (text: string) => problem += text)
  const [code] = await once(child, "close")
  if (code !== 0) throw new Error(`payments ${args.join(" ")} ended with code ${String(code)}: ${problem}`)
  return { ms: performance.now() - start, output }
}

/** `log` receives a line after each step. */
export const measureHistory = async (
  { records, rounds }: HistorySizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  execFileSync(process.execPath, [atRoot("scripts/programs.mjs")])
  await using stack = new AsyncDisposableStack()
  const { folder, server } = await startDatabase(stack)
  const changed = { fault: "field", list: "invoices", field: "status", value: `"void"`, share: 0.1 } as const
  const services: ReadonlyArray<SandboxOptions> = [{ records }, { records, faults: [changed] }]
  const [before = "", after = ""] = await stack.use(new Process()).run("serveMany", services)
  const copies = {
    SQLite: `sqlite:${join(folder, "payments.db")}`,
    PostgreSQL: `postgres://${user}@127.0.0.1:${server.port}/postgres`
  }
  const figures: Array<Figure> = []
  for (const [database, copy] of Object.entries(copies)) {
    await run(["export", "invoices", "--to", copy], before)
    const known = await answersOf(copy, before, [])
    await run(["export", "invoices", "--to", copy, "--rebind"], after)
    log(`${database}: exported twice`)
    const { output } = await run(["query", "--from", copy, "--format", "csv", "SELECT count(*) FROM changes"], after)
    figures.push({ name: `${database}: later changes`, value: Number(output.split("\n")[1]), unit: "count" })
    const then = await answersOf(copy, after, ["--at", "0"])
    if (JSON.stringify(then) !== JSON.stringify(known)) throw new Error(`${database}: the answers differ`)
    for (const [name, args] of Object.entries(queries)) {
      const measured = await inTurn({
        now: () => run([...args, "--from", copy], after),
        before: () => run([...args, "--from", copy, "--at", "0"], after)
      }, { rounds, log: (line) => log(`${database}: ${name}: ${line}`) })
      const ms = (runs: typeof measured.now) => runs.map((one) => one.ms)
      figures.push(
        figureOf(`${database}: ${name}, now`, ms(measured.now), { unit: "ms" }),
        figureOf(`${database}: ${name}, as of before the changes`, ms(measured.before), { unit: "ms" }),
        ratioOf(`${database}: ${name}, before ÷ now`, "ms", [measured.before, measured.now], { atMost: 3 })
      )
    }
  }
  return figures
}

const answersOf = async (copy: string, url: string, at: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const answers: Array<string> = []
  for (const args of Object.values(queries)) answers.push((await run([...args, "--from", copy, ...at], url)).output)
  return answers
}
