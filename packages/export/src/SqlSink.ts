/**
 * The engine over a {@link Store}: opens scans, plans batches, and concludes at the end of a scan what is missing and what
 * can be certified. The same for every database.
 */
import { type Lists, Position } from "@payments/core"
import { Clock, DateTime, Effect, Option, Semaphore } from "effect"
import * as Certificate from "./Certificate.ts"
import { layoutOf } from "./Columns.ts"
import { differing, hashed, plan, soughtIn } from "./Plan.ts"
import { RowSet } from "./RowSet.ts"
import {
  type Batch,
  OtherSource,
  type ScanProgress,
  type ScanRequest,
  type ScanSession,
  type ScanStart,
  Sink,
  SinkError
} from "./Sink.ts"
import type { Commit, ScanRow, Store } from "./Store.ts"
import * as Tally from "./Tally.ts"

/** A batch that changes no row waits for others, up to so many records and so long: a cut only reads them again. */
const quiet = { records: 5000, millis: 2000 } as const

/** The port over a store. */
export const makeSink = (store: Store): Sink["Service"] => {
  /** Parts of one list are written side by side by one program; what a batch means depends on the one before. */
  const turns = new Map<Lists.ListName, Semaphore.Semaphore>()
  const turnOf = (list: Lists.AnyList) => {
    const turn = turns.get(list.name) ?? Semaphore.makeUnsafe(1)
    turns.set(list.name, turn)
    return turn
  }
  return Sink.of({
    location: store.location,
    hold: (list, onLocked) => store.hold(list.label, onLocked),
    begin: (list, request) =>
      Effect.gen(function*() {
        yield* bind(store, request)
        const opened = yield* turnOf(list).withPermits(1)(open(store, list, request))
        const session = sessionOver(store, list, request, opened, turnOf(list))
        // What a quiet end left behind is not lost for want of one more page.
        yield* Effect.addFinalizer(() => Effect.ignore(session.flush))
        return session
      }),
    publish: () => Effect.void
  })
}

const bind = (store: Store, { rebind = false, source }: ScanRequest) =>
  Effect.flatMap(store.source, (bound) =>
    bound === undefined || bound === source
      ? Effect.void
      : rebind
      ? store.rebind(source)
      : Effect.fail(new SinkError({ location: store.location, reason: new OtherSource({ bound, given: source }) })))

/** A scan that is open. */
interface Opened {
  readonly scan: number
  readonly startedAt: string
  /** Row numbers from here on did not exist when it began. */
  readonly firstRow: number
  readonly start: ScanStart
  readonly resumeAt: Position.Position | undefined
  readonly tally: Tally.Tally
  readonly seen: RowSet
  /** Whether changes are told. */
  readonly telling: boolean
}

const partOf = ({ part }: ScanRequest): string => part === undefined ? "" : JSON.stringify([part.field, part.value])

const askedOf = ({ ignoredFields = [], limit, parameters }: ScanRequest): string =>
  JSON.stringify([limit, Object.entries(parameters).toSorted(), ignoredFields.toSorted()])

/** The scan that goes on: the part's last one if it was cut and asked the same, else a new one. */
const open = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  request: ScanRequest
): Effect.fn.Return<Opened, SinkError> {
  const part = partOf(request)
  const asked = askedOf(request)
  const scans = yield* store.scans(list)
  const last = scans.find((scan) => scan.part === part)
  const telling = scans.some((scan) => scan.state === "complete" && (scan.part === "" || scan.part === part))
  if (last?.state === "running" && last.asked === asked) {
    const position = Option.getOrUndefined(Option.flatMap(Option.fromUndefinedOr(last.checkpoint), Position.fromJson))
    // Without a checkpoint nothing was committed.
    const start = position === undefined ? startAfter(scans, part) : "resumed"
    const seen = new RowSet(yield* store.seen([last.scan]))
    return { ...last, start, resumeAt: position, tally: Tally.fromJson(last.tally), seen, telling }
  }
  const { nextRow } = yield* store.find(list, [])
  const now = yield* timestamp
  const tally = Tally.toJson(Tally.none)
  const scan = yield* store.start({ list, part, asked, firstRow: nextRow, tally, now })
  return {
    scan,
    startedAt: now,
    firstRow: nextRow,
    start: startAfter(scans, part),
    resumeAt: undefined,
    tally: Tally.none,
    seen: new RowSet(),
    telling
  }
})

const startAfter = (scans: ReadonlyArray<ScanRow>, part: string): ScanStart => {
  const last = scans.find((scan) => scan.part === part && (scan.state !== "running" || scan.checkpoint !== undefined))
  switch (last?.state) {
    case undefined:
      return "first"
    case "complete":
      return "afterComplete"
    case "running":
    case "abandoned":
      return "otherRequest"
    case "incomplete":
      return "afterFailure"
  }
}

interface Session extends ScanSession {
  /** Commits what waits. */
  readonly flush: Effect.Effect<void, SinkError>
}

const sessionOver = (
  store: Store,
  list: Lists.AnyList,
  request: ScanRequest,
  opened: Opened,
  turn: Semaphore.Semaphore
): Session => {
  const layout = layoutOf(list)
  const ignored = new Set(request.ignoredFields)
  const { scan, seen, startedAt, telling } = opened
  let { tally } = opened
  let concluded = { missing: 0, heldBack: 0 }
  /** Batches that changed nothing and are not committed yet. */
  let waiting: { readonly next: Position.Position; readonly records: number; readonly since: number } | undefined

  const progress = (): ScanProgress => ({
    ...tally.counts,
    ...concluded,
    undocumented: tally.undocumented,
    replaced: tally.replaced
  })

  const write = (
    { next, ...commit }: Pick<Commit, "plan" | "end" | "again"> & { readonly next: Position.Position | null },
    now: string
  ) =>
    Effect.map(
      store.commit({
        list,
        scan,
        source: request.source,
        now,
        checkpoint: next === null ? undefined : Position.toJson(next),
        tally: Tally.toJson(tally),
        seen: seen.changed(),
        ...commit
      }),
      () => {
        seen.stored()
        waiting = undefined
      }
    )

  const nothing = { writes: [], found: [], changes: [], quarantined: [] }

  const commit = Effect.fnUntraced(function*(batch: Batch): Effect.fn.Return<ScanProgress, SinkError> {
    const reads = batch.reads.map(hashed)
    const { nextRow, stored } = yield* store.find(list, soughtIn(reads))
    const apart = differing(reads, stored)
    const texts = apart.length === 0 ? new Map<number, string>() : yield* store.textsOf(list, apart)
    const nowMillis = yield* Clock.currentTimeMillis
    // From here to where it is known what waits nothing may be cut: the tally must not run ahead of the checkpoint.
    const planned = plan({ layout, ignored, telling, tally, seen, nextRow, reads, stored, texts })
    const { counts } = planned.tally
    tally = { ...planned.tally, counts: { ...counts, pages: counts.pages + batch.pages } }
    const isQuiet = planned.writes.length + planned.found.length + planned.quarantined.length === 0
    if (batch.next !== null && isQuiet) {
      const since = waiting?.since ?? nowMillis
      const records = (waiting?.records ?? 0) + reads.length
      waiting = { next: batch.next, records, since }
      if (records < quiet.records && nowMillis - since < quiet.millis) return progress()
    }
    // If this fails, what waited is read again: the tally has gone on without it.
    waiting = undefined
    const now = yield* timestamp
    const end = batch.next === null ? yield* conclude(now) : undefined
    yield* write({ plan: planned, next: batch.next, ...(end === undefined ? {} : { end }) }, now)
    return progress()
  })

  /** What the end of a traversal shows. */
  const conclude = Effect.fnUntraced(function*(now: string): Effect.fn.Return<Commit["end"], SinkError> {
    const certificate = tally.blind
      ? undefined
      : Certificate.toJson(Certificate.certify({ scan, startedAt }, tally, seen.size, now))
    const scans = yield* store.scans(list)
    const part = partOf(request)
    const forget = scans.filter((one) => one.part === part && one.scan < scan).map((one) => one.scan)
    const unseen = part === "" && !tally.blind && tally.counts.nameless === 0
      ? [...RowSet.inNone([seen], opened.firstRow)]
      : []
    const { rows } = unseen.length === 0 ? { rows: [] } : yield* store.missing(list)
    // One that this scan has seen again is no longer missing.
    const known = new Set(rows.filter((row) => !seen.has(row)))
    const fresh = unseen.filter((row) => !known.has(row))
    const gone = yield* goneSince(store, scan, fresh, scans)
    // Of the list as it was when the scan began.
    const most = (opened.firstRow - known.size) * (request.missingLimit ?? 0.1)
    const missing = gone.length > most ? [] : gone
    // An answer that shows so much less is doubtful before a second one has shown the same.
    concluded = { missing: missing.length, heldBack: fresh.length > most ? fresh.length - missing.length : 0 }
    return { state: "complete", certificate, missing, forget }
  })

  const flush = Effect.suspend(() => {
    const next = waiting?.next
    return next === undefined ? Effect.void : Effect.flatMap(timestamp, (now) => write({ plan: nothing, next }, now))
  })

  const inTurn = turn.withPermits(1)
  return {
    scan,
    start: opened.start,
    resumeAt: opened.resumeAt,
    progress: Effect.sync(progress),
    commit: (batch) => inTurn(commit(batch)),
    flush: inTurn(flush),
    restart: inTurn(Effect.flatMap(timestamp, (now) => {
      // What was written stays written.
      const { inserted, returned, updated } = tally.counts
      tally = { ...Tally.none, counts: { ...Tally.none.counts, inserted, returned, updated } }
      seen.clear()
      return write({ plan: nothing, next: null, again: true }, now)
    })),
    giveUp: inTurn(Effect.flatMap(timestamp, (now) =>
      write({
        plan: nothing,
        next: null,
        end: { state: "incomplete", certificate: undefined, missing: [], forget: [] }
      }, now)))
  }
}

/**
 * Of the rows that this complete traversal of the whole list did not see, those that neither the one before it saw, nor any
 * scan between them, and that existed before the earlier one began. Nothing where there is no such scan or where a record
 * without an id may have been any of them.
 */
const goneSince = Effect.fnUntraced(function*(
  store: Store,
  current: number,
  unseen: ReadonlyArray<number>,
  scans: ReadonlyArray<ScanRow>
): Effect.fn.Return<ReadonlyArray<number>, SinkError> {
  const before = scans.find(({ part, scan, state }) => part === "" && state === "complete" && scan < current)
  if (before === undefined || unseen.length === 0) return []
  const between = scans.filter(({ scan }) => scan >= before.scan && scan !== current)
  const unknown = between.some(({ tally }) => {
    const { blind, counts } = Tally.fromJson(tally)
    return blind || counts.nameless > 0
  })
  if (unknown) return []
  const seenBefore = new RowSet(yield* store.seen(between.map(({ scan }) => scan)))
  return unseen.filter((row) => row < before.firstRow && !seenBefore.has(row))
})

const timestamp = Effect.map(Clock.currentTimeMillis, (millis) => DateTime.formatIso(DateTime.makeUnsafe(millis)))
