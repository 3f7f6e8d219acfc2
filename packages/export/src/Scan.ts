/**
 * A scan: one complete traversal of a list into a destination, from the first page, or the last committed one, to the
 * null cursor. Killed at any instant, the next run goes on from the last committed page.
 */
import {
  Lists,
  Monotonic,
  type Page,
  PaymentsApi,
  type PaymentsError,
  type Position,
  RetryPolicy
} from "@payments/core"
import { type Cause, Duration, Effect, Pull, Queue, Result, type Scope, Stream } from "effect"
import { type Backlog, backlogOf } from "./Backlog.ts"
import { ExitCode, exitCodeOf } from "./ExitCode.ts"
import { readsOf } from "./PageReads.ts"
import {
  type Batch,
  type Part,
  type ReadRecord,
  type ScanProgress,
  type ScanSession,
  type ScanStart,
  Sink,
  type SinkError
} from "./Sink.ts"

/** How to scan. */
export interface ScanOptions {
  /** Records per page, 1 to 100; 100 unless given. A cut scan with another limit is begun anew. */
  readonly limit?: number | undefined
  /** How long a page that keeps failing is asked for again before the scan gives up; 15 minutes unless given. */
  readonly patience?: Duration.Duration | undefined
  /** Members whose difference alone is no change (`authUrl`, which a service may sign anew every time). */
  readonly ignoredFields?: ReadonlyArray<string> | undefined
  /** The share of a list that may go missing at once, 0 to 1; 0.1 unless given. */
  readonly missingLimit?: number | undefined
  /** Binds a destination of another source to this one, for a service that has moved. */
  readonly rebind?: boolean | undefined
  /** Whether another program that writes the list is waited for; refused unless given. */
  readonly onLocked?: "refuse" | "wait" | undefined
  /**
   * The most records that are written at once; 1,000 unless given. A batch is one page, and more only where more have come
   * while the destination was writing.
   */
  readonly largestBatch?: number | undefined
  /** Told of everything that {@link ScanEvent} names, as it happens. */
  readonly onEvent?: ((event: ScanEvent) => Effect.Effect<void>) | undefined
}

/** What happens during a scan. */
export type ScanEvent =
  | {
    readonly _tag: "Begun"
    readonly list: Lists.ListName
    readonly part: Part | undefined
    readonly start: ScanStart
    readonly progress: ScanProgress
  }
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
  | { readonly _tag: "Ended"; readonly list: Lists.ListName; readonly outcome: ScanOutcome }

/** A scan that reached the end of its list. */
export interface ScanSummary extends ScanProgress {
  readonly list: Lists.ListName
  readonly part: Part | undefined
  readonly scan: number
  /** Whether it went on where an earlier run was cut, and why not. */
  readonly start: ScanStart
  /** Requests that had to be made again, in this run. */
  readonly retries: number
  /** Of this run. */
  readonly elapsed: Duration.Duration
}

const defaultPatience = Duration.minutes(15)
/** A refused cursor lets a scan begin again twice; a third one says that this list's cursors do not last. */
const restartsAllowed = 2
const firstWait = Duration.seconds(1)
const longestWait = Duration.minutes(1)

/** Scans one list into the destination, and ends with its null cursor or an error. What was committed stays. */
export const scan = Effect.fn("Export.scan")(function*(name: Lists.ListName, options: ScanOptions = {}) {
  const sink = yield* Sink
  yield* sink.hold(Lists.byName[name], options.onLocked ?? "refuse")
  const started = yield* Monotonic.millis
  const summary = yield* traversal(name, undefined, options, { at: undefined })
  yield* sink.publish(Lists.byName[name])
  return { ...summary, elapsed: Duration.millis((yield* Monotonic.millis) - started) }
}, Effect.scoped)

/** Which parts of a list to scan, and how many at once. */
export interface PartsOptions extends ScanOptions {
  /** The filter that cuts the list. */
  readonly field: string
  readonly values: ReadonlyArray<string>
  /** 4 unless given. */
  readonly concurrency?: number | undefined
}

/**
 * Scans the parts of a list that a filter cuts out, several at once. Each has a checkpoint and a certificate of its own. A
 * record that is in no part is not read, so nothing is concluded to be missing.
 */
export const scanParts = Effect.fn("Export.scanParts")(function*(name: Lists.ListName, options: PartsOptions) {
  const sink = yield* Sink
  yield* sink.hold(Lists.byName[name], options.onLocked ?? "refuse")
  const progressed: Progressed = { at: undefined }
  const summaries = yield* Effect.forEach(
    new Set(options.values),
    (value) => traversal(name, { field: options.field, value }, options, progressed),
    { concurrency: options.concurrency ?? 4 }
  )
  yield* sink.publish(Lists.byName[name])
  return summaries
}, Effect.scoped)

/** When a page was last committed in this run: of the list, or of any of its parts. */
interface Progressed {
  at: number | undefined
}

/** Scans a list that is held, or a part of it. */
const traversal = Effect.fnUntraced(function*(
  name: Lists.ListName,
  part: Part | undefined,
  options: ScanOptions,
  progressed: Progressed
): Effect.fn.Return<ScanSummary, PaymentsError | SinkError, PaymentsApi | Sink | Scope.Scope> {
  const api = yield* PaymentsApi
  const sink = yield* Sink
  const emit = options.onEvent ?? (() => Effect.void)
  const limit = options.limit ?? Lists.pageLimit.default
  const started = yield* Monotonic.millis
  const session = yield* sink.begin(Lists.byName[name], {
    source: api.source,
    limit,
    parameters: api[name].parameters,
    part,
    ignoredFields: options.ignoredFields,
    missingLimit: options.missingLimit,
    rebind: options.rebind
  })
  const state: Traversal = {
    at: session.resumeAt,
    saved: session.resumeAt !== undefined,
    retries: 0,
    startedAt: started,
    progressed,
    wait: firstWait,
    restarts: 0
  }
  yield* emit({ _tag: "Begun", list: name, part, start: session.start, progress: yield* session.progress })
  const largestBatch = options.largestBatch ?? defaultLargestBatch
  yield* traverse(name, part, limit, largestBatch, sink, session, state, emit).pipe(
    Effect.catchTag(
      "PaymentsError",
      (error) => recover(error, options.patience ?? defaultPatience, session, state, emit)
    ),
    Effect.repeat({ while: (result) => result === "again" })
  )
  return {
    list: name,
    part,
    scan: session.scan,
    start: session.start,
    retries: state.retries,
    elapsed: Duration.millis((yield* Monotonic.millis) - started),
    ...(yield* session.progress)
  }
}, Effect.scoped)

/** How the scan of one list, or of all the parts that were asked for, ended. */
export interface ScanOutcome {
  readonly list: Lists.ListName
  readonly result: Result.Result<ReadonlyArray<ScanSummary>, PaymentsError | SinkError>
  readonly exitCode: ExitCode
}

/** Scans the lists side by side. One that fails does not stop the others; each one's end is also an event. */
export const scanAll = (names: ReadonlyArray<Lists.ListName>, options: ScanOptions = {}) =>
  Effect.forEach(
    names,
    (list) => outcomeOf(list, Effect.map(scan(list, options), (summary) => [summary]), options),
    { concurrency: "unbounded" }
  )

/** Scans the parts of one list. The first one that fails ends it. */
export const scanAllParts = (list: Lists.ListName, options: PartsOptions) =>
  outcomeOf(list, scanParts(list, options), options)

const outcomeOf = Effect.fnUntraced(function*<R>(
  list: Lists.ListName,
  scans: Effect.Effect<ReadonlyArray<ScanSummary>, PaymentsError | SinkError, R>,
  { onEvent }: ScanOptions
) {
  const result = yield* Effect.result(scans)
  const outcome: ScanOutcome = { list, result, exitCode: codeOf(result) }
  yield* onEvent?.({ _tag: "Ended", list, outcome }) ?? Effect.void
  return outcome
})

const codeOf = (result: ScanOutcome["result"]): ExitCode =>
  Result.isFailure(result)
    ? exitCodeOf(result.failure)
    : result.success.some(({ heldBack, quarantined }) => quarantined > 0 || heldBack > 0)
    ? ExitCode.incomplete
    : ExitCode.done

/** Where a running scan stands. */
interface Traversal {
  at: Position.Position | undefined
  /** Whether the traversal began at a position that an earlier run had left. */
  saved: boolean
  retries: number
  readonly startedAt: number
  readonly progressed: Progressed
  wait: Duration.Duration
  restarts: number
}

type Emit = (event: ScanEvent) => Effect.Effect<void>

const defaultLargestBatch = 1000

const traverse = Effect.fnUntraced(function*(
  name: Lists.ListName,
  part: Part | undefined,
  limit: number,
  largestBatch: number,
  sink: Sink["Service"],
  session: ScanSession,
  state: Traversal,
  emit: Emit
): Effect.fn.Return<"done" | "again", PaymentsError | SinkError, PaymentsApi | Scope.Scope> {
  const api = yield* PaymentsApi
  const query = { limit, position: state.at, onBadRecord: "quarantine" } as const
  const pages: Stream.Stream<Page<{ readonly id: string }>, PaymentsError> = api[name].pages(
    part === undefined ? query : { ...query, [part.field]: part.value }
  )
  const most = Math.max(1, Math.floor(largestBatch / limit))
  const backlog = yield* backlogOf(sink)
  const queue = yield* readAhead(Stream.map(pages, toRead), most, backlog)
  /** No generator: between two batches it would keep the texts of the last one alive. */
  const write = (some: ReadonlyArray<ReadPage>) => {
    const written = some.map(({ attempts, characters }) => ({ attempts, characters }))
    const next = some.at(-1)?.next ?? undefined
    return Effect.flatMap(session.commit(toBatch(some)), (progress) => {
      state.at = next
      for (const { attempts, characters } of written) {
        state.retries += attempts - 1
        backlog.remove(characters)
      }
      state.wait = firstWait
      return Effect.flatMap(Monotonic.millis, (now) => {
        state.progressed.at = now
        return emit({ _tag: "Committed", list: name, progress, retries: state.retries })
      })
    })
  }
  // Pages that came while the ones before were written share a batch, and its wait for the disk.
  const writeNext = Effect.flatMap(Queue.takeBetween(queue, 1, most), write)
  return yield* Pull.catchDone(Effect.forever(writeNext), () => Effect.succeed("done" as const))
}, Effect.scoped)

/** Reads pages until `most` of them wait, or the backlog is full. Pages that wait hold no parsed records. */
const readAhead = Effect.fnUntraced(function*(
  pages: Stream.Stream<ReadPage, PaymentsError>,
  most: number,
  backlog: Backlog
) {
  const queue = yield* Queue.bounded<ReadPage, PaymentsError | Cause.Done>(most)
  yield* Stream.runForEach(pages, (page) => Effect.andThen(Queue.offer(queue, page), backlog.add(page.characters)))
    .pipe(
      Queue.into(queue),
      Effect.forkScoped
    )
  return queue
})

/** What a batch takes of a page. */
interface ReadPage {
  readonly reads: ReadonlyArray<ReadRecord>
  readonly next: Position.Position | null
  readonly attempts: number
  /** Of all its records' texts. */
  readonly characters: number
}

const toRead = (page: Page<{ readonly id: string }>): ReadPage => {
  const reads = readsOf(page)
  const characters = reads.reduce((sum, { text }) => sum + text.length, 0)
  return { reads, next: page.next, attempts: page.attempts, characters }
}

const toBatch = (pages: ReadonlyArray<ReadPage>): Batch => ({
  pages: pages.length,
  reads: pages.flatMap(({ reads }) => reads),
  next: pages.at(-1)?.next ?? null
})

/** Whether, and after what wait, a failed traversal goes on from its last committed page. */
const recover = Effect.fnUntraced(function*(
  error: PaymentsError,
  patience: Duration.Duration,
  session: ScanSession,
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
    yield* session.restart
    yield* emit({ _tag: "Restarted", list: error.list })
    return "again"
  }
  // This listing leads nowhere; another one may.
  if (reason._tag === "PaginationFault") yield* session.giveUp
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
