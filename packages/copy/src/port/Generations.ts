/**
 * The generations of a destination. After a restore from a backup, or a failover to an older base, a destination gives
 * the same numbers to other changes. So a number identifies a change only together with its generation. Each restored
 * copy begins a generation with a random name, and keeps those before it.
 */
import { randomBytes } from "node:crypto"

/**
 * Why a generation began. `first`: the destination was created, or migrated from a version without generations. `restored`: by
 * hand. `writer`: a writer knew a higher number than the destination showed. `consumer`: a consumer acknowledged a change that
 * does not exist. `server`: the PostgreSQL server is another one than before, or has another timeline.
 */
export type GenerationReason = "first" | "restored" | "writer" | "consumer" | "server"

/** A generation of a destination. */
export interface Generation {
  /** Its random name. */
  readonly generation: string
  /** The number of the last change that it has in common with the generation before it. */
  readonly beganAfter: number
  readonly beganAt: string
  readonly reason: GenerationReason
}

/** The generations of a destination, the current one last. Empty in a destination of an earlier version. */
export type Lineage = ReadonlyArray<Generation>

/** The number of a change in a generation. Without a generation, that of the destination when the number is used. */
export interface Numbered {
  readonly generation: string | undefined
  readonly seq: number
}

/** The highest number of a change that a writer knows. */
export interface KnownChange {
  readonly generation: string
  readonly seq: number
}

/** The destination has the changes after the number `pruned`, up to the number `last`. */
export interface ChangeRange {
  /** The current generation. Undefined in a destination of a version without generations. */
  readonly generation: string | undefined
  /** The highest number of a removed change, or 0. */
  readonly pruned: number
  /** The highest number of any change, or 0. */
  readonly last: number
}

export type PositionProblem = "otherGeneration" | "removed" | "beyondLast"

export const newName = (): string => randomBytes(6).toString("hex")

/** Whether the changes up to the number are the same ones in the current generation. */
export const isShared = (lineage: Lineage, { generation, seq }: Numbered): boolean => {
  if (generation === undefined) return true
  const index = lineage.findIndex((known) => known.generation === generation)
  return index >= 0 && lineage.slice(index + 1).every(({ beganAfter }) => seq <= beganAfter)
}

/** Returns the last change up to a stored position that is the same one in the current generation. */
export const lastShared = (lineage: Lineage, { generation, position }: StoredPosition): number => {
  if (generation === undefined) return position
  const index = lineage.findIndex((known) => known.generation === generation)
  return index < 0 ? 0 : Math.min(position, ...lineage.slice(index + 1).map(({ beganAfter }) => beganAfter))
}

/** Whether changes that a writer knows are no longer in the destination. */
export const isLost = (known: KnownChange, lineage: Lineage, last: number): boolean => {
  const index = lineage.findIndex(({ generation }) => generation === known.generation)
  // A generation that began after the known one shows that the loss, if any, was found already.
  return index < 0 || (index === lineage.length - 1 && last < known.seq)
}

/** Returns undefined if the changes after the position can be read. */
export const problemAt = (
  position: Numbered,
  { last, pruned }: ChangeRange,
  lineage: Lineage
): PositionProblem | undefined => {
  if (!isShared(lineage, position)) return "otherGeneration"
  if (position.seq < pruned) return "removed"
  return position.seq > last ? "beyondLast" : undefined
}

export interface PositionMove {
  readonly position: number
  /** The generation of the position. By default the current one, if the stored position is of that one. */
  readonly generation?: string | undefined
  /** `create`: only for a new consumer. `forward`: for a new one, or if its position is lower. `any`: always. */
  readonly when: "create" | "forward" | "any"
  /** Whether a hand-off sends the changes. Then only its sender moves the position forward. By default not. */
  readonly isHandedOff?: boolean | undefined
}

export interface StoredPosition {
  readonly generation: string | undefined
  readonly position: number
}

/**
 * `stay`: the position already is what the move asks for, or further. `begin`: the consumer has acknowledged a change
 * that the destination has lost, so a new generation has to begin after the number. `unsent`: the hand-off of the consumer
 * can go on after its position, and has not sent the changes up to the new one.
 */
export type MoveVerdict =
  | { readonly _tag: "move" | "stay" | "unsent" | PositionProblem }
  | { readonly _tag: "begin"; readonly after: number }

/**
 * A stored position of an earlier generation was restored with the destination. Its consumer may have applied later
 * changes, so the position counts only after the consumer has named its generation.
 */
export const judgeMove = (
  { generation, isHandedOff = false, position, when }: PositionMove,
  stored: StoredPosition | undefined,
  range: ChangeRange,
  lineage: Lineage
): MoveVerdict => {
  const isStale = stored !== undefined && stored.generation !== range.generation
  if (isStale && generation === undefined) return { _tag: "otherGeneration" }
  if (stored !== undefined && !isStale) {
    const isBehind = stored.position > position && isShared(lineage, { generation, seq: position })
    if (when === "create" || (when === "forward" && isBehind)) return { _tag: "stay" }
    const isCurrent = generation === undefined || generation === range.generation
    // The consumer has read the change, so the destination had it. Its stored position is from before the loss.
    const isBeyond = when === "forward" && isCurrent && position > range.last
    // Of a hand-off, the sender knows what its receiver has accepted, and begins the generation itself.
    if (isBeyond && !isHandedOff) return { _tag: "begin", after: stored.position }
  }
  const problem = problemAt({ generation, seq: position }, range, lineage)
  if (problem !== undefined) return { _tag: problem }
  // If the next changes were removed, the hand-off has stopped, and goes on after them.
  const canSend = stored !== undefined && !isStale && stored.position >= range.pruned
  return { _tag: isHandedOff && canSend && position > stored.position ? "unsent" : "move" }
}
