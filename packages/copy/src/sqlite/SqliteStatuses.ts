/** Counts rows and sums amounts by status in an SQLite destination. */
import { Effect } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import { longestStatus, mostStatuses, type StatusTotal } from "../port/ListFreshness.ts"
import { readNumber, readOptional, readText, type Row } from "../store/Rows.ts"
import type { Reader } from "../store/Store.ts"
import type { SqliteClient } from "./SqliteClient.ts"

/** Row numbers per step. A step blocks the thread for about 5 ms, and commits run between two steps. */
const stepRows = 10_000
/**
 * The number of different statuses that are counted by name before the most frequent are chosen, so that memory is bounded.
 * Further statuses count as other.
 */
const countedStatuses = 10_000

interface Total {
  rows: number
  readonly sums: Array<bigint>
}

/** Makes {@link Reader.statusTotals}. */
export const statusTotalsOver = (run: SqliteClient["run"]): Reader["statusTotals"] =>
  Effect.fnUntraced(function*(list, amounts) {
    const { table } = layoutOf(list)
    const emptyTotal = (): Total => ({ rows: 0, sums: amounts.map(() => 0n) })
    const totals = new Map<string | undefined, Total>()
    const other = emptyTotal()
    const add = (total: Total, { rows, sums }: Total) => {
      total.rows += rows
      for (const [index, sum] of sums.entries()) total.sums[index] = (total.sums[index] ?? 0n) + sum
    }
    const sql = stepQuery(table, amounts)
    const end = yield* run((db) => readNumber(db.get(`SELECT coalesce(max(row) + 1, 0) AS rows FROM ${table}`), "rows"))
    for (let from = 0; from < end; from += stepRows) {
      const last = Math.min(from + stepRows, end) - 1
      for (const row of yield* run((db) => db.all(sql, from, last))) {
        const status = readOptional(row, "status")
        if (!totals.has(status) && totals.size < countedStatuses) totals.set(status, emptyTotal())
        add(totals.get(status) ?? other, totalOf(row, amounts))
      }
      yield* Effect.yieldNow
    }
    const ranked = [...totals].toSorted(([left = "", { rows }], [right = "", more]) =>
      more.rows - rows || (left < right ? -1 : 1)
    )
    for (const [, total] of ranked.splice(mostStatuses)) add(other, total)
    const toTotal = ({ rows, sums }: Total): Omit<StatusTotal, "status"> => ({
      rows,
      sums: Object.fromEntries(amounts.map((name, index) => [name, String(sums[index] ?? 0n)]))
    })
    return {
      statuses: ranked.map(([status = null, total]) => ({ status, ...toTotal(total) })),
      other: toTotal(other)
    }
  })

/**
 * Sums 32-bit halves of the amounts: a sum of whole amounts may exceed 64 bits, where SQLite fails. The halves are returned as
 * text, because a number would be rounded.
 */
const stepQuery = (table: string, amounts: ReadonlyArray<string>): string =>
  `SELECT substr(status, 1, ${longestStatus}) AS status, count(*) AS rows${
    amounts.map((name, index) =>
      `, CAST(sum(${name} >> 32) AS TEXT) AS high_${index}, CAST(sum(${name} & 0xffffffff) AS TEXT) AS low_${index}`
    ).join("")
  } FROM ${table} WHERE row BETWEEN ? AND ? AND missing_since IS NULL GROUP BY 1`

const totalOf = (row: Row, amounts: ReadonlyArray<string>): Total => ({
  rows: readNumber(row, "rows"),
  // The sum of no amounts is null, which is read as an empty text, and BigInt("") is 0.
  sums: amounts.map((_, index) =>
    BigInt(readText(row, `high_${index}`)) * 2n ** 32n + BigInt(readText(row, `low_${index}`))
  )
})
