/**
 * Which changes a receiver has applied, and what a delivery is. It remembers one bit per number, so that a repeat is told
 * from a change that comes too late.
 */

/** The changes of a delivery: their numbers, in the order of the body. */
export interface Delivery {
  readonly generation: string
  readonly numbers: ReadonlyArray<number>
}

/**
 * `new`: all changes are new, and after all earlier ones. `repeat`: all were applied before. `partial`: some were. `outOfOrder`:
 * a new change comes after one with a higher number, which an ordered hand-off never does.
 */
export type DeliveryKind = "new" | "repeat" | "partial" | "outOfOrder"

export interface Judged {
  readonly kind: DeliveryKind
  /** The numbers that were not applied before, each once. */
  readonly fresh: ReadonlySet<number>
  /** The numbers that were passed over: changes that are not sent, or that were skipped. */
  readonly passedOver: number
}

/** The numbers of a generation. */
interface Numbers {
  last: number
  /** Bits of the numbers, by their number divided by the numbers of a chunk. */
  readonly chunks: Map<number, Uint32Array>
}

const numbersPerChunk = 65_536

export interface Deliveries {
  /** Says what a delivery is. Does not apply it. */
  readonly judge: (delivery: Delivery) => Judged
  readonly apply: (delivery: Delivery) => void
}

export const makeDeliveries = (): Deliveries => {
  const generations = new Map<string, Numbers>()
  return {
    judge: ({ generation, numbers }) => {
      const known = generations.get(generation)
      const fresh = new Set(numbers.filter((number) => known === undefined || !has(known, number)))
      let [last, isOrdered, passedOver] = [known?.last, true, 0]
      for (const number of fresh) {
        if (last !== undefined && number < last) isOrdered = false
        else if (last !== undefined) passedOver += number - last - 1
        last = Math.max(last ?? 0, number)
      }
      const isAscending = numbers.every((number, index) => index === 0 || number > (numbers[index - 1] ?? 0))
      const kind = !isOrdered || !isAscending
        ? "outOfOrder"
        : fresh.size === numbers.length
        ? "new"
        : fresh.size === 0
        ? "repeat"
        : "partial"
      return { kind, fresh, passedOver: isOrdered ? passedOver : 0 }
    },
    apply: ({ generation, numbers }) => {
      const known = generations.get(generation) ?? { last: 0, chunks: new Map() }
      generations.set(generation, known)
      for (const number of numbers) add(known, number)
    }
  }
}

const placeOf = (number: number) => {
  const inChunk = number % numbersPerChunk
  return { chunk: Math.floor(number / numbersPerChunk), word: inChunk >>> 5, bit: 1 << (inChunk & 31) }
}

const has = ({ chunks }: Numbers, number: number): boolean => {
  const { bit, chunk, word } = placeOf(number)
  return ((chunks.get(chunk)?.[word] ?? 0) & bit) !== 0
}

const add = (numbers: Numbers, number: number): void => {
  const { bit, chunk, word } = placeOf(number)
  const bits = numbers.chunks.get(chunk) ?? new Uint32Array(numbersPerChunk / 32)
  numbers.chunks.set(chunk, bits)
  bits[word] = (bits[word] ?? 0) | bit
  numbers.last = Math.max(numbers.last, number)
}
