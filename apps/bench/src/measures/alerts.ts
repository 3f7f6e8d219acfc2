/**
 * Measures the alert rules in a real Prometheus: how soon the condition of an alert holds after a service stalls or limits all
 * requests, after the worker is frozen, and after a restart; and whether a worker without faults has an alert.
 */
import type { Fault } from "@payments/sandbox"
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import type { Figure } from "../harness/Report.ts"
import { atRoot } from "../harness/Root.ts"
import { WorkerProcess } from "../harness/WorkerProcess.ts"
import { Process } from "../workloads/Process.ts"

/** The sizes of the measurement. */
export interface AlertSizes {
  /** The `max_age` of the sources. */
  readonly maxAgeSeconds: number
  /** The scans of the worker without faults. */
  readonly scans: number
}

/** The sizes for which the targets are defined. */
export const fullAlertSizes: AlertSizes = { maxAgeSeconds: 60, scans: 1000 }

type Log = (line: string) => void

const rules = atRoot("deploy/prometheus/rules.yml")

/** A step that causes an alert. */
interface Disturbance {
  readonly name: string
  readonly alert: string
  /** The time after which the alert is due. */
  readonly limitSeconds: (maxAgeSeconds: number) => number
  readonly begin: (watched: Watched) => Promise<void>
}

const stall = [{ fault: "stall", at: "headers" }] as const
const maxAge = (seconds: number) => seconds

const disturbances: ReadonlyArray<Disturbance> = [
  { name: "a stall", alert: "PaymentsListStale", limitSeconds: maxAge, begin: (watched) => watched.setFaults(stall) },
  {
    name: "429 to every request",
    alert: "PaymentsListStale",
    limitSeconds: maxAge,
    begin: (watched) => watched.setFaults([{ fault: "status", status: 429, retryAfter: 5 }])
  },
  {
    name: "a restart during a stall",
    alert: "PaymentsListStale",
    limitSeconds: maxAge,
    begin: async (watched) => {
      await watched.setFaults(stall)
      await watched.restart()
    }
  },
  {
    name: "SIGSTOP of the worker",
    alert: "PaymentsNoMetrics",
    limitSeconds: () => 0,
    begin: (watched) => Promise.resolve(watched.worker.signal("SIGSTOP"))
  }
]

/** Measures all figures. `log` receives a line after each step. */
export const measureAlerts = async (sizes: AlertSizes, log: Log): Promise<ReadonlyArray<Figure>> => [
  ...await Promise.all(disturbances.map((disturbance) => measureDelay(disturbance, sizes, log))),
  await measureQuiet(sizes, log)
]

/** Returns the time until the condition of the alert holds. */
const measureDelay = async ({ alert, begin, limitSeconds, name }: Disturbance, sizes: AlertSizes, log: Log) => {
  await using watched = await Watched.start(sizes, 1)
  await watched.worker.untilLogged("scan complete", 6)
  // Prometheus reads the metrics at least once without the fault.
  await sleep(20_000)
  await watched.requireNoAlert()
  const limit = limitSeconds(sizes.maxAgeSeconds)
  // oxlint-disable-next-line no-restricted-properties -- Prometheus reports the start of an alert as a date
  const start = Date.now()
  const deadline = performance.now() + (limit + 180) * 1000
  await begin(watched)
  let activeAt: number | undefined
  while (activeAt === undefined && performance.now() < deadline) {
    // oxlint-disable-next-line no-await-in-loop -- this waits
    await sleep(1000)
    // oxlint-disable-next-line no-await-in-loop -- this waits
    activeAt = (await watched.alerts()).find((active) => active.alert === alert)?.activeAt
  }
  const seconds = activeAt === undefined ? Number.POSITIVE_INFINITY : (activeAt - start) / 1000
  log(`${name}: ${alert} holds after ${seconds.toFixed(0)} s`)
  return { name: `${alert} after ${name}`, value: seconds, unit: "s", atMost: limit + 60 } satisfies Figure
}

/** Returns the number of alerts of a worker that runs without faults. */
const measureQuiet = async (sizes: AlertSizes, log: Log): Promise<Figure> => {
  await using watched = await Watched.start({ ...sizes, everySeconds: 1 }, 2)
  const seen = new Set<string>()
  let complete = 0
  while (complete < sizes.scans) {
    // oxlint-disable-next-line no-await-in-loop -- one sample per 5 s
    await sleep(5000)
    complete = watched.worker.lines("scan complete").length
    // oxlint-disable-next-line no-await-in-loop -- one sample per 5 s
    for (const { alert } of await watched.alerts()) seen.add(alert)
  }
  log(`${complete} scans without faults: ${[...seen].join(", ") || "no alert"}`)
  return { name: `alerts in ${sizes.scans} scans without faults`, value: seen.size, unit: "alerts", atMost: 0 }
}

/** A worker with its services, and a Prometheus that reads its metrics every 15 s, as in deploy/docker. */
class Watched implements AsyncDisposable {
  readonly #folder: string
  readonly #services: Process
  readonly #sources: Parameters<typeof WorkerProcess.start>[2]
  readonly #top: ReadonlyArray<string>
  #prometheus: ChildProcess | undefined
  #port = 0
  worker: WorkerProcess

  private constructor(
    folder: string,
    services: Process,
    top: ReadonlyArray<string>,
    sources: Parameters<typeof WorkerProcess.start>[2],
    worker: WorkerProcess
  ) {
    this.#folder = folder
    this.#services = services
    this.#top = top
    this.#sources = sources
    this.worker = worker
  }

  static async start(
    { everySeconds = 10, maxAgeSeconds }: AlertSizes & { readonly everySeconds?: number },
    count: number
  ): Promise<Watched> {
    const folder = mkdtempSync(join(tmpdir(), "payments-alerts-"))
    const services = new Process()
    const { urls = [] } = await services.send({
      do: "serveMany",
      services: Array.from({ length: count }, (_, seed) => ({ seed, records: 1000 }))
    })
    const top = ["[defaults]", `every = "${everySeconds}s"`, `max_age = "${maxAgeSeconds}s"`]
    const sources = urls.map((url, index) => ({ name: `source-${index}`, url }))
    const worker = await WorkerProcess.start(folder, top, sources)
    const watched = new Watched(folder, services, top, sources, worker)
    await watched.#startPrometheus()
    return watched
  }

  async #startPrometheus(): Promise<void> {
    this.#port = await freePort()
    mkdirSync(join(this.#folder, "prometheus"))
    this.#writeTargets()
    writeFileSync(
      join(this.#folder, "prometheus.json"),
      // JSON is YAML.
      JSON.stringify({
        global: { scrape_interval: "15s", evaluation_interval: "15s" },
        rule_files: [rules],
        scrape_configs: [{ job_name: "payments-worker", file_sd_configs: [{ files: [this.#targets] }] }]
      })
    )
    const prometheus = spawn("prometheus", [
      `--config.file=${join(this.#folder, "prometheus.json")}`,
      `--storage.tsdb.path=${join(this.#folder, "prometheus")}`,
      `--web.listen-address=127.0.0.1:${this.#port}`,
      "--log.level=error"
    ], { stdio: ["ignore", "ignore", "inherit"] })
    this.#prometheus = prometheus
    await Promise.race([
      once(prometheus, "spawn"),
      once(prometheus, "error").then(([error]) => {
        throw new Error("this measurement needs the program prometheus in PATH", { cause: error })
      })
    ])
  }

  get #targets(): string {
    return join(this.#folder, "targets.json")
  }

  #writeTargets(): void {
    const written = `${this.#targets}.new`
    writeFileSync(written, JSON.stringify([{ targets: [this.worker.url.slice("http://".length)] }]))
    // Prometheus may read at any moment.
    renameSync(written, this.#targets)
  }

  async setFaults(faults: ReadonlyArray<Fault>): Promise<void> {
    await this.#services.send({ do: "setFaults", service: 0, faults })
  }

  /** Kills the worker and starts it again. */
  async restart(): Promise<void> {
    await this.worker[Symbol.asyncDispose]()
    this.worker = await WorkerProcess.start(this.#folder, this.#top, this.#sources)
    this.#writeTargets()
  }

  /** Returns the alerts whose condition holds, and since when. */
  async alerts(): Promise<ReadonlyArray<{ readonly alert: string; readonly activeAt: number }>> {
    const response = await fetch(`http://127.0.0.1:${this.#port}/api/v1/alerts`).catch(() => undefined)
    // It does not answer during its start.
    if (response?.ok !== true) return []
    const { data } = await response.json() as { // Prometheus' own format
      readonly data: {
        readonly alerts: ReadonlyArray<{ readonly labels: { readonly alertname: string }; readonly activeAt: string }>
      }
    }
    return data.alerts.map(({ activeAt, labels }) => ({ alert: labels.alertname, activeAt: Date.parse(activeAt) }))
  }

  /** Fails if an alert is active, or if Prometheus has read no metrics. */
  async requireNoAlert(): Promise<void> {
    const url = `http://127.0.0.1:${this.#port}/api/v1/query?query=payments_list_age_seconds`
    const { data } = await (await fetch(url)).json() as { readonly data: { readonly result: ReadonlyArray<unknown> } } // as above
    if (data.result.length === 0) throw new Error("Prometheus has no metrics of the worker")
    const active = await this.alerts()
    if (active.length > 0) throw new Error(`an alert before the fault: ${active.map(({ alert }) => alert).join(", ")}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const prometheus = this.#prometheus
    if (prometheus !== undefined && prometheus.exitCode === null) {
      const exit = once(prometheus, "exit")
      prometheus.kill("SIGKILL")
      await exit
    }
    await this.worker[Symbol.asyncDispose]()
    await this.#services[Symbol.asyncDispose]()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** Returns a port that no program uses. */
const freePort = async (): Promise<number> => {
  const server = createServer()
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  server.close()
  await once(server, "close")
  return typeof address === "object" && address !== null ? address.port : 0
}
