/** Counts rows and sums amounts by status in PostgreSQL. The server chooses the most frequent statuses. */
import { Effect } from "effect"
import { tableOf } from "../plan/Columns.ts"
import { longestStatus, mostStatuses, type StatusTotals } from "../port/ListFreshness.ts"
import { quoted } from "../sql/SqlStatement.ts"
import type { Reader } from "../store/Store.ts"
import { readNumber, readOptional, type Row } from "../store/StoredRows.ts"
import type { Query } from "./PostgresClient.ts"

export const statusTotalsOver = (query: Query, schema: string): Reader["statusTotals"] => (list, amounts) =>
  Effect.map(query(statusQuery(`${schema}.${tableOf(list)}`, amounts)), (rows) => statusTotalsOf(rows, amounts))

/** Returns the statement for the most frequent statuses. Its last row has the rows of all other statuses. */
const statusQuery = (table: string, amounts: ReadonlyArray<string>): string => {
  const sums = (of: (column: string) => string) =>
    amounts.map((name) => `, ${of(quoted(name))} AS ${quoted(name)}`).join("")
  return `WITH by_status AS (
      SELECT left(status, ${longestStatus}) AS status, count(*) AS rows${sums((name) => `sum(${name})`)}
      FROM ${table} WHERE missing_since IS NULL GROUP BY 1
    ), ranked AS (SELECT *, row_number() OVER (ORDER BY rows DESC, status) AS rank FROM by_status)
    SELECT least(rank, ${mostStatuses + 1}) AS rank, min(status) AS status, sum(rows) AS rows${
    sums((name) => `sum(${name})::text`)
  } FROM ranked GROUP BY 1 ORDER BY 1`
}

const statusTotalsOf = (found: ReadonlyArray<Row>, amounts: ReadonlyArray<string>): StatusTotals => {
  const totals = found.map((row) => ({
    status: readOptional(row, "status") ?? null,
    rows: readNumber(row, "rows"),
    sums: Object.fromEntries(amounts.map((name) => [name, readOptional(row, name) ?? "0"]))
  }))
  const [other] = totals.splice(mostStatuses)
  return {
    statuses: totals,
    other: { rows: other?.rows ?? 0, sums: other?.sums ?? Object.fromEntries(amounts.map((name) => [name, "0"])) }
  }
}
