/**
 * Runs the expression of `--query` in a process of its own. An interrupt stops it at once, and too much memory ends
 * only that process.
 */
import { requestOf } from "@payments/copy"
import { CommandExit, ExitCode, usage } from "@payments/program"
import { Effect, type Scope } from "effect"
import { type ChildProcess, fork } from "node:child_process"
import { extname } from "node:path"
import type { JsonQuery, JsonResult } from "./JsonQuery.ts"

/** The expression, then batches of texts of records, then their end. */
export type Request =
  | { readonly expression: string }
  | { readonly texts: ReadonlyArray<string> }
  | { readonly type: "run" }
/** The response to a request. A problem has no value of the expression or the records. */
export type Response =
  | "received"
  | { readonly result: JsonResult }
  | { readonly problem: string }
  | { readonly defect: string }

/** The most memory for values, in MiB. Those of 128 MiB of records take less than half of it. */
const heapMebibytes = 1024

/** The file next to this one: as a source, and in the program. */
const processFile = new URL(`./JsonQueryProcess${extname(new URL(import.meta.url).pathname)}`, import.meta.url)

const start = Effect.acquireRelease(
  Effect.sync(() =>
    fork(processFile, {
      // Filter values and keys do not get into its arguments or environment.
      env: {},
      execArgv: [`--max-old-space-size=${heapMebibytes}`],
      serialization: "advanced",
      // V8 prints a trace when the memory is full.
      stdio: ["ignore", "ignore", "ignore", "ipc"]
      // A process that cannot start fails the first request to it.
    }).on("error", () => {})
  ),
  (child) => Effect.sync(() => child.kill("SIGKILL"))
)

const request = (child: ChildProcess, message: Request) =>
  Effect.flatMap(
    requestOf<Response, CommandExit>(child, message, (signal) =>
      // V8 ends a process whose memory is full with SIGABRT, or with SIGTRAP.
      signal === null || signal === "SIGKILL"
        ? new CommandExit({ exitCode: ExitCode.destination, problem: "--query: its process was ended." })
        : usage(
          `--query: the expression needs more than ${heapMebibytes} MiB of memory. Export the list and use payments query.`
        )),
    (response) =>
      response !== "received" && "defect" in response
        ? Effect.die(new Error(response.defect))
        : Effect.succeed(response)
  )

const batchCharacters = 4_000_000

export const runJsonQuery = Effect.fnUntraced(
  function*(
    { expression }: JsonQuery,
    texts: Iterable<string>
  ): Effect.fn.Return<JsonResult, CommandExit, Scope.Scope> {
    const child = yield* start
    yield* request(child, { expression })
    let batch: Array<string> = []
    let characters = 0
    for (const text of texts) {
      batch.push(text)
      characters += text.length
      if (characters < batchCharacters) continue
      yield* request(child, { texts: batch })
      batch = []
      characters = 0
    }
    yield* request(child, { texts: batch })
    const response = yield* request(child, { type: "run" })
    if (response !== "received" && "result" in response) return response.result
    return yield* usage(`--query: ${response !== "received" && "problem" in response ? response.problem : "failed"}.`)
  },
  Effect.scoped
)
