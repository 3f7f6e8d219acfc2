/**
 * Runs one statement over an SQLite destination, in chunks of rows. The connection cannot write, in any database. The
 * statement can use the aggregate `exact_sum`: unlike `sum`, it does not fail for a sum beyond 64 bits. `folded` is
 * `lower` for every script. `from_halves` adds the sum of the high halves of integers, 2^32 times, to that of their low
 * halves.
 */
import type { AggregateOptions, SQLInputValue } from "node:sqlite"
import { withoutHistory } from "../statement/AsOf.ts"
import { isEmpty, multipleStatements, QueryError } from "../statement/Statement.ts"
import { shownMessage } from "../statement/StatementMessage.ts"
import type { Cell } from "../text/Cell.ts"
import { folded } from "../text/Folded.ts"
import { historyless } from "./SqliteAsOf.ts"
import type { Database } from "./SqliteClient.ts"
import { isStatementError } from "./SqliteErrors.ts"
import { rowsOf } from "./SqliteRows.ts"

export type Connection = Pick<Database, "run" | "prepare" | "aggregate" | "function">

export interface SqliteQuery {
  readonly columns: ReadonlyArray<string>
  /** Returns the next rows; an empty array at the end. */
  readonly next: () => ReadonlyArray<ReadonlyArray<Cell>>
}

/** A chunk ends when it reaches either limit. */
const chunkLimit = { rows: 500, characters: 1_000_000 }

/** Starts the statement. Throws a {@link QueryError} if the statement is invalid. */
export const begin = (db: Connection, sql: string, parameters: ReadonlyArray<string> = []): SqliteQuery =>
  catchStatementError(sql, () => {
    db.run("PRAGMA query_only = ON")
    /** The sums beyond 64 bits, which SQLite can only return as texts. */
    const largeSums = new Set<string>()
    /** What went wrong in a function. node:sqlite drops what a function throws. */
    let failure: QueryError | undefined
    db.aggregate("exact_sum", exactSum(largeSums, (error) => failure ??= error))
    // SQLite's lower() changes only the letters of ASCII.
    db.function("folded", (value) => typeof value === "string" ? folded(value) : value)
    db.function(
      "from_halves",
      (high, low) =>
        typeof high === "bigint" && typeof low === "bigint" ? sumCell(high * 2n ** 32n + low, largeSums) : null
    )
    const statement = db.prepare(sql)
    // SQLite prepares the first statement and ignores the rest.
    if (!isEmpty(sql.slice(statement.sourceSQL.length))) throw new QueryError({ problem: multipleStatements })
    statement.setReadBigInts(true)
    statement.setReturnArrays(true)
    const columns = statement.columns().map(({ name }) => name)
    const named = Object.fromEntries(parameters.map((value, index) => [`$${index + 1}`, value]))
    const rows: Iterator<unknown> = rowsOf(statement, [], named)
    return {
      columns,
      next: () =>
        catchStatementError(sql, () => {
          const chunk: Array<ReadonlyArray<Cell>> = []
          for (let characters = 0; chunk.length < chunkLimit.rows && characters < chunkLimit.characters;) {
            const { done, value } = rows.next()
            if (failure !== undefined) throw failure
            if (done === true) break
            const cells = (value as ReadonlyArray<unknown>).map((cell) => cellOf(cell, largeSums)) // by setReturnArrays
            for (const cell of cells) characters += typeof cell === "string" ? cell.length : 20
            chunk.push(cells)
          }
          return chunk
        })
    }
  })

/** Runs a step and turns SQLite's error about a statement into a {@link QueryError}. */
const catchStatementError = <A>(sql: string, step: () => A): A => {
  try {
    return step()
  } catch (error) {
    if (!isStatementError(error)) throw error
    const [, name] = error.message.split(historyless)
    if (name !== undefined) throw withoutHistory([name])
    const hint = error.message === "integer overflow" ? " For a sum beyond 64 bits, use exact_sum instead of sum." : ""
    throw new QueryError({ problem: `The query cannot be carried out: ${shownMessage(error.message, sql)}.${hint}` })
  }
}

/** The range of SQLite's integers. */
const int64 = { least: -(2n ** 63n), most: 2n ** 63n - 1n }

/** Adds integers without a limit. Returns null if all values are null. Fails for any other value. */
const exactSum = (
  largeSums: Set<string>,
  fail: (error: QueryError) => void
): AggregateOptions<SQLInputValue> => ({
  start: null,
  useBigIntArguments: true,
  step: (sum, value) => {
    if (value === null) return sum
    if (typeof value !== "bigint") {
      fail(new QueryError({ problem: "exact_sum adds integers only." }))
      return null
    }
    return (typeof sum === "bigint" ? sum : 0n) + value
  },
  result: (sum) => typeof sum === "bigint" ? sumCell(sum, largeSums) : sum
})

/** Returns what SQLite can return for the sum. */
const sumCell = (sum: bigint, largeSums: Set<string>): bigint | string => {
  if (sum >= int64.least && sum <= int64.most) return sum
  const text = String(sum)
  largeSums.add(text)
  return text
}

const cellOf = (value: unknown, largeSums: ReadonlySet<string>): Cell => {
  if (typeof value === "string") return largeSums.has(value) ? { json: value } : value
  if (value === null) return value
  if (typeof value === "bigint") return { json: String(value) }
  if (typeof value === "number") return realOf(value)
  return value instanceof Uint8Array ? `\\x${Buffer.from(value).toString("hex")}` : String(value)
}

/** Formats a real number with a decimal point, as SQLite does, so that it does not look like an integer. */
const realOf = (value: number): Cell => {
  if (!Number.isFinite(value)) return String(value)
  const text = Object.is(value, -0) ? "-0" : String(value)
  return { json: /[.e]/.test(text) ? text : `${text}.0` }
}
