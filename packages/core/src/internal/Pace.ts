/**
 * How fast a client asks: never faster than its ceiling, slower after a 429, and not at all before the moment that the
 * service named. One pace is shared by all listings of a client. Deciding is pure; waiting is the caller's.
 *
 * After a 429 the rate is cut (to half of what was really asked, unless told otherwise), at most once a second, and then
 * grows back by a tenth of what it was each second: multiplicative decrease, additive recovery.
 */

/** The numbers of the slow-down. */
export interface SlowDown {
  /** What a 429 leaves of the rate; 0.5. */
  readonly factor: number
  /** What grows back each second, as a share of the rate before the 429; 0.1. */
  readonly recoveryPerSecond: number
  /** No rate is lower, in requests per second; 0.2. */
  readonly slowestPerSecond: number
}

/** Half, a tenth a second, one request in 5 s. */
export const defaultSlowDown: SlowDown = { factor: 0.5, recoveryPerSecond: 0.1, slowestPerSecond: 0.2 }

/** Where the pace stands. Times are milliseconds of one clock, rates are requests per second. */
export interface Pace {
  readonly slowDown: SlowDown
  readonly ceiling: number
  readonly rate: number
  /** How much the rate grows per second. */
  readonly growth: number
  /** When the rate was last cut, and when it last grew. */
  readonly cutAt: number
  readonly grownAt: number
  /** The earliest moment of the next request. */
  readonly next: number
  /** Requests since `countedFrom`, and in the second before it, to know the rate that a 429 answers to. */
  readonly counted: number
  readonly countedBefore: number
  readonly countedFrom: number
}

const windowMs = 1000

/** The pace of a client that has not asked yet. No ceiling means as fast as answers come. */
export const make = (ceiling: number = Number.POSITIVE_INFINITY, slowDown: SlowDown = defaultSlowDown): Pace => ({
  slowDown,
  ceiling,
  rate: ceiling,
  growth: 0,
  cutAt: Number.NEGATIVE_INFINITY,
  grownAt: Number.NEGATIVE_INFINITY,
  next: Number.NEGATIVE_INFINITY,
  counted: 0,
  countedBefore: 0,
  countedFrom: Number.NEGATIVE_INFINITY
})

/** The pace after a request at this moment, which is not before {@link Pace.next}. */
export const asked = (pace: Pace, now: number): Pace => {
  const current = turned(recovered(pace, now), now)
  return {
    ...current,
    next: Number.isFinite(current.rate) ? now + 1000 / current.rate : now,
    counted: current.counted + 1
  }
}

/** With counts that cover the moment. */
const turned = (pace: Pace, now: number): Pace => {
  const windows = Math.floor((now - pace.countedFrom) / windowMs)
  if (windows < 1) return pace
  return windows === 1
    ? { ...pace, counted: 0, countedBefore: pace.counted, countedFrom: pace.countedFrom + windowMs }
    : { ...pace, counted: 0, countedBefore: 0, countedFrom: now }
}

/** Requests per second over the last second, those of the one before taken as even; else since the first of them. */
const measured = (pace: Pace, now: number): number => {
  const { counted, countedBefore, countedFrom } = now - pace.countedFrom < 2 * windowMs ? turned(pace, now) : pace
  const windows = (now - countedFrom) / windowMs
  // A few requests at once are no rate yet.
  return countedBefore > 0 && windows < 1
    ? counted + countedBefore * (1 - windows)
    : counted / Math.max(0.1, windows)
}

/** After a 429, whose answer may have named a wait. */
export const slowedDown = (pace: Pace, now: number, retryAfterMs: number): Pace => {
  const current = recovered(pace, now)
  const next = Math.max(current.next, now + retryAfterMs)
  // Answers to requests that were already under way say nothing new.
  if (now - current.cutAt < windowMs) return { ...current, next }
  const { factor, recoveryPerSecond, slowestPerSecond } = current.slowDown
  const reached = Math.min(current.rate, measured(current, now))
  const rate = Math.min(current.rate, Math.max(slowestPerSecond, reached * factor))
  return { ...current, rate, growth: Math.max(rate, reached) * recoveryPerSecond, cutAt: now, grownAt: now, next }
}

const recovered = (pace: Pace, now: number): Pace => {
  const seconds = Math.floor((now - pace.grownAt) / 1000)
  return pace.growth === 0 || seconds < 1
    ? pace
    : {
      ...pace,
      rate: Math.min(pace.ceiling, pace.rate + pace.growth * seconds),
      grownAt: pace.grownAt + seconds * 1000
    }
}
