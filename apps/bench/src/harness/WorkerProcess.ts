/** A built worker in a process, as a service manager runs it. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { cpuMs, memory, metric } from "./ProcessFigures.ts"
import { programs } from "./Programs.ts"

/** The flags of `bin/payments-worker`. */
const flags = ["--max-semi-space-size=8", "--heap-growing-percent=60"]

/** A source of the sources file. */
export interface BenchSource {
  readonly name: string
  readonly url: string
  /** Further lines of its table. */
  readonly settings?: ReadonlyArray<string>
}

/** A line of the worker's log. */
interface LogLine {
  readonly message: string
  readonly [name: string]: unknown
}

/** A running worker. Disposing it kills it. */
export class WorkerProcess implements AsyncDisposable {
  readonly #child: ChildProcess
  #out = ""
  #errors = ""

  private constructor(child: ChildProcess) {
    this.#child = child
    child.stdout?.on("data", (chunk: Buffer) => this.#out += chunk.toString())
    child.stderr?.on("data", (chunk: Buffer) => this.#errors += chunk.toString())
  }

  /** Starts a worker over these sources, and waits until it listens. Its files are in `folder`. */
  static async start(
    folder: string,
    top: ReadonlyArray<string>,
    sources: ReadonlyArray<BenchSource>,
    env: Readonly<Record<string, string>> = {}
  ): Promise<WorkerProcess> {
    const file = join(folder, "payments.toml")
    const tables = sources.flatMap(({ name, settings = [], url }) => [
      "",
      `[sources.${name}]`,
      `base_url = "${url}"`,
      `api_key_env = "SANDBOX_KEY"`,
      `to = "sqlite:${name}.db"`,
      ...settings
    ])
    writeFileSync(file, [...top, ...tables, ""].join("\n"))
    const worker = new WorkerProcess(
      spawn(process.execPath, [...flags, programs.worker, "run", "--config", file, "--port", "0"], {
        env: { PATH: process.env["PATH"], SANDBOX_KEY: "sandbox_key", ...env },
        stdio: ["ignore", "pipe", "pipe"]
      })
    )
    await worker.untilLogged("listening")
    return worker
  }

  /** The address of its HTTP server. */
  get url(): string {
    return `http://127.0.0.1:${String(this.lines("listening")[0]?.["port"])}`
  }

  get pid(): number {
    return this.#child.pid ?? -1
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  /** Returns the lines of the log with this message. */
  lines(message: string): ReadonlyArray<LogLine> {
    return this.#out.split("\n").slice(0, -1).filter((line) => line.includes(`"${message}"`))
      .map((line) => JSON.parse(line) as LogLine) // the worker's own format
      .filter((line) => line.message === message)
  }

  /** Waits until the log has this message `times` times. */
  async untilLogged(message: string, times = 1): Promise<ReadonlyArray<LogLine>> {
    for (;;) {
      const lines = this.lines(message)
      if (lines.length >= times) return lines
      if (this.#child.exitCode !== null) throw new Error(`the worker ended: ${this.#errors}${this.#out.slice(-2000)}`)
      // oxlint-disable-next-line no-await-in-loop -- this waits
      await sleep(20)
    }
  }

  /** Returns the CPU time of the process so far, in milliseconds. Linux only. */
  cpuMs(): number {
    return cpuMs(this.pid)
  }

  /** Returns a figure of /proc/PID/status in bytes, such as the largest resident set `VmHWM`. Linux only. */
  memory(name: "VmHWM" | "VmRSS"): number {
    return memory(this.pid, name)
  }

  /** Returns the values of a metric, with the source of each. */
  metric(name: string): ReturnType<typeof metric> {
    return metric(this.url, name)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, "exit")
    this.#child.kill("SIGKILL")
    await exit
  }
}
