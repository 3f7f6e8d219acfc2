import { assert, describe, it } from "@effect/vitest"
import { addSample, progressLines, startProgress } from "../../src/progress/ProgressLines.ts"

/** A list that has read so many records at each second. */
const listOf = (label: string, ...records: ReadonlyArray<number>) => {
  const list = startProgress(label)
  for (const [second, number] of records.entries()) {
    list.records = number
    addSample(list, second * 1000)
  }
  return list
}

describe("the progress of an export", () => {
  it("shows the lists with records, rate, time left, retries and waits", () => {
    const known = { ...listOf("payout-requests", 0, 8000, 16_000), expected: 64_000, retries: 2 }
    const waiting = { ...listOf("invoices", 0, 500), waits: 2, waitedMs: 41_000, waitsUntil: 13_200 }
    const done = { ...listOf("payin-sources", 0, 1_234_567), expected: 10, state: "done" as const, retries: 1 }
    assert.deepStrictEqual(progressLines([known, done, waiting], 2000), [
      "payout-requests     16,000  25%  8,000/s  about 6s left  2 retries",
      "payin-sources    1,234,567                done  1 retry",
      "invoices               500         250/s  waits 12s  2 waits (41s)"
    ])
  })

  it("promises no time while the rate is unknown or zero, or if the list is longer than before", () => {
    const lists = [startProgress("a"), listOf("b", 5, 5), listOf("c", 0, 200)]
    assert.deepStrictEqual(progressLines(lists.map((list) => ({ ...list, expected: 100 })), 1000), [
      "a    0   0%",
      "b    5   5%    0/s",
      "c  200  99%  200/s"
    ])
  })

  it("measures the rate over the last seconds only", () => {
    const list = listOf("a", ...Array.from({ length: 60 }, (_, second) => second < 40 ? 1000 * second : 40_000))
    assert.deepStrictEqual(progressLines([list], 59_000), ["a  40,000  0/s"])
    assert.isBelow(list.samples.length, 25)
  })
})
