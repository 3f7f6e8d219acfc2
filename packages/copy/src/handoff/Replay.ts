/** Sends changes of a hand-off again, because somebody has decided so. */
import { Data, DateTime, Effect } from "effect"
import { BeyondLastChange, ChangesRemoved, type OtherGeneration, requirePosition } from "../ask/Consumers.ts"
import { lastShared } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Handoff } from "../store/HandoffStore.ts"
import type { Maintenance } from "../store/Store.ts"
import { resumed } from "./Decision.ts"
import { NotWaiting } from "./Intervention.ts"

/** The changes before the first one of the replay have not all been sent, so the replay would pass over some. */
export class NotSentYet extends Data.TaggedError("NotSentYet")<{
  readonly consumer: string
  /** The last change that was sent. */
  readonly position: number
}> {
  override get message() {
    return `${this.consumer} was sent the changes up to ${this.position} only, so a replay begins with change ${
      this.position + 1
    } at the latest.`
  }
}

/**
 * Moves the position of a hand-off back to before a change, and resumes it: every change from there on is sent again. A batch
 * whose boundary is stored keeps its id and its bytes. The batch in flight counts no more, also if it is accepted later.
 * Changes that were set aside are sent again too.
 */
export const replayHandoff = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  { consumer, from }: {
    readonly consumer: string
    /** The number of the first change that is sent again, 1 or more. */
    readonly from: number
  }
): Effect.fn.Return<
  Handoff,
  SinkError | NotWaiting | NotSentYet | ChangesRemoved | BeyondLastChange | OtherGeneration
> {
  const position = from - 1
  const { generation } = yield* maintenance.changeRange
  yield* requirePosition(maintenance, { generation, seq: position }).pipe(
    Effect.catchTag("BeyondLastChange", ({ last }) => new BeyondLastChange({ position: from, last }))
  )
  const hasHandoff = (yield* maintenance.handoffs).some((one) => one.consumer === consumer)
  if (!hasHandoff) return yield* new NotWaiting({ consumer, handoff: undefined })
  const reached = yield* reachedBy(maintenance, consumer)
  if (position > reached) return yield* new NotSentYet({ consumer, position: reached })
  const now = DateTime.formatIso(yield* DateTime.now)
  const { handoff, moved } = yield* maintenance.changeHandoff({
    consumer,
    epoch: undefined,
    // Somebody may have moved it back meanwhile.
    from: position,
    change: (stored) => ({ ...resumed(stored), batch: undefined, mostChanges: undefined, suspectThrough: undefined }),
    move: { name: consumer, position, generation, when: "any", now },
    retriesAsides: true
  })
  if (handoff === undefined) return yield* new NotWaiting({ consumer, handoff })
  if (moved === undefined) return yield* new NotSentYet({ consumer, position: yield* reachedBy(maintenance, consumer) })
  switch (moved.verdict._tag) {
    case "removed":
      return yield* new ChangesRemoved({ position, through: moved.range.pruned })
    case "move":
    case "stay":
      return handoff
    default:
      // The destination was restored since the range was read.
      return yield* new BeyondLastChange({ position, last: moved.range.last })
  }
})

/** Returns the last change that a consumer was sent, of those that the destination still has. */
const reachedBy = Effect.fnUntraced(function*(
  maintenance: Maintenance,
  consumer: string
): Effect.fn.Return<number, SinkError> {
  const found = (yield* maintenance.consumerStates).find(({ name }) => name === consumer)
  return found === undefined ? 0 : lastShared(yield* maintenance.lineage, found)
})
