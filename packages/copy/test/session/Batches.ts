/** Makes batches as a scan passes them to a sink. */
import { type Lists, Position } from "@payments/core"
import type { Batch, BatchRecord, Problem } from "../../src/port/Sink.ts"
import { unchanged } from "../../src/rule/OpenPersonal.ts"
import { toBatchRecord } from "../../src/scan/PageBatch.ts"

/** Makes a record from its exact text. */
export const recordOf = (list: Lists.AnyList, id: string | undefined, text: string, problem?: Problem): BatchRecord => {
  const value = JSON.parse(text)
  return toBatchRecord(
    list,
    problem === undefined ? { id: id ?? "", text, value } : { id, text, value, problem },
    unchanged
  )
}

/** Makes a batch with one page. The scan resumes at the cursor; null ends the scan. */
export const batchOf = (
  list: Lists.AnyList,
  records: ReadonlyArray<BatchRecord>,
  cursor: string | null
): Batch => ({
  pages: 1,
  records,
  undocumented: new Map(),
  checkpoint: cursor === null
    ? null
    : Position.toJson(Position.make({ list: list.name, cursor, limit: 10, filters: {} }))
})
