/**
 * What a database must do for the engine: keep rows, checkpoints and locks. The engine ({@link makeSink} of `SqlSink.ts`)
 * decides what is written; a store writes it in one transaction, so that rows, changes and checkpoint never disagree.
 */
import type { Lists } from "@payments/core"
import type { Effect, Scope } from "effect"
import type { Owner, OwnerClaim, SinkError } from "../Sink.ts"
import type { Cell, Column, RecordedColumn } from "./Columns.ts"
import type { Plan, RowLookup, StoredRow } from "./Plan.ts"
import type { Piece, RowSet } from "./RowSet.ts"

/** A scan as it is kept. */
export interface ScanRow {
  readonly scan: number
  /** The part's name and value as JSON; empty for the whole list. */
  readonly part: string
  /** The request as JSON. */
  readonly request: string
  readonly state: "running" | "complete" | "incomplete" | "abandoned"
  /** A position as JSON, of a running scan that has committed a page. */
  readonly checkpoint: string | undefined
  /** Row numbers from here on did not exist when it began. */
  readonly firstRow: number
  /** As `ScanTotals.toJson` wrote it. */
  readonly totals: string
  /** As `Certificate.toJson` wrote it, of a complete scan. */
  readonly certificate: string | undefined
  readonly startedAt: string
  readonly endedAt: string | undefined
}

/** A scan that begins. */
export interface NewScan {
  readonly list: Lists.AnyList
  readonly part: string
  readonly request: string
  readonly firstRow: number
  readonly totals: string
  readonly now: string
}

/** Keys that a destination remembers: where tokens are short-lived, each scan has another one. */
export const mostKeys = 100

/** One transaction of a scan. */
export interface Commit {
  readonly list: Lists.AnyList
  readonly scan: number
  readonly source: string
  readonly now: string
  readonly plan: Omit<Plan, "totals">
  readonly totals: string
  readonly checkpoint: string | undefined
  /** Pieces of the set of seen rows that changed. */
  readonly seen: ReadonlyArray<Piece>
  /** The scan's end. */
  readonly end?: {
    readonly state: "complete" | "incomplete"
    readonly certificate: string | undefined
    /** Rows that are missing from now on. */
    readonly missing: ReadonlyArray<number>
    /** Sets of seen rows of these scans are no longer needed. */
    readonly forget: ReadonlyArray<number>
    /** What the certificate says is there. */
    readonly certified?: Certified | undefined
  }
  /** What the destination is bound to from now on, beside what it is bound to already. */
  readonly owner?: OwnerClaim | undefined
  /** The traversal begins again: what was seen and quarantined in this scan is forgotten first. */
  readonly restart?: boolean
}

/** What a destination must hold at the end of a scan. */
export interface Certified {
  readonly rows: RowSet
  /** Records in the quarantine of the scan, and those among them without an id. */
  readonly quarantined: number
  readonly withoutId: number
}

/** How a commit ended: everything is written, or the scan is `incomplete` because not all that it certifies is there. */
export type Committed = "whole" | "rowsRemoved"

/** One transaction that fills columns which were added to a list's table. */
export interface Fill {
  readonly list: Lists.AnyList
  readonly columns: ReadonlyArray<Column>
  /** The rows whose cells change, each with its cells in the order of the columns. */
  readonly rows: ReadonlyArray<{ readonly row: number; readonly cells: ReadonlyArray<Cell> }>
  /** Rows from this number on still lack the columns' values; undefined where none does. */
  readonly unfilledFrom: number | undefined
}

/** A row of a list's table. */
export interface FullRow {
  readonly row: number
  readonly id: string
  readonly raw: string
  readonly hash: string
  /** By column. */
  readonly cells: { readonly [column: string]: unknown }
  readonly firstSeenAt: string
  readonly changedAt: string
  readonly missingSince: string | undefined
}

/** What became of a record, as it is kept. */
export interface ChangeRow {
  /** Grows with every change of any list; no later one ever gets a lower number. */
  readonly seq: number
  /** The list's name, as on the command line. */
  readonly list: string
  readonly scan: number
  readonly at: string
  readonly kind: "insert" | "update" | "missing" | "returned"
  readonly id: string
  readonly fields: ReadonlyArray<string>
  readonly before: string | undefined
  readonly after: string | undefined
}

/** A record that is not as documented. */
export interface QuarantinedRow {
  /** Where the row stands among the others, in the database's own terms. */
  readonly place: string
  /** The list's name, as on the command line. */
  readonly list: string
  readonly scan: number
  readonly id: string | undefined
  /** Where in the record the problem is. */
  readonly path: string
  readonly expected: string
  readonly raw: string
}

/** Of the texts of rows that are read at once. */
export const mostBytes = 4 * 1024 * 1024

/** A database. */
export interface Store {
  /** Where the rows are, for people. Without a password. */
  readonly location: string
  /** Holds a list, or another thing of that name, for one writer until the scope closes: locks it and takes it over. */
  readonly lockAndTakeOver: (label: string, onLocked: "refuse" | "wait") => Effect.Effect<void, SinkError, Scope.Scope>
  /** Locks it without changing rows, scans or anything else of the destination but who has locked it. */
  readonly lock: (label: string, onLocked: "refuse" | "wait") => Effect.Effect<void, SinkError, Scope.Scope>
  /** From now on nobody who had locked it before commits anything. To be called before what is to be written is planned. */
  readonly takeOver: (label: string) => Effect.Effect<void, SinkError>
  /** Whose data this is; nobody's before the first commit. */
  readonly source: Effect.Effect<string | undefined, SinkError>
  /** The keys and merchant ids that it is bound to. */
  readonly owner: Effect.Effect<Pick<Owner, "keys" | "merchants">, SinkError>
  /** Binds the destination to another source, for the holder of the list. */
  readonly rebind: (list: Lists.AnyList, source: string) => Effect.Effect<void, SinkError>
  /** The scans of a list, or of one part of it, the newest first; those before a complete one of the same part are left out. */
  readonly scans: (list: Lists.AnyList, part?: string) => Effect.Effect<ReadonlyArray<ScanRow>, SinkError>
  /** All scans of a list from this number on. */
  readonly scansFrom: (list: Lists.AnyList, scan: number) => Effect.Effect<ReadonlyArray<ScanRow>, SinkError>
  /**
   * Whether any scan of the list is complete; and whether one of the other kind, of the whole list or of parts, has written
   * something since the scan of this number began.
   */
  readonly around: (
    list: Lists.AnyList,
    part: string,
    scan: number
  ) => Effect.Effect<{ readonly anyComplete: boolean; readonly overtaken: boolean }, SinkError>
  /** Keeps a new scan, and abandons a running one of the same part; gives its number. */
  readonly start: (scan: NewScan) => Effect.Effect<number, SinkError>
  /**
   * The rows of these ids, and the first free row number. No id is given twice. If all hashes match, one query finds all rows
   * unchanged.
   */
  readonly find: (
    list: Lists.AnyList,
    lookups: ReadonlyArray<RowLookup>
  ) => Effect.Effect<{ readonly stored: ReadonlyMap<string, StoredRow>; readonly nextRow: number }, SinkError>
  /** The texts of rows. */
  readonly textsOf: (
    list: Lists.AnyList,
    rows: ReadonlyArray<number>
  ) => Effect.Effect<ReadonlyMap<number, string>, SinkError>
  /** The pieces of the sets of rows that these scans saw. */
  readonly seen: (scans: ReadonlyArray<number>) => Effect.Effect<ReadonlyArray<Piece>, SinkError>
  /** How many records a scan has quarantined, and how many of them have no id. Kept until a later one of its part is complete. */
  readonly quarantined: (
    scan: number
  ) => Effect.Effect<{ readonly records: number; readonly withoutId: number }, SinkError>
  /** Those of the rows that are there: somebody may have removed some. */
  readonly present: (
    list: Lists.AnyList,
    rows: ReadonlyArray<number>
  ) => Effect.Effect<ReadonlyArray<number>, SinkError>
  /** The rows that are missing. */
  readonly missing: (list: Lists.AnyList) => Effect.Effect<ReadonlyArray<number>, SinkError>
  /**
   * Writes all of it in one transaction, durably, or nothing. Fails where the list is no longer held or bound, or the scan is
   * not kept any more. What an end certifies is compared with what is there, in the same transaction.
   */
  readonly commit: (commit: Commit) => Effect.Effect<Committed, SinkError>
  /** The columns of a list's table, as the destination has recorded them; none where it has no table. */
  readonly columns: (list: Lists.AnyList) => Effect.Effect<ReadonlyArray<RecordedColumn>, SinkError>
  /** Fills columns in one transaction. Fails where the list is no longer locked by this program. */
  readonly fillRows: (fill: Fill) => Effect.Effect<void, SinkError>
  /**
   * The next rows of a list behind a row number, in their order: at most `count`, and fewer where their texts are together
   * longer than {@link mostBytes}. None only at the end.
   */
  readonly rows: (list: Lists.AnyList, after: number, count: number) => Effect.Effect<ReadonlyArray<FullRow>, SinkError>
  /** The texts, at the end of a scan, of those records that a later scan has changed since. By id. */
  readonly textsAt: (
    list: Lists.AnyList,
    scan: number,
    ids: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyMap<string, string>, SinkError>
  /** The next quarantined records behind a place, in the order in which they were written. */
  readonly quarantine: (
    after: string | undefined,
    count: number,
    lists: ReadonlyArray<Lists.AnyList>
  ) => Effect.Effect<ReadonlyArray<QuarantinedRow>, SinkError>
  /** The next changes behind a sequence number, in their order; those before a moment (ISO 8601 in UTC) are left out. */
  readonly changes: (
    after: number,
    count: number,
    lists: ReadonlyArray<Lists.AnyList>,
    since?: string
  ) => Effect.Effect<ReadonlyArray<ChangeRow>, SinkError>
  /** What the database's own check of its integrity finds wrong, a line each. No line holds what a row does. */
  readonly damage: Effect.Effect<ReadonlyArray<string>, SinkError>
}

/** What whoever only reads a destination may ask of its database. */
export type Reader = Pick<
  Store,
  | "location"
  | "source"
  | "owner"
  | "scans"
  | "scansFrom"
  | "around"
  | "find"
  | "textsOf"
  | "seen"
  | "quarantined"
  | "present"
  | "missing"
  | "columns"
  | "rows"
  | "textsAt"
  | "quarantine"
  | "changes"
  | "damage"
>
