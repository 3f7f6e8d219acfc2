/**
 * When the records of a list appear, change and vanish, as a function of the seed and virtual time. Nothing is stored, so
 * any time can be queried, in any order. Times are ms since the start of virtual time, unless stated otherwise.
 *
 * The list starts with its initial records. Records are numbered in the order in which they appear.
 */
import * as LowDiscrepancyOrder from "./LowDiscrepancyOrder.ts"
import { draw, fraction } from "./RecordRandom.ts"

/**
 * How many records appear, change and vanish per hour of virtual time. `appear` is constant. `change` and `vanish`
 * apply to the initial length, and grow and shrink with the list.
 */
export interface Rates {
  readonly appear: number
  readonly change: number
  readonly vanish: number
}

/** What has happened to one record. */
export interface RecordHistory {
  /** When the record appeared, in ms since 1970; undefined for an initial record. */
  readonly appearedMs: number | undefined
  /** The number of changes since the start. */
  readonly changes: number
  /** The time of the first change, in ms since 1970; 0 if there is none. */
  readonly firstChangeMs: number
  /** The time of the last change, in ms since 1970; 0 if there is none. */
  readonly lastChangeMs: number
}

/** The history of an initial record without changes. */
export const unchanged: RecordHistory = { appearedMs: undefined, changes: 0, firstChangeMs: 0, lastChangeMs: 0 }

/** The lifecycle of the records of a list. */
export interface Lifecycle {
  /** Whether no record ever appears, changes or vanishes. */
  readonly isFixed: boolean
  /**
   * The start of virtual time, in ms since 1970. All initial records are older. Infinity for a fixed list, which has no
   * virtual time.
   */
  readonly startMs: number
  /**
   * The latest time that can be queried. It is reached when 2^24 records have appeared, the list has 2^30 records, each
   * record has changed 2^30 times, or a century has passed.
   */
  readonly endMs: number
  /** Returns the number of records that have ever appeared, including those that have vanished. */
  readonly lengthAt: (now: number) => number
  /** Returns whether a record has appeared and has not vanished. */
  readonly isPresent: (index: number, now: number) => boolean
  /** Returns an index below which all records have vanished. Records above it can have vanished too. */
  readonly vanishedBelow: (now: number) => number
  /** Returns what has happened to a record. */
  readonly historyOf: (index: number, now: number) => RecordHistory
}

/** Makes the lifecycle of a list whose records never change. */
export const fixed = (length: number): Lifecycle => ({
  isFixed: true,
  startMs: Infinity,
  endMs: Infinity,
  lengthAt: () => length,
  isPresent: (index) => index < length,
  vanishedBelow: () => 0,
  historyOf: () => unchanged
})

const hourMs = 3_600_000
const centuryMs = 100 * 365 * 24 * hourMs
/**
 * The most records of a list, and the most changes of a record. A sum of this number and a fraction keeps 22 bits of
 * the fraction, so successive changes have different times.
 */
const maxCount = 2 ** 30
/** The longest life, as a multiple of the mean life. A draw of 32 bits gives at most ln 2^32, which is 22.2. */
const longestLife = 23
/** The most records that appear after the start. With more, skipping vanished records one by one would take minutes. */
const maxAppearances = 2 ** 24

/** Makes the lifecycle of a list that has `initialCount` records at `startMs` and then changes at these rates. */
export const changing = (initialCount: number, startMs: number, rates: Rates, key: number): Lifecycle => {
  const initialLength = Math.max(1, initialCount)
  const [appearKey, vanishKey] = [draw(key, 1), draw(key, 2)]
  const phases = LowDiscrepancyOrder.make(draw(key, 3))
  const betweenAppearances = hourMs / rates.appear
  const meanLife = initialLength * hourMs / rates.vanish
  /** Each record changes once in every period, at its own phase. */
  const period = initialLength * hourMs / rates.change
  const appearsAt = (index: number) =>
    index < initialCount ? 0 : (index - initialCount + fraction(appearKey, index)) * betweenAppearances
  const vanishesAt = (index: number) =>
    appearsAt(index) + (rates.vanish === 0 ? Infinity : -Math.log(1 - fraction(vanishKey, index)) * meanLife)
  /** Returns the time of a record's n-th change (from 0), for a record that exists from the start. */
  const changeAt = (index: number, n: number) => (n + phases.pointOf(index)) * period
  /** Returns how many changes a record that exists from the start has by `now`. */
  const changesBy = (index: number, now: number) => {
    let count = Math.max(0, Math.floor(now / period - phases.pointOf(index)) + 1)
    // The division can round differently from the multiplication in `changeAt`, which decides.
    while (count > 0 && changeAt(index, count - 1) > now) count--
    while (changeAt(index, count) <= now) count++
    return count
  }
  const lengthAt = (now: number) => {
    if (rates.appear === 0) return initialCount
    let count = initialCount + Math.floor(now / betweenAppearances)
    while (count > initialCount && appearsAt(count - 1) > now) count--
    while (appearsAt(count) <= now) count++
    return count
  }
  return {
    isFixed: false,
    startMs,
    endMs: Math.min(
      centuryMs,
      rates.appear === 0 ? Infinity : Math.min(maxAppearances, maxCount - initialCount) * betweenAppearances,
      maxCount * period
    ),
    lengthAt,
    isPresent: (index, now) => appearsAt(index) <= now && vanishesAt(index) > now,
    vanishedBelow: (now) => {
      const latestAppearance = now - longestLife * meanLife
      // One record fewer than the quotient, because division rounds.
      return latestAppearance < 0
        ? 0
        : initialCount + Math.max(0, Math.floor(latestAppearance / betweenAppearances) - 1)
    },
    historyOf: (index, now) => {
      const appeared = appearsAt(index)
      const appearedMs = index < initialCount ? undefined : Math.floor(startMs + appeared)
      const [before, after] = rates.change === 0 ? [0, 0] : [changesBy(index, appeared), changesBy(index, now)]
      return after <= before ? { ...unchanged, appearedMs } : {
        appearedMs,
        changes: after - before,
        firstChangeMs: Math.floor(startMs + changeAt(index, before)),
        lastChangeMs: Math.floor(startMs + changeAt(index, after - 1))
      }
    }
  }
}
