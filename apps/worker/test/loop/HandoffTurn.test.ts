import { assert, describe, it } from "@effect/vitest"
import type { Handoff } from "@payments/copy/handoff"
import { Duration } from "effect"
import { compareTurns, mayTakeOver, type Progress, progressKey } from "../../src/loop/HandoffTurn.ts"

const handoff: Handoff = {
  consumer: "ledger",
  createdAt: "2026-01-01T00:00:00.000Z",
  epoch: 3,
  state: "running",
  reason: undefined,
  batch: undefined,
  attempts: 0,
  firstAttemptAt: undefined,
  nextAttemptAt: undefined,
  mostChanges: undefined,
  suspectThrough: undefined
}

const now = Date.parse("2026-11-22T14:00:00Z")
const due = (seconds: number) => new Date(now + 1000 * seconds).toISOString()
const pending: Progress = { handoff, position: 4, last: 9 }

describe("a worker that has lost a hand-off", () => {
  it.each<[string, Progress, number, boolean]>([
    ["waits while the other may be sending", pending, 29, false],
    ["takes it over if nothing has happened for longer than a request", pending, 30, true],
    ["waits while there is nothing to send", { ...pending, position: 9 }, 1e6, false],
    [
      "waits while it is stopped",
      { ...pending, handoff: { ...handoff, state: "stopped", reason: "gone" } },
      1e6,
      false
    ],
    ["waits until the next attempt is due", { ...pending, handoff: { ...handoff, nextAttemptAt: due(1) } }, 1e6, false],
    [
      "takes it over if an attempt is overdue",
      { ...pending, handoff: { ...handoff, nextAttemptAt: due(-30) } },
      30,
      true
    ],
    ["begins again if the consumer was removed", { ...pending, handoff: undefined }, 0, true]
  ])("%s", (_name, progress, seconds, expected) => {
    const given = { now, sinceMs: 1000 * seconds, timeout: Duration.seconds(20) }
    assert.strictEqual(mayTakeOver(progress, given), expected)
  })

  it("compares epochs of the same consumer only", () => {
    const turn = (createdAt: string, epoch: number) => ({ createdAt: `2026-01-${createdAt}T00:00:00.000Z`, epoch })
    const own = turn("02", 3)
    const others = [turn("02", 3), turn("02", 4), turn("02", 2), turn("03", 1), turn("01", 9)]
    assert.deepStrictEqual(others.map((other) => Math.sign(compareTurns(other, own))), [0, 1, -1, 1, -1])
  })

  it("sees each change that the other stores", () => {
    const others = [{ ...handoff, epoch: 4 }, { ...handoff, attempts: 1 }, { ...handoff, nextAttemptAt: due(1) }]
    const all = [pending, { ...pending, position: 5 }, ...others.map((other) => ({ ...pending, handoff: other }))]
    assert.strictEqual(new Set(all.map(progressKey)).size, all.length)
  })
})
