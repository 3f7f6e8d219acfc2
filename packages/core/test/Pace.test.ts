import { assert, describe, it } from "@effect/vitest"
import * as Pace from "../src/internal/Pace.ts"

/** Takes turns as soon as they come, from `start`; gives when they came. */
const take = (pace: Pace.Pace, count: number, start: number): readonly [ReadonlyArray<number>, Pace.Pace] => {
  const times: Array<number> = []
  let current = pace
  let now = start
  for (let turn = 0; turn < count; turn++) {
    const [at, after] = Pace.takeTurn(current, now)
    times.push(at)
    current = after
    now = at
  }
  return [times, current]
}

describe("the pace", () => {
  it("waits for nothing without a ceiling", () => {
    assert.deepStrictEqual(take(Pace.make(), 5, 1000)[0], [1000, 1000, 1000, 1000, 1000])
  })

  it("spaces requests evenly under a ceiling, whoever makes them", () => {
    assert.deepStrictEqual(take(Pace.make(4), 4, 1000)[0], [1000, 1250, 1500, 1750])
    const [, after] = take(Pace.make(4), 1, 1000)
    // A pause is not made up for by a burst.
    assert.deepStrictEqual(take(after, 3, 9000)[0], [9000, 9250, 9500])
  })

  it("halves what was really asked after a 429, then grows back by a tenth a second", () => {
    const asked = Array.from({ length: 20 }).reduce<Pace.Pace>((pace) => Pace.takeTurn(pace, 0)[1], Pace.make())
    const slow = Pace.slowedDown(asked, 1000, 0)
    assert.strictEqual(slow.rate, 10)
    assert.deepStrictEqual(take(slow, 3, 1000)[0], [1000, 1100, 1200])
    const rateAfter = (seconds: number) => Pace.takeTurn(slow, 1000 + seconds * 1000)[1].rate
    assert.deepStrictEqual([0, 1, 2, 5, 10].map(rateAfter), [10, 12, 14, 20, 30])
  })

  it("counts the 429s of one second as one, and keeps to its ceiling when it recovers", () => {
    const [, asked] = take(Pace.make(10), 10, 0)
    const once = Pace.slowedDown(asked, 1000, 0)
    assert.strictEqual(once.rate, 5)
    assert.strictEqual(Pace.slowedDown(once, 1500, 0).rate, 5)
    assert.strictEqual(Pace.takeTurn(once, 60_000)[1].rate, 10)
  })

  it("asks nothing before the moment that the service named, and never stands still", () => {
    const [, asked] = take(Pace.make(), 1, 0)
    const told = Pace.slowedDown(asked, 0, 7000)
    assert.strictEqual(Pace.takeTurn(told, 10)[0], 7000)
    let pace = asked
    for (let second = 0; second < 100; second++) pace = Pace.slowedDown(pace, second * 1001, 0)
    assert.isAtLeast(pace.rate, 0.2)
  })
})
