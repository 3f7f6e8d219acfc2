/**
 * A scan is one complete traversal of a list into a destination, up to the null cursor. If a run is killed, the next one
 * resumes after the last committed page.
 */
import { Lists, Monotonic, PaymentsApi, type PaymentsError } from "@payments/core"
import { Duration, Effect, Result, Scope, Semaphore } from "effect"
import { type ListSight, sightings, skippedIn } from "../plan/PageSight.ts"
import type { Drift } from "../port/Drift.ts"
import { scanDefaults } from "../port/ScanDefaults.ts"
import {
  type Filling,
  type Part,
  type PassKind,
  type ScanProgress,
  type ScanRequest,
  type ScanStart,
  Sink,
  SinkError,
  WrongSetting
} from "../port/Sink.ts"
import { openPersonal, type Redactor, whilePersonalDataChanges } from "../rule/OpenPersonal.ts"
import { keepAll, type PersonalRule } from "../rule/Rule.ts"
import { lookForUnseen } from "./LookUp.ts"
import { makePageGate, type PageGate } from "./PageGate.ts"
import { headPass, type PassContext, type PassSummary, windowPass } from "./Passes.ts"
import { type LastProgress, makeReading, type Reading, type ReadingEvent, readPages, recover } from "./ReadPages.ts"
import { forgetCommits, forgetDecisions, makeSourceGuard, type SourceGuard } from "./SourceGuard.ts"

/** How to scan. */
export interface ScanOptions {
  /** Records per page, 1 to 100. Default 100. An interrupted scan with another limit is not resumed. */
  readonly limit?: number | undefined
  /** How long to retry a page that keeps failing. Default 15 minutes. */
  readonly patience?: Duration.Duration | undefined
  /** Members that are ignored when records are compared, such as `authUrl`, which a service may sign again for each request. */
  readonly ignoredFields?: ReadonlyArray<string> | undefined
  /** The share of a list, from 0 to 1, that one scan may mark missing. Default 0.1. Up to 3 rows always, unless it is 0. */
  readonly missingLimit?: number | undefined
  /** {@inheritDoc ScanRequest.acceptMissing} A person has accepted it. */
  readonly acceptMissing?: number | undefined
  /**
   * Binds the destination to this source, merchant and key too. Use it if the service has moved, or if several merchants belong
   * in one destination.
   */
  readonly rebind?: boolean | undefined
  /** What to do while another program writes the list: fail or wait. Default "refuse". */
  readonly onLocked?: "refuse" | "wait" | undefined
  /**
   * The maximum number of records per batch. Default 1,000. A batch has several pages if they arrive during the previous
   * commit.
   */
  readonly largestBatch?: number | undefined
  /**
   * Which fields the destination may have. Default: all. A destination has one rule. It is refused with another one, until its
   * data is rewritten.
   */
  readonly personal?: PersonalRule | undefined
  /** The lists with which the destination was opened. Default: all lists of this program. */
  readonly lists?: ReadonlyArray<Lists.AnyList> | undefined
  /**
   * Shared by all scans and passes of one source while its destination is open, so that another merchant in one list ends all of
   * them. Default: each call has its own.
   */
  readonly sourceGuard?: SourceGuard | undefined
  readonly onEvent?: ((event: ScanEvent) => Effect.Effect<void>) | undefined
}

/** What happens during a full scan, the scan of a part, or a pass. */
export type ScanEvent =
  /** The destination lacks values of these columns. They are filled before the first commit. */
  | { readonly _tag: "Filling"; readonly list: Lists.ListName; readonly kind: "full"; readonly filling: Filling }
  | ReadingEvent
  | { readonly _tag: "Ended"; readonly list: Lists.ListName; readonly kind: "full"; readonly outcome: ScanOutcome }
  | { readonly _tag: "Ended"; readonly list: Lists.ListName; readonly kind: PassKind; readonly outcome: PassOutcome }

/** A scan that reached the end of its list. */
export interface ScanSummary extends ScanProgress {
  readonly list: Lists.ListName
  readonly part: Part | undefined
  readonly scan: number
  readonly start: ScanStart
  /** Repeated requests of this run. */
  readonly retries: number
  /** The duration of this run. */
  readonly elapsed: Duration.Duration
}

const defaultLargestBatch = 1000

/** Scans one list into the destination, until the null cursor or an error. Committed rows stay after an error. */
export const scan = Effect.fnUntraced(function*(name: Lists.ListName, options: ScanOptions = {}) {
  const task = scanOf(name, options)
  yield* lock(task)
  return yield* scanLocked(task)
}, Effect.scoped)

interface ListScan {
  readonly list: Lists.AnyList
  readonly part?: Part
  readonly options: ScanOptions
  readonly source: SourceGuard
  readonly gate: PageGate
  readonly lastProgress: LastProgress
  readonly emit: (event: ScanEvent) => Effect.Effect<void>
}

const scanOf = (name: Lists.ListName, options: ScanOptions): ListScan => ({
  // The definition of the list with which the destination was opened.
  list: options.lists?.find((list) => list.name === name) ?? Lists.byName[name],
  options,
  source: options.sourceGuard ?? makeSourceGuard(),
  gate: makePageGate(),
  lastProgress: { at: undefined },
  emit: options.onEvent ?? (() => Effect.void)
})

const lock = ({ list, options: { onLocked = scanDefaults.onLocked } }: ListScan) =>
  Effect.flatMap(Sink, (sink) => sink.lock(list, onLocked))

const scanLocked = Effect.fn("Export.scan")(function*(task: ListScan) {
  const { list, source } = task
  const sink = yield* Sink
  const started = yield* Monotonic.millis
  forgetCommits(source, list.name, "full")
  const summary = yield* scanUntilAdmitted(task)
  yield* sink.publish(list)
  return { ...summary, elapsed: Duration.millis((yield* Monotonic.millis) - started) }
})

/** The full scans and passes of a locked list. */
export interface ListScanner {
  /** Scans the whole list. Resumes an interrupted full scan. Only one full scan runs at a time. */
  readonly full: Effect.Effect<ScanSummary, PaymentsError | SinkError>
  /** Reads the invoices with these settlement dates. Only one pass runs at a time, and a full scan pauses meanwhile. */
  readonly window: (days: ReadonlyArray<string>) => Effect.Effect<PassSummary, PaymentsError | SinkError>
  /**
   * Reads pages from the first one on, until `pages` of them in a row have nothing new or changed. It may be called while
   * {@link full} runs. Reads nothing before the first full scan is complete.
   */
  readonly head: (pages: number) => Effect.Effect<PassSummary, PaymentsError | SinkError>
  /** Why the head passes of this list are stopped in the destination, or undefined. {@link head} does not check it. */
  readonly headProblem: Effect.Effect<string | undefined, SinkError>
  /** Stops the head passes of this list in the destination. */
  readonly stopHead: (problem: string) => Effect.Effect<void, SinkError>
  readonly resumeHead: Effect.Effect<void, SinkError>
  /** The answers about this list of the service that are certain, by the name of the fact. */
  readonly certain: Effect.Effect<{ readonly [fact: string]: string }, SinkError>
}

/** Locks a list until the scope closes, and returns its full scans and passes. */
export const openScanner = Effect.fnUntraced(function*(
  name: Lists.ListName,
  options: ScanOptions = {}
): Effect.fn.Return<ListScanner, SinkError, PaymentsApi | Sink | Scope.Scope> {
  const api = yield* PaymentsApi
  const context = yield* Effect.context<PaymentsApi | Sink>()
  const task = scanOf(name, options)
  const { emit, gate, list, source } = task
  yield* lock(task)
  const fullScans = Semaphore.makeUnsafe(1)
  const passes = Semaphore.makeUnsafe(1)
  const passContext: PassContext = {
    list,
    request: requestOf(api, { ...task, options: { ...options, rebind: false } }),
    rule: options.personal ?? keepAll,
    largestBatch: options.largestBatch ?? defaultLargestBatch,
    source,
    emit
  }
  const full = Effect.suspend(() => scanLocked({ ...task, lastProgress: { at: undefined } })).pipe(
    Effect.ensuring(Effect.sync(gate.clear)),
    Effect.scoped,
    // The lists of an export are one run. Here each complete scan has ended its own.
    Effect.tap(() => Effect.sync(() => forgetCommits(source, name, "full"))),
    Effect.result,
    Effect.tap((result) =>
      emit({
        _tag: "Ended",
        list: name,
        kind: "full",
        outcome: { list: name, result: Result.map(result, (summary) => [summary]) }
      })
    ),
    Effect.flatMap(Effect.fromResult)
  )
  const pass = (kind: PassKind, run: Effect.Effect<PassSummary, PaymentsError | SinkError, PaymentsApi | Sink>) =>
    // Between two attempts the full scan continues. It notices that it has to start again, too.
    passes.withPermits(1)(Effect.flatMap(
      Effect.result(whilePersonalDataChanges(gate.withPass(run))),
      (result) =>
        Effect.andThen(
          emit({ _tag: "Ended", list: name, kind, outcome: { list: name, kind, result } }),
          Effect.fromResult(result)
        )
    )).pipe(Effect.provide(context))
  const { facts, passes: { head } = {} } = yield* Sink
  return {
    full: fullScans.withPermits(1)(full).pipe(Effect.provide(context)),
    window: (days) => pass("window", windowPass(passContext, days)),
    head: (pages) => pass("head", headPass(passContext, pages)),
    headProblem: head?.problem(list) ?? Effect.undefined,
    stopHead: (problem) => head?.stop(list, problem) ?? Effect.void,
    resumeHead: head?.resume(list) ?? Effect.void,
    certain: facts?.certain(list, api.source) ?? Effect.succeed({})
  }
})

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
  const { concurrency = scanDefaults.concurrency, field, values } = options
  const task = scanOf(name, options)
  yield* lock(task)
  const summaries = yield* Effect.forEach(
    new Set(values),
    (value) => scanUntilAdmitted({ ...task, gate: makePageGate(), part: { field, value } }),
    { concurrency }
  )
  yield* (yield* Sink).publish(task.list)
  return summaries
}, Effect.scoped)

/**
 * Scans a locked list, or a part of it. If another program fills the empty destination first, nothing is committed. The scan then
 * starts again, and the guard compares the pages with the data of that program. It also starts again after an erasure, because
 * pages that were read before it may contain erased data.
 */
const scanUntilAdmitted = (task: ListScan) =>
  whilePersonalDataChanges(
    scanOnce(task).pipe(
      Effect.tapError((error) => isRace(error) ? Effect.sync(() => forgetDecisions(task.source)) : Effect.void),
      Effect.retry({ times: 2, while: isRace })
    )
  )

const isRace = (error: PaymentsError | SinkError): boolean =>
  error._tag === "SinkError" && error.reason._tag === "OtherMerchant" && error.reason.by === "race"

const scanOnce = Effect.fnUntraced(function*(
  task: ListScan
): Effect.fn.Return<ScanSummary, PaymentsError | SinkError, PaymentsApi | Sink | Scope.Scope> {
  const { emit, gate, lastProgress, list, options, part, source } = task
  const { name } = list
  const api = yield* PaymentsApi
  const sink = yield* Sink
  const startedAt = yield* Monotonic.millis
  const { inspect, location } = sink
  const requested = requestOf(api, task)
  const { limit, rebind = false } = requested
  const scope = yield* Effect.scope
  // A stored destination is not written until the guard has admitted the first pages.
  const preview = inspect === undefined ? undefined : yield* inspect.scan(list, requested)
  const personal = yield* openPersonal(
    { location, personal: preview === undefined ? undefined : Effect.succeed(preview.personal) },
    options.personal ?? keepAll
  )
  if (part !== undefined && personal.binding !== undefined) {
    yield* requireKept(location, part, personal.redactorOf(list))
  }
  const request = { ...requested, personal: personal.binding }
  const filling = preview?.filling
  const begin = yield* Effect.cached(
    Effect.andThen(
      filling === undefined ? Effect.void : emit({ _tag: "Filling", list: name, kind: "full", filling }),
      Scope.provide(sink.begin(list, request), scope)
    )
  )
  const { start } = preview ?? (yield* begin)
  const reading = makeReading({
    api,
    sink,
    list,
    kind: "full",
    part,
    limit,
    largestBatch: options.largestBatch ?? defaultLargestBatch,
    redactor: personal.redactorOf(list),
    rebind,
    preview,
    source,
    gate,
    begin,
    startedAt,
    lastProgress,
    emit
  })
  const progress = preview?.progress ?? (yield* (yield* begin).progress)
  yield* emit({ _tag: "Begun", list: name, kind: "full", part, start, progress })
  yield* readToEnd(reading, options.patience ?? scanDefaults.patience)
  const session = yield* begin
  yield* lookForUnseen(reading, session, { ...request, facts: sink.facts, rule: personal.binding?.rule })
  const ended = yield* session.progress
  const changed = yield* contradictions(sink, { ...request, list }, reading.sight, ended)
  return {
    list: name,
    part,
    scan: session.scan,
    start: session.start,
    retries: reading.retries,
    elapsed: Duration.millis((yield* Monotonic.millis) - startedAt),
    ...ended,
    drift: [...ended.drift, ...changed]
  }
}, Effect.scoped)

const readToEnd = (reading: Reading, patience: Duration.Duration) =>
  readPages(reading).pipe(
    Effect.catchTag("PaymentsError", (error) => recover(error, patience, reading)),
    Effect.repeat({ while: (result) => result === "again" })
  )

/** Stores what a complete scan has shown about the service, and returns what contradicts the facts in the destination. */
const contradictions = Effect.fnUntraced(function*(
  { facts }: Sink["Service"],
  { limit, list, part, source }: ScanRequest & { readonly list: Lists.AnyList },
  sight: ListSight,
  progress: ScanProgress
): Effect.fn.Return<ReadonlyArray<Drift>> {
  if (facts === undefined || part !== undefined) return []
  const ofRows = yield* Effect.result(facts.ofRows(list))
  const rows = Result.getOrElse(ofRows, () => ({ sightings: [], drift: [] }))
  // The records that a filter found are not those of the pages.
  const ofPages = { ...progress, records: progress.records - progress.skipped }
  const seen = [...sightings(sight, limit, ofPages), ...skippedIn(progress), ...rows.sightings]
  if (seen.length === 0) return rows.drift
  const found = yield* Effect.result(facts.contradictions(list, source, seen))
  const stored = yield* Effect.result(facts.observe(list, source, seen))
  // The scan is complete, so its result does not depend on this.
  const failures: ReadonlyArray<Result.Result<unknown, SinkError>> = [ofRows, found, stored]
  const problem = failures.find(Result.isFailure)?.failure
  if (problem !== undefined) {
    yield* Effect.logWarning(`${list.label}: what the scan has shown of the service is not stored: ${problem.message}`)
  }
  return [...rows.drift, ...Result.getOrElse(found, () => [])]
})

/** Fails if the destination must not have the value of the part: a stored scan and its checkpoint contain it. */
const requireKept = (location: string, { field, value }: Part, { redact }: Redactor) => {
  const text = JSON.stringify({ [field]: value })
  if (redact(text).text === text) return Effect.void
  const problem =
    `its rule for personal data does not keep ${field}, or a person with one of the values was erased, and the scan of a part is stored with its value. Export the whole list, or parts by another field.`
  return Effect.fail(new SinkError({ location, reason: new WrongSetting({ problem }) }))
}

const requestOf = (api: PaymentsApi["Service"], { list, options, part }: ListScan): ScanRequest => ({
  source: api.source,
  limit: options.limit ?? Lists.pageLimit.default,
  parameters: api[list.name].parameters,
  part,
  ignoredFields: options.ignoredFields,
  missingLimit: options.missingLimit,
  acceptMissing: options.acceptMissing,
  recheck: part === undefined,
  rebind: options.rebind
})

/** The result of a pass. */
export interface PassOutcome {
  readonly list: Lists.ListName
  readonly kind: PassKind
  readonly result: Result.Result<PassSummary, PaymentsError | SinkError>
}

/** The result of the scan of one list, or of all requested parts of it. */
export interface ScanOutcome {
  readonly list: Lists.ListName
  readonly result: Result.Result<ReadonlyArray<ScanSummary>, PaymentsError | SinkError>
}

/** Scans lists concurrently. A failed list does not stop the others. The end of each list is also an event. */
export const scanAll = (names: ReadonlyArray<Lists.ListName>, options: ScanOptions = {}) =>
  Effect.suspend(() => {
    const sourceGuard = options.sourceGuard ?? makeSourceGuard()
    return Effect.forEach(
      names,
      (list) => outcomeOf(list, Effect.map(scan(list, { ...options, sourceGuard }), (summary) => [summary]), options),
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
  const outcome: ScanOutcome = { list, result }
  yield* onEvent?.({ _tag: "Ended", list, kind: "full", outcome }) ?? Effect.void
  return outcome
})
