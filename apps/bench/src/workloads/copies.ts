/** Reads two equal copies of a list: as `payments diff` compares them, and as a loop that only reads every row. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { current, Destination, recordDifferences, totalDifferences } from "@payments/copy"
import { Lists } from "@payments/core"
import { Effect, Stream } from "effect"
import { DatabaseSync } from "node:sqlite"
import { emptyResult, type WorkloadResult } from "../harness/WorkloadResult.ts"

/** The paths of two SQLite files. */
export type Copies = readonly [string, string]

/** Fails if the copies differ. */
export const compareCopies = (copies: Copies): Promise<WorkloadResult> =>
  Effect.runPromise(
    Effect.gen(function*() {
      const a = yield* sideOf(copies[0])
      const b = yield* sideOf(copies[1])
      const counted = { a: 0, b: 0, onlyA: 0, onlyB: 0, differing: 0 }
      const { differences } = yield* totalDifferences(a, b, Lists.payoutRequests)
      const records = yield* Stream.runCount(recordDifferences(a, b, Lists.payoutRequests, counted))
      if (differences.length > 0 || records > 0) return yield* Effect.die("the copies differ")
      return { ...emptyResult(), records: counted.a + counted.b }
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

const sideOf = (file: string) => Effect.map(Destination.snapshot({ _tag: "Sqlite", file }), current)

/** Reads every column of every row, one copy after the other. */
export const readCopies = async (copies: Copies): Promise<WorkloadResult> => {
  const total = emptyResult()
  for (const file of copies) {
    const db = new DatabaseSync(file, { readOnly: true })
    const statement = db.prepare("SELECT * FROM payout_requests")
    statement.setReturnArrays(true)
    // oxlint-disable-next-line no-restricted-properties -- the measure is the driver alone, and a loop steps no further
    for (const _ of statement.iterate()) total.records++
    db.close()
  }
  return total
}
