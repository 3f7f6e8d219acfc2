/** A move of a consumer's stored position, and what became of it. */
import type { ChangeRange, Lineage, MoveVerdict, PositionMove, StoredPosition } from "../port/Generations.ts"

export interface ConsumerMove extends Omit<PositionMove, "isHandedOff"> {
  readonly name: string
  readonly now: string
}

export interface ConsumerMoved {
  readonly verdict: MoveVerdict
  readonly range: ChangeRange
  readonly lineage: Lineage
  /** The consumer's position after the call, if the consumer exists. */
  readonly stored: StoredPosition | undefined
}
