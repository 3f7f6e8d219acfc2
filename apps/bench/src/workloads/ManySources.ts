/** Workers over many sources, whose services answer after 50 ms: how much they cost, and how old the lists are. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { cpuMs, metric } from "../harness/ProcessFigures.ts"
import { programs } from "../harness/Programs.ts"
import { percentile95 } from "../harness/Report.ts"
import { Runner } from "../harness/Runner.ts"
import { Process } from "./Process.ts"

export interface BenchSource {
  readonly name: string
  readonly url: string
  readonly to: string
  /** Further lines of its table. */
  readonly settings?: ReadonlyArray<string>
}

/** Returns the name of the file. `defaults` are lines of its table `[defaults]`. */
export const writeSources = (
  folder: string,
  defaults: ReadonlyArray<string>,
  sources: ReadonlyArray<BenchSource>
): string => {
  const file = join(folder, "payments.toml")
  const tables = sources.flatMap(({ name, settings = [], to, url }) => [
    `[sources.${name}]`,
    `base_url = "${url}"`,
    `to = "${to}"`,
    ...settings
  ])
  writeFileSync(file, ["[defaults]", `api_key_env = "SANDBOX_KEY"`, ...defaults, ...tables, ""].join("\n"))
  return file
}

/** Starts a worker over these sources, whose file and log are in the folder, and waits until it listens. */
export const startWorker = async (
  stack: AsyncDisposableStack,
  folder: string,
  defaults: ReadonlyArray<string>,
  sources: ReadonlyArray<BenchSource>
): Promise<Runner> => {
  const args = ["--config", writeSources(folder, defaults, sources)]
  const log = join(folder, "worker.log")
  const worker = stack.use(await Runner.start({ name: "worker", program: programs.worker, args, log }))
  await worker.untilListening()
  return worker
}

/** The services run in one process. Returns it with their addresses. */
export const startServices = async (stack: AsyncDisposableStack, count: number, records: number) => {
  const services = stack.use(new Process())
  const latency = { fault: "latency", ms: 50 } as const
  const urls = await services.run(
    "serveMany",
    Array.from({ length: count }, (_, seed) => ({ seed, records, faults: [latency] }))
  )
  return { services, urls }
}

export const observe = async (runners: ReadonlyArray<Runner>, services: Process, seconds: number) => {
  const cpu = () => runners.reduce((total, { pid }) => total + cpuMs(pid), 0)
  const [requestsBefore, cpuBefore] = [await services.run("countRequests"), cpu()]
  const ages: Array<number> = []
  let observed = 0
  const observeFor = async (more: number): Promise<number> => {
    for (const end = observed + more; observed < end; observed++) {
      for (const { url = "" } of runners) ages.push(...await metric(url, "payments_list_age_seconds"))
      await sleep(1000)
    }
    return await services.run("countRequests") - requestsBefore
  }
  let pages = await observeFor(seconds)
  // A busy machine may have stopped the workers for all of a short time.
  while (pages === 0 && observed < seconds + 60) pages = await observeFor(1)
  if (pages === 0 || ages.length < observed) throw new Error("the workers reported no age, or read nothing")
  return {
    /** CPU milliseconds of all workers per 1,000 pages. */
    cpu: (cpu() - cpuBefore) / pages * 1000,
    pagesPerSecond: pages / observed,
    /** The 95th percentile of the ages of all lists, in seconds. */
    age: percentile95(ages)
  }
}
