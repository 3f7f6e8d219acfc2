/**
 * The runs of one list: full scans and passes, when they are due. The lock of the list is held for as long as the destination
 * is open. One full scan and one pass run at a time, and a full scan pauses at a page boundary while a pass runs.
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
import type { ListState, RunKind } from "../state/StatusSnapshot.ts"
import type { Place } from "./Places.ts"
import { retryWait, type Start, startedAt, startNow, untilNext, waitAsRequested } from "./Schedule.ts"
import type { SourceOptions } from "./SourceOptions.ts"

/** What the loop of a list needs. */
export interface ListOptions<R> extends SourceOptions<R> {
  readonly name: Lists.ListName
  readonly rule: PersonalRule
  readonly isSecret: IsSecret
  readonly status: Status["Service"]
  /** Shared by all lists of the source. */
  readonly sourceGuard: SourceGuard
  /** Reads what the destination knows about its lists, and notes it. */
  readonly refresh: Effect.Effect<ReadonlyArray<ListFreshness>, SinkError>
}

/** How long a full scan may commit no page. */
const defaultStall = Duration.minutes(10)

const spanNames: { readonly [kind in RunKind]: string } = {
  full: "full scan",
  window: "window pass",
  head: "head pass"
}

/** A run that has not ended. */
interface ActiveRun {
  readonly place: Place
  /** When it last committed a page, or did something else that takes long, on the monotonic clock. */
  progressAt: number
  /** The number of such things that it does now. */
  busy: number
  /** Whether it reads. Before, a pass waits until the full scan has committed its pages. */
  hasBegun: boolean
}

/** Makes the loop of a list. `run` locks the list. It ends only if the destination fails. */
export const makeListLoop = <R>(options: ListOptions<R>) => {
  const { isSecret, metrics, name, places, refresh, rule, source, sourceGuard, status } = options
  const { label } = Lists.byName[name]
  const stallAfter = Duration.toMillis(options.stallAfter ?? defaultStall)
  const active = new Map<RunKind, ActiveRun>()
  /** The number of the open full scan. */
  let openScan: number | undefined

  const update = (change: (list: ListState, now: string) => ListState) =>
    status.update(source.name, (state, now) => updateList(state, label, (list) => change(list, now)))
  const setNext = (kind: RunKind) => (at: string | null) =>
    update((list) => ({ ...list, next: { ...list.next, [kind]: at } }))

  const ownFreshness = Effect.map(refresh, (lists) => lists.find(({ list }) => list === label))

  const noteProgress = (kind: RunKind) =>
    Effect.map(Monotonic.millis, (now) => {
      const run = active.get(kind)
      if (run !== undefined) run.progressAt = now
    })

  const handle = Effect.fnUntraced(function*(event: ScanEvent) {
    yield* metrics.onEvent(source.name, event)
    yield* update((list, now) => listAfter(event, list, now))
    yield* Effect.annotateLogs(
      logEvent(event, isSecret),
      event.kind === "full" && openScan !== undefined ? { scan: openScan } : {}
    )
    if (event._tag === "Ended") return
    const run = active.get(event.kind)
    const place = run?.place
    if (event._tag === "Begun" && run !== undefined) run.hasBegun = true
    if (event._tag === "Waiting") return yield* place?.onWait ?? Effect.void
    yield* noteProgress(event.kind)
    if (event._tag === "Committed") yield* place?.onCommit ?? Effect.void
    yield* noteProgress(event.kind)
  })

  /** Runs a step of the full scan that commits no page and may take long. */
  const longStep = <A, E, R2>(step: Effect.Effect<A, E, R2>): Effect.Effect<A, E, R2> =>
    Effect.suspend(() => {
      const run = active.get("full")
      if (run === undefined) return step
      run.busy++
      return Effect.ensuring(step, Effect.andThen(noteProgress("full"), Effect.sync(() => void run.busy--)))
    })

  /** Opens the session of a full scan, which may fill columns first. */
  const opening = <E, R2>(session: Effect.Effect<Session, E, R2>): Effect.Effect<Session, E, R2> =>
    Effect.tap(longStep(session), (opened) => Effect.sync(() => void (openScan = opened.scan)))

  /** Runs a scan or a pass as soon as there is a place. Fails if the destination has to be opened again. */
  const perform = <A>(kind: RunKind, run: Effect.Effect<A, PaymentsError | SinkError>) =>
    places.run((place) =>
      Effect.flatMap(Monotonic.millis, (now) => {
        active.set(kind, { place, progressAt: now, busy: 0, hasBegun: false })
        return run.pipe(
          Effect.withSpan(spanNames[kind], { attributes: { source: source.name, list: label } }),
          Effect.ensuring(Effect.sync(() => active.delete(kind)))
        )
      })
    ).pipe(
      Effect.result,
      Effect.tap((result) =>
        Result.isFailure(result) && endsDestination(result.failure) ? Effect.fail(result.failure) : Effect.void
      )
    )

  /** Returns none if the full scan commits no page for too long. It is ended then. */
  const untilStalled = <A, E>(full: Effect.Effect<A, E>): Effect.Effect<Option.Option<A>, E> =>
    Effect.raceFirst(
      Effect.asSome(full),
      Effect.as(
        Effect.repeat(
          Effect.gen(function*() {
            const [elapsed] = yield* Effect.timed(Effect.sleep(stallAfter / 20))
            const run = active.get("full")
            if (run === undefined) return false
            if (run.busy > 0 || (yield* run.place.isQueued)) yield* noteProgress("full")
            // The full scan commits nothing while a pass reads, so that time does not count.
            else if ([...active].some(([kind, { hasBegun }]) => kind !== "full" && hasBegun)) {
              run.progressAt += Duration.toMillis(elapsed)
            }
            return (yield* Monotonic.millis) - run.progressAt >= stallAfter
          }),
          { until: (isStalled) => isStalled }
        ),
        Option.none()
      )
    )

  /** Ends a full scan that stalls, and begins it again once. */
  const fullScan = Effect.fnUntraced(function*(scanner: ListScanner) {
    for (const attempt of [1, 2]) {
      const ended = yield* untilStalled(scanner.full)
      if (Option.isSome(ended)) return ended
      const problem = yield* noteStall(attempt === 2)
      yield* metrics.onStall(source.name, name)
      yield* Effect.annotateLogs(Effect.logWarning("scan stalled"), { list: label, attempt, ...problem })
      yield* noteProgress("full")
    }
    return Option.none<ScanSummary>()
  })

  /** Returns why the full scan stalled. The second time, the problem is shown until a page is committed. */
  const noteStall = Effect.fnUntraced(function*(isShown: boolean) {
    let stalled = {
      reason: "NoPage",
      error: `no page was committed for ${Duration.format(Duration.millis(stallAfter))}`
    }
    yield* update((list, now) => {
      const waiting = list.progress?.waiting
      if (waiting) stalled = { reason: waiting.reason, error: waiting.message }
      const problem = problemOf(stalled, list.stall, now)
      return { ...list, progress: null, stall: isShown ? problem : list.stall }
    })
    return stalled
  })

  const fullScans = Effect.fnUntraced(function*(scanner: ListScanner) {
    const before = yield* ownFreshness
    const isInterrupted = before?.running?.kind === "full"
    let last = isInterrupted || before?.completeScan === undefined
      ? undefined
      : yield* startedAt(before.completeScan.startedAt)
    let failures = 0
    while (true) {
      yield* untilNext(source.full, last, setNext("full"), failures === 0 ? undefined : retryWait(failures))
      yield* setNext("full")(null)
      last = yield* startNow
      openScan = undefined
      const result = yield* perform("full", fullScan(scanner))
      const after = yield* ownFreshness
      const summary = Result.isSuccess(result) ? Option.getOrUndefined(result.success) : undefined
      failures = summary === undefined ? failures + 1 : 0
      if (Result.isFailure(result)) yield* waitAsRequested(result.failure, setNext("full"))
      if (summary === undefined) continue
      // The age of the list counts from the start of the scan, which may be in an earlier run.
      if (after?.completeScan !== undefined) last = yield* startedAt(after.completeScan.startedAt)
      if (summary.behindHead > 0) yield* stopHead(scanner, summary)
    }
  })

  /** The list is not served newest first, so head passes miss records. They stay stopped until a person starts them again. */
  const stopHead = Effect.fnUntraced(function*(scanner: ListScanner, { behindHead, scan }: ScanSummary) {
    const problem =
      `full scan ${scan} found ${behindHead} new records behind the place where the last head pass stopped: ` +
      "the service does not return the newest records first"
    yield* scanner.stopHead(problem)
    yield* Effect.annotateLogs(Effect.logError("head passes stopped"), {
      list: label,
      scan,
      behindHead,
      error: problem
    })
    yield* refresh
  })

  /** Runs passes when they are due, with a pause after each one for as long as it took. A failed pass is not repeated earlier. */
  const passes = Effect.fnUntraced(function*(
    kind: "window" | "head",
    schedule: Schedule,
    pass: Effect.Effect<PassSummary | undefined, PaymentsError | SinkError>
  ) {
    let last: Start | undefined
    while (true) {
      yield* untilNext(schedule, last, setNext(kind))
      yield* setNext(kind)(null)
      last = yield* startNow
      const result = yield* perform(kind, pass)
      // The full scan pauses during a pass. Otherwise it could read only one page between passes that take long.
      const elapsed = Result.isSuccess(result) ? result.success?.elapsed : undefined
      if (elapsed !== undefined) yield* Effect.sleep(elapsed)
      if (Result.isFailure(result)) yield* waitAsRequested(result.failure, setNext(kind))
    }
  })

  const run = Effect.gen(function*() {
    const scanner = yield* openScanner(name, {
      ...source.scan,
      personal: rule,
      sourceGuard,
      onLocked: source.scan.onLocked ?? "wait",
      onEvent: handle
    })
    yield* status.update(source.name, (state) => ({
      ...updateList(state, label, (list) => ({ ...list, holdsLock: true, holder: null })),
      state: "running"
    }))
    const { head, window } = source
    // Without the order, head passes do not run. If a person sets it again, they start again.
    if (source.order !== "newest-first" && (yield* scanner.headProblem) !== undefined) yield* scanner.resumeHead
    return yield* Effect.all([
      fullScans(scanner),
      ...(window === undefined || Lists.byName[name].windowFilter === undefined
        ? []
        : [
          passes(
            "window",
            window.schedule,
            Effect.flatMap(DateTime.now, (now) => scanner.window(lastDays(now, window.days)))
          )
        ]),
      ...(head === undefined || source.order !== "newest-first" ? [] : [
        passes(
          "head",
          head.schedule,
          Effect.flatMap(
            scanner.headProblem,
            (problem) => problem === undefined ? scanner.head(head.pages) : Effect.undefined
          )
        )
      ])
    ], { concurrency: "unbounded" }).pipe(Effect.andThen(Effect.never))
  })

  return { name, run, longStep, opening }
}

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
