/** Starts the built worker in a process, as a service manager does. */
import { assert } from "@effect/vitest"
import { mismatchOf } from "@payments/testkit/contract/CheckedOutput"
import { fetchOnce } from "@payments/testkit/FetchOnce"
import { spawn } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { once } from "node:events"
import { join } from "node:path"
import { outputs } from "../../src/contract/WorkerOutputs.ts"
import type { Snapshot } from "../../src/state/StatusSnapshot.ts"

/** The built program. */
export const binary = join(import.meta.dirname, "../../dist/payments-worker.js")

/** A line of the worker's log. */
export interface LogLine {
  readonly message: string
  readonly level: string
  /** The time by the worker's wall clock. */
  readonly timestamp: string
  /** All other members. */
  readonly annotations: Readonly<Record<string, unknown>>
}
/** Parses the worker's log. */
export const logOf = (text: string): ReadonlyArray<LogLine> =>
  text.split("\n").filter((line) => line !== "").map((line) => {
    const { level, message, schemaVersion: _version, timestamp, ...annotations } = keptBy(JSON.parse(line), outputs.log)
    return { level, message, timestamp, annotations }
  })

/** Starts the built worker on a free port. Closing the scope kills it. */
export const startWorker = Effect.fnUntraced(function*(
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>,
  nodeArgs: ReadonlyArray<string> = []
) {
  const child = spawn(process.execPath, [...nodeArgs, binary, "run", ...args], {
    env: { ...env, PAYMENTS_PORT: "0" },
    stdio: ["ignore", "pipe", "inherit"]
  })
  yield* Effect.addFinalizer(() => Effect.sync(() => child.kill("SIGKILL")))
  const ended = once(child, "close")
  let out = ""
  child.stdout.on("data", (chunk: Buffer) => out += chunk.toString("utf8"))
  const log = (message: string) =>
    logOf(out.slice(0, out.lastIndexOf("\n") + 1)).filter((line) => line.message === message)
  const assertRuns = () => assert.deepStrictEqual([child.exitCode, child.signalCode], [null, null], out)
  /** Repeats `read` until its value matches. Fails if the worker ends, or shortly before the test times out. */
  const until = <A>(read: Effect.Effect<A>, matches: (value: A) => boolean) =>
    Effect.repeat(Effect.andThen(Effect.sleep("20 millis"), read), {
      until: (value) => {
        assertRuns()
        return matches(value)
      }
    }).pipe(
      Effect.timeoutOrElse({ duration: "2 minutes", orElse: () => Effect.die(new Error(`timed out: ${out}`)) })
    )
  yield* until(Effect.sync(() => log("listening")), (lines) => lines.length > 0)
  const { host, port } = log("listening")[0]?.annotations ?? {}
  const readiness = Effect.promise(() =>
    fetchOnce(`http://${host === "::1" ? "[::1]" : "127.0.0.1"}:${String(port)}/health/ready`).then(async (
      response
    ) => ({
      status: response.status,
      body: keptBy(await response.json() as Readiness, outputs.ready) // the worker's documented format
    }))
  )
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
    /** The response to `/health/ready`. */
    readiness,
    untilUpToDate: until(readiness, ({ body }) => isUpToDate(body)),
    untilOk: (path: string, address = "127.0.0.1") =>
      until(statusOf(`http://${address}:${String(port)}${path}`), (status) => status === 200),
    /** The exit code and signal, when the worker has ended. */
    ended: Effect.promise(() => ended),
    /** Sends a signal to the worker and returns its exit code and signal. */
    end: (signal: NodeJS.Signals) =>
      Effect.promise(() => {
        child.kill(signal)
        return ended
      })
  }
})

/** Returns JSON of the worker that has the members of its schema and no other. Fails for any other. */
export const keptBy = <Body>(body: Body, output: typeof outputs.ready): Body => {
  assert.isUndefined(mismatchOf(body, [output]))
  return body
}

/** Returns the status of the response, or 0 if the connection fails. */
const statusOf = (url: string) => Effect.promise(() => fetchOnce(url).then(({ status }) => status, () => 0))

/** The body of `/health/ready`. */
export interface Readiness extends Snapshot {
  readonly ready: boolean
}

/** Whether the last full scan of every list is complete, and no list has a problem. */
export const isUpToDate = ({ ready, sources }: Readiness): boolean =>
  ready &&
  sources.every(({ lists }) =>
    lists.every(({ completeScan, failure, progress, stall }) =>
      completeScan !== null && failure === null && stall === null && (progress?.waiting ?? null) === null
    )
  )
