/**
 * Hands the changes of a destination to one consumer: a batch at a time, in the order of their numbers. The boundary of a
 * batch is stored before its first attempt. The position is stored after several batches were accepted, at the latest after
 * a second, so a kill at any moment repeats these batches at most. Of two senders, the later one goes on: the earlier one
 * ends within a second, and stores nothing more.
 *
 * While a request is in flight, the next batches are read and their boundaries stored, so that neither takes time of its
 * own. What was read a second ago is read again before it is sent, because it may have been erased.
 *
 * Waits are monotonic. Only a sender that starts reads when the next attempt is due from the wall clock.
 */
import { type Lists, Monotonic } from "@payments/core"
import { type Array as Arr, Data, DateTime, Duration, Effect, Fiber, Random } from "effect"
import { moveConsumer } from "../ask/Consumers.ts"
import type { ChangeRange, StoredPosition } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Handoff, HandoffBatch, HandoffChange } from "../store/HandoffStore.ts"
import type { Maintenance } from "../store/Store.ts"
import { type BatchLimits, batchLimits, messageId, selectionOf, type Shape } from "./Body.ts"
import {
  afterAnswer,
  type Answer,
  begun,
  type HandoffPolicy,
  handoffPolicy,
  judged,
  nextStep,
  repeated,
  settled,
  stopped,
  type Verdict,
  waitBefore
} from "./Decision.ts"
import type { Post } from "./Post.ts"
import { type ChangeSource, makeScannedAt, type Prepared, prepare, read, type ReadyBatch } from "./Preparation.ts"
import { sign, type SigningKey } from "./Signature.ts"

/** Another sender has taken the hand-off over, or its consumer was removed. */
export class HandoffTakenOver extends Data.TaggedError("HandoffTakenOver")<{ readonly consumer: string }> {
  override get message() {
    return `another program hands the changes to ${this.consumer} over now, or the consumer was removed.`
  }
}

/** What happened. It has no data of a change, and no part of an answer but its status. */
export interface Attempted {
  readonly batch: Pick<HandoffBatch, "list" | "first" | "last" | "changes">
  readonly attempts: number
  readonly bytes: number
  readonly answer: Answer
  readonly verdict: Verdict
}

export interface SenderOptions {
  readonly maintenance: Maintenance
  /** A consumer that exists. */
  readonly consumer: string
  readonly lists: ReadonlyArray<Lists.AnyList>
  readonly shape: Shape
  readonly limits?: BatchLimits | undefined
  readonly policy?: HandoffPolicy | undefined
  /** Read for each attempt, because keys are replaced. */
  readonly keys: Effect.Effect<Arr.NonEmptyReadonlyArray<SigningKey>>
  readonly post: Post
  /** Whether to wait for later changes and decisions, until interrupted. */
  readonly isFollowing: boolean
  /** Ends when something may have changed. Default: a short wait. */
  readonly untilWoken?: Effect.Effect<void> | undefined
  readonly onAttempt?: ((attempted: Attempted) => Effect.Effect<void>) | undefined
}

/** How often a sender looks for new changes, and for a decision about a hand-off that stands still. */
const [pollChanges, pollDecision] = [Duration.millis(200), Duration.seconds(1)] as const

/** Changes that were read longer ago are read again before they are sent: below a second, with time for a slow moment. */
const freshMs = 900

/** The most batches that are prepared at a time. */
export const mostReady = 32

/** How long it may take to send the batches that are prepared at a time. */
const readyMs = 250

interface Sender extends SenderOptions, ChangeSource {
  readonly epoch: number
  readonly limits: BatchLimits
  readonly policy: HandoffPolicy
}

/** Returns the state in which nothing more is to be sent. With `isFollowing`, it never returns. */
export const handOff = Effect.fn("Handoff.send")(function*(
  options: SenderOptions
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  const { consumer, limits = batchLimits, lists, maintenance, policy = handoffPolicy, shape } = options
  let handoff = yield* maintenance.takeOverHandoff(consumer)
  const [selection, scannedAt] = [selectionOf(shape, lists), makeScannedAt(options)]
  const sender: Sender = { ...options, limits, policy, epoch: handoff.epoch, selection, scannedAt }
  const dueIn = makeDueIn(policy)
  for (;;) {
    // In this order, the position is in the range unless changes were lost.
    const position = yield* positionOf(sender)
    const range = yield* maintenance.changeRange
    const step = nextStep(handoff, position, { ...range, selection })
    switch (step._tag) {
      case "Halt":
        if (!options.isFollowing) return handoff
        yield* options.untilWoken ?? Effect.sleep(pollDecision)
        handoff = yield* change(sender, () => undefined)
        break
      case "Stop":
        handoff = yield* change(sender, (stored) => stopped(stored, step.reason))
        break
      case "Settle":
        handoff = yield* change(sender, (stored) => settled(stored, step.batch.last))
        break
      case "Attempt": {
        const wait = yield* dueIn(handoff)
        yield* Effect.sleep(Duration.min(wait, pollDecision))
        // Meanwhile somebody may have resumed it, or moved the consumer.
        handoff = Duration.isGreaterThan(wait, pollDecision)
          ? yield* change(sender, () => undefined)
          : yield* repeat(sender, step.batch, position.position)
        break
      }
      case "Choose": {
        const next = yield* begin(sender, handoff, position.position, range)
        if (next === undefined && !options.isFollowing) return handoff
        if (next === undefined) yield* options.untilWoken ?? changesAfter(sender, range)
        else handoff = next
      }
    }
  }
})

const positionOf = ({ consumer, maintenance }: Sender): Effect.Effect<StoredPosition, SinkError | HandoffTakenOver> =>
  Effect.flatMap(maintenance.consumerStates, (states) => {
    const found = states.find(({ name }) => name === consumer)
    return found === undefined ? Effect.fail(new HandoffTakenOver({ consumer })) : Effect.succeed(found)
  })

/** Waits for later changes, but not for longer than a second: somebody may move the consumer. */
const changesAfter = Effect.fnUntraced(function*(
  { maintenance }: Sender,
  { generation, last }: ChangeRange
): Effect.fn.Return<void, SinkError> {
  const start = yield* Monotonic.millis
  for (;;) {
    yield* Effect.sleep(pollChanges)
    const now = yield* maintenance.changeRange
    if (now.last !== last || now.generation !== generation) return
    if ((yield* Monotonic.millis) - start >= Duration.toMillis(pollDecision)) return
  }
})

/** Changes what is stored. */
const change = (
  { consumer, epoch, maintenance }: Sender,
  changed: HandoffChange["change"]
): Effect.Effect<Handoff, SinkError | HandoffTakenOver> =>
  Effect.flatMap(
    maintenance.changeHandoff({ consumer, epoch, change: changed }),
    ({ handoff }) => handoff === undefined ? Effect.fail(new HandoffTakenOver({ consumer })) : Effect.succeed(handoff)
  )

/** The state after a move, and the range of the changes then. */
interface Moved {
  readonly handoff: Handoff
  /** Undefined if the consumer was not moved. */
  readonly range: ChangeRange | undefined
}

interface Move extends Pick<HandoffChange, "boundaries" | "change"> {
  readonly position: number
  readonly generation: string
  /** The stored position, if no one else has moved the consumer. */
  readonly from: number
}

/** Changes what is stored, and moves the consumer. If that is not possible, stops: the destination was restored. */
const changeAndMove = Effect.fnUntraced(function*(
  sender: Sender,
  { generation, position, ...changed }: Move
): Effect.fn.Return<Moved, SinkError | HandoffTakenOver> {
  const { consumer, epoch, maintenance } = sender
  const now = DateTime.formatIso(yield* DateTime.now)
  const move = { position, generation, name: consumer, when: "forward" as const }
  const { handoff, moved } = yield* maintenance.changeHandoff({ ...changed, consumer, epoch, move: { ...move, now } })
  if (handoff === undefined) return yield* new HandoffTakenOver({ consumer })
  const isMoved = moved === undefined || moved.verdict._tag === "move" || moved.verdict._tag === "stay"
  if (isMoved) return { handoff, range: moved?.range }
  // This begins a new generation if the receiver has accepted a change that the destination has lost.
  yield* moveConsumer(maintenance, move).pipe(
    Effect.catchTags({
      BeyondLastChange: () => Effect.void,
      ChangesLost: () => Effect.void,
      ChangesRemoved: () => Effect.void,
      OtherGeneration: () => Effect.void
    })
  )
  return { handoff: yield* change(sender, (stored) => stopped(stored, "restored")), range: undefined }
})

/** Prepares, stores and sends the next batch, and those after it while they are accepted. Returns undefined without one. */
const begin = Effect.fnUntraced(function*(
  sender: Sender,
  { mostChanges }: Handoff,
  position: number,
  { generation, last }: ChangeRange
): Effect.fn.Return<Handoff | undefined, SinkError | HandoffTakenOver> {
  // A destination without generations has no hand-offs.
  if (generation === undefined) return undefined
  const wanted = { after: position, generation, last, mostChanges, count: 1, previous: undefined }
  const { ready: [first], through } = yield* prepare(sender, wanted)
  if (first === undefined) {
    if (through === position) return undefined
    const move = { position: through, generation, from: position }
    return (yield* changeAndMove(sender, { ...move, change: (stored) => settled(stored, through) })).handoff
  }
  const now = DateTime.formatIso(yield* DateTime.now)
  const begunNow = yield* change(
    sender,
    // Somebody may have stopped it meanwhile.
    (stored) => stored.state === "running" ? begun(stored, first.batch, now) : undefined
  )
  return yield* deliver(sender, begunNow, first, position)
})

/** Sends the batch in flight again. */
const repeat = Effect.fnUntraced(function*(
  sender: Sender,
  batch: HandoffBatch,
  position: number
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  const at = DateTime.formatIso(yield* DateTime.now)
  const stored = yield* change(sender, (before) => before.state === "running" ? repeated(before, at) : undefined)
  return yield* deliver(sender, stored, yield* read(sender, batch), position)
})

/** Whether the batch is the one in flight, and its changes are still those that were read. */
const isReady = (handoff: Handoff, batch: HandoffBatch, { generation, pruned }: ChangeRange): boolean =>
  handoff.state === "running" && handoff.batch?.nonce === batch.nonce && batch.generation === generation &&
  pruned <= batch.after

/** Returns how long it is until the next attempt. The wall clock counts only when the time of an attempt is first seen. */
const makeDueIn = (policy: HandoffPolicy): (handoff: Handoff) => Effect.Effect<Duration.Duration> => {
  let seen: { readonly nextAttemptAt: string | undefined; readonly dueMs: number } | undefined
  return Effect.fnUntraced(function*(handoff) {
    const { nextAttemptAt } = handoff
    const nowMs = yield* Monotonic.millis
    if (seen === undefined || seen.nextAttemptAt !== nextAttemptAt) {
      const wait = waitBefore(policy, handoff, DateTime.toEpochMillis(yield* DateTime.now))
      seen = { nextAttemptAt, dueMs: nowMs + Duration.toMillis(wait) }
    }
    return Duration.millis(Math.max(0, seen.dueMs - nowMs))
  })
}

/** A range of batches that are sent one after the other. Only the functions below change it. */
interface Delivery {
  readonly generation: string
  /** The stored state, the stored position, and the range of the changes when they were stored. */
  handoff: Handoff
  position: number
  range: ChangeRange
  /** The last change that was accepted and is not stored as the position yet. */
  accepted: number | undefined
  /** The batches whose boundaries are stored. The first one is in flight. */
  readonly ready: Array<ReadyBatch>
  /** Every change up to this number is in one of the batches so far, or is not sent. */
  through: number
  preparing: Fiber.Fiber<Prepared, SinkError | HandoffTakenOver> | undefined
  /** Somebody has stopped the hand-off or moved its consumer, or the destination was restored. */
  isOver: boolean
  /** The time that a batch takes, and the changes of the last one. */
  msPerBatch: number | undefined
  previous: number
}

/** Sends the batch in flight, and the next ones while they are accepted. Returns what is stored then. */
const deliver = Effect.fnUntraced(function*(
  sender: Sender,
  handoff: Handoff,
  first: ReadyBatch,
  position: number
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  // A generation that has begun meanwhile may have given the numbers to other changes.
  const range = yield* sender.maintenance.changeRange
  const { changes, generation, last } = first.batch
  if (!isReady(handoff, first.batch, range)) return handoff
  const delivery: Delivery = {
    generation,
    handoff,
    position,
    range,
    accepted: undefined,
    ready: [first],
    through: last,
    preparing: undefined,
    isOver: false,
    msPerBatch: undefined,
    previous: changes
  }
  return yield* Effect.onInterrupt(sendAll(sender, delivery, first), () => storeAtEnd(sender, delivery))
})

const sendAll = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery,
  first: ReadyBatch
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  // Nothing is prepared before the first batch is accepted: the receiver may be down.
  for (let current: ReadyBatch | undefined = first; current !== undefined;) {
    const ended = yield* sendOne(sender, delivery, current)
    if (ended !== undefined) return ended
    if (delivery.ready.length === 0) yield* prepared(sender, delivery)
    current = delivery.isOver ? undefined : delivery.ready[0]
    // The end stores the position, and compares what may have changed meanwhile.
    if (current === undefined || !(yield* isFresh(current))) break
    if (delivery.preparing === undefined && delivery.ready.length <= mostReady / 2) {
      const preparing = Effect.andThen(Effect.yieldNow, prepareMore(sender, delivery))
      delivery.preparing = yield* Effect.forkChild(preparing)
    }
  }
  return yield* finish(sender, delivery)
})

/** Sends a batch. Returns undefined if it was accepted, else what was stored. */
const sendOne = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery,
  given: ReadyBatch
): Effect.fn.Return<Handoff | undefined, SinkError | HandoffTakenOver> {
  const start = yield* Monotonic.millis
  const now = DateTime.formatIso(yield* DateTime.now)
  const { batch } = given
  const isStored = delivery.handoff.batch?.nonce === batch.nonce
  const verdict = yield* attempt(sender, isStored ? delivery.handoff : begun(delivery.handoff, batch, now), given)
  if (verdict._tag === "Accept") {
    const took = (yield* Monotonic.millis) - start
    delivery.msPerBatch = ((delivery.msPerBatch ?? took) + took) / 2
    delivery.accepted = batch.last
    delivery.previous = batch.changes
    delivery.ready.shift()
    return undefined
  }
  yield* preparedNothing(delivery)
  const { accepted, generation, position } = delivery
  const judgedAt = DateTime.toEpochMillis(yield* DateTime.now)
  const judge: HandoffChange["change"] = (stored) =>
    judged(
      accepted === undefined && stored.batch?.nonce === batch.nonce
        ? stored
        : begun(settled(stored, accepted ?? position), batch, now),
      verdict,
      judgedAt
    )
  if (accepted === undefined) return yield* change(sender, judge)
  return (yield* changeAndMove(sender, { position: accepted, generation, from: position, change: judge })).handoff
})

/** Sends a batch once. */
const attempt = Effect.fnUntraced(function*(
  sender: Sender,
  { attempts, firstAttemptAt }: Handoff,
  given: ReadyBatch
): Effect.fn.Return<Verdict, SinkError> {
  const keys = yield* sender.keys
  const { batch, body } = yield* refreshed(sender, given)
  if (body === undefined) return { _tag: "Accept" }
  const timestamp = Math.floor(DateTime.toEpochMillis(yield* DateTime.now) / 1000)
  const answer = yield* sender.post({ ...sign({ id: messageId(batch, body), timestamp, body }, keys) }, body)
  const now = DateTime.toEpochMillis(yield* DateTime.now)
  const fraction = yield* Random.next
  const verdict = afterAnswer(sender.policy, { attempts, firstAttemptAt, batch }, answer, { now, fraction })
  yield* sender.onAttempt?.({ batch, attempts, bytes: body.length, answer, verdict }) ?? Effect.void
  return verdict
})

/** Reads the changes of a batch again if they may have been erased meanwhile. */
const refreshed = Effect.fnUntraced(function*(
  sender: Sender,
  given: ReadyBatch
): Effect.fn.Return<ReadyBatch, SinkError> {
  let current = given
  while (!(yield* isFresh(current))) current = yield* read(sender, current.batch)
  return current
})

const isFresh = ({ readAt }: ReadyBatch): Effect.Effect<boolean> =>
  Effect.map(Monotonic.millis, (now) => now - readAt < freshMs)

/** Prepares the next batches, and stores their boundaries, the batch in flight, and the position that was reached. */
const prepareMore = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery
): Effect.fn.Return<Prepared, SinkError | HandoffTakenOver> {
  const { generation, msPerBatch = readyMs, position: from, previous, range: { last }, through } = delivery
  const { mostChanges } = settled(delivery.handoff, delivery.accepted ?? from)
  // Where a change was refused before, the next one may be refused too.
  const count = mostChanges === undefined
    ? Math.max(1, Math.min(mostReady, Math.floor(readyMs / Math.max(1, msPerBatch))))
    : 1
  const next = yield* prepare(sender, { after: through, generation, last, mostChanges, count, previous })
  const [first] = next.ready
  if (first === undefined) return next
  const { accepted, ready: [current = first] } = delivery
  const now = DateTime.formatIso(yield* DateTime.now)
  const position = accepted ?? from
  const { handoff, range } = yield* changeAndMove(sender, {
    position,
    generation,
    from,
    boundaries: next.ready.flatMap(({ batch }) => batch === current.batch ? [] : [batch]),
    change: (stored) => {
      const reached = settled(stored, position)
      return stored.state === "running" ? begun(reached, current.batch, now) : reached
    }
  })
  delivery.handoff = handoff
  if (range === undefined || !isReady(handoff, current.batch, range)) delivery.isOver = true
  if (range === undefined) return { ready: [], through }
  delivery.position = position
  delivery.range = range
  // More may have been accepted meanwhile.
  if (delivery.accepted === accepted) delivery.accepted = undefined
  return next
})

/** Takes the batches that were prepared, or prepares them. */
const prepared = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery
): Effect.fn.Return<void, SinkError | HandoffTakenOver> {
  const { preparing } = delivery
  delivery.preparing = undefined
  const { ready, through } = yield* preparing === undefined ? prepareMore(sender, delivery) : Fiber.join(preparing)
  delivery.ready.push(...ready)
  delivery.through = through
})

/** Waits until nothing is prepared any more. What was prepared is not sent now. */
const preparedNothing = Effect.fnUntraced(function*(
  delivery: Delivery
): Effect.fn.Return<void, SinkError | HandoffTakenOver> {
  if (delivery.preparing !== undefined) yield* Fiber.join(delivery.preparing)
  delivery.preparing = undefined
})

/** Stores the position that was reached. */
const finish = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  yield* preparedNothing(delivery)
  const { accepted, generation, handoff, isOver, position: from, ready, through } = delivery
  const position = ready.length === 0 && !isOver ? through : accepted ?? from
  if (position === from && isOver) return handoff
  return (yield* changeAndMove(sender, {
    position,
    generation,
    from,
    change: (stored) => settled(stored, position)
  })).handoff
})

/** Stores the position at the end of the program. Without it, the batches would be repeated. */
const storeAtEnd = (sender: Sender, delivery: Delivery): Effect.Effect<void> => {
  const { preparing } = delivery
  delivery.preparing = undefined
  delivery.isOver = true
  return (preparing === undefined ? Effect.void : Fiber.interrupt(preparing)).pipe(
    Effect.andThen(Effect.suspend(() => delivery.accepted === undefined ? Effect.void : finish(sender, delivery))),
    Effect.ignore // the batches are repeated, with their ids
  )
}
