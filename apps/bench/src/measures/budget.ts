/**
 * Measures what a worker and command lines with the same key make of a service's request rate: how many answers are 429, and
 * how much of the rate is used, with and without a shared budget.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { startDatabase, user } from "../harness/Database.ts"
import { programs } from "../harness/Programs.ts"
import type { Figure } from "../harness/Report.ts"
import { WorkerProcess } from "../harness/WorkerProcess.ts"
import { Process } from "../workloads/Process.ts"

/** The sizes of the measurement. */
export interface BudgetSizes {
  /** The command lines that run at a time, beside the worker. */
  readonly commandLines: number
  /** The requests per second that the service allows. */
  readonly perSecond: number
  /** The time before the measurement. */
  readonly warmUpSeconds: number
  readonly seconds: number
}

/** The sizes for which the targets are defined. */
export const fullBudgetSizes: BudgetSizes = { commandLines: 5, perSecond: 20, warmUpSeconds: 60, seconds: 120 }

/** How the processes of a measurement are configured. */
interface Setup {
  readonly name: string
  readonly hasStore: boolean
  readonly isLimitKnown: boolean
}

const setups: ReadonlyArray<Setup> = [
  { name: "shared budget, limit known", hasStore: true, isLimitKnown: true },
  { name: "shared budget, limit unknown", hasStore: true, isLimitKnown: false },
  { name: "no shared budget, limit known", hasStore: false, isLimitKnown: true },
  { name: "no shared budget, limit unknown", hasStore: false, isLimitKnown: false }
]

/** Measures all figures. `log` receives a line after each step. */
export const measureBudget = async (
  sizes: BudgetSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  // Two setups at a time: their processes mostly wait.
  const shared = await measure(setups.filter(({ hasStore }) => hasStore), sizes, log)
  return [...shared, ...await measure(setups.filter(({ hasStore }) => !hasStore), sizes, log)]
}

const measure = async (
  measured: ReadonlyArray<Setup>,
  sizes: BudgetSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  await using stack = new AsyncDisposableStack()
  const { folder, server } = await startDatabase(stack)
  const services = stack.use(new Process())
  const { urls = [] } = await services.send({
    do: "serveMany",
    services: measured.map(() => ({
      records: 1_000_000,
      faults: [
        { fault: "latency", ms: 50 } as const,
        { fault: "rateLimit", perSecond: sizes.perSecond, burst: sizes.perSecond } as const
      ]
    }))
  })
  const store = `postgres://${user}@127.0.0.1:${server.port}/postgres`
  await Promise.all(measured.map(async ({ hasStore, isLimitKnown }, index) => {
    const url = urls[index] ?? ""
    const settings = [
      ...(hasStore ? [["rate_limit_store", `"${store}"`] as const] : []),
      ...(isLimitKnown ? [["max_requests_per_second", String(sizes.perSecond)] as const] : [])
    ]
    const own = join(folder, String(index))
    mkdirSync(own)
    const worker = WorkerProcess.start(own, ["[defaults]", `every = "1s"`], [{
      name: "one",
      url,
      settings: settings.map((pair) => pair.join(" = "))
    }])
    const env = {
      PAYMENTS_BASE_URL: url,
      PAYMENTS_API_KEY: "sandbox_key",
      ...Object.fromEntries(
        settings.map(([name, value]) => [`PAYMENTS_${name.toUpperCase()}`, value.replaceAll(`"`, "")])
      )
    }
    for (let line = 0; line < sizes.commandLines; line++) stack.use(new CommandLines(env, line === 0 ? 10 : undefined))
    stack.use(await worker)
  }))
  const statuses = async () => (await services.send({ do: "countStatuses" })).statuses ?? []
  await sleep(sizes.warmUpSeconds * 1000)
  const before = await statuses()
  const began = performance.now()
  await sleep(sizes.seconds * 1000)
  const after = await statuses()
  const seconds = (performance.now() - began) / 1000
  return measured.flatMap(({ hasStore, name }, index): ReadonlyArray<Figure> => {
    const count = (status: string) => (after[index]?.[status] ?? 0) - (before[index]?.[status] ?? 0)
    const [accepted, refused] = [count("200"), count("429")]
    log(`${name}: ${accepted} answers with 200, ${refused} with 429 in ${seconds.toFixed(0)} s`)
    return [
      {
        name: `${name}: answers with 429`,
        value: 100 * refused / (accepted + refused),
        unit: "%",
        ...(hasStore ? { atMost: 1 } : {})
      },
      {
        name: `${name}: share of the allowed requests that is used`,
        value: 100 * accepted / seconds / sizes.perSecond,
        unit: "%",
        ...(hasStore ? { atLeast: 90 } : {})
      }
    ]
  })
}

/** The exit codes of a command line that got too many answers with 429, and of one that was interrupted. */
const rateLimited = 6
const interrupted = 130

/** Command lines that run one after the other, until they are disposed. */
class CommandLines implements Disposable {
  #child: ChildProcess | undefined
  #isEnded = false

  /** Each of them reads a whole list. With `seconds`, it is interrupted after this time. */
  constructor(env: Readonly<Record<string, string>>, seconds?: number) {
    const start = () => {
      if (this.#isEnded) return
      // Small pages: this measures requests, not records.
      const args = ["payin-sources", "list", "--all", "--limit", "10", "--format", "ndjson"]
      const child = spawn(process.execPath, [programs.cli, ...args], {
        // Without `bin/payments`, the program takes the null device on stdout as closed.
        env: { PATH: process.env["PATH"], PAYMENTS_STDOUT: "open", ...env },
        stdio: ["ignore", "ignore", "pipe"]
      })
      this.#child = child
      let errors = ""
      child.stderr.on("data", (chunk: Buffer) => errors += chunk.toString())
      if (seconds !== undefined) setTimeout(() => child.kill("SIGINT"), seconds * 1000)
      child.once("exit", (code) => {
        if (this.#isEnded) return
        if (![0, rateLimited, interrupted].includes(code ?? -1)) throw new Error(`a command line failed: ${errors}`)
        setTimeout(start, 1000)
      })
    }
    start()
  }

  [Symbol.dispose](): void {
    this.#isEnded = true
    this.#child?.kill("SIGKILL")
  }
}
