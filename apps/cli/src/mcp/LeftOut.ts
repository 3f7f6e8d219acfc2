/** Says of a column, a table or a question that it is left out, and why. Otherwise an agent says that the data does not exist. */
import { excerptTables, suggestion, tables, unknownName } from "@payments/export"
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
  const name = unknown?.name.split(".").at(-1) ?? ""
  const reason = unknown?.kind === "column" && leftOutColumns(visibility).includes(name)
    ? `${name} is left out because it identifies a person. ${offer}`
    : unknown?.kind === "column" && !visibility.hasTexts && texts.has(name)
    ? `${name} is left out because it has every field of a record, also those that identify a person.`
    : unknown?.kind === "table" && tables.some((table) => table.name === name)
    ? `This tool does not offer ${name}. It offers ${shown.map((table) => table.name).join(", ")}.`
    : suggestion(problem, sql, shown)
  return reason === undefined ? problem : `${problem} ${reason}`
}
