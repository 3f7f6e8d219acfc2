/**
 * Queries a destination in SQL, with one statement that only reads. Each value is a {@link Cell}, so no number is
 * rounded. A statement can read the rows as they were at an earlier point. The rows arrive in chunks, so that a large result takes no more memory than a small one. Closing the scope
 * stops the statement.
 */
import { Lists } from "@payments/core"
import { Effect, type Scope } from "effect"
import { operations, reader, snapshot, type StoredDestination } from "../destination/Destination.ts"
import { tableOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import type { AsOf, ListAsOf } from "../statement/AsOf.ts"
import { mentionsOf } from "../statement/Mentions.ts"
import { QueryError, type QueryResult, statementProblem } from "../statement/Statement.ts"
import type { Snapshot } from "../store/Snapshot.ts"
import { hasList } from "./ExistingColumns.ts"
import { type NamedPoint, type PointError, type ReachedPoint, reachPoint } from "./PointInTime.ts"

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

/** The result of a statement over the rows as they were at a point. */
export interface ResultAt extends QueryResult {
  readonly point: ReachedPoint
}

interface AskedAt {
  readonly sql: string
  readonly parameters?: ReadonlyArray<string> | undefined
  /** Whether the statement uses only rows that have one of the parameters in a text column. By default not. */
  readonly isSearch?: boolean
}

/**
 * Runs a statement as {@link query} does, over the rows as they were at a point: the tables of the lists, and `changes`
 * up to it. A statement that reads any other table is refused. Fails if the changes do not reach back so far for a list
 * that the statement uses.
 */
export const queryAt = Effect.fnUntraced(function*(
  destination: StoredDestination,
  { isSearch = false, parameters = [], sql }: AskedAt,
  named: NamedPoint
): Effect.fn.Return<ResultAt, SinkError | QueryError | PointError, Scope.Scope> {
  const problem = statementProblem(sql)
  if (problem !== undefined) return yield* new QueryError({ problem })
  const { asOf, point } = yield* Effect.scoped(
    Effect.flatMap(snapshot(destination), (opened) => asOfIn(opened, sql, named))
  )
  const result = yield* operations(destination).query(
    sql,
    parameters,
    isSearch ? { ...asOf, searched: parameters } : asOf
  )
  return { ...result, point }
})

/** Returns what a statement reads at a point. Fails if the changes do not reach back so far. */
export const asOfIn = Effect.fnUntraced(function*(
  opened: Snapshot,
  sql: string,
  named: NamedPoint
): Effect.fn.Return<{ readonly asOf: AsOf; readonly point: ReachedPoint }, SinkError | PointError> {
  const { hasTable } = mentionsOf(sql)
  const used = yield* Effect.filter(
    Lists.all.filter((list) => hasTable(tableOf(list))),
    (list) => hasList(opened, list)
  )
  const point = yield* reachPoint(opened, named, used)
  if (used.length === 0) return { asOf: { seq: point.seq, lists: [] }, point }
  const { nextRows } = yield* opened.owner(used)
  const lists = yield* Effect.forEach(used, (list) =>
    Effect.map(opened.prunedRows(list), ({ removed }): ListAsOf => ({
      list: list.label,
      nextRow: nextRows.get(list.label) ?? 0,
      removed
    })))
  return { asOf: { seq: point.seq, lists }, point }
})
