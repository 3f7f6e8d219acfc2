/** Checks which scans of a list a database returns. A run decides by them whether to resume and what to mark missing. */
import { assert } from "@effect/vitest"
import { Lists } from "@payments/core"
import { Effect } from "effect"
import * as ScanTotals from "../../src/plan/ScanTotals.ts"
import type { Reader } from "../../src/store/Store.ts"

/** Scans, numbered from 1: list, part and state. */
const scanRows = [
  ["invoices", "", "complete"],
  ["invoices", "", "incomplete"],
  ["invoices", "a", "abandoned"],
  ["payout-requests", "", "running"],
  ["invoices", "", "abandoned"],
  ["invoices", "", "complete"],
  ["invoices", "a", "incomplete"],
  ["invoices", "", "abandoned"],
  ["invoices", "", "incomplete"],
  ["invoices", "", "running"],
  ["invoices", "b", "complete"],
  ["invoices", "b", "complete"],
  ["payin-sources", "", "complete"]
] as const

/** Writes the scans into the empty table and checks which of them the store returns. */
export const assertScans = Effect.fnUntraced(function*<E>(
  { scans }: Pick<Reader, "scans">,
  table: string,
  execute: (sql: string) => Effect.Effect<unknown, E>
) {
  for (const [list, part, state] of scanRows) {
    yield* execute(
      `INSERT INTO ${table} (list, part, request, state, first_row, totals, started_at)
      VALUES ('${list}', '${part}', '[]', '${state}', 0, '${
        ScanTotals.toJson(ScanTotals.none)
      }', '2026-01-01T00:00:00.000Z')`
    )
  }
  const returned = (list: Lists.AnyList, part?: string) =>
    Effect.map(scans(list, part), (all) => all.map(({ scan }) => scan))
  assert.deepStrictEqual(yield* returned(Lists.invoices), [12, 10, 9, 8, 7, 6, 3])
  assert.deepStrictEqual(yield* returned(Lists.invoices, ""), [10, 9, 8, 6])
  assert.deepStrictEqual(yield* returned(Lists.invoices, "a"), [7, 3])
  assert.deepStrictEqual(yield* returned(Lists.invoices, "b"), [12])
  assert.deepStrictEqual(yield* returned(Lists.invoices, "c"), [])
  assert.deepStrictEqual(yield* returned(Lists.payoutRequests, ""), [4])
  assert.deepStrictEqual(yield* returned(Lists.payinSources), [13])
})
