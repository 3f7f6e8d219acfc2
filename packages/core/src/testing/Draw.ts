/** Even draws that are a pure function of what they are drawn from: the same on every run. */
import { Hash } from "effect"

/** 32 bits drawn from any parts, evenly spread (the finalizer of MurmurHash3, a public-domain function). */
export const draw = (...parts: ReadonlyArray<number | string>): number => {
  let state = 0x9e3779b9
  for (const part of parts) {
    const word = typeof part === "string" ? Hash.string(part) : part
    state = Math.imul(state ^ word ^ (word / 0x1_0000_0000), 0x85ebca6b)
    state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35)
    state ^= state >>> 16
  }
  return state >>> 0
}

/** An even draw from [0, 1). */
export const fraction = (...parts: ReadonlyArray<number | string>): number => draw(...parts) / 0x1_0000_0000
