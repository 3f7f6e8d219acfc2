/** Whether an answer is certain, from any sequence of observations. */
import { assert, describe, it } from "@effect/vitest"
import { diceOf, seed } from "@payments/testkit/Seed"
import { add, type Evidence, judge } from "../../src/port/Judgement.ts"

/** Observes an answer per letter. */
const evidenceOf = (answers: string): Evidence =>
  [...answers].reduce<Evidence>((evidence, answer) => add(evidence, { answer, seen: "", at: "" }), { observations: [] })

describe("a fact", () => {
  it.each([
    ["", "undecided", undefined],
    ["a", "likely", undefined],
    ["aa", "certain", "a"],
    ["ab", "undecided", undefined],
    // One contradiction raises what a certain answer needs from two observations in a row to three.
    ["baa", "undecided", undefined],
    ["baaa", "certain", "a"],
    ["aab", "undecided", "a"],
    ["aabaa", "undecided", "a"],
    ["aabaaa", "certain", "a"],
    ["aabb", "undecided", "a"],
    // Three observations in a row replace an accepted answer.
    ["aabbb", "certain", "b"],
    ["abababab", "undecided", undefined]
  ])("whose observations are %j is %s", (answers, degree, accepted) => {
    const evidence = evidenceOf(answers)
    assert.strictEqual(judge(evidence).degree, degree)
    assert.strictEqual(evidence.accepted, accepted)
  })

  it(`is never certain after another answer, nor after one observation (PAYMENTS_SEED=${seed})`, () => {
    const dice = diceOf(seed, "judgement")
    for (let run = 0; run < 2000; run++) {
      const answers = Array.from({ length: dice.below(40) }, () => dice.pick(["a", "a", "a", "b", "c"])).join("")
      const { accepted, observations } = evidenceOf(answers)
      const { answer, degree } = judge({ accepted, observations })
      if (degree !== "certain") continue
      assert.isTrue(answers.endsWith(`${answer}${answer}`), answers)
      assert.strictEqual(accepted, answer, answers)
      assert.isAtMost(observations.length, 20)
    }
  })
})
