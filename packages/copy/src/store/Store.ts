/**
 * The port through which the engine uses a database. The engine ({@link makeSink} of `SqlSink.ts`) decides what to write. A
 * store writes it in one transaction, so that rows, changes and checkpoint are always consistent.
 */
import type { Lists } from "@payments/core"
import type { Effect, Scope } from "effect"
import type { Cell, Column, RecordedColumn } from "../plan/Columns.ts"
import type { Plan, Quarantined, RowLookup, StoredRow } from "../plan/Plan.ts"
import type { Piece, RowSet } from "../plan/RowSet.ts"
import type { RowSight } from "../plan/RowSight.ts"
import type { Counts } from "../port/Counts.ts"
import type { ChangeRange, GenerationReason, Lineage } from "../port/Generations.ts"
import type { ChangeCount, ConsumerState, ListFreshness, OpenStatus, StatusTotals } from "../port/ListFreshness.ts"
import type { BoundMerchant, OwnerClaim, PassKind, PersonalBinding, PersonalState, SinkError } from "../port/Sink.ts"
import type { ConsumerMove, ConsumerMoved } from "./ConsumerMove.ts"
import type { HandoffStore } from "./HandoffStore.ts"
import type { RedactionStore } from "./RedactionStore.ts"

/** A stored full scan, or a stored scan of a part. */
export interface ScanRow {
  readonly scan: number
  /** The part's field and value as JSON, or empty for the whole list. */
  readonly part: string
  /** The request as JSON. */
  readonly request: string
  readonly state: "running" | "complete" | "incomplete" | "abandoned"
  /** The position as JSON, if the scan is running and has committed a page. */
  readonly checkpoint: string | undefined
  /** The first row number that did not exist when the scan began. */
  readonly firstRow: number
  /** JSON of `ScanTotals.toJson`. */
  readonly totals: string
  /** JSON of `Certificate.toJson`, if the scan is complete. */
  readonly certificate: string | undefined
  readonly startedAt: string
  readonly endedAt: string | undefined
}

export interface NewScan extends Pick<ScanRow, "part" | "request" | "firstRow" | "totals"> {
  readonly list: Lists.AnyList
  readonly now: string
  /** Compared as in a {@link Commit}: the part may be the id of a customer who has been erased meanwhile. */
  readonly personal: PersonalBinding
}

/** The number of keys that a destination remembers. With short-lived tokens, each scan uses another key. */
export const maxKeys = 100

/** One transaction of a scan. */
export interface Commit {
  readonly list: Lists.AnyList
  readonly scan: number
  readonly source: string
  readonly personal: PersonalBinding
  readonly now: string
  readonly plan: Omit<Plan, "totals">
  readonly totals: string
  /** The counts of the totals. */
  readonly counts: Pick<Counts, "pages" | "records">
  readonly checkpoint: string | undefined
  /** The changed pieces of the set of seen rows. */
  readonly seen: ReadonlyArray<Piece>
  readonly end?: {
    readonly state: "complete" | "incomplete"
    readonly certificate: string | undefined
    /** The rows to mark, each with how it was looked for. */
    readonly missing: ReadonlyMap<number, string | undefined>
    /** The scans whose sets of seen rows are no longer needed. */
    readonly forget: ReadonlyArray<number>
    /** The previous complete full scan. What passes quarantined between it and this scan is no longer needed. */
    readonly previous?: number | undefined
    readonly certified?: Certified | undefined
  }
  readonly owner?: OwnerClaim | undefined
  /** Whether the scan restarts. The store then first deletes the scan's seen rows and quarantined records. */
  readonly restart?: boolean
}

/** One transaction of a pass. */
export interface PassCommit extends Pick<Commit, "list" | "source" | "personal" | "now" | "plan" | "owner"> {
  /** The stored pass. Its first transaction stores it as a complete scan, and returns its number. */
  readonly pass: Pick<ScanRow, "request" | "startedAt" | "firstRow" | "totals"> & Pick<Commit, "counts"> & {
    readonly scan: number | undefined
    readonly kind: PassKind
  }
  /**
   * If the pass changes rows that the running full scan has seen: the totals of that scan without and with these changes.
   * They are replaced only if the stored totals equal `before`.
   */
  readonly correction?: { readonly scan: number; readonly before: string; readonly totals: string } | undefined
}

/** The content that a destination must have when a scan is certified. */
export interface Certified {
  readonly rows: RowSet
  /** The number of quarantined records of the scan, and of those without an id. */
  readonly quarantined: number
  readonly withoutId: number
}

/**
 * `whole`: everything was written. `rowsRemoved`: the destination lacks certified rows, so the scan was ended as
 * incomplete. `outdated`: nothing was written, because a missing row that reappeared was removed after it was read.
 */
export type Committed = "whole" | "rowsRemoved" | "outdated"

/** A transaction that fills new columns of a list's table. */
export interface Fill extends Pick<Commit, "list" | "personal"> {
  readonly columns: ReadonlyArray<Column>
  /** The rows to update, each with its cells in the order of the columns. */
  readonly rows: ReadonlyArray<{ readonly row: number; readonly cells: ReadonlyArray<Cell> }>
  /** The first row that still lacks the columns' values, or undefined if all rows are filled. */
  readonly unfilledFrom: number | undefined
}

/** A row of a list's table. */
export interface FullRow {
  readonly row: number
  readonly id: string
  readonly raw: string
  readonly hash: string
  /** The typed columns by name. */
  readonly cells: { readonly [column: string]: unknown }
  readonly firstSeenAt: string
  readonly changedAt: string
  readonly missingSince: string | undefined
}

/** A row of `changes`. */
export interface ChangeRow {
  /** Increases with every change of any list. */
  readonly seq: number
  /** The generation in which the number was given. Undefined in a destination of a version without generations. */
  readonly generation: string | undefined
  /** The list's name, as on the command line. */
  readonly list: string
  readonly scan: number
  readonly at: string
  readonly kind: "insert" | "update" | "missing" | "returned"
  readonly id: string
  readonly fields: ReadonlyArray<string>
  readonly before: string | undefined
  readonly after: string | undefined
  /** How a missing row was looked for, as `Recheck.ts` encodes it. Undefined of other kinds, and if it was not. */
  readonly rechecked: string | undefined
}

/** A row of `quarantine`. */
export interface QuarantinedRow extends Quarantined {
  /** The position of the row in the table, in the database's format. */
  readonly place: string
  /** The list's name, as on the command line. */
  readonly list: string
  readonly scan: number
}

/** The rows of a list that {@link Maintenance.pruneRows} has removed. */
export interface PrunedRows {
  readonly removed: number
  /** The highest number of a change that recorded one of them as missing, or 0. Before it, one of them was not missing. */
  readonly lastMissingChange: number
  /** The number of the last change when rows were last removed, or 0. */
  readonly lastChange: number
}

/** `rows` is the next row number without the rows that {@link Maintenance.pruneRows} removed. */
export interface ListState extends
  Omit<
    ListFreshness,
    "list" | "consumers" | "completeScan" | "generation" | "lastChange"
  >
{
  /** Its certificate is JSON. */
  readonly completeScan: Pick<ScanRow, "scan" | "startedAt" | "certificate"> & { readonly endedAt: string } | undefined
}

/** The maximum total size in bytes of the texts that one call of `rows` returns, unless the first text alone is larger. */
export const maxBytes = 4 * 1024 * 1024

/** The keys and merchants to which a destination is bound. */
export interface Owner extends Pick<BoundMerchant, "keys" | "merchants"> {
  /** The first unused row number of each list, by its name on the command line. */
  readonly nextRows: ReadonlyMap<string, number>
}

/** What a writer knows about a list before a scan or a pass. It is read at once. */
export interface Opening extends Owner {
  readonly source: string | undefined
  readonly personal: PersonalState
  readonly columns: ReadonlyArray<RecordedColumn>
  /** {@link ScanReader.scans} of the part. */
  readonly scans: ReadonlyArray<ScanRow>
  /** The last complete scan of the whole list. */
  readonly whole: ScanRow | undefined
  /** Whether any scan of the list is complete, except passes. */
  readonly anyComplete: boolean
  /**
   * Whether a scan that began after the last one of the part has committed. For a part, only passes and scans of the whole list
   * count; for the whole list, scans of parts.
   */
  readonly overtaken: boolean
}

export interface BoundReader {
  /** Undefined before the first commit. */
  readonly source: Effect.Effect<string | undefined, SinkError>
  readonly owner: (lists: ReadonlyArray<Lists.AnyList>) => Effect.Effect<Owner, SinkError>
  /** The rule for personal data, the edition and the suppression list, read at the same time. */
  readonly personal: Effect.Effect<PersonalState, SinkError>
}

export interface ScanReader {
  /**
   * Returns the scans of a list or of one part, newest first, without those before the last complete scan of each part, and
   * without passes.
   */
  readonly scans: (list: Lists.AnyList, part?: string) => Effect.Effect<ReadonlyArray<ScanRow>, SinkError>
  /** Reads at once what a writer has to know before a scan of a part, or a pass. */
  readonly opening: (
    list: Lists.AnyList,
    part: string,
    lists: ReadonlyArray<Lists.AnyList>
  ) => Effect.Effect<Opening, SinkError>
  /** Returns all scans of a list from this number on, without passes. */
  readonly scansFrom: (list: Lists.AnyList, scan: number) => Effect.Effect<ReadonlyArray<ScanRow>, SinkError>
  /** Returns the pieces of the sets of rows that these scans have seen. */
  readonly seen: (scans: ReadonlyArray<number>) => Effect.Effect<ReadonlyArray<Piece>, SinkError>
  /**
   * Returns how many records a scan has quarantined, and how many of them have no id. The records stay until a later scan of the
   * same part is complete.
   */
  readonly quarantined: (
    scan: number
  ) => Effect.Effect<{ readonly records: number; readonly withoutId: number }, SinkError>
}

export interface RowReader {
  /** Returns none if the destination has no such table. */
  readonly columns: (list: Lists.AnyList) => Effect.Effect<ReadonlyArray<RecordedColumn>, SinkError>
  /** Returns the texts of those of the rows that exist. */
  readonly textsOf: (
    list: Lists.AnyList,
    rows: ReadonlyArray<number>
  ) => Effect.Effect<ReadonlyMap<number, string>, SinkError>
  /** Returns the given rows that exist. Another program may have removed some. */
  readonly present: (
    list: Lists.AnyList,
    rows: ReadonlyArray<number>
  ) => Effect.Effect<ReadonlyArray<number>, SinkError>
  readonly missing: (list: Lists.AnyList) => Effect.Effect<ReadonlyArray<number>, SinkError>
  /**
   * Returns the next rows of a list after a row number, in order: at most `count`, and fewer if their texts exceed
   * {@link maxBytes}. Returns none only at the end.
   */
  readonly rows: (list: Lists.AnyList, after: number, count: number) => Effect.Effect<ReadonlyArray<FullRow>, SinkError>
  /** Returns the next quarantined records after a position, in the order in which they were written. */
  readonly quarantine: (
    after: string | undefined,
    count: number,
    lists: ReadonlyArray<Lists.AnyList>
  ) => Effect.Effect<ReadonlyArray<QuarantinedRow>, SinkError>
}

export interface ChangeReader {
  /** Returns, by id, the texts that records had at the end of a complete scan, if they have changed since. */
  readonly textsAt: (
    list: Lists.AnyList,
    scan: number,
    ids: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyMap<string, string>, SinkError>
  /**
   * Returns the next changes after a sequence number, in order, without those before `since` (ISO 8601 in UTC). If their
   * texts, as they are stored, have more than `large.bytes`, returns the first `large.count` at most.
   */
  readonly changes: (
    after: number,
    count: number,
    lists: ReadonlyArray<Lists.AnyList>,
    limits?: {
      readonly since?: string | undefined
      readonly large?: { readonly bytes: number; readonly count: number }
    }
  ) => Effect.Effect<ReadonlyArray<ChangeRow>, SinkError>
  /** The consumers of changes, by name. */
  readonly consumerStates: Effect.Effect<ReadonlyArray<ConsumerState>, SinkError>
  /** Returns the numbers of a list's changes from a day on. Removed changes count too. */
  readonly changeCounts: (list: Lists.AnyList, from: string) => Effect.Effect<ReadonlyArray<ChangeCount>, SinkError>
  readonly changeRange: Effect.Effect<ChangeRange, SinkError>
  /** The generations, the current one last. None in a destination of a version without generations. */
  readonly lineage: Effect.Effect<Lineage, SinkError>
  readonly prunedRows: (list: Lists.AnyList) => Effect.Effect<PrunedRows, SinkError>
}

/** The stored evidence about facts of a list, each as `evidenceToText` writes it, by the name of the fact. */
export type FactTexts = ReadonlyMap<string, string>

export interface FactReader {
  /** `service` is a hash that names the service. Returns none of another service. Undefined: of any service. */
  readonly facts: (list: Lists.AnyList, service: string | undefined) => Effect.Effect<FactTexts, SinkError>
  /** Returns what the rows of a list show together. Reads every row if rows were added since the scan before the last one. */
  readonly rowSight: (list: Lists.AnyList) => Effect.Effect<RowSight, SinkError>
}

export interface FactWriter {
  /** Reads the evidence about a list, and stores what `change` returns, in one transaction. `change` may throw `Damaged`. */
  readonly changeFacts: (
    list: Lists.AnyList,
    service: string,
    change: (stored: FactTexts) => FactTexts
  ) => Effect.Effect<void, SinkError>
}

/** What every program reads of a destination. */
export interface Reader
  extends BoundReader, ScanReader, RowReader, ChangeReader, FactReader, Pick<HandoffStore, "handoffs">
{
  /** The location of the destination, for messages. It contains no password. */
  readonly location: string
  /**
   * Returns the rows of these different ids, and the first unused row number. If all hashes match, one query finds all rows
   * unchanged.
   */
  readonly find: (
    list: Lists.AnyList,
    lookups: ReadonlyArray<RowLookup>
  ) => Effect.Effect<{ readonly stored: ReadonlyMap<string, StoredRow>; readonly nextRow: number }, SinkError>
  /** Returns the state of a list, without reading its rows. */
  readonly state: (list: Lists.AnyList) => Effect.Effect<ListState, SinkError>
  /**
   * Returns counts and sums of the rows that are not missing, by status. Reads every row once. Commits that happen
   * meanwhile count only for the rows that are still to be read. The list must have the columns `status` and `amounts`.
   */
  readonly statusTotals: (
    list: Lists.AnyList,
    amounts: ReadonlyArray<string>
  ) => Effect.Effect<StatusTotals, SinkError>
  /**
   * Returns the records that are open, by status: not missing, not in one of these states, and without a value of
   * `openFields.without`. Reads every row once, as `statusTotals` does. The list must have the columns.
   */
  readonly openStatuses: (
    list: Lists.AnyList,
    finalStates: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<OpenStatus>, SinkError>
  /** The problems that the database's own integrity check finds. No line contains data of a row. */
  readonly damage: Effect.Effect<ReadonlyArray<string>, SinkError>
}

/** A destination that exports write. */
export interface Store extends Reader, FactWriter {
  /** Locks a label, such as a list, until the scope closes, and takes it over. */
  readonly lockAndTakeOver: (
    label: string,
    onLocked: "refuse" | "wait"
  ) => Effect.Effect<unknown, SinkError, Scope.Scope>
  /** Locks a label until the scope closes. Changes nothing in the destination except who has the lock. */
  readonly lock: (label: string, onLocked: "refuse" | "wait") => Effect.Effect<void, SinkError, Scope.Scope>
  /**
   * Invalidates earlier holders of the lock, so that they commit nothing more. Call it before reading data for a plan. Returns
   * whether data that was read since this program has the lock may be outdated.
   */
  readonly takeOver: (label: string) => Effect.Effect<boolean, SinkError>
  /** The caller has the lock of the list. */
  readonly rebind: (list: Lists.AnyList, source: string) => Effect.Effect<void, SinkError>
  /** Stores a new scan, and abandons a running one of the same part. Returns the new scan's number. */
  readonly start: (scan: NewScan) => Effect.Effect<number, SinkError>
  /**
   * Writes a commit durably in one transaction. Fails, and writes nothing, with `LeaseLost`, `OtherSource`, `OtherMerchant`,
   * `PersonalDataChanged` or `RowsRemoved`. At the end of a scan, the same transaction compares the certified content with the
   * tables.
   */
  readonly commit: (commit: Commit) => Effect.Effect<Committed, SinkError>
  /**
   * Writes a commit of a pass durably in one transaction, under the same conditions as {@link commit}. Returns the
   * number of the pass, or `outdated` if nothing was written. Then the totals of the running scan have changed, or a
   * missing row that reappeared was removed after it was read.
   */
  readonly commitPass: (commit: PassCommit) => Effect.Effect<number | "outdated", SinkError>
  /** Stops the head passes of a locked list, or allows them again if `problem` is undefined. */
  readonly setHeadProblem: (
    list: Lists.AnyList,
    problem: string | undefined,
    now: string
  ) => Effect.Effect<void, SinkError>
  /**
   * Fills columns in one transaction. Fails if another program has taken the list over. Also fails if the rule or
   * edition is not that of the destination: the values may be erased ones.
   */
  readonly fillRows: (fill: Fill) => Effect.Effect<void, SinkError>
}

export interface NewGeneration {
  readonly reason: GenerationReason
  /** The last change that the new generation has in common with the current one; by default the last one of all. */
  readonly after?: number | undefined
  /** Begins only if this is the current generation: another program may have begun one meanwhile. */
  readonly instead?: string | undefined
  readonly now: string
}

/** A change that may be old enough to be removed. */
export interface OldChange extends Pick<ChangeRow, "seq" | "list" | "scan" | "at"> {}

/** A list whose certificate needs the changes after a scan. */
export interface CertifiedScan {
  /** The name of the list, as on the command line. */
  readonly list: string
  /** The last complete full scan of the list; without one, its running full scan. */
  readonly scan: number
  /** The number of the last change when the scan became complete, if it is known. */
  readonly lastChange: number | undefined
}

export interface ChangeNeeds {
  readonly consumers: ReadonlyArray<Pick<ConsumerState, "name" | "position">>
  readonly certified: ReadonlyArray<CertifiedScan>
}

/** Chooses which of the oldest changes are removed: all up to the number `through`. */
export type ChooseChanges<A extends { readonly through: number }> = (
  changes: ReadonlyArray<OldChange>,
  needs: ChangeNeeds
) => A

/** A row that has been missing for so long that it may be removed. */
export interface OldRow {
  readonly row: number
  /** The number of the change that recorded the row as missing, unless the change was removed. */
  readonly missingChange: number | undefined
}

export interface RowNeeds {
  readonly consumers: ChangeNeeds["consumers"]
  /** The rows that the complete and running scans of the list have seen, as far as they are stored. */
  readonly seen: RowSet
}

export type ChooseRows<A extends { readonly rows: ReadonlyArray<OldRow> }> = (
  rows: ReadonlyArray<OldRow>,
  needs: RowNeeds
) => A

/**
 * A destination that is open for short transactions without the lock of a list, next to programs that export into it. The
 * functions that move consumers or remove changes or rows exclude each other.
 */
export interface Maintenance extends Reader, RedactionStore, FactWriter, HandoffStore {
  /** Moves a consumer, if `judgeMove` says so, but not past changes that its hand-off has not sent. */
  readonly moveConsumer: (move: ConsumerMove) => Effect.Effect<ConsumerMoved, SinkError>
  /** Begins a generation, to which the changes after its first number belong. Returns all generations. */
  readonly beginGeneration: (begin: NewGeneration) => Effect.Effect<Lineage, SinkError>
  /** Returns whether the consumer existed. */
  readonly removeConsumer: (name: string) => Effect.Effect<boolean, SinkError>
  /**
   * Reads the next changes after a number, at most `count`, and removes those that `choose` returns. A dry run removes nothing.
   * The choice and the removal are one transaction.
   */
  readonly pruneChanges: <A extends { readonly through: number }>(
    batch: { readonly after: number; readonly count: number; readonly isDryRun: boolean; readonly now: string },
    choose: ChooseChanges<A>
  ) => Effect.Effect<A, SinkError>
  /**
   * Reads the next rows of a list after a row number that were marked missing before a time, at most `count`. Removes
   * those that `choose` returns. A dry run removes nothing. Leaves out the row with the highest number, because its
   * number would be used again. The choice and the removal are one transaction, in which no commit changes a chosen
   * row.
   */
  readonly pruneRows: <A extends { readonly rows: ReadonlyArray<OldRow> }>(
    batch: {
      readonly list: Lists.AnyList
      readonly after: number
      readonly before: string
      readonly count: number
      readonly isDryRun: boolean
      readonly now: string
    },
    choose: ChooseRows<A>
  ) => Effect.Effect<A, SinkError>
  /**
   * Removes scans that ended before a time, at most `count`: those before the last complete full scan of their list. If
   * there is none, removes those before the last complete scan of the same part. A dry run only counts all of them.
   * Returns their number.
   */
  readonly pruneScans: (
    batch: { readonly before: string; readonly count: number; readonly isDryRun: boolean }
  ) => Effect.Effect<number, SinkError>
  /**
   * Empties SQLite's log, which still has the texts that were removed from the tables, unless another program reads from it now.
   * PostgreSQL discards its log by itself.
   */
  readonly emptyLog: Effect.Effect<void, SinkError>
}
