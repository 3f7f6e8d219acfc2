/**
 * How many records of a list match, by blocks of 1,024 cells. A block is counted when it is first needed and again once
 * something in it has happened; what is kept is three numbers a block.
 */
import type { Life } from "./Life.ts"
import type { Order } from "./Order.ts"

const blockSize = 1024

/** Counts what matches in a list. */
export interface BlockCounts {
  readonly total: (now: number) => number
  /** How many matches stand in the list before the cell. */
  readonly before: (cell: number, now: number) => number
  /** The cell from which reading begins with the match of that number, counted from 0. */
  readonly cellOf: (offset: number, now: number) => number
}

/** What is counted. */
export interface Counted {
  readonly life: Life
  readonly order: Order
  /** All records match, always. */
  readonly everything: boolean
  readonly matches: (index: number, now: number) => boolean
  /** Whether changes of a record matter. */
  readonly changes: boolean
}

/** Counts over a list. */
export const make = ({ changes, everything, life, matches, order }: Counted): BlockCounts => {
  let cellsPerPart = 0
  let counts = new Uint16Array(0)
  let since = new Float64Array(0)
  let until = new Float64Array(0)

  const grow = (blocks: number) => {
    const enlarge = <A extends Uint16Array | Float64Array>(old: A, fresh: A): A => {
      fresh.set(old)
      return fresh
    }
    counts = enlarge(counts, new Uint16Array(blocks))
    since = enlarge(since, new Float64Array(blocks))
    until = enlarge(until, new Float64Array(blocks)) // 0: never counted
  }

  /** Makes room for a list of that length, and returns its number of blocks. */
  const blocksAt = (length: number): number => {
    // A shuffled list lies in twice as many cells once it outgrows them, each record in another one.
    const parts = order.cellsMove ? order.cells(length) : 0
    if (parts !== cellsPerPart) {
      cellsPerPart = parts
      until.fill(0)
    }
    const blocks = Math.ceil(order.cells(length) / blockSize)
    if (blocks > counts.length) grow(Math.max(blocks, Math.min(2 * counts.length, blocks + 1024)))
    return blocks
  }

  const within = (from: number, to: number, length: number, now: number): number => {
    let count = 0
    for (let cell = from; cell < to; cell++) {
      const index = order.indexAt(cell, length)
      if (index < length && life.isPresent(index, now) && matches(index, now)) count++
    }
    return count
  }

  const nextEvent = (index: number, now: number): number => {
    if (!life.isPresent(index, now)) return life.appears(index) > now ? life.appears(index) : Infinity
    return Math.min(life.vanishes(index), changes ? life.nextChange(index, now) : Infinity)
  }

  const countAt = (block: number, length: number, now: number): number => {
    const from = block * blockSize
    const cells = order.cells(length)
    if (!order.cellsMove && from + blockSize <= life.goneBefore(now)) return 0
    if (everything && !order.cellsMove) return Math.min(blockSize, cells - from)
    if (now >= (since[block] ?? 0) && now < (until[block] ?? 0)) return counts[block] ?? 0
    let next = Infinity
    if (!life.still) {
      for (let cell = from; cell < from + blockSize; cell++) {
        if (!order.cellsMove || cell < cells) next = Math.min(next, nextEvent(order.indexAt(cell, length), now))
      }
    }
    const count = within(from, Math.min(from + blockSize, cells), length, now)
    counts[block] = count
    since[block] = now
    until[block] = next
    return count
  }

  return {
    total: (now) => {
      const length = life.length(now)
      if (everything) return length
      let count = 0
      const blocks = blocksAt(length)
      for (let block = 0; block < blocks; block++) count += countAt(block, length, now)
      return count
    },
    before: (cell, now) => {
      const length = life.length(now)
      const blocks = blocksAt(length)
      const cells = order.cells(length)
      const block = Math.floor(cell / blockSize)
      let count = 0
      if (order.step === 1) {
        for (let full = 0; full < Math.min(block, blocks); full++) count += countAt(full, length, now)
        return block >= blocks ? count : count + within(block * blockSize, Math.min(cell, cells), length, now)
      }
      for (let full = block + 1; full < blocks; full++) count += countAt(full, length, now)
      return count + within(cell + 1, Math.min((block + 1) * blockSize, cells), length, now)
    },
    cellOf: (offset, now) => {
      const length = life.length(now)
      const blocks = blocksAt(length)
      const cells = order.cells(length)
      let left = offset
      let block = order.step === 1 ? 0 : blocks - 1
      for (; block >= 0 && block < blocks; block += order.step) {
        const count = countAt(block, length, now)
        if (left < count) break
        left -= count
      }
      let cell = order.step === 1 ? block * blockSize : Math.min((block + 1) * blockSize, cells) - 1
      for (; cell >= 0 && cell < cells; cell += order.step) {
        if (within(cell, cell + 1, length, now) === 1 && left-- === 0) break
      }
      return cell
    }
  }
}
