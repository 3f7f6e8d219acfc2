/**
 * Sends one batch after the other while they are accepted. The position is stored after several batches, at the latest
 * after a second. While a request is in flight, the next batches are read and their boundaries stored, so that neither
 * takes time of its own.
 */
import { Monotonic } from "@payments/core"
import { DateTime, Effect } from "effect"
import type { ChangeRange } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import { type Handoff, type HandoffBatch, untried } from "../store/HandoffStore.ts"
import { begun, judged, settled, waitingFull } from "./Decision.ts"
import { prepare, type Prepared, type ReadyBatch } from "./Preparation.ts"
import { attempt, change, changeAndMove, type HandoffTakenOver, isFresh, type Sender, signAhead } from "./Sending.ts"

/** The most batches that are prepared at a time, and the size at which no more are. */
export const mostReady = 96
const readyBytes = 2_000_000

/** The most batches that are prepared during a request. The answer waits meanwhile. */
const preparedAtOnce = 4

/** How long a delivery takes at most while changes are set aside. */
const longestMs = 1000

/** How long it may take to send the batches that are prepared at a time. */
const readyMs = 250

/** Whether the batch is the one in flight, and its changes are still those that were read. */
const isReady = (handoff: Handoff, batch: HandoffBatch, { generation, pruned }: ChangeRange): boolean =>
  handoff.state === "running" && handoff.batch?.nonce === batch.nonce && batch.generation === generation &&
  pruned <= batch.after

/** Batches that are sent one after the other. Only the functions below change it. */
interface Delivery {
  readonly generation: string
  /** The stored state, the stored position, and the range of the changes when they were stored. */
  handoff: Handoff
  position: number
  range: ChangeRange
  readonly startMs: number
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
export const deliver = Effect.fnUntraced(function*(
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
    startMs: yield* Monotonic.millis,
    handoff,
    position,
    range,
    accepted: undefined,
    ready: [first],
    pending: { ready: [], through: last, held: [], isFull: false, repeatsFrom: 0, kept: undefined },
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
    if (current !== undefined && !(yield* mayGoOn(sender, delivery, current))) break
    meanwhile = Effect.andThen(Effect.yieldNow, prepareNext(sender, delivery))
  }
  return yield* finish(sender, delivery)
})

/** Whether the batch was read lately. What was set aside may have to be sent after a second. */
const mayGoOn = Effect.fnUntraced(function*({ asides }: Sender, { startMs }: Delivery, current: ReadyBatch) {
  if (!(yield* isFresh(current))) return false
  return asides.isEmpty || (yield* Monotonic.millis) - startMs < longestMs
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
  // From now on, the receiver may have it.
  sender.lossAt({ generation: delivery.generation, position: batch.last }, delivery.range)
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
  const isSetAside = verdict._tag === "Halt" && verdict.reason === "refused" && sender.order === "per-record"
  if (isSetAside && sender.asides.hasRoom()) return yield* setAside(sender, delivery, given)
  const judgedAt = DateTime.toEpochMillis(yield* DateTime.now)
  const judge = (before: Handoff) => {
    const after = judged(before, verdict, judgedAt)
    return isSetAside ? waitingFull(after) : after
  }
  if (accepted === undefined) {
    // Somebody may have replayed or skipped meanwhile. Then the answer counts no more.
    return yield* change(
      sender,
      (stored) => stored.batch?.nonce === batch.nonce ? judge(stored) : undefined
    )
  }
  return (yield* changeAndMove(sender, {
    position: batch.after,
    generation,
    from: position,
    change: (stored) => judge(begun(settled(stored, accepted), batch, now))
  })).handoff
})

/** Sets the refused change aside, so that those of other records go on. */
const setAside = Effect.fnUntraced(function*(
  sender: Sender,
  { generation, position: from }: Delivery,
  { batch, firstId }: ReadyBatch
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  const { first, last, list, nonce, scannedAt, selection, storedAt } = batch
  const refused = { generation, seq: first, list, id: firstId, isRefused: true }
  const aside = { ...refused, selection, nonce, storedAt, scannedAt, ...untried }
  const move = { position: last, generation, from, asides: [aside], forgetAfter: last }
  return (yield* changeAndMove(sender, { ...move, change: (stored) => settled(stored, last) })).handoff
})

/** How many batches are prepared before their boundaries are stored. */
const mostPending = ({ accepted, handoff, msPerBatch = readyMs, position }: Delivery): number =>
  // Where a change was refused before, the next one may be refused too.
  settled(handoff, accepted ?? position).mostChanges === undefined
    ? Math.max(1, Math.min(mostReady, Math.floor(readyMs / Math.max(1, msPerBatch))))
    : 1

/** Prepares some of the next batches, and signs the one that follows the batch in flight. */
const prepareNext = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery
): Effect.fn.Return<void, SinkError | HandoffTakenOver> {
  yield* prepareMore(sender, delivery)
  const [, next] = delivery.ready
  if (next !== undefined) yield* signAhead(sender, next)
})

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
    const { kept, repeatsFrom, through: after } = pending
    // Spread evenly over the requests that are left until the boundaries are stored.
    const count = Math.min(preparedAtOnce, Math.ceil(left / Math.max(1, delivery.ready.length)))
    const more = yield* prepare(sender, { after, generation, last, mostChanges, count, previous, repeatsFrom, kept })
    delivery.pending = { ...more, ready: [...pending.ready, ...more.ready], held: [...pending.held, ...more.held] }
  }
  if (delivery.ready.length <= 1 && delivery.pending.ready.length > 0) yield* storePending(sender, delivery)
})

const isLarge = ({ ready }: Prepared): boolean =>
  ready.reduce((bytes, { message }) => bytes + (message?.body.length ?? 0), 0) >= readyBytes

const storePending = Effect.fnUntraced(function*(
  sender: Sender,
  delivery: Delivery
): Effect.fn.Return<void, SinkError | HandoffTakenOver> {
  const { accepted, generation, pending: { held, ready }, position: from } = delivery
  const [current] = [...delivery.ready, ...ready]
  const now = DateTime.formatIso(yield* DateTime.now)
  // Every change before the batch in flight was accepted, is set aside, or is not sent.
  const position = current?.batch.after ?? accepted ?? from
  const { handoff, range } = yield* changeAndMove(sender, {
    position,
    generation,
    from,
    asides: held,
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
  delivery.accepted = undefined
  delivery.ready.push(...ready)
  delivery.pending = { ...delivery.pending, ready: [], held: [] }
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
  const asides = isWhole ? pending.held : []
  return (yield* changeAndMove(sender, { position, generation, from, asides, change: settle })).handoff
})
