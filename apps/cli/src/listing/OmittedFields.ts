/** The fields that a copy leaves out, by its rule for personal data: they are no empty values of the service. */
import { Destination, omittedIn, tables } from "@payments/copy"
import type { Lists } from "@payments/core"
import { allOf } from "@payments/program"
import { Effect, String } from "effect"
import { logWrapped } from "../output/Wrapped.ts"

/** Whether a command asks for a column, which has the value of a field such as `customerDetails.name`. */
type IsAsked = (column: string, field: string) => boolean

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
    return names.has(column) && isAsked(column, field) ? [column] : []
  })
  return columns.length === 0
    ? undefined
    : `The copy leaves ${allOf(columns)} out, by its rule for personal data: ${consequence}.`
})

/** Says which of the columns that are asked for the copy leaves out. */
export const logOmitted = Effect.fnUntraced(function*(...asked: Parameters<typeof omittedNote>) {
  const note = yield* omittedNote(...asked)
  if (note !== undefined) yield* logWrapped(note)
})
