/** The fields that a copy leaves out, by its rule for personal data: they are no empty values of the service. */
import { Destination, omittedIn, tables } from "@payments/copy"
import { type Lists } from "@payments/core"
import { allOf } from "@payments/program"
import { Effect, String } from "effect"
import { logWrapped } from "../output/Wrapped.ts"

/** Whether a command asks for a column, which has the value of a field such as `customerDetails.name`. */
type IsAsked = (column: string, field: string) => boolean

/** Returns the columns of lists that are asked for, if a copy leaves their fields out. */
export const omittedColumns = (lists: ReadonlyArray<Lists.AnyList>, isAsked: IsAsked) =>
(
  rule: string | undefined
): ReadonlyArray<string> => {
  const names = new Set(
    tables.filter(({ name }) => lists.some((list) => String.camelToSnake(list.name) === name))
      .flatMap(({ columns }) => columns.map((column) => column.name))
  )
  return omittedIn(rule).flatMap((field) => {
    const column = field.split(".").map(String.camelToSnake).join("_")
    return names.has(column) && isAsked(column, field) ? [column] : []
  })
}

/** Says which of the columns the copy leaves out. */
export const logOmitted = Effect.fnUntraced(function*(
  destination: Destination.StoredDestination,
  columnsUnder: (rule: string | undefined) => ReadonlyArray<string>
) {
  const { rule } = yield* Effect.scoped(Effect.flatMap(Destination.reader(destination), ({ personal }) => personal))
  const columns = columnsUnder(rule)
  if (columns.length > 0) {
    yield* logWrapped(
      `The copy leaves ${
        allOf(columns)
      } out, by its rule for personal data: null there is not what the service returned.`
    )
  }
})
