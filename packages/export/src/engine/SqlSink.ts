/**
 * The engine over a {@link Store}. It opens scans and plans batches. At the end of a scan, it decides which rows are missing
 * and whether the scan gets a certificate. It is the same for every database.
 */
import { Lists } from "@payments/core"
import { Duration, Effect, Semaphore } from "effect"
import { randomUUID } from "node:crypto"
import { freshnessOf, overviewOf } from "../Freshness.ts"
import {
  type Batch,
  Damaged,
  OtherSource,
  type OwnerClaim,
  type Problem,
  RowsRemoved,
  type ScanProgress,
  type ScanRequest,
  type ScanSession,
  Sink,
  SinkError
} from "../Sink.ts"
import * as Certificate from "./Certificate.ts"
import { layoutOf } from "./Columns.ts"
import { missingRows, overlapsOtherPart } from "./EarlierScans.ts"
import { fillColumns, pending } from "./Filling.ts"
import { nextScan, open, type OpenScan, partOf, timestamp } from "./NextScan.ts"
import { mergeClaims, ownerOf } from "./Owner.ts"
import { contentHash, differingRows, hashed, lookupsOf, plan, type StoredRow } from "./Plan.ts"
import { RowSet } from "./RowSet.ts"
import * as ScanTotals from "./ScanTotals.ts"
import type { Commit, Store } from "./Store.ts"
import { timeoutDetached } from "./Timeouts.ts"

/** Batches that change no row are committed together, up to these limits. After a crash, their records are read again. */
const unchangedLimit = { records: 5000, time: Duration.seconds(2) } as const

/** How long the end of a session waits for a destination that may not respond. */
const finalFlushTimeout = Duration.seconds(3)

/** Makes a sink over a store, for a program that knows these lists. */
export const makeSink = (store: Store, lists: ReadonlyArray<Lists.AnyList> = Lists.all): Sink["Service"] => {
  /** A mutex for each list. Parts of a list are scanned concurrently, but a plan depends on the commits before it. */
  const mutexes = new Map<Lists.ListName, Semaphore.Semaphore>()
  const mutexOf = (list: Lists.AnyList) => {
    const mutex = mutexes.get(list.name) ?? Semaphore.makeUnsafe(1)
    mutexes.set(list.name, mutex)
    return mutex
  }
  const owner = ownerOf(store, randomUUID(), lists)
  return Sink.of({
    location: store.location,
    lock: (list, onLocked) => store.lock(list.label, onLocked),
    inspect: {
      scan: (list, request) =>
        Effect.gen(function*() {
          yield* requireSource(store, request)
          const found = yield* mutexOf(list).withPermits(1)(nextScan(store, list, request))
          const { resumeAt, start, totals } = found
          const filling = yield* pending(store, list)
          return { start, resumeAt, progress: progressOf(totals, noConclusion), owner: yield* owner, filling }
        }),
      owner,
      hasAny: (list, ids) =>
        Effect.map(store.find(list, ids.map((id) => ({ id, hash: "" }))), ({ stored }) => stored.size > 0),
      freshness: (of) => freshnessOf(store, of),
      overview: (list) => overviewOf(store, list)
    },
    begin: (list, request) =>
      Effect.gen(function*() {
        yield* store.takeOver(list.label)
        if ((yield* requireSource(store, request)) === "other") yield* store.rebind(list, request.source)
        const mutex = mutexOf(list)
        yield* mutex.withPermits(1)(fillColumns(store, list))
        const opened = yield* mutex.withPermits(1)(open(store, list, request))
        const session = makeSession(store, list, request, opened, mutex)
        // Pending unchanged batches are flushed when the scope closes and while the next page is awaited. The next commit
        // reports any error.
        yield* Effect.addFinalizer(() => session.finalFlush)
        yield* Effect.forkScoped(Effect.forever(Effect.delay(Effect.ignore(session.flush), unchangedLimit.time)))
        return session
      }),
    publish: () => Effect.void
  })
}

/** Fails if the destination has another source, unless the request rebinds it. */
const requireSource = (store: Store, { rebind = false, source }: ScanRequest) =>
  Effect.flatMap(store.source, (bound) =>
    bound === undefined || bound === source
      ? Effect.succeed("same" as const)
      : rebind
      ? Effect.succeed("other" as const)
      : Effect.fail(new SinkError({ location: store.location, reason: new OtherSource({ bound, given: source }) })))

/** The results of the end of a scan. */
type Conclusion = Pick<ScanProgress, "missing" | "heldBack">
const noConclusion: Conclusion = { missing: 0, heldBack: 0 }

const progressOf = (
  { counts, replaced, undocumented }: ScanTotals.ScanTotals,
  conclusion: Conclusion
): ScanProgress => ({
  ...counts,
  ...conclusion,
  undocumented,
  replaced
})

interface Session extends ScanSession {
  /** Commits pending unchanged batches. */
  readonly flush: Effect.Effect<void, SinkError>
  /** Commits pending unchanged batches, unless that takes too long. */
  readonly finalFlush: Effect.Effect<void>
}

const makeSession = (
  store: Store,
  list: Lists.AnyList,
  request: ScanRequest,
  opened: OpenScan,
  mutex: Semaphore.Semaphore
): Session => {
  const layout = layoutOf(list)
  const ignored = new Set(request.ignoredFields)
  const { scan, seen, startedAt, emitChanges } = opened
  let { totals } = opened
  let conclusion: Conclusion = noConclusion
  /** The claim that the next commit binds. */
  let owner: OwnerClaim | undefined
  /** The pending unchanged batches: the checkpoint after them, and the number of their records. */
  let pendingUnchanged: { readonly checkpoint: string; readonly records: number } | undefined
  /** The checkpoint after the last batch. */
  let lastCheckpoint = opened.resumeAt

  const progress = () => progressOf(totals, conclusion)

  const write = (
    commit: Pick<Commit, "plan" | "end" | "restart" | "checkpoint">,
    now: string
  ) =>
    Effect.tap(
      store.commit({
        list,
        scan,
        source: request.source,
        now,
        totals: ScanTotals.toJson(totals),
        seen: seen.changed(),
        owner,
        ...commit
      }),
      () =>
        Effect.sync(() => {
          seen.markStored()
          owner = undefined
          pendingUnchanged = undefined
        })
    )

  const emptyPlan = { writes: [], reappeared: [], changes: [], quarantined: [] }

  const commitOnce = Effect.fnUntraced(function*(batch: Slice): Effect.fn.Return<ScanProgress, SinkError> {
    const before = { totals, pendingUnchanged }
    seen.mark()
    const records = batch.records.map(hashed)
    const { nextRow, stored } = yield* store.find(list, lookupsOf(records))
    // The program never deletes rows or reuses their numbers, so another program has removed rows.
    if (seen.highest >= nextRow) {
      yield* giveUp
      return yield* rowsRemoved
    }
    const rows = differingRows(records, stored)
    const texts = rows.length === 0 ? new Map<number, string>() : yield* textsOf(store, list, rows, stored)
    // From here until `pendingUnchanged` is set, the code must be synchronous: after an interrupt, the totals would include a
    // batch that the checkpoint does not.
    const planned = plan({ layout, ignored, emitChanges, totals, seen, nextRow, records, stored, texts })
    const { counts, undocumented } = planned.totals
    totals = {
      ...planned.totals,
      counts: { ...counts, pages: counts.pages + batch.pages },
      undocumented: ScanTotals.addPaths(undocumented, batch.undocumented)
    }
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
    const now = yield* timestamp
    const end = batch.checkpoint === null ? yield* conclude(now) : undefined
    const checkpoint = batch.checkpoint ?? undefined
    const committed = yield* write({ plan: planned, checkpoint, ...(end === undefined ? {} : { end }) }, now).pipe(
      Effect.tapError((error) =>
        Effect.sync(() => {
          if (!isRejectedContent(error)) return
          seen.undo()
          ;({ totals, pendingUnchanged } = before)
        })
      )
    )
    if (committed === "rowsRemoved") {
      conclusion = noConclusion
      return yield* rowsRemoved
    }
    lastCheckpoint = checkpoint
    return progress()
  })

  const rowsRemoved = new SinkError({ location: store.location, reason: new RowsRemoved({ label: list.label }) })

  const giveUp = Effect.flatMap(timestamp, (now) =>
    write({
      plan: emptyPlan,
      checkpoint: undefined,
      end: { state: "incomplete", certificate: undefined, missing: [], forget: [] }
    }, now))

  /**
   * Commits the batch. If the database rejects the content of a record, the batch is halved until that record is found. It is
   * quarantined, and the other records are written. The last slice of the batch has its checkpoint, page count and
   * undocumented fields.
   */
  const commit = (batch: Slice): Effect.Effect<ScanProgress, SinkError> =>
    Effect.catchIf(commitOnce(batch), isRejectedContent, (error) => {
      const { records } = batch
      const [only] = records
      if (only === undefined || (records.length === 1 && only.problem?.isUnstorable === true)) return Effect.fail(error)
      if (records.length === 1) return commit({ ...batch, records: [{ ...only, problem: rejected }] })
      const half = records.length >> 1
      return Effect.andThen(
        commit({ pages: 0, records: records.slice(0, half), undocumented: new Map(), checkpoint: lastCheckpoint }),
        commit({ ...batch, records: records.slice(half) })
      )
    })

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
    const certificate = isCertain
      ? Certificate.toJson(ScanTotals.certify({ scan, startedAt }, totals, seen.size, now))
      : undefined
    const forget = older.map((earlier) => earlier.scan).filter((earlier) =>
      earlier < scan && (part === "" || whole === undefined || earlier < whole.scan)
    )
    const numbers = part === "" && totals.counts.withoutId === 0
      ? [...RowSet.inNone([seen], opened.firstRow)]
      : []
    const unseen = numbers.length === 0 ? [] : yield* store.present(list, numbers)
    const rows = unseen.length === 0 ? [] : yield* store.missing(list)
    // A row that this scan has seen is no longer missing.
    const knownMissing = new Set(rows.filter((row) => !seen.has(row)))
    const newlyUnseen = unseen.filter((row) => !knownMissing.has(row))
    const candidates = whole === undefined ? [] : yield* missingRows(store, older, whole, scan, newlyUnseen)
    // The number of rows that existed when the scan began.
    const before = opened.firstRow - (numbers.length - unseen.length)
    const maxMissing = (before - knownMissing.size) * (request.missingLimit ?? 0.1)
    // If more rows are newly unseen, the service's answer is doubtful, so no row is marked missing.
    const isHeldBack = newlyUnseen.length > maxMissing
    const missing = isHeldBack ? [] : candidates
    conclusion = { missing: missing.length, heldBack: isHeldBack ? newlyUnseen.length : 0 }
    const { withoutId, quarantined } = totals.counts
    const certified = certificate === undefined ? undefined : { rows: seen, withoutId, quarantined }
    return { state: "complete", certificate, missing, forget, certified }
  })

  const flush = Effect.suspend(() => {
    const checkpoint = pendingUnchanged?.checkpoint
    return checkpoint === undefined
      ? Effect.void
      : Effect.flatMap(timestamp, (now) => write({ plan: emptyPlan, checkpoint }, now))
  })

  const withMutex = mutex.withPermits(1)
  return {
    scan,
    start: opened.start,
    resumeAt: opened.resumeAt,
    progress: Effect.sync(progress),
    commit: (batch) =>
      withMutex(Effect.suspend(() => {
        owner = mergeClaims(owner, batch.owner)
        return commit(batch)
      })),
    flush: withMutex(flush),
    finalFlush: withMutex(Effect.ignore(timeoutDetached(finalFlushTimeout)(flush))),
    restart: withMutex(Effect.flatMap(timestamp, (now) => {
      // If the commit below fails, nothing may flush the pending batches: the totals no longer include them.
      pendingUnchanged = undefined
      lastCheckpoint = undefined
      // The written rows stay, so their counts stay too.
      const { inserted, returned, updated } = totals.counts
      totals = { ...ScanTotals.none, counts: { ...ScanTotals.none.counts, inserted, returned, updated } }
      seen.clear()
      return write({ plan: emptyPlan, checkpoint: undefined, restart: true }, now)
    })),
    giveUp: Effect.asVoid(withMutex(giveUp))
  }
}

/** A batch, or a slice of one. A slice before the last one has the checkpoint before the batch, or undefined at the start. */
interface Slice extends Omit<Batch, "checkpoint"> {
  readonly checkpoint: Batch["checkpoint"] | undefined
}

/**
 * Whether the database rejected the content of a record: data exceptions and limits of PostgreSQL (classes 22 and 54 of
 * https://www.postgresql.org/docs/current/errcodes-appendix.html), SQLite's SQLITE_TOOBIG (https://sqlite.org/rescode.html).
 */
const isRejectedContent = ({ reason }: SinkError): boolean =>
  reason._tag === "Failed" && (/^(22|54)[0-9A-Z]{3}$/.test(reason.code) || reason.code === "SQLite 18")

const rejected: Problem = { path: "", expected: "expected a record that the database can store", isUnstorable: true }

/** Returns the texts of rows for a comparison. Fails if a text was altered and is not JSON, because it has no members. */
const textsOf = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  rows: ReadonlyArray<number>,
  stored: ReadonlyMap<string, StoredRow>
): Effect.fn.Return<ReadonlyMap<number, string>, SinkError> {
  const texts = yield* store.textsOf(list, rows)
  for (const { hash, row } of stored.values()) {
    const text = texts.get(row)
    if (text === undefined || contentHash(text) === hash || isJson(text)) continue
    const problem = `the text of a row of ${list.label} is not JSON`
    return yield* new SinkError({ location: store.location, reason: new Damaged({ problem }) })
  }
  return texts
})

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
