/** What a database tells of a list's scans, which every run goes by: whether it goes on, and what it may conclude. */
import { assert } from "@effect/vitest"
import { Lists } from "@payments/core"
import { Effect } from "effect"
import type { Reader } from "../src/engine/Store.ts"
import * as Tally from "../src/engine/Tally.ts"

/** Numbered from 1: list, part and state. */
const written = [
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

/** Writes scans into the empty table, and holds what is told of them against what the store promises. */
export const assertScans = Effect.fnUntraced(function*<E>(
  { scans }: Pick<Reader, "scans">,
  table: string,
  execute: (sql: string) => Effect.Effect<unknown, E>
) {
  for (const [list, part, state] of written) {
    yield* execute(
      `INSERT INTO ${table} (list, part, asked, state, first_row, tally, started_at)
      VALUES ('${list}', '${part}', '[]', '${state}', 0, '${Tally.toJson(Tally.none)}', '2026-01-01T00:00:00.000Z')`
    )
  }
  const told = (list: Lists.AnyList, part?: string) =>
    Effect.map(scans(list, part), (all) => all.map(({ scan }) => scan))
  assert.deepStrictEqual(yield* told(Lists.invoices), [12, 10, 9, 8, 7, 6, 3])
  assert.deepStrictEqual(yield* told(Lists.invoices, ""), [10, 9, 8, 6])
  assert.deepStrictEqual(yield* told(Lists.invoices, "a"), [7, 3])
  assert.deepStrictEqual(yield* told(Lists.invoices, "b"), [12])
  assert.deepStrictEqual(yield* told(Lists.invoices, "c"), [])
  assert.deepStrictEqual(yield* told(Lists.payoutRequests, ""), [4])
  assert.deepStrictEqual(yield* told(Lists.payinSources), [13])
})
