/**
 * Reads changes, and keeps the positions of consumers: named readers that acknowledge what they have read. A position
 * only moves forward, unless it is moved back on purpose, so two readers with one name lose nothing. A change that no
 * consumer has acknowledged may be delivered again, with the same number. If changes were removed before they were
 * read, the reader fails instead of skipping them. It also fails if the destination was restored: its numbers may then
 * stand for other changes (`port/Generations.ts`).
 */
import type { Lists } from "@payments/core"
import { Data, DateTime, Effect, Option, Stream } from "effect"
import {
  type ChangeRange,
  type Generation,
  type GenerationReason,
  type Lineage,
  type Numbered,
  type PositionProblem,
  problemAt
} from "../port/Generations.ts"
import type { ConsumerState } from "../port/ListFreshness.ts"
import type { SinkError } from "../port/Sink.ts"
import type { ConsumerMove } from "../store/ConsumerMove.ts"
import type { ChangeRow, Maintenance, Reader } from "../store/Store.ts"

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

/** Returns when and why a generation began, for a message. */
export const describeGeneration = ({ beganAfter, beganAt, generation, reason }: Generation): string =>
  reason === "first"
    ? `generation ${generation}`
    : `generation ${generation}, which began after change ${beganAfter} (${reasons[reason]}, ${beganAt})`

const reasons: { readonly [reason in Exclude<GenerationReason, "first">]: string } = {
  restored: "restored from a backup",
  writer: "a writer had written higher numbers, so it was restored or failed over",
  consumer: "a consumer had read higher numbers, so it was restored or failed over",
  server: "its PostgreSQL server was restored or failed over"
}

/**
 * The position belongs to another generation, so the number may stand for another change. The stored position of a
 * consumer was restored with the destination: its reader may have applied later changes.
 */
export class OtherGeneration extends Data.TaggedError("OtherGeneration")<{
  readonly position: number
  readonly generation: string | undefined
  readonly current: Generation
  /** Whether this is the stored position of a consumer, whose reader has not said where it stands. */
  readonly isStored: boolean
}> {
  override get message() {
    const generation = this.generation === undefined ? "an unknown generation" : `generation ${this.generation}`
    return `${
      this.isStored ? "the stored position" : "the position"
    } is change ${this.position} of ${generation}, and the destination is in ${describeGeneration(this.current)}.`
  }
}

/** A change that was read is no longer in the destination, because it was restored or failed over. */
export class ChangesLost extends Data.TaggedError("ChangesLost")<{
  readonly position: number
  readonly last: number
  /** The generation that has begun for this reason. */
  readonly begun: Generation | undefined
}> {
  override get message() {
    return `change ${this.position} was read before, but the last change is now ${this.last}: the destination was restored from a backup, or failed over to an older base.${
      this.begun === undefined ? "" : ` It is now in ${describeGeneration(this.begun)}.`
    }`
  }
}

/** The hand-off of the consumer can go on after its position. If the consumer moved, changes would never be sent. */
export class ChangesUnsent extends Data.TaggedError("ChangesUnsent")<{
  readonly consumer: string
  /** The last change that was sent. */
  readonly sent: number
}> {
  override get message() {
    return `the worker moves the consumer ${this.consumer}, and has not sent the changes after ${this.sent} yet.`
  }
}

/** Changes in the order of their numbers. */
export interface ChangeBatch {
  /** The generation of the number {@link through}. */
  readonly generation: string | undefined
  readonly rows: ReadonlyArray<ChangeRow>
  /**
   * No change up to this number follows in a later batch. It may exceed the last row's: other lists have changes too.
   */
  readonly through: number
}

const batchSize = 1000

/** Reads the changes of lists after a position, without those before `since` (ISO 8601 in UTC). */
export const changesAfter = (
  reader: Pick<Reader, "changes" | "changeRange" | "lineage">,
  position: number,
  { isFollowing = false, lists, since }: {
    readonly lists: ReadonlyArray<Lists.AnyList>
    readonly since?: string | undefined
    /** Waits for the changes of later exports, until interrupted. */
    readonly isFollowing?: boolean | undefined
  }
): Stream.Stream<ChangeBatch, SinkError | ChangesRemoved | OtherGeneration | ChangesLost> =>
  Stream.unwrap(
    Effect.map(reader.changeRange, (range) =>
      Stream.paginate({ after: position, last: range.last }, ({ after, last }) =>
        Effect.gen(function*() {
          const rows = yield* reader.changes(after, batchSize, lists, { since })
          // Read the range after the rows: changes that were removed before the rows were read are then in the range.
          const later = yield* reader.changeRange
          if (later.generation !== range.generation) {
            return yield* otherGeneration(yield* reader.lineage, { generation: range.generation, seq: after }, false)
          }
          if (later.last < last) {
            return yield* new ChangesLost({ position: last, last: later.last, begun: undefined })
          }
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
            [{ generation: range.generation, rows, through }],
            isFull || isFollowing ? Option.some({ after: through, last: later.last }) : Option.none()
          ] as const
        })))
  )

/**
 * Moves a consumer. Returns its position after the call. If the consumer cannot be moved to the position, fails without
 * a change. If it has acknowledged a change that the destination no longer has, a new generation begins.
 */
export const moveConsumer = Effect.fnUntraced(function*(
  maintenance: Pick<Maintenance, "moveConsumer" | "beginGeneration">,
  move: Omit<ConsumerMove, "now">
): Effect.fn.Return<number, MoveError> {
  const now = DateTime.formatIso(yield* DateTime.now)
  const { lineage, range, stored, verdict } = yield* maintenance.moveConsumer({ ...move, now })
  const given = { generation: move.generation, seq: move.position }
  switch (verdict._tag) {
    case "move":
    case "stay":
      return stored?.position ?? move.position
    case "otherGeneration":
      return yield* move.generation === undefined && stored !== undefined
        ? otherGeneration(lineage, { generation: stored.generation, seq: stored.position }, true)
        : otherGeneration(lineage, given, false)
    case "begin": {
      const begin = { reason: "consumer", after: verdict.after, instead: range.generation, now } as const
      const begun = yield* maintenance.beginGeneration(begin).pipe(
        Effect.map((all) => all.at(-1)),
        // A consumer's role may only store positions. Then another one begins the generation.
        Effect.catchIf(
          ({ reason }) => reason._tag === "Failed" && reason.code === "42501",
          () => Effect.undefined
        )
      )
      return yield* new ChangesLost({ position: move.position, last: range.last, begun })
    }
    case "unsent":
      return yield* new ChangesUnsent({ consumer: move.name, sent: stored?.position ?? 0 })
    case "removed":
    case "beyondLast":
      return yield* problemError(verdict._tag, given, range, lineage)
  }
})

/** Why a consumer cannot move. */
export type MoveError = SinkError | ChangesRemoved | BeyondLastChange | OtherGeneration | ChangesLost | ChangesUnsent

/** Fails unless the changes after the position can be read, and are the ones that followed it in its generation. */
export const requirePosition = Effect.fnUntraced(function*(
  reader: Pick<Reader, "changeRange" | "lineage">,
  position: Numbered
): Effect.fn.Return<void, SinkError | ChangesRemoved | BeyondLastChange | OtherGeneration> {
  const range = yield* reader.changeRange
  const lineage = yield* reader.lineage
  const problem = problemAt(position, range, lineage)
  if (problem !== undefined) return yield* problemError(problem, position, range, lineage)
})

const problemError = (
  problem: PositionProblem,
  position: Numbered,
  { last, pruned }: ChangeRange,
  lineage: Lineage
) => {
  const { seq } = position
  switch (problem) {
    case "otherGeneration":
      return otherGeneration(lineage, position, false)
    case "removed":
      return new ChangesRemoved({ position: seq, through: pruned })
    case "beyondLast":
      return new BeyondLastChange({ position: seq, last })
  }
}

const otherGeneration = (lineage: Lineage, { generation, seq }: Numbered, isStored: boolean): OtherGeneration =>
  new OtherGeneration({ position: seq, generation, current: lineage.at(-1) ?? unknownGeneration, isStored })

/** A destination of a version without generations. */
const unknownGeneration: Generation = { generation: "unknown", beganAfter: 0, beganAt: "", reason: "first" }

/** Fails if the consumer's stored position is of an earlier generation. */
export const requireCurrent = Effect.fnUntraced(function*(
  reader: Pick<Reader, "lineage">,
  { generation, lag, position }: ConsumerState
): Effect.fn.Return<void, SinkError | OtherGeneration> {
  if (lag === undefined) return yield* otherGeneration(yield* reader.lineage, { generation, seq: position }, true)
})
