/** The orders in which a list may give its records (§4.4 shows none), each without sorting. */
import * as Scatter from "./Scatter.ts"

/** By age, or by a shuffle that is the same for the same seed. New records land anywhere in a shuffled list. */
export type OrderName = "newest" | "oldest" | "shuffled"

/**
 * A list lies in numbered cells with at most one record in each. It is read up or down through the cells, and two records
 * always stand in the same order, however many more there are.
 */
export interface Order {
  readonly step: 1 | -1
  /** Whether records change their cells when the list outgrows them. */
  readonly cellsMove: boolean
  /** How many cells so many records lie in. */
  readonly cells: (length: number) => number
  readonly indexAt: (cell: number, length: number) => number
  readonly cellOf: (index: number, length: number) => number
  /** Greater for a record that stands later in the list. */
  readonly rank: (index: number) => number
}

/** The order of that name. */
export const make = (name: OrderName, key: number): Order => {
  if (name !== "shuffled") {
    const step = name === "oldest" ? 1 : -1
    return {
      step,
      cellsMove: false,
      cells: (length) => length,
      indexAt: (cell) => cell,
      cellOf: (index, length) => Math.min(index, length),
      rank: (index) => step * index
    }
  }
  const scatter = Scatter.make(key)
  return {
    step: 1,
    cellsMove: true,
    cells: (length) => length === 0 ? 0 : 2 ** Scatter.bitsFor(length),
    indexAt: (cell, length) => scatter.indexAt(cell, Scatter.bitsFor(length)),
    cellOf: (index, length) => scatter.partOf(index, Scatter.bitsFor(length)),
    rank: (index) => scatter.placeOf(index)
  }
}
