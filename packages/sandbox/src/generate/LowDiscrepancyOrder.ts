/**
 * A scrambled van der Corput sequence. It gives each record a fixed point in [0, 1). If [0, 1) is divided into 2^n
 * equal intervals, each one contains the point of exactly one of the first 2^n records. That record can be computed. So
 * a shuffled list is read in order, and the records of an interval are found, without storing or sorting records.
 */
import { draw } from "./RecordRandom.ts"

/** The points of all records. In all functions, [0, 1) is divided into `2^bits` intervals; `bits` is 1 to 31. */
export interface LowDiscrepancyOrder {
  /** Returns the point of a record, a multiple of 2^-32. */
  readonly pointOf: (index: number) => number
  /** Returns the number of the interval that contains the point of a record. */
  readonly intervalOf: (index: number, bits: number) => number
  /** Returns which of the first `2^bits` records has its point in an interval. */
  readonly indexIn: (interval: number, bits: number) => number
}

/** Returns the smallest number of bits, at least 1, for which there are at least `length` intervals. */
export const bitsFor = (length: number): number => Math.max(1, 32 - Math.clz32(Math.max(0, length - 1)))

const reverseBits = (value: number): number => {
  let bits = value
  bits = (bits >>> 1) & 0x55555555 | (bits & 0x55555555) << 1
  bits = (bits >>> 2) & 0x33333333 | (bits & 0x33333333) << 2
  bits = (bits >>> 4) & 0x0f0f0f0f | (bits & 0x0f0f0f0f) << 4
  bits = (bits >>> 8) & 0x00ff00ff | (bits & 0x00ff00ff) << 8
  return (bits >>> 16 | bits << 16) >>> 0
}

/** Returns the inverse of an odd integer modulo 2^32. Each round of Newton's method doubles the number of correct bits. */
const inverse = (odd: number): number => {
  let guess = odd
  for (let round = 0; round < 5; round++) guess = Math.imul(guess, 2 - Math.imul(odd, guess))
  return guess
}

/**
 * Makes the points for a key. Every step of `scramble` carries only from lower bits to higher ones. So the lowest n
 * bits of the result depend only on those of the index. Therefore the point of a record stays in its interval when the
 * intervals are halved.
 */
export const make = (key: number): LowDiscrepancyOrder => {
  const flip = draw(key, 1)
  const odd = [draw(key, 2) | 1, draw(key, 3) | 1] as const
  const inverseOdd = [inverse(odd[0]), inverse(odd[1])] as const
  const shift = 11
  const scramble = (index: number) => {
    const mixed = Math.imul(index ^ flip, odd[0])
    return Math.imul(mixed ^ (mixed << shift), odd[1]) + flip
  }
  const unscramble = (value: number) => {
    const mixed = Math.imul(value - flip, inverseOdd[1])
    const first = mixed ^ (mixed << shift)
    return Math.imul(mixed ^ ((mixed ^ (first << shift)) << shift), inverseOdd[0]) ^ flip
  }
  return {
    pointOf: (index) => reverseBits(scramble(index)) / 0x1_0000_0000,
    intervalOf: (index, bits) => reverseBits(scramble(index)) >>> (32 - bits),
    indexIn: (interval, bits) => unscramble(reverseBits(interval << (32 - bits))) & ((2 ** bits) - 1)
  }
}
