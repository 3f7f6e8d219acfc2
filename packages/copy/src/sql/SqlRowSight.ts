/** Counts what the rows of a list show together. Each count reads a column of all rows. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { columnsOf } from "../plan/Columns.ts"
import { daysToCount, type References, type RowSight } from "../plan/RowSight.ts"
import type { SinkError } from "../port/Sink.ts"
import { readNumber, readOptionalNumber, readText } from "../store/StoredRows.ts"
import { isCompleteFullScan, readTime, tableIn } from "./SqlDialect.ts"
import { quoted, raw, schema, type Sql, sql, type Statement } from "./SqlStatement.ts"

export const rowSightIn = Effect.fnUntraced(function*(
  db: Sql,
  list: Lists.AnyList
): Effect.fn.Return<RowSight, SinkError> {
  const [last, before] = yield* db.read(
    sql`SELECT first_row, ${readTime("started_at")}, (SELECT coalesce(max("row") + 1, 0) FROM ${tableIn(list)}) AS next
    FROM ${schema}.scans WHERE list = ${list.label} AND ${isCompleteFullScan} ORDER BY scan DESC LIMIT 2`,
    (rows) =>
      rows.map((row) => ({
        firstRow: readNumber(row, "first_row"),
        startedAt: Date.parse(readText(row, "started_at")),
        nextRow: readNumber(row, "next")
      }))
  )
  const scans = last === undefined || before === undefined
    ? undefined
    : { before: before.startedAt, last: last.startedAt }
  const [created, reference] = [columnIn(list, "createdAt"), columnIn(list, "reference")]
  const days = daysToCount(scans)
  const hasNewRows = last !== undefined && last.nextRow > (before ?? last).firstRow
  return {
    scans,
    created: created === undefined || days === undefined ? new Map() : yield* createdIn(db, list, created, days),
    references: reference === undefined || !hasNewRows
      ? undefined
      : { ...yield* referencesIn(db, list, reference), nextRow: last.nextRow }
  }
})

/** A list has the column only if its record has the field. */
const columnIn = (list: Lists.AnyList, field: string): Statement | undefined => {
  const column = columnsOf(list).find(({ path }) => path.length === 1 && path[0] === field)
  return column === undefined ? undefined : raw(quoted(column.name))
}

/** A service may send any text instead of a date. */
const mostDays = 1000

const createdIn = (
  db: Sql,
  list: Lists.AnyList,
  created: Statement,
  { from, to }: { readonly from: string; readonly to: string }
): Effect.Effect<RowSight["created"], SinkError> =>
  db.read(
    sql`SELECT substr(${created}, 1, 10) AS day, count(*) AS records FROM ${tableIn(list)}
    WHERE ${created} >= ${from} AND substr(${created}, 1, 10) <= ${to} GROUP BY 1 LIMIT ${mostDays}`,
    (rows) =>
      new Map(rows.flatMap((row) => {
        const day = readText(row, "day")
        return Number.isNaN(Date.parse(`${day}T00:00:00Z`)) ? [] : [[day, readNumber(row, "records")]]
      }))
  )

const referencesIn = (
  db: Sql,
  list: Lists.AnyList,
  reference: Statement
): Effect.Effect<Omit<References, "nextRow">, SinkError> =>
  db.read(
    sql`SELECT coalesce(sum(n), 0) AS rows, coalesce(sum(n - 1), 0) AS shared,
      min(CASE WHEN n > 1 THEN latest END) AS first_shared
    FROM (SELECT count(*) AS n, max("row") AS latest FROM ${tableIn(list)}
      WHERE missing_since IS NULL AND ${reference} <> '' GROUP BY ${reference}) AS of_reference`,
    ([row]) => ({
      rows: readNumber(row, "rows"),
      shared: readNumber(row, "shared"),
      firstShared: readOptionalNumber(row, "first_shared")
    })
  )
