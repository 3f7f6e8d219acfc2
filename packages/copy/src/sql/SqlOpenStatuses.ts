/** The open records of a list by status, each with the date of the oldest. */
import type { Lists } from "@payments/core"
import { Effect, String } from "effect"
import { storable } from "../plan/Columns.ts"
import { otherValue } from "../plan/Contents.ts"
import { longestStatus, type OpenStatus } from "../port/ListFreshness.ts"
import { everyRow, instantOf } from "../statement/DateSql.ts"
import { lacksText, openFields } from "../store/OpenRecords.ts"
import type { Reader } from "../store/Store.ts"
import { readNumber, readOptional, readOptionalNumber, type Row } from "../store/StoredRows.ts"
import { tableIn } from "./SqlDialect.ts"
import { inSteps } from "./SqlSnapshot.ts"
import { isOneOfTexts, raw, type Sql, sql, type Statement } from "./SqlStatement.ts"

/** So many statuses are counted by name. Records of all others count together, whatever a service puts there. */
const mostNamed = 100

export const openStatusesOver = (db: Sql): Reader["openStatuses"] =>
  Effect.fnUntraced(function*(list, finalStates) {
    const found = new Map<string | null, OpenStatus>()
    yield* inSteps(db, list, (range) => openStatement(list, finalStates, range), (row) => {
      const counted = openOf(row)
      const isNamed = found.has(counted.status) || found.size < mostNamed
      add(found, isNamed ? counted : { ...counted, status: otherValue })
    })
    return [...found.values()]
  })

const add = (found: Map<string | null, OpenStatus>, { oldestAt, records, status, undated }: OpenStatus): void => {
  const before = found.get(status)
  const dates = [before?.oldestAt, oldestAt].filter((one) => one !== undefined).toSorted()
  found.set(status, {
    status,
    records: (before?.records ?? 0) + records,
    undated: (before?.undated ?? 0) + undated,
    oldestAt: dates[0]
  })
}

const openOf = (row: Row): OpenStatus => {
  const ms = readOptionalNumber(row, "oldest_ms")
  return {
    status: readNumber(row, "place") > mostNamed ? otherValue : readOptional(row, "status") ?? null,
    records: readNumber(row, "records"),
    undated: readNumber(row, "undated"),
    oldestAt: ms === undefined ? undefined : new Date(ms).toISOString()
  }
}

/** The last row has the records with the statuses that are not named. */
const openStatement = (list: Lists.AnyList, finalStates: ReadonlyArray<string>, range: Statement): Statement => {
  const { since, without } = openFields(list)
  const isUnset = raw(without === undefined ? "true" : lacksText(without))
  const isFinal = sql`(status IS NOT NULL AND status ${isOneOfTexts(finalStates.map(storable))})`
  return sql`WITH by_status AS (
      SELECT status, count(*) AS records, count(*) - count(created_us) AS undated, min(created_us) / 1000 AS oldest_ms
      FROM (SELECT substr(status, 1, ${raw(`${longestStatus}`)}) AS status, ${
    raw(instantOf(String.camelToSnake(since)))
  } AS created_us FROM ${tableIn(list)}
        WHERE ${range} AND missing_since IS NULL AND ${isUnset} AND NOT ${isFinal} ${raw(everyRow)}) AS opened
      GROUP BY status
    ), ranked AS (SELECT *, row_number() OVER (ORDER BY records DESC, status) AS rank FROM by_status)
    SELECT min(status) AS status, CASE WHEN rank > ${raw(`${mostNamed}`)} THEN ${
    raw(`${mostNamed + 1}`)
  } ELSE rank END AS place, CAST(sum(records) AS BIGINT) AS records, CAST(sum(undated) AS BIGINT) AS undated,
      min(oldest_ms) AS oldest_ms FROM ranked GROUP BY 2 ORDER BY 2`
}
