/**
 * The one way to start workers. Processes of the built worker run one after the other, behind the same link to
 * PostgreSQL.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { createWriteStream, type WriteStream } from "node:fs"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { Link } from "./Link.ts"
import { memoryEnvironment, memoryFlags } from "./Programs.ts"

export interface RunnerOptions {
  readonly name: string
  readonly program: string
  readonly args: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
  /** The file of the log, which all its processes share. */
  readonly log: string
  /** The port of PostgreSQL, if the worker needs it. */
  readonly postgresPort?: number
}

/** The running workers. A stopped process gets no other signal than SIGKILL, so they must not survive this process. */
const children = new Set<ChildProcess>()
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL")
})

/** Disposing a runner kills its process. */
export class Runner implements AsyncDisposable {
  readonly link: Link
  /** How often each message was logged. */
  readonly messages = new Map<string, number>()
  /** The numbers of the lines of the log with level ERROR or FATAL, by their message and reason. */
  readonly errors = new Map<string, number>()
  /** How often a process has ended although no signal was sent. */
  unexpectedEnds = 0
  readonly #options: RunnerOptions
  readonly #log: WriteStream
  #child: ChildProcess | undefined
  #starts = 0
  #isEnding = false
  #url: string | undefined

  private constructor(options: RunnerOptions, link: Link) {
    this.#options = options
    this.link = link
    this.#log = createWriteStream(options.log, { flags: "a" })
  }

  /** Does not wait until the worker listens. */
  static async start(options: RunnerOptions): Promise<Runner> {
    const runner = new Runner(options, await Link.start(options.postgresPort ?? 0))
    runner.spawn()
    return runner
  }

  get name(): string {
    return this.#options.name
  }

  get instance(): string {
    return `${this.name}#${this.#starts}`
  }

  get isAlive(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null
  }

  get pid(): number {
    return this.#child?.pid ?? -1
  }

  /** The address of its HTTP server, when it listens. */
  get url(): string | undefined {
    return this.isAlive ? this.#url : undefined
  }

  /** Starts a process, after the previous one has ended. */
  spawn(): void {
    const { args, env, program } = this.#options
    this.#starts++
    this.#isEnding = false
    this.#url = undefined
    this.link.instance = this.instance
    const child = spawn(process.execPath, [...memoryFlags, program, "run", ...args, "--port", "0"], {
      env: {
        ...memoryEnvironment,
        PATH: process.env["PATH"],
        PGHOST: "127.0.0.1",
        PGPORT: String(this.link.port),
        SANDBOX_KEY: "sandbox_key",
        ...env
      },
      stdio: ["ignore", "pipe", "pipe"]
    })
    this.#child = child
    children.add(child)
    const { instance } = this
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => this.#onLine(instance, line))
    }
    child.once("exit", (code, signal) => {
      children.delete(child)
      if (this.#isEnding || child !== this.#child) return
      this.unexpectedEnds++
      this.#onLine(instance, `ended with code ${String(code)}, signal ${String(signal)}`)
    })
  }

  #onLine(instance: string, line: string): void {
    this.#log.write(`${instance} ${line}\n`)
    if (line.includes(`"listening"`)) {
      const port = /"port":(\d+)/.exec(line)?.[1]
      if (port !== undefined && instance === this.instance) this.#url = `http://127.0.0.1:${port}`
    }
    const message = /"message":"([^"]*)"/.exec(line)?.[1] ?? ""
    this.messages.set(message, (this.messages.get(message) ?? 0) + 1)
    if (!/"level":"(ERROR|FATAL)"/i.test(line)) return
    const reason = /"reason":"([^"]*)"/.exec(line)?.[1]
    const text = reason === undefined ? message : `${message} (${reason})`
    this.errors.set(text, (this.errors.get(text) ?? 0) + 1)
  }

  /** Waits until the process listens, for a minute at most. */
  async untilListening(): Promise<void> {
    for (let tries = 0; this.#url === undefined; tries++) {
      if (tries === 600 || !this.isAlive) throw new Error(`${this.instance} does not listen; see ${this.#options.log}`)
      await sleep(100)
    }
  }

  /** Waits until this message was logged so many times. */
  async untilLogged(message: string, times: number): Promise<void> {
    while ((this.messages.get(message) ?? 0) < times) {
      if (!this.isAlive) throw new Error(`${this.instance} ended; see ${this.#options.log}`)
      await sleep(20)
    }
  }

  /** Waits until the worker says that it is ready. */
  async untilReady(timeoutMs: number): Promise<void> {
    await this.untilListening()
    const start = performance.now()
    for (;;) {
      const response = await fetch(`${this.#url ?? ""}/health/ready`).catch(() => undefined)
      if (response?.ok === true) return
      if (performance.now() - start > timeoutMs) {
        const body = (await response?.text())?.slice(0, 2000)
        throw new Error(`${this.instance} is not ready: ${body ?? "no answer"}`)
      }
      await sleep(250)
    }
  }

  signal(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#child?.kill(signal)
  }

  /** Returns the exit code, which is null for a killed process, and the time that the end took. */
  async end(signal: "SIGTERM" | "SIGKILL"): Promise<{ readonly code: number | null; readonly ms: number }> {
    const child = this.#child
    const start = performance.now()
    if (child === undefined || !this.isAlive) return { code: child?.exitCode ?? null, ms: 0 }
    this.#isEnding = true
    const exit = once(child, "exit")
    child.kill(signal)
    // A worker that does not end is killed; its code is then null.
    const killing = setTimeout(() => child.kill("SIGKILL"), 60_000)
    await exit
    clearTimeout(killing)
    return { code: child.exitCode, ms: performance.now() - start }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end("SIGKILL")
    await this.link[Symbol.asyncDispose]()
    await new Promise((resolve) => this.#log.end(resolve))
  }
}
