/** Runs the built program as a user does, and a sandbox for it. */
import { Lists } from "@payments/core"
import { Sandbox } from "@payments/sandbox"
import { Effect, Layer } from "effect"
import type { SpawnOptions } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { spawn } from "../TestProcess.ts"

export { rowsOf } from "../Folder.ts"

/** The built program. */
export const binary = join(import.meta.dirname, "../../../../apps/cli/dist/payments.js")

/** The Node that runs the built program. */
export const node = process.execPath

export interface RunResult {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly cwd?: string | undefined
  /** Kills the program this many milliseconds after its start. */
  readonly killAfterMs?: number | undefined
  /** Interrupts the program, as Ctrl-C does, as soon as this returns true. Gets what the program has printed until then. */
  readonly interruptWhen?: ((stdout: string) => boolean) | undefined
}

/** The environment is `PATH` and the given variables. */
export const runProgram = (
  program: string,
  args: ReadonlyArray<string>,
  options: RunOptions = {}
): Effect.Effect<RunResult> =>
  Effect.callback((resume) => {
    const settings: SpawnOptions = {
      cwd: options.cwd,
      env: options.env ?? {},
      stdio: ["ignore", "pipe", "pipe"]
    }
    const child = spawn(program, args, settings)
    const out: Array<Buffer> = []
    const err: Array<Buffer> = []
    child.stdout?.on("data", (chunk: Buffer) => out.push(chunk))
    child.stderr?.on("data", (chunk: Buffer) => err.push(chunk))
    const timer = options.killAfterMs === undefined
      ? undefined
      : setTimeout(() => child.kill("SIGKILL"), options.killAfterMs)
    const poll = setInterval(() => {
      if (options.interruptWhen?.(Buffer.concat(out).toString("utf8")) !== true) return
      clearInterval(poll)
      child.kill("SIGINT")
    }, 20)
    child.on("close", (code, signal) => {
      clearTimeout(timer)
      clearInterval(poll)
      resume(
        Effect.succeed({
          code,
          signal,
          stdout: Buffer.concat(out).toString("utf8"),
          stderr: Buffer.concat(err).toString("utf8")
        })
      )
    })
    return Effect.sync(() => child.kill("SIGKILL"))
  })

export const payments = (args: ReadonlyArray<string>, options?: RunOptions) =>
  runProgram(node, [binary, ...args], options)

/** Closing the scope removes the folder. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "payments-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/**
 * Starts a sandbox on a free port and returns the environment of its clients. Closing the scope stops it. By default
 * some of its text is hostile.
 */
export const sandboxEnv = (options: Parameters<typeof Sandbox.layer>[0] = {}) =>
  Effect.map(Layer.build(Sandbox.layer({ hostileText: 0.02, ...options })), (context) => ({
    PAYMENTS_BASE_URL: Effect.runSync(Effect.provide(Sandbox.use(({ url }) => Effect.succeed(url)), context)),
    PAYMENTS_API_KEY: "sandbox_test"
  }))

export const labels: ReadonlyArray<string> = Lists.all.map(({ label }) => label)

/** The tables of all lists in a database. */
export const tables: ReadonlyArray<string> = labels.map((label) => label.replaceAll("-", "_"))

/** A script for `node --require` that records the connections that a program makes. */
export const recordConnections = join(import.meta.dirname, "recordConnections.cjs")

const withTimers = (fromMs: number, by: number) => ({
  NODE_OPTIONS: `--require "${join(import.meta.dirname, "longTimers.cjs")}"`,
  LONG_TIMERS_FROM_MS: String(fromMs),
  LONG_TIMERS_BY: String(by)
})

/** Variables for a program whose timers of a second or more take ten times as long, as `longTimers.cjs` says. */
export const longTimers = withTimers(1000, 10)

/** Variables for a program in which the time of timers of `fromMs` or more does not pass. */
export const noTimers = (fromMs: number) => withTimers(fromMs, Infinity)
