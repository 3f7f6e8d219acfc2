/**
 * What happens to the records of a list as virtual time passes: when each appears, changes and vanishes, as a function of
 * the seed. Nothing is kept, so any moment can be asked for in any order. Times are ms since the world began, unless said.
 */
import { draw } from "./Draw.ts"
import * as Scatter from "./Scatter.ts"

/** How often something happens in a list as long as it was at the start, per hour of virtual time. */
export interface Rates {
  readonly appear: number
  readonly change: number
  readonly vanish: number
}

/** What has happened to one record. */
export interface Story {
  /** When it appeared while the world moved, in ms since 1970; undefined for a record of the past. */
  readonly appearedMs: number | undefined
  /** How often it has changed since the world began. */
  readonly changes: number
  /** Its first and last change, in ms since 1970; 0 where there was none. */
  readonly firstChangeMs: number
  readonly lastChangeMs: number
}

/** Nothing has happened. */
export const untouched: Story = { appearedMs: undefined, changes: 0, firstChangeMs: 0, lastChangeMs: 0 }

/** The life of a list. Records are numbered in the order in which they appear. */
export interface Life {
  /** Nothing ever happens. */
  readonly still: boolean
  /** When the world began, in ms since 1970: the end of the past. Infinite where nothing happens. */
  readonly beganMs: number
  /**
   * The last moment that can be asked for: by then 2^24 records have appeared (2^30 in all), or a century has
   * passed.
   */
  readonly longestMs: number
  /** How many records have ever been, gone ones included. */
  readonly length: (now: number) => number
  /** When the record appears; 0 for those of the past. */
  readonly appears: (index: number) => number
  readonly vanishes: (index: number) => number
  readonly isPresent: (index: number, now: number) => boolean
  /** All records before this one have vanished, so that nobody needs to pass over them; some behind it may have too. */
  readonly goneBefore: (now: number) => number
  readonly story: (index: number, now: number) => Story
  /**
   * Those that may have changed in a stretch of time (ms since 1970), or undefined where they are more than a `most`-th
   * of the list.
   */
  readonly changedWithin: (fromMs: number, toMs: number, now: number, most: number) => Array<number> | undefined
}

/** A list in which nothing happens. */
export const still = (length: number): Life => ({
  still: true,
  beganMs: Infinity,
  longestMs: Infinity,
  length: () => length,
  appears: () => 0,
  vanishes: () => Infinity,
  isPresent: (index) => index < length,
  goneBefore: () => 0,
  story: () => untouched,
  changedWithin: () => []
})

const hourMs = 3_600_000
const centuryMs = 100 * 365 * 24 * hourMs
/** Records of a list, and changes of a record, that are counted exactly. */
const most = 2 ** 30
/** The longest life, as a multiple of the mean one: a draw of 32 bits gives none beyond ln 2^32, which is 22.2. */
const longestLife = 23
/** Records that appear while a list lives. Where gone ones are passed over one by one, it must not take minutes. */
const mostBirths = 2 ** 24

/** A list that begins with `past` records at `beganMs` and then moves. */
export const moving = (past: number, beganMs: number, rates: Rates, key: number): Life => {
  const share = Math.max(1, past)
  const [birthKey, deathKey] = [draw(key, 1), draw(key, 2)]
  const phases = Scatter.make(draw(key, 3))
  const betweenBirths = hourMs / rates.appear
  const meanLife = share * hourMs / rates.vanish
  /** Each record changes once in every period, at its own phase of it. */
  const period = share * hourMs / rates.change
  const appears = (index: number) =>
    index < past ? 0 : (index - past + draw(birthKey, index) / 0x1_0000_0000) * betweenBirths
  const vanishes = (index: number) =>
    appears(index) + (rates.vanish === 0 ? Infinity : -Math.log(1 - draw(deathKey, index) / 0x1_0000_0000) * meanLife)
  const turnMs = (index: number, turn: number) => (turn + phases.placeOf(index)) * period
  /** How many of its changes, had it been there from the start, lie at or before that time. */
  const turns = (index: number, now: number) => {
    let count = Math.max(0, Math.floor(now / period - phases.placeOf(index)) + 1)
    // Division and multiplication round differently; what is compared everywhere is the product.
    while (count > 0 && turnMs(index, count - 1) > now) count--
    while (turnMs(index, count) <= now) count++
    return count
  }
  const length = (now: number) => {
    if (rates.appear === 0) return past
    let count = past + Math.floor(now / betweenBirths)
    while (count > past && appears(count - 1) > now) count--
    while (appears(count) <= now) count++
    return count
  }
  return {
    still: false,
    beganMs,
    longestMs: Math.min(
      centuryMs,
      rates.appear === 0 ? Infinity : Math.min(mostBirths, most - past) * betweenBirths,
      most * period
    ),
    length,
    appears,
    vanishes,
    isPresent: (index, now) => appears(index) <= now && vanishes(index) > now,
    goneBefore: (now) => {
      const latestBirth = now - longestLife * meanLife
      // One fewer than were surely born by then, since division rounds.
      return latestBirth < 0 ? 0 : past + Math.max(0, Math.floor(latestBirth / betweenBirths) - 1)
    },
    story: (index, now) => {
      const appeared = appears(index)
      const appearedMs = index < past ? undefined : Math.floor(beganMs + appeared)
      const [before, after] = rates.change === 0 ? [0, 0] : [turns(index, appeared), turns(index, now)]
      return after <= before ? { ...untouched, appearedMs } : {
        appearedMs,
        changes: after - before,
        firstChangeMs: Math.floor(beganMs + turnMs(index, before)),
        lastChangeMs: Math.floor(beganMs + turnMs(index, after - 1))
      }
    },
    changedWithin: (fromMs, toMs, now, atMost) => {
      const from = Math.max(0, fromMs - beganMs - 1) / period
      const to = Math.min(now, toMs - beganMs + 1) / period
      if (rates.change === 0 || from > to) return []
      const count = length(now)
      const bits = Scatter.bitsFor(count)
      const parts = 2 ** bits
      const [first, last] = [Math.floor(from * parts), Math.floor(to * parts)]
      if ((last - first + 1) * atMost > parts) return undefined
      const found: Array<number> = []
      for (let part = first; part <= last; part++) {
        const index = phases.indexAt(part % parts, bits)
        if (index < count) found.push(index)
      }
      return found
    }
  }
}
