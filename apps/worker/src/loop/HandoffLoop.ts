/**
 * Hands the changes of a source off while its destination is open: one sender per consumer, beside the runs of the lists.
 * A sender fails alone. One fiber reads what is new for all senders: after each commit of this process, and every second
 * for those of others.
 */
import { Destination, type Maintenance, type MoveError, type SinkError } from "@payments/copy"
import {
  type Answer,
  type Attempted,
  type Handoff,
  handOff,
  HandoffTakenOver,
  type LossAt,
  makeLossAt,
  type SenderOptions
} from "@payments/copy/handoff"
import { Monotonic, type PaymentsConfigError } from "@payments/core"
import type { Metrics } from "@payments/program"
import { createConsumer, senderOf } from "@payments/program/handoff"
import type { Source, SourceHandoff } from "@payments/program/sources"
import { Cause, DateTime, Duration, Effect, Latch, Random, Redacted } from "effect"
import { problemAnnotations } from "../state/Log.ts"
import { problemOf, type Status, updateHandoff } from "../state/Status.ts"
import type { HandoffState } from "../state/StatusSnapshot.ts"
import { sendGracefully } from "./GracefulSender.ts"
import { compareTurns, mayTakeOver, type Progress, progressKey } from "./HandoffTurn.ts"
import { makeSignal, watchHandoffs, type WatchOptions } from "./HandoffWatch.ts"

export interface Handoffs {
  /** Nothing is sent before it. Of several workers, only the one with the locks sends. */
  readonly onLock: Effect.Effect<void>
  /** There may be new changes. */
  readonly onCommit: Effect.Effect<void>
  readonly run: Effect.Effect<void>
}

interface HandoffOptions {
  readonly source: Source
  readonly status: Status["Service"]
  readonly metrics: Metrics["Service"]
}

/** Exists while the destination is open. */
interface Loop extends HandoffOptions, WatchOptions {
  readonly to: Destination.StoredDestination
  readonly handoffs: ReadonlyArray<SourceHandoff>
}

/** The wait after an error. It doubles up to the maximum. */
const [firstWait, longestWait] = [Duration.seconds(1), Duration.minutes(1)] as const
/** A sender looks for changes by itself after this time. */
const unsignalledWait = Duration.seconds(30)
/** The wait before a sender that ended unexpectedly runs again. */
const unexpectedWait = Duration.minutes(1)

export const makeHandoffs = (options: HandoffOptions): Handoffs => {
  const { source: { handoffs = [], to } } = options
  if (to === undefined || handoffs.length === 0) {
    return { onLock: Effect.void, onCommit: Effect.void, run: Effect.never }
  }
  const [isLocked, commits] = [Latch.makeUnsafe(false), makeSignal()]
  const wakes = new Map(handoffs.map(({ consumer }) => [consumer, makeSignal()]))
  return {
    onLock: Effect.sync(() => void isLocked.openUnsafe()),
    onCommit: Effect.sync(commits.send),
    run: Effect.andThen(isLocked.await, opened({ ...options, to, handoffs, commits, wakes }, firstWait))
  }
}

/** Opens the destination once for all senders, again after an error. */
const opened = (loop: Loop, wait: Duration.Duration): Effect.Effect<void> =>
  Effect.scoped(Effect.gen(function*() {
    const maintenance = yield* Destination.maintenance(loop.to)
    yield* Effect.all([
      watchHandoffs(loop, maintenance),
      ...loop.handoffs.map((handoff) => sender(loop, handoff, maintenance))
    ], { concurrency: "unbounded", discard: true })
  })).pipe(
    Effect.catch((error) =>
      Effect.forEach(loop.handoffs, ({ consumer }) => noteProblem(loop, consumer, error)).pipe(
        Effect.andThen(Effect.sleep(wait)),
        Effect.andThen(Effect.suspend(() => opened(loop, longer(wait))))
      )
    )
  )

const longer = (wait: Duration.Duration): Duration.Duration => Duration.min(Duration.times(wait, 2), longestWait)

const note = ({ source, status }: Loop, consumer: string, change: (state: HandoffState, now: string) => HandoffState) =>
  status.update(source.name, (state, now) => updateHandoff(state, consumer, (handoff) => change(handoff, now)))

/** Shows the problem of a hand-off, and logs it when it begins. */
const noteProblem = Effect.fnUntraced(function*(
  loop: Loop,
  consumer: string,
  error: SinkError | PaymentsConfigError | { readonly reason: string; readonly error: string }
) {
  const found = "_tag" in error ? problemAnnotations(error) : error
  let isNew = false
  yield* note(loop, consumer, (handoff, now) => {
    isNew = handoff.problem?.reason !== found.reason
    return { ...handoff, problem: problemOf(found, handoff.problem, now) }
  })
  if (isNew) yield* Effect.annotateLogs(Effect.logWarning("hand-off waits"), { consumer, ...found })
})

const noProblem = (loop: Loop, consumer: string) =>
  note(loop, consumer, (handoff) => handoff.problem === null ? handoff : { ...handoff, problem: null })

type SenderError = SinkError | HandoffTakenOver | MoveError

/** Sends until it is interrupted. Errors and defects are followed by another attempt. */
const sender = Effect.fnUntraced(function*(loop: Loop, handoff: SourceHandoff, maintenance: Maintenance) {
  const { consumer } = handoff
  const own: Own = { taken: undefined, hasBegun: false, lossAt: makeLossAt() }
  let wait = firstWait
  for (;;) {
    const startedAt = yield* Monotonic.millis
    const error = yield* once(loop, handoff, { maintenance, own }).pipe(
      Effect.flip,
      Effect.catchCauseIf(
        (cause) => !Cause.hasInterruptsOnly(cause),
        (cause) =>
          Effect.as(
            Effect.annotateLogs(Effect.logError("hand-off ended unexpectedly", cause), { consumer }),
            { _tag: "Defect" as const }
          )
      )
    )
    const hasRun = (yield* Monotonic.millis) - startedAt >= Duration.toMillis(longestWait)
    if (hasRun) wait = firstWait
    if (error._tag === "Defect") yield* Effect.sleep(unexpectedWait)
    else if (error._tag === "HandoffTakenOver") {
      const { taken } = own
      own.taken = undefined
      if (yield* hasOtherSender(maintenance, handoff, taken)) yield* awaitTurn(loop, handoff, maintenance)
    } else {
      yield* noteProblem(loop, consumer, error._tag === "SinkError" ? error : moveProblem(error))
      yield* Effect.sleep(Duration.times(wait, 0.5 + (yield* Random.next) / 2))
      wait = longer(wait)
    }
  }
})

const moveProblem = ({ _tag, message }: Exclude<MoveError, SinkError>) => ({ reason: _tag, error: message })

/** What a sender remembers after an error. */
interface Own {
  /** What it has taken over last. Undefined: it may take its hand-off over. */
  taken: Handoff | undefined
  /** Whether the consumer existed before. */
  hasBegun: boolean
  readonly lossAt: LossAt
}

const once = (
  loop: Loop,
  handoff: SourceHandoff,
  { maintenance, own }: { readonly maintenance: Maintenance; readonly own: Own }
): Effect.Effect<never, SenderError> =>
  Effect.scoped(Effect.gen(function*() {
    const { consumer } = handoff
    const isCreated = yield* createConsumer(handoff, maintenance)
    if (isCreated && own.hasBegun) yield* logCreatedAgain(handoff)
    own.hasBegun = true
    // After an error, a process that was frozen for a while must not stop the one that went on.
    const stored = yield* storedOf(maintenance, consumer)
    if (own.taken !== undefined && stored !== undefined && compareTurns(stored, own.taken) > 0) {
      return yield* new HandoffTakenOver({ consumer })
    }
    yield* noProblem(loop, consumer)
    const signal = loop.wakes.get(consumer)?.wait ?? Effect.never
    const options: SenderOptions = yield* senderOf(handoff, {
      maintenance: {
        ...maintenance,
        takeOverHandoff: (name) =>
          Effect.tap(maintenance.takeOverHandoff(name), (taken) => Effect.sync(() => void (own.taken = taken)))
      },
      isFollowing: true,
      lossAt: own.lossAt,
      keys: patientKeys(loop, handoff, firstWait),
      untilWoken: Effect.asVoid(Effect.timeoutOption(signal, unsignalledWait)),
      onAttempt: (attempted) => onAttempt(loop, consumer, attempted)
    })
    yield* sendGracefully(options, handOff)
    return yield* Effect.never
  }))

/** The settings still name a consumer that somebody has removed, or that a restored destination does not have. */
const logCreatedAgain = ({ consumer, start }: SourceHandoff) =>
  Effect.annotateLogs(
    Effect.logWarning(
      `the consumer no longer exists, and is created again, because the settings name it${
        start === "now" ? ": changes before now are not sent" : ""
      }`
    ),
    { consumer, start, next: `remove the handoff table ${consumer} from the settings, then the consumer` }
  )

const storedOf = (maintenance: Maintenance, consumer: string) =>
  Effect.map(maintenance.handoffs, (all) => all.find((one) => one.consumer === consumer))

/** Whether another program sends. Otherwise the consumer was removed, or the destination was restored. */
const hasOtherSender = (
  maintenance: Maintenance,
  { consumer }: SourceHandoff,
  taken: Handoff | undefined
): Effect.Effect<boolean> =>
  storedOf(maintenance, consumer).pipe(
    Effect.map((stored) => stored !== undefined && (taken === undefined || compareTurns(stored, taken) > 0)),
    // The next attempt says what is wrong with the destination.
    Effect.orElseSucceed(() => false)
  )

/** Reads the keys until they can be read. */
const patientKeys = (loop: Loop, handoff: SourceHandoff, wait: Duration.Duration): SenderOptions["keys"] =>
  handoff.keys.pipe(
    Effect.tap(() => noProblem(loop, handoff.consumer)),
    Effect.catch((error) =>
      noteProblem(loop, handoff.consumer, error).pipe(
        Effect.andThen(Effect.sleep(wait)),
        Effect.andThen(Effect.suspend(() => patientKeys(loop, handoff, longer(wait))))
      )
    )
  )

const answerText = (answer: Answer): string => answer._tag === "Status" ? String(answer.status) : answer.problem

const onAttempt = Effect.fnUntraced(function*(loop: Loop, consumer: string, attempted: Attempted) {
  const { answer, attempts, batch, verdict } = attempted
  const text = answerText(answer)
  yield* loop.metrics.onHandoffAttempt(loop.source.name, consumer, attempted)
  yield* note(loop, consumer, (handoff) => handoff.answer === text ? handoff : { ...handoff, answer: text })
  if (verdict._tag === "Accept") return
  yield* Effect.logWithLevel(verdict._tag === "Retry" ? "Warn" : "Info")("hand-off not accepted").pipe(
    Effect.annotateLogs({
      consumer,
      list: batch.list,
      changes: batch.changes,
      attempts,
      answer: text,
      ...verdict._tag === "Retry" ? { waitMs: Math.ceil(Duration.toMillis(verdict.wait)) } : {}
    })
  )
})

/** Waits until the program that has taken the hand-off over does nothing any more, although it should. */
const awaitTurn = Effect.fnUntraced(function*(
  loop: Loop,
  { consumer, target }: SourceHandoff,
  maintenance: Maintenance
) {
  yield* noteProblem(loop, consumer, { reason: "TakenOver", error: "another program hands the changes off." })
  let [key, since] = ["", yield* Monotonic.millis]
  for (;;) {
    yield* Effect.sleep(Duration.millis(2000 + 2000 * (yield* Random.next)))
    const progress = yield* Effect.result(progressOf(maintenance, consumer))
    if (progress._tag === "Failure") return
    const now = yield* Monotonic.millis
    const found = progressKey(progress.success)
    if (found !== key) [key, since] = [found, now]
    const wall = DateTime.toEpochMillis(yield* DateTime.now)
    const { timeout } = Redacted.value(target)
    if (mayTakeOver(progress.success, { now: wall, sinceMs: now - since, timeout })) return
  }
})

const progressOf = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  consumer: string
): Effect.fn.Return<Progress, SinkError> {
  const states = yield* maintenance.consumerStates
  const { last } = yield* maintenance.changeRange
  return {
    handoff: yield* storedOf(maintenance, consumer),
    position: states.find(({ name }) => name === consumer)?.position,
    last
  }
})
