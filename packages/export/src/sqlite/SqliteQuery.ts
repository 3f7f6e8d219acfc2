/** One statement over an SQLite destination, a part of its rows at a time. It can write nothing, in any database. */
import type { Cell } from "../Cell.ts"
import { isEmpty, QueryError, severalStatements, shownMessage } from "../query/Statement.ts"
import type { Database } from "./SqliteClient.ts"
import { isStatementError } from "./SqliteErrors.ts"

/** A statement that is carried out. */
export interface SqliteQuery {
  readonly columns: ReadonlyArray<string>
  /** The next rows; none at the end. */
  readonly next: () => ReadonlyArray<ReadonlyArray<Cell>>
}

/** Rows are handed over when they are so many, or so long. */
const most = { rows: 500, characters: 1_000_000 }

/** Begins the statement. Throws a {@link QueryError} where the statement itself is wrong. */
export const begin = (db: Database, sql: string): SqliteQuery =>
  orRefused(() => {
    db.run("PRAGMA query_only = ON")
    const statement = db.prepare(sql)
    // SQLite takes the first statement and leaves the rest.
    if (!isEmpty(sql.slice(statement.sourceSQL.length))) throw new QueryError({ problem: severalStatements })
    statement.setReadBigInts(true)
    statement.setReturnArrays(true)
    const columns = statement.columns().map(({ name }) => name)
    const rows: Iterator<unknown> = statement.iterate()
    return {
      columns,
      next: () =>
        orRefused(() => {
          const taken: Array<ReadonlyArray<Cell>> = []
          for (let characters = 0; taken.length < most.rows && characters < most.characters;) {
            const { done, value } = rows.next()
            if (done === true) break
            const cells = (value as ReadonlyArray<unknown>).map(cellOf) // by setReturnArrays
            for (const cell of cells) characters += typeof cell === "string" ? cell.length : 20
            taken.push(cells)
          }
          return taken
        })
    }
  })

const orRefused = <A>(step: () => A): A => {
  try {
    return step()
  } catch (error) {
    if (!isStatementError(error)) throw error
    throw new QueryError({ problem: `The query cannot be carried out: ${shownMessage(error.message)}.` })
  }
}

const cellOf = (value: unknown): Cell => {
  if (value === null || typeof value === "string") return value
  if (typeof value === "bigint") return { json: String(value) }
  if (typeof value === "number") return realOf(value)
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString("hex")}` : String(value)
}

/** Prints a real number with a point, as SQLite does, so that it does not look like an integer. */
const realOf = (value: number): Cell => {
  if (!Number.isFinite(value)) return String(value)
  const text = Object.is(value, -0) ? "-0" : String(value)
  return { json: /[.e]/.test(text) ? text : `${text}.0` }
}
