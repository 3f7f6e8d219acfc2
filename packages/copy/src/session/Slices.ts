/** Reads the stored rows of batches, and commits batches with records whose content a database may reject. */
import { isJson, type Lists } from "@payments/core"
import { Effect } from "effect"
import { contentHash, differingRows, type HashedRecord, lookupsOf, type StoredRow } from "../plan/Plan.ts"
import { type Batch, Damaged, type Problem, SinkError } from "../port/Sink.ts"
import type { Store } from "../store/Store.ts"

/** A batch, or a slice of one. A slice before the last one has the checkpoint before the batch, or undefined at the start. */
export interface Slice extends Omit<Batch, "checkpoint"> {
  readonly checkpoint: Batch["checkpoint"] | undefined
}

/**
 * Commits the batch. If the database rejects the content of a record, the batch is halved until that record is found. It is
 * quarantined, and the other records are written. The last slice of the batch has its checkpoint, page count and undocumented
 * fields.
 */
export const commitSlices = <A>(
  batch: Slice,
  commitOnce: (slice: Slice) => Effect.Effect<A, SinkError>,
  lastCheckpoint: () => Slice["checkpoint"]
): Effect.Effect<A, SinkError> => {
  const commit = (slice: Slice): Effect.Effect<A, SinkError> =>
    Effect.catchIf(commitOnce(slice), isRejectedContent, (error) => {
      const { records } = slice
      const [only] = records
      if (only === undefined || (records.length === 1 && only.problem?.isUnstorable === true)) return Effect.fail(error)
      if (records.length === 1) return commit({ ...slice, records: [{ ...only, problem: rejected }] })
      const half = records.length >> 1
      return Effect.andThen(
        commit({ pages: 0, records: records.slice(0, half), undocumented: new Map(), checkpoint: lastCheckpoint() }),
        commit({ ...slice, records: records.slice(half) })
      )
    })
  return commit(batch)
}

/**
 * Whether the database rejected the content of a record: data exceptions and limits of PostgreSQL (classes 22 and 54 of
 * https://www.postgresql.org/docs/current/errcodes-appendix.html), SQLite's SQLITE_TOOBIG (https://sqlite.org/rescode.html).
 */
export const isRejectedContent = ({ reason }: SinkError): boolean =>
  reason._tag === "Failed" && (/^(22|54)[0-9A-Z]{3}$/.test(reason.code) || reason.code === "SQLite 18")

const rejected: Problem = { path: "", expected: "expected a record that the database can store", isUnstorable: true }

/** The rows of a batch's records, the texts of those that differ from their records, and the first unused row number. */
export interface StoredRows {
  readonly nextRow: number
  readonly stored: ReadonlyMap<string, StoredRow>
  readonly texts: ReadonlyMap<number, string>
}

/** How often a batch is read or committed again if other programs keep changing its rows. */
export const maxAttempts = 3

/**
 * Reads the rows of records. If missing rows were removed between the two reads, reads again. Fails if a text was altered and is
 * not JSON, because it has no members to compare.
 */
export const storedRowsOf = Effect.fnUntraced(function*(
  store: Store,
  list: Lists.AnyList,
  records: ReadonlyArray<HashedRecord>,
  attempt = 1
): Effect.fn.Return<StoredRows, SinkError> {
  const { nextRow, stored } = yield* store.find(list, lookupsOf(records))
  const rows = differingRows(records, stored)
  const texts = rows.length === 0 ? new Map<number, string>() : yield* store.textsOf(list, rows)
  if (texts.size < rows.length && attempt < maxAttempts) return yield* storedRowsOf(store, list, records, attempt + 1)
  for (const { hash, row } of stored.values()) {
    const text = texts.get(row)
    if (text === undefined || contentHash(text) === hash || isJson(text)) continue
    const problem = `the text of a row of ${list.label} is not JSON`
    return yield* new SinkError({ location: store.location, reason: new Damaged({ problem }) })
  }
  return { nextRow, stored, texts }
})
