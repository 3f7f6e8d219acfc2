/** An open scan of a SQL destination: reads what {@link ScanState} needs, and writes what it decides, in transactions. */
import { type Duration, Effect } from "effect"
import { afterScan, type Concluded, noContents } from "../plan/Contents.ts"
import { type Plan, plan } from "../plan/Plan.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import type { Rechecks } from "../port/Recheck.ts"
import type { Session, SinkError } from "../port/Sink.ts"
import { timeoutDetached } from "../port/Timeouts.ts"
import { bindingOf } from "../store/PersonalBinding.ts"
import type { Commit } from "../store/Store.ts"
import { timestamp } from "../store/StoredRows.ts"
import { acceptedOf, concludeScan } from "./EndOfScan.ts"
import { type OpenScan, partOf } from "./NextScan.ts"
import type { OpenFullScan } from "./OpenList.ts"
import * as ScanState from "./ScanState.ts"
import {
  commitBatch,
  type FoundSlice,
  type OpenSession,
  planInputOf,
  rowsRemoved,
  type SessionContext
} from "./Slices.ts"

interface OpenedScan {
  readonly session: Session
  /** Commits pending unchanged batches. */
  readonly flush: Effect.Effect<unknown, SinkError>
  /** Commits pending unchanged batches, unless that takes too long. From then on, passes do not use the session. */
  readonly close: (timeout: Duration.Input) => Effect.Effect<void>
}

const emptyPlan = { writes: [], reappeared: [], changes: [], quarantined: [] }

/** The caller has the mutex of the list. */
export const makeScan = (context: SessionContext, opened: OpenScan): OpenedScan => {
  const { request, shared } = context
  const isFull = partOf(request) === ""
  const headEnd = isFull && opened.start !== "resumed" ? shared.headEnd : new Set<number>()
  const begun = ScanState.begun(opened, headEnd)
  const accepted = acceptedOf(opened, request)
  const scan: RunningScan = {
    ...context,
    opened,
    isFull,
    planInput: {
      ...planInputOf(context, opened.emitChanges, opened.seen),
      countsAll: isFull && opened.countsAll,
      knownRows: isFull ? opened.knownRows : undefined,
      since: isFull ? opened.whole?.startedAt : undefined
    },
    state: accepted === undefined ? begun : { ...begun, findings: { ...begun.findings, accepted } },
    full: undefined,
    write: (slice) => writeSlice(scan, slice),
    abandon: () => abandon(scan)
  }
  if (isFull) {
    shared.openFullScan(opened.scan, opened.isNew)
    shared.full = scan.full = asFullScan(scan)
  }
  const progress = () => ScanTotals.progressOf(scan.state.totals, scan.state.findings)
  const withMutex = <A>(effect: Effect.Effect<A, SinkError>): Effect.Effect<A, SinkError> =>
    shared.mutex.withPermits(1)(Effect.andThen(refresh(scan), effect))
  return {
    session: {
      scan: opened.scan,
      start: opened.start,
      resumeAt: opened.resumeAt,
      progress: Effect.sync(progress),
      commit: (batch) => withMutex(Effect.map(Effect.suspend(() => commitBatch(scan, batch)), progress)),
      ...isFull
        ? {
          unseen: {
            rows: Effect.sync(() => scan.state.unseen),
            textsOf: (rows: ReadonlyArray<number>) => context.store.textsOf(context.list, rows)
          }
        }
        : {},
      restart: Effect.asVoid(withMutex(restart(scan))),
      giveUp: Effect.asVoid(withMutex(giveUp(scan)))
    },
    flush: withMutex(flush(scan)),
    close: (timeout) =>
      shared.mutex.withPermits(1)(Effect.ignore(timeoutDetached(timeout)(flush(scan)))).pipe(
        Effect.ensuring(Effect.sync(() => detach(scan)))
      )
  }
}

interface RunningScan extends OpenSession<ScanState.ScanState> {
  readonly opened: OpenScan
  readonly isFull: boolean
  /** The scan as passes see it. Undefined for a part. */
  full: OpenFullScan | undefined
}

const asFullScan = (scan: RunningScan): OpenFullScan => ({
  seen: scan.opened.seen,
  // If personal data has changed, this session can never commit again, so passes use what is stored.
  flush: Effect.tapError(
    flush(scan),
    ({ reason }) => reason._tag === "PersonalDataChanged" ? Effect.sync(() => detach(scan)) : Effect.void
  ),
  invalidate: () => {
    scan.state = { ...scan.state, isOutdated: true }
  }
})

/** From now on, passes do not flush this session before they correct the stored totals. */
const detach = ({ full, shared }: RunningScan): void => {
  if (shared.full === full) shared.full = undefined
}

/** Discards the pending batches, so that no later flush stores totals that the destination may not match. */
const abandon = (scan: RunningScan): void => {
  detach(scan)
  scan.state = { ...scan.state, pendingRecords: undefined }
}

/** Plans a slice, and writes it unless it can wait. The plan and the new state are one step, which nothing can interrupt. */
const writeSlice = (scan: RunningScan, slice: FoundSlice): Effect.Effect<boolean, SinkError> => {
  const { planInput, state } = scan
  // `prune` never removes the row with the highest number, so another program has removed rows.
  if (planInput.seen.highest >= slice.nextRow) return Effect.andThen(giveUp(scan), rowsRemoved(scan))
  const unplaced = Math.min(slice.rechecks?.found ?? 0, slice.records.length)
  const planned = plan({ ...planInput, ...slice, unplaced, totals: state.totals })
  scan.state = ScanState.afterSlice(state, slice, planned)
  return scan.state.pendingRecords === undefined
    ? commitPlan(scan, { ...slice, before: state }, planned)
    : Effect.succeed(true)
}

const commitPlan = Effect.fnUntraced(function*(
  scan: RunningScan,
  { before, checkpoint, rechecks }: FoundSlice & { readonly before: ScanState.ScanState },
  planned: Plan
): Effect.fn.Return<boolean, SinkError> {
  const now = yield* timestamp
  if (checkpoint !== null) return (yield* write(scan, { plan: planned, checkpoint, now })) === "whole"
  const conclusion = yield* concludeScan({ ...scan, totals: scan.state.totals, now }, rechecks)
  if (conclusion.end === undefined) {
    // Nothing of the batch is written until the look-ups end, so that a run that ends meanwhile counts nothing twice.
    scan.opened.seen.undo()
    scan.state = ScanState.withUnseen(before, conclusion.unseen)
    return true
  }
  const { end, heldBack, heldBackBy } = conclusion
  const findings = { ...scan.state.findings, ...found(rechecks), missing: end.missing.size, heldBack, heldBackBy }
  const concluded = scan.shared.conclude(scan.opened.known, scan.state.totals.contents)
  scan.state = withContents(scan, findings, concluded)
  const committed = yield* write(scan, { plan: planned, checkpoint: undefined, now, end })
  if (committed === "rowsRemoved") return yield* rowsRemoved(scan)
  if (committed === "outdated") return false
  detach(scan)
  scan.shared.noteNamed(concluded)
  if (scan.isFull) scan.shared.completeFullScan(scan.opened.scan)
  return true
})

const found = ({ skipped, unchecked }: Pick<Rechecks, "skipped" | "unchecked"> = { skipped: 0, unchecked: 0 }) => ({
  unseen: 0,
  skipped,
  unchecked
})

/** Only a scan of the whole list stores what it has found. */
const withContents = (
  { isFull, opened: { isUncounted }, state }: RunningScan,
  findings: ScanTotals.Findings,
  { contents, drift }: Concluded
): ScanState.ScanState => {
  const stored = isUncounted ? noContents : afterScan(contents)
  return {
    ...state,
    totals: isFull ? { ...state.totals, contents: stored } : state.totals,
    findings: { ...findings, drift }
  }
}

const write = (scan: RunningScan, commit: Pick<Commit, "plan" | "checkpoint" | "now" | "end" | "restart">) =>
  Effect.suspend(() => {
    const { list, opened: { scan: number, seen }, request, shared, state, store } = scan
    shared.opening = undefined
    const totals = ScanTotals.toJson(state.totals)
    const { source } = request
    const personal = bindingOf(request)
    return Effect.map(
      store.commit({
        list,
        scan: number,
        source,
        personal,
        totals,
        counts: state.totals.counts,
        seen: seen.changed(),
        owner: state.claim,
        ...commit
      }),
      (committed) => {
        if (committed === "outdated") return committed
        shared.noteWritten(state.totals.contents)
        scan.state = ScanState.afterCommit(scan.state)
        seen.markStored()
        return committed
      }
    )
  })

/** A pass may have corrected the totals. Nothing is pending then, because a pass flushes first. */
const refresh = (scan: RunningScan): Effect.Effect<void, SinkError> =>
  Effect.suspend(() => scan.state.isOutdated ? readTotals(scan) : Effect.void)

const readTotals = Effect.fnUntraced(function*(scan: RunningScan): Effect.fn.Return<void, SinkError> {
  const { list, opened, store } = scan
  yield* store.takeOver(list.label)
  const stored = (yield* store.scansFrom(list, opened.scan)).find((row) => row.scan === opened.scan)
  if (stored === undefined) return yield* rowsRemoved(scan)
  scan.state = { ...scan.state, totals: yield* ScanTotals.ofScan(store, stored), isOutdated: false }
})

/** Writes a commit without a batch. */
const writeState = (scan: RunningScan, commit: Pick<Commit, "checkpoint" | "end" | "restart">) =>
  Effect.flatMap(timestamp, (now) => write(scan, { plan: emptyPlan, now, ...commit }))

const flush = (scan: RunningScan): Effect.Effect<unknown, SinkError> =>
  Effect.suspend(() => {
    const { checkpoint, pendingRecords } = scan.state
    return pendingRecords === undefined ? Effect.void : writeState(scan, { checkpoint })
  })

const restart = (scan: RunningScan) =>
  Effect.suspend(() => {
    scan.state = ScanState.restarted(scan.state)
    scan.opened.seen.clear()
    return writeState(scan, { checkpoint: undefined, restart: true })
  }).pipe(Effect.onError(() => Effect.sync(() => detach(scan))))

const giveUp = (scan: RunningScan) =>
  writeState(scan, {
    checkpoint: undefined,
    end: { state: "incomplete", certificate: undefined, missing: new Map(), forget: [] }
  }).pipe(Effect.ensuring(Effect.sync(() => detach(scan))))
