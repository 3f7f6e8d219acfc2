/** Chance that is the same on every machine: each draw is a function of what it is for. */
import { mix } from "@payments/core/testing"

/** 32 even bits drawn for a part of something. */
export const draw = (of: number, part: number): number => {
  const state = of ^ Math.imul(part + 1, 0x9e3779b1)
  return mix(state ^ (state >>> 16)) >>> 0
}

/** The member that a draw falls on, of a list that is not empty. */
export const pick = <A>(values: ReadonlyArray<A>, drawn: number): A => values[drawn % values.length] as A // below its length

/** One round of the network below. */
const round = (half: number, key: number, odd: number, mask: number): number => {
  const mixed = Math.imul(half ^ key, odd)
  return Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d) >>> 11 & mask
}

/** Maps the numbers of `2 * halfBits` bits one to one onto themselves: a Feistel network of four rounds. */
export const permute = (halfBits: number, key: number, value: number): number => {
  const mask = (1 << halfBits) - 1
  let high = value >>> halfBits, low = value & mask
  high ^= round(low, key, 0x85ebca6b, mask)
  low ^= round(high, key, 0xc2b2ae35, mask)
  high ^= round(low, key, 0x9e3779b1, mask)
  low ^= round(high, key, 0x27d4eb2f, mask)
  return high << halfBits | low
}

/** The number that {@link permute} maps to this one. */
export const unpermute = (halfBits: number, key: number, value: number): number => {
  const mask = (1 << halfBits) - 1
  let high = value >>> halfBits, low = value & mask
  low ^= round(high, key, 0x27d4eb2f, mask)
  high ^= round(low, key, 0x9e3779b1, mask)
  low ^= round(high, key, 0xc2b2ae35, mask)
  high ^= round(low, key, 0x85ebca6b, mask)
  return high << halfBits | low
}
