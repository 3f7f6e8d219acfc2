/** The time that a {@link ListService} is given with each request. */
import { Effect } from "effect"
import * as Monotonic from "../Monotonic.ts"

/**
 * Milliseconds since the epoch: the wall clock's at this moment, and counted by the monotonic clock from then on. Limits and
 * the age of cursors do not change when the wall clock is set.
 */
export const serviceTime: Effect.Effect<() => number> = Effect.clockWith((clock) => {
  // oxlint-disable-next-line no-restricted-properties -- where this time begins
  const origin = clock.currentTimeMillisUnsafe() - Monotonic.millisUnsafe(clock)
  return Effect.succeed(() => origin + Monotonic.millisUnsafe(clock))
})
