/**
 * What a wrong statement probably means. Only names in the statement are compared. Only these and the names of tables,
 * columns and SQL are suggested, so no suggestion has a value of a row.
 */
import { String } from "effect"
import { nearest } from "../text/Nearest.ts"

interface KnownTable {
  readonly name: string
  readonly columns: ReadonlyArray<string>
}

/** A name in a statement that the database does not know. */
export interface UnknownName {
  readonly kind: "table" | "column" | "function"
  /** The name, also with those of its table and schema if the message has them. */
  readonly name: string
}

const unknownNames: ReadonlyArray<readonly [UnknownName["kind"], RegExp]> = [
  ["column", /no such column: "?(\w+(?:\.\w+)*)"?/],
  ["table", /no such table: "?(\w+(?:\.\w+)*)"?/],
  ["function", /no such function: (\w+)/],
  ["column", /column "?(\w+(?:\.\w+)*)"? does not exist/],
  ["table", /relation "?(\w+(?:\.\w+)*)"? does not exist/],
  ["function", /function (\w+)\(.*\) does not exist/]
]

/** Returns the name that the database's message says is unknown. */
export const unknownName = (problem: string): UnknownName | undefined => {
  for (const [kind, pattern] of unknownNames) {
    const path = pattern.exec(problem)?.[1]
    if (path !== undefined) return { kind, name: path }
  }
  return undefined
}

const functions = ["count", "sum", "exact_sum", "min", "max", "avg", "substr", "lower", "upper", "coalesce", "length"]

const keywords = ["select", "from", "where", "group", "order", "having", "limit", "distinct", "join", "union"]

/** Returns a sentence with the names that the statement probably means; undefined if none is near. */
export const suggestion = (problem: string, sql: string, known: ReadonlyArray<KnownTable>): string | undefined => {
  const unknown = unknownName(problem)
  const names = unknown === undefined
    ? problem.includes("syntax error") ? nearKeywords(sql, known) : []
    : namesFor(unknown, sql, known)
  return names.length === 0 ? undefined : `Did you mean ${names.slice(0, 3).join(" or ")}?`
}

const namesFor = ({ kind, name: path }: UnknownName, sql: string, known: ReadonlyArray<KnownTable>) => {
  const name = path.split(".").at(-1) ?? ""
  if (kind === "function") {
    // PostgreSQL has no exact_sum, and knows no function with other arguments than its own.
    return name === "exact_sum" ? ["sum"] : functions.includes(name) ? [] : nearest(name, functions)
  }
  if (kind === "table") return nearest(String.camelToSnake(name).replaceAll("-", "_"), known.map((table) => table.name))
  const text = sql.toLowerCase()
  const used = known.filter((table) => text.includes(table.name))
  const columns = [...new Set((used.length === 0 ? known : used).flatMap((table) => table.columns))]
  // Also the path of a field, such as customerDetails.name.
  const spelled = new Set([path, name].map((one) => one.split(".").map(String.camelToSnake).join("_")))
  const same = columns.filter((column) => spelled.has(column))
  if (same.length > 0) return same
  const near = [...comparedText(path, sql), ...nearest(String.camelToSnake(name), columns)]
  return near.length > 0
    ? near
    : known.flatMap((table) => table.columns.includes(name) ? [`${name} of ${table.name}`] : [])
}

/** Returns the name in single quotes if the statement compares something with it: text without them is the name of a column. */
const comparedText = (path: string, sql: string): ReadonlyArray<string> =>
  !path.includes(".") && new RegExp(`(?:[=<>]|\\blike)\\s*"?${path}\\b`, "i").test(sql) ? [`'${path}'`] : []

/** Returns the keywords that words of the statement resemble. Text in quotes is no word. */
const nearKeywords = (sql: string, known: ReadonlyArray<KnownTable>): ReadonlyArray<string> => {
  const names = new Set([...keywords, ...functions, ...known.flatMap(({ columns, name }) => [name, ...columns])])
  const words = sql.toLowerCase().replaceAll(/'[^']*'|"[^"]*"|--[^\n]*/g, " ").match(/[a-z_]{4,}/g) ?? []
  return [
    ...new Set(
      words.filter((word) => !names.has(word)).flatMap((word) =>
        nearest(word, keywords.filter((keyword) => Math.abs(keyword.length - word.length) <= 1))
      )
    )
  ].map((keyword) => keyword.toUpperCase())
}

const firstWords = ["SELECT", "WITH", "VALUES"]

/** Returns the first words that a statement with this first word probably means. */
export const nearFirstWords = (word: string): ReadonlyArray<string> =>
  /^[a-z]{3,10}$/i.test(word) ? nearest(word, firstWords) : []
