/**
 * Commits the batches of scans and passes: reads the stored rows, and has the session plan and write. Does both again
 * if the rows have changed since. A batch is divided if the database rejects the content of a record.
 */
import { isJson, type Lists } from "@payments/core"
import { Cause, Effect, Option } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import {
  contentHash,
  differingRows,
  hashed,
  type HashedRecord,
  lookupsOf,
  type PlanInput,
  type StoredRow
} from "../plan/Plan.ts"
import type { RowSet } from "../plan/RowSet.ts"
import type * as ScanTotals from "../plan/ScanTotals.ts"
import {
  type Batch,
  Damaged,
  type OwnerClaim,
  type Problem,
  RowsRemoved,
  type ScanRequest,
  SinkError
} from "../port/Sink.ts"
import type { Store } from "../store/Store.ts"
import { mergeClaims } from "./BoundMerchant.ts"
import type { OpenList } from "./OpenList.ts"

/** A batch, or a slice of one. A slice before the last one has the checkpoint before the batch, or undefined at the start. */
interface Slice extends Omit<Batch, "checkpoint"> {
  readonly checkpoint: Batch["checkpoint"] | undefined
}

/** A slice with the rows of its records, the texts of those that differ, and the first unused row number. */
export interface FoundSlice extends Slice {
  readonly records: ReadonlyArray<HashedRecord>
  readonly nextRow: number
  readonly stored: ReadonlyMap<string, StoredRow>
  readonly texts: ReadonlyMap<number, string>
}

export interface SessionContext {
  readonly store: Store
  /** The lists that the program knows. */
  readonly lists: ReadonlyArray<Lists.AnyList>
  readonly list: Lists.AnyList
  readonly request: ScanRequest
  readonly shared: OpenList
}

/** The part of a session's state that every batch changes. */
export interface CommitState {
  readonly totals: ScanTotals.ScanTotals
  /** The claim that the next commit binds. */
  readonly claim: OwnerClaim | undefined
  /** The checkpoint after the last slice. A pass has none. */
  readonly checkpoint?: string | undefined
}

export interface OpenSession<State extends CommitState> extends SessionContext {
  readonly planInput: Pick<
    PlanInput,
    "layout" | "ignored" | "emitChanges" | "seen" | "countsAll" | "knownRows" | "since"
  >
  /** Its state between two transactions, without the rows in `planInput.seen`. */
  state: State
  /** Returns false, and writes nothing, if the rows of the slice have changed since they were read. */
  readonly write: (slice: FoundSlice) => Effect.Effect<boolean, SinkError>
  /** Notes that the session can commit nothing more. */
  readonly abandon: () => void
}

export const planInputOf = (
  { list, request }: SessionContext,
  emitChanges: PlanInput["emitChanges"],
  seen: RowSet
) => ({
  layout: layoutOf(list),
  ignored: new Set(request.ignoredFields),
  emitChanges,
  seen
})

/**
 * Commits the batch. If the database rejects the content of a record, the batch is halved until that record is found. It is
 * quarantined, and the other records are written. The last slice of the batch has its checkpoint, page count and undocumented
 * fields.
 */
export const commitBatch = <State extends CommitState>(
  session: OpenSession<State>,
  batch: Batch
): Effect.Effect<void, SinkError> => {
  session.state = { ...session.state, claim: mergeClaims(session.state.claim, batch.owner) }
  const commit = (slice: Slice): Effect.Effect<void, SinkError> =>
    Effect.catchIf(commitSlice(session, slice), isRejectedContent, (error) => {
      const { records } = slice
      const [only] = records
      if (only === undefined || (records.length === 1 && only.problem?.isUnstorable === true)) return Effect.fail(error)
      if (records.length === 1) return commit({ ...slice, records: [{ ...only, problem: rejected }] })
      const half = records.length >> 1
      const { checkpoint } = session.state
      const found = Math.max(0, (slice.rechecks?.found ?? 0) - (records.length - half))
      const rechecks = slice.rechecks === undefined ? undefined : { ...slice.rechecks, found }
      return Effect.andThen(
        commit({ pages: 0, records: records.slice(0, half), undocumented: new Map(), checkpoint, rechecks }),
        commit({ ...slice, records: records.slice(half) })
      )
    })
  return commit(batch)
}

/** How often a batch is read or committed again if other programs keep changing its rows. */
const maxAttempts = 3

const commitSlice = Effect.fnUntraced(function*<State extends CommitState>(
  session: OpenSession<State>,
  slice: Slice
): Effect.fn.Return<void, SinkError> {
  const { planInput: { seen }, state } = session
  const undo = () => {
    seen.undo()
    session.state = state
  }
  const records = slice.records.map(hashed)
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    seen.mark()
    const found = yield* storedRowsOf(session, records)
    const isWritten = yield* Effect.onError(
      session.write({ ...slice, records, ...found }),
      (cause) =>
        Effect.sync(() => {
          undo()
          // After any other error, it is unknown whether the slice is stored.
          if (!Option.exists(Cause.findErrorOption(cause), isRejectedContent)) session.abandon()
        })
    )
    if (isWritten) return
    undo()
  }
  session.abandon()
  return yield* rowsRemoved(session)
})

export const rowsRemoved = ({ list, store }: Pick<SessionContext, "list" | "store">) =>
  new SinkError({ location: store.location, reason: new RowsRemoved({ label: list.label }) })

/**
 * Whether the database rejected the content of a record: data exceptions and limits of PostgreSQL (classes 22 and 54 of
 * https://www.postgresql.org/docs/current/errcodes-appendix.html), SQLite's SQLITE_TOOBIG (https://sqlite.org/rescode.html).
 */
const isRejectedContent = ({ reason }: SinkError): boolean =>
  reason._tag === "Failed" && (/^(22|54)[0-9A-Z]{3}$/.test(reason.code) || reason.code === "SQLite 18")

const rejected: Problem = { path: "", expected: "expected a record that the database can store", isUnstorable: true }

/**
 * Reads again if missing rows were removed between the two reads. Fails if a text was altered and is not JSON, because
 * it has no members to compare.
 */
const storedRowsOf = Effect.fnUntraced(function*(
  { list, store }: Pick<SessionContext, "list" | "store">,
  records: ReadonlyArray<HashedRecord>,
  attempt = 1
): Effect.fn.Return<Pick<FoundSlice, "nextRow" | "stored" | "texts">, SinkError> {
  const { nextRow, stored } = yield* store.find(list, lookupsOf(records))
  const rows = differingRows(records, stored)
  const texts = rows.length === 0 ? new Map<number, string>() : yield* store.textsOf(list, rows)
  if (texts.size < rows.length && attempt < maxAttempts) {
    return yield* storedRowsOf({ list, store }, records, attempt + 1)
  }
  for (const { hash, row } of stored.values()) {
    const text = texts.get(row)
    if (text === undefined || contentHash(text) === hash || isJson(text)) continue
    const problem = `the text of a row of ${list.label} is not JSON`
    return yield* new SinkError({ location: store.location, reason: new Damaged({ problem }) })
  }
  return { nextRow, stored, texts }
})
