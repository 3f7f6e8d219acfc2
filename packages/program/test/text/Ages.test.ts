import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import { ageAndLimit } from "../../src/text/Ages.ts"

describe("an age that is above its limit", () => {
  it.each<readonly [ageMs: number, limitMs: number, age: string, limit: string]>([
    [2345, 2000, "2.345s", "2s"],
    [5000, 2000, "5s", "2s"],
    [11, 10, "0.011s", "0.01s"],
    [86_400_000 + 1, 86_400_000, "1d 0.001s", "1d"],
    [100_000_000, 95_400_000, "1d 3h", "1d 2h 30m"]
  ])("of %s ms, where %s ms is allowed, is shown so that both differ", (age, limit, ...texts) => {
    assert.deepStrictEqual([...ageAndLimit(Duration.millis(age), Duration.millis(limit))], texts)
  })
})
