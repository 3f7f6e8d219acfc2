import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as Pace from "../src/internal/Pace.ts"

/** Asks as soon as the pace allows, from `start`; gives when. */
const ask = (pace: Pace.Pace, count: number, start: number): readonly [ReadonlyArray<number>, Pace.Pace] => {
  const times: Array<number> = []
  let current = pace
  let now = start
  for (let turn = 0; turn < count; turn++) {
    now = Math.max(now, current.next)
    times.push(now)
    current = Pace.asked(current, now)
  }
  return [times, current]
}

describe("the pace", () => {
  it("waits for nothing without a ceiling", () => {
    assert.deepStrictEqual(ask(Pace.make(), 5, 1000)[0], [1000, 1000, 1000, 1000, 1000])
  })

  it("spaces requests evenly under a ceiling, whoever makes them", () => {
    assert.deepStrictEqual(ask(Pace.make(4), 4, 1000)[0], [1000, 1250, 1500, 1750])
    const [, after] = ask(Pace.make(4), 1, 1000)
    // A pause is not made up for by a burst.
    assert.deepStrictEqual(ask(after, 3, 9000)[0], [9000, 9250, 9500])
  })

  it("halves what was really asked after a 429, then grows back by a tenth a second", () => {
    const [, busy] = ask(Pace.make(), 20, 0)
    const slow = Pace.slowedDown(busy, 1000, 0)
    assert.strictEqual(slow.rate, 10)
    assert.deepStrictEqual(ask(slow, 3, 1000)[0], [1000, 1100, 1200])
    const rateAfter = (seconds: number) => Pace.asked(slow, 1000 + seconds * 1000).rate
    assert.deepStrictEqual([0, 1, 2, 5, 10].map(rateAfter), [10, 12, 14, 20, 30])
  })

  it("counts the 429s of one second as one, and keeps to its ceiling when it recovers", () => {
    const [, busy] = ask(Pace.make(10), 10, 0)
    const once = Pace.slowedDown(busy, 1000, 0)
    assert.strictEqual(once.rate, 5)
    assert.strictEqual(Pace.slowedDown(once, 1500, 0).rate, 5)
    assert.strictEqual(Pace.asked(once, 60_000).rate, 10)
  })

  it("knows the rate it asked at whenever the 429 comes", () => {
    for (const at of [150, 500, 999, 1000, 1010, 1500, 1990, 2000, 2500]) {
      let pace = Pace.make()
      for (let now = 0; now <= at; now += 10) pace = Pace.asked(pace, now)
      const { rate } = Pace.slowedDown(pace, at, 0)
      assert.isTrue(rate >= 48 && rate <= 54, `${rate} after ${at} ms at 100 a second`)
    }
    const [, late] = ask(Pace.make(), 20, 0)
    assert.strictEqual(Pace.slowedDown(late, 5000, 0).rate, 2)
  })

  it("is cut again by every later 429", () => {
    let [, pace] = ask(Pace.make(100), 100, 0)
    let now = 1000
    for (let round = 0; round < 8; round++) {
      const before = pace.rate
      pace = Pace.slowedDown(pace, now, 0)
      assert.isBelow(pace.rate, before)
      // Two seconds of asking as fast as it may.
      while (pace.next < now + 2000) pace = Pace.asked(pace, Math.max(now, pace.next))
      now += 2000
    }
    assert.isBelow(pace.rate, 5)
  })

  const Seconds = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 10 }))
  it.prop("is never faster after a 429 than before, nor after a pause than its ceiling", [
    Schema.Array(Schema.Tuple([Schema.Boolean, Seconds])),
    Schema.Finite.check(Schema.isBetween({ minimum: 0.5, maximum: 100 }))
  ], ([steps, ceiling]) => {
    let pace = Pace.make(ceiling)
    let now = 0
    for (const [limited, seconds] of steps) {
      now = Math.max(now + seconds * 1000, pace.next)
      pace = Pace.asked(pace, now)
      const before = pace.rate
      if (limited) pace = Pace.slowedDown(pace, now, 0)
      if (pace.rate > before || pace.rate > ceiling) return false
    }
    return pace.rate > 0
  })

  it("asks nothing before the moment that the service named, and never stands still", () => {
    const [, busy] = ask(Pace.make(), 1, 0)
    assert.strictEqual(Pace.slowedDown(busy, 0, 7000).next, 7000)
    let pace = busy
    for (let second = 0; second < 100; second++) pace = Pace.slowedDown(pace, second * 1001, 0)
    assert.isAtLeast(pace.rate, 0.2)
  })
})
