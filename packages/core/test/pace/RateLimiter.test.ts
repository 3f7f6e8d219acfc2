import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as RateLimiter from "../../src/pace/RateLimiter.ts"

/**
 * Makes `count` requests from `start` on, each as soon as the limiter allows it. Returns their times and the limiter.
 */
const request = (
  limiter: RateLimiter.RateLimiter,
  count: number,
  start: number
): readonly [ReadonlyArray<number>, RateLimiter.RateLimiter] => {
  const times: Array<number> = []
  let current = limiter
  let now = start
  for (let made = 0; made < count; made++) {
    now = Math.max(now, current.nextRequestAt)
    times.push(now)
    current = RateLimiter.onRequest(current, now)
  }
  return [times, current]
}

describe("RateLimiter", () => {
  it("does not wait without a ceiling", () => {
    assert.deepStrictEqual(request(RateLimiter.make(), 5, 1000)[0], [1000, 1000, 1000, 1000, 1000])
  })

  it("spaces requests evenly at the ceiling", () => {
    assert.deepStrictEqual(request(RateLimiter.make(4), 4, 1000)[0], [1000, 1250, 1500, 1750])
    const [, after] = request(RateLimiter.make(4), 1, 1000)
    // A pause does not permit a burst.
    assert.deepStrictEqual(request(after, 3, 9000)[0], [9000, 9250, 9500])
  })

  it("halves the measured rate after a 429, then adds a tenth of it per second", () => {
    const [, busy] = request(RateLimiter.make(), 20, 0)
    const slow = RateLimiter.onRateLimited(busy, 1000, 0)
    assert.strictEqual(slow.rate, 10)
    assert.deepStrictEqual(request(slow, 3, 1000)[0], [1000, 1100, 1200])
    const rateAfter = (seconds: number) => RateLimiter.onRequest(slow, 1000 + seconds * 1000).rate
    assert.deepStrictEqual([0, 1, 2, 5, 10].map(rateAfter), [10, 12, 14, 20, 30])
  })

  it("reduces the rate once for all 429s of one second, and recovers to the ceiling at most", () => {
    const [, busy] = request(RateLimiter.make(10), 10, 0)
    const once = RateLimiter.onRateLimited(busy, 1000, 0)
    assert.strictEqual(once.rate, 5)
    assert.strictEqual(RateLimiter.onRateLimited(once, 1500, 0).rate, 5)
    assert.strictEqual(RateLimiter.onRequest(once, 60_000).rate, 10)
  })

  it("measures the request rate at any time within the counting window", () => {
    for (const at of [150, 500, 999, 1000, 1010, 1500, 1990, 2000, 2500]) {
      let limiter = RateLimiter.make()
      for (let now = 0; now <= at; now += 10) limiter = RateLimiter.onRequest(limiter, now)
      const { rate } = RateLimiter.onRateLimited(limiter, at, 0)
      assert.isTrue(rate >= 48 && rate <= 54, `${rate} after ${at} ms at 100 a second`)
    }
    const [, late] = request(RateLimiter.make(), 20, 0)
    assert.strictEqual(RateLimiter.onRateLimited(late, 5000, 0).rate, 2)
  })

  it("reduces the rate again after every later 429", () => {
    let [, limiter] = request(RateLimiter.make(100), 100, 0)
    let now = 1000
    for (let round = 0; round < 8; round++) {
      const before = limiter.rate
      limiter = RateLimiter.onRateLimited(limiter, now, 0)
      assert.isBelow(limiter.rate, before)
      // Two seconds of requests at the allowed rate.
      while (limiter.nextRequestAt < now + 2000) {
        limiter = RateLimiter.onRequest(limiter, Math.max(now, limiter.nextRequestAt))
      }
      now += 2000
    }
    assert.isBelow(limiter.rate, 5)
  })

  const Seconds = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 10 }))
  it.prop("never increases the rate after a 429, and never exceeds the ceiling after a pause", [
    Schema.Array(Schema.Tuple([Schema.Boolean, Seconds])),
    Schema.Finite.check(Schema.isBetween({ minimum: 0.5, maximum: 100 }))
  ], ([steps, ceiling]) => {
    let limiter = RateLimiter.make(ceiling)
    let now = 0
    for (const [limited, seconds] of steps) {
      now = Math.max(now + seconds * 1000, limiter.nextRequestAt)
      limiter = RateLimiter.onRequest(limiter, now)
      const before = limiter.rate
      if (limited) limiter = RateLimiter.onRateLimited(limiter, now, 0)
      if (limiter.rate > before || limiter.rate > ceiling) return false
    }
    return limiter.rate > 0
  })

  it("allows no request before the time that the service named, and never stops for good", () => {
    const [, busy] = request(RateLimiter.make(), 1, 0)
    assert.strictEqual(RateLimiter.onRateLimited(busy, 0, 7000).nextRequestAt, 7000)
    let limiter = busy
    for (let second = 0; second < 100; second++) limiter = RateLimiter.onRateLimited(limiter, second * 1001, 0)
    assert.isAtLeast(limiter.rate, 0.2)
  })
})
