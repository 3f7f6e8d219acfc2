/**
 * Notices that a destination was restored from a backup. The stored position and the epoch were restored too, so it looks
 * as if somebody had moved the consumer back, or another sender had taken over. But a change that was sent is missing.
 */
import type { ChangeRange, StoredPosition } from "../port/Generations.ts"
import type { HandoffBatch } from "../store/HandoffStore.ts"

/** A stored position that was seen, or a change that was sent. */
export interface SeenPosition extends Pick<HandoffBatch, "generation"> {
  readonly position: number
}

/** Remembers a position. Returns the highest one that was seen, if the destination no longer has its change. */
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
