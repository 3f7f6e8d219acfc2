/** The time that a {@link ListService} receives with each request. */
import { Effect } from "effect"
import * as Monotonic from "../model/Monotonic.ts"

/**
 * Returns a clock of milliseconds since the epoch. It starts with the time of the wall clock and continues with the
 * monotonic clock. So setting the wall clock does not change rate limits and the age of cursors.
 */
export const serviceTime: Effect.Effect<() => number> = Effect.clockWith((clock) => {
  // oxlint-disable-next-line no-restricted-properties -- the start of this clock
  const origin = clock.currentTimeMillisUnsafe() - Monotonic.millisUnsafe(clock)
  return Effect.succeed(() => origin + Monotonic.millisUnsafe(clock))
})
