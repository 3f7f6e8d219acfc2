/**
 * Fills columns that were added to a list's table from the texts of its rows, in batches that survive a kill: each batch and
 * the row number up to which the columns are filled are one transaction. It is no change of a record.
 */
import type { Lists } from "@payments/core"
import { parseText } from "@payments/core"
import { Effect, Result } from "effect"
import { type Filling, NotADestination, SinkError } from "../Sink.ts"
import { type Column, type Layout, layoutOf, readable, valueOf } from "./Columns.ts"
import { additionsTo } from "./Evolution.ts"
import type { FullRow, Reader, Store } from "./Store.ts"

const rowsAtOnce = 1000

/** The columns that the destination lacks or has not filled yet, and the first row number that has to be filled. */
export const unfilled = (
  reader: Pick<Reader, "columns">,
  list: Lists.AnyList
): Effect.Effect<{ readonly columns: ReadonlyArray<Column>; readonly from: number }, SinkError> =>
  Effect.map(reader.columns(list), (recorded) => {
    const unfilledFrom = new Map(recorded.map((column) => [column.name, column.unfilledFrom]))
    const columns = layoutOf(list).columns.filter(({ name }) =>
      !unfilledFrom.has(name) || unfilledFrom.get(name) !== undefined
    )
    return { columns, from: Math.min(...columns.map(({ name }) => unfilledFrom.get(name) ?? 0)) }
  })

/** What {@link fillColumns} would fill; undefined where no row lacks a value. */
export const pending = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList
): Effect.fn.Return<Filling | undefined, SinkError> {
  const { columns, from } = yield* unfilled(store, list)
  if (columns.length === 0) return undefined
  const { nextRow: rows } = yield* store.find(list, [])
  return rows === 0 ? undefined : { columns: columns.map(({ name }) => name), filled: from, rows }
})

/** Fills all columns of a list that is locked. Fails where a later program has extended the list since it was opened. */
export const fillColumns = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList
): Effect.fn.Return<void, SinkError> {
  const additions = additionsTo(yield* store.columns(list), [list], undefined)
  if (Result.isFailure(additions)) {
    const { location } = store
    return yield* new SinkError({ location, reason: new NotADestination({ problem: additions.failure }) })
  }
  const { columns, from } = yield* unfilled(store, list)
  if (columns.length === 0) return
  for (let after = from - 1;;) {
    const rows = yield* store.rows(list, after, rowsAtOnce)
    const last = rows.at(-1)
    const unfilledFrom = last === undefined ? undefined : last.row + 1
    yield* store.fillRows({ list, columns, rows: differing(layoutOf(list), columns, rows), unfilledFrom })
    if (last === undefined) return
    after = last.row
  }
})

/** The rows whose cells are not those that their texts have, with the cells that they must have. */
const differing = (layout: Layout, columns: ReadonlyArray<Column>, rows: ReadonlyArray<FullRow>) =>
  rows.flatMap(({ cells: stored, raw, row }) => {
    const record = recordIn(layout, raw)
    const cells = columns.map((column) => valueOf(column, record))
    return columns.every(({ name }, index) => (stored[name] ?? null) === cells[index]) ? [] : [{ row, cells }]
  })

/** Text that is no JSON leaves the columns empty; `verify` reports it. */
const recordIn = (layout: Layout, raw: string): unknown => {
  try {
    return readable(layout, parseText(raw), raw)
  } catch {
    return undefined
  }
}
