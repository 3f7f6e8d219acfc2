/**
 * The port through which two destinations, or two points of one, are compared: a view of a database that later commits do not
 * change. Ids are sorted by the bytes of their UTF-8 text in every database.
 */
import type { Lists } from "@payments/core"
import type { Effect } from "effect"
import type { Column } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Reader } from "./Store.ts"

/** How the texts of rows are compared: as they are, or by their hashes, so that a server need not send them. */
export type ComparedBy = "text" | "hash"

/** `content` is the row's text, or the hash computed from it. */
export interface RowContent {
  readonly id: string
  readonly content: string
  readonly missing: boolean
}

/** `row` is undefined if the row did not exist at that point. */
export interface EarlierRow {
  readonly id: string
  readonly row: {
    /** The content at that point. Undefined if the text is still the same. */
    readonly content: string | undefined
    readonly missing: boolean
  } | undefined
}

export interface RowText {
  readonly text: string
  readonly missing: boolean
}

/** The columns by which rows are counted and whose values are summed. A list may lack a day or a status. */
export interface TotalColumns {
  readonly day: Column | undefined
  readonly status: Column | undefined
  readonly amounts: ReadonlyArray<Column>
}

/** The rows of one day and status that are not marked missing. */
export interface GroupTotal {
  /** The first {@link dayLength} characters of the day. Null if the rows have none. */
  readonly day: string | null
  /** The first `longestStatus` characters of the status. Null if the rows have none. */
  readonly status: string | null
  readonly records: bigint
  /** The sum of each amount, and the number of rows without it, in the order of the columns. */
  readonly amounts: ReadonlyArray<{ readonly sum: bigint; readonly nulls: bigint }>
}

/** The length of `YYYY-MM-DD`, the start of a date or a timestamp. */
export const dayLength = 10

/** The point after every change: a snapshot as it is. */
export const now = Number.MAX_SAFE_INTEGER

/** A point of a destination: after a change. With a time, that is the last change at that time or before it. */
export interface Point {
  readonly seq: number
  /** ISO 8601 in UTC. */
  readonly time?: string | undefined
}

export interface Reach {
  /** The first point that can be reconstructed, if this one cannot. */
  readonly first?: Point | undefined
  /** The end of the last complete scan of the whole list before the point, if it is known. */
  readonly readAt?: string | undefined
}

export interface Snapshot extends Reader {
  /** Whether reading texts is as fast as reading hashes. */
  readonly hasFastTexts: boolean
  /** Returns the next rows of a list after an id, sorted by id. Returns none only at the end. */
  readonly contents: (
    list: Lists.AnyList,
    by: ComparedBy,
    after: string | undefined
  ) => Effect.Effect<ReadonlyArray<RowContent>, SinkError>
  /**
   * Returns the next rows after an id that have changed after the change `at`, as they were then, sorted by id. Returns none
   * only at the end.
   */
  readonly earlier: (
    list: Lists.AnyList,
    at: number,
    by: ComparedBy,
    after: string | undefined
  ) => Effect.Effect<ReadonlyArray<EarlierRow>, SinkError>
  /**
   * Returns rows by id, as they were after the change `at`, in the order of the ids; undefined for a row that did not exist. If
   * the texts exceed `maxBytes` of `Store.ts`, returns only those of the first ids, but at least one.
   */
  readonly rowsAt: (
    list: Lists.AnyList,
    ids: ReadonlyArray<string>,
    at: number
  ) => Effect.Effect<ReadonlyArray<RowText | undefined>, SinkError>
  /** Returns the counts and sums of the rows. A day and status may occur several times. */
  readonly totals: (list: Lists.AnyList, columns: TotalColumns) => Effect.Effect<ReadonlyArray<GroupTotal>, SinkError>
  /**
   * Returns whether the rows at a point can be reconstructed: whether every row that was written later has a change for
   * it, and the list was read before. The first load of a list writes rows without changes.
   */
  readonly reach: (list: Lists.AnyList, point: Point) => Effect.Effect<Reach, SinkError>
  /**
   * Returns the number of the last change at a time (ISO 8601 in UTC) or before it, or 0. If that change was removed,
   * returns from when on the destination has changes.
   */
  readonly changeAt: (
    time: string
  ) => Effect.Effect<{ readonly seq: number } | { readonly removedBefore: string }, SinkError>
  /** Returns the time of a change, if the destination still has the change. */
  readonly timeOf: (seq: number) => Effect.Effect<string | undefined, SinkError>
}
