/** Converts rows of the databases' drivers to the engine's types. Both databases use the same names of columns. */
import { Effect } from "effect"
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

/** A row of a driver. Integers are `number` or `bigint`, and times are text. */
export type Row = { readonly [column: string]: unknown }

/** Reads a text column. Without a row, returns an empty text. */
export const text = (row: Row | undefined, name: string): string => String(row?.[name] ?? "")
/** Reads a text column that may be null. */
export const optional = (row: Row | undefined, name: string): string | undefined =>
  row?.[name] == null ? undefined : String(row[name])
/** Reads an integer column. Without a row, returns 0. */
export const number = (row: Row | undefined, name: string): number => Number(row?.[name] ?? 0)
/** Reads a binary column. Without a row, returns an empty array. */
export const bytes = (row: Row | undefined, name: string): Uint8Array => {
  const value = row?.[name]
  return value instanceof Uint8Array ? value : new Uint8Array()
}

/** Converts a row of `scans`. */
export const toScan = (row: Row): ScanRow => ({
  scan: number(row, "scan"),
  part: text(row, "part"),
  request: text(row, "asked"),
  state: text(row, "state") as ScanRow["state"], // a CHECK of the table ensures this
  checkpoint: optional(row, "checkpoint"),
  firstRow: number(row, "first_row"),
  totals: text(row, "tally"),
  certificate: optional(row, "certificate"),
  startedAt: text(row, "started_at"),
  endedAt: optional(row, "ended_at")
})

/** Converts a row of `changes`. */
export const toChange = (row: Row): ChangeRow => ({
  seq: number(row, "seq"),
  generation: optional(row, "generation"),
  list: text(row, "list"),
  scan: number(row, "scan"),
  at: text(row, "at"),
  kind: text(row, "kind") as ChangeRow["kind"], // a CHECK of the table ensures this
  id: text(row, "id"),
  fields: fieldsOf(row),
  before: optional(row, "before"),
  after: optional(row, "after")
})

const fieldsOf = (row: Row): ReadonlyArray<string> => {
  try {
    const fields: unknown = JSON.parse(text(row, "fields"))
    if (Array.isArray(fields)) return fields.map(String)
  } catch {
    // The error after this block reports it.
  }
  throw new Damaged({ problem: `the fields of change ${number(row, "seq")} cannot be read` })
}

/** Decodes rows. Fails with `Damaged` if a value is invalid. */
export const decoded = <A>(location: string, decode: () => A): Effect.Effect<A, SinkError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(decode())
    } catch (error) {
      return error instanceof Damaged ? Effect.fail(new SinkError({ location, reason: error })) : Effect.die(error)
    }
  })

/** Converts a row of `quarantine`. */
export const toQuarantined = (row: Row): QuarantinedRow => ({
  place: text(row, "place"),
  list: text(row, "list"),
  scan: number(row, "scan"),
  id: optional(row, "id"),
  path: text(row, "path"),
  expected: text(row, "expected"),
  raw: text(row, "raw")
})

/** Converts a row of a list's table. `cells` are its typed columns: text, numbers, and 1 or 0 for booleans. */
export const toFullRow = (row: Row, cells: Row): FullRow => ({
  row: number(row, "row"),
  id: text(row, "id"),
  raw: text(row, "raw"),
  hash: text(row, "hash"),
  cells,
  firstSeenAt: text(row, "first_seen_at"),
  changedAt: text(row, "changed_at"),
  missingSince: optional(row, "missing_since")
})

/** Converts a row of `consumers`, with the number of the last change as `last_change`, and the current generation. */
export const toConsumerState = (row: Row): ConsumerState => {
  const generation = optional(row, "generation")
  const isCurrent = generation === optional(row, "current_generation")
  return {
    name: text(row, "name"),
    generation,
    position: number(row, "position"),
    lag: isCurrent ? Math.max(0, number(row, "last_change") - number(row, "position")) : undefined,
    movedAt: text(row, "moved_at")
  }
}

/** Converts a row of `consumers` to its position, if there is one. */
export const toPosition = (row: Row | undefined): StoredPosition | undefined =>
  row === undefined ? undefined : { generation: optional(row, "generation"), position: number(row, "position") }

/** Converts a row of `change_counts`. */
export const toChangeCount = (row: Row): ChangeCount => ({
  day: text(row, "day"),
  kind: text(row, "kind") as ChangeCount["kind"], // a commit writes only kinds of changes
  changes: number(row, "changes")
})

/** Converts a row with the current generation, the highest number of a removed change and that of any change. */
export const toChangeRange = (row: Row | undefined): ChangeRange => ({
  generation: optional(row, "generation"),
  pruned: number(row, "pruned"),
  last: number(row, "last")
})

/** Converts a row of `changes` without its texts. */
export const toOldChange = (row: Row): OldChange => ({
  seq: number(row, "seq"),
  list: text(row, "list"),
  scan: number(row, "scan"),
  at: text(row, "at")
})

/** Converts a row of a list's table, with the number of its last `missing` change. */
export const toOldRow = (row: Row): OldRow => ({
  row: number(row, "row"),
  missingChange: optional(row, "missing_change") === undefined ? undefined : number(row, "missing_change")
})

/** Converts a row of `rows_pruned`. */
export const toPrunedRows = (row: Row | undefined): PrunedRows => ({
  removed: number(row, "removed"),
  lastMissingChange: number(row, "seq"),
  lastChange: number(row, "last_change")
})

/** Converts a row of `seen`. */
export const toPiece = (row: Row): Piece => ({ index: number(row, "piece"), bits: bytes(row, "bits") })

/** Converts a row of `scans` to what a certificate needs. */
export const toCertifiedScan = (row: Row): CertifiedScan => ({
  list: text(row, "list"),
  scan: number(row, "scan"),
  lastChange: optional(row, "last_change") === undefined ? undefined : number(row, "last_change")
})

/** Converts a row of `list_columns`. */
export const toRecordedColumn = (row: Row): RecordedColumn => ({
  list: text(row, "list"),
  name: text(row, "name"),
  kind: text(row, "kind"),
  unfilledFrom: row["unfilled_from"] === null ? undefined : number(row, "unfilled_from")
})

/** Converts a row of `personal`. */
export const toPersonalRow = (row: Row | undefined): PersonalRow => ({
  rule: optional(row, "rule"),
  rewriting: optional(row, "rewriting"),
  edition: number(row, "edition"),
  keyCheck: optional(row, "key_check")
})

/** Converts a row of `erasures`. */
export const toErasure = (row: Row): Erasure => ({
  erasure: number(row, "erasure"),
  hash: text(row, "hash"),
  kind: text(row, "kind"),
  by: text(row, "by"),
  startedAt: text(row, "started_at"),
  completedAt: optional(row, "completed_at"),
  records: number(row, "records"),
  changes: number(row, "changes"),
  quarantined: number(row, "quarantined")
})

/** Converts a row of `generations`. */
export const toGeneration = (row: Row): Generation => ({
  generation: text(row, "generation"),
  beganAfter: number(row, "began_after"),
  beganAt: text(row, "began_at"),
  reason: text(row, "reason") as GenerationReason // only this program writes the table
})
