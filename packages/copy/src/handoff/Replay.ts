/** Sends changes of a hand-off again, because somebody has decided so. */
import { DateTime, Effect } from "effect"
import { BeyondLastChange, ChangesRemoved, type OtherGeneration, requirePosition } from "../ask/Consumers.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Handoff } from "../store/HandoffStore.ts"
import type { Maintenance } from "../store/Store.ts"
import { resumed } from "./Decision.ts"
import { NotWaiting } from "./Intervention.ts"

/**
 * Moves the position of a hand-off to before a change, and resumes it: every change from there on is sent again. A batch
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
): Effect.fn.Return<Handoff, SinkError | NotWaiting | ChangesRemoved | BeyondLastChange | OtherGeneration> {
  const position = from - 1
  const { generation } = yield* maintenance.changeRange
  yield* requirePosition(maintenance, { generation, seq: position }).pipe(
    Effect.catchTag("BeyondLastChange", ({ last }) => new BeyondLastChange({ position: from, last }))
  )
  const now = DateTime.formatIso(yield* DateTime.now)
  const { handoff, moved } = yield* maintenance.changeHandoff({
    consumer,
    epoch: undefined,
    change: (stored) => ({ ...resumed(stored), batch: undefined, mostChanges: undefined, suspectThrough: undefined }),
    move: { name: consumer, position, generation, when: "any", now },
    retriesAsides: true
  })
  if (handoff === undefined) return yield* new NotWaiting({ consumer, handoff })
  switch (moved?.verdict._tag) {
    case "removed":
      return yield* new ChangesRemoved({ position, through: moved.range.pruned })
    case "move":
    case "stay":
      return handoff
    default:
      // The destination was restored since the range was read.
      return yield* new BeyondLastChange({ position, last: moved?.range.last ?? 0 })
  }
})
