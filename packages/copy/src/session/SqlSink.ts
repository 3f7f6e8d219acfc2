/**
 * The engine over a {@link Store}. It opens scans and plans batches. At the end of a scan, it decides which rows are missing
 * and whether the scan gets a certificate. It is the same for every database.
 */
import { Lists } from "@payments/core"
import { Duration, Effect } from "effect"
import { randomUUID } from "node:crypto"
import { layoutOf } from "../plan/Columns.ts"
import { hashed, type HashedRecord, plan, type RowWrite, type StoredRow } from "../plan/Plan.ts"
import { RowSet } from "../plan/RowSet.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import * as Certificate from "../port/Certificate.ts"
import { scanDefaults } from "../port/ScanDefaults.ts"
import {
  OtherSource,
  type OwnerClaim,
  RowsRemoved,
  type ScanProgress,
  type ScanRequest,
  type ScanSession,
  Sink,
  SinkError
} from "../port/Sink.ts"
import { timeoutDetached } from "../port/Timeouts.ts"
import { fillColumns, pending } from "../store/Filling.ts"
import { freshnessOf, overviewOf } from "../store/Freshness.ts"
import { bindingOf, certificateWith, changeSince } from "../store/PersonalBinding.ts"
import type { Commit, Store } from "../store/Store.ts"
import { mergeClaims, ownerOf } from "./BoundMerchant.ts"
import { missingRows, overlapsOtherPart } from "./EarlierScans.ts"
import { nextScan, open, type OpenScan, partOf, timestamp } from "./NextScan.ts"
import { type OpenFullScan, OpenList } from "./OpenList.ts"
import { makePass } from "./Pass.ts"
import { commitSlices, isRejectedContent, maxAttempts, type Slice, storedRowsOf } from "./Slices.ts"

/** Batches that change no row are committed together, up to these limits. After a crash, their records are read again. */
const unchangedLimit = { records: 5000, time: Duration.seconds(2) } as const

/** How long the end of a session waits for a destination that may not respond. */
const finalFlushTimeout = Duration.seconds(3)

/** Makes a sink over a store, for a program that knows these lists. */
export const makeSink = (store: Store, lists: ReadonlyArray<Lists.AnyList> = Lists.all): Sink["Service"] => {
  const states = new Map<Lists.ListName, OpenList>()
  const stateOf = (list: Lists.AnyList) => {
    const state = states.get(list.name) ?? new OpenList()
    states.set(list.name, state)
    return state
  }
  const owner = ownerOf(store, randomUUID(), lists)
  const setHeadProblem = (list: Lists.AnyList, problem: string | undefined) =>
    stateOf(list).mutex.withPermits(1)(
      Effect.flatMap(timestamp, (now) => store.setHeadProblem(list, problem, now))
    )
  return Sink.of({
    location: store.location,
    lock: (list, onLocked) => store.lock(list.label, onLocked),
    inspect: {
      scan: (list, request) =>
        Effect.gen(function*() {
          yield* requireSource(store, request)
          yield* requirePersonal(store, request)
          const found = yield* stateOf(list).mutex.withPermits(1)(nextScan(store, list, request))
          const { resumeAt, start, totals } = found
          const filling = yield* pending(store, list)
          return { start, resumeAt, progress: progressOf(totals, noFindings), owner: yield* owner, filling }
        }),
      owner,
      personal: store.personal,
      hasAny: (list, ids) =>
        Effect.map(store.find(list, ids.map((id) => ({ id, hash: "" }))), ({ stored }) => stored.size > 0),
      freshness: (of, source) =>
        Effect.andThen(source === undefined ? Effect.void : requireSource(store, { source }), freshnessOf(store, of)),
      overview: (list) => overviewOf(store, list)
    },
    begin: (list, request) =>
      Effect.gen(function*() {
        const state = stateOf(list)
        const withMutex = state.mutex.withPermits(1)
        // The list's transactions must not overlap: another part of the list may be committing.
        yield* withMutex(Effect.gen(function*() {
          yield* store.takeOver(list.label)
          const bound = yield* requireSource(store, request)
          yield* requirePersonal(store, request)
          if (bound === "other") yield* store.rebind(list, request.source)
          yield* fillColumns(store, list, bindingOf(request))
        }))
        const session = yield* withMutex(
          Effect.map(open(store, list, request), (opened) => makeSession(store, list, request, opened, state))
        )
        yield* Effect.addFinalizer(() => session.detach)
        // Pending unchanged batches are flushed when the scope closes and while the next page is awaited. The next commit
        // reports any error.
        yield* Effect.addFinalizer(() => session.finalFlush)
        yield* Effect.forkScoped(Effect.forever(Effect.delay(Effect.ignore(session.flush), unchangedLimit.time)))
        return session
      }),
    passes: {
      begin: (list, kind, request) =>
        Effect.gen(function*() {
          const state = stateOf(list)
          return yield* state.mutex.withPermits(1)(Effect.gen(function*() {
            yield* store.takeOver(list.label)
            yield* requireSource(store, { ...request, rebind: false })
            yield* requirePersonal(store, request)
            yield* fillColumns(store, list, bindingOf(request))
            return yield* makePass(store, list, kind, request, state)
          }))
        }),
      head: {
        problem: (list) => Effect.map(store.state(list), ({ headProblem }) => headProblem),
        stop: (list, problem) => setHeadProblem(list, problem),
        resume: (list) => setHeadProblem(list, undefined)
      }
    },
    publish: () => Effect.void
  })
}

/** Fails if the destination has another source, unless the request rebinds it. */
const requireSource = (store: Store, { rebind = false, source }: Pick<ScanRequest, "rebind" | "source">) =>
  Effect.flatMap(store.source, (bound) =>
    bound === undefined || bound === source
      ? Effect.succeed("same" as const)
      : rebind
      ? Effect.succeed("other" as const)
      : Effect.fail(new SinkError({ location: store.location, reason: new OtherSource({ bound, given: source }) })))

/** Fails if the destination's personal data has changed since the scan or pass read its state. */
const requirePersonal = (store: Store, request: ScanRequest) =>
  Effect.flatMap(store.personal, (state) => {
    const reason = changeSince(state, bindingOf(request))
    return reason === undefined ? Effect.void : Effect.fail(new SinkError({ location: store.location, reason }))
  })

/** What a scan finds in addition to its totals, most of it at its end. */
type Findings = Pick<ScanProgress, "missing" | "heldBack" | "behindHead">
const noFindings: Findings = { missing: 0, heldBack: 0, behindHead: 0 }

const progressOf = (
  { counts, replaced, undocumented }: ScanTotals.ScanTotals,
  findings: Findings
): ScanProgress => ({
  ...counts,
  ...findings,
  undocumented,
  replaced
})

interface Session extends ScanSession {
  /** Commits pending unchanged batches. */
  readonly flush: Effect.Effect<void, SinkError>
  /** Commits pending unchanged batches, unless that takes too long. */
  readonly finalFlush: Effect.Effect<void>
  /** From now on, passes correct the stored totals instead of those of this session. */
  readonly detach: Effect.Effect<void>
}

const makeSession = (
  store: Store,
  list: Lists.AnyList,
  request: ScanRequest,
  opened: OpenScan,
  state: OpenList
): Session => {
  const layout = layoutOf(list)
  const ignored = new Set(request.ignoredFields)
  const isFull = partOf(request) === ""
  const { scan, seen, startedAt, emitChanges } = opened
  let { storedTotals, totals } = opened
  let findings = noFindings
  /** The rows where the last head pass ended before this scan began. */
  const headEnd: ReadonlySet<number> = isFull && opened.start !== "resumed" ? state.headEnd : new Set()
  let hasPassedHeadEnd = false
  /** Whether a pass may have corrected the stored totals, so that they are read again. */
  let isOutdated = false
  /** The claim that the next commit binds. */
  let owner: OwnerClaim | undefined
  /** The pending unchanged batches: the checkpoint after them, and the number of their records. */
  let pendingUnchanged: { readonly checkpoint: string; readonly records: number } | undefined
  /** The checkpoint after the last batch. */
  let lastCheckpoint = opened.resumeAt

  const progress = () => progressOf(totals, findings)

  const write = (
    commit: Pick<Commit, "plan" | "end" | "restart" | "checkpoint">,
    now: string
  ) =>
    Effect.suspend(() => {
      const json = ScanTotals.toJson(totals)
      return Effect.tap(
        store.commit({
          list,
          scan,
          source: request.source,
          personal: bindingOf(request),
          now,
          totals: json,
          seen: seen.changed(),
          owner,
          ...commit
        }),
        (committed) =>
          Effect.sync(() => {
            if (committed === "outdated") return
            storedTotals = json
            seen.markStored()
            owner = undefined
            pendingUnchanged = undefined
          })
      )
    })

  /** Reads the totals again if a pass may have corrected them. Nothing is pending then, because a pass flushes first. */
  const refresh: Effect.Effect<void, SinkError> = Effect.suspend(() =>
    isOutdated
      ? Effect.gen(function*() {
        yield* store.takeOver(list.label)
        const stored = (yield* store.scansFrom(list, scan)).find((row) => row.scan === scan)
        if (stored === undefined) return yield* rowsRemoved
        totals = yield* ScanTotals.ofScan(store, stored)
        storedTotals = stored.totals
        isOutdated = false
      })
      : Effect.void
  )

  const emptyPlan = { writes: [], reappeared: [], changes: [], quarantined: [] }

  const commitOnce = Effect.fnUntraced(function*(batch: Slice, attempt = 1): Effect.fn.Return<ScanProgress, SinkError> {
    const before = { totals, pendingUnchanged, findings, hasPassedHeadEnd }
    const undo = () => {
      seen.undo()
      ;({ totals, pendingUnchanged, findings, hasPassedHeadEnd } = before)
    }
    seen.mark()
    const records = batch.records.map(hashed)
    const { nextRow, stored, texts } = yield* storedRowsOf(store, list, records)
    // `prune` never removes the row with the highest number, so another program has removed rows.
    if (seen.highest >= nextRow) {
      yield* giveUp
      return yield* rowsRemoved
    }
    // From here until `pendingUnchanged` is set, the code must be synchronous: after an interrupt, the totals would include a
    // batch that the checkpoint does not.
    const planned = plan({ layout, ignored, emitChanges, totals, seen, nextRow, records, stored, texts })
    const { counts, undocumented } = planned.totals
    totals = {
      ...planned.totals,
      counts: { ...counts, pages: counts.pages + batch.pages },
      undocumented: ScanTotals.addPaths(undocumented, batch.undocumented)
    }
    countBehindHead(records, stored, planned.writes)
    const isUnchanged = planned.writes.length + planned.reappeared.length + planned.quarantined.length === 0
    if (typeof batch.checkpoint === "string" && isUnchanged) {
      pendingUnchanged = {
        checkpoint: batch.checkpoint,
        records: (pendingUnchanged?.records ?? 0) + records.length
      }
      if (pendingUnchanged.records < unchangedLimit.records) {
        lastCheckpoint = batch.checkpoint
        return progress()
      }
    }
    // If this commit fails, nothing may flush the pending batches: the totals already include this batch.
    pendingUnchanged = undefined
    const checkpoint = batch.checkpoint ?? undefined
    let isDirty = true
    const committed = yield* Effect.gen(function*() {
      const now = yield* timestamp
      const end = batch.checkpoint === null ? yield* conclude(now) : undefined
      return yield* write({ plan: planned, checkpoint, ...(end === undefined ? {} : { end }) }, now)
    }).pipe(
      Effect.tapError((error) =>
        Effect.sync(() => {
          if (!isRejectedContent(error)) return
          undo()
          isDirty = false
        })
      ),
      // The totals in memory may now include a batch that is not stored.
      Effect.onError(() => isDirty ? detach : Effect.void)
    )
    if (committed === "outdated" && attempt < maxAttempts) {
      undo()
      return yield* commitOnce(batch, attempt + 1)
    }
    if (batch.checkpoint === null || committed === "outdated") yield* detach
    if (committed !== "whole") {
      findings = noFindings
      return yield* rowsRemoved
    }
    if (isFull && batch.checkpoint === null) state.completeFullScan(scan)
    lastCheckpoint = checkpoint
    return progress()
  })

  /** Counts the new records that the service returned after a record where the last head pass ended. */
  const countBehindHead = (
    records: ReadonlyArray<HashedRecord>,
    stored: ReadonlyMap<string, StoredRow>,
    writes: ReadonlyArray<RowWrite>
  ): void => {
    if (headEnd.size === 0) return
    const newIds = new Set(writes.filter(({ isNew }) => isNew).map(({ id }) => id))
    for (const { id } of records) {
      if (id === undefined) continue
      if (headEnd.has(stored.get(id)?.row ?? -1)) hasPassedHeadEnd = true
      else if (newIds.delete(id) && hasPassedHeadEnd) findings = { ...findings, behindHead: findings.behindHead + 1 }
    }
  }

  const rowsRemoved = new SinkError({ location: store.location, reason: new RowsRemoved({ label: list.label }) })

  const giveUp = Effect.flatMap(timestamp, (now) =>
    write({
      plan: emptyPlan,
      checkpoint: undefined,
      end: { state: "incomplete", certificate: undefined, missing: [], forget: [] }
    }, now)).pipe(Effect.ensuring(Effect.suspend(() => detach)))

  /** Decides at the end of a scan which rows are missing and whether the scan gets a certificate. */
  const conclude = Effect.fnUntraced(function*(now: string): Effect.fn.Return<Commit["end"], SinkError> {
    const part = partOf(request)
    // The rows that a scan of a part has seen are needed until the next scan of the whole list is complete.
    const whole = (yield* store.scans(list, "")).find((earlier) => earlier.state === "complete" && earlier.scan < scan)
    const since = part === "" || totals.counts.repeats > 0 ? yield* store.scansFrom(list, whole?.scan ?? 0) : []
    const older = part === "" ? since : yield* store.scans(list, part)
    // When parts overlap and a record repeats, its first value is unknown, so the totals cannot be certified.
    const isCertain = part === "" || totals.counts.repeats === 0 ||
      !(yield* overlapsOtherPart(store, since, part, seen))
    const forget = older.map((earlier) => earlier.scan).filter((earlier) =>
      earlier < scan && (part === "" || whole === undefined || earlier < whole.scan)
    )
    const numbers = part === "" && totals.counts.withoutId === 0
      ? [...RowSet.inNone([seen], opened.firstRow)]
      : []
    // Read the missing rows first: `prune` may remove some of them before the unseen rows are read.
    const missingBefore = new Set(numbers.length === 0 ? [] : yield* store.missing(list))
    const unseen = numbers.length === 0 ? [] : yield* store.present(list, numbers)
    const knownMissing = new Set(unseen.filter((row) => missingBefore.has(row)))
    // A row that a pass has read since the previous full scan began exists.
    const newlyUnseen = unseen.filter((row) => !knownMissing.has(row) && !state.isReadByPass(row))
    const candidates = whole === undefined || state.hasPassWithoutId
      ? []
      : yield* missingRows(store, older, whole, scan, newlyUnseen)
    // The number of rows that existed when the scan began.
    const before = opened.firstRow - (numbers.length - unseen.length)
    const limit = request.missingLimit ?? scanDefaults.missingLimit
    const maxMissing = limit === 0 ? 0 : Math.max((before - knownMissing.size) * limit, scanDefaults.missingRows)
    // If more rows are newly unseen, the service's answer is doubtful, so no row is marked missing.
    const isHeldBack = newlyUnseen.length > maxMissing
    const missing = isHeldBack ? [] : candidates
    findings = { ...findings, missing: missing.length, heldBack: isHeldBack ? newlyUnseen.length : 0 }
    const { heldBack } = findings
    const certificate = isCertain
      ? Certificate.toJson(certificateWith({
        ...ScanTotals.certify({ scan, startedAt }, totals, seen.size, now),
        ...heldBack === 0 ? {} : { heldBack }
      }, bindingOf(request).rule))
      : undefined
    const { withoutId, quarantined } = totals.counts
    const certified = certificate === undefined ? undefined : { rows: seen, withoutId, quarantined }
    const previous = part === "" ? whole?.scan : undefined
    return { state: "complete", certificate, missing, forget, previous, certified }
  })

  const flush = Effect.suspend(() => {
    const checkpoint = pendingUnchanged?.checkpoint
    return checkpoint === undefined
      ? Effect.void
      : Effect.flatMap(timestamp, (now) => write({ plan: emptyPlan, checkpoint }, now))
  })

  const asFullScan: OpenFullScan = {
    scan,
    seen,
    stored: Effect.map(Effect.andThen(refresh, flush), () => ({ totals, text: storedTotals })).pipe(
      // This session can never commit again, so passes use what is stored.
      Effect.tapError(({ reason }) => reason._tag === "PersonalDataChanged" ? detach : Effect.void)
    ),
    correct: (corrected, text) => {
      totals = corrected
      storedTotals = text
    },
    invalidate: () => {
      isOutdated = true
    }
  }
  const detach = Effect.sync(() => {
    if (state.full === asFullScan) state.full = undefined
  })
  if (isFull) {
    state.openFullScan(scan, opened.isNew)
    state.full = asFullScan
  }

  const withMutex = <A>(effect: Effect.Effect<A, SinkError>): Effect.Effect<A, SinkError> =>
    state.mutex.withPermits(1)(Effect.andThen(refresh, effect))
  return {
    scan,
    start: opened.start,
    resumeAt: opened.resumeAt,
    progress: Effect.sync(progress),
    commit: (batch) =>
      withMutex(Effect.suspend(() => {
        owner = mergeClaims(owner, batch.owner)
        return commitSlices(batch, commitOnce, () => lastCheckpoint)
      })),
    flush: withMutex(flush),
    finalFlush: state.mutex.withPermits(1)(Effect.ignore(timeoutDetached(finalFlushTimeout)(flush))),
    detach,
    restart: withMutex(Effect.flatMap(timestamp, (now) => {
      // If the commit below fails, nothing may flush the pending batches: the totals no longer include them.
      pendingUnchanged = undefined
      lastCheckpoint = undefined
      // The written rows stay, so their counts stay too.
      const { inserted, returned, updated } = totals.counts
      totals = { ...ScanTotals.none, counts: { ...ScanTotals.none.counts, inserted, returned, updated } }
      seen.clear()
      hasPassedHeadEnd = false
      return Effect.onError(write({ plan: emptyPlan, checkpoint: undefined, restart: true }, now), () => detach)
    })),
    giveUp: Effect.asVoid(withMutex(giveUp))
  }
}
