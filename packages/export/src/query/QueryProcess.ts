/**
 * The process that runs one statement over an SQLite destination. SQLite computes without yielding, so only the end of the
 * process can stop a statement: the program that started the process kills it.
 */
import { Cause, Effect, Exit } from "effect"
import { SinkError } from "../Sink.ts"
import { open } from "../sqlite/SqliteClient.ts"
import { begin } from "../sqlite/SqliteQuery.ts"
import { fromError } from "../thread/SinkMessages.ts"
import type { QueryRequest, QueryResponse } from "./QueryMessages.ts"
import { QueryError } from "./Statement.ts"

// Ctrl-C sends SIGINT to every process of the terminal. The parent process handles it and kills this process.
process.on("SIGINT", () => {})
process.on("disconnect", () => process.exit())

const send = (response: QueryResponse) =>
  Effect.callback<void>((resume) => void process.send?.(response, () => resume(Effect.void)))

const receive = Effect.callback<QueryRequest>((resume) =>
  void process.once("message", (request) => resume(Effect.succeed(request as QueryRequest))) // only the parent sends
)

/** Returns a function that runs the step and returns a `QueryError` that it throws as a failure. */
const catchQueryError = <A>(step: () => A) => (): Exit.Exit<A, QueryError> => {
  try {
    return Exit.succeed(step())
  } catch (error) {
    if (error instanceof QueryError) return Exit.fail(error)
    throw error
  }
}

const respondToAll = Effect.gen(function*() {
  const first = yield* receive
  if (first.type !== "begin") return
  const { run } = yield* open(first.file, first.location, "read")
  const query = yield* yield* run((db) => catchQueryError(() => begin(db, first.sql, first.parameters))())
  yield* send({ columns: query.columns })
  for (;;) {
    yield* receive
    const rows = yield* yield* run(catchQueryError(query.next))
    yield* send({ rows })
  }
})

const failureResponse = (cause: Cause.Cause<SinkError | QueryError>): QueryResponse => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  return error === undefined
    ? { defect: Cause.pretty(cause) }
    : error instanceof SinkError
    ? { error: fromError(error) }
    : { refused: error.problem }
}

Effect.runFork(Effect.scoped(respondToAll).pipe(Effect.catchCause((cause) => send(failureResponse(cause)))))
