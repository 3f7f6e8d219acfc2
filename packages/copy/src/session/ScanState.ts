/**
 * The state of an open scan between its transactions. It changes only as a whole, by the pure functions of this file. So an
 * interrupt can never leave the totals with a batch that the checkpoint does not include.
 */
import type { Plan } from "../plan/Plan.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import type { OwnerClaim } from "../port/Sink.ts"
import type { OpenScan } from "./NextScan.ts"
import type { FoundSlice } from "./Slices.ts"

/** Batches that change no row are committed together, up to this number of records. */
export const maxPendingRecords = 5000

export interface ScanState {
  readonly totals: ScanTotals.ScanTotals
  /** Whether a pass may have corrected the stored totals, so that they are read again. */
  readonly isOutdated: boolean
  readonly findings: ScanTotals.Findings
  /** The rows where the last head pass ended before this scan began. */
  readonly headEnd: ReadonlySet<number>
  readonly hasPassedHeadEnd: boolean
  readonly claim: OwnerClaim | undefined
  /** The checkpoint after the last batch. */
  readonly checkpoint: string | undefined
  /** The records before the checkpoint that changed no row and are not committed yet. Undefined if no batch is pending. */
  readonly pendingRecords: number | undefined
  /** The rows that the end of the scan would mark missing. Known after the last page; they have to be looked for first. */
  readonly unseen: ReadonlyArray<number>
}

export const begun = (
  { resumeAt, totals }: Pick<OpenScan, "resumeAt" | "totals">,
  headEnd: ReadonlySet<number>
): ScanState => ({
  totals,
  isOutdated: false,
  findings: ScanTotals.noFindings,
  headEnd,
  hasPassedHeadEnd: false,
  claim: undefined,
  checkpoint: resumeAt,
  pendingRecords: undefined,
  unseen: []
})

/**
 * A batch that changes no row is pending. Otherwise nothing is pending, and the batch has to be committed now. If that
 * fails, a later flush must not store totals that include it.
 */
export const afterSlice = (state: ScanState, slice: FoundSlice, planned: Plan): ScanState => {
  const { checkpoint, records } = slice
  const isUnchanged = planned.writes.length + planned.reappeared.length + planned.quarantined.length === 0
  const pendingRecords = (state.pendingRecords ?? 0) + records.length
  const isPending = isUnchanged && typeof checkpoint === "string" && pendingRecords < maxPendingRecords
  return {
    ...state,
    ...afterHeadEnd(state, slice, planned),
    totals: ScanTotals.withPages(planned.totals, slice),
    checkpoint: checkpoint ?? undefined,
    pendingRecords: isPending ? pendingRecords : undefined
  }
}

/** The scan waits for the look-ups. A run that ends meanwhile leaves the last batch to the next one. */
export const withUnseen = (state: ScanState, unseen: ReadonlyArray<number>): ScanState => ({
  ...state,
  unseen,
  findings: { ...state.findings, unseen: unseen.length }
})

/** Counts the new records that the service returned after a record where the last head pass ended. */
const afterHeadEnd = (
  { findings, hasPassedHeadEnd, headEnd }: ScanState,
  { records, stored }: FoundSlice,
  { writes }: Plan
): Pick<ScanState, "findings" | "hasPassedHeadEnd"> | undefined => {
  if (headEnd.size === 0) return undefined
  const newIds = new Set(writes.filter(({ isNew }) => isNew).map(({ id }) => id))
  let { behindHead } = findings
  let hasPassed = hasPassedHeadEnd
  for (const { id } of records) {
    if (id === undefined) continue
    if (headEnd.has(stored.get(id)?.row ?? -1)) hasPassed = true
    else if (newIds.delete(id) && hasPassed) behindHead++
  }
  return { findings: { ...findings, behindHead }, hasPassedHeadEnd: hasPassed }
}

export const afterCommit = (state: ScanState): ScanState => ({ ...state, claim: undefined, pendingRecords: undefined })

/** The written rows stay, so their counts stay too. */
export const restarted = (state: ScanState): ScanState => {
  const { inserted, returned, updated } = state.totals.counts
  return {
    ...state,
    totals: {
      ...ScanTotals.none,
      contents: state.totals.contents,
      counts: { ...ScanTotals.none.counts, inserted, returned, updated }
    },
    findings: { ...state.findings, unseen: 0 },
    unseen: [],
    hasPassedHeadEnd: false,
    checkpoint: undefined,
    // If the next commit fails, nothing may flush the pending batches: the totals do not include them.
    pendingRecords: undefined
  }
}
