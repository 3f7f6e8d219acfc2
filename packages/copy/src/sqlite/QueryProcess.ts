/**
 * The process that runs one statement over an SQLite destination. SQLite computes without yielding, so only the end of
 * the process can stop a statement: the program that started the process kills it.
 */
import { Cause, Effect, Exit, Redacted } from "effect"
import type { DatabaseSync } from "node:sqlite"
import { fromError } from "../port/ErrorMessage.ts"
import { SinkError } from "../port/Sink.ts"
import type { QueryRequest, QueryResponse } from "../statement/QueryMessages.ts"
import { QueryError } from "../statement/Statement.ts"
import { limitMemory } from "./MemoryLimit.ts"
import { openAsOf } from "./SqliteAsOf.ts"
import { functionOptions, openDatabase } from "./SqliteClient.ts"
import { reasonOf } from "./SqliteErrors.ts"
import { create, fillFromFile, insert } from "./SqliteExcerpt.ts"
import { begin, type Connection } from "./SqliteQuery.ts"

// The parent process then ends this one.
limitMemory().on("error", ({ message }) => void process.send?.({ defect: message } satisfies QueryResponse))

// Ctrl-C sends SIGINT to every process of the terminal. The parent process handles it and kills this process.
process.on("SIGINT", () => {})
process.on("disconnect", () => process.exit())

const send = (response: QueryResponse) =>
  Effect.callback<void>((resume) => void process.send?.(response, () => resume(Effect.void)))

type Request<Type> = Extract<QueryRequest, { readonly type: Type }>

const receive = Effect.callback<QueryRequest>((resume) =>
  void process.once("message", (request) => resume(Effect.succeed(request as QueryRequest))) // only the parent sends
)

const catchQueryError = <A>(step: () => A) => (): Exit.Exit<A, QueryError> => {
  try {
    return Exit.succeed(step())
  } catch (error) {
    if (error instanceof QueryError) return Exit.fail(error)
    throw error
  }
}

/** Runs a step over the database that the statement reads. */
type Run = <A>(step: (db: Connection) => A) => Effect.Effect<A, SinkError>

/** Runs steps over a private database. */
const runOver = (db: DatabaseSync): Run => {
  const connection: Connection = {
    run: (sql) => db.exec(sql),
    prepare: (sql) => db.prepare(sql),
    aggregate: (name, options) => db.aggregate(name, options),
    function: (name, call) => db.function(name, functionOptions, call)
  }
  return (step) => Effect.sync(() => step(connection))
}

/** Opens the file for a statement over its current rows, or over those of an earlier point. */
const openFile = Effect.fnUntraced(function*(file: string, { asOf, location, sql }: Request<"begin">) {
  // Opening checks that the file is a destination of this version.
  const { run } = yield* openDatabase(file, location, "read")
  if (asOf === undefined) return run
  return runOver(yield* yield* run(catchQueryError(() => openAsOf(file, sql, asOf))))
})

/** Returns the excerpt's database with the rows of the next messages, and the message that starts the query. */
const receiveExcerpt = Effect.fnUntraced(function*({ file, key, location, tables }: Request<"excerpt">) {
  const db = create(tables)
  if (file !== undefined) {
    // Opening checks that the file is a destination of this version.
    const { run } = yield* openDatabase(file, location, "read")
    yield* run(() =>
      fillFromFile(db, file, tables, key === undefined ? undefined : Redacted.make(Buffer.from(key, "hex")))
    )
  }
  const run = runOver(db)
  for (;;) {
    yield* send({ filled: true })
    const request = yield* receive
    if (request.type === "begin") return { run, request }
    if (request.type === "insert") insert(db, request.table, request.rows)
  }
})

const respondToAll = Effect.gen(function*() {
  const first = yield* receive
  const source = first.type === "excerpt"
    ? yield* receiveExcerpt(first)
    : first.type === "begin" && first.file !== undefined
    ? { run: yield* openFile(first.file, first), request: first }
    : undefined
  if (source === undefined) return
  const { request: { parameters, sql }, run } = source
  const query = yield* yield* run((db) => catchQueryError(() => begin(db, sql, parameters))())
  yield* send({ columns: query.columns })
  for (;;) {
    // The next rows are read while the parent process uses the last ones. It hears of an error when it asks for them.
    const rows = yield* Effect.exit(Effect.flatten(run(catchQueryError(query.next))))
    yield* receive
    yield* send({ rows: yield* rows })
  }
})

/** Where this process writes excerpts and sorted rows. SQLite deletes these files as soon as they are open. */
const temporaryFiles = "the folder for temporary files (TMPDIR)"

const failureResponse = (cause: Cause.Cause<SinkError | QueryError>): QueryResponse => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  if (error instanceof QueryError) return { refused: error.problem }
  // The destination is only read.
  if (error?.reason._tag === "Full") return { error: fromError(new SinkError({ ...error, location: temporaryFiles })) }
  if (error !== undefined) return { error: fromError(error) }
  // A step over an excerpt.
  const reason = reasonOf(cause.reasons.find(Cause.isDieReason)?.defect)
  return reason === undefined
    ? { defect: Cause.pretty(cause) }
    : { error: fromError(new SinkError({ location: temporaryFiles, reason })) }
}

Effect.runFork(Effect.scoped(respondToAll).pipe(Effect.catchCause((cause) => send(failureResponse(cause)))))
