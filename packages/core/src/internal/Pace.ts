/**
 * How fast a client asks: never faster than its ceiling, slower after a 429, and not at all before the moment that the
 * service named. One pace is shared by all listings of a client. Deciding is pure; waiting is the caller's.
 *
 * After a 429 the rate is halved (of what was really asked), at most once a second, and then grows back by a tenth of
 * what it was each second: multiplicative decrease, additive recovery.
 */

/** Where the pace stands. Times are milliseconds of one clock, rates are requests per second. */
export interface Pace {
  readonly ceiling: number
  readonly rate: number
  /** How much the rate grows per second. */
  readonly growth: number
  /** When the rate last changed. */
  readonly changedAt: number
  /** The earliest moment of the next request. */
  readonly next: number
  /** Requests since `countedFrom`, to know the rate that a 429 answers to. */
  readonly counted: number
  readonly countedFrom: number
}

const slowest = 0.2
const cutBy = 0.5
const recoveredPerSecond = 0.1
const windowMs = 1000

/** The pace of a client that has not asked yet. No ceiling means as fast as answers come. */
export const make = (ceiling: number = Number.POSITIVE_INFINITY): Pace => ({
  ceiling,
  rate: ceiling,
  growth: 0,
  changedAt: Number.NEGATIVE_INFINITY,
  next: Number.NEGATIVE_INFINITY,
  counted: 0,
  countedFrom: Number.NEGATIVE_INFINITY
})

/** Takes the next turn: when it comes, and the pace after it. */
export const takeTurn = (pace: Pace, now: number): readonly [at: number, after: Pace] => {
  const current = recovered(pace, now)
  const at = Math.max(now, current.next)
  const fresh = at - current.countedFrom >= windowMs
  return [at, {
    ...current,
    next: Number.isFinite(current.rate) ? at + 1000 / current.rate : at,
    counted: fresh ? 1 : current.counted + 1,
    countedFrom: fresh ? at : current.countedFrom
  }]
}

/** After a 429, whose answer may have named a wait. */
export const slowedDown = (pace: Pace, now: number, retryAfterMs: number): Pace => {
  const current = recovered(pace, now)
  const next = Math.max(current.next, now + retryAfterMs)
  // Answers to requests that were already under way say nothing new.
  if (now - current.changedAt < windowMs && current.growth > 0) return { ...current, next }
  // A few requests at once are no rate yet.
  const asked = current.counted / Math.max(0.1, (now - current.countedFrom) / 1000)
  const reached = Math.min(current.rate, asked)
  const rate = Math.max(slowest, reached * cutBy)
  return { ...current, rate, growth: Math.max(rate, reached) * recoveredPerSecond, changedAt: now, next }
}

const recovered = (pace: Pace, now: number): Pace => {
  if (pace.growth === 0) return pace
  const seconds = (now - pace.changedAt) / 1000
  if (seconds < 1) return pace
  const rate = Math.min(pace.ceiling, pace.rate + pace.growth * Math.floor(seconds))
  return { ...pace, rate, changedAt: pace.changedAt + Math.floor(seconds) * 1000 }
}
