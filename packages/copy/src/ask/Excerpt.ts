/**
 * Queries an excerpt: a private SQLite database that has only some columns of a destination, for a reader who may not
 * see the others. No statement can reach the others, because they are not in the database. Nor can it reach files, or
 * functions of a PostgreSQL server. Every destination is queried in SQLite's SQL.
 *
 * Each query fills its excerpt anew, with the tables and columns that the statement mentions, so it sees the current
 * rows.
 */
import { Lists } from "@payments/core"
import { Effect, Redacted, type Scope, Stream } from "effect"
import * as Destination from "../destination/Destination.ts"
import { columnsOf, tableOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import { pseudonymOnce } from "../rule/Pseudonym.ts"
import { beginIn, request, startProcess } from "../sqlite/FileQuery.ts"
import type { AsOf } from "../statement/AsOf.ts"
import { mentionsOf } from "../statement/Mentions.ts"
import type { ExcerptColumn, ExcerptTable } from "../statement/QueryMessages.ts"
import { QueryError, type QueryResult, statementProblem } from "../statement/Statement.ts"
import type { Cell } from "../text/Cell.ts"
import type { Includes } from "./Find.ts"
import type { NamedPoint, PointError } from "./PointInTime.ts"
import { asOfIn, type ResultAt } from "./Query.ts"

const times: ReadonlyArray<ExcerptColumn> = ["first_seen_at", "changed_at", "missing_since"].map((name) => ({
  name,
  kind: "time"
}))

const json = (name: string): ExcerptColumn => ({ name, kind: "json" })

/** The columns of `changes` that have nothing of a record except its id. */
const changeColumns: ReadonlyArray<ExcerptColumn> = [
  { name: "seq", kind: "integer" },
  { name: "list", kind: "text" },
  { name: "at", kind: "time" },
  { name: "kind", kind: "text" },
  { name: "id", kind: "text" }
]

/** What an excerpt has. */
export interface Excerpt {
  readonly includes: Includes
  /** Whether it has the exact texts of records, which contain every field. */
  readonly hasTexts: boolean
  /** The fields that have a pseudonym in place of each value; undefined if none has. */
  readonly pseudonyms?: {
    readonly includes: Includes
    readonly key: Redacted.Redacted<Uint8Array>
  } | undefined
}

/** Returns the tables of an excerpt: those of the lists, and `changes`. */
export const excerptTables = ({ hasTexts, includes, pseudonyms }: Excerpt): ReadonlyArray<ExcerptTable> => [
  ...Lists.all.map((list): ExcerptTable => ({
    table: tableOf(list),
    columns: [
      ...columnsOf(list).flatMap(({ kind, name, path }): ReadonlyArray<ExcerptColumn> => {
        const field = path.join(".")
        if (includes(list, field)) return [{ kind, name }]
        return kind === "text" && pseudonyms?.includes(list, field) === true ? [{ kind, name, isPseudonym: true }] : []
      }),
      ...times,
      ...hasTexts ? [json("raw")] : []
    ]
  })),
  { table: "changes", columns: [...changeColumns, ...hasTexts ? ["fields", "before", "after"].map(json) : []] }
]

/** Runs a statement that only reads over an excerpt of a destination that exists. */
export const queryExcerpt = (
  destination: Destination.StoredDestination,
  statement: Statement,
  excerpt: Excerpt
): Effect.Effect<QueryResult, SinkError | QueryError, Scope.Scope> =>
  Effect.andThen(requireStatement(statement), queryFilled(destination, statement, excerpt, undefined))

/** Runs a statement as {@link queryExcerpt} does, over the rows as they were at a point. Fails as `queryAt` does. */
export const queryExcerptAt = Effect.fnUntraced(function*(
  destination: Destination.StoredDestination,
  statement: Statement,
  excerpt: Excerpt,
  named: NamedPoint
): Effect.fn.Return<ResultAt, SinkError | QueryError | PointError, Scope.Scope> {
  yield* requireStatement(statement)
  const { asOf, point } = yield* Effect.scoped(
    Effect.flatMap(Destination.snapshot(destination), (opened) => asOfIn(opened, statement.sql, named))
  )
  return { ...yield* queryFilled(destination, statement, excerpt, asOf), point }
})

interface Statement {
  readonly sql: string
  readonly parameters?: ReadonlyArray<string> | undefined
}

const requireStatement = ({ sql }: Statement): Effect.Effect<void, QueryError> => {
  const problem = statementProblem(sql)
  return problem === undefined ? Effect.void : Effect.fail(new QueryError({ problem }))
}

const queryFilled = Effect.fnUntraced(function*(
  destination: Destination.StoredDestination,
  { parameters = [], sql }: Statement,
  excerpt: Excerpt,
  asOf: AsOf | undefined
): Effect.fn.Return<QueryResult, SinkError | QueryError, Scope.Scope> {
  const tables = yield* existing(destination, mentionedIn(sql, excerptTables(excerpt)))
  const { dialect, query, shown: location, sqliteFile } = Destination.operations(destination)
  // The process copies the rows of a file by itself, but only as they are.
  const file = asOf === undefined ? sqliteFile : undefined
  const child = yield* startProcess
  yield* request(child, location, {
    type: "excerpt",
    file,
    location,
    tables,
    key: excerpt.pseudonyms === undefined
      ? undefined
      : Buffer.from(Redacted.value(excerpt.pseudonyms.key)).toString("hex")
  })
  if (file === undefined) {
    for (const table of tables) {
      yield* Effect.scoped(Effect.gen(function*() {
        // The reader of the tables has opened the destination.
        const { rows } = yield* query(
          `SELECT ${table.columns.map(dialect.forExcerpt).join(", ")} FROM ${table.table}`,
          [],
          asOf
        )
        yield* Stream.runForEach(
          rows,
          (chunk: ReadonlyArray<ReadonlyArray<Cell>>) =>
            request(child, location, { type: "insert", table, rows: chunk.map(withPseudonyms(excerpt, table)) })
        )
      }))
    }
  }
  return yield* beginIn(child, { file: undefined, location, sql, parameters })
})

/** Returns a function that replaces the values of a row that must not be in the excerpt. */
const withPseudonyms = ({ pseudonyms }: Excerpt, { columns }: ExcerptTable) => (row: ReadonlyArray<Cell>) =>
  row.map((cell, index) =>
    columns[index]?.isPseudonym !== true
      ? cell
      : pseudonyms !== undefined && typeof cell === "string"
      ? pseudonymOnce(pseudonyms.key, cell)
      : null
  )

/** Returns the tables and columns that the statement may use. */
const mentionedIn = (sql: string, tables: ReadonlyArray<ExcerptTable>): ReadonlyArray<ExcerptTable> => {
  const mentions = mentionsOf(sql)
  return tables.filter(({ table }) => mentions.hasTable(table)).map(({ columns, table }) => ({
    table,
    columns: columns.filter(({ name }) => name === "id" || mentions.hasColumn(name))
  }))
}

/** Returns the tables with the columns that the destination has. A destination of an earlier version may lack some. */
const existing = (destination: Destination.StoredDestination, tables: ReadonlyArray<ExcerptTable>) =>
  Effect.scoped(Effect.gen(function*() {
    const reader = yield* Destination.reader(destination)
    const found = yield* Effect.forEach(tables, (table) =>
      Effect.gen(function*() {
        const list = Lists.all.find((known) => tableOf(known) === table.table)
        if (list === undefined) return [table]
        const recorded = new Set((yield* reader.columns(list)).map(({ name }) => name))
        const columns = table.columns.filter(({ kind, name }) =>
          kind === "time" || kind === "json" || recorded.has(name)
        )
        return recorded.size === 0 ? [] : [{ ...table, columns }]
      }))
    return found.flat()
  }))
