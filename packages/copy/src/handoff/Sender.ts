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
import { type Array as Arr, Data, DateTime, Duration, Effect, Random } from "effect"
import { moveConsumer } from "../ask/Consumers.ts"
import type { ChangeRange, StoredPosition } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Handoff, HandoffBatch, HandoffChange } from "../store/HandoffStore.ts"
import type { Maintenance } from "../store/Store.ts"
import { type BatchLimits, batchLimits, selectionOf, type Shape } from "./Body.ts"
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

/** The most batches that are prepared at a time, and the size at which no more are. */
export const mostReady = 96
const readyBytes = 2_000_000

/** The batches that are read during a request. The answer waits meanwhile. */
const readAtOnce = 2

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
  const wanted = { after: position, generation, last, mostChanges, count: 1, previous: undefined, isRepeated: true }
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

/** Batches that are sent one after the other. Only the functions below change it. */
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
  /** The batches that were prepared, and whose boundaries are not stored yet. */
  pending: Prepared
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
    pending: { ready: [], through: last, isRepeated: true },
    isOver: false,
    msPerBatch: undefined,
    previous: changes
  }
  return yield* Effect.onInterrupt(sendAll(sender, delivery, first), () =>
    delivery.accepted === undefined
      ? Effect.void
      // Without the position, the batches are repeated, with their ids.
      : Effect.ignore(finish(sender, { ...delivery, isOver: true })))
})

const sendAll = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery,
  first: ReadyBatch
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  // Nothing is prepared before the first batch is accepted: the receiver may be down.
  let meanwhile: Effect.Effect<void, SinkError | HandoffTakenOver> = Effect.void
  for (let current: ReadyBatch | undefined = first; current !== undefined;) {
    const ended = yield* sendOne(sender, delivery, current, meanwhile)
    if (ended !== undefined) return ended
    if (delivery.ready.length === 0) yield* prepareMore(sender, delivery)
    current = delivery.isOver ? undefined : delivery.ready[0]
    // The end stores the position, and compares what may have changed meanwhile.
    if (current !== undefined && !(yield* isFresh(current))) break
    meanwhile = Effect.andThen(Effect.yieldNow, prepareMore(sender, delivery))
  }
  return yield* finish(sender, delivery)
})

/** Sends a batch, and does something meanwhile. Returns undefined if it was accepted, else what was stored. */
const sendOne = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery,
  given: ReadyBatch,
  meanwhile: Effect.Effect<void, SinkError | HandoffTakenOver>
): Effect.fn.Return<Handoff | undefined, SinkError | HandoffTakenOver> {
  const start = yield* Monotonic.millis
  const now = DateTime.formatIso(yield* DateTime.now)
  const { batch } = given
  const isStored = delivery.handoff.batch?.nonce === batch.nonce
  const attempted = attempt(sender, isStored ? delivery.handoff : begun(delivery.handoff, batch, now), given)
  const [verdict] = yield* Effect.all([attempted, meanwhile], { concurrency: 2 })
  if (verdict._tag === "Accept") {
    const took = (yield* Monotonic.millis) - start
    delivery.msPerBatch = ((delivery.msPerBatch ?? took) * 7 + took) / 8
    delivery.accepted = batch.last
    delivery.previous = batch.changes
    delivery.ready.shift()
    return undefined
  }
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
  const { batch, message } = yield* refreshed(sender, given)
  if (message === undefined) return { _tag: "Accept" }
  const timestamp = Math.floor(DateTime.toEpochMillis(yield* DateTime.now) / 1000)
  const answer = yield* sender.post({ ...sign({ ...message, timestamp }, keys) }, message.body)
  const now = DateTime.toEpochMillis(yield* DateTime.now)
  const fraction = yield* Random.next
  const verdict = afterAnswer(sender.policy, { attempts, firstAttemptAt, batch }, answer, { now, fraction })
  yield* sender.onAttempt?.({ batch, attempts, bytes: message.body.length, answer, verdict }) ?? Effect.void
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

/** How many batches are prepared before their boundaries are stored. */
const mostPending = ({ accepted, handoff, msPerBatch = readyMs, position }: Delivery): number =>
  // Where a change was refused before, the next one may be refused too.
  settled(handoff, accepted ?? position).mostChanges === undefined
    ? Math.max(1, Math.min(mostReady, Math.floor(readyMs / Math.max(1, msPerBatch))))
    : 1

/**
 * Prepares some of the next batches. Once they are enough, or as soon as they are needed, stores their boundaries, the
 * batch in flight, and the position that was reached.
 */
const prepareMore = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery
): Effect.fn.Return<void, SinkError | HandoffTakenOver> {
  const { generation, handoff, accepted, pending, position, previous, range: { last } } = delivery
  const left = mostPending(delivery) - pending.ready.length
  if (left > 0 && pending.through < last && !isLarge(pending)) {
    const { mostChanges } = settled(handoff, accepted ?? position)
    const { isRepeated, through: after } = pending
    const count = Math.min(readAtOnce, left)
    const more = yield* prepare(sender, { after, generation, last, mostChanges, count, previous, isRepeated })
    delivery.pending = { ...more, ready: [...pending.ready, ...more.ready] }
  }
  if (delivery.ready.length <= 1 && delivery.pending.ready.length > 0) yield* storePending(sender, delivery)
})

const isLarge = ({ ready }: Prepared): boolean =>
  ready.reduce((bytes, { message }) => bytes + (message?.body.length ?? 0), 0) >= readyBytes

const storePending = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery
): Effect.fn.Return<void, SinkError | HandoffTakenOver> {
  const { accepted, generation, pending: { ready }, position: from } = delivery
  const [current] = [...delivery.ready, ...ready]
  const now = DateTime.formatIso(yield* DateTime.now)
  const position = accepted ?? from
  const { handoff, range } = yield* changeAndMove(sender, {
    position,
    generation,
    from,
    boundaries: ready.flatMap(({ batch }) => batch === current?.batch ? [] : [batch]),
    change: (stored) => {
      const reached = settled(stored, position)
      return stored.state === "running" && current !== undefined ? begun(reached, current.batch, now) : reached
    }
  })
  delivery.handoff = handoff
  delivery.isOver = range === undefined || current === undefined || !isReady(handoff, current.batch, range)
  if (range === undefined) return
  delivery.position = position
  delivery.range = range
  // The batch in flight may have been accepted meanwhile.
  if (delivery.accepted === accepted) delivery.accepted = undefined
  delivery.ready.push(...ready)
  delivery.pending = { ...delivery.pending, ready: [] }
})

/** Stores the position that was reached. */
const finish = Effect.fnUntraced(function*(
  sender: Sender,
  { accepted, generation, handoff, isOver, pending, position: from, ready }: Delivery
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  const isWhole = !isOver && ready.length + pending.ready.length === 0
  const position = isWhole ? pending.through : accepted ?? from
  if (position === from && isOver) return handoff
  const settle = (stored: Handoff) => settled(stored, position)
  return (yield* changeAndMove(sender, { position, generation, from, change: settle })).handoff
})
