/** Checks that a database returns a bounded number of rows and characters per call. */
import { assert } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Effect } from "effect"
import type { Reader } from "../../src/store/Store.ts"

const mebibyte = 1024 * 1024

/** 100 small payout requests, then 10 of 1 MiB and one of 5 MiB. */
export const layerOfLargeRecords = layerTest({
  payoutRequests: [
    ...Array.from({ length: 100 }, () => 1),
    ...Array.from({ length: 10 }, () => mebibyte),
    5 * mebibyte,
    1
  ].map((length, index) => ({ id: `por_${index}`, x: "x".repeat(length) }))
})

/** Asserts that all rows of {@link layerOfLargeRecords} are returned in order, and little more than 4 MiB per call. */
export const assertRowsAreBounded = Effect.fnUntraced(function*({ rows }: Pick<Reader, "rows">) {
  const lengths: Array<ReadonlyArray<number>> = []
  for (let after = -1;;) {
    const chunk = yield* rows(Lists.payoutRequests, after, 1000)
    const last = chunk.at(-1)
    if (last === undefined) break
    assert.isTrue(chunk.every(({ row }) => row > after))
    lengths.push(chunk.map(({ raw }) => raw.length))
    after = last.row
  }
  assert.deepStrictEqual(lengths.map(({ length }) => length), [103, 3, 3, 1, 1, 1])
})
