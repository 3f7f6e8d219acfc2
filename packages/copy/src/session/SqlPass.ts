/**
 * A pass over a list: head or window. It writes new and changed records as a scan does. It may change a row that the running full
 * scan has seen. Then the same transaction corrects the totals of that scan, so that its certificate stays right.
 */
import { Effect } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import { amountsOfText, type Plan, plan, type RowWrite } from "../plan/Plan.ts"
import { RowSet } from "../plan/RowSet.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import type { Drift } from "../port/Drift.ts"
import type { PassKind, Session, SinkError } from "../port/Sink.ts"
import { bindingOf } from "../store/PersonalBinding.ts"
import type { Opening, PassCommit } from "../store/Store.ts"
import { timestamp } from "../store/StoredRows.ts"
import { requestText } from "./NextScan.ts"
import {
  commitBatch,
  type CommitState,
  type FoundSlice,
  type OpenSession,
  planInputOf,
  rowsRemoved,
  type SessionContext
} from "./Slices.ts"

/** The caller has the mutex of the list. */
export const makePass = Effect.fnUntraced(function*(
  context: SessionContext,
  kind: PassKind,
  { nextRows, whole: complete }: Opening
): Effect.fn.Return<Session, SinkError> {
  const { list, shared, store } = context
  const isLoaded = complete !== undefined
  const stored = ScanTotals.contentsOf(complete)
  // Before its first head pass, a process only knows the rows that existed when the last full scan began, and those it inserted.
  if (isLoaded) {
    shared.headRows ??= complete.firstRow + (yield* ScanTotals.ofScan(store, complete)).counts.inserted
  }
  const firstRow = nextRows.get(list.label) ?? 0
  const pass: RunningPass = {
    ...context,
    kind,
    headRows: shared.headRows ?? 0,
    firstRow,
    startedAt: yield* timestamp,
    scan: undefined,
    planInput: planInputOf(context, { inserts: isLoaded, updates: isLoaded }, new RowSet()),
    state: {
      totals: { ...ScanTotals.none, contents: stored },
      claim: undefined,
      lastRows: new Set(),
      isQuiet: false,
      rowsEnd: firstRow
    },
    write: (slice) => writeSlice(pass, slice),
    abandon: () => {}
  }
  let drift: ReadonlyArray<Drift> = []
  const progress = () => ScanTotals.progressOf(pass.state.totals, { ...ScanTotals.noFindings, drift })
  return {
    scan: 0,
    start: "afterComplete",
    resumeAt: undefined,
    progress: Effect.sync(progress),
    commit: (batch) =>
      shared.mutex.withPermits(1)(Effect.suspend(() => {
        pass.state = { ...pass.state, isQuiet: true }
        return Effect.map(commitBatch(pass, batch), progress)
      })),
    // A pass has no checkpoint: it is always read from its first page.
    restart: Effect.void,
    giveUp: Effect.void,
    pass: {
      isLoaded,
      isQuiet: Effect.sync(() => pass.state.isQuiet),
      end: Effect.sync(() => {
        const { lastRows, rowsEnd, totals } = pass.state
        const concluded = shared.conclude(stored, totals.contents)
        drift = concluded.drift
        shared.noteNamed(concluded)
        if (kind !== "head" || lastRows.size === 0) return
        shared.headEnd = lastRows
        shared.headRows = rowsEnd
      })
    }
  }
})

interface RunningPass extends OpenSession<PassState> {
  readonly kind: PassKind
  /** The rows below this number were known when the last complete head pass ended. */
  readonly headRows: number
  readonly firstRow: number
  readonly startedAt: string
  /** The number of the stored pass, after its first write. */
  scan: number | undefined
}

interface PassState extends Omit<CommitState, "checkpoint"> {
  /** The rows of the last batch. */
  readonly lastRows: ReadonlySet<number>
  readonly isQuiet: boolean
  /** The first unused row number after the last batch. */
  readonly rowsEnd: number
}

const writeSlice = Effect.fnUntraced(function*(
  pass: RunningPass,
  slice: FoundSlice
): Effect.fn.Return<boolean, SinkError> {
  const { shared, state } = pass
  const planned = plan({ ...pass.planInput, ...slice, totals: state.totals })
  const quarantined = writtenQuarantined(planned)
  const { counts } = state.totals
  const totals = ScanTotals.withPages({
    ...planned.totals,
    sums: {},
    digest: 0n,
    counts: { ...planned.totals.counts, quarantined: counts.quarantined + quarantined.length }
  }, slice)
  const isUnchanged = planned.writes.length + planned.reappeared.length === 0
  if (!isUnchanged && !(yield* write(pass, slice, { ...planned, quarantined, totals }))) return false
  const rows = [...[...slice.stored.values()].map(({ row }) => row), ...planned.writes.map(({ row }) => row)]
  pass.state = {
    totals,
    claim: isUnchanged ? state.claim : undefined,
    lastRows: new Set(rows),
    isQuiet: state.isQuiet && isUnchanged && rows.every((row) => row < pass.headRows),
    rowsEnd: slice.nextRow + planned.writes.filter(({ isNew }) => isNew).length
  }
  shared.noteWritten(totals.contents)
  shared.noteReadByPass(rows, totals.counts.withoutId > counts.withoutId)
  return true
})

/** Passes read the same pages again and again, so they quarantine only records that they write. Full scans report the rest. */
const writtenQuarantined = ({ quarantined, writes }: Plan): Plan["quarantined"] => {
  const written = new Set(writes.map(({ raw }) => raw))
  return quarantined.filter(({ id, raw }) => id !== undefined && written.has(raw))
}

/** Returns false, and writes nothing, if what was read for the plan has changed. */
const write = Effect.fnUntraced(function*(
  pass: RunningPass,
  slice: FoundSlice,
  { totals, ...planned }: Plan
): Effect.fn.Return<boolean, SinkError> {
  const { firstRow, kind, list, request, scan, shared, startedAt, state, store } = pass
  const { full } = shared
  shared.opening = undefined
  const seen = full?.seen ?? (yield* seenByInterrupted(pass))
  // As a scan does: other rows would get the numbers of removed rows that the full scan has seen.
  if (seen.highest >= slice.nextRow) return yield* rowsRemoved(pass)
  const changed = planned.writes.filter(({ isNew, row }) => !isNew && seen.has(row))
  const correction = changed.length === 0 ? undefined : yield* correctionOf(pass, slice, changed)
  const committed = yield* Effect.ensuring(
    store.commitPass({
      list,
      source: request.source,
      personal: bindingOf(request),
      now: yield* timestamp,
      plan: planned,
      owner: state.claim,
      pass: {
        scan,
        kind,
        request: requestText(request),
        startedAt,
        firstRow,
        totals: ScanTotals.toJson(totals),
        counts: totals.counts
      },
      correction
    }),
    Effect.sync(() => correction === undefined ? undefined : full?.invalidate())
  )
  if (committed === "outdated") return false
  pass.scan = committed
  return true
})

/** Returns the stored full scan that is running, or was interrupted so that the next run resumes it. */
const runningScan = ({ list, store }: RunningPass) =>
  Effect.map(store.scans(list, ""), (scans) => scans.find((scan) => scan.state === "running"))

const seenByInterrupted = (pass: RunningPass) =>
  Effect.flatMap(runningScan(pass), (running) =>
    running === undefined
      ? Effect.succeed(new RowSet())
      : Effect.map(pass.store.seen([running.scan]), (pieces) => new RowSet(pieces)))

/** Returns the totals of the running full scan before and after changes of rows that it has seen. */
const correctionOf = Effect.fnUntraced(function*(
  pass: RunningPass,
  { stored, texts }: FoundSlice,
  changed: ReadonlyArray<RowWrite>
): Effect.fn.Return<PassCommit["correction"], SinkError> {
  const { list, shared, store } = pass
  if (shared.full !== undefined) yield* shared.full.flush
  const scan = yield* runningScan(pass)
  if (scan === undefined) return yield* rowsRemoved(pass)
  const layout = layoutOf(list)
  const totals = yield* ScanTotals.ofScan(store, scan)
  const running = new ScanTotals.RunningTotals(layout.amounts, totals)
  for (const { hash, id, raw, row } of changed) {
    running.remove(stored.get(id)?.hash ?? hash, amountsOfText(layout, texts.get(row) ?? raw))
    running.add(hash, amountsOfText(layout, raw))
  }
  const { digest, sums } = running
  return { scan: scan.scan, before: scan.totals, totals: ScanTotals.toJson({ ...totals, digest, sums }) }
})
