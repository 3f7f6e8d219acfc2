/** The small differences between the databases, each with its name. */
import type { Lists } from "@payments/core"
import { tableOf } from "../plan/Columns.ts"
import { either, raw, schema, sql, type Statement } from "./SqlStatement.ts"

export const tableIn = (list: Lists.AnyList): Statement => sql`${schema}.${raw(tableOf(list))}`

/** Reads a column of type `json` as its text, under the column's name. */
export const readJson = (column: string): Statement => either(column, `${column}::text AS ${column}`)

/** Reads a time as JavaScript formats it, under the column's name. */
export const readTime = (column: string): Statement =>
  either(column, `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS ${column}`)

export const greatest = either("max", "greatest")

/** Scans that are not passes. It is also the condition of an index. */
export const isScan = raw("kind IN ('full', 'part')")

/** Complete scans of a whole list. SQLite uses the index of scans only if the query has the condition of the index. */
export const isCompleteFullScan = sql`part = '' AND state = 'complete' AND ${isScan}`

/** The place of a quarantined record in its table. In PostgreSQL, an update moves the record. */
export const quarantinePlace = either("rowid", "ctid")

export const columnTypes = { text: "text", integer: "bigint", boolean: "boolean" } as const
