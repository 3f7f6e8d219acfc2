/**
 * Reads the pages of a list and commits them. Four guards may hold a page back, in this order:
 *
 * 1. The page gate: a full scan requests no page while a pass waits or runs.
 * 2. The progress guard of the client's list reader: a list that leads back to an earlier page fails.
 * 3. The backlog: no further page is read while too much text waits to be written.
 * 4. The merchant guard: pages of another merchant fail, and pages in doubt wait for the next ones.
 */
import { BeforePage, type Lists, Monotonic, type Page, type PaymentsError, Position, RetryPolicy } from "@payments/core"
import { type Cause, Duration, Effect, Option, Pull, Queue, type Scope, Stream } from "effect"
import { firstSight, type ListSight, withPage } from "../plan/PageSight.ts"
import type { Batch, Part, ScanKind, ScanProgress, ScanStart, Session, Sink, SinkError } from "../port/Sink.ts"
import type { Redactor } from "../rule/OpenPersonal.ts"
import { type Backlog, backlogOf } from "./Backlog.ts"
import { type GuardedScan, maxBufferedRecords } from "./Evidence.ts"
import { admitAll, makeGuard, type MerchantGuard } from "./MerchantGuard.ts"
import { charactersIn, joined, type PageBatch, recordsIn, toPageBatch } from "./PageBatch.ts"
import type { PageGate } from "./PageGate.ts"

export type ReadingEvent =
  | {
    readonly _tag: "Begun"
    readonly list: Lists.ListName
    readonly kind: ScanKind
    readonly part: Part | undefined
    readonly start: ScanStart
    readonly progress: ScanProgress
  }
  /** Pages were committed, or they changed nothing and will be committed soon. */
  | {
    readonly _tag: "Committed"
    readonly list: Lists.ListName
    readonly kind: ScanKind
    readonly progress: ScanProgress
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
const firstWait = Duration.seconds(1)
const maxWait = Duration.minutes(1)
/** How long the guard waits for more pages, so that a slow service loses few pages by an interruption. */
const maxUndecided = Duration.toMillis("5 seconds")

/** When this run last received or committed a page. All parts of a list share it. */
export interface LastProgress {
  at: number | undefined
}

interface ReadingOptions extends Omit<GuardedScan, "location" | "inspect" | "preview"> {
  readonly sink: Sink["Service"]
  /** Undefined for a destination that stores nothing. */
  readonly preview: GuardedScan["preview"] | undefined
  /** In records. */
  readonly largestBatch: number
  readonly redactor: Redactor
  readonly gate: PageGate
  /** Opens the session. Later calls return the same one. */
  readonly begin: Effect.Effect<Session, SinkError>
  readonly startedAt: number
  readonly lastProgress: LastProgress
  readonly emit: (event: ReadingEvent) => Effect.Effect<void>
}

/** A running scan or pass, with the state that survives an error. */
export interface Reading extends ReadingOptions {
  readonly guard: MerchantGuard
  readonly convert: ReturnType<typeof toPageBatch>
  /** Pages per batch. */
  readonly maxPages: number
  /** Undefined before the first commit. */
  session: Session | undefined
  /** Whether the guard decides about each page at once, because the pages that it waited with were lost by an error. */
  mustDecide: boolean
  /** Whether the next commit restarts the scan. */
  restart: boolean
  /** The last batch of the list, if it waits for look-ups. */
  waiting: Batch | undefined
  /** The position after which to read, as a batch has it. */
  checkpoint: string | undefined
  /** Whether the reading starts at a position that an earlier run saved. */
  isResumed: boolean
  retries: number
  /** What the committed pages of this run show about the service. */
  sight: ListSight
  wait: Duration.Duration
  restarts: number
}

export const makeReading = (options: ReadingOptions): Reading => {
  const { largestBatch, limit, list, preview, redactor, sink: { inspect, location } } = options
  const checkpoint = preview?.resumeAt
  return {
    ...options,
    guard: inspect === undefined || preview === undefined
      ? admitAll
      : makeGuard({ ...options, location, inspect, preview }),
    convert: toPageBatch(list, redactor),
    maxPages: Math.max(1, Math.floor(largestBatch / limit)),
    session: undefined,
    mustDecide: false,
    restart: false,
    waiting: undefined,
    checkpoint,
    isResumed: checkpoint !== undefined,
    retries: 0,
    sight: firstSight(checkpoint === undefined),
    wait: firstWait,
    restarts: 0
  }
}

/** The pages that are read and not committed yet. */
interface HeldPages {
  readonly pages: Array<PageBatch>
  readonly backlog: Backlog
  /** When the guard began to wait for more pages. */
  undecidedSince: number | undefined
  /** How many of them, from the first one on, the guard needs for a decision. They no longer count in the backlog. */
  undecided: number
}

/** Reads the list from the reading's position to the end, and commits the pages. */
export const readPages = Effect.fnUntraced(
  function*(
    reading: Reading
  ): Effect.fn.Return<"done" | "again", PaymentsError | SinkError, Scope.Scope> {
    const backlog = yield* backlogOf(reading.sink)
    const held: HeldPages = { pages: [], backlog, undecidedSince: undefined, undecided: 0 }
    const queue = yield* prefetch(reading, backlog)
    const commitAdmitted: Effect.Effect<void, PaymentsError | SinkError> = Effect.suspend(() =>
      Effect.flatMap(
        admit(reading, held),
        (admitted) =>
          admitted === 0
            ? holdUndecided(reading, held)
            : Effect.andThen(commitFirst(reading, held, admitted), commitAdmitted)
      )
    )
    return yield* Pull.catchDone(
      Effect.forever(Effect.andThen(receive(reading, held, queue), commitAdmitted)),
      () => Effect.succeed("done" as const)
    )
  },
  Effect.scoped,
  (read, { gate }) => Effect.onError(read, () => Effect.sync(gate.clear))
)

type PageQueue = Queue.Queue<PageBatch, PaymentsError | Cause.Done>

/** Prefetches pages until the queue has `maxPages` of them or the backlog is full. Queued pages have no parsed records. */
const prefetch = Effect.fnUntraced(function*(reading: Reading, backlog: Backlog) {
  const { api, checkpoint, convert, gate, limit, list, maxPages, part, source: { next } } = reading
  // The sink returns only checkpoints that can be decoded.
  const position = checkpoint === undefined ? undefined : Option.getOrThrow(Position.fromJson(checkpoint))
  const query = { limit, position, onBadRecord: "quarantine" } as const
  const pages: Stream.Stream<Page<{ readonly id: string }>, PaymentsError> = api[list.name].pages(
    part === undefined ? query : { ...query, [part.field]: part.value }
  )
  /** The numbers of the requests that are not answered yet. */
  const requests: Array<number> = []
  const queue: PageQueue = yield* Queue.bounded<PageBatch, PaymentsError | Cause.Done>(maxPages)
  yield* Stream.runForEach(pages, (page) => {
    const received = next()
    const batch = convert(page, { requested: requests.shift() ?? 0, received })
    return Effect.andThen(Queue.offer(queue, batch), backlog.add(batch.characters))
  }).pipe(
    Effect.provideService(BeforePage, Effect.andThen(gate.request, Effect.sync(() => void requests.push(next())))),
    Queue.into(queue),
    Effect.forkScoped
  )
  return queue
})

/** Takes the pages that have arrived. Those that arrive during a commit share the next batch, and its sync to disk. */
const receive = (reading: Reading, { pages }: HeldPages, queue: PageQueue) =>
  Effect.suspend(() => {
    const room = Math.floor((maxBufferedRecords - recordsIn(pages)) / reading.limit)
    return Effect.flatMap(Queue.takeBetween(queue, 1, Math.max(1, Math.min(reading.maxPages, room))), (received) => {
      pages.push(...received)
      return noteProgress(reading)
    })
  })

const noteProgress = (reading: Reading) =>
  Effect.map(Monotonic.millis, (now) => {
    reading.lastProgress.at = now
    reading.wait = firstWait
  })

/** Returns how many of the pages, from the first one on, may be committed now. */
const admit = ({ gate, guard, mustDecide }: Reading, { pages, undecidedSince }: HeldPages) =>
  Effect.flatMap(Monotonic.millis, (now) => {
    const isOverdue = undecidedSince !== undefined && now - undecidedSince >= maxUndecided
    return guard.admit(pages, mustDecide || gate.hasPass() || isOverdue)
  })

/** Keeps the pages until more of them arrive. They leave the backlog: otherwise a full one would hold back what they wait for. */
const holdUndecided = ({ gate }: Reading, held: HeldPages) =>
  Effect.map(Monotonic.millis, (now) => {
    const { pages } = held
    held.undecidedSince = pages.length === 0 ? undefined : held.undecidedSince ?? now
    held.backlog.remove(charactersIn(pages.slice(held.undecided)))
    held.undecided = pages.length
    if (pages.length > 0) gate.requireMore()
  })

/** Commits the first pages. A generator would keep the texts of the last batch alive until the next batch. */
const commitFirst = (reading: Reading, held: HeldPages, admitted: number): Effect.Effect<void, SinkError> => {
  const pages = held.pages.splice(0, Math.min(admitted, reading.maxPages))
  const characters = charactersIn(pages.slice(held.undecided))
  const requested = pages.filter(({ next }) => next !== null).length
  held.undecided = Math.max(0, held.undecided - pages.length)
  for (const { attempts } of pages) reading.retries += attempts - 1
  return Effect.flatMap(commitPages(reading, pages), () => {
    held.backlog.remove(characters)
    reading.gate.commit(requested)
    held.undecidedSince = undefined
    reading.mustDecide = false
    return noteProgress(reading)
  })
}

/** Commits pages as one batch. The first batch opens the session. */
export const commitPages = (
  reading: Reading,
  pages: ReadonlyArray<PageBatch>
): Effect.Effect<void, SinkError> => {
  return Effect.flatMap(
    Effect.all([openSession(reading), reading.guard.claim(pages)]),
    ([session, owner]) => commitBatch(reading, session, joined(pages, owner), pages)
  )
}

/** Commits a batch. `pages` are those of the list that it has, in their order. */
export const commitBatch = (
  reading: Reading,
  session: Session,
  batch: Batch,
  pages: ReadonlyArray<PageBatch>
): Effect.Effect<void, SinkError> => {
  const { emit, guard, kind, list } = reading
  const records = batch.records.length
  const checkpoint = batch.checkpoint ?? undefined
  return Effect.flatMap(
    session.progress,
    (before) =>
      Effect.flatMap(Effect.timed(session.commit(batch)), ([elapsed, progress]) => {
        reading.waiting = progress.unseen > 0 ? batch : undefined
        reading.checkpoint = checkpoint
        reading.sight = pages.reduce((sight, page) => withPage(sight, page.sight), reading.sight)
        guard.noteCommit(records)
        const { retries } = reading
        return emit({ _tag: "Committed", list: list.name, kind, before, progress, retries, elapsed })
      })
  )
}

/** Opens the session, and restarts the scan if the reading was restarted. */
const openSession = (reading: Reading): Effect.Effect<Session, SinkError> =>
  Effect.flatMap(reading.begin, (session) => {
    reading.session = session
    const { restart } = reading
    reading.restart = false
    return restart ? Effect.as(session.restart, session) : Effect.succeed(session)
  })

/** Decides after an error: returns "again", perhaps after a wait, if the reading can continue, and fails otherwise. */
export const recover = Effect.fnUntraced(function*(
  error: PaymentsError,
  patience: Duration.Duration,
  reading: Reading
): Effect.fn.Return<"again", PaymentsError | SinkError> {
  const { reason } = error
  reading.mustDecide = true
  // A cursor that an earlier run saved may have expired, or may now lead to a cycle. The list may still be readable.
  const isExpired = reason._tag === "PaginationFault" &&
    (reason.kind === "cursorRefused" || (reason.kind === "repeatedCursor" && reading.isResumed))
  if (isExpired && reading.restarts < maxRestarts) {
    reading.restarts++
    reading.checkpoint = undefined
    reading.isResumed = false
    // The restart is written with the first page that follows, after the guard has admitted that page. The cursor may have been
    // refused because the key now belongs to another merchant.
    reading.restart = true
    reading.sight = firstSight(true)
    yield* reading.emit({ _tag: "Restarted", list: error.list, kind: "full" })
    return "again"
  }
  // End this scan as incomplete, so that the next run starts a new one.
  if (reason._tag === "PaginationFault" && reading.session !== undefined) yield* reading.session.giveUp
  if (!RetryPolicy.isRetryable(reason)) return yield* error
  const retryAfter = reason._tag === "RateLimited" || reason._tag === "ServerFailure" ? reason.retryAfter : undefined
  // If the service has not responded in this run, it is probably down or the configuration is wrong, so fail at once. A rate
  // limit or a Retry-After counts as a response.
  const hasResponded = reason._tag === "RateLimited" || retryAfter !== undefined
  const since = reading.lastProgress.at ?? (hasResponded ? reading.startedAt : undefined)
  if (since === undefined) return yield* error
  const wait = Duration.max(reading.wait, retryAfter ?? Duration.zero)
  const until = (yield* Monotonic.millis) + Duration.toMillis(wait)
  if (until - since > Duration.toMillis(patience)) return yield* error
  reading.retries += error.attempts
  reading.wait = Duration.min(Duration.times(reading.wait, 2), maxWait)
  yield* reading.emit({ _tag: "Waiting", list: error.list, kind: "full", error, wait })
  yield* Effect.sleep(wait)
  return "again"
})
