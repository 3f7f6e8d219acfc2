/** The orders in which a list returns its records (§4.4 specifies none). None of them needs sorting. */
import * as LowDiscrepancyOrder from "./LowDiscrepancyOrder.ts"

/** By age, or shuffled by the seed. In a shuffled list, new records appear at any place. */
export type OrderName = "newest" | "oldest" | "shuffled"

/**
 * An order. The records of a list lie in numbered slots, at most one in each, and the list is read slot by slot. The
 * relative order of two records never changes, even if the list grows.
 */
export interface ListOrder {
  /** The direction in which the slots are read. */
  readonly step: 1 | -1
  /** Whether the slot of a record depends on the length of the list. */
  readonly slotsDependOnLength: boolean
  /** Returns the number of slots of a list with `length` records. */
  readonly slotCount: (length: number) => number
  /** Returns the index of the record in a slot. An index of `length` or more means that the slot is empty. */
  readonly indexAt: (slot: number, length: number) => number
  readonly slotOf: (index: number, length: number) => number
  /** Returns a number that is greater for records that come later in the list. */
  readonly rankOf: (index: number) => number
}

/** Which of the records that appear in a live list stand at its end, although the list is otherwise newest first. */
export interface Misplacement {
  /** The number of records that the list has at its start. They are in order. */
  readonly initialCount: number
  readonly isActive: () => boolean
  /** Whether the record is misplaced. It never changes for a record that has appeared. */
  readonly isMisplaced: (index: number) => boolean
}

/**
 * Makes the order "newest" with misplaced records. The slots of the list are read from the last one down. First comes
 * one for each record, newest first, then one for each record that appeared later, oldest first. Each record lies in
 * one of its two slots.
 */
export const newestExcept = ({ initialCount, isActive, isMisplaced }: Misplacement): ListOrder => {
  const newest = make("newest", 0)
  const later = (length: number) => length - initialCount
  return {
    step: -1,
    get slotsDependOnLength() {
      return isActive()
    },
    slotCount: (length) => isActive() ? length + later(length) : newest.slotCount(length),
    indexAt: (slot, length) => {
      if (!isActive()) return newest.indexAt(slot, length)
      const isAtEnd = slot < later(length)
      const index = isAtEnd ? length - 1 - slot : slot - later(length)
      return isMisplaced(index) === isAtEnd ? index : length
    },
    slotOf: (index, length) =>
      !isActive()
        ? newest.slotOf(index, length)
        : isMisplaced(index)
        ? length - 1 - index
        : later(length) + Math.min(index, length),
    rankOf: (index) => isMisplaced(index) ? 1 + index : newest.rankOf(index)
  }
}

/** Makes an order. `key` determines the shuffle. */
export const make = (name: OrderName, key: number): ListOrder => {
  if (name !== "shuffled") {
    const step = name === "oldest" ? 1 : -1
    return {
      step,
      slotsDependOnLength: false,
      slotCount: (length) => length,
      indexAt: (slot) => slot,
      // A cursor can contain a record that has not appeared yet, because the clock can go back.
      slotOf: (index, length) => Math.min(index, length),
      rankOf: (index) => step * index
    }
  }
  const { bitsFor } = LowDiscrepancyOrder
  const shuffle = LowDiscrepancyOrder.make(key)
  return {
    step: 1,
    slotsDependOnLength: true,
    slotCount: (length) => length === 0 ? 0 : 2 ** bitsFor(length),
    indexAt: (slot, length) => shuffle.indexIn(slot, bitsFor(length)),
    slotOf: (index, length) => shuffle.intervalOf(index, bitsFor(length)),
    rankOf: shuffle.pointOf
  }
}
