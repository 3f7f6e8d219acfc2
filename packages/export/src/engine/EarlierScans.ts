/** What the scans before one that is at its end have seen. */
import { Effect } from "effect"
import type { SinkError } from "../Sink.ts"
import { RowSet } from "./RowSet.ts"
import * as ScanTotals from "./ScanTotals.ts"
import type { ScanRow, Store } from "./Store.ts"

/** Whether any other part of the list that has written rows was, or may have been, shown one of these. */
export const meetsAnother = Effect.fnUntraced(function*(
  store: Store,
  scans: ReadonlyArray<ScanRow>,
  part: string,
  seen: RowSet
): Effect.fn.Return<boolean, SinkError> {
  for (const other of scans) {
    if (other.part === "" || other.part === part) continue
    const totals = yield* ScanTotals.ofScan(store, other)
    if (!ScanTotals.hasWritten(totals)) continue
    // What was shown before a restart is not known any more.
    if (ScanTotals.hasRestarted(totals) || new RowSet(yield* store.seen([other.scan])).intersects(seen)) return true
  }
  return false
})

/**
 * Of the rows that this complete traversal of the whole list did not see, those that neither the one before it saw, nor any
 * scan between them, and that existed before the earlier one began. Nothing where there is no such scan or where a record
 * without an id may have been any of them.
 */
export const goneSince = Effect.fnUntraced(function*(
  store: Store,
  scans: ReadonlyArray<ScanRow>,
  before: ScanRow,
  current: number,
  unseen: ReadonlyArray<number>
): Effect.fn.Return<ReadonlyArray<number>, SinkError> {
  let gone = unseen.filter((row) => row < before.firstRow)
  for (const one of scans) {
    const { scan } = one
    if (gone.length === 0 || scan === current) continue
    const { counts } = yield* ScanTotals.ofScan(store, one)
    if (counts.withoutId > 0) return []
    const seen = new RowSet(yield* store.seen([scan]))
    gone = gone.filter((row) => !seen.has(row))
  }
  return gone
})
