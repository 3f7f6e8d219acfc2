/** The built worker, run as a service manager runs it. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import type { WorkerStatus } from "../src/Status.ts"

/** The built program. */
export const binary = join(import.meta.dirname, "../dist/payments-worker.js")

/** A line of its log. */
export interface LogLine {
  readonly message: string
  readonly level: string
  /** By the worker's wall clock. */
  readonly timestamp: string
  readonly annotations: Readonly<Record<string, unknown>>
}
/** The lines of its log. */
export const logOf = (text: string): ReadonlyArray<LogLine> =>
  text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as LogLine) // what the logger is to write

/** Starts the built worker on a port of its choice; killed when the scope closes. */
export const started = Effect.fnUntraced(function*(
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>,
  nodeArgs: ReadonlyArray<string> = []
) {
  const child = spawn(process.execPath, [...nodeArgs, binary, "run", ...args], {
    env: { PATH: process.env["PATH"], ...env, PAYMENTS_PORT: "0" },
    stdio: ["ignore", "pipe", "inherit"]
  })
  yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
  const ended = once(child, "close")
  let out = ""
  child.stdout.on("data", (chunk: Buffer) => out += chunk.toString("utf8"))
  const log = (message: string) =>
    logOf(out.slice(0, out.lastIndexOf("\n") + 1)).filter((line) => line.message === message)
  const assertRuns = () => assert.deepStrictEqual([child.exitCode, child.signalCode], [null, null], out)
  /** Waits for a worker that runs, almost as long as the test may take. */
  const until = <A>(look: Effect.Effect<A>, holds: (value: A) => boolean) =>
    Effect.repeat(Effect.andThen(Effect.sleep("20 millis"), look), {
      until: (value) => {
        assertRuns()
        return holds(value)
      }
    }).pipe(
      Effect.timeoutOrElse({ duration: "50 seconds", orElse: () => Effect.die(new Error(`waited in vain: ${out}`)) })
    )
  yield* until(Effect.sync(() => log("listening")), (lines) => lines.length > 0)
  const { host, port } = log("listening")[0]?.annotations ?? {}
  return {
    child,
    host,
    port,
    out: () => out,
    assertRuns,
    log,
    untilLogged: (message: string, times: number) =>
      until(Effect.sync(() => log(message)), (lines) => lines.length >= times),
    statusOf: (path: string, address = "127.0.0.1") => statusOf(`http://${address}:${String(port)}${path}`),
    until,
    /** What `/health/ready` answers. */
    readiness: Effect.promise(() =>
      fetch(`http://127.0.0.1:${String(port)}/health/ready`).then(async (answer) => ({
        status: answer.status,
        body: await answer.json() as Readiness // what the worker is to answer
      }))
    ),
    untilOk: (path: string, address = "127.0.0.1") =>
      until(statusOf(`http://${address}:${String(port)}${path}`), (status) => status === 200),
    /** How it ended, once it has. */
    ended: Effect.promise(() => ended),
    /** Sends it a signal, and tells how it ended. */
    end: (signal: NodeJS.Signals) =>
      Effect.promise(() => {
        child.kill(signal)
        return ended
      })
  }
})

/** 0 where nobody answers. */
const statusOf = (url: string) => Effect.promise(() => fetch(url).then(({ status }) => status, () => 0))

/** The body of `/health/ready`, as far as the tests read it. */
export interface Readiness extends WorkerStatus {
  readonly ready: boolean
}
