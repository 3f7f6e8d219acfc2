/**
 * Reads changes, and keeps the positions of consumers: named readers that acknowledge what they have read. A position only
 * moves forward, unless it is moved back on purpose, so two readers with one name lose nothing. A change that no consumer has
 * acknowledged may be delivered again, with the same number. If changes were removed before they were read, the reader fails
 * instead of skipping them.
 */
import type { Lists } from "@payments/core"
import { Data, DateTime, Effect, Option, Stream } from "effect"
import type { ChangeRow, ConsumerMove, Maintenance, Reader } from "./engine/Store.ts"
import type { SinkError } from "./Sink.ts"

/** Whether the text is a valid name of a consumer. */
export const isConsumerName = (text: string): boolean => /^[a-z0-9_-]{1,40}$/.test(text)

/** Changes after the position were removed before they were read. */
export class ChangesRemoved extends Data.TaggedError("ChangesRemoved")<{
  readonly position: number
  /** The highest number of a removed change. */
  readonly through: number
}> {
  override get message() {
    return `changes ${this.position + 1} to ${this.through} were removed and cannot be read any more.`
  }
}

/** The position is beyond the last change. */
export class BeyondLastChange extends Data.TaggedError("BeyondLastChange")<{
  readonly position: number
  readonly last: number
}> {
  override get message() {
    return `there is no change ${this.position} yet: the last one is ${this.last}.`
  }
}

/** Changes in the order of their numbers. */
export interface ChangeBatch {
  readonly rows: ReadonlyArray<ChangeRow>
  /** No change up to this number follows in a later batch. It may be above the last row, if changes of other lists follow it. */
  readonly through: number
}

/** The largest number of changes in a batch. */
const batchSize = 1000

/** Reads the changes of lists after a position, without those before `since` (ISO 8601 in UTC). */
export const changesAfter = (
  reader: Pick<Reader, "changes" | "changeRange">,
  position: number,
  { isFollowing = false, lists, since }: {
    readonly lists: ReadonlyArray<Lists.AnyList>
    readonly since?: string | undefined
    /** Waits for the changes of later exports, until interrupted. */
    readonly isFollowing?: boolean | undefined
  }
): Stream.Stream<ChangeBatch, SinkError | ChangesRemoved> =>
  Stream.unwrap(
    Effect.map(reader.changeRange, (range) =>
      Stream.paginate({ after: position, last: range.last }, ({ after, last }) =>
        Effect.gen(function*() {
          const rows = yield* reader.changes(after, batchSize, lists, since)
          // Read the range after the rows: changes that were removed before the rows were read are then in the range.
          const later = yield* reader.changeRange
          if (later.pruned > after) {
            return yield* new ChangesRemoved({ position: after, through: later.pruned })
          }
          const isFull = rows.length === batchSize
          // All changes up to `last` had been committed before the rows were read.
          const through = Math.max(after, rows.at(-1)?.seq ?? 0, isFull ? 0 : last)
          if (isFollowing && through === after) {
            yield* Effect.sleep("1 second")
          }
          return [
            [{ rows, through }],
            isFull || isFollowing ? Option.some({ after: through, last: later.last }) : Option.none()
          ] as const
        })))
  )

/**
 * Moves a consumer. Returns its position after the call. If the consumer cannot be moved to the position, fails without a
 * change.
 */
export const moveConsumer = Effect.fnUntraced(function*(
  maintenance: Pick<Maintenance, "moveConsumer">,
  move: Omit<ConsumerMove, "now">
): Effect.fn.Return<number, SinkError | ChangesRemoved | BeyondLastChange> {
  const { position, range } = yield* maintenance.moveConsumer({ ...move, now: DateTime.formatIso(yield* DateTime.now) })
  if (position === move.position || (position !== undefined && isSatisfied(move, position))) return position
  return yield* move.position < range.pruned
    ? new ChangesRemoved({ position: move.position, through: range.pruned })
    : new BeyondLastChange({ position: move.position, last: range.last })
})

/** Whether a consumer at this position need not move. */
const isSatisfied = ({ position, when }: Omit<ConsumerMove, "now">, current: number): boolean =>
  when === "create" || (when === "forward" && current > position)
