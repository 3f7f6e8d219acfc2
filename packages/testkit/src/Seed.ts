/** The seed of a test run. It is printed, and `PAYMENTS_SEED=n` replays a failed run. */
import { fraction } from "@payments/core/testing"

/** Whether the long form of the fault tests runs (`npm run test:crash`). */
export const isLongRun = process.env["PAYMENTS_CRASH"] === "1"

const given = Number(process.env["PAYMENTS_SEED"])

export const seed = Number.isSafeInteger(given) && given > 0 ? given : Date.now() % 1_000_000_000

export interface Dice {
  /** Returns a whole number from 0 to below `end`. */
  readonly below: (end: number) => number
  /** Returns true with the given probability. */
  readonly chance: (probability: number) => boolean
  readonly pick: <A>(from: ReadonlyArray<A>) => A
}

/** Equal arguments, such as a seed and the name of a test, give equal sequences. */
export const diceOf = (...parts: ReadonlyArray<number | string>): Dice => {
  let count = 0
  const next = () => fraction(...parts, ++count)
  const below = (end: number) => Math.floor(next() * end)
  return {
    below,
    chance: (probability) => next() < probability,
    pick: (from) => {
      const picked = from[below(from.length)]
      if (picked === undefined) throw new RangeError("there is nothing to pick from")
      return picked
    }
  }
}
