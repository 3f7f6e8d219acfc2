/** Decides at the end of a scan which rows are missing, and whether the scan gets a certificate. */
import { Effect } from "effect"
import { RowSet } from "../plan/RowSet.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import * as Certificate from "../port/Certificate.ts"
import type { Rechecks } from "../port/Recheck.ts"
import { scanDefaults } from "../port/ScanDefaults.ts"
import type { HeldBackBy, ScanRequest, SinkError } from "../port/Sink.ts"
import { bindingOf, certificateWith } from "../store/PersonalBinding.ts"
import type { Commit, ScanRow, Store } from "../store/Store.ts"
import { type OpenScan, partOf } from "./NextScan.ts"
import type { SessionContext } from "./Slices.ts"

/** A scan whose last page was read. */
export interface EndingScan extends SessionContext {
  readonly opened: OpenScan
  readonly totals: ScanTotals.ScanTotals
  readonly now: string
}

/** How a scan of the whole list, or of a part, ends. */
interface Conclusion {
  readonly end: NonNullable<Commit["end"]>
  /** Rows that are not marked missing, because they are too many at once, and why. */
  readonly heldBack: number
  readonly heldBackBy: HeldBackBy | undefined
}

/** {@inheritDoc ScanProgress.accepted} */
export const acceptedOf = (
  { whole }: Pick<OpenScan, "whole">,
  { acceptMissing }: ScanRequest
): number | undefined =>
  acceptMissing === undefined || (Certificate.ofScan(whole)?.heldBack ?? 0) > 0 ? acceptMissing : 0

/** Returns the end of a complete scan, or the rows that have to be looked for before it ends. */
export const concludeScan = Effect.fnUntraced(function*(
  ending: EndingScan,
  rechecks: Rechecks | undefined
): Effect.fn.Return<Conclusion | { readonly end: undefined; readonly unseen: ReadonlyArray<number> }, SinkError> {
  const { list, now, opened, request, store, totals } = ending
  const { scan, seen, startedAt } = opened
  const { quarantined, repeats, withoutId } = totals.counts
  const part = partOf(request)
  // Other parts may have been scanned since this scan was opened, but not the whole list: only one program writes a list.
  const whole = opened.whole !== undefined && opened.whole.scan < scan ? opened.whole : undefined
  const since = part === "" || repeats > 0 ? yield* store.scansFrom(list, whole?.scan ?? 0) : []
  const older = part === "" ? since : yield* store.scans(list, part)
  // The rows that a scan of a part has seen are needed until the next scan of the whole list is complete.
  const forget = older.map((earlier) => earlier.scan).filter((earlier) =>
    earlier < scan && (part === "" || whole === undefined || earlier < whole.scan)
  )
  const found = part === "" && withoutId === 0 ? yield* findMissing(ending, older, whole) : noneMissing
  if (request.recheck === true && rechecks === undefined && found.missing.length > 0) {
    return { end: undefined, unseen: found.missing }
  }
  const missing = new Map(
    found.missing.flatMap((row) =>
      rechecks === undefined || rechecks.missing.has(row) ? [[row, rechecks?.missing.get(row)]] : []
    )
  )
  const heldBack = found.heldBack + (rechecks?.heldBack ?? 0)
  const heldBackBy = heldBack === 0 ? undefined : found.heldBack > 0 ? "share" : "requests"
  // When parts overlap and a record repeats, its first value is unknown, so the totals cannot be certified.
  if (part !== "" && repeats > 0 && (yield* overlapsOtherPart(ending, since))) {
    return { end: { state: "complete", certificate: undefined, missing, forget }, heldBack, heldBackBy }
  }
  const certificate = Certificate.toJson(certificateWith({
    ...ScanTotals.certify({ scan, startedAt }, totals, seen.size, now),
    ...heldBack === 0 ? {} : { heldBack },
    ...heldBackBy === "requests" ? { heldBackBy } : {},
    ...rechecks === undefined || rechecks.unchecked === 0 ? {} : { unchecked: rechecks.unchecked },
    ...rechecks === undefined || rechecks.skipped === 0 ? {} : { skipped: rechecks.skipped }
  }, bindingOf(request).rule))
  const previous = part === "" ? whole?.scan : undefined
  const certified = { rows: seen, withoutId, quarantined }
  return { end: { state: "complete", certificate, missing, forget, previous, certified }, heldBack, heldBackBy }
})

interface MissingRows {
  readonly missing: ReadonlyArray<number>
  /** Rows that are not marked missing, because they are too many at once. */
  readonly heldBack: number
}

const noneMissing: MissingRows = { missing: [], heldBack: 0 }

/** Finds the rows that are missing after a scan of the whole list. */
const findMissing = Effect.fnUntraced(function*(
  { list, opened, request, shared, store }: EndingScan,
  older: ReadonlyArray<ScanRow>,
  whole: ScanRow | undefined
): Effect.fn.Return<MissingRows, SinkError> {
  const { firstRow, scan, seen } = opened
  const numbers = [...RowSet.inNone([seen], firstRow)]
  if (numbers.length === 0) return noneMissing
  // Read the missing rows first: `prune` may remove some of them before the unseen rows are read.
  const missingBefore = new Set(yield* store.missing(list))
  const unseen = yield* store.present(list, numbers)
  // A row that a pass has read since the previous full scan began exists.
  const newlyUnseen = unseen.filter((row) => !missingBefore.has(row) && !shared.isReadByPass(row))
  // The number of rows that existed when the scan began, without those that are missing.
  const rows = firstRow - (numbers.length - unseen.length) - unseen.filter((row) => missingBefore.has(row)).length
  const limit = request.missingLimit ?? scanDefaults.missingLimit
  const share = limit === 0 ? 0 : Math.max(rows * limit, scanDefaults.missingRows)
  const accepted = acceptedOf(opened, request) ?? 0
  const maxMissing = accepted > 0 ? accepted : share
  // If more rows are newly unseen, the service's answer is doubtful, so no row is marked missing.
  if (newlyUnseen.length > maxMissing) return { missing: [], heldBack: newlyUnseen.length }
  const missing = whole === undefined || shared.hasPassWithoutId
    ? []
    // Only rows that existed before the previous complete scan began have been unseen twice.
    : yield* unseenSince(
      store,
      older.filter((earlier) => earlier.scan !== scan),
      newlyUnseen.filter((row) => row < whole.firstRow)
    )
  return { missing, heldBack: 0 }
})

/**
 * Returns the rows that none of these scans has seen. If one of them returned a record without an id, it returns none: the record
 * may belong to any row.
 */
const unseenSince = Effect.fnUntraced(function*(
  store: Store,
  scans: ReadonlyArray<ScanRow>,
  unseen: ReadonlyArray<number>
): Effect.fn.Return<ReadonlyArray<number>, SinkError> {
  let missing = unseen
  for (const earlier of scans) {
    if (missing.length === 0) return []
    const { counts } = yield* ScanTotals.ofScan(store, earlier)
    if (counts.withoutId > 0) return []
    const seen = new RowSet(yield* store.seen([earlier.scan]))
    missing = missing.filter((row) => !seen.has(row))
  }
  return missing
})

/** Whether a scan of another part has written rows, and has seen one of these rows or may have seen one. */
const overlapsOtherPart = Effect.fnUntraced(function*(
  { opened: { seen }, request, store }: EndingScan,
  scans: ReadonlyArray<ScanRow>
): Effect.fn.Return<boolean, SinkError> {
  const part = partOf(request)
  for (const other of scans) {
    if (other.part === "" || other.part === part) continue
    const totals = yield* ScanTotals.ofScan(store, other)
    if (!ScanTotals.hasWritten(totals)) continue
    // The rows that a scan saw before a restart are unknown.
    if (ScanTotals.hasRestarted(totals) || new RowSet(yield* store.seen([other.scan])).intersects(seen)) return true
  }
  return false
})
