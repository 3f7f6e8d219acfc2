/**
 * Queries a destination in SQL, with one statement that only reads. Each value is a {@link Cell}, so no number is
 * rounded. The rows arrive in chunks, so that a large result takes no more memory than a small one. Closing the scope
 * stops the statement.
 */
import { Effect, type Scope } from "effect"
import { operations, reader, type StoredDestination } from "../destination/Destination.ts"
import type { SinkError } from "../port/Sink.ts"
import { QueryError, type QueryResult, statementProblem } from "../statement/Statement.ts"

/**
 * Runs a statement over a destination that exists. Tables of a PostgreSQL schema need no schema name before theirs. The
 * statement refers to the parameters as `$1`, `$2`, …; they are texts, and are bound. Fails if the destination was
 * chosen by its source, but has the copy of another one.
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
    const problem = statementProblem(sql)
    return problem === undefined
      ? operations(destination).query(sql, parameters)
      : Effect.fail(new QueryError({ problem }))
  })
