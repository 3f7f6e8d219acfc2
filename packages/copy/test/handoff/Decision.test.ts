import { assert, describe, it } from "@effect/vitest"
import { diceOf, seed } from "@payments/testkit/Seed"
import { Duration, Schema } from "effect"
import {
  afterAnswer,
  type Answer,
  begun,
  handoffPolicy,
  judged,
  nextStep,
  repeated,
  resumed,
  settled,
  waitBefore
} from "../../src/handoff/Decision.ts"
import type { Handoff, HandoffBatch } from "../../src/store/HandoffStore.ts"

const batch: HandoffBatch = {
  generation: "g1",
  after: 10,
  first: 11,
  last: 20,
  list: "invoices",
  changes: 8,
  selection: "invoices",
  nonce: "n",
  storedAt: "2026-01-01T00:00:00.000Z",
  scannedAt: undefined
}

const idle: Handoff = {
  consumer: "ledger",
  createdAt: "2026-01-01T00:00:00.000Z",
  epoch: 1,
  state: "running",
  reason: undefined,
  batch: undefined,
  attempts: 0,
  firstAttemptAt: undefined,
  nextAttemptAt: undefined,
  mostChanges: undefined,
  suspectThrough: undefined
}

const time = Date.parse(batch.storedAt)
const inFlight = begun(idle, batch, batch.storedAt)
const status = (code: number, retryAfter?: Duration.Duration): Answer => ({ _tag: "Status", status: code, retryAfter })
const verdictOf = (answer: Answer, changes = 8, now = time, fraction = 0.5) =>
  afterAnswer(handoffPolicy, { ...inFlight, batch: { ...batch, changes } }, answer, { fraction, now })

describe("the next step", () => {
  const range = { generation: "g1", last: 30, pruned: 5, selection: "invoices" }
  const at = (position: number, generation = "g1") => ({ generation, position })
  it("depends on the state, the position and the generation", () => {
    const cases = [
      [idle, at(10), "Choose"],
      [inFlight, at(10), "Attempt"],
      [inFlight, at(20), "Settle"],
      [inFlight, at(25), "Settle"],
      // Somebody has moved the consumer.
      [inFlight, at(15), "Choose"],
      [inFlight, at(8), "Choose"],
      [begun(idle, { ...batch, generation: "g0" }, batch.storedAt), at(10), "Choose"],
      [begun(idle, { ...batch, selection: "invoices,payin-sources" }, batch.storedAt), at(10), "Choose"],
      [inFlight, at(10, "g0"), "Stop"],
      [inFlight, at(31), "Stop"],
      [inFlight, at(4), "Stop"],
      [{ ...inFlight, state: "stopped", reason: "gone" }, at(10), "Halt"],
      [{ ...inFlight, state: "waiting", reason: "refused" }, at(20), "Halt"]
    ] as const
    for (const [handoff, position, tag] of cases) {
      assert.strictEqual(nextStep(handoff, position, range)._tag, tag, JSON.stringify(position))
    }
  })
})

describe("an answer", () => {
  it("accepts with 2xx only, stops with 410, halves or waits with 4xx for a change, and is retried otherwise", () => {
    const ofReceiver = new Set([401, 403, 404, 405, 407, 408, 425, 429])
    for (let code = 100; code < 600; code++) {
      const expected = code >= 200 && code < 300
        ? "Accept"
        : code === 410
        ? "Halt gone"
        : code >= 400 && code < 500 && !ofReceiver.has(code)
        ? "refused"
        : "Retry"
      const [many, one] = [verdictOf(status(code)), verdictOf(status(code), 1)]
      const named = (verdict: typeof one) => verdict._tag === "Halt" ? `Halt ${verdict.reason}` : verdict._tag
      assert.strictEqual(named(many), expected === "refused" ? "Halve" : expected, String(code))
      assert.strictEqual(named(one), expected === "refused" ? "Halt refused" : expected, String(code))
    }
    for (const problem of ["timeout", "connection", "tls", "address"] as const) {
      assert.strictEqual(verdictOf({ _tag: "NoAnswer", problem })._tag, "Retry")
    }
  })

  it("waits for what Retry-After asks, at most for the longest wait", () => {
    const waitOf = (retryAfter: Duration.Duration) => {
      const verdict = verdictOf(status(503, retryAfter))
      return verdict._tag === "Retry" ? Duration.toMillis(verdict.wait) : undefined
    }
    assert.strictEqual(waitOf(Duration.zero), 5000)
    assert.strictEqual(waitOf(Duration.minutes(10)), 600_000)
    assert.strictEqual(waitOf(Duration.days(30)), Duration.toMillis(handoffPolicy.longestWait))
  })
})

/** Lets a receiver answer always the same. Returns the times of the attempts in milliseconds, and the last state. */
const attemptsWith = (answer: Answer, next: () => number) => {
  let [handoff, now] = [inFlight, time]
  const times: Array<number> = []
  for (;;) {
    times.push(now - time)
    const verdict = afterAnswer(handoffPolicy, { ...handoff, batch }, answer, { fraction: next(), now })
    if (verdict._tag === "Accept") return { times, handoff }
    handoff = judged(handoff, verdict, now)
    if (handoff.state !== "running") return { times, handoff }
    now += Duration.toMillis(waitBefore(handoffPolicy, handoff, now))
    handoff = repeated(handoff, new Date(now).toISOString())
  }
}

describe(`a receiver that never accepts (seed ${seed})`, () => {
  it("gets about ten attempts in three days, the last one at their end, and then the hand-off stops", () => {
    const counts = Array.from({ length: 1000 }, (_, history) => {
      const dice = diceOf(seed, "attempts", history)
      const { handoff, times } = attemptsWith(status(500), () => dice.below(1 << 30) / (1 << 30))
      assert.deepInclude(handoff, { state: "stopped", reason: "gaveUp", batch })
      assert.closeTo(times.at(-1) ?? 0, Duration.toMillis(handoffPolicy.giveUpAfter), 1)
      assert.deepStrictEqual(times, times.toSorted((a, b) => a - b))
      assert.strictEqual(handoff.attempts, times.length)
      return times.length
    })
    const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length
    assert.isAbove(mean, 8)
    assert.isBelow(mean, 12)
    assert.isBelow(Math.max(...counts), 40)
  })

  it("gets no endless attempts with the smallest waits or the longest Retry-After", () => {
    const { times } = attemptsWith(status(429, Duration.days(365)), () => 0)
    assert.deepStrictEqual(times.map((ms) => ms / 3_600_000), [0, 36, 72])
  })

  it("gets a resumed batch again at once, with three more days", () => {
    const { handoff } = attemptsWith(status(500), () => 0.5)
    const again = resumed(handoff)
    assert.deepInclude(again, { state: "running", reason: undefined, batch, attempts: 0 })
    assert.strictEqual(Duration.toMillis(waitBefore(handoffPolicy, again, time)), 0)
    assert.strictEqual(repeated(again, "2026-02-01T00:00:00.000Z").firstAttemptAt, "2026-02-01T00:00:00.000Z")
  })

  it("is not waited for longer than the longest wait after the wall clock was set back", () => {
    const handoff = { nextAttemptAt: "2027-01-01T00:00:00.000Z" }
    assert.deepStrictEqual(waitBefore(handoffPolicy, handoff, time), handoffPolicy.longestWait)
  })
})

describe(`a receiver that refuses some changes (seed ${seed})`, () => {
  it.prop(
    "gets every other change once, in order, and each refused one alone, in few requests",
    { nth: Schema.Int },
    ({ nth }) => {
      const dice = diceOf(seed, "refusals", nth)
      const count = 1 + dice.below(200)
      const size = 1 + dice.below(40)
      const refused = new Set(Array.from({ length: dice.below(4) }, () => 1 + dice.below(count)))
      const [accepted, alone]: [Array<number>, Array<number>] = [[], []]
      let [handoff, position, requests] = [idle, 0, 0]
      while (position < count) {
        const most = Math.min(size, handoff.mostChanges ?? size)
        const last = Math.min(count, position + most)
        const chosen = { ...batch, after: position, first: position + 1, last, changes: last - position }
        handoff = begun(handoff, chosen, batch.storedAt)
        requests++
        const numbers = Array.from({ length: chosen.changes }, (_, index) => chosen.first + index)
        const code = numbers.some((seq) => refused.has(seq)) ? 422 : 200
        const verdict = afterAnswer(handoffPolicy, { ...handoff, batch: chosen }, status(code), {
          fraction: 0,
          now: time
        })
        if (verdict._tag === "Accept") {
          accepted.push(...numbers)
          handoff = settled(handoff, last)
          position = last
          continue
        }
        handoff = judged(handoff, verdict, time)
        if (handoff.state !== "waiting") continue
        alone.push(...numbers)
        handoff = settled(resumed(handoff), last)
        position = last
      }
      const all = Array.from({ length: count }, (_, index) => index + 1)
      assert.deepStrictEqual(accepted, all.filter((seq) => !refused.has(seq)))
      assert.deepStrictEqual(alone, [...refused].toSorted((a, b) => a - b))
      assert.isUndefined(handoff.mostChanges)
      assert.isAtMost(requests, Math.ceil(count / size) + refused.size * (2 * Math.ceil(Math.log2(size)) + size + 2))
    }
  )
})
