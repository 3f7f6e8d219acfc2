/**
 * A pass over a list: head or window. It writes new and changed records as a scan does. If the running full scan has seen a row
 * that the pass changes, the same transaction corrects the totals of that scan, so that its certificate stays right.
 */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { type Layout, layoutOf } from "../plan/Columns.ts"
import { amountsOfText, hashed, plan, type RowWrite } from "../plan/Plan.ts"
import { RowSet } from "../plan/RowSet.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import {
  type OwnerClaim,
  type PassKind,
  type PassSession,
  RowsRemoved,
  type ScanProgress,
  type ScanRequest,
  SinkError
} from "../port/Sink.ts"
import { bindingOf } from "../store/PersonalBinding.ts"
import type { PassCommit, Store } from "../store/Store.ts"
import { mergeClaims } from "./BoundMerchant.ts"
import { requestText, timestamp } from "./NextScan.ts"
import type { OpenFullScan, OpenList } from "./OpenList.ts"
import { commitSlices, maxAttempts, type Slice, type StoredRows, storedRowsOf } from "./Slices.ts"

/** Makes the session of a pass. The caller has the mutex of the list. */
export const makePass = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  kind: PassKind,
  request: ScanRequest,
  state: OpenList
): Effect.fn.Return<PassSession, SinkError> {
  const layout = layoutOf(list)
  const ignored = new Set(request.ignoredFields)
  const complete = (yield* store.scans(list, "")).find((scan) => scan.state === "complete")
  const isLoaded = complete !== undefined
  // Before its first head pass, a process only knows the rows that existed when the last full scan began, and those it inserted.
  if (isLoaded) {
    state.headRows ??= complete.firstRow + (yield* ScanTotals.ofScan(store, complete)).counts.inserted
  }
  const { headRows = 0 } = state
  const { nextRow: firstRow } = yield* store.find(list, [])
  const startedAt = yield* timestamp
  /** The rows that the pass has read. */
  const seen = new RowSet()
  let totals = ScanTotals.none
  /** The number of the stored pass, after its first write. */
  let scan: number | undefined
  /** The claim that the next commit binds. */
  let owner: OwnerClaim | undefined
  /** The rows of the last batch. */
  let lastRows: ReadonlySet<number> = new Set()
  let isQuiet = false
  /** The first unused row number after the last batch. */
  let rowsEnd = firstRow

  const progress = (): ScanProgress => ({
    ...totals.counts,
    missing: 0,
    heldBack: 0,
    behindHead: 0,
    undocumented: totals.undocumented,
    replaced: totals.replaced
  })

  const rowsRemoved = new SinkError({ location: store.location, reason: new RowsRemoved({ label: list.label }) })

  const commitOnce = Effect.fnUntraced(function*(batch: Slice, attempt = 1): Effect.fn.Return<void, SinkError> {
    seen.mark()
    const records = batch.records.map(hashed)
    const found = yield* storedRowsOf(store, list, records)
    const { nextRow, stored } = found
    const emitChanges = { inserts: isLoaded, updates: isLoaded }
    const planned = plan({
      layout,
      ignored,
      emitChanges,
      totals,
      seen,
      records,
      ...found
    })
    // Passes read the same pages again and again, so they quarantine only records that they write. Full scans report the rest.
    const written = new Set(planned.writes.map(({ raw }) => raw))
    const quarantined = planned.quarantined.filter(({ id, raw }) => id !== undefined && written.has(raw))
    const { counts, undocumented } = totals
    const next: ScanTotals.ScanTotals = {
      ...ScanTotals.none,
      counts: {
        ...planned.totals.counts,
        pages: counts.pages + batch.pages,
        quarantined: counts.quarantined + quarantined.length
      },
      undocumented: ScanTotals.addPaths(undocumented, batch.undocumented),
      replaced: planned.totals.replaced
    }
    if (planned.writes.length + planned.reappeared.length > 0) {
      // The records of a rejected batch are committed again, in smaller batches.
      const isWritten = yield* Effect.tapError(
        write({ ...planned, quarantined }, next, found),
        () => Effect.sync(() => seen.undo())
      )
      if (!isWritten) {
        seen.undo()
        return yield* attempt < maxAttempts ? commitOnce(batch, attempt + 1) : rowsRemoved
      }
    }
    totals = next
    lastRows = new Set([...[...stored.values()].map(({ row }) => row), ...planned.writes.map(({ row }) => row)])
    for (const row of lastRows) state.passRows.rows.add(row)
    isQuiet &&= planned.writes.length + planned.reappeared.length === 0 &&
      [...lastRows].every((row) => row < headRows)
    rowsEnd = nextRow + planned.writes.filter(({ isNew }) => isNew).length
    state.passRows.hasRecordWithoutId ||= planned.totals.counts.withoutId > counts.withoutId
  })

  /** Commits a plan that changes rows. Returns false, and writes nothing, if what was read for the plan has changed. */
  const write = Effect.fnUntraced(function*(
    planned: PassCommit["plan"],
    next: ScanTotals.ScanTotals,
    found: StoredRows
  ): Effect.fn.Return<boolean, SinkError> {
    const pass = { scan, kind, request: requestText(request), startedAt, firstRow, totals: ScanTotals.toJson(next) }
    const commit = { list, source: request.source, personal: bindingOf(request), plan: planned, owner, pass }
    const full = state.full ?? (yield* storedFullScan(store, list))
    // As a scan does: other rows would get the numbers of removed rows that the full scan has seen.
    if (full !== undefined && full.seen.highest >= found.nextRow) return yield* rowsRemoved
    const changed = full === undefined ? [] : planned.writes.filter(({ isNew, row }) => !isNew && full.seen.has(row))
    if (full === undefined || changed.length === 0) {
      const number = yield* store.commitPass({ ...commit, now: yield* timestamp })
      if (number === "outdated") return false
      scan = number
    } else {
      const { text, totals: before } = yield* full.stored
      const corrected = correctedTotals(layout, before, changed, found)
      const correction = { scan: full.scan, before: text, totals: ScanTotals.toJson(corrected) }
      const number = yield* store.commitPass({ ...commit, now: yield* timestamp, correction }).pipe(
        Effect.onError(() => Effect.sync(full.invalidate))
      )
      if (number === "outdated") {
        full.invalidate()
        return false
      }
      full.correct(corrected, correction.totals)
      scan = number
    }
    owner = undefined
    return true
  })

  const withMutex = state.mutex.withPermits(1)
  return {
    isLoaded,
    progress: Effect.sync(progress),
    commit: (batch) =>
      withMutex(Effect.suspend(() => {
        owner = mergeClaims(owner, batch.owner)
        isQuiet = true
        return Effect.map(commitSlices(batch, commitOnce, () => undefined), progress)
      })),
    // A pass has no checkpoint: it is always read from its first page.
    restart: Effect.void,
    giveUp: Effect.void,
    isQuiet: Effect.sync(() => isQuiet),
    end: Effect.sync(() => {
      if (kind !== "head" || lastRows.size === 0) return
      state.headEnd = lastRows
      state.headRows = rowsEnd
    })
  }
})

/** Returns the running full scan in the destination, if it is not open: it was interrupted, and the next run resumes it. */
const storedFullScan = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList
): Effect.fn.Return<OpenFullScan | undefined, SinkError> {
  const running = (yield* store.scans(list, "")).find((scan) => scan.state === "running")
  if (running === undefined) return undefined
  const { scan, totals: text } = running
  return {
    scan,
    seen: new RowSet(yield* store.seen([scan])),
    stored: Effect.map(ScanTotals.ofScan(store, running), (totals) => ({ totals, text })),
    correct: () => {},
    invalidate: () => {}
  }
})

/** Returns the totals of a scan that has seen these rows, after the rows have changed. */
const correctedTotals = (
  layout: Layout,
  totals: ScanTotals.ScanTotals,
  changed: ReadonlyArray<RowWrite>,
  { stored, texts }: Pick<StoredRows, "stored" | "texts">
): ScanTotals.ScanTotals => {
  const running = new ScanTotals.RunningTotals(layout.amounts, totals)
  for (const { hash, id, raw, row } of changed) {
    running.remove(stored.get(id)?.hash ?? hash, amountsOfText(layout, texts.get(row) ?? raw))
    running.add(hash, amountsOfText(layout, raw))
  }
  return { ...totals, digest: running.digest, sums: running.sums }
}
