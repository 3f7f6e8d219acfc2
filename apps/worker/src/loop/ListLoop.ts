/**
 * The runs of one list: full scans and passes, when they are due. The lock of the list is held for as long as the
 * destination is open. One full scan and one pass run at a time. A full scan pauses at a page boundary while a pass
 * runs.
 */
import {
  type ListFreshness,
  type ListScanner,
  openScanner,
  type PassSummary,
  type PersonalRule,
  type ScanEvent,
  type ScanSummary,
  type Session,
  type SinkError,
  type SourceGuard
} from "@payments/copy"
import { Lists, Monotonic, type PaymentsError } from "@payments/core"
import type { Schedule } from "@payments/program/sources"
import { DateTime, Duration, Effect, Option, Result } from "effect"
import { type IsSecret, logEvent } from "../state/Log.ts"
import { listAfter, problemOf, type Status, updateList } from "../state/Status.ts"
import { kindWords, type ListState, type RunKind } from "../state/StatusSnapshot.ts"
import type { Handoffs } from "./HandoffLoop.ts"
import { afterCheck, afterEvent, ended, type ListRuns, progressed, started, stepBegan, stepEnded } from "./ListRuns.ts"
import type { Place } from "./Places.ts"
import { retryWait, type Start, startedAt, startNow, untilNext, waitAsRequested } from "./Schedule.ts"
import type { SourceOptions } from "./SourceOptions.ts"

export interface ListOptions extends Pick<SourceOptions<never>, "source" | "places" | "metrics" | "stallAfter"> {
  readonly name: Lists.ListName
  readonly rule: PersonalRule
  readonly isSecret: IsSecret
  readonly status: Status["Service"]
  /** Shared by all lists of the source. */
  readonly sourceGuard: SourceGuard
  /** Reads what the destination knows about its lists, and notes it. */
  readonly refresh: Effect.Effect<ReadonlyArray<ListFreshness>, SinkError>
  readonly handoffs: Pick<Handoffs, "onLock" | "onCommit">
}

/** How long a full scan may commit no page. */
const defaultStall = Duration.minutes(10)

/** Exists while the destination is open. */
interface Loop extends ListOptions {
  readonly label: string
  readonly held: Map<RunKind, Place>
  runs: ListRuns
  /** Whether passes run, as far as facts decide it and it was logged. */
  readonly decisions: Map<RunKind, boolean>
  /** Whether facts were uncertain since head passes were stopped. */
  mayResumeHead: boolean
  /** The number of the open full scan, for the log. */
  openScan: number | undefined
}

/** `run` locks the list. It ends only if the destination fails. */
export const makeListLoop = (options: ListOptions) => {
  const loop: Loop = {
    ...options,
    label: Lists.byName[options.name].label,
    held: new Map(),
    decisions: new Map(),
    mayResumeHead: false,
    runs: {},
    openScan: undefined
  }
  return {
    name: options.name,
    run: runLoop(loop),
    longStep: <A, E, R>(step: Effect.Effect<A, E, R>) => longStep(loop, step),
    /** Opens the session of a full scan, which may fill columns first. */
    opening: <E, R>(session: Effect.Effect<Session, E, R>) =>
      Effect.tap(longStep(loop, session), ({ scan }) => Effect.sync(() => void (loop.openScan = scan)))
  }
}

const runLoop = Effect.fnUntraced(function*(loop: Loop) {
  const { name, rule, source, sourceGuard, status } = loop
  const scanner = yield* openScanner(name, {
    ...source.scan,
    personal: rule,
    sourceGuard,
    onLocked: source.scan.onLocked ?? "wait",
    onEvent: (event) => handle(loop, event)
  })
  yield* status.update(source.name, (state) => ({
    ...updateList(state, loop.label, (list) => ({ ...list, holdsLock: true, holder: null })),
    state: "running"
  }))
  yield* loop.handoffs.onLock
  const { head, window } = source
  // Without the order, head passes do not run. If a person sets it again, they start again.
  if (source.order !== "newest-first" && (yield* scanner.headProblem) !== undefined) yield* scanner.resumeHead
  return yield* Effect.all([
    fullScans(loop, scanner),
    window === undefined || Lists.byName[name].windowFilter === undefined ? Effect.void : passes(loop, {
      kind: "window",
      schedule: window.schedule,
      pass: windowRun(loop, scanner, window.days)
    }),
    head === undefined ? Effect.void : passes(loop, {
      kind: "head",
      schedule: head.schedule,
      pass: headRun(loop, scanner, head.pages)
    })
  ], { concurrency: "unbounded" }).pipe(Effect.andThen(Effect.never))
})

/** Returns the certain answers. Without them, passes do as if nothing were known. */
const certainOf = ({ label }: Loop, { certain }: ListScanner): Effect.Effect<{ readonly [fact: string]: string }> =>
  Effect.catch(
    certain,
    (error) =>
      Effect.as(
        Effect.annotateLogs(Effect.logWarning("facts cannot be read"), { list: label, error: error.message }),
        {}
      )
  )

/**
 * Reads nothing if it is certain that the service does not filter by the day. With a proven name of the parameter, it
 * reads: what was observed of the filter may be about the assumed name.
 */
const windowRun = Effect.fnUntraced(function*(loop: Loop, scanner: ListScanner, days: number) {
  const { windowFilter: field } = Lists.byName[loop.name]
  const fact = `filter-${field}`
  const { [fact]: answer, [`name-${field}`]: name } = yield* certainOf(loop, scanner)
  const mayRead = answer === undefined || name !== undefined || filtering.has(answer)
  yield* logDecision(loop, "window", mayRead, { [fact]: answer })
  return mayRead ? yield* scanner.window(lastDays(yield* DateTime.now, days)) : undefined
})

const filtering: ReadonlySet<string> = new Set(["only matching records", "records that begin with it"])

/**
 * Reads nothing before the order is known: from the settings, or because it is certain that the newest records come
 * first and new ones appear there. Head passes that were stopped run again once that is certain again, or if a person
 * sets the order again.
 */
const headRun = Effect.fnUntraced(function*(loop: Loop, scanner: ListScanner, pages: number) {
  const problem = yield* scanner.headProblem
  if (loop.source.order === "newest-first") return problem === undefined ? yield* scanner.head(pages) : undefined
  const { "list-order": order, places } = yield* certainOf(loop, scanner)
  const isKnown = order === newestFirst && places === "first"
  // What stopped them must have made the facts uncertain before they can be certain again.
  loop.mayResumeHead ||= !isKnown
  const runs = isKnown && (problem === undefined || loop.mayResumeHead)
  yield* logDecision(loop, "head", runs, { "list-order": order, places })
  if (!runs) return undefined
  if (problem !== undefined) yield* scanner.resumeHead
  return yield* scanner.head(pages)
})

const newestFirst = "createdAt, newest first"

/** Logs on which facts it rests that passes begin or wait, when that changes. */
const logDecision = (
  loop: Loop,
  kind: "head" | "window",
  runs: boolean,
  facts: { readonly [fact: string]: string | undefined }
) =>
  Effect.suspend(() => {
    if (loop.decisions.get(kind) === runs) return Effect.void
    loop.decisions.set(kind, runs)
    const known = Object.entries(facts).map(([fact, answer]) => `${fact}: ${answer ?? "not certain"}`).join("; ")
    return Effect.annotateLogs(Effect.logInfo(`${kindWords[kind]}: ${runs ? "begins" : "waits"}`), {
      list: loop.label,
      facts: known
    })
  })

const update = ({ label, source, status }: Loop, change: (list: ListState, now: string) => ListState) =>
  status.update(source.name, (state, now) => updateList(state, label, (list) => change(list, now)))

const setNext = (loop: Loop, kind: RunKind) => (at: string | null) =>
  update(loop, (list) => ({ ...list, next: { ...list.next, [kind]: at } }))

const ownFreshness = ({ label, refresh }: Loop) =>
  Effect.map(refresh, (lists) => lists.find(({ list }) => list === label))

const note = (loop: Loop, transition: (runs: ListRuns, now: number) => ListRuns) =>
  Effect.map(Monotonic.millis, (now) => void (loop.runs = transition(loop.runs, now)))

const handle = Effect.fnUntraced(function*(loop: Loop, event: ScanEvent) {
  const { held, isSecret, metrics, openScan, source } = loop
  yield* metrics.onEvent(source.name, event)
  yield* update(loop, (list, now) => listAfter(event, list, now, isSecret))
  yield* Effect.annotateLogs(
    logEvent(event, isSecret),
    event.kind === "full" && openScan !== undefined ? { scan: openScan } : {}
  )
  if (event._tag === "Committed" || event._tag === "Ended") yield* loop.handoffs.onCommit
  const [runs, action] = afterEvent(loop.runs, event, yield* Monotonic.millis)
  loop.runs = runs
  const place = held.get(event.kind)
  if (place === undefined || action === "keep") return
  if (action === "giveUp") return yield* place.onWait
  yield* place.onCommit
  yield* note(loop, (after, now) => progressed(after, event.kind, now))
})

/** Runs a step of the full scan that commits no page and may take long. */
const longStep = <A, E, R>(loop: Loop, step: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    loop.runs = stepBegan(loop.runs)
    return Effect.ensuring(step, note(loop, stepEnded))
  })

/** Runs as soon as there is a place. Fails if the destination has to be opened again. */
const perform = <A>(loop: Loop, kind: RunKind, run: Effect.Effect<A, PaymentsError | SinkError>) =>
  loop.places.run((place) =>
    Effect.andThen(
      note(loop, (runs, now) => started(runs, kind, now)),
      Effect.suspend(() => {
        loop.held.set(kind, place)
        return run
      }).pipe(
        Effect.withSpan(kindWords[kind], { attributes: { source: loop.source.name, list: loop.label } }),
        Effect.ensuring(Effect.sync(() => {
          loop.held.delete(kind)
          loop.runs = ended(loop.runs, kind)
        }))
      )
    )
  ).pipe(
    Effect.result,
    Effect.tap((result) =>
      Result.isFailure(result) && endsDestination(result.failure) ? Effect.fail(result.failure) : Effect.void
    )
  )

const stallTime = ({ stallAfter = defaultStall }: Loop): number => Duration.toMillis(stallAfter)

/** Ends when the full scan has made no progress for too long. */
const stalls = (loop: Loop) =>
  Effect.repeat(
    Effect.gen(function*() {
      const stallAfter = stallTime(loop)
      const [elapsed] = yield* Effect.timed(Effect.sleep(stallAfter / 20))
      const isQueued = yield* loop.held.get("full")?.isQueued ?? Effect.succeed(false)
      const now = yield* Monotonic.millis
      const [runs, isStalled] = afterCheck(loop.runs, {
        now,
        elapsed: Duration.toMillis(elapsed),
        isQueued,
        stallAfter
      })
      loop.runs = runs
      return isStalled
    }),
    { until: (isStalled) => isStalled }
  )

/** Ends a full scan that stalls, and begins it again once. */
const fullScan = Effect.fnUntraced(function*(loop: Loop, scanner: ListScanner) {
  for (const attempt of [1, 2]) {
    const result = yield* Effect.raceFirst(Effect.asSome(scanner.full), Effect.as(stalls(loop), Option.none()))
    if (Option.isSome(result)) return result
    const problem = yield* noteStall(loop, attempt === 2)
    yield* loop.metrics.onStall(loop.source.name, loop.name)
    yield* Effect.annotateLogs(Effect.logWarning("scan stalled"), { list: loop.label, attempt, ...problem })
    yield* note(loop, (runs, now) => progressed(runs, "full", now))
  }
  return Option.none<ScanSummary>()
})

/** Returns why the full scan stalled. The second time, the problem is shown until a page is committed. */
const noteStall = Effect.fnUntraced(function*(loop: Loop, isShown: boolean) {
  let stalled = {
    reason: "NoPage",
    error: `no page was committed for ${Duration.format(Duration.millis(stallTime(loop)))}`
  }
  yield* update(loop, (list, now) => {
    const waiting = list.progress?.waiting
    if (waiting) stalled = { reason: waiting.reason, error: waiting.message }
    const problem = problemOf(stalled, list.stall, now)
    return { ...list, progress: null, stall: isShown ? problem : list.stall }
  })
  return stalled
})

const fullScans = Effect.fnUntraced(function*(loop: Loop, scanner: ListScanner) {
  const onNext = setNext(loop, "full")
  const before = yield* ownFreshness(loop)
  const isInterrupted = before?.running?.kind === "full"
  let last = isInterrupted || before?.completeScan === undefined
    ? undefined
    : yield* startedAt(before.completeScan.startedAt)
  let failures = 0
  while (true) {
    const retry = failures === 0 ? undefined : retryWait(failures)
    yield* untilNext(loop.source.full, { last, retry, onNext })
    yield* onNext(null)
    last = yield* startNow
    loop.openScan = undefined
    const result = yield* perform(loop, "full", fullScan(loop, scanner))
    const after = yield* ownFreshness(loop)
    const summary = Result.isSuccess(result) ? Option.getOrUndefined(result.success) : undefined
    failures = summary === undefined ? failures + 1 : 0
    if (Result.isFailure(result)) yield* waitAsRequested(result.failure, onNext)
    if (summary === undefined) continue
    // The age of the list counts from the start of the scan, which may be in an earlier run.
    if (after?.completeScan !== undefined) last = yield* startedAt(after.completeScan.startedAt)
    if (summary.behindHead > 0) yield* stopHead(loop, scanner, summary)
  }
})

/**
 * The list is not served newest first, so head passes miss records. They stay stopped until a person starts them again.
 */
const stopHead = Effect.fnUntraced(function*(loop: Loop, scanner: ListScanner, { behindHead, scan }: ScanSummary) {
  const problem =
    `full scan ${scan} found ${behindHead} new records behind the place where the last head pass stopped: ` +
    "the service does not return the newest records first"
  yield* scanner.stopHead(problem)
  loop.mayResumeHead = false
  yield* Effect.annotateLogs(Effect.logError("head passes stopped"), {
    list: loop.label,
    scan,
    behindHead,
    error: problem
  })
  yield* loop.refresh
})

/** Pauses after each pass for as long as it took. A failed pass is not repeated earlier. */
const passes = Effect.fnUntraced(function*(
  loop: Loop,
  { kind, pass, schedule }: {
    readonly kind: "window" | "head"
    readonly schedule: Schedule
    readonly pass: Effect.Effect<PassSummary | undefined, PaymentsError | SinkError>
  }
) {
  const onNext = setNext(loop, kind)
  let last: Start | undefined
  while (true) {
    yield* untilNext(schedule, { last, onNext })
    yield* onNext(null)
    last = yield* startNow
    const result = yield* perform(loop, kind, pass)
    // The full scan pauses during a pass. Otherwise it could read only one page between passes that take long.
    const elapsed = Result.isSuccess(result) ? result.success?.elapsed : undefined
    if (elapsed !== undefined) yield* Effect.sleep(elapsed)
    if (Result.isFailure(result)) yield* waitAsRequested(result.failure, onNext)
  }
})

/** Whether the destination has to be opened again, or its source stops. */
const endsDestination = (error: PaymentsError | SinkError): error is SinkError =>
  error._tag === "SinkError" && (ending.has(error.reason._tag) || isWrittenLater(error))

/** Whether a later version of this program has changed the destination. Each further run of this one would fail. */
export const isWrittenLater = ({ reason }: SinkError): boolean =>
  reason._tag === "NotADestination" && reason.isLater === true

const ending: ReadonlySet<SinkError["reason"]["_tag"]> = new Set([
  "LeaseLost",
  "Moved",
  "Unavailable",
  "OtherSource",
  "OtherRule",
  "OtherMerchant"
])

/** Returns the last days in UTC, today included. */
const lastDays = (now: DateTime.Utc, days: number): ReadonlyArray<string> =>
  Array.from({ length: days }, (_, ago) => DateTime.formatIsoDateUtc(DateTime.subtract(now, { days: ago })))
