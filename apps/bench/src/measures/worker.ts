/** Measures the worker: many sources in one process, and the cost of metrics, traces and status pages. */
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { type Figure, median, medianAndRange, percentile95 } from "../harness/Report.ts"
import { type BenchSource, WorkerProcess } from "../harness/WorkerProcess.ts"
import { Process } from "../workloads/Process.ts"

/** The sizes of the measurements. */
export interface WorkerSizes {
  /** Records of the list for the cost of metrics and status pages. */
  readonly records: number
  readonly rounds: number
  readonly sources: number
  /** Records of each list of a source. */
  readonly recordsPerList: number
  /** How long many sources are measured. */
  readonly seconds: number
  /** The interval of their full scans in seconds. */
  readonly every: number
  /** The time between two scrapes, and between two exports of metrics. Both are usually less frequent: every 15 s or 60 s. */
  readonly metricSeconds: number
  /**
   * How often the CPU times with and without status pages are compared. Equal windows differ by 5 %, so the median of 20 pairs
   * may be 1.5 % too low.
   */
  readonly pairs: number
  /** How long the status pages of a pair are open, and closed. */
  readonly windowSeconds: number
}

/** The sizes for which the targets are defined. */
export const fullWorkerSizes: WorkerSizes = {
  records: 500_000,
  rounds: 5,
  sources: 100,
  recordsPerList: 1000,
  seconds: 60,
  every: 15,
  metricSeconds: 5,
  pairs: 60,
  windowSeconds: 2
}

type Log = (line: string) => void

/** Measures all figures. `log` receives a line after each step. */
export const measureWorker = async (sizes: WorkerSizes, log: Log): Promise<ReadonlyArray<Figure>> => [
  ...await measureManySources(sizes, log),
  ...await measureObservation(sizes, log)
]

/** Makes a temporary folder. Disposing it removes it. */
const temporaryFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), "payments-bench-"))
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) }
}

/** The faults of the services that fail: a refused key, answers that never come, and a rate limit. */
const failures = [
  [{ fault: "status", status: 401 }],
  [{ fault: "stall", at: "headers" }],
  [{ fault: "status", status: 429, retryAfter: 5 }]
] as const

const measureManySources = async (sizes: WorkerSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  const healthy = await runManySources(sizes, 0)
  log(`${sizes.sources} sources: age p95 ${healthy.age.toFixed(1)} s, CPU per 1,000 pages ${healthy.cpu.toFixed(0)} ms`)
  const mixed = await runManySources(sizes, failures.length)
  log(`${failures.length} of them fail: age p95 of the others ${mixed.age.toFixed(1)} s`)
  return [
    { name: `CPU per 1,000 pages, ${sizes.sources} sources`, value: healthy.cpu, unit: "ms" },
    { name: `peak RSS, ${sizes.sources} sources`, value: healthy.peakRss / 2 ** 20, unit: "MiB", atMost: 400 },
    { name: "age p95 of all lists", value: healthy.age, unit: "s" },
    {
      name: `age p95 of the other lists if ${failures.length} sources fail ÷ if none fails`,
      value: mixed.age / healthy.age,
      unit: "×",
      atMost: 1.05
    }
  ]
}

/** Runs a worker over many sources, of which the first `failing` ones fail after their first scan. */
const runManySources = async ({ every, recordsPerList, seconds, sources }: WorkerSizes, failing: number) => {
  using place = temporaryFolder()
  await using services = new Process()
  const latency = { fault: "latency", ms: 50 } as const
  const { urls = [] } = await services.send({
    do: "serveMany",
    services: Array.from({ length: sources }, (_, seed) => ({ seed, records: recordsPerList, faults: [latency] }))
  })
  const named = urls.map((url, index): BenchSource => ({ name: `source-${index}`, url }))
  await using worker = await WorkerProcess.start(place.folder, ["[defaults]", `every = "${every}s"`], named)
  await worker.untilLogged("scan complete", sources * 3)
  for (let service = 0; service < failing; service++) {
    // oxlint-disable-next-line no-await-in-loop -- the service answers one request at a time
    await services.send({ do: "setFaults", service, faults: [latency, ...failures[service] ?? []] })
  }
  const failed = new Set(named.slice(0, failing).map(({ name }) => name))
  // The failures have an effect from the next scans on.
  await sleep(2 * every * 1000)
  const ages: Array<number> = []
  const [before, cpuBefore] = [await requestsOf(services), worker.cpuMs()]
  for (let second = 0; second < seconds; second++) {
    // oxlint-disable-next-line no-await-in-loop -- one sample per second
    for (const { source, value } of await worker.metric("payments_list_age_seconds")) {
      if (!failed.has(source)) ages.push(value)
      else if (value < every) throw new Error(`the service of ${source} does not fail`)
    }
    // oxlint-disable-next-line no-await-in-loop -- one sample per second
    await sleep(1000)
  }
  const pages = await requestsOf(services) - before
  if (ages.length === 0 || pages === 0) throw new Error("the worker reported no age, or read nothing")
  return { age: percentile95(ages), cpu: (worker.cpuMs() - cpuBefore) / pages * 1000, peakRss: worker.memory("VmHWM") }
}

const requestsOf = async (services: Process): Promise<number> =>
  ((await services.send({ do: "countRequests" })).requests ?? []).reduce((sum, count) => sum + count, 0)

/** The sizes of the measurements of telemetry and status pages. */
type ObservationSizes = Pick<WorkerSizes, "records" | "rounds" | "metricSeconds" | "pairs" | "windowSeconds">

/** Measures what telemetry and open status pages cost. */
export const measureObservation = async (sizes: ObservationSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  await using service = new Process()
  const { url = "" } = await service.send({ do: "listen", records: sizes.records })
  return [
    ...await measureTelemetry(url, sizes, log),
    {
      // The clients of the pages run on the same machine, so a comparison of durations would measure them too.
      name: `CPU time per page without status pages ÷ with ${openPages} open`,
      value: await measurePages(url, sizes, log),
      unit: "×",
      atLeast: 0.98
    }
  ]
}

/** Compares first scans of two workers that follow each other. */
const measureTelemetry = async (url: string, sizes: ObservationSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  const { rounds } = sizes
  const runs: Array<Readonly<Record<Telemetry, FirstScan>>> = []
  for (let round = 0; round <= rounds; round++) {
    const pair: Partial<Record<Telemetry, FirstScan>> = {}
    for (const telemetry of inTurn(["off", "on"] as const, round)) {
      // oxlint-disable-next-line no-await-in-loop -- the runs must not compete with each other
      const { cpuMs, rate } = pair[telemetry] = await firstScan(url, sizes, telemetry)
      log(
        `first scan, telemetry ${telemetry}, round ${round} of ${rounds}: ${rate.toFixed(0)} records/s, CPU ${cpuMs} ms`
      )
    }
    const { off, on } = pair
    // The first round warms up the machine.
    if (round > 0 && off !== undefined && on !== undefined) runs.push({ off, on })
  }
  const rateOf = (telemetry: Telemetry) => medianAndRange(runs.map((pair) => pair[telemetry].rate))
  return [
    { name: "export rate without metrics and traces", ...rateOf("off"), unit: "records/s" },
    { name: "export rate with metrics and traces", ...rateOf("on"), unit: "records/s" },
    {
      name: "export rate with metrics and traces ÷ without",
      ...medianAndRange(runs.map(({ off, on }) => on.rate / off.rate)),
      unit: "×",
      atLeast: 0.95
    },
    {
      name: "CPU time of an export without metrics and traces ÷ with",
      ...medianAndRange(runs.map(({ off, on }) => off.cpuMs / on.cpuMs)),
      unit: "×"
    }
  ]
}

/** Every other round runs backwards, so that a machine that gets slower or faster favours neither kind. */
const inTurn = <Kind>(kinds: ReadonlyArray<Kind>, round: number): ReadonlyArray<Kind> =>
  round % 2 === 0 ? kinds : kinds.toReversed()

/** Whether a worker exports traces and metrics, and its metrics are scraped. */
type Telemetry = "off" | "on"

/** What a first scan took. */
interface FirstScan {
  /** The CPU time of the worker from its start to the end of the scan. */
  readonly cpuMs: number
  /** Records per second of the scan. */
  readonly rate: number
}

const firstScan = async (
  url: string,
  { metricSeconds, records }: ObservationSizes,
  telemetry: Telemetry
): Promise<FirstScan> => {
  using place = temporaryFolder()
  await using collector = await startCollector()
  const env = telemetry === "on"
    ? { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_METRIC_EXPORT_INTERVAL: String(metricSeconds * 1000) }
    : {}
  await using worker = await WorkerProcess.start(place.folder, [], [onlyList(url, "1h")], env)
  const scrape = telemetry === "on"
    ? setInterval(() => void worker.metric("payments_list_age_seconds"), metricSeconds * 1000)
    : undefined
  const [line] = await worker.untilLogged("scan complete")
  const cpuMs = worker.cpuMs()
  clearInterval(scrape)
  // Without data at the other end, the run would have measured nothing.
  await untilTrue(() => telemetry === "off" || collector.requests() > 0)
  const { elapsedMs, records: read }: { readonly [name: string]: unknown } = line ?? {}
  if (read !== records) throw new Error(`the scan read ${String(read)} records`)
  return { cpuMs, rate: records / Number(elapsedMs) * 1000 }
}

const onlyList = (url: string, every: string): BenchSource => ({
  name: "one",
  url,
  settings: [`lists = ["payout-requests"]`, `every = "${every}"`]
})

/** The number of status pages that are open at the same time. */
const openPages = 50

/**
 * Compares the CPU time per page of the list while no status page is open with the time while {@link openPages} are. The windows
 * alternate while the worker reads the same records again and again.
 */
const measurePages = async (
  url: string,
  { pairs, windowSeconds }: ObservationSizes,
  log: Log
): Promise<number> => {
  using place = temporaryFolder()
  await using worker = await WorkerProcess.start(place.folder, [], [onlyList(url, "1s")])
  const readPages = async () =>
    (await worker.metric("payments_requests_total")).reduce((sum, { value }) => sum + value, 0)
  await worker.untilLogged("scan complete")
  const cpuPerPage = async (kind: "closed" | "open"): Promise<number> => {
    const closed = new AbortController()
    const watching = Array.from(
      { length: kind === "open" ? openPages : 0 },
      () => new Watcher(`${worker.url}/events`, closed.signal)
    )
    await untilTrue(() => watching.every(({ bytes }) => bytes > 0))
    const received = watching.map(({ bytes }) => bytes)
    const [readBefore, cpuBefore] = [await readPages(), worker.cpuMs()]
    await sleep(windowSeconds * 1000)
    const [read, cpu] = [await readPages() - readBefore, worker.cpuMs() - cpuBefore]
    // Without updates, the window would have measured nothing.
    await untilTrue(() => watching.every(({ bytes }, index) => bytes > (received[index] ?? 0)))
    closed.abort()
    await Promise.allSettled(watching.map(({ end }) => end))
    return cpu / read
  }
  const ratios: Array<number> = []
  for (let pair = 0; pair < pairs; pair++) {
    const cpu = { closed: 0, open: 0 }
    // oxlint-disable-next-line no-await-in-loop -- the windows follow each other
    for (const kind of inTurn(["closed", "open"] as const, pair)) cpu[kind] = await cpuPerPage(kind)
    log(
      `${openPages} status pages, pair ${pair + 1} of ${pairs}: CPU per page ${cpu.closed.toFixed(3)} ms, ${
        cpu.open.toFixed(3)
      } ms`
    )
    ratios.push(cpu.closed / cpu.open)
  }
  return median(ratios)
}

/** Waits until a condition is true, for 20 s at most. */
const untilTrue = async (condition: () => boolean): Promise<void> => {
  for (let tries = 0; !condition(); tries++) {
    if (tries === 200) throw new Error("the collector or a status page received nothing")
    // oxlint-disable-next-line no-await-in-loop -- this waits
    await sleep(100)
  }
}

/** A client that reads a stream until the signal aborts it. */
class Watcher {
  bytes = 0
  readonly end: Promise<void>

  constructor(url: string, signal: AbortSignal) {
    this.end = this.#read(url, signal)
  }

  async #read(url: string, signal: AbortSignal): Promise<void> {
    const { body, ok } = await fetch(url, { signal })
    if (!ok) return
    for await (const chunk of body ?? []) this.bytes += chunk.length
  }
}

/** Starts a collector that accepts everything. */
const startCollector = async () => {
  let requests = 0
  const server = createServer((request, response) => {
    requests++
    request.resume().on("end", () => response.writeHead(200, { "content-type": "application/json" }).end("{}"))
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address()
  return {
    url: `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`,
    requests: () => requests,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }
}
