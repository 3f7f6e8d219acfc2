/**
 * The values that columns of a destination have, such as the statuses. Only columns of fields that identify nobody, and
 * are neither amounts nor dates. The number of rows that are read, and of the values, is limited.
 */
import { Lists } from "@payments/core"
import { Effect, Stream } from "effect"
import * as Destination from "../destination/Destination.ts"
import { type Column, tableOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import type { QueryError } from "../statement/Statement.ts"
import { existingColumns } from "./ExistingColumns.ts"
import { queryOpened } from "./Query.ts"

/** The most values of a column, and the most characters of one. */
const most = { values: 10, characters: 40 } as const

/** The rows of each table that are read. */
export const rowsRead = 100_000

/** The values of a column, the most frequent first. */
export interface ColumnValues {
  readonly table: string
  readonly column: string
  readonly values: ReadonlyArray<string>
  /** Whether the column may have more values: of rows that were not read, too many, or too long. */
  readonly hasMore: boolean
}

/** Reads the values, with one statement for all tables. */
export const columnValues = (
  destination: Destination.StoredDestination
): Effect.Effect<ReadonlyArray<ColumnValues>, SinkError | QueryError> =>
  Effect.scoped(Effect.gen(function*() {
    const tables = yield* existingColumns(yield* Destination.reader(destination), isListed)
    const columns = tables.flatMap(({ columns: found, list }) =>
      found.map(({ name }) => ({ table: tableOf(list), column: name }))
    )
    if (columns.length === 0) {
      return []
    }
    const selects = columns.map(({ column, table }, index) =>
      `SELECT * FROM (SELECT ${index} AS place, value, count(*) AS n,
        CASE WHEN (SELECT count(*) FROM (SELECT 1 FROM ${table} LIMIT ${rowsRead + 1}) AS found) > ${rowsRead}
          THEN 'part' ELSE 'all' END AS extent
        FROM (SELECT ${column} AS value FROM ${table} LIMIT ${rowsRead}) AS part
        WHERE value IS NOT NULL GROUP BY value ORDER BY n DESC, value LIMIT ${most.values + 1}) AS values_${index}`
    )
    const { rows } = yield* queryOpened(destination, selects.join("\nUNION ALL "))
    const found = columns.map((): Array<{ readonly value: string; readonly isPart: boolean }> => [])
    yield* Stream.runForEach(Stream.flattenIterable(rows), ([place, value, , extent]) =>
      Effect.sync(() => {
        const index = typeof place === "object" && place !== null ? Number(place.json) : -1
        if (typeof value === "string") {
          found[index]?.push({ value, isPart: extent === "part" })
        }
      }))
    return columns.map((column, index): ColumnValues => {
      const all = found[index] ?? []
      const short = all.slice(0, most.values).filter(({ value }) => value.length <= most.characters)
      return {
        ...column,
        values: short.map(({ value }) => value),
        hasMore: short.length < all.length || all.some(({ isPart }) => isPart)
      }
    })
  }))

const isListed = (column: Column, list: Lists.AnyList): boolean =>
  column.kind === "text" &&
  Lists.fieldMeanings(list).some(({ identifies, path }) =>
    identifies === "nobody" && !(path[0] in Lists.dateFields(list)) && path.join(".") === column.path.join(".")
  )
