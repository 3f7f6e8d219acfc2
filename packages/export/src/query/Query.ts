/**
 * Questions to a destination in SQL. One statement that reads, over rows that are never rounded: each value is a {@link Cell}.
 * The rows come in parts, so that a large result takes no more memory than a small one. What the statement costs is stopped
 * with the scope.
 */
import { Effect, Option, type Scope, Stream } from "effect"
import { type ChildProcess, fork } from "node:child_process"
import { extname, join } from "node:path"
import type { Cell } from "../Cell.ts"
import type { Kept } from "../Destination.ts"
import { copyFile } from "../files/FileSink.ts"
import { Failed, SinkError } from "../Sink.ts"
import { toError } from "../thread/SinkMessages.ts"
import type { Answer, Question } from "./QueryMessages.ts"
import { QueryError, refusalOf } from "./Statement.ts"

export { QueryError }

/** The answer to a query. */
export interface Answered {
  readonly columns: ReadonlyArray<string>
  /** In parts; each row has a cell for each column. */
  readonly rows: Stream.Stream<ReadonlyArray<ReadonlyArray<Cell>>, SinkError | QueryError>
}

/** The driver is loaded when such a destination is named, and not before. */
const postgres = Effect.promise(() => import("../postgres/PostgresQuery.ts"))

/** Asks the destination, which must be there. Tables of a PostgreSQL schema need no schema before their name. */
export const query = (
  destination: Kept,
  sql: string
): Effect.Effect<Answered, SinkError | QueryError, Scope.Scope> =>
  Effect.suspend(() => {
    const refusal = refusalOf(sql)
    if (refusal !== undefined) return Effect.fail(new QueryError({ problem: refusal }))
    switch (destination._tag) {
      case "Sqlite":
        return ofFile(destination.file, `sqlite:${destination.file}`, sql)
      case "Files":
        return ofFile(join(destination.folder, copyFile), `file:${destination.folder}`, sql)
      case "Postgres":
        return Effect.flatMap(postgres, (module) => module.query(destination.url, sql))
    }
  })

/** Beside this file: as a source, in the package, and in a program's bundle. */
const processFile = new URL(`./QueryProcess${extname(new URL(import.meta.url).pathname)}`, import.meta.url)

const ofFile = Effect.fnUntraced(function*(
  file: string,
  location: string,
  sql: string
): Effect.fn.Return<Answered, SinkError | QueryError, Scope.Scope> {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      fork(processFile, {
        // node:sqlite would announce that it is still young.
        execArgv: ["--disable-warning=ExperimentalWarning", "--max-semi-space-size=4"],
        env: environment(),
        stdio: ["ignore", "ignore", "inherit", "ipc"]
      })
    ),
    (started) => Effect.sync(() => started.kill("SIGKILL"))
  )
  const first = yield* ask(child, location, { ask: "begin", file, location, sql })
  const rows = Stream.paginate(undefined, () =>
    Effect.map(ask(child, location, { ask: "next" }), (answer) => {
      const some = "rows" in answer ? answer.rows : []
      return [some.length === 0 ? [] : [some], some.length === 0 ? Option.none() : Option.some(undefined)] as const
    }))
  return { columns: "columns" in first ? first.columns : [], rows }
})

/** What SQLite and Node read of it: no key and no password. */
const environment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(["PATH", "TMPDIR", "SQLITE_TMPDIR"].map((name) => [name, process.env[name]]))

const ask = (child: ChildProcess, location: string, question: Question) =>
  Effect.flatMap(
    Effect.callback<Answer, SinkError>((resume) => {
      const answered = (answer: unknown) => end(Effect.succeed(answer as Answer)) // only QueryProcess.ts writes them
      const ended = () => end(Effect.fail(new SinkError({ location, reason: new Failed({ code: "killed" }) })))
      const end = (result: Effect.Effect<Answer, SinkError>) => {
        child.off("message", answered).off("exit", ended).off("error", ended)
        resume(result)
      }
      child.once("message", answered).once("exit", ended).once("error", ended)
      if (child.exitCode === null && child.signalCode === null) child.send(question)
      else ended()
      return Effect.sync(() => void child.off("message", answered).off("exit", ended).off("error", ended))
    }),
    (answer): Effect.Effect<Exclude<Answer, { readonly refused: string }>, SinkError | QueryError> =>
      "refused" in answer
        ? Effect.fail(new QueryError({ problem: answer.refused }))
        : "error" in answer
        ? Effect.fail(toError(answer.error))
        : "defect" in answer
        ? Effect.die(new Error(answer.defect))
        : Effect.succeed(answer)
  )
