/** Runs the statements of both databases over an SQLite file. */
import { Cause, Effect, Exit } from "effect"
import { SinkError } from "../port/Sink.ts"
import {
  givenIn,
  raw,
  render,
  type Sql,
  type SqlDatabase,
  type Statement,
  type Style,
  type Value
} from "../sql/SqlStatement.ts"
import { maxBytes } from "../store/Store.ts"
import { readOptional, type Row } from "../store/StoredRows.ts"
import type { Database, SqliteClient } from "./SqliteClient.ts"
import { rowsOf } from "./SqliteRows.ts"

/** Runs statements in steps of their own. */
export const sqlOver = ({ run }: Pick<SqliteClient, "run">, location: string): Sql => ({
  location,
  dialect: "sqlite",
  read: (statement, convert) => run((db) => convert(all(db, statement))),
  readExact: (statement, convert) => run((db) => convert(allExact(db, statement))),
  all: (statement) => run((db) => all(db, statement)),
  run: (statement) => run((db) => change(db, statement)),
  first: (statement, limit) => run((db) => first(db, statement, limit))
})

/** Runs statements in the step that is running. */
export const sqlIn = (db: Database, location: string): Sql =>
  sqlOver({ run: (step) => Effect.sync(() => step(db)) }, location)

export const databaseOver = (
  client: Pick<SqliteClient, "run" | "unlockedTransaction">,
  location: string
): SqlDatabase => ({
  ...sqlOver(client, location),
  transaction: (_, body) => client.unlockedTransaction((db) => settle(body(sqlIn(db, location)))),
  origin: Effect.succeed(raw("NULL"))
})

/** Runs a body of {@link sqlIn} at once. It runs synchronously, as SQLite does: one that waits would fail here. */
export const settle = <A>(body: Effect.Effect<A, SinkError>): A => {
  const exit = Effect.runSyncExit(body)
  if (Exit.isSuccess(exit)) return exit.value
  const error = Cause.squash(exit.cause)
  throw error instanceof SinkError ? error.reason : error
}

export const style: Style = { dialect: "sqlite", schema: "main", parameter: (number) => `?${number}` }

/**
 * Removes the numbers of parameters that stand once each and in order. To bind a value to a parameter with a number,
 * Node searches a list of all parameters. That takes 3 % of the time of the thread that writes.
 */
const withoutNumbers = (text: string): string => {
  const parameters = text.match(/\?\d+/g) ?? []
  const areInOrder = parameters.every((parameter, index) => parameter === `?${index + 1}`)
  return areInOrder ? text.replaceAll(/\?\d+/g, "?") : text
}

const prepare = (db: Database, statement: Statement) => {
  const { parameters, rows, text } = render(statement, style)
  const values = parameters.map((parameter): Value =>
    "list" in parameter ? JSON.stringify(parameter.list) : parameter.value
  )
  return { text, prepared: db.prepare(text, withoutNumbers), rows: rows ?? [[]], values }
}

const all = (db: Database, statement: Statement): ReadonlyArray<Row> => {
  const { prepared, rows, values } = prepare(db, statement)
  return rows.flatMap((row) => prepared.all(...row, ...values))
}

const allExact = (db: Database, statement: Statement): ReadonlyArray<Row> => {
  const { text, values } = prepare(db, statement)
  return db.allExact(text, ...values)
}

const change = (db: Database, statement: Statement): void => {
  if (givenIn(statement)?.rows.length === 0) return
  const { prepared, rows, values } = prepare(db, statement)
  // One array serves all rows, because the thread that writes would spend more time on the removal of many.
  const bound = [...rows[0] ?? [], ...values]
  for (const row of rows) {
    for (let index = 0; index < row.length; index++) bound[index] = row[index] ?? null
    prepared.run(...bound)
  }
}

const first = (db: Database, statement: Statement, { count, texts }: Parameters<Sql["first"]>[1]) => {
  const { prepared, values } = prepare(db, statement)
  const rows: Array<Row> = []
  let length = 0
  for (const row of rowsOf(prepared, values)) {
    for (const column of texts) length += readOptional(row, column)?.length ?? 0
    if (rows.length === count || (rows.length > 0 && length > maxBytes)) return { rows, isWhole: false }
    rows.push(row)
  }
  return { rows, isWhole: true }
}
