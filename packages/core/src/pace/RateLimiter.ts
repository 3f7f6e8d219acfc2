/**
 * Limits the request rate of one client. All listings of the client share one limiter. The limiter never exceeds the
 * configured ceiling, reduces the rate after a 429, and allows no request before the time that `Retry-After` names. The
 * functions are pure; the caller waits.
 *
 * A 429 reduces the rate to `factor` times the measured rate, at most once per second. The rate then increases each
 * second by a constant share of the rate before the 429: multiplicative decrease, additive increase.
 */

/** How the rate decreases after a 429 and increases again. */
export interface SlowDown {
  /** A 429 multiplies the measured rate by this factor. Default: 0.5. */
  readonly factor: number
  /** The increase per second, as a share of the rate before the 429. Default: 0.1. */
  readonly recoveryPerSecond: number
  /** The lowest rate, in requests per second. Default: 0.2. */
  readonly slowestPerSecond: number
}

/** Half the rate, a tenth more per second, at least one request in 5 s. */
export const defaultSlowDown: SlowDown = { factor: 0.5, recoveryPerSecond: 0.1, slowestPerSecond: 0.2 }

/** The state of a limiter. Times are milliseconds of one clock. Rates are requests per second. */
export interface RateLimiter {
  readonly slowDown: SlowDown
  readonly ceiling: number
  readonly rate: number
  /** The increase of the rate per second. */
  readonly increasePerSecond: number
  /** When a 429 last reduced the rate. */
  readonly reducedAt: number
  /** When the rate last increased. */
  readonly increasedAt: number
  /** The earliest time of the next request. */
  readonly nextRequestAt: number
  /** Requests since `windowStart`. */
  readonly requests: number
  /** Requests in the window before `windowStart`. */
  readonly previousRequests: number
  readonly windowStart: number
}

const windowMs = 1000

/** Returns the limiter of a client that has sent no request. Without a ceiling, the rate is unlimited until a 429. */
export const make = (
  ceiling: number = Number.POSITIVE_INFINITY,
  slowDown: SlowDown = defaultSlowDown
): RateLimiter => ({
  slowDown,
  ceiling,
  rate: ceiling,
  increasePerSecond: 0,
  reducedAt: Number.NEGATIVE_INFINITY,
  increasedAt: Number.NEGATIVE_INFINITY,
  nextRequestAt: Number.NEGATIVE_INFINITY,
  requests: 0,
  previousRequests: 0,
  windowStart: Number.NEGATIVE_INFINITY
})

/** Records a request at `now`, which must not be before {@link RateLimiter.nextRequestAt}. */
export const onRequest = (limiter: RateLimiter, now: number): RateLimiter => {
  const current = advanceWindow(recover(limiter, now), now)
  return {
    ...current,
    nextRequestAt: Number.isFinite(current.rate) ? now + 1000 / current.rate : now,
    requests: current.requests + 1
  }
}

/** Moves the counting window so that it contains `now`. */
const advanceWindow = (limiter: RateLimiter, now: number): RateLimiter => {
  const windows = Math.floor((now - limiter.windowStart) / windowMs)
  if (windows < 1) return limiter
  return windows === 1
    ? { ...limiter, requests: 0, previousRequests: limiter.requests, windowStart: limiter.windowStart + windowMs }
    : { ...limiter, requests: 0, previousRequests: 0, windowStart: now }
}

/**
 * Returns the requests per second over the last second. Requests of the previous window count as evenly spread. Without
 * any, returns the rate since the window began.
 */
const measuredRate = (limiter: RateLimiter, now: number): number => {
  const { previousRequests, requests, windowStart } = now - limiter.windowStart < 2 * windowMs
    ? advanceWindow(limiter, now)
    : limiter
  const windows = (now - windowStart) / windowMs
  return previousRequests > 0 && windows < 1
    ? requests + previousRequests * (1 - windows)
    // Divide by a tenth of a second at least: a few simultaneous requests do not show a rate.
    : requests / Math.max(0.1, windows)
}

/** Records a 429 at `now`. `retryAfterMs` is the wait that the service requested, or 0. */
export const onRateLimited = (limiter: RateLimiter, now: number, retryAfterMs: number): RateLimiter => {
  const current = recover(limiter, now)
  const nextRequestAt = Math.max(current.nextRequestAt, now + retryAfterMs)
  // This answer belongs to a request from before the last reduction, so it does not reduce the rate again.
  if (now - current.reducedAt < windowMs) return { ...current, nextRequestAt }
  const { factor, recoveryPerSecond, slowestPerSecond } = current.slowDown
  const reached = Math.min(current.rate, measuredRate(current, now))
  const rate = Math.min(current.rate, Math.max(slowestPerSecond, reached * factor))
  return {
    ...current,
    rate,
    increasePerSecond: Math.max(rate, reached) * recoveryPerSecond,
    reducedAt: now,
    increasedAt: now,
    nextRequestAt
  }
}

/** Applies the increases of the whole seconds since the last increase. */
const recover = (limiter: RateLimiter, now: number): RateLimiter => {
  const seconds = Math.floor((now - limiter.increasedAt) / 1000)
  return limiter.increasePerSecond === 0 || seconds < 1
    ? limiter
    : {
      ...limiter,
      rate: Math.min(limiter.ceiling, limiter.rate + limiter.increasePerSecond * seconds),
      increasedAt: limiter.increasedAt + seconds * 1000
    }
}
