/**
 * Fills new columns of a list's table from the texts of its rows. Each transaction fills a batch of rows and stores the number
 * of the first unfilled row, so filling resumes after a crash. Filling a column does not count as a change of a record.
 */
import type { Lists } from "@payments/core"
import { Effect, Result } from "effect"
import { type Column, type Layout, layoutOf, recordIn, valueOf } from "../plan/Columns.ts"
import { type Filling, NotADestination, type PersonalBinding, SinkError } from "../port/Sink.ts"
import { additionsTo } from "./Evolution.ts"
import type { FullRow, Opening, Reader, Store } from "./Store.ts"

const chunkRows = 1000

/** Returns the columns that the destination lacks or has not filled yet, and the first row number to fill. */
export const unfilled = (reader: Pick<Reader, "columns">, list: Lists.AnyList): Effect.Effect<Unfilled, SinkError> =>
  Effect.map(reader.columns(list), (recorded) => unfilledIn(recorded, list))

interface Unfilled {
  readonly columns: ReadonlyArray<Column>
  readonly from: number
}

const unfilledIn = (recorded: Opening["columns"], list: Lists.AnyList): Unfilled => {
  const unfilledFrom = new Map(recorded.map((column) => [column.name, column.unfilledFrom]))
  const columns = layoutOf(list).columns.filter(({ name }) =>
    !unfilledFrom.has(name) || unfilledFrom.get(name) !== undefined
  )
  return { columns, from: Math.min(...columns.map(({ name }) => unfilledFrom.get(name) ?? 0)) }
}

/** Returns the columns that {@link fillColumns} would fill, or undefined if no row lacks a value. */
export const pending = (
  { columns: recorded, nextRows }: Pick<Opening, "columns" | "nextRows">,
  list: Lists.AnyList
): Filling | undefined => {
  const { columns, from } = unfilledIn(recorded, list)
  const rows = nextRows.get(list.label) ?? 0
  return columns.length === 0 || rows === 0
    ? undefined
    : { columns: columns.map(({ name }) => name), filled: from, rows }
}

/** Fills all columns of a locked list. Fails if a later program has extended the list since the store was opened. */
export const fillColumns = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  personal: PersonalBinding,
  recorded: Opening["columns"]
): Effect.fn.Return<void, SinkError> {
  const additions = additionsTo(recorded, [list], undefined)
  if (Result.isFailure(additions)) {
    const { location } = store
    return yield* new SinkError({ location, reason: new NotADestination(additions.failure) })
  }
  const { columns, from } = unfilledIn(recorded, list)
  if (columns.length === 0) return
  for (let after = from - 1;;) {
    const rows = yield* store.rows(list, after, chunkRows)
    const last = rows.at(-1)
    const unfilledFrom = last === undefined ? undefined : last.row + 1
    yield* store.fillRows({ list, personal, columns, rows: incorrectRows(layoutOf(list), columns, rows), unfilledFrom })
    if (last === undefined) return
    after = last.row
  }
})

/** Returns the rows whose cells differ from their texts, with the correct cells. */
const incorrectRows = (layout: Layout, columns: ReadonlyArray<Column>, rows: ReadonlyArray<FullRow>) =>
  rows.flatMap(({ cells: stored, raw, row }) => {
    // If the text is not JSON, its columns stay null, and `verify` reports the row.
    const record = recordIn(layout, raw)
    const cells = columns.map((column) => valueOf(column, record))
    return columns.every(({ name }, index) => (stored[name] ?? null) === cells[index]) ? [] : [{ row, cells }]
  })
