/**
 * What a client knows of the budget that it shares: the rate, the number of clients, and since when it has no store. Its
 * functions are pure. A level is a rate on a logarithmic scale, on which one step is 1 %.
 */
import { Duration } from "effect"

/** The rates that the store can express, in requests per second. */
const lowestRate = 0.2
const highestRate = 1000
/** The first rate if there is no ceiling. */
const firstRate = 20
/** The part of the ceiling for all clients that are cut off from the store, together. */
const reservedPart = 0.05

export const levelOf = (rate: number): number => 100 * Math.log(rate / lowestRate)
const rateOf = (level: number): number => lowestRate * Math.exp(level / 100)
/** The level of a rate or peak that nobody knows. */
export const fullLevel = Math.ceil(levelOf(highestRate))

export interface RateBounds {
  readonly highest: number
  readonly firstLevel: number
  readonly highestLevel: number
}

/** Returns the bounds of the rate below a ceiling. Undefined: no ceiling. */
export const boundsOf = (ceiling: number | undefined): RateBounds => {
  const highest = ceiling === undefined ? highestRate : Math.min(ceiling * (1 - reservedPart), highestRate)
  const firstLevel = levelOf(ceiling === undefined ? firstRate : highest)
  const highestLevel = ceiling === undefined ? fullLevel - 1 : Math.min(fullLevel - 1, firstLevel)
  return { highest, firstLevel, highestLevel }
}

/** The state of a client. Times are milliseconds of the monotonic clock. */
export interface SharedRate {
  readonly rate: number
  readonly readAgainAt: number
  /** Whether a request has waited for its slot since the rate was read. */
  readonly hasWaited: boolean
  /** No request is sent before. */
  readonly notBefore: number
  /** The clients that are counted now, and those that were counted in the minute before. */
  readonly clients: number
  readonly earlierClients: number
  readonly countEndsAt: number
}

/** Returns the state of a client that has not used the store. */
export const initial = ({ firstLevel }: RateBounds): SharedRate => ({
  rate: rateOf(firstLevel),
  readAgainAt: Number.NEGATIVE_INFINITY,
  hasWaited: false,
  notBefore: Number.NEGATIVE_INFINITY,
  clients: 1,
  earlierClients: 1,
  countEndsAt: Number.NEGATIVE_INFINITY
})

/** Whether the rate should grow: nobody knows it yet, or requests wait for it. */
export const shouldGrow = ({ highestLevel }: RateBounds, { hasWaited }: SharedRate, level: number): boolean =>
  level >= fullLevel || (hasWaited && level < highestLevel)

/** Returns by how much the level grows in a second. An unknown rate becomes the first one. */
export const growthOf = ({ firstLevel, highestLevel }: RateBounds, level: number, peak: number): number =>
  Math.min(level < fullLevel ? growthNear(level, peak) : firstLevel - level, highestLevel - level)

const growthNear = (level: number, peak: number): number => {
  // No 429 yet: the rate doubles within 2 s.
  if (peak >= fullLevel) return 35
  // The last 429 came at a much higher rate, or none came at a much higher rate than then: the limit is elsewhere.
  return Math.abs(peak - level) > 15 ? 5 : 1
}

/**
 * Returns the level before and after a reduction. `left` is the number of further reductions within a few seconds: the factor
 * is 0.9 for the first one, then 0.8, down to 0.5.
 */
export const reductionOf = ({ rate }: SharedRate, level: number, left: number) => {
  const before = Math.min(level, levelOf(rate))
  return { before, after: Math.max(0, before + 100 * Math.log(0.5 + 0.1 * Math.max(0, left))) }
}

export const onLevel = ({ firstLevel, highest }: RateBounds, state: SharedRate, level: number): SharedRate => ({
  ...state,
  rate: Math.min(highest, rateOf(Math.max(0, level < fullLevel ? level : firstLevel)))
})

/** Notes the level that was read. From now on counts whether requests wait for it. */
export const onLevelRead = (bounds: RateBounds, state: SharedRate, level: number): SharedRate => ({
  ...onLevel(bounds, state, level),
  hasWaited: false
})

/** A client reads the rate and the number of clients again after this time, or if the store is slow, after a longer one. */
const readIntervalMs = 1000
/** Reading takes at most one part in so many of the time. */
const readShare = 5

/** Notes that reading the rate and the clients began and ended at these times. */
export const onRead = (state: SharedRate, beganAt: number, endedAt: number): SharedRate => ({
  ...state,
  readAgainAt: endedAt + Math.max(readIntervalMs, (endedAt - beganAt) * readShare)
})

/** The clients are counted anew after this time. */
export const countWindow = Duration.minutes(1)

/** Notes the number of clients. `endsAt` is the end of the window in which this client was counted, if it was just now. */
export const onCount = (state: SharedRate, clients: number, endsAt: number | undefined): SharedRate =>
  endsAt === undefined
    ? { ...state, clients }
    : { ...state, clients, earlierClients: state.clients, countEndsAt: endsAt }

/** Notes that a slot begins in `waitMs`. */
export const onSlot = (state: SharedRate, waitMs: number): SharedRate =>
  waitMs > 0 ? { ...state, hasWaited: true } : state

/** Notes a 429. The pause lasts, whether the store can be used then or not. */
export const onRateLimited = (state: SharedRate, now: number, retryAfterMs: number): SharedRate => ({
  ...state,
  notBefore: Math.max(state.notBefore, now + retryAfterMs)
})

/** Returns the rate of a client without the store: its share of the reserve. */
export const rateWithoutStore = ({ clients, earlierClients, rate }: SharedRate): number =>
  (rate / (1 - reservedPart)) * reservedPart / Math.max(clients, earlierClients)
