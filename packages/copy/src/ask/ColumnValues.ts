/**
 * The values that columns of a destination have, such as the statuses. Only columns of fields that identify nobody, and are neither
 * amounts nor dates. The number of rows that are read, and of the values, is limited.
 */
import { Lists } from "@payments/core"
import { Effect, Stream } from "effect"
import * as Destination from "../destination/Destination.ts"
import { columnsOf, tableOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import type { QueryError } from "../statement/Statement.ts"
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

/** Returns the columns whose values are listed. */
const listedColumns = (list: Lists.AnyList) => {
  const nobody = new Set(
    Lists.fieldMeanings(list).filter(({ identifies, kind, path: [field] }) =>
      identifies === "nobody" && kind === "text" && !(field in Lists.dateFields(list))
    ).map(({ path }) => path.join("."))
  )
  return columnsOf(list).filter(({ path }) => nobody.has(path.join(".")))
}

/** Reads the values, with one statement for all tables. */
export const columnValues = (
  destination: Destination.StoredDestination
): Effect.Effect<ReadonlyArray<ColumnValues>, SinkError | QueryError> =>
  Effect.scoped(Effect.gen(function*() {
    const reader = yield* Destination.reader(destination)
    // A destination of an earlier version may lack columns and tables.
    const columns = (yield* Effect.forEach(Lists.all, (list) =>
      Effect.map(reader.columns(list), (recorded) =>
        listedColumns(list).filter(({ name }) =>
          recorded.some((column) => column.name === name)
        )
          .map(({ name }) => ({ table: tableOf(list), column: name }))))).flat()
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
      const short = all.slice(0, most.values).filter(({ value }) =>
        value.length <= most.characters
      )
      return {
        ...column,
        values: short.map(({ value }) =>
          value
        ),
        hasMore: short.length < all.length || all.some(({ isPart }) => isPart)
      }
    })
  }))
