/**
 * A process that carries out one statement over an SQLite destination. SQLite computes without a pause, and nothing but the
 * end of the process stops it: the program that started it kills it.
 */
import { Cause, Effect, Exit } from "effect"
import { SinkError } from "../Sink.ts"
import { open } from "../sqlite/SqliteClient.ts"
import { begin } from "../sqlite/SqliteQuery.ts"
import { fromError } from "../thread/SinkMessages.ts"
import type { Answer, Question } from "./QueryMessages.ts"
import { QueryError } from "./Statement.ts"

// Ctrl-C reaches every process of the terminal. The one that started this one says what comes of it.
process.on("SIGINT", () => {})
process.on("disconnect", () => process.exit())

const send = (answer: Answer) =>
  Effect.callback<void>((resume) => void process.send?.(answer, () => resume(Effect.void)))

const received = Effect.callback<Question>((resume) =>
  void process.once("message", (question) => resume(Effect.succeed(question as Question))) // only the parent writes them
)

/** Runs a step, and gives what is wrong with the statement as an error. */
const refusing = <A>(step: () => A) => (): Exit.Exit<A, QueryError> => {
  try {
    return Exit.succeed(step())
  } catch (error) {
    if (error instanceof QueryError) return Exit.fail(error)
    throw error
  }
}

const answerAll = Effect.gen(function*() {
  const first = yield* received
  if (first.ask !== "begin") return
  const { run } = yield* open(first.file, first.location, "read")
  const query = yield* yield* run((db) => refusing(() => begin(db, first.sql))())
  yield* send({ columns: query.columns })
  for (;;) {
    yield* received
    const rows = yield* yield* run(refusing(query.next))
    yield* send({ rows })
  }
})

const answerOf = (cause: Cause.Cause<SinkError | QueryError>): Answer => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  return error === undefined
    ? { defect: Cause.pretty(cause) }
    : error instanceof SinkError
    ? { error: fromError(error) }
    : { refused: error.problem }
}

Effect.runFork(Effect.scoped(answerAll).pipe(Effect.catchCause((cause) => send(answerOf(cause)))))
