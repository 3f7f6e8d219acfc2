/** What a person decides about a hand-off that stands still. A running sender goes on within a second. */
import { Data, DateTime, Effect } from "effect"
import type { SinkError } from "../port/Sink.ts"
import type { Handoff, HandoffSkip } from "../store/HandoffStore.ts"
import type { Maintenance } from "../store/Store.ts"
import { resumed, settled, withRoom } from "./Decision.ts"

/** The decision does not fit the state of the hand-off, which stays as it is. */
export class NotWaiting extends Data.TaggedError("NotWaiting")<{
  readonly consumer: string
  /** Undefined: the consumer has no hand-off. */
  readonly handoff: Handoff | undefined
  /** The change waits, but the consumer was moved back to before earlier ones. */
  readonly isMovedBack?: boolean
  /** The change is set aside, and is not refused. */
  readonly aside?: number | undefined
}> {
  override get message() {
    const { handoff } = this
    return handoff === undefined
      ? `there is no hand-off to ${this.consumer}.`
      : this.aside !== undefined
      ? `change ${this.aside} is set aside and waits for no decision: it is sent again, after the earlier changes of its record.`
      : this.isMovedBack === true
      ? `the consumer ${this.consumer} was moved back. Resume the hand-off, so that the changes before this one are sent again.`
      : handoff.state === "waiting" && handoff.batch !== undefined
      ? `the hand-off to ${this.consumer} waits for a decision about change ${handoff.batch.last}.`
      : `the hand-off to ${this.consumer} is ${handoff.state}: no change waits for a decision.`
  }
}

/** Sends the batch in flight again at once, and the changes that were set aside, also if it waits for its next attempt. */
export const resumeHandoff = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  consumer: string
): Effect.fn.Return<Handoff, SinkError | NotWaiting> {
  const { handoff } = yield* maintenance.changeHandoff({
    consumer,
    epoch: undefined,
    change: (stored) => stored.state === "running" && stored.nextAttemptAt === undefined ? stored : resumed(stored),
    retriesAsides: true
  })
  return handoff === undefined ? yield* new NotWaiting({ consumer, handoff }) : handoff
})

/** Passes over the refused change with this number, and records why and who decided it. */
export const skipRefused = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  { by, consumer, reason, seq }: {
    readonly consumer: string
    readonly seq: number
    readonly reason: string
    readonly by: string
  }
): Effect.fn.Return<Handoff, SinkError | NotWaiting> {
  const at = DateTime.formatIso(yield* DateTime.now)
  const stored = (yield* maintenance.handoffs).find((one) => one.consumer === consumer)
  const aside = (yield* maintenance.handoffAsides(consumer)).find((one) => one.seq === seq)
  if (aside?.isRefused === false) return yield* new NotWaiting({ consumer, handoff: stored, aside: seq })
  if (aside !== undefined) return yield* skipAside(maintenance, consumer, { ...aside, reason, by, at })
  const generation = stored?.batch?.generation
  if (stored === undefined || generation === undefined) return yield* new NotWaiting({ consumer, handoff: stored })
  const isRefused = ({ batch, state }: Handoff) =>
    state === "waiting" && batch?.last === seq && batch.changes === 1 && batch.generation === generation
  const { handoff, moved } = yield* maintenance.changeHandoff({
    consumer,
    epoch: undefined,
    change: (before) => isRefused(before) ? settled(resumed(before), seq) : undefined,
    // If somebody has moved the consumer back, the changes before this one are to be sent again.
    from: stored.batch?.after,
    move: { name: consumer, position: seq, generation, when: "forward", now: at },
    skip: { generation, seq, reason, by, at }
  })
  if (handoff !== undefined && (moved?.verdict._tag === "move" || moved?.verdict._tag === "stay")) return handoff
  if (handoff !== undefined && (yield* isRecorded(maintenance, consumer, { generation, seq, at }))) return handoff
  const isMovedBack = handoff !== undefined && moved === undefined && isRefused(handoff)
  return yield* new NotWaiting({ consumer, handoff, isMovedBack })
})

/** Whether a decision is stored. If the connection was lost after the commit, the second run found nothing to decide. */
const isRecorded = (
  maintenance: Maintenance,
  consumer: string,
  { at, generation, seq }: Pick<HandoffSkip, "generation" | "seq" | "at">
): Effect.Effect<boolean, SinkError> =>
  Effect.map(
    maintenance.handoffSkips(consumer),
    (skips) => skips.some((skip) => skip.generation === generation && skip.seq === seq && skip.at === at)
  )

/** Passes over a change that is set aside. The next ones of its record are sent. */
const skipAside = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  consumer: string,
  { at, by, generation, reason, seq }: HandoffSkip
): Effect.fn.Return<Handoff, SinkError | NotWaiting> {
  const { handoff } = yield* maintenance.changeHandoff({
    consumer,
    epoch: undefined,
    change: withRoom,
    skip: { generation, seq, reason, by, at },
    settledAside: { generation, seq }
  })
  return handoff !== undefined && (yield* isRecorded(maintenance, consumer, { generation, seq, at }))
    ? handoff
    : yield* new NotWaiting({ consumer, handoff })
})
