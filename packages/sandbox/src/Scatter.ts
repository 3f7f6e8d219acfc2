/**
 * Places in [0, 1) for records that grow in number: record `index` keeps its place for good, the first 2^n records have
 * one in each 2^n-th part of it, and the record of a part is computed. So a shuffled list can be read in order, or the
 * records within a stretch be found, without holding or sorting any. (A van der Corput sequence, scrambled.)
 */
import { draw } from "./Draw.ts"

/** One scattering of all records, by number of parts: a power of two, 2 to 2^31. */
export interface Scatter {
  /** The place of the record, to 32 bits. */
  readonly placeOf: (index: number) => number
  /** The part of `2^bits` that the record is in. */
  readonly partOf: (index: number, bits: number) => number
  /** The one of the first `2^bits` records that is in that part. */
  readonly indexAt: (part: number, bits: number) => number
}

/** Bits for parts enough that each of so many records has one. */
export const bitsFor = (length: number): number => Math.max(1, 32 - Math.clz32(Math.max(0, length - 1)))

const reverse = (value: number): number => {
  let bits = value
  bits = (bits >>> 1) & 0x55555555 | (bits & 0x55555555) << 1
  bits = (bits >>> 2) & 0x33333333 | (bits & 0x33333333) << 2
  bits = (bits >>> 4) & 0x0f0f0f0f | (bits & 0x0f0f0f0f) << 4
  bits = (bits >>> 8) & 0x00ff00ff | (bits & 0x00ff00ff) << 8
  return (bits >>> 16 | bits << 16) >>> 0
}

/** The number that undoes a multiplication by an odd one, modulo 2^32 (Newton's method doubles the digits each time). */
const inverse = (odd: number): number => {
  let guess = odd
  for (let round = 0; round < 5; round++) guess = Math.imul(guess, 2 - Math.imul(odd, guess))
  return guess
}

/** Each step carries only from lower bits to higher ones; that is what keeps a record in its part as parts are halved. */
export const make = (key: number): Scatter => {
  const flip = draw(key, 1)
  const odd = [draw(key, 2) | 1, draw(key, 3) | 1] as const
  const undo = [inverse(odd[0]), inverse(odd[1])] as const
  const shift = 11
  const scramble = (index: number) => {
    const mixed = Math.imul(index ^ flip, odd[0])
    return Math.imul(mixed ^ (mixed << shift), odd[1]) + flip
  }
  const unscramble = (value: number) => {
    const mixed = Math.imul(value - flip, undo[1])
    const first = mixed ^ (mixed << shift)
    return Math.imul(mixed ^ ((mixed ^ (first << shift)) << shift), undo[0]) ^ flip
  }
  return {
    placeOf: (index) => reverse(scramble(index)) / 0x1_0000_0000,
    partOf: (index, bits) => reverse(scramble(index)) >>> (32 - bits),
    indexAt: (part, bits) => unscramble(reverse(part << (32 - bits))) & ((2 ** bits) - 1)
  }
}
