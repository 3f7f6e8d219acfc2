/** When the requests of a client may be sent. All listings of a client share its pace. */
import { type Clock, Effect, Semaphore } from "effect"
import * as Monotonic from "../model/Monotonic.ts"
import * as RateLimiter from "./RateLimiter.ts"

/** Decides when requests are sent. */
export interface Pace {
  /** Waits until a request may be sent. */
  readonly acquire: Effect.Effect<void>
  /** Reduces the rate after a 429. `retryAfterMs` is the wait that the service requested, or 0. */
  readonly onRateLimited: (retryAfterMs: number) => Effect.Effect<void>
  /** The requests per second that may be sent now; infinite without a limit. */
  readonly rate: () => number
  /** Whether `rate` is that of all clients of the key together. Undefined: it never is. */
  readonly isShared: () => boolean | undefined
}

/** Returns the pace of a client that shares its rate with no other client. */
export const makeOwnPace = (ceiling: number | undefined, slowDown: RateLimiter.SlowDown): Pace => {
  let limiter = RateLimiter.make(ceiling, slowDown)
  /** Requests that wait, in order. */
  const queue = Semaphore.makeUnsafe(1)

  /** Records a request if the limiter allows one now. Returns whether it does. */
  const tryAcquire = (clock: Clock.Clock): boolean => {
    const now = Monotonic.millisUnsafe(clock)
    if (limiter.nextRequestAt > now) return false
    limiter = RateLimiter.onRequest(limiter, now)
    return true
  }

  /**
   * Waits until the limiter allows a request. Checks again after each wait, because a 429 may have postponed requests.
   */
  const wait = (clock: Clock.Clock): Effect.Effect<void> =>
    Effect.suspend(() =>
      tryAcquire(clock)
        ? Effect.void
        : Effect.flatMap(Effect.sleep(limiter.nextRequestAt - Monotonic.millisUnsafe(clock)), () => wait(clock))
    )

  return {
    acquire: Effect.clockWith((clock) => tryAcquire(clock) ? Effect.void : queue.withPermits(1)(wait(clock))),
    onRateLimited: (retryAfterMs) =>
      Effect.clockWith((clock) => {
        limiter = RateLimiter.onRateLimited(limiter, Monotonic.millisUnsafe(clock), retryAfterMs)
        return Effect.void
      }),
    rate: () => limiter.rate,
    isShared: () => undefined
  }
}
