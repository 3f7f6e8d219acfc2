/** Seeded pseudo-random numbers: each is a pure function of its seed parts, so it is the same on every run. */
import { Hash } from "effect"

/** Mixes 32 bits (the end of MurmurHash3's finalizer, a public-domain function). */
export const mix = (state: number): number => {
  const once = Math.imul(state, 0x85ebca6b)
  const twice = Math.imul(once ^ (once >>> 13), 0xc2b2ae35)
  return twice ^ (twice >>> 16)
}

/** Returns a 32-bit hash of these seed parts: an evenly distributed integer from 0 to 2^32 - 1. */
export const hash32 = (...parts: ReadonlyArray<number | string>): number => {
  let state = 0x9e3779b9
  for (const part of parts) {
    const word = typeof part === "string" ? Hash.string(part) : part
    state = mix(state ^ word ^ (word / 0x1_0000_0000))
  }
  return state >>> 0
}

/** Returns an evenly distributed number from [0, 1) for these seed parts. */
export const fraction = (...parts: ReadonlyArray<number | string>): number => hash32(...parts) / 0x1_0000_0000
