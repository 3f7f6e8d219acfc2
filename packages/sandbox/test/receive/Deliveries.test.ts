import { assert, describe, it } from "@effect/vitest"
import { diceOf, seed } from "@payments/testkit/Seed"
import { makeDeliveries } from "../../src/receive/Deliveries.ts"

const delivery = (...numbers: ReadonlyArray<number>) => ({ generation: "g1", numbers })

describe("deliveries", () => {
  it("are new, repeated, partly repeated or out of order", () => {
    const { apply, judge } = makeDeliveries()
    assert.deepStrictEqual(judge(delivery(5, 6)), { kind: "new", fresh: new Set([5, 6]), passedOver: 0 })
    apply(delivery(5, 6))
    assert.deepStrictEqual(judge(delivery(5, 6)), { kind: "repeat", fresh: new Set<number>(), passedOver: 0 })
    assert.deepStrictEqual(judge(delivery(6, 9)), { kind: "partial", fresh: new Set([9]), passedOver: 2 })
    assert.strictEqual(judge(delivery(4)).kind, "outOfOrder")
    assert.strictEqual(judge(delivery(8, 7)).kind, "outOfOrder")
    assert.strictEqual(judge(delivery(7, 7)).kind, "outOfOrder")
    assert.strictEqual(judge({ generation: "g2", numbers: [1] }).kind, "new")
    assert.strictEqual(judge(delivery()).kind, "new")
  })

  it(`apply each number once, however they repeat (seed ${seed})`, () => {
    const dice = diceOf(seed, "deliveries")
    const { apply, judge } = makeDeliveries()
    const model = new Set<number>()
    for (let round = 0; round < 500; round++) {
      const start = dice.below(200_000)
      const numbers = Array.from({ length: 1 + dice.below(20) }, (_, index) => start + index)
      const { fresh, kind } = judge(delivery(...numbers))
      const expected = new Set(numbers.filter((number) => !model.has(number)))
      const last = Math.max(0, ...model)
      assert.deepStrictEqual(fresh, expected)
      assert.strictEqual(kind === "outOfOrder", [...expected].some((number) => number < last))
      apply(delivery(...numbers))
      for (const number of numbers) model.add(number)
    }
  })
})
