/** Seeded pseudo-random numbers. Each is a pure function of a key and a salt, so it is the same on every machine. */
import { mix } from "@payments/core/testing"

/** Returns an evenly distributed integer from 0 to 2^32 - 1. One key gives independent numbers for different salts. */
export const draw = (key: number, salt: number): number => {
  const state = key ^ Math.imul(salt + 1, 0x9e3779b1)
  return mix(state ^ (state >>> 16)) >>> 0
}

/** Returns an evenly distributed number from [0, 1). */
export const fraction = (key: number, salt: number): number => draw(key, salt) / 0x1_0000_0000

/** Returns true for one key in `n`. */
export const oneIn = (n: number, key: number, salt: number): boolean => draw(key, salt) % n === 0

/** Returns the value that a drawn number selects. `values` must not be empty. */
export const pick = <A>(values: ReadonlyArray<A>, drawn: number): A => values[drawn % values.length] as A // in bounds

/** One round of the Feistel network of {@link permute}. */
const round = (half: number, key: number, odd: number, mask: number): number => {
  const mixed = Math.imul(half ^ key, odd)
  return Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d) >>> 11 & mask
}

/** Permutes the integers of `2 * halfBits` bits, with a Feistel network of four rounds. */
export const permute = (halfBits: number, key: number, value: number): number => {
  const mask = (1 << halfBits) - 1
  let high = value >>> halfBits, low = value & mask
  high ^= round(low, key, 0x85ebca6b, mask)
  low ^= round(high, key, 0xc2b2ae35, mask)
  high ^= round(low, key, 0x9e3779b1, mask)
  low ^= round(high, key, 0x27d4eb2f, mask)
  return high << halfBits | low
}

/** Inverts {@link permute}. */
export const unpermute = (halfBits: number, key: number, value: number): number => {
  const mask = (1 << halfBits) - 1
  let high = value >>> halfBits, low = value & mask
  low ^= round(high, key, 0x27d4eb2f, mask)
  high ^= round(low, key, 0x9e3779b1, mask)
  low ^= round(high, key, 0xc2b2ae35, mask)
  high ^= round(low, key, 0x85ebca6b, mask)
  return high << halfBits | low
}
