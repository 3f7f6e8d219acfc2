/**
 * One traversal of a list. Pages are prefetched, checked by the guard if the destination stores them, and committed. A page
 * that fails is requested again.
 */
import {
  BeforePage,
  type Lists,
  Monotonic,
  type Page,
  PaymentsApi,
  type PaymentsError,
  Position,
  RetryPolicy
} from "@payments/core"
import { type Cause, Duration, Effect, Exit, Pull, Queue, type Scope, Stream } from "effect"
import { countPath } from "../plan/ScanTotals.ts"
import type { Batch, OwnerClaim, Part, ScanKind, ScanProgress, Session, Sink, SinkError } from "../port/Sink.ts"
import { type Backlog, backlogOf } from "./Backlog.ts"
import { maxBufferedRecords, type MerchantGuard } from "./MerchantGuard.ts"
import type { PageGate } from "./PageGate.ts"
import type { ReadPage, RequestOrder } from "./ReadPage.ts"

/** What happens during a traversal. */
export type TraversalEvent =
  /** Pages were committed, or they changed nothing and will be committed soon. */
  | {
    readonly _tag: "Committed"
    readonly list: Lists.ListName
    readonly kind: ScanKind
    readonly progress: ScanProgress
    /** The progress before the commit. */
    readonly before: ScanProgress
    readonly retries: number
    /** The duration of the commit. */
    readonly elapsed: Duration.Duration
  }
  | {
    readonly _tag: "Waiting"
    readonly list: Lists.ListName
    readonly kind: "full"
    readonly error: PaymentsError
    readonly wait: Duration.Duration
  }
  | { readonly _tag: "Restarted"; readonly list: Lists.ListName; readonly kind: "full" }

/** The number of restarts after a refused cursor. If a third cursor is refused, the list's cursors expire too fast. */
const maxRestarts = 2
/** The wait before a failed page is requested again. It doubles up to the maximum. */
export const firstWait = Duration.seconds(1)
const maxWait = Duration.minutes(1)
/** How long the guard waits for more pages, so that a slow service loses few pages by an interruption. */
const maxUndecided = Duration.toMillis("5 seconds")

/** The time when this run last received or committed a page. All parts of a list share it. */
export interface LastProgress {
  at: number | undefined
}

/** The state of a running scan, or of a pass over a part of a list. */
export interface Traversal {
  readonly kind: ScanKind
  /** Pauses a full scan while a pass runs. */
  readonly gate: PageGate | undefined
  /** Opens the session. Later calls return the same session. */
  readonly begin: Effect.Effect<Session, SinkError>
  /** The session, after the first commit. */
  session: Session | undefined
  readonly guard: MerchantGuard | undefined
  /** Returns the number of a request or an answer, in their order. */
  readonly next: () => number
  /** Makes what the destination needs of a page. */
  readonly convert: (page: Page<{ readonly id: string }>, order: RequestOrder) => ReadPage
  /** Whether the guard decides about each page at once, because the pages that it waited with were lost by an error. */
  mustDecide: boolean
  /** Whether the next commit restarts the scan. */
  restart: boolean
  position: Position.Position | undefined
  /** Whether the traversal starts at a position that an earlier run saved. */
  isResumed: boolean
  retries: number
  readonly startedAt: number
  readonly lastProgress: LastProgress
  wait: Duration.Duration
  restarts: number
}

type Emit = (event: TraversalEvent) => Effect.Effect<void>

/** Reads the list from the traversal's position to the end, and commits the pages. */
export const traverse = Effect.fnUntraced(function*(
  list: Lists.AnyList,
  part: Part | undefined,
  limit: number,
  largestBatch: number,
  sink: Sink["Service"],
  state: Traversal,
  emit: Emit
): Effect.fn.Return<"done" | "again", PaymentsError | SinkError, PaymentsApi | Scope.Scope> {
  const api = yield* PaymentsApi
  const { name } = list
  const query = { limit, position: state.position, onBadRecord: "quarantine" } as const
  const listing: Stream.Stream<Page<{ readonly id: string }>, PaymentsError> = api[name].pages(
    part === undefined ? query : { ...query, [part.field]: part.value }
  )
  const maxPages = Math.max(1, Math.floor(largestBatch / limit))
  const backlog = yield* backlogOf(sink)
  const { gate } = state
  if (gate !== undefined) {
    yield* Effect.addFinalizer((exit) => Exit.isSuccess(exit) ? Effect.void : Effect.sync(gate.clear))
  }
  /** The numbers of the requests that are not answered yet. */
  const requests: Array<number> = []
  const read = Stream.map(listing, (page) => {
    const received = state.next()
    return state.convert(page, { requested: requests.shift() ?? 0, received })
  })
  const noteRequest = Effect.sync(() => void requests.push(state.next()))
  const queue = yield* prefetch(read, maxPages, backlog).pipe(
    Effect.provideService(BeforePage, gate === undefined ? noteRequest : Effect.andThen(gate.request, noteRequest))
  )
  /** Pages that are not committed yet. */
  const pending: Array<ReadPage> = []
  /** When the guard began to wait for more pages. */
  let undecidedSince: number | undefined
  /** How many of them, from the first one on, the guard needs for a decision. They no longer count in the backlog. */
  let undecided = 0

  const noteProgress = Effect.map(Monotonic.millis, (now) => {
    state.lastProgress.at = now
    state.wait = firstWait
  })
  // Pages that arrive during a commit share the next batch, and its sync to disk.
  const receive = Effect.suspend(() => {
    const records = pending.reduce((sum, page) => sum + page.records.length, 0)
    const room = Math.max(1, Math.min(maxPages, Math.floor((maxBufferedRecords - records) / limit)))
    return Effect.flatMap(Queue.takeBetween(queue, 1, room), (pages) => {
      pending.push(...pages)
      return noteProgress
    })
  })
  const leaveUndecided = Effect.map(Monotonic.millis, (now) => {
    undecidedSince = pending.length === 0 ? undefined : undecidedSince ?? now
    for (const { characters } of pending.slice(undecided)) backlog.remove(characters)
    undecided = pending.length
    if (undecided > 0) gate?.requireMore()
  })
  /** Commits the first pending pages. A generator would keep the texts of the last batch alive until the next batch. */
  const write = (count: number): Effect.Effect<void, SinkError> => {
    const pages = pending.splice(0, count)
    const inBacklog = pages.slice(undecided).map(({ characters }) => characters)
    undecided = Math.max(0, undecided - count)
    return Effect.flatMap(commit(name, pages, state, emit), () => {
      for (const characters of inBacklog) backlog.remove(characters)
      gate?.commit(pages.filter(({ next }) => next !== null).length)
      undecidedSince = undefined
      state.mustDecide = false
      return noteProgress
    })
  }
  const mustDecide = Effect.map(Monotonic.millis, (now) =>
    state.mustDecide || gate?.hasPass() === true ||
    (undecidedSince !== undefined && now - undecidedSince >= maxUndecided))
  const writeAdmitted: Effect.Effect<void, PaymentsError | SinkError> = Effect.suspend(() =>
    Effect.flatMap(
      state.guard === undefined ?
        Effect.succeed(pending.length) :
        Effect.flatMap(mustDecide, (must) => state.guard?.admit(pending, must) ?? Effect.succeed(pending.length)),
      (admitted) => admitted === 0 ? leaveUndecided : Effect.andThen(write(Math.min(admitted, maxPages)), writeAdmitted)
    )
  )
  return yield* Pull.catchDone(
    Effect.forever(Effect.andThen(receive, writeAdmitted)),
    () => Effect.succeed("done" as const)
  )
}, Effect.scoped)

/** Prefetches pages until the queue has `maxPages` of them or the backlog is full. Queued pages have no parsed records. */
const prefetch = Effect.fnUntraced(function*(
  pages: Stream.Stream<ReadPage, PaymentsError>,
  maxPages: number,
  backlog: Backlog
) {
  const queue = yield* Queue.bounded<ReadPage, PaymentsError | Cause.Done>(maxPages)
  yield* Stream.runForEach(pages, (page) => Effect.andThen(Queue.offer(queue, page), backlog.add(page.characters)))
    .pipe(Queue.into(queue), Effect.forkScoped)
  return queue
})

/** Commits pages as one batch. The first batch opens the session. */
const commit = (
  name: Lists.ListName,
  pages: ReadonlyArray<ReadPage>,
  state: Traversal,
  emit: Emit
): Effect.Effect<void, SinkError> => {
  const next = pages.at(-1)?.next ?? null
  const attempts = pages.map((page) => page.attempts)
  const count = pages.reduce((sum, { records }) => sum + records.length, 0)
  const claim = state.guard?.claim(pages) ?? Effect.undefined
  return Effect.flatMap(
    Effect.all([openSession(state), claim]),
    ([session, owner]) =>
      Effect.flatMap(
        session.progress,
        (before) =>
          Effect.flatMap(Effect.timed(session.commit(toBatch(pages, owner))), ([elapsed, progress]) => {
            state.position = next ?? undefined
            state.guard?.noteCommit(count)
            for (const attempt of attempts) state.retries += attempt - 1
            return emit({
              _tag: "Committed",
              list: name,
              kind: state.kind,
              before,
              progress,
              retries: state.retries,
              elapsed
            })
          })
      )
  )
}

/** Opens the session, and restarts the scan if the traversal was restarted. */
const openSession = (state: Traversal): Effect.Effect<Session, SinkError> =>
  Effect.flatMap(state.begin, (session) => {
    state.session = session
    const { restart } = state
    state.restart = false
    return restart ? Effect.as(session.restart, session) : Effect.succeed(session)
  })

/** Makes one batch of pages. */
export const toBatch = (pages: ReadonlyArray<ReadPage>, owner: OwnerClaim | undefined): Batch => {
  const undocumented = new Map<string, number>()
  for (const page of pages) for (const [path, records] of page.undocumented) countPath(undocumented, path, records)
  const next = pages.at(-1)?.next ?? null
  return {
    pages: pages.length,
    records: pages.flatMap(({ records }) => records),
    undocumented,
    checkpoint: next === null ? null : Position.toJson(next),
    owner
  }
}

/** Decides after an error: returns "again", perhaps after a wait, if the traversal can continue, and fails otherwise. */
export const recover = Effect.fnUntraced(function*(
  error: PaymentsError,
  patience: Duration.Duration,
  state: Traversal,
  emit: Emit
): Effect.fn.Return<"again", PaymentsError | SinkError> {
  const { reason } = error
  state.mustDecide = true
  // A cursor that an earlier run saved may have expired, or may now lead to a cycle. The list may still be readable.
  const isExpired = reason._tag === "PaginationFault" &&
    (reason.kind === "cursorRefused" || (reason.kind === "repeatedCursor" && state.isResumed))
  if (isExpired && state.restarts < maxRestarts) {
    state.restarts++
    state.position = undefined
    state.isResumed = false
    // The restart is written with the first page that follows, because the guard must admit that page first: a cursor may be
    // refused because the key now belongs to another merchant.
    state.restart = true
    yield* emit({ _tag: "Restarted", list: error.list, kind: "full" })
    return "again"
  }
  // End this scan as incomplete, so that the next run starts a new one.
  if (reason._tag === "PaginationFault" && state.session !== undefined) yield* state.session.giveUp
  if (!RetryPolicy.isRetryable(reason)) return yield* error
  const retryAfter = reason._tag === "RateLimited" || reason._tag === "ServerFailure" ? reason.retryAfter : undefined
  // If the service has not responded in this run, it is probably down or the configuration is wrong, so fail at once. A rate
  // limit or a Retry-After counts as a response.
  const hasResponded = reason._tag === "RateLimited" || retryAfter !== undefined
  const since = state.lastProgress.at ?? (hasResponded ? state.startedAt : undefined)
  if (since === undefined) return yield* error
  const wait = Duration.max(state.wait, retryAfter ?? Duration.zero)
  const until = (yield* Monotonic.millis) + Duration.toMillis(wait)
  if (until - since > Duration.toMillis(patience)) return yield* error
  state.retries += error.attempts
  state.wait = Duration.min(Duration.times(state.wait, 2), maxWait)
  yield* emit({ _tag: "Waiting", list: error.list, kind: "full", error, wait })
  yield* Effect.sleep(wait)
  return "again"
})
