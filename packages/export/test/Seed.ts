/** The seed of a run, printed so that a failure can be run again: `PAYMENTS_SEED=n` replays it. */
import { fraction } from "@payments/core/testing"

/** Whether the long form of the fault tests runs (`npm run test:crash`). */
export const crash = process.env["PAYMENTS_CRASH"] === "1"

const given = Number(process.env["PAYMENTS_SEED"])

/** Of this run. */
export const seed = Number.isSafeInteger(given) && given > 0 ? given : Date.now() % 1_000_000_000

/** Draws of one history, the same for the same parts. */
export interface Dice {
  /** Whole, from 0 and below `end`. */
  readonly below: (end: number) => number
  /** True with that chance. */
  readonly chance: (share: number) => boolean
  readonly pick: <A>(from: ReadonlyArray<A>) => A
}

/** Dice that fall the same way for the same parts. */
export const diceOf = (...parts: ReadonlyArray<number | string>): Dice => {
  let thrown = 0
  const next = () => fraction(...parts, ++thrown)
  const below = (end: number) => Math.floor(next() * end)
  return {
    below,
    chance: (share) => next() < share,
    pick: (from) => {
      const picked = from[below(from.length)]
      if (picked === undefined) throw new RangeError("there is nothing to pick from")
      return picked
    }
  }
}
