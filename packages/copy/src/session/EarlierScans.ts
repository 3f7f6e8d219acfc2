/** Compares the rows that a scan has seen with those of earlier scans. */
import { Effect } from "effect"
import { RowSet } from "../plan/RowSet.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import type { SinkError } from "../port/Sink.ts"
import type { ScanRow, Store } from "../store/Store.ts"

/** Whether a scan of another part has written rows, and has seen one of these rows or may have seen one. */
export const overlapsOtherPart = Effect.fnUntraced(function*(
  store: Store,
  scans: ReadonlyArray<ScanRow>,
  part: string,
  seen: RowSet
): Effect.fn.Return<boolean, SinkError> {
  for (const other of scans) {
    if (other.part === "" || other.part === part) continue
    const totals = yield* ScanTotals.ofScan(store, other)
    if (!ScanTotals.hasWritten(totals)) continue
    // The rows that a scan saw before a restart are unknown.
    if (ScanTotals.hasRestarted(totals) || new RowSet(yield* store.seen([other.scan])).intersects(seen)) return true
  }
  return false
})

/**
 * Returns the unseen rows that are missing: they existed before the previous complete scan of the whole list began, and none
 * of `scans` (that scan and the later ones) has seen them. If one of these scans returned a record without an id, no row is
 * missing, because that record may belong to any row.
 */
export const missingRows = Effect.fnUntraced(function*(
  store: Store,
  scans: ReadonlyArray<ScanRow>,
  previous: ScanRow,
  current: number,
  unseen: ReadonlyArray<number>
): Effect.fn.Return<ReadonlyArray<number>, SinkError> {
  let missing = unseen.filter((row) => row < previous.firstRow)
  for (const earlier of scans) {
    if (missing.length === 0 || earlier.scan === current) continue
    const { counts } = yield* ScanTotals.ofScan(store, earlier)
    if (counts.withoutId > 0) return []
    const seen = new RowSet(yield* store.seen([earlier.scan]))
    missing = missing.filter((row) => !seen.has(row))
  }
  return missing
})
