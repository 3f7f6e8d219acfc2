/** Says of a column, a table or a question that it is left out, and why. Otherwise an agent says that the data does not exist. */
import { excerptTables, suggestion, tables, unknownName } from "@payments/copy"
import type { Visibility } from "./Visibility.ts"

/** What the person who runs the server can do. */
export const offer =
  "The copy has it. The operator of this server can start it with `payments mcp --personal pseudonymize`: each value is then a pseudonym, which can be grouped, counted and compared."

/** Returns the names of the columns that this server leaves out because they identify a person. */
export const leftOutColumns = (visibility: Visibility): ReadonlyArray<string> => {
  const shown = new Set(excerptTables(visibility).flatMap(({ columns }) => columns.map(({ name }) => name)))
  return [...new Set(tables.filter(isList).flatMap(({ columns }) => columns.map(({ name }) => name)))]
    .filter((name) => !shown.has(name) && !texts.has(name))
}

/** The columns with the exact texts of records, which have every field. */
const texts = new Set(["raw", "before", "after", "fields"])

const isList = ({ columns }: typeof tables[number]): boolean => columns.some(({ name }) => name === "first_seen_at")

/** Returns the problem with a statement, and what is left out or what the statement probably means. */
export const explained = (problem: string, sql: string, visibility: Visibility): string => {
  const shown = excerptTables(visibility).map(({ columns, table }) => ({
    name: table,
    columns: columns.map(({ name }) => name)
  }))
  const unknown = unknownName(problem)
  const meant = (names: Iterable<string>) =>
    [...names].find((name) => unknown !== undefined && means(unknown.name, name))
  const person = unknown?.kind === "column" ? meant(leftOutColumns(visibility)) : undefined
  const text = unknown?.kind === "column" && !visibility.hasTexts ? meant(texts) : undefined
  const table = unknown?.kind === "table" ? meant(tables.map(({ name }) => name)) : undefined
  if (person !== undefined) return `${problem} ${person} is left out because it identifies a person. ${offer}`
  if (text !== undefined) {
    return `${problem} ${text} is left out because it has every field of a record, also those that identify a person.`
  }
  const reason = table === undefined
    ? suggestion(problem, sql, shown)
    : `This tool does not offer ${table}. It offers ${shown.map(({ name }) => name).join(", ")}.`
  return reason === undefined ? problem : `${problem} ${reason}`
}

/** Whether a name in a statement means the column or table, also if it is spelled as the field: `customerDetails.name`. */
const means = (path: string, name: string): boolean =>
  [path, path.split(".").at(-1) ?? ""].some((spelled) => letters(spelled) === letters(name))

const letters = (name: string): string => name.toLowerCase().replaceAll(/[._]/g, "")
