/**
 * Checks that a query is one statement that only reads. The database enforces reading too; the check here gives a clear message.
 * Also says what a query returns.
 */
import { Data, type Stream } from "effect"
import type { SinkError } from "../port/Sink.ts"
import type { Cell } from "../text/Cell.ts"
import { nearFirstWords } from "./Suggestion.ts"

/** The statement is refused, or the database cannot run it. No message repeats a value. */
export class QueryError extends Data.TaggedError("QueryError")<{ readonly problem: string }> {
  override get message() {
    return this.problem
  }
}

/** The result of a query. */
export interface QueryResult {
  readonly columns: ReadonlyArray<string>
  /** In chunks. Each row has a cell for each column. */
  readonly rows: Stream.Stream<ReadonlyArray<ReadonlyArray<Cell>>, SinkError | QueryError>
}

/** White space, comments and opening parentheses before the first word. */
const opening = /^(?:[\s(]|--[^\n]*(?:\n|$)|\/\*[^]*?\*\/)*/

/** Returns why the text is not a statement that reads, or undefined if it may be one. */
export const statementProblem = (sql: string): string | undefined => {
  const rest = sql.replace(opening, "")
  if (rest === "" || rest.startsWith(";")) {
    return "There is no statement. Give one in quotes: \"SELECT count(*) FROM invoices\"."
  }
  if (/^(select|with|values)\b/i.test(rest)) return undefined
  const near = nearFirstWords(/^\w*/.exec(rest)?.[0] ?? "")
  return `A query only reads the destination. ${
    near.length === 0 ? "Use SELECT, WITH or VALUES." : `Did you mean ${near.join(" or ")}?`
  }`
}

export const multipleStatements = "There is more than one statement. Give one."

/** Whether the text has only white space, comments and semicolons. */
export const isEmpty = (sql: string): boolean =>
  /^(?:[\s;]|--[^\n]*(?:\n|$)|\/\*(?:(?!\*\/)[^])*(?:\*\/|$))*$/.test(sql)

/** A token of PostgreSQL's SQL. Of a block comment it matches only the start; {@link endOfComment} finds the end. */
const token =
  /--[^\n]*|[eE]'(?:[^'\\]|\\[^]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|(\$(?:[A-Za-z_]\w*)?\$)[^]*?\1|\/\*|[^]/gy

/** Removes the semicolons and comments after a PostgreSQL statement, so that the statement can be put in parentheses. */
export const trimStatementEnd = (sql: string): string => {
  let end = 0
  token.lastIndex = 0
  for (let at = 0; at < sql.length; at = token.lastIndex) {
    const [text = ""] = token.exec(sql) ?? []
    if (text === "/*") token.lastIndex = endOfComment(sql, at)
    else if (!/^(--|[\s;])/.test(text)) end = token.lastIndex
  }
  return sql.slice(0, end)
}

/** Returns the index after the comment that starts at `start`. PostgreSQL's block comments nest. */
const endOfComment = (sql: string, start: number): number => {
  let depth = 0
  for (const { 0: text, index } of sql.slice(start).matchAll(/\/\*|\*\//g)) {
    depth += text === "/*" ? 1 : -1
    if (depth === 0) return start + index + 2
  }
  return sql.length
}
