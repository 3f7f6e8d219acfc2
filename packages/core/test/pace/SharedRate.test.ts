/** What a client decides from what it knows of a shared budget. */
import { assert, describe, it } from "@effect/vitest"
import * as SharedRate from "../../src/pace/SharedRate.ts"

const { fullLevel, levelOf } = SharedRate
const unlimited = SharedRate.boundsOf(undefined)
const limited = SharedRate.boundsOf(100)
const fresh = SharedRate.initial(unlimited)
const waiting = SharedRate.onSlot(fresh, 10)

describe("the first rate", () => {
  it.each(
    [
      ["without a ceiling", undefined, 20],
      ["with a ceiling, of which a twentieth is the reserve", 100, 95],
      ["with a ceiling beyond what a store can express", 10_000, 1000]
    ] as const
  )("%s", (_, ceiling, rate) => {
    assert.closeTo(SharedRate.initial(SharedRate.boundsOf(ceiling)).rate, rate, 1e-9)
  })
})

describe("the rate should grow", () => {
  it.each(
    [
      ["if nobody knows it", fresh, unlimited, fullLevel, true],
      ["if a request has waited", waiting, unlimited, levelOf(20), true],
      ["not if no request has waited", fresh, unlimited, levelOf(20), false],
      ["not beyond the ceiling", waiting, limited, levelOf(95), false],
      [
        "not if the last request that waited did so before the last reading",
        SharedRate.onLevelRead(unlimited, waiting, levelOf(20)),
        unlimited,
        levelOf(20),
        false
      ]
    ] as const
  )("%s", (_, state, bounds, level, expected) => {
    assert.strictEqual(SharedRate.shouldGrow(bounds, state, level), expected)
  })
})

describe("the level grows", () => {
  it.each(
    [
      ["to the first one if nobody knows it", unlimited, fullLevel, fullLevel, levelOf(20) - fullLevel],
      ["fast before the first 429", unlimited, 100, fullLevel, 35],
      ["slowly below the last 429", unlimited, 100, 110, 1],
      ["slowly above the last 429", unlimited, 110, 100, 1],
      ["faster far below the last 429", unlimited, 100, 120, 5],
      ["faster far above the last 429", unlimited, 120, 100, 5],
      ["at most to the ceiling", limited, levelOf(95) - 2, fullLevel, 2]
    ] as const
  )("%s", (_, bounds, level, peak, expected) => {
    assert.closeTo(SharedRate.growthOf(bounds, level, peak), expected, 1e-9)
  })
})

describe("a reduction", () => {
  it.each(
    [
      ["is a tenth at first", 4, levelOf(20), 18],
      ["is more if there was one shortly before", 3, levelOf(20), 16],
      ["is half at most", 0, levelOf(20), 10],
      ["is half if the store has no more", -1, levelOf(20), 10],
      ["starts at the rate of another client that is lower", 4, levelOf(10), 9],
      ["starts at the own rate if another client has increased it", 4, levelOf(40), 18],
      ["ends at the lowest rate", 0, levelOf(0.2), 0.2]
    ] as const
  )("%s", (_, left, level, rate) => {
    const { after } = SharedRate.reductionOf(fresh, level, left)
    assert.closeTo(SharedRate.onLevel(unlimited, fresh, after).rate, rate, 1e-9)
  })
})

describe("the state", () => {
  it("is read again after a second, or if the store is slow, after five times as long as reading took", () => {
    assert.strictEqual(SharedRate.onRead(fresh, 100, 150).readAgainAt, 1150)
    assert.strictEqual(SharedRate.onRead(fresh, 100, 1100).readAgainAt, 6100)
  })

  it("keeps the longest pause", () => {
    const paused = SharedRate.onRateLimited(fresh, 1000, 5000)
    assert.strictEqual(paused.notBefore, 6000)
    assert.strictEqual(SharedRate.onRateLimited(paused, 2000, 0).notBefore, 6000)
  })

  it("has the share of the reserve for the most clients of the last two counts", () => {
    const [first, second] = [60_000, 120_000]
    const state = SharedRate.onCount(SharedRate.onCount(SharedRate.initial(limited), 5, first), 2, second)
    assert.closeTo(SharedRate.rateWithoutStore(state), 1, 1e-9)
    assert.closeTo(SharedRate.rateWithoutStore(SharedRate.onCount(state, 10, undefined)), 0.5, 1e-9)
  })
})
