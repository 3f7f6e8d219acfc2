/** Converts rows of the databases' drivers to the engine's types. Both databases use the same names of columns. */
import { DateTime, Effect } from "effect"
import type { RecordedColumn } from "../plan/Columns.ts"
import type { Piece } from "../plan/RowSet.ts"
import type { ChangeRange, Generation, GenerationReason, StoredPosition } from "../port/Generations.ts"
import type { ChangeCount, ConsumerState } from "../port/ListFreshness.ts"
import { Damaged, SinkError } from "../port/Sink.ts"
import type { Erasure, PersonalRow } from "./RedactionStore.ts"
import type {
  CertifiedScan,
  ChangeRow,
  FullRow,
  OldChange,
  OldRow,
  PrunedRows,
  QuarantinedRow,
  ScanRow
} from "./Store.ts"

/** The current time, as the databases store it. */
export const timestamp = Effect.map(DateTime.now, DateTime.formatIso)

/** A row of a driver. Integers are `number` or `bigint`, and times are text. */
export type Row = { readonly [column: string]: unknown }

/** Without a row, returns an empty text. */
export const readText = (row: Row | undefined, name: string): string => String(row?.[name] ?? "")
export const readOptional = (row: Row | undefined, name: string): string | undefined =>
  row?.[name] == null ? undefined : String(row[name])
/** Without a row, returns 0. */
export const readNumber = (row: Row | undefined, name: string): number => Number(row?.[name] ?? 0)
export const readOptionalNumber = (row: Row | undefined, name: string): number | undefined =>
  row?.[name] == null ? undefined : Number(row[name])
/** SQLite has 1 for true. */
export const readBoolean = (row: Row | undefined, name: string): boolean => row?.[name] === true || row?.[name] === 1
/** Without a row, returns an empty array. */
export const readBytes = (row: Row | undefined, name: string): Uint8Array => {
  const value = row?.[name]
  return value instanceof Uint8Array ? value : new Uint8Array()
}

export const toScan = (row: Row): ScanRow => ({
  scan: readNumber(row, "scan"),
  part: readText(row, "part"),
  request: readText(row, "request"),
  state: readText(row, "state") as ScanRow["state"], // a CHECK of the table ensures this
  checkpoint: readOptional(row, "checkpoint"),
  firstRow: readNumber(row, "first_row"),
  totals: readText(row, "totals"),
  certificate: readOptional(row, "certificate"),
  startedAt: readText(row, "started_at"),
  endedAt: readOptional(row, "ended_at")
})

export const toChange = (row: Row): ChangeRow => ({
  seq: readNumber(row, "seq"),
  generation: readOptional(row, "generation"),
  list: readText(row, "list"),
  scan: readNumber(row, "scan"),
  at: readText(row, "at"),
  kind: readText(row, "kind") as ChangeRow["kind"], // a CHECK of the table ensures this
  id: readText(row, "id"),
  fields: fieldsOf(row),
  before: readOptional(row, "before"),
  after: readOptional(row, "after"),
  rechecked: readOptional(row, "rechecked")
})

const fieldsOf = (row: Row): ReadonlyArray<string> => {
  try {
    const fields: unknown = JSON.parse(readText(row, "fields"))
    if (Array.isArray(fields)) return fields.map(String)
  } catch {
    // The error after this block reports it.
  }
  throw new Damaged({ problem: `the fields of change ${readNumber(row, "seq")} cannot be read` })
}

/** Fails with `Damaged` if a value is invalid. */
export const decoded = <A>(location: string, decode: () => A): Effect.Effect<A, SinkError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(decode())
    } catch (error) {
      return error instanceof Damaged ? Effect.fail(new SinkError({ location, reason: error })) : Effect.die(error)
    }
  })

export const toQuarantined = (row: Row): QuarantinedRow => ({
  place: readText(row, "place"),
  list: readText(row, "list"),
  scan: readNumber(row, "scan"),
  id: readOptional(row, "id"),
  path: readText(row, "path"),
  expected: readText(row, "expected"),
  raw: readText(row, "raw")
})

/** `cells` are the typed columns: text, numbers, and 1 or 0 for booleans. */
export const toFullRow = (row: Row, cells: Row): FullRow => ({
  row: readNumber(row, "row"),
  id: readText(row, "id"),
  raw: readText(row, "raw"),
  hash: readText(row, "hash"),
  cells,
  firstSeenAt: readText(row, "first_seen_at"),
  changedAt: readText(row, "changed_at"),
  missingSince: readOptional(row, "missing_since")
})

/** Converts a row of `consumers`, with the number of the last change as `last_change`, and the current generation. */
export const toConsumerState = (row: Row): ConsumerState => {
  const generation = readOptional(row, "generation")
  const isCurrent = generation === readOptional(row, "current_generation")
  return {
    name: readText(row, "name"),
    generation,
    position: readNumber(row, "position"),
    lag: isCurrent ? Math.max(0, readNumber(row, "last_change") - readNumber(row, "position")) : undefined,
    movedAt: readText(row, "moved_at")
  }
}

export const toPosition = (row: Row | undefined): StoredPosition | undefined =>
  row === undefined ? undefined : { generation: readOptional(row, "generation"), position: readNumber(row, "position") }

export const toChangeCount = (row: Row): ChangeCount => ({
  day: readText(row, "day"),
  kind: readText(row, "kind") as ChangeCount["kind"], // a commit writes only kinds of changes
  changes: readNumber(row, "changes")
})

/** Converts a row with the current generation, the highest number of a removed change and that of any change. */
export const toChangeRange = (row: Row | undefined): ChangeRange => ({
  generation: readOptional(row, "generation"),
  pruned: readNumber(row, "pruned"),
  last: readNumber(row, "last")
})

/** Converts a row of `changes` without its texts. */
export const toOldChange = (row: Row): OldChange => ({
  seq: readNumber(row, "seq"),
  list: readText(row, "list"),
  scan: readNumber(row, "scan"),
  at: readText(row, "at")
})

/** Converts a row of a list's table, with the number of its last `missing` change. */
export const toOldRow = (row: Row): OldRow => ({
  row: readNumber(row, "row"),
  missingChange: readOptionalNumber(row, "missing_change")
})

export const toPrunedRows = (row: Row | undefined): PrunedRows => ({
  removed: readNumber(row, "removed"),
  lastMissingChange: readNumber(row, "seq"),
  lastChange: readNumber(row, "last_change")
})

/** Converts a row of `seen`. */
export const toPiece = (row: Row): Piece => ({ index: readNumber(row, "piece"), bits: readBytes(row, "bits") })

/** Converts a row of `scans` to what a certificate needs. */
export const toCertifiedScan = (row: Row): CertifiedScan => ({
  list: readText(row, "list"),
  scan: readNumber(row, "scan"),
  lastChange: readOptionalNumber(row, "last_change")
})

export const toRecordedColumn = (row: Row): RecordedColumn => ({
  list: readText(row, "list"),
  name: readText(row, "name"),
  kind: readText(row, "kind"),
  unfilledFrom: readOptionalNumber(row, "unfilled_from")
})

export const toPersonalRow = (row: Row | undefined): PersonalRow => ({
  rule: readOptional(row, "rule"),
  rewriting: readOptional(row, "rewriting"),
  edition: readNumber(row, "edition"),
  keyCheck: readOptional(row, "key_check")
})

export const toErasure = (row: Row): Erasure => ({
  erasure: readNumber(row, "erasure"),
  hash: readText(row, "hash"),
  kind: readText(row, "kind"),
  by: readText(row, "by"),
  startedAt: readText(row, "started_at"),
  completedAt: readOptional(row, "completed_at"),
  records: readNumber(row, "records"),
  changes: readNumber(row, "changes"),
  quarantined: readNumber(row, "quarantined")
})

export const toGeneration = (row: Row): Generation => ({
  generation: readText(row, "generation"),
  beganAfter: readNumber(row, "began_after"),
  beganAt: readText(row, "began_at"),
  reason: readText(row, "reason") as GenerationReason // only this program writes the table
})
