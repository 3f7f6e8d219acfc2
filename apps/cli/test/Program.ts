/** Runs the built program as a user does, and a sandbox or another server beside it. */
import type { Lists } from "@payments/core"
import { Sandbox, type SandboxOptions } from "@payments/sandbox"
import { Effect, Layer } from "effect"
import { spawn, type SpawnOptions } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export { rowsOf } from "../../../packages/export/test/Folder.ts"

/** The built program. */
export const binary = join(import.meta.dirname, "../dist/payments.js")

/** How a run ended. */
export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** What a run may be given. */
export interface RunOptions {
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly cwd?: string | undefined
  /** Killed so many milliseconds after its start. */
  readonly killAfterMs?: number | undefined
  /** Interrupted, as by Ctrl-C, as soon as this holds. */
  readonly interruptWhen?: (() => boolean) | undefined
}

/** Runs any program, with nothing of this process's environment but what is given. */
export const runProgram = (
  program: string,
  args: ReadonlyArray<string>,
  options: RunOptions = {}
): Effect.Effect<Ended> =>
  Effect.callback((resume) => {
    const settings: SpawnOptions = {
      cwd: options.cwd,
      env: { PATH: process.env["PATH"], ...options.env },
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
      if (options.interruptWhen?.() !== true) return
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

/** Runs `payments`. */
export const payments = (args: ReadonlyArray<string>, options?: RunOptions) =>
  runProgram(process.execPath, [binary, ...args], options)

/** A folder that is gone when the scope closes. */
export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "payments-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/**
 * A sandbox over a socket until the scope closes; gives the environment that a client of it needs. Unless told otherwise, some
 * of its text is hostile.
 */
export const sandboxEnv = (options: SandboxOptions = {}) =>
  Effect.map(Layer.build(Sandbox.layer({ hostileText: 0.02, ...options })), (context) => ({
    PAYMENTS_BASE_URL: Effect.runSync(Effect.provide(Sandbox.use(({ url }) => Effect.succeed(url)), context)),
    PAYMENTS_API_KEY: "sandbox_test"
  }))

/** The labels of the lists. */
export const labels: ReadonlyArray<Lists.AnyList["label"]> = ["payout-requests", "payin-sources", "invoices"]
