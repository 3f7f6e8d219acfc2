/** What the state of a scan is after a batch: pending or to be committed, with which totals, checkpoint and findings. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { hashed, type Plan } from "../../src/plan/Plan.ts"
import * as ScanTotals from "../../src/plan/ScanTotals.ts"
import { afterCommit, afterSlice, begun, maxPendingRecords, restarted } from "../../src/session/ScanState.ts"
import type { FoundSlice } from "../../src/session/Slices.ts"
import { recordOf } from "./Batches.ts"

const start = begun({ resumeAt: "start", totals: ScanTotals.none }, new Set())
const pending = { ...start, checkpoint: "before", pendingRecords: 3 }

const record = (id: string) => hashed(recordOf(Lists.payoutRequests, id, `{"id":"${id}"}`))
const slice = (ids: ReadonlyArray<string>, checkpoint: FoundSlice["checkpoint"]): FoundSlice => ({
  pages: 1,
  records: ids.map(record),
  undocumented: new Map([["extra", ids.length]]),
  checkpoint,
  nextRow: 100,
  stored: new Map(),
  texts: new Map()
})
const unchanged: Plan = { writes: [], reappeared: [], changes: [], quarantined: [], totals: ScanTotals.none }
const insert = (id: string): Plan => ({
  ...unchanged,
  writes: [{ row: 100, id, cells: [], raw: "", hash: "", isNew: true }]
})
const many = Array.from({ length: maxPendingRecords }, () => "a")

describe("the state of a scan after a batch", () => {
  it.each([
    ["that changes no row is pending", start, slice(["a"], "after"), unchanged, "after", 1],
    ["after a pending one counts both", pending, slice(["a"], "after"), unchanged, "after", 4],
    ["without records is pending, with its checkpoint", pending, slice([], "after"), unchanged, "after", 3],
    ["that inserts a row has to be committed", pending, slice(["a"], "after"), insert("a"), "after", undefined],
    [
      "with a row that reappeared has to be committed",
      start,
      slice(["a"], "after"),
      { ...unchanged, reappeared: [1] },
      "after",
      undefined
    ],
    [
      "with a quarantined record has to be committed",
      start,
      slice(["a"], "after"),
      { ...unchanged, quarantined: [{ id: "a", path: "", expected: "", raw: "" }] },
      "after",
      undefined
    ],
    ["at the end of the list has to be committed", pending, slice(["a"], null), unchanged, undefined, undefined],
    [
      "before the first checkpoint has to be committed",
      start,
      slice(["a"], undefined),
      unchanged,
      undefined,
      undefined
    ],
    ["has to be committed if too many records are pending", start, slice(many, "after"), unchanged, "after", undefined]
  ])("%s", (_, before, batch, planned, checkpoint, pendingRecords) => {
    const after = afterSlice(before, batch, planned)
    assert.deepStrictEqual([after.checkpoint, after.pendingRecords], [checkpoint, pendingRecords])
    assert.strictEqual(after.totals.counts.pages, 1)
    assert.deepStrictEqual(after.totals.undocumented, { extra: batch.records.length })
  })

  it.each([
    [[], 0, false],
    [["new"], 0, false],
    [["end"], 0, true],
    [["new", "end"], 0, true],
    [["end", "new"], 1, true],
    [["end", "old", "new", "new"], 1, true]
  ])("counts new records behind the end of the last head pass: %j", (ids, behindHead, hasPassedHeadEnd) => {
    const stored = new Map([["end", { row: 7, hash: "", missing: false }], ["old", {
      row: 3,
      hash: "",
      missing: false
    }]])
    const before = { ...start, headEnd: new Set([7]) }
    const after = afterSlice(before, { ...slice(ids, "after"), stored }, insert("new"))
    assert.deepStrictEqual([after.findings.behindHead, after.hasPassedHeadEnd], [behindHead, hasPassedHeadEnd])
    assert.strictEqual(afterSlice(start, { ...slice(ids, "after"), stored }, insert("new")).findings.behindHead, 0)
  })
})

describe("the state of a scan", () => {
  const claim = { key: undefined, merchants: ["a"], isFirst: false }

  it("has nothing pending and no claim after a commit", () => {
    const after = afterCommit({ ...pending, claim })
    assert.deepStrictEqual(after, { ...pending, claim: undefined, pendingRecords: undefined })
  })

  it("keeps the counts of its rows, but not those of its records, if it begins again", () => {
    const counts = { ...ScanTotals.none.counts, records: 9, inserted: 1, updated: 2, returned: 3, unchanged: 4 }
    const after = restarted({ ...pending, hasPassedHeadEnd: true, totals: { ...ScanTotals.none, counts, digest: 5n } })
    assert.deepStrictEqual(after.totals, {
      ...ScanTotals.none,
      counts: { ...ScanTotals.none.counts, inserted: 1, updated: 2, returned: 3 }
    })
    assert.deepStrictEqual([after.checkpoint, after.pendingRecords, after.hasPassedHeadEnd], [
      undefined,
      undefined,
      false
    ])
  })
})
