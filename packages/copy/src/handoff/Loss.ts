/**
 * Notices that a destination was restored from a backup while nothing was sent. The stored position was restored too, so it
 * looks like one that somebody has moved back. But a change that was handed off is missing.
 */
import type { ChangeRange, StoredPosition } from "../port/Generations.ts"
import type { HandoffBatch } from "../store/HandoffStore.ts"

/** A position that was seen. */
export interface SeenPosition extends Pick<HandoffBatch, "generation"> {
  readonly position: number
}

/** Returns the highest position that was seen, if the destination no longer has its change. */
export type LossAt = (position: StoredPosition, range: ChangeRange) => SeenPosition | undefined

/** Kept for as long as the program runs, also while the destination cannot be reached. */
export const makeLossAt = (): LossAt => {
  let seen: SeenPosition | undefined
  return ({ generation, position }, range) => {
    if (generation === undefined || generation !== range.generation) return undefined
    const known = seen?.generation === generation ? seen : undefined
    if (known !== undefined && known.position > range.last) return known
    seen = { generation, position: Math.max(position, known?.position ?? 0) }
    return undefined
  }
}
