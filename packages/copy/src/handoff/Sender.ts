/**
 * Hands the changes of a destination to one consumer: a batch at a time, in the order of their numbers. The boundary of a
 * batch is stored before its first attempt, and the position moves after a 2xx, so a kill at any moment repeats a batch at
 * most. Of two senders, the later one goes on: the earlier one fails before it stores anything more.
 *
 * Waits are monotonic. Only a sender that starts reads when the next attempt is due from the wall clock.
 */
import { type Lists, Monotonic } from "@payments/core"
import { type Array, Data, DateTime, Duration, Effect, Random } from "effect"
import { randomBytes } from "node:crypto"
import { moveConsumer } from "../ask/Consumers.ts"
import type { ChangeRange, StoredPosition } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Handoff, HandoffBatch, HandoffChange } from "../store/HandoffStore.ts"
import type { ChangeRow, Maintenance } from "../store/Store.ts"
import {
  type BatchLimits,
  batchLimits,
  bodyOf,
  chooseBatch,
  isSent,
  messageId,
  selectionOf,
  type Shape
} from "./Body.ts"
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
  readonly keys: Effect.Effect<Array.NonEmptyReadonlyArray<SigningKey>>
  readonly post: Post
  /** Whether to wait for later changes and decisions, until interrupted. */
  readonly isFollowing: boolean
  /** Ends when something may have changed. Default: a short wait. */
  readonly untilWoken?: Effect.Effect<void> | undefined
  readonly onAttempt?: ((attempted: Attempted) => Effect.Effect<void>) | undefined
}

/** How often a sender looks for new changes, and for a decision about a hand-off that stands still. */
const [pollChanges, pollDecision] = [Duration.millis(200), Duration.seconds(1)] as const

/** The changes that are read at a time if only some kinds are sent. */
const readAtOnce = 1000

/** How many more changes are read than the batch before had. */
const readMore = 8

interface Sender extends SenderOptions {
  readonly epoch: number
  readonly limits: BatchLimits
  readonly policy: HandoffPolicy
  readonly selection: string
  readonly scannedAt: ScannedAt
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
          : yield* repeat(sender, step.batch)
        break
      }
      case "Choose": {
        const next = yield* begin(sender, handoff, position.position, range)
        if (next === undefined && !options.isFollowing) return handoff
        if (next === undefined) yield* options.untilWoken ?? Effect.sleep(pollChanges)
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
  readonly range: ChangeRange | undefined
}

/** Changes what is stored, and moves the consumer. If that is not possible, stops: the destination was restored. */
const changeAndMove = Effect.fnUntraced(function*(
  sender: Sender,
  to: { readonly position: number; readonly generation: string },
  changed: HandoffChange["change"]
): Effect.fn.Return<Moved, SinkError | HandoffTakenOver> {
  const { consumer, epoch, maintenance } = sender
  const now = DateTime.formatIso(yield* DateTime.now)
  const move = { ...to, name: consumer, when: "forward" as const }
  const { handoff, moved } = yield* maintenance.changeHandoff({
    consumer,
    epoch,
    change: changed,
    move: { ...move, now }
  })
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

/** A batch with its changes. */
interface Chosen {
  readonly batch: HandoffBatch
  readonly rows: ReadonlyArray<ChangeRow>
}

/** Chooses the next batch after a position. Returns undefined or a number if no change, or none up to it, is to be sent. */
const choose = Effect.fnUntraced(function*(
  sender: Sender,
  { mostChanges }: Pick<Handoff, "mostChanges">,
  position: number,
  { generation, last, previous }: Pick<ChangeRange, "generation" | "last"> & {
    /** The number of changes of the batch before. */
    readonly previous?: number
  }
): Effect.fn.Return<Chosen | number | undefined, SinkError> {
  const { consumer, limits, lists, maintenance, shape } = sender
  // A destination without generations has no hand-offs.
  if (generation === undefined || position >= last) return undefined
  const most = Math.min(limits.changes, mostChanges ?? limits.changes)
  const known = yield* maintenance.handoffBatch(consumer, { generation, after: position })
  if (known !== undefined && known.changes <= most && known.last <= last && known.selection === sender.selection) {
    return { batch: known, rows: yield* rowsOf(sender, known) }
  }
  // Batches are often limited by their size, and then more changes would be read in vain.
  const count = shape.kinds !== undefined ? readAtOnce : Math.min(most, (previous ?? most) + readMore)
  const rows = yield* maintenance.changes(position, count, lists)
  const first = rows.find((row) => isSent(shape, row))
  // All changes up to `last` had been committed before the rows were read.
  if (first === undefined) return rows.length === count ? rows.at(-1)?.seq ?? last : last
  const scannedAt = yield* sender.scannedAt(first.list)
  const nonce = yield* Effect.sync(() => randomBytes(16).toString("hex"))
  const storedAt = DateTime.formatIso(yield* DateTime.now)
  const start = { generation, after: position, selection: sender.selection, nonce, storedAt, scannedAt }
  const batch = chooseBatch(shape, rows, start, { ...limits, changes: most })
  return batch === undefined ? undefined : { batch, rows: rowsIn(sender, batch, rows) }
})

/** Chooses, stores and sends the next batch, and those after it while they are accepted. Returns undefined without one. */
const begin = Effect.fnUntraced(function*(
  sender: Sender,
  handoff: Handoff,
  position: number,
  range: ChangeRange
): Effect.fn.Return<Handoff | undefined, SinkError | HandoffTakenOver> {
  const { generation } = range
  const chosen = yield* choose(sender, handoff, position, range)
  if (chosen === undefined || generation === undefined) return undefined
  if (typeof chosen === "number") {
    const moved = yield* changeAndMove(sender, { position: chosen, generation }, (stored) => settled(stored, chosen))
    return moved.handoff
  }
  const now = DateTime.formatIso(yield* DateTime.now)
  const begunNow = yield* change(
    sender,
    // Somebody may have stopped it meanwhile.
    (stored) => stored.state === "running" ? begun(stored, chosen.batch, now) : undefined
  )
  // A generation that has begun meanwhile may have given the numbers to other changes.
  const later = yield* sender.maintenance.changeRange
  if (!isReady(begunNow, chosen.batch, later)) return begunNow
  return yield* deliver(sender, begunNow, chosen, later)
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

/** Sends the batch in flight again. */
const repeat = Effect.fnUntraced(function*(
  sender: Sender,
  batch: HandoffBatch
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  const at = DateTime.formatIso(yield* DateTime.now)
  const stored = yield* change(sender, (before) => before.state === "running" ? repeated(before, at) : undefined)
  const rows = yield* rowsOf(sender, batch)
  const range = yield* sender.maintenance.changeRange
  return isReady(stored, batch, range) ? yield* deliver(sender, stored, { batch, rows }, range) : stored
})

/**
 * Sends the batch in flight, and the next ones while they are accepted. The transaction that ends a batch stores the
 * boundary of the next one.
 */
const deliver = Effect.fnUntraced(function*(
  sender: Sender,
  first: Handoff,
  chosen: Chosen,
  known: ChangeRange
): Effect.fn.Return<Handoff, SinkError | HandoffTakenOver> {
  let [handoff, { batch, rows }, range] = [first, chosen, known]
  for (;;) {
    const refused = yield* attempt(sender, handoff, batch, rows)
    if (refused !== undefined) return refused
    const { generation, last } = batch
    const next = yield* choose(sender, settled(handoff, last), last, { ...range, previous: batch.changes })
    const following = typeof next === "object" ? next : undefined
    const now = DateTime.formatIso(yield* DateTime.now)
    const moved = yield* changeAndMove(sender, { position: last, generation }, (stored) => {
      const after = settled(stored, last)
      return following === undefined || stored.state !== "running" ? after : begun(after, following.batch, now)
    })
    if (following === undefined || moved.range === undefined || !isReady(moved.handoff, following.batch, moved.range)) {
      return moved.handoff
    }
    handoff = moved.handoff
    ;({ batch, rows } = following)
    range = moved.range
  }
})

/** Sends a batch once. Returns undefined if it was accepted, else what was stored. */
const attempt = Effect.fnUntraced(function*(
  sender: Sender,
  handoff: Handoff,
  batch: HandoffBatch,
  rows: ReadonlyArray<ChangeRow>
): Effect.fn.Return<Handoff | undefined, SinkError | HandoffTakenOver> {
  // The settings have changed, so that none of the changes is sent any more.
  if (rows.length === 0) return undefined
  const body = bodyOf(sender.shape, batch, rows)
  const timestamp = Math.floor(DateTime.toEpochMillis(yield* DateTime.now) / 1000)
  const headers = sign({ id: messageId(batch, body), timestamp, body }, yield* sender.keys)
  const answer = yield* sender.post({ ...headers }, body)
  const now = DateTime.toEpochMillis(yield* DateTime.now)
  const verdict = afterAnswer(sender.policy, { ...handoff, batch }, answer, { now, fraction: yield* Random.next })
  const { attempts } = handoff
  yield* sender.onAttempt?.({ batch, attempts, bytes: body.length, answer, verdict }) ?? Effect.void
  return verdict._tag === "Accept" ? undefined : yield* change(sender, (stored) => judged(stored, verdict, now))
})

/** Reads the changes of a stored batch. */
const rowsOf = Effect.fnUntraced(function*(
  sender: Sender,
  batch: HandoffBatch
): Effect.fn.Return<ReadonlyArray<ChangeRow>, SinkError> {
  const lists = sender.lists.filter(({ label }) => label === batch.list)
  const found: Array<ChangeRow> = []
  for (let after = batch.first - 1; after < batch.last;) {
    const rows = yield* sender.maintenance.changes(after, Math.min(batch.last - after, readAtOnce), lists)
    found.push(...rowsIn(sender, batch, rows))
    after = rows.at(-1)?.seq ?? batch.last
  }
  return found
})

const rowsIn = ({ shape }: Sender, { first, last, list }: HandoffBatch, rows: ReadonlyArray<ChangeRow>) =>
  rows.filter((row) => row.list === list && row.seq >= first && row.seq <= last && isSent(shape, row))

/** Returns when the last complete scan of a list had begun, by the list's name. */
type ScannedAt = (label: string) => Effect.Effect<string | undefined, SinkError>

/** Reads it once a second at most: it takes as long as all other questions for a batch. */
const makeScannedAt = ({ lists, maintenance }: SenderOptions): ScannedAt => {
  const known = new Map<string, { readonly readAt: number; readonly scannedAt: string | undefined }>()
  return Effect.fnUntraced(function*(label) {
    const readAt = yield* Monotonic.millis
    const last = known.get(label)
    if (last !== undefined && readAt - last.readAt < 1000) return last.scannedAt
    const list = lists.find((one) => one.label === label)
    const scannedAt = list === undefined ? undefined : (yield* maintenance.state(list)).completeScan?.startedAt
    known.set(label, { readAt, scannedAt })
    return scannedAt
  })
}
