/** Counts rows and sums amounts by status in an SQLite destination. */
import { Effect } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import { mostStatuses, type StatusTotal } from "../port/ListFreshness.ts"
import { forEachTotal } from "../sql/SqlSnapshot.ts"
import type { Sql } from "../sql/SqlStatement.ts"
import type { Reader } from "../store/Store.ts"

/**
 * The number of different statuses that are counted by name before the most frequent are chosen, so that memory is
 * bounded. Further statuses count as other.
 */
const countedStatuses = 10_000

interface Total {
  rows: number
  readonly sums: Array<bigint>
}

export const statusTotalsOver = (db: Sql): Reader["statusTotals"] =>
  Effect.fnUntraced(function*(list, amounts) {
    const { columns } = layoutOf(list)
    const column = (name: string) => columns.filter((known) => known.name === name)
    const counted = { day: undefined, status: column("status")[0], amounts: amounts.flatMap(column) }
    const emptyTotal = (): Total => ({ rows: 0, sums: amounts.map(() => 0n) })
    const totals = new Map<string | null, Total>()
    const other = emptyTotal()
    const add = (total: Total, { rows, sums }: Total) => {
      total.rows += rows
      for (const [index, sum] of sums.entries()) total.sums[index] = (total.sums[index] ?? 0n) + sum
    }
    yield* forEachTotal(db, list, counted, ({ amounts: sums, records, status }) => {
      if (!totals.has(status) && totals.size < countedStatuses) totals.set(status, emptyTotal())
      add(totals.get(status) ?? other, { rows: Number(records), sums: sums.map(({ sum }) => sum) })
    })
    const ranked = [...totals].toSorted(([left, { rows }], [right, more]) =>
      more.rows - rows || ((left ?? "") < (right ?? "") ? -1 : 1)
    )
    for (const [, total] of ranked.splice(mostStatuses)) add(other, total)
    const toTotal = ({ rows, sums }: Total): Omit<StatusTotal, "status"> => ({
      rows,
      sums: Object.fromEntries(amounts.map((name, index) => [name, String(sums[index] ?? 0n)]))
    })
    return {
      statuses: ranked.map(([status, total]) => ({ status, ...toTotal(total) })),
      other: toTotal(other)
    }
  })
