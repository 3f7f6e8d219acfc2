/** The lists and columns that a destination has. One of an earlier version may lack some. */
import { Lists } from "@payments/core"
import { Effect } from "effect"
import { type Column, columnsOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Reader } from "../store/Store.ts"

export const hasList = (reader: Pick<Reader, "columns">, list: Lists.AnyList): Effect.Effect<boolean, SinkError> =>
  Effect.map(reader.columns(list), ({ length }) => length > 0)

/** Returns the chosen columns of each list that the destination has. Leaves out lists without any. */
export const existingColumns = (
  reader: Pick<Reader, "columns">,
  isChosen: (column: Column, list: Lists.AnyList) => boolean
) =>
  Effect.map(
    Effect.forEach(Lists.all, (list) =>
      Effect.map(reader.columns(list), (recorded) => {
        const names = new Set(recorded.map(({ name }) => name))
        return { list, columns: columnsOf(list).filter((column) => names.has(column.name) && isChosen(column, list)) }
      })),
    (lists) => lists.filter(({ columns }) => columns.length > 0)
  )
