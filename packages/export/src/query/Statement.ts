/**
 * What may be asked of a destination: one statement that reads. The database enforces that too; here it is said in words, and
 * what the database says of a statement is made fit to be shown.
 */
import { Data } from "effect"
import { printable } from "../Stdout.ts"

/** The statement is refused, or cannot be carried out. No message repeats a value. */
export class QueryError extends Data.TaggedError("QueryError")<{ readonly problem: string }> {
  override get message() {
    return this.problem
  }
}

/** White space, comments and opening parentheses before the first word. */
const opening = /^(?:[\s(]|--[^\n]*(?:\n|$)|\/\*[^]*?\*\/)*/

/** Why the text is no statement that reads; undefined where it may be one. */
export const refusalOf = (sql: string): string | undefined => {
  const rest = sql.replace(opening, "")
  if (rest === "" || rest.startsWith(";")) {
    return "There is no statement. Give one in quotes: \"SELECT count(*) FROM invoices\"."
  }
  return /^(select|with|values)\b/i.test(rest)
    ? undefined
    : "Only SELECT, WITH and VALUES are possible: the destination is only read."
}

export const severalStatements = "There is more than one statement. Give one."

/** Whether there is nothing but comments and semicolons. */
export const isEmpty = (sql: string): boolean =>
  /^(?:[\s;]|--[^\n]*(?:\n|$)|\/\*(?:(?!\*\/)[^])*(?:\*\/|$))*$/.test(sql)

/** A piece of PostgreSQL's SQL; a comment within a comment is found by the caller. */
const piece =
  /--[^\n]*|[eE]'(?:[^'\\]|\\[^]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|(\$(?:[A-Za-z_]\w*)?\$)[^]*?\1|\/\*|[^]/gy

/** The statement of PostgreSQL without the semicolons and comments behind it, so that it can stand in parentheses. */
export const withoutEnd = (sql: string): string => {
  let end = 0
  piece.lastIndex = 0
  for (let at = 0; at < sql.length; at = piece.lastIndex) {
    const [text = ""] = piece.exec(sql) ?? []
    if (text === "/*") piece.lastIndex = endOfComment(sql, at)
    else if (!/^(--|[\s;])/.test(text)) end = piece.lastIndex
  }
  return sql.slice(0, end)
}

/** Comments of PostgreSQL nest. */
const endOfComment = (sql: string, start: number): number => {
  let depth = 0
  for (const { 0: text, index } of sql.slice(start).matchAll(/\/\*|\*\//g)) {
    depth += text === "/*" ? 1 : -1
    if (depth === 0) return start + index + 2
  }
  return sql.length
}

const longest = 300

/** A message of the database without what may be a value: only what looks like a name, or holds no letter and no digit, stays. */
export const shownMessage = (message: string): string => {
  const masked = message.replaceAll(
    /(["'])((?:(?!\1)[^]|\1\1)*)(?:\1|$)/g,
    (quotedText, mark: string, inside: string) =>
      isName(inside) || !/[\p{L}\p{N}]/u.test(inside) ? quotedText : `${mark}…${mark}`
  )
    .replace(
      /^(no such [a-z]+: )([^"'].*)$/,
      (whole, start: string, name: string) => isName(name) ? whole : `${start}…`
    )
  const [first = ""] = masked.split("\n")
  return printable(first).slice(0, longest)
}

const isName = (text: string): boolean => /^[A-Za-z_][\w.$]*$/.test(text)
