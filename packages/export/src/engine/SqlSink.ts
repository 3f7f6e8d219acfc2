/**
 * The engine over a {@link Store}: opens scans, plans batches, and concludes at the end of a scan what is missing and what
 * can be certified. The same for every database.
 */
import { Lists } from "@payments/core"
import { Duration, Effect, Semaphore } from "effect"
import { randomUUID } from "node:crypto"
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
import { goneSince, meetsAnother } from "./EarlierScans.ts"
import { fillColumns, pending } from "./Filling.ts"
import { nextScan, open, type OpenScan, partOf, timestamp } from "./NextScan.ts"
import { bothOf, ownerOf } from "./Owner.ts"
import { contentHash, differing, hashed, lookupsOf, plan, type StoredRow } from "./Plan.ts"
import { RowSet } from "./RowSet.ts"
import * as ScanTotals from "./ScanTotals.ts"
import type { Commit, Store } from "./Store.ts"
import { timeoutDetached } from "./Timeouts.ts"

/** A batch that changes no row waits for others, up to so many records and so long: a cut only reads them again. */
const quiet = { records: 5000, wait: Duration.seconds(2) } as const

/** How long the end of a session waits for a destination that may no longer answer. */
const flushAtEndTakes = Duration.seconds(3)

/** The port over a store, for a program that knows these lists. */
export const makeSink = (store: Store, lists: ReadonlyArray<Lists.AnyList> = Lists.all): Sink["Service"] => {
  /** Parts of one list are written side by side by one program; what a batch means depends on the one before. */
  const turns = new Map<Lists.ListName, Semaphore.Semaphore>()
  const turnOf = (list: Lists.AnyList) => {
    const turn = turns.get(list.name) ?? Semaphore.makeUnsafe(1)
    turns.set(list.name, turn)
    return turn
  }
  const owner = ownerOf(store, randomUUID(), lists)
  return Sink.of({
    location: store.location,
    lock: (list, onLocked) => store.lock(list.label, onLocked),
    inspect: {
      scan: (list, request) =>
        Effect.gen(function*() {
          yield* requireSource(store, request)
          const found = yield* turnOf(list).withPermits(1)(nextScan(store, list, request))
          const { resumeAt, start, totals } = found
          const filling = yield* pending(store, list)
          return { start, resumeAt, progress: progressOf(totals, nothingConcluded), owner: yield* owner, filling }
        }),
      owner,
      hasAny: (list, ids) =>
        Effect.map(store.find(list, ids.map((id) => ({ id, hash: "" }))), ({ stored }) => stored.size > 0)
    },
    begin: (list, request) =>
      Effect.gen(function*() {
        yield* store.takeOver(list.label)
        if ((yield* requireSource(store, request)) === "other") yield* store.rebind(list, request.source)
        const turn = turnOf(list)
        yield* turn.withPermits(1)(fillColumns(store, list))
        const opened = yield* turn.withPermits(1)(open(store, list, request))
        const session = sessionOver(store, list, request, opened, turn)
        // Pending unchanged batches are flushed when the scope closes and while the next page is awaited. The next commit
        // reports any error.
        yield* Effect.addFinalizer(() => session.flushAtEnd)
        yield* Effect.forkScoped(Effect.forever(Effect.delay(Effect.ignore(session.flush), quiet.wait)))
        return session
      }),
    publish: () => Effect.void
  })
}

/** Refuses another source, unless the destination is to be bound to it. */
const requireSource = (store: Store, { rebind = false, source }: ScanRequest) =>
  Effect.flatMap(store.source, (bound) =>
    bound === undefined || bound === source
      ? Effect.succeed("same" as const)
      : rebind
      ? Effect.succeed("other" as const)
      : Effect.fail(new SinkError({ location: store.location, reason: new OtherSource({ bound, given: source }) })))

/** What the end of a scan concluded. */
type Concluded = Pick<ScanProgress, "missing" | "heldBack">
const nothingConcluded: Concluded = { missing: 0, heldBack: 0 }

const progressOf = ({ counts, replaced, undocumented }: ScanTotals.ScanTotals, concluded: Concluded): ScanProgress => ({
  ...counts,
  ...concluded,
  undocumented,
  replaced
})

interface Session extends ScanSession {
  /** Commits what waits. */
  readonly flush: Effect.Effect<void, SinkError>
  /** Commits what waits where that does not take long. */
  readonly flushAtEnd: Effect.Effect<void>
}

const sessionOver = (
  store: Store,
  list: Lists.AnyList,
  request: ScanRequest,
  opened: OpenScan,
  turn: Semaphore.Semaphore
): Session => {
  const layout = layoutOf(list)
  const ignored = new Set(request.ignoredFields)
  const { scan, seen, startedAt, emitChanges } = opened
  let { totals } = opened
  let concluded: Concluded = nothingConcluded
  /** What the next commit binds. */
  let owner: OwnerClaim | undefined
  /** Batches that changed nothing and are not committed yet. */
  let waiting: { readonly checkpoint: string; readonly records: number } | undefined
  /** Behind the last batch. */
  let reached = opened.resumeAt

  const progress = () => progressOf(totals, concluded)

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
          seen.stored()
          owner = undefined
          waiting = undefined
        })
    )

  const nothing = { writes: [], reappeared: [], changes: [], quarantined: [] }

  const commitOnce = Effect.fnUntraced(function*(batch: Slice): Effect.fn.Return<ScanProgress, SinkError> {
    const before = { totals, waiting }
    seen.mark()
    const records = batch.records.map(hashed)
    const { nextRow, stored } = yield* store.find(list, lookupsOf(records))
    // Rows never go away by themselves, and their numbers are given once.
    if (seen.highest >= nextRow) {
      yield* giveUp
      return yield* rowsRemoved
    }
    const apart = differing(records, stored)
    const texts = apart.length === 0 ? new Map<number, string>() : yield* textsOf(store, list, apart, stored)
    // From here to where it is known what waits nothing may be cut: the totals must not run ahead of the checkpoint.
    const planned = plan({ layout, ignored, emitChanges, totals, seen, nextRow, records, stored, texts })
    const { counts, undocumented } = planned.totals
    totals = {
      ...planned.totals,
      counts: { ...counts, pages: counts.pages + batch.pages },
      undocumented: ScanTotals.addPaths(undocumented, batch.undocumented)
    }
    const isQuiet = planned.writes.length + planned.reappeared.length + planned.quarantined.length === 0
    if (typeof batch.checkpoint === "string" && isQuiet) {
      waiting = { checkpoint: batch.checkpoint, records: (waiting?.records ?? 0) + records.length }
      if (waiting.records < quiet.records) {
        reached = batch.checkpoint
        return progress()
      }
    }
    // If this fails, what waited is read again: the totals has gone on without it.
    waiting = undefined
    const now = yield* timestamp
    const end = batch.checkpoint === null ? yield* conclude(now) : undefined
    const checkpoint = batch.checkpoint ?? undefined
    const committed = yield* write({ plan: planned, checkpoint, ...(end === undefined ? {} : { end }) }, now).pipe(
      Effect.tapError((error) =>
        Effect.sync(() => {
          if (!isRefusedContent(error)) return
          seen.undo()
          ;({ totals, waiting } = before)
        })
      )
    )
    if (committed === "rowsRemoved") {
      concluded = { missing: 0, heldBack: 0 }
      return yield* rowsRemoved
    }
    reached = checkpoint
    return progress()
  })

  const rowsRemoved = new SinkError({ location: store.location, reason: new RowsRemoved({ label: list.label }) })

  const giveUp = Effect.flatMap(timestamp, (now) =>
    write({
      plan: nothing,
      checkpoint: undefined,
      end: { state: "incomplete", certificate: undefined, missing: [], forget: [] }
    }, now))

  /**
   * Commits the batch. Where the database refuses what one of its records holds, that one is found by halving and quarantined,
   * and the others are written. The checkpoint, the pages and the undocumented fields of the batch go with its last part.
   */
  const commit = (batch: Slice): Effect.Effect<ScanProgress, SinkError> =>
    Effect.catchIf(commitOnce(batch), isRefusedContent, (error) => {
      const { records } = batch
      const [only] = records
      if (only === undefined || (records.length === 1 && only.problem?.isUnstorable === true)) return Effect.fail(error)
      if (records.length === 1) return commit({ ...batch, records: [{ ...only, problem: refused }] })
      const half = records.length >> 1
      return Effect.andThen(
        commit({ pages: 0, records: records.slice(0, half), undocumented: new Map(), checkpoint: reached }),
        commit({ ...batch, records: records.slice(half) })
      )
    })

  /** What the end of a traversal shows. */
  const conclude = Effect.fnUntraced(function*(now: string): Effect.fn.Return<Commit["end"], SinkError> {
    const part = partOf(request)
    // What a part was shown counts until the next scan of the whole list is complete.
    const whole = (yield* store.scans(list, "")).find((one) => one.state === "complete" && one.scan < scan)
    const since = part === "" || totals.counts.repeats > 0 ? yield* store.scansFrom(list, whole?.scan ?? 0) : []
    const older = part === "" ? since : yield* store.scans(list, part)
    // What was first counted of a record that came again is unknown where another part may have changed its row in between.
    const isCertain = part === "" || totals.counts.repeats === 0 || !(yield* meetsAnother(store, since, part, seen))
    const certificate = isCertain
      ? Certificate.toJson(Certificate.certify({ scan, startedAt }, totals, seen.size, now))
      : undefined
    const forget = older.map((one) => one.scan).filter((one) =>
      one < scan && (part === "" || whole === undefined || one < whole.scan)
    )
    const numbers = part === "" && totals.counts.withoutId === 0
      ? [...RowSet.inNone([seen], opened.firstRow)]
      : []
    const unseen = numbers.length === 0 ? [] : yield* store.present(list, numbers)
    const rows = unseen.length === 0 ? [] : yield* store.missing(list)
    // One that this scan has seen again is no longer missing.
    const known = new Set(rows.filter((row) => !seen.has(row)))
    const fresh = unseen.filter((row) => !known.has(row))
    const gone = whole === undefined ? [] : yield* goneSince(store, older, whole, scan, fresh)
    // Of the list as it was when the scan began.
    const before = opened.firstRow - (numbers.length - unseen.length)
    const most = (before - known.size) * (request.missingLimit ?? 0.1)
    // An answer that shows so much less is doubtful, and nothing is concluded from it.
    const isDoubtful = fresh.length > most
    const missing = isDoubtful ? [] : gone
    concluded = { missing: missing.length, heldBack: isDoubtful ? fresh.length : 0 }
    const { withoutId, quarantined } = totals.counts
    const certified = certificate === undefined ? undefined : { rows: seen, withoutId, quarantined }
    return { state: "complete", certificate, missing, forget, certified }
  })

  const flush = Effect.suspend(() => {
    const checkpoint = waiting?.checkpoint
    return checkpoint === undefined
      ? Effect.void
      : Effect.flatMap(timestamp, (now) => write({ plan: nothing, checkpoint }, now))
  })

  const inTurn = turn.withPermits(1)
  return {
    scan,
    start: opened.start,
    resumeAt: opened.resumeAt,
    progress: Effect.sync(progress),
    commit: (batch) =>
      inTurn(Effect.suspend(() => {
        owner = bothOf(owner, batch.owner)
        return commit(batch)
      })),
    flush: inTurn(flush),
    flushAtEnd: inTurn(Effect.ignore(timeoutDetached(flushAtEndTakes)(flush))),
    restart: inTurn(Effect.flatMap(timestamp, (now) => {
      // What waits goes with the totals: should this fail, nothing of it may be committed any more.
      waiting = undefined
      reached = undefined
      // What was written stays written.
      const { inserted, returned, updated } = totals.counts
      totals = { ...ScanTotals.none, counts: { ...ScanTotals.none.counts, inserted, returned, updated } }
      seen.clear()
      return write({ plan: nothing, checkpoint: undefined, restart: true }, now)
    })),
    giveUp: Effect.asVoid(inTurn(giveUp))
  }
}

/** A batch, or the first part of one: its checkpoint is the one before the batch, undefined if there is none yet. */
interface Slice extends Omit<Batch, "checkpoint"> {
  readonly checkpoint: Batch["checkpoint"] | undefined
}

/**
 * Whether the database refused what a record holds: data exceptions and limits of PostgreSQL (classes 22 and 54 of
 * https://www.postgresql.org/docs/current/errcodes-appendix.html), SQLite's SQLITE_TOOBIG (https://sqlite.org/rescode.html).
 */
const isRefusedContent = ({ reason }: SinkError): boolean =>
  reason._tag === "Failed" && (/^(22|54)[0-9A-Z]{3}$/.test(reason.code) || reason.code === "SQLite 18")

const refused: Problem = { path: "", expected: "expected a record that the database can hold", isUnstorable: true }

/** The texts of rows that are to be compared. One that is no JSON has no members to be compared. */
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
    const problem = `the text of a row of ${list.label} is no JSON`
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
