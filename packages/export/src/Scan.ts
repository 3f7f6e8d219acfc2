/**
 * A scan: one complete traversal of a list into a destination, from the first page, or the last committed one, to the
 * null cursor. Killed at any instant, the next run goes on from the last committed page.
 */
import { Lists, Monotonic, PaymentsApi, type PaymentsError, Position } from "@payments/core"
import { Duration, Effect, Option, Result, Scope } from "effect"
import { ExitCode, exitCodeOf } from "./ExitCode.ts"
import { endList, type GuardedRun, makeGuard, makeRun } from "./MerchantGuard.ts"
import {
  type Filling,
  type Part,
  type ScanProgress,
  type ScanRequest,
  type ScanStart,
  Sink,
  type SinkError
} from "./Sink.ts"
import { firstWait, type LastCommit, recover, type Traversal, type TraversalEvent, traverse } from "./Traversal.ts"

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
  /**
   * Binds the destination to this source, merchant and key beside those that it is bound to: for a service that has moved,
   * and for merchants that belong together.
   */
  readonly rebind?: boolean | undefined
  /** Whether another program that writes the list is waited for; refused unless given. */
  readonly onLocked?: "refuse" | "wait" | undefined
  /**
   * The most records that are written at once; 1,000 unless given. A batch is one page, and more only where more have come
   * while the destination was writing.
   */
  readonly largestBatch?: number | undefined
  /** The lists as the destination was opened with them; all lists of this program by default. */
  readonly lists?: ReadonlyArray<Lists.AnyList> | undefined
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
  /** The scan's first commit waits until these columns of the destination are filled. */
  | { readonly _tag: "Filling"; readonly list: Lists.ListName; readonly filling: Filling }
  | TraversalEvent
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
const defaultLargestBatch = 1000

/** Scans one list into the destination, and ends with its null cursor or an error. What was committed stays. */
export const scan = (name: Lists.ListName, options: ScanOptions = {}) =>
  Effect.suspend(() => scanIn(makeRun([name]), name, options))

/** The list of that name, as the destination was opened with it. */
const listOf = (name: Lists.ListName, { lists = Lists.all }: ScanOptions): Lists.AnyList =>
  lists.find((list) => list.name === name) ?? Lists.byName[name]

const scanIn = Effect.fn("Export.scan")(function*(run: GuardedRun, name: Lists.ListName, options: ScanOptions) {
  const sink = yield* Sink
  const list = listOf(name, options)
  yield* sink.lock(list, options.onLocked ?? "refuse")
  const started = yield* Monotonic.millis
  const summary = yield* traversal(run, name, undefined, options, { at: undefined })
  yield* sink.publish(list)
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
  const list = listOf(name, options)
  yield* sink.lock(list, options.onLocked ?? "refuse")
  const lastCommit: LastCommit = { at: undefined }
  const run = makeRun([name])
  const summaries = yield* Effect.forEach(
    new Set(options.values),
    (value) => traversal(run, name, { field: options.field, value }, options, lastCommit),
    { concurrency: options.concurrency ?? 4 }
  )
  yield* sink.publish(list)
  return summaries
}, Effect.scoped)

/**
 * Scans a list that is held, or a part of it. Where another program has filled the empty destination first, nothing is
 * committed yet: the pages are read and judged again, now against what that program has bound.
 */
const traversal = (...given: Parameters<typeof attempt>): ReturnType<typeof attempt> =>
  Effect.retry(attempt(...given), {
    times: 2,
    while: (error) => error._tag === "SinkError" && error.reason._tag === "OtherMerchant" && error.reason.by === "race"
  })

const attempt = Effect.fnUntraced(function*(
  run: GuardedRun,
  name: Lists.ListName,
  part: Part | undefined,
  options: ScanOptions,
  lastCommit: LastCommit
): Effect.fn.Return<ScanSummary, PaymentsError | SinkError, PaymentsApi | Sink | Scope.Scope> {
  const api = yield* PaymentsApi
  const sink = yield* Sink
  const emit = options.onEvent ?? (() => Effect.void)
  const limit = options.limit ?? Lists.pageLimit.default
  const started = yield* Monotonic.millis
  const list = listOf(name, options)
  const request: ScanRequest = {
    source: api.source,
    limit,
    parameters: api[name].parameters,
    part,
    ignoredFields: options.ignoredFields,
    missingLimit: options.missingLimit,
    rebind: options.rebind
  }
  const scope = yield* Effect.scope
  const { inspect, location } = sink
  // Where something is kept, nothing is written before the first pages have shown whose they are.
  const preview = inspect === undefined ? undefined : yield* inspect.scan(list, request)
  const filling = preview?.filling
  const begin = yield* Effect.cached(
    Effect.andThen(
      filling === undefined ? Effect.void : emit({ _tag: "Filling", list: name, filling }),
      Scope.provide(sink.begin(list, request), scope)
    )
  )
  const { resumeAt, start } = preview ?? (yield* begin)
  const isWhole = part === undefined
  const rebind = options.rebind ?? false
  const guard = inspect === undefined || preview === undefined
    ? undefined
    : makeGuard({ name, limit, isWhole, api, location, inspect, preview, rebind, run })
  const state: Traversal = {
    begin,
    session: undefined,
    guard,
    restart: false,
    // The sink gives only checkpoints that can be decoded.
    position: resumeAt === undefined ? undefined : Option.getOrThrow(Position.fromJson(resumeAt)),
    isResumed: resumeAt !== undefined,
    retries: 0,
    startedAt: started,
    lastCommit,
    wait: firstWait,
    restarts: 0
  }
  yield* emit({
    _tag: "Begun",
    list: name,
    part,
    start,
    progress: preview?.progress ?? (yield* (yield* begin).progress)
  })
  const largestBatch = options.largestBatch ?? defaultLargestBatch
  yield* traverse(list, part, limit, largestBatch, sink, state, emit).pipe(
    Effect.catchTag("PaymentsError", (error) => recover(error, options.patience ?? defaultPatience, state, emit)),
    Effect.repeat({ while: (result) => result === "again" })
  )
  const session = yield* begin
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
  Effect.suspend(() => {
    const run = makeRun(names)
    return Effect.forEach(
      names,
      (list) => {
        const scanned = Effect.map(scanIn(run, list, options), (summary) => [summary])
        return outcomeOf(list, Effect.ensuring(scanned, endList(run, list)), options)
      },
      { concurrency: "unbounded" }
    )
  })

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
