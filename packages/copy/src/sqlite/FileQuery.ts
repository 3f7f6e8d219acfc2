/** Runs a user's statement over an SQLite file in a process that the scope ends: SQLite cannot interrupt itself. */
import { Context, Effect, Option, type Scope, Stream } from "effect"
import { type ChildProcess, fork } from "node:child_process"
import { extname } from "node:path"
import { toError } from "../port/ErrorMessage.ts"
import { DestinationFailed, SinkError } from "../port/Sink.ts"
import type { QueryRequest, QueryResponse } from "../statement/QueryMessages.ts"
import { QueryError, type QueryResult } from "../statement/Statement.ts"
import { requestOf } from "./ChildRequest.ts"
import { maxMebibytes, memorySignal } from "./MemoryLimit.ts"

/** The file next to this one: as a source, in the package, and in a program's bundle. */
const processFile = new URL(`./QueryProcess${extname(new URL(import.meta.url).pathname)}`, import.meta.url)

const forkProcess = (): ChildProcess =>
  fork(processFile, {
    // node:sqlite would print a warning that it is experimental.
    execArgv: ["--disable-warning=ExperimentalWarning", "--max-semi-space-size=4"],
    env: environment(),
    stdio: ["ignore", "ignore", "inherit", "ipc"]
    // A process that cannot start fails the first request to it.
  }).on("error", () => {})

const kill = (child: ChildProcess | undefined) => Effect.sync(() => child?.kill("SIGKILL"))

/** How the process of a query is started. Closing the scope ends it. */
export const ProcessStart = Context.Reference<Effect.Effect<ChildProcess, never, Scope.Scope>>(
  "@payments/copy/ProcessStart",
  { defaultValue: () => Effect.acquireRelease(Effect.sync(forkProcess), kill) }
)

/**
 * Returns a {@link ProcessStart} for a server. After a query it starts the process of the next one, so that this one
 * does not wait for it. Each query still has a process of its own. Closing the scope ends the waiting process.
 */
export const startAhead: Effect.Effect<Effect.Effect<ChildProcess, never, Scope.Scope>, never, Scope.Scope> = Effect
  .gen(
    function*() {
      let waiting: ChildProcess | undefined
      let isClosed = false
      yield* Effect.addFinalizer(() => {
        isClosed = true
        return kill(waiting)
      })
      const take = () => {
        const child = waiting
        waiting = undefined
        return child?.connected === true ? child : forkProcess()
      }
      return Effect.acquireRelease(Effect.sync(take), (child) =>
        Effect.andThen(
          kill(child),
          Effect.sync(() => {
            if (!isClosed) waiting ??= forkProcess()
          })
        ))
    }
  )

export const startProcess = Effect.flatten(Effect.service(ProcessStart))

/** Starts the statement in the process. */
export const beginIn = Effect.fnUntraced(function*(
  child: ChildProcess,
  statement: Omit<Extract<QueryRequest, { readonly type: "begin" }>, "type">
): Effect.fn.Return<QueryResult, SinkError | QueryError> {
  const { location } = statement
  const first = yield* request(child, location, { type: "begin", ...statement })
  const rows = Stream.paginate(undefined, () =>
    Effect.map(request(child, location, { type: "next" }), (response) => {
      const chunk = "rows" in response ? response.rows : []
      return [chunk.length === 0 ? [] : [chunk], chunk.length === 0 ? Option.none() : Option.some(undefined)] as const
    }))
  return { columns: "columns" in first ? first.columns : [], rows }
})

export const queryFile = (statement: Parameters<typeof beginIn>[1]) =>
  Effect.flatMap(startProcess, (child) => beginIn(child, statement))

/** The environment variables that SQLite and Node need. Keys and passwords are not among them. */
const environment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(["PATH", "TMPDIR", "SQLITE_TMPDIR"].map((name) => [name, process.env[name]]))

const outOfMemory =
  `The query needs more than ${maxMebibytes} MiB of memory. Let it read or make smaller values, or fewer at once.`

export const request = (child: ChildProcess, location: string, message: QueryRequest) =>
  Effect.flatMap(
    requestOf<QueryResponse, SinkError | QueryError>(child, message, (signal) =>
      signal === memorySignal
        ? new QueryError({ problem: outOfMemory })
        : new SinkError({ location, reason: new DestinationFailed({ code: "killed" }) })),
    (response): Effect.Effect<Exclude<QueryResponse, { readonly refused: string }>, SinkError | QueryError> => {
      if ("refused" in response) return Effect.fail(new QueryError({ problem: response.refused }))
      if ("error" in response) return Effect.fail(toError(response.error))
      return "defect" in response ? Effect.die(new Error(response.defect)) : Effect.succeed(response)
    }
  )
