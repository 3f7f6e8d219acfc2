/** A sink over a {@link Store}. It opens the scans and passes of lists, and is the same for every database. */
import { Lists } from "@payments/core"
import { Duration, Effect } from "effect"
import { randomUUID } from "node:crypto"
import * as ScanTotals from "../plan/ScanTotals.ts"
import { OtherSource, type ScanRequest, Sink, SinkError } from "../port/Sink.ts"
import { fillColumns, pending } from "../store/Filling.ts"
import { freshnessOf, overviewOf } from "../store/Freshness.ts"
import { bindingOf, changeSince } from "../store/PersonalBinding.ts"
import type { Store } from "../store/Store.ts"
import { timestamp } from "../store/StoredRows.ts"
import { ownerOf } from "./BoundMerchant.ts"
import { nextScan, open } from "./NextScan.ts"
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
          return { start, resumeAt, progress: ScanTotals.progressOf(totals), owner: yield* owner, filling }
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
        const context = { store, list, request, shared: stateOf(list) }
        const withMutex = context.shared.mutex.withPermits(1)
        // The list's transactions must not overlap: another part of the list may be committing.
        yield* withMutex(prepare(context))
        const { close, flush, session } = yield* withMutex(
          Effect.map(open(store, list, request), (opened) => makeScan(context, opened))
        )
        // Pending unchanged batches are flushed when the scope closes and while the next page is awaited. The next commit
        // reports any error.
        yield* Effect.addFinalizer(() => close(finalFlushTimeout))
        yield* Effect.forkScoped(Effect.forever(Effect.delay(Effect.ignore(flush), flushInterval)))
        return session
      }),
    passes: {
      begin: (list, kind, request) =>
        Effect.suspend(() => {
          const context = { store, list, request: { ...request, rebind: false }, shared: stateOf(list) }
          return context.shared.mutex.withPermits(1)(Effect.andThen(prepare(context), makePass(context, kind)))
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

/** Takes a list over, checks that the request may write it, and fills its new columns. */
const prepare = Effect.fnUntraced(function*(
  { list, request, store }: SessionContext
): Effect.fn.Return<void, SinkError> {
  yield* store.takeOver(list.label)
  const bound = yield* requireSource(store, request)
  yield* requirePersonal(store, request)
  if (bound === "other") yield* store.rebind(list, request.source)
  yield* fillColumns(store, list, bindingOf(request))
})

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
