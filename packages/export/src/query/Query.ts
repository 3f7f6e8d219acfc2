/**
 * Queries a destination in SQL, with one statement that only reads. Each value is a {@link Cell}, so no number is rounded.
 * The rows arrive in chunks, so that a large result takes no more memory than a small one. Closing the scope stops the
 * statement.
 */
import { Context, Effect, Option, type Scope, Stream } from "effect"
import { type ChildProcess, fork } from "node:child_process"
import { extname, join } from "node:path"
import type { Cell } from "../Cell.ts"
import { requestOf } from "../ChildRequest.ts"
import { reader } from "../Destination.ts"
import type { StoredDestination } from "../DestinationUrl.ts"
import { copyFile } from "../files/FileSink.ts"
import { Failed, SinkError } from "../Sink.ts"
import { toError } from "../thread/SinkMessages.ts"
import { maxMebibytes, memorySignal } from "./MemoryLimit.ts"
import type { QueryRequest, QueryResponse } from "./QueryMessages.ts"
import { QueryError, statementProblem } from "./Statement.ts"

export { QueryError }

/** The result of a query. */
export interface QueryResult {
  readonly columns: ReadonlyArray<string>
  /** Chunks of rows. Each row has a cell for each column. */
  readonly rows: Stream.Stream<ReadonlyArray<ReadonlyArray<Cell>>, SinkError | QueryError>
}

/** Loads the driver only when a destination needs it. */
const postgres = Effect.promise(() => import("../postgres/PostgresQuery.ts"))

/**
 * Runs a statement over a destination that exists. Tables of a PostgreSQL schema need no schema name before theirs. The
 * statement refers to the parameters as `$1`, `$2`, …; they are texts, and are bound. Fails if the destination was chosen by its
 * source, but has the copy of another one.
 */
export const query = (
  destination: StoredDestination,
  sql: string,
  parameters: ReadonlyArray<string> = []
): Effect.Effect<QueryResult, SinkError | QueryError, Scope.Scope> =>
  destination.boundTo === undefined
    ? queryOpened(destination, sql, parameters)
    : Effect.andThen(Effect.scoped(reader(destination)), queryOpened(destination, sql, parameters))

/** Runs a statement as {@link query} does, for a caller that has opened the destination with `Destination.reader`. */
export const queryOpened = (
  destination: StoredDestination,
  sql: string,
  parameters: ReadonlyArray<string> = []
): Effect.Effect<QueryResult, SinkError | QueryError, Scope.Scope> =>
  Effect.suspend(() => {
    const refusal = statementProblem(sql)
    if (refusal !== undefined) return Effect.fail(new QueryError({ problem: refusal }))
    switch (destination._tag) {
      case "Sqlite":
        return queryFile({ file: destination.file, location: `sqlite:${destination.file}`, sql, parameters })
      case "Files":
        return queryFile({
          file: join(destination.folder, copyFile),
          location: `file:${destination.folder}`,
          sql,
          parameters
        })
      case "Postgres":
        return Effect.flatMap(postgres, (module) => module.query(destination.url, sql, parameters))
    }
  })

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
  "@payments/export/ProcessStart",
  { defaultValue: () => Effect.acquireRelease(Effect.sync(forkProcess), kill) }
)

/**
 * Returns a {@link ProcessStart} for a server. After a query it starts the process of the next one, so that this one does not
 * wait for it. Each query still has a process of its own. Closing the scope ends the waiting process.
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

/** Starts the process of a query. Closing the scope ends it. */
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

const queryFile = (statement: Parameters<typeof beginIn>[1]) =>
  Effect.flatMap(startProcess, (child) => beginIn(child, statement))

/** The environment variables that SQLite and Node need. Keys and passwords are not among them. */
const environment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(["PATH", "TMPDIR", "SQLITE_TMPDIR"].map((name) => [name, process.env[name]]))

const outOfMemory =
  `The query needs more than ${maxMebibytes} MiB of memory. Let it read or make smaller values, or fewer at once.`

/** Sends a message and waits for its response, or for the end of the process. */
export const request = (child: ChildProcess, location: string, message: QueryRequest) =>
  Effect.flatMap(
    requestOf<QueryResponse, SinkError | QueryError>(child, message, (signal) =>
      signal === memorySignal
        ? new QueryError({ problem: outOfMemory })
        : new SinkError({ location, reason: new Failed({ code: "killed" }) })),
    (response): Effect.Effect<Exclude<QueryResponse, { readonly refused: string }>, SinkError | QueryError> =>
      "refused" in response
        ? Effect.fail(new QueryError({ problem: response.refused }))
        : "error" in response
        ? Effect.fail(toError(response.error))
        : "defect" in response
        ? Effect.die(new Error(response.defect))
        : Effect.succeed(response)
  )
