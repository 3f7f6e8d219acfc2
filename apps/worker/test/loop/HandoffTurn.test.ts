import { assert, describe, it } from "@effect/vitest"
import type { Handoff } from "@payments/copy/handoff"
import { Duration } from "effect"
import { mayTakeOver, type Progress, progressKey } from "../../src/loop/HandoffTurn.ts"

const handoff: Handoff = {
  consumer: "ledger",
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

  it("sees each change that the other stores", () => {
    const others = [{ ...handoff, epoch: 4 }, { ...handoff, attempts: 1 }, { ...handoff, nextAttemptAt: due(1) }]
    const all = [pending, { ...pending, position: 5 }, ...others.map((other) => ({ ...pending, handoff: other }))]
    assert.strictEqual(new Set(all.map(progressKey)).size, all.length)
  })
})
