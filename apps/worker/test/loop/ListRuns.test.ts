import { assert, describe, it } from "@effect/vitest"
import {
  afterCheck,
  afterEvent,
  ended,
  type ListRuns,
  progressed,
  started,
  stepBegan,
  stepEnded
} from "../../src/loop/ListRuns.ts"

const full = started({}, "full", 100)

describe("the runs of a list", () => {
  it.each(
    [
      ["Begun", "keep", 200],
      ["Committed", "nextTurn", 200],
      ["Filling", "keep", 200],
      ["Restarted", "keep", 200],
      ["Waiting", "giveUp", 100],
      ["Ended", "keep", 100]
    ] as const
  )("after %s: %s its place, progress at %s", (_tag, action, progressAt) => {
    const [runs, place] = afterEvent(full, { _tag, kind: "full" }, 200)
    assert.deepStrictEqual([place, runs.full], [action, { progressAt, longSteps: 0, isReading: _tag === "Begun" }])
  })

  it("ignore what happens to a run that has ended", () => {
    const runs = ended(full, "full")
    assert.deepStrictEqual(runs, {})
    assert.deepStrictEqual(stepEnded(stepBegan(progressed(runs, "full", 200)), 300), {})
    assert.deepStrictEqual(afterEvent(runs, { _tag: "Committed", kind: "head" }, 200), [{}, "nextTurn"])
  })
})

describe("a full scan stalls", () => {
  const pass = started(full, "head", 100)
  const [reading] = afterEvent(pass, { _tag: "Begun", kind: "head" }, 150)
  const cases: ReadonlyArray<
    readonly [name: string, runs: ListRuns, now: number, isQueued: boolean, isStalled: boolean]
  > = [
    ["after its limit", full, 1100, false, true],
    ["not before", full, 1099, false, false],
    ["not while it waits for a place", full, 9000, true, false],
    ["not during a long step", stepBegan(full), 9000, false, false],
    ["not within its limit after a long step", stepEnded(stepBegan(full), 8500), 9000, false, false],
    ["although a pass waits to begin", pass, 1100, false, true],
    ["not counting the time during which a pass reads", reading, 1149, false, false],
    ["after its limit and that time", reading, 1150, false, true],
    ["not if none runs", {}, 9000, false, false]
  ]
  it.each(cases)("%s", (_, runs, now, isQueued, isStalled) => {
    assert.strictEqual(afterCheck(runs, { now, elapsed: 50, isQueued, stallAfter: 1000 })[1], isStalled)
  })
})
