/**
 * One traversal of a list: pages are read ahead, judged by the guard where something is kept, and committed; a page that
 * fails is asked for again.
 */
import {
  type Lists,
  Monotonic,
  type Page,
  PaymentsApi,
  type PaymentsError,
  Position,
  RetryPolicy
} from "@payments/core"
import { type Cause, Duration, Effect, Latch, Pull, Queue, type Scope, Stream } from "effect"
import { type Backlog, backlogOf } from "./Backlog.ts"
import { countPath } from "./engine/Tally.ts"
import { type Guard, mostWaiting } from "./Guard.ts"
import { type ReadPage, toReadPage } from "./ReadPage.ts"
import type { Batch, OwnerClaim, Part, ScanProgress, ScanSession, Sink, SinkError } from "./Sink.ts"

/** What happens during a traversal. */
export type TraversalEvent =
  /** Pages were read, and committed, or wait for a commit that comes soon where they changed nothing. */
  | {
    readonly _tag: "Committed"
    readonly list: Lists.ListName
    readonly progress: ScanProgress
    readonly retries: number
  }
  | {
    readonly _tag: "Waiting"
    readonly list: Lists.ListName
    readonly error: PaymentsError
    readonly wait: Duration.Duration
  }
  | { readonly _tag: "Restarted"; readonly list: Lists.ListName }

/** A refused cursor lets a scan begin again twice; a third one says that this list's cursors do not last. */
const restartsAllowed = 2
/** What is waited for before a page is asked for again, first and later. */
export const firstWait = Duration.seconds(1)
const longestWait = Duration.minutes(1)
/** How many pages make a batch, and how long they are waited for. A local service sends a page in about 1 ms. */
const pagesInBatch = 8
const gatheringTakes = Duration.millis(10)

/** When a page was last committed in this run: of the list, or of any of its parts. */
export interface Progressed {
  at: number | undefined
}

/** Where a running scan stands. */
export interface Traversal {
  /** Opens the session, once. */
  readonly begin: Effect.Effect<ScanSession, SinkError>
  /** Open from the first commit on. */
  session: ScanSession | undefined
  readonly guard: Guard | undefined
  /** Whether the traversal begins again with the next commit. */
  restart: boolean
  at: Position.Position | undefined
  /** Whether the traversal began at a position that an earlier run had left. */
  saved: boolean
  retries: number
  readonly startedAt: number
  readonly progressed: Progressed
  wait: Duration.Duration
  restarts: number
}

type Emit = (event: TraversalEvent) => Effect.Effect<void>

/** Reads the list from where the traversal stands to its end, and commits what it reads. */
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
  const query = { limit, position: state.at, onBadRecord: "quarantine" } as const
  const listing: Stream.Stream<Page<{ readonly id: string }>, PaymentsError> = api[name].pages(
    part === undefined ? query : { ...query, [part.field]: part.value }
  )
  const most = Math.max(1, Math.floor(largestBatch / limit))
  const backlog = yield* backlogOf(sink)
  const { gathered, queue } = yield* readAhead(Stream.map(listing, toReadPage(list)), most, backlog)
  /** Pages that are not committed yet. */
  const waiting: Array<ReadPage> = []
  /** How many of them, from the first one on, are no longer in the backlog: those that the guard holds back. */
  let heldBack = 0

  const arrived = Effect.map(Monotonic.millis, (now) => {
    state.progressed.at = now
    state.wait = firstWait
  })
  // Pages that came meanwhile share a batch, and its wait for the disk. The first page is written at once.
  const takeNext = Effect.suspend(() => {
    const records = waiting.reduce((sum, page) => sum + page.records.length, 0)
    const room = Math.max(1, Math.min(most, Math.floor((mostWaiting - records) / limit)))
    const some = Queue.takeBetween(queue, 1, room)
    return Effect.flatMap(state.session === undefined ? some : Effect.andThen(gathered, some), (pages) => {
      waiting.push(...pages)
      return arrived
    })
  })
  const holdBack = Effect.sync(() => {
    for (const { characters } of waiting.slice(heldBack)) backlog.remove(characters)
    heldBack = waiting.length
  })
  /** No generator: between two batches it would keep the texts of the last one alive. */
  const write = (count: number): Effect.Effect<void, SinkError> => {
    const pages = waiting.splice(0, count)
    const stillIn = pages.slice(heldBack).map(({ characters }) => characters)
    heldBack = Math.max(0, heldBack - count)
    return Effect.flatMap(commit(name, pages, state, emit), () => {
      for (const characters of stillIn) backlog.remove(characters)
      return arrived
    })
  }
  const writeAdmitted: Effect.Effect<void, PaymentsError | SinkError> = Effect.suspend(() =>
    Effect.flatMap(
      state.guard?.admit(waiting) ?? Effect.succeed(waiting.length),
      (admitted) => admitted === 0 ? holdBack : Effect.andThen(write(Math.min(admitted, most)), writeAdmitted)
    )
  )
  return yield* Pull.catchDone(
    Effect.forever(Effect.andThen(takeNext, writeAdmitted)),
    () => Effect.succeed("done" as const)
  )
}, Effect.scoped)

/**
 * Reads pages until `most` of them wait, or the backlog is full. Pages that wait hold no parsed records. `gathered` waits until a
 * batch has gathered, but not long: each batch wakes the thread of the destination, or its server, which can cost more than
 * finding a page unchanged.
 */
const readAhead = Effect.fnUntraced(function*(
  pages: Stream.Stream<ReadPage, PaymentsError>,
  most: number,
  backlog: Backlog
) {
  const queue = yield* Queue.bounded<ReadPage, PaymentsError | Cause.Done>(most)
  const enough = Latch.makeUnsafe()
  let isRead = false
  yield* Stream.runForEach(pages, (page) =>
    Effect.flatMap(Queue.offer(queue, page), () => {
      if (Queue.sizeUnsafe(queue) >= Math.min(most, pagesInBatch)) enough.openUnsafe()
      return backlog.add(page.characters)
    })).pipe(
      Queue.into(queue),
      Effect.ensuring(Effect.sync(() => {
        isRead = true
        enough.openUnsafe()
      })),
      Effect.forkScoped
    )
  const gathered = Effect.flatMap(Effect.timeoutOption(enough.await, gatheringTakes), () => {
    if (!isRead) enough.closeUnsafe()
    return Effect.void
  })
  return { queue, gathered }
})

/** Commits pages as one batch. The first one opens the session. */
const commit = (
  name: Lists.ListName,
  pages: ReadonlyArray<ReadPage>,
  state: Traversal,
  emit: Emit
): Effect.Effect<void, SinkError> => {
  const next = pages.at(-1)?.next ?? null
  const attempts = pages.map((page) => page.attempts)
  const claim = state.guard?.claim(pages) ?? Effect.undefined
  return Effect.flatMap(
    Effect.all([opened(state), claim]),
    ([session, owner]) =>
      Effect.flatMap(session.commit(toBatch(pages, owner)), (progress) => {
        state.at = next ?? undefined
        for (const made of attempts) state.retries += made - 1
        return emit({ _tag: "Committed", list: name, progress, retries: state.retries })
      })
  )
}

/** The session, in which the traversal has begun again if it was to. */
const opened = (state: Traversal): Effect.Effect<ScanSession, SinkError> =>
  Effect.flatMap(state.begin, (session) => {
    state.session = session
    const { restart } = state
    state.restart = false
    return restart ? Effect.as(session.restart, session) : Effect.succeed(session)
  })

const toBatch = (pages: ReadonlyArray<ReadPage>, owner: OwnerClaim | undefined): Batch => {
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

/** Whether, and after what wait, a failed traversal goes on from its last committed page. */
export const recover = Effect.fnUntraced(function*(
  error: PaymentsError,
  patience: Duration.Duration,
  state: Traversal,
  emit: Emit
): Effect.fn.Return<"again", PaymentsError | SinkError> {
  const { reason } = error
  // A cursor that an earlier run left may be refused by now, or lead in circles; the list itself need not.
  const spent = reason._tag === "PaginationFault" &&
    (reason.kind === "cursorRefused" || (reason.kind === "repeatedCursor" && state.saved))
  if (spent && state.restarts < restartsAllowed) {
    state.restarts++
    state.at = undefined
    state.saved = false
    // Written with the first page that comes then: another key may be why the cursor was refused.
    state.restart = true
    yield* emit({ _tag: "Restarted", list: error.list })
    return "again"
  }
  // This listing leads nowhere; another one may.
  if (reason._tag === "PaginationFault" && state.session !== undefined) yield* state.session.giveUp
  if (!RetryPolicy.isRetryable(reason)) return yield* error
  const asked = reason._tag === "RateLimited" || reason._tag === "ServerFailure" ? reason.retryAfter : undefined
  // A service that has not answered once in this run is more likely set wrong or down than hiccuping: that is said at
  // once. One that limits us or names a time has answered.
  const answered = reason._tag === "RateLimited" || asked !== undefined
  const since = state.progressed.at ?? (answered ? state.startedAt : undefined)
  if (since === undefined) return yield* error
  const wait = Duration.max(state.wait, asked ?? Duration.zero)
  const until = (yield* Monotonic.millis) + Duration.toMillis(wait)
  if (until - since > Duration.toMillis(patience)) return yield* error
  state.retries += error.attempts
  state.wait = Duration.min(Duration.times(state.wait, 2), longestWait)
  yield* emit({ _tag: "Waiting", list: error.list, error, wait })
  yield* Effect.sleep(wait)
  return "again"
})
