/** What a sender is, how it sends a batch once, and how it changes what is stored. */
import { type Lists, Monotonic } from "@payments/core"
import { type Array as Arr, Data, DateTime, Effect, Random } from "effect"
import type { ChangeRange } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Handoff, HandoffBatch, HandoffChange } from "../store/HandoffStore.ts"
import type { Maintenance } from "../store/Store.ts"
import type { BatchLimits, Shape } from "./Body.ts"
import { afterAnswer, type Answer, type HandoffPolicy, stopped, type Verdict } from "./Decision.ts"
import type { LossAt, SeenPosition } from "./Loss.ts"
import type { Post } from "./Post.ts"
import { type ChangeSource, read, type ReadyBatch } from "./Preparation.ts"
import type { Signer, SigningKey } from "./Signature.ts"

/** Another sender has taken the hand-off over, its consumer was removed, or an older destination was put in place. */
export class HandoffTakenOver extends Data.TaggedError("HandoffTakenOver")<{ readonly consumer: string }> {
  override get message() {
    return `another program hands the changes to ${this.consumer} over now, the consumer was removed, or the destination was restored.`
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
  /** What waits for a refused change: all changes, or only those of its record. Default: all (`strict`). */
  readonly order?: "strict" | "per-record" | undefined
  /** Read for each attempt, because keys are replaced. */
  readonly keys: Effect.Effect<Arr.NonEmptyReadonlyArray<SigningKey>>
  readonly post: Post
  /** Whether to wait for later changes and decisions, until interrupted. */
  readonly isFollowing: boolean
  /** Ends when something may have changed. Default: a short wait. */
  readonly untilWoken?: Effect.Effect<void> | undefined
  /** What a sender remembers when it begins again. Default: nothing. */
  readonly lossAt?: LossAt | undefined
  readonly onAttempt?: ((attempted: Attempted) => Effect.Effect<void>) | undefined
}

export interface Sender extends SenderOptions, ChangeSource {
  readonly epoch: number
  readonly createdAt: Handoff["createdAt"]
  readonly lossAt: LossAt
  readonly limits: BatchLimits
  readonly policy: HandoffPolicy
  readonly signer: Signer
}

/** Changes that were read longer ago are read again before they are sent: below a second, with time for a slow moment. */
const freshMs = 900

/** Changes what is stored. */
export const change = (
  { consumer, createdAt, epoch, maintenance }: Sender,
  changed: HandoffChange["change"],
  also: Pick<HandoffChange, "asides" | "settledAside"> = {}
): Effect.Effect<Handoff, SinkError | HandoffTakenOver> =>
  Effect.flatMap(
    maintenance.changeHandoff({ ...also, consumer, createdAt, epoch, change: changed }),
    ({ handoff }) => handoff === undefined ? Effect.fail(new HandoffTakenOver({ consumer })) : Effect.succeed(handoff)
  )

/** The state after a move, and the range of the changes then. */
export interface Moved {
  readonly handoff: Handoff
  /** Undefined if the consumer was not moved. */
  readonly range: ChangeRange | undefined
}

export interface Move extends Pick<HandoffChange, "asides" | "boundaries" | "change" | "forgetAfter"> {
  readonly position: number
  readonly generation: string
  /** The stored position, if no one else has moved the consumer. */
  readonly from: number
}

/** Changes what is stored, and moves the consumer. If that is not possible, stops: the destination was restored. */
export const changeAndMove = Effect.fnUntraced(function*(
  sender: Sender,
  { generation, position, ...changed }: Move
): Effect.fn.Return<Moved, SinkError | HandoffTakenOver> {
  const { consumer, createdAt, epoch, maintenance } = sender
  const now = DateTime.formatIso(yield* DateTime.now)
  const move = { position, generation, name: consumer, when: "forward" as const }
  const own = { consumer, createdAt, epoch, move: { ...move, now } }
  const { handoff, moved } = yield* maintenance.changeHandoff({ ...changed, ...own })
  if (handoff === undefined) return yield* new HandoffTakenOver({ consumer })
  const isMoved = moved === undefined || moved.verdict._tag === "move" || moved.verdict._tag === "stay"
  if (isMoved) return { handoff, range: moved?.range }
  yield* beginAfterLoss(sender, { generation, position })
  return { handoff: yield* change(sender, (stored) => stopped(stored, "restored")), range: undefined }
})

/** Begins a new generation if the receiver has accepted a change that the destination has lost. */
export const beginAfterLoss = Effect.fnUntraced(function*(
  { consumer, maintenance }: Sender,
  accepted: SeenPosition
): Effect.fn.Return<void, SinkError> {
  const { generation, last } = yield* maintenance.changeRange
  const stored = (yield* maintenance.consumerStates).find(({ name }) => name === consumer)
  if (accepted.position <= last || accepted.generation !== generation || stored?.generation !== generation) return
  const now = DateTime.formatIso(yield* DateTime.now)
  yield* maintenance.beginGeneration({ reason: "consumer", after: stored.position, instead: generation, now })
})

/** Sends a batch once. */
export const attempt = Effect.fnUntraced(function*(
  sender: Sender,
  { attempts, firstAttemptAt }: Pick<Handoff, "attempts" | "firstAttemptAt">,
  given: ReadyBatch
): Effect.fn.Return<Verdict, SinkError> {
  const keys = yield* sender.keys
  const { batch, message } = yield* refreshed(sender, given)
  if (message === undefined) return { _tag: "Accept" }
  const headers = sender.signer.sign({ message, timestamp: yield* timestampNow, keys })
  const answer = yield* sender.post({ ...headers }, message.body)
  const now = DateTime.toEpochMillis(yield* DateTime.now)
  const fraction = yield* Random.next
  const verdict = afterAnswer(sender.policy, { attempts, firstAttemptAt, batch }, answer, { now, fraction })
  yield* sender.onAttempt?.({ batch, attempts, bytes: message.body.length, answer, verdict }) ?? Effect.void
  return verdict
})

/** In whole seconds. */
const timestampNow = Effect.map(DateTime.now, (now) => Math.floor(DateTime.toEpochMillis(now) / 1000))

/** Signs a message with the last keys, so that its attempt within the same second does not have to. */
export const signAhead = ({ signer }: Sender, { message }: ReadyBatch): Effect.Effect<void> =>
  Effect.map(timestampNow, (timestamp) => message === undefined ? undefined : signer.ahead({ message, timestamp }))

/** Reads the changes of a batch again if they may have been erased meanwhile. */
const refreshed = Effect.fnUntraced(function*(
  sender: Sender,
  given: ReadyBatch
): Effect.fn.Return<ReadyBatch, SinkError> {
  let current = given
  while (!(yield* isFresh(current))) current = yield* read(sender, current.batch)
  return current
})

export const isFresh = ({ readAt }: ReadyBatch): Effect.Effect<boolean> =>
  Effect.map(Monotonic.millis, (now) => now - readAt < freshMs)
