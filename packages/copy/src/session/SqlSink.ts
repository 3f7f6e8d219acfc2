/** A sink over a {@link Store}. It opens the scans and passes of lists, and is the same for every database. */
import { Lists } from "@payments/core"
import { Duration, Effect } from "effect"
import { randomUUID } from "node:crypto"
import { daysIn, referencesIn } from "../plan/RowSight.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import { type Drift, mayContradict } from "../port/Drift.ts"
import { add, tooMany } from "../port/Judgement.ts"
import { OtherSource, type ScanPreview, type ScanRequest, type Sighting, Sink, SinkError } from "../port/Sink.ts"
import { fillColumns, pending } from "../store/Filling.ts"
import { freshnessOf, overviewOf } from "../store/Freshness.ts"
import { openRecordsOf } from "../store/OpenRecords.ts"
import { bindingOf, changeSince } from "../store/PersonalBinding.ts"
import type { Opening, Store } from "../store/Store.ts"
import { certainIn, changeEvidence, storedEvidence } from "../store/StoredFacts.ts"
import { timestamp } from "../store/StoredRows.ts"
import { ownerOf } from "./BoundMerchant.ts"
import { nextScan, open, partOf } from "./NextScan.ts"
import { OpenList } from "./OpenList.ts"
import type { SessionContext } from "./Slices.ts"
import { makePass } from "./SqlPass.ts"
import { makeScan } from "./SqlScan.ts"

/** How often batches that change no row are committed. After a crash, their records are read again. */
const flushInterval = Duration.seconds(2)

/** How long the end of a session waits for a destination that may not respond. */
const finalFlushTimeout = Duration.seconds(3)

/** `lists` are those that the program knows. */
export const makeSink = (store: Store, lists: ReadonlyArray<Lists.AnyList> = Lists.all): Sink["Service"] => {
  const states = new Map<Lists.ListName, OpenList>()
  const stateOf = (list: Lists.AnyList) => {
    const state = states.get(list.name) ?? new OpenList()
    states.set(list.name, state)
    return state
  }
  const salt = randomUUID()
  const contextOf = (list: Lists.AnyList, request: ScanRequest) => ({
    store,
    lists,
    list,
    request,
    shared: stateOf(list)
  })
  const setHeadProblem = (list: Lists.AnyList, problem: string | undefined) =>
    stateOf(list).mutex.withPermits(1)(
      Effect.flatMap(timestamp, (now) => store.setHeadProblem(list, problem, now))
    )
  return Sink.of({
    location: store.location,
    lock: (list, onLocked) =>
      Effect.tap(store.lock(list.label, onLocked), () => Effect.sync(() => stateOf(list).opening = undefined)),
    inspect: {
      scan: (list, request) => preview(contextOf(list, request), salt),
      owner: Effect.flatMap(store.owner(lists), (owner) => ownerOf(store, salt, lists, owner)),
      personal: store.personal,
      hasAny: (list, ids) =>
        Effect.map(store.find(list, ids.map((id) => ({ id, hash: "" }))), ({ stored }) => stored.size > 0),
      freshness: (of, source) =>
        Effect.andThen(
          source === undefined
            ? Effect.void
            : Effect.flatMap(store.source, (bound) => requireSource(store, { source: bound }, { source })),
          freshnessOf(store, of)
        ),
      overview: (list) => overviewOf(store, list),
      openRecords: (list, asked) => openRecordsOf(store, list, asked)
    },
    begin: (list, request) => beginScan(contextOf(list, request)),
    passes: {
      begin: (list, kind, request) =>
        Effect.suspend(() => {
          const context = contextOf(list, { ...request, rebind: false })
          return context.shared.mutex.withPermits(1)(
            Effect.flatMap(prepare(context), (opening) => makePass(context, kind, opening))
          )
        }),
      head: {
        problem: (list) => Effect.map(store.state(list), ({ headProblem }) => headProblem),
        stop: (list, problem) => setHeadProblem(list, problem),
        resume: (list) => setHeadProblem(list, undefined)
      }
    },
    facts: {
      contradictions: (list, source, sightings) => contradictionsOf(store, list, source, sightings),
      ofRows: (list) =>
        Effect.map(store.rowSight(list), (sight) => ({ sightings: referencesIn(sight), drift: daysIn(sight) })),
      observe: (list, source, sightings) => observe(store, list, source, sightings),
      certain: (list, source) => certainIn(store, list, source)
    },
    publish: () => Effect.void
  })
}

/** Returns the observations that contradict what was certain or accepted. */
const contradictionsOf = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  source: string,
  sightings: ReadonlyArray<Sighting>
): Effect.fn.Return<ReadonlyArray<Drift>, SinkError> {
  const evidence = yield* storedEvidence(store, list, source)
  return sightings.flatMap(({ answer, fact, mayBeChance, records }): ReadonlyArray<Drift> => {
    const accepted = evidence.get(fact)?.accepted
    if (accepted === undefined || accepted === answer || !mayContradict(fact) || mayBeChance === true) return []
    const drift: Drift = { fact, what: `${answer} (before: ${accepted})`, records }
    return [accepted === "the list" && answer === tooMany ? { ...drift, mayLackRecords: true } : drift]
  })
})

/** Stores the observations with the facts. */
const observe = (store: Store, list: Lists.AnyList, source: string, sightings: ReadonlyArray<Sighting>) =>
  Effect.flatMap(
    timestamp,
    (at) =>
      changeEvidence(
        store,
        list,
        source,
        (before) => new Map(sightings.map(({ answer, fact, seen }) => [fact, add(before(fact), { answer, seen, at })]))
      )
  )

/** Reads the scan that would begin. If nothing is written until it begins, what was read is not read again. */
const preview = ({ list, lists, request, shared, store }: SessionContext, salt: string) =>
  shared.mutex.withPermits(1)(
    Effect.gen(function*(): Effect.fn.Return<ScanPreview, SinkError> {
      const part = partOf(request)
      const opening = yield* store.opening(list, part, lists)
      shared.opening = { part, read: opening }
      yield* requireSource(store, opening, request)
      const { resumeAt, start, totals } = yield* nextScan(store, list, request, opening)
      return {
        start,
        resumeAt,
        progress: ScanTotals.progressOf(totals),
        owner: yield* ownerOf(store, salt, lists, opening),
        personal: opening.personal,
        filling: pending(opening, list)
      }
    })
  )

const beginScan = Effect.fnUntraced(function*(context: SessionContext) {
  const { list, request, shared, store } = context
  // The list's transactions must not overlap: another part of the list may be committing.
  const { close, flush, session } = yield* shared.mutex.withPermits(1)(
    prepare(context).pipe(
      Effect.flatMap((opening) => open(store, list, request, opening)),
      Effect.map((opened) => makeScan(context, opened))
    )
  )
  // Pending unchanged batches are flushed when the scope closes and while the next page is awaited. The next commit
  // reports any error.
  yield* Effect.addFinalizer(() => close(finalFlushTimeout))
  yield* Effect.forkScoped(Effect.forever(Effect.delay(Effect.ignore(flush), flushInterval)))
  return session
})

/** Takes a list over, checks that the request may write it, and fills its new columns. Returns what was read before. */
const prepare = Effect.fnUntraced(function*(
  { list, lists, request, shared, store }: SessionContext
): Effect.fn.Return<Opening, SinkError> {
  const mayBeOutdated = yield* store.takeOver(list.label)
  const [part, personal] = [partOf(request), bindingOf(request)]
  const { opening: kept } = shared
  shared.opening = undefined
  const isCurrent = !mayBeOutdated && kept?.part === part && changeSince(kept.read.personal, personal) === undefined
  const opening = isCurrent ? kept.read : yield* store.opening(list, part, lists)
  yield* requireSource(store, opening, request)
  // Fail also if personal data has changed since the scan or pass read its state.
  const reason = changeSince(opening.personal, personal)
  if (reason !== undefined) return yield* new SinkError({ location: store.location, reason })
  if (opening.source !== undefined && opening.source !== request.source) yield* store.rebind(list, request.source)
  yield* fillColumns(store, list, personal, opening.columns)
  return opening
})

/** Fails if the destination has another source, unless the request rebinds it. */
const requireSource = (
  { location }: Store,
  { source: bound }: Pick<Opening, "source">,
  { rebind = false, source }: Pick<ScanRequest, "rebind" | "source">
): Effect.Effect<void, SinkError> =>
  bound === undefined || bound === source || rebind
    ? Effect.void
    : Effect.fail(new SinkError({ location, reason: new OtherSource({ bound, given: source }) }))
