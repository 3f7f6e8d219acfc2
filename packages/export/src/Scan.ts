/**
 * A scan is one complete traversal of a list into a destination, up to the null cursor. If a run is killed, the next one
 * resumes after the last committed page.
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
import { firstWait, type LastProgress, recover, type Traversal, type TraversalEvent, traverse } from "./Traversal.ts"

/** How to scan. */
export interface ScanOptions {
  /** Records per page, 1 to 100. Default 100. An interrupted scan with another limit is not resumed. */
  readonly limit?: number | undefined
  /** How long to retry a page that keeps failing. Default 15 minutes. */
  readonly patience?: Duration.Duration | undefined
  /** Members that are ignored when records are compared, such as `authUrl`, which a service may sign again for each request. */
  readonly ignoredFields?: ReadonlyArray<string> | undefined
  /** The share of a list, from 0 to 1, that one scan may mark missing. Default 0.1. */
  readonly missingLimit?: number | undefined
  /**
   * Binds the destination to this source, merchant and key too. Use it if the service has moved, or if several merchants belong
   * in one destination.
   */
  readonly rebind?: boolean | undefined
  /** Whether to fail or to wait while another program writes the list. Default "refuse". */
  readonly onLocked?: "refuse" | "wait" | undefined
  /**
   * The maximum number of records per batch. Default 1,000. A batch has several pages if they arrive during the previous
   * commit.
   */
  readonly largestBatch?: number | undefined
  /** The lists with which the destination was opened. Default: all lists of this program. */
  readonly lists?: ReadonlyArray<Lists.AnyList> | undefined
  /** Called with each event of the scan. */
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
  /** The destination lacks values of these columns. They are filled before the first commit. */
  | { readonly _tag: "Filling"; readonly list: Lists.ListName; readonly filling: Filling }
  | TraversalEvent
  | { readonly _tag: "Ended"; readonly list: Lists.ListName; readonly outcome: ScanOutcome }

/** A scan that reached the end of its list. */
export interface ScanSummary extends ScanProgress {
  readonly list: Lists.ListName
  readonly part: Part | undefined
  readonly scan: number
  /** Whether it was resumed, or why not. */
  readonly start: ScanStart
  /** Repeated requests of this run. */
  readonly retries: number
  /** The duration of this run. */
  readonly elapsed: Duration.Duration
}

const defaultPatience = Duration.minutes(15)
const defaultLargestBatch = 1000

/** Scans one list into the destination, until the null cursor or an error. Committed rows stay after an error. */
export const scan = (name: Lists.ListName, options: ScanOptions = {}) =>
  Effect.suspend(() => scanIn(makeRun([name]), name, options))

/** Returns the definition of a list with which the destination was opened. */
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

/** The parts of a list to scan. */
export interface PartsOptions extends ScanOptions {
  /** The filter whose values define the parts. */
  readonly field: string
  readonly values: ReadonlyArray<string>
  /** The number of parts that are scanned concurrently. Default 4. */
  readonly concurrency?: number | undefined
}

/**
 * Scans parts of a list concurrently. Each part has its own checkpoint and certificate. Records outside these parts are not
 * read, so no row is marked missing.
 */
export const scanParts = Effect.fn("Export.scanParts")(function*(name: Lists.ListName, options: PartsOptions) {
  const sink = yield* Sink
  const list = listOf(name, options)
  yield* sink.lock(list, options.onLocked ?? "refuse")
  const lastProgress: LastProgress = { at: undefined }
  const run = makeRun([name])
  const summaries = yield* Effect.forEach(
    new Set(options.values),
    (value) => traversal(run, name, { field: options.field, value }, options, lastProgress),
    { concurrency: options.concurrency ?? 4 }
  )
  yield* sink.publish(list)
  return summaries
}, Effect.scoped)

/**
 * Scans a locked list, or a part of it. If another program fills the empty destination first, nothing is committed, and the
 * scan starts again, so that the guard compares the pages with the data of that program.
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
  lastProgress: LastProgress
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
  // A stored destination is not written until the guard has admitted the first pages.
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
    // The sink returns only checkpoints that can be decoded.
    position: resumeAt === undefined ? undefined : Option.getOrThrow(Position.fromJson(resumeAt)),
    isResumed: resumeAt !== undefined,
    retries: 0,
    startedAt: started,
    lastProgress,
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

/** The result of the scan of one list, or of all requested parts of it. */
export interface ScanOutcome {
  readonly list: Lists.ListName
  readonly result: Result.Result<ReadonlyArray<ScanSummary>, PaymentsError | SinkError>
  readonly exitCode: ExitCode
}

/** Scans lists concurrently. A failed list does not stop the others. The end of each list is also an event. */
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

/** Scans parts of one list. The first part that fails ends the others. */
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
