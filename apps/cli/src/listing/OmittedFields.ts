/** The fields that a copy leaves out, by its rule for personal data: they are no empty values of the service. */
import { Destination, mentionsOf, omittedIn, type Questions, tables } from "@payments/copy"
import type { Lists } from "@payments/core"
import { allOf } from "@payments/program"
import { Effect, String } from "effect"
import { listsIn } from "./ListsInStatement.ts"

/** Whether a command asks for a column. */
type IsAsked = (column: string) => boolean

/** Returns a sentence about the columns of these lists that are asked for, and that the copy leaves out. Undefined without any. */
export const omittedNote = Effect.fnUntraced(function*(
  destination: Destination.StoredDestination,
  lists: ReadonlyArray<Lists.AnyList>,
  isAsked: IsAsked,
  consequence = "null there is not what the service returned"
) {
  const personal = Effect.scoped(Effect.flatMap(Destination.reader(destination), (reader) => reader.personal))
  // The rows are printed already, and a user who may read only some tables need not read the others.
  const rule = yield* Effect.orElseSucceed(Effect.map(personal, (state) => state.rule), () => undefined)
  const names = new Set(
    tables.filter(({ name }) => lists.some((list) => String.camelToSnake(list.name) === name))
      .flatMap(({ columns }) => columns.map((column) => column.name))
  )
  const columns = omittedIn(rule).flatMap((field) => {
    const column = field.split(".").map(String.camelToSnake).join("_")
    return names.has(column) && isAsked(column) ? [column] : []
  })
  return columns.length === 0
    ? undefined
    : `The copy leaves ${allOf(columns)} out, by its rule for personal data: ${consequence}.`
})

/** Returns the note about the amounts of a question. Without another field that it needs, the question is refused. */
export const omittedInAnswer = (
  destination: Destination.StoredDestination,
  { columns, list }: Pick<Questions.Question, "columns" | "list">
) => omittedNote(destination, [list], (column) => columns.includes(column))

/** Returns the note about the columns that a statement asks for. With `*`, or the text of a record, it asks for all. */
export const omittedInStatement = (destination: Destination.StoredDestination, sql: string) => {
  const { hasColumn, hasTable } = mentionsOf(sql)
  const hasTexts = /\braw\b/i.test(sql) || (hasTable("changes") && /\b(before|after)\b/i.test(sql))
  return omittedNote(destination, listsIn(sql), (column) => hasTexts || hasColumn(column))
}
