/**
 * The port through which erasures and rewrites (`Redaction.ts`) change the texts of a destination. They need no lock of a list:
 * each of their transactions first locks the row of `personal`, whose edition every commit of an export compares.
 */
import type { Lists } from "@payments/core"
import type { Effect } from "effect"
import type { Quarantined, RowWrite } from "../plan/Plan.ts"
import type { Piece } from "../plan/RowSet.ts"
import type { PersonalState, SinkError } from "../port/Sink.ts"

export interface PersonalRow extends Pick<PersonalState, "edition" | "keyCheck"> {
  /** The stored form of the rule, or undefined if it keeps every field. */
  readonly rule: string | undefined
  /** The state of an unfinished rewrite as JSON. */
  readonly rewriting: string | undefined
}

/** An entry of the protocol of erasures. It contains no personal data. */
export interface Erasure {
  readonly erasure: number
  /** The keyed hash of the value. */
  readonly hash: string
  readonly kind: string
  /** Who ran the erasure. */
  readonly by: string
  readonly startedAt: string
  /** Undefined if the erasure was interrupted: the same command completes it. */
  readonly completedAt: string | undefined
  /** The numbers of redacted rows, changes and quarantined records. */
  readonly records: number
  readonly changes: number
  readonly quarantined: number
}

/** The numbers of redacted texts. */
export type RedactedCounts = Pick<Erasure, "records" | "changes" | "quarantined">

/** The texts of a row, change or quarantined record that may contain a value. */
export interface FoundTexts {
  /** Undefined for a quarantined record without an id. */
  readonly id: string | undefined
  readonly texts: ReadonlyArray<string>
}

/** Searched and redacted in this order. */
export type TextTable = "rows" | "changes" | "quarantine"

/** Part of a table: the next texts after a position, or only those of some records. */
export interface Selection {
  readonly after: number
  /** The last position; by default that of the table. */
  readonly through?: number | undefined
  readonly ids?: ReadonlyArray<string> | undefined
}

export interface RowText {
  readonly row: number
  readonly id: string
  readonly raw: string
  readonly missing: boolean
}

export interface ChangeTexts {
  readonly fields: ReadonlyArray<string>
  readonly before: string | undefined
  readonly after: string | undefined
}

export interface NewChange extends ChangeTexts {
  readonly kind: "update" | "missing" | "returned"
  readonly id: string
}

export interface ChangeText extends ChangeTexts {
  readonly seq: number
  readonly id: string
  /** The number of the record's row, if `before` is the text that the record had at the end of the certified scan. */
  readonly certifiedRow: number | undefined
}

export interface QuarantinedText extends Omit<Quarantined, "expected"> {
  /** Its position in the table, in the database's format. */
  readonly place: string
}

/** The last complete full scan of a list. */
export interface CertifiedTexts {
  readonly scan: number
  /** JSON of `Certificate.toJson`, if it has one. */
  readonly certificate: string | undefined
  /** The number of the last change at its end. Undefined for scans of earlier versions of the tables. */
  readonly lastChange: number | undefined
}

export interface PersonalStatements {
  /** Locks and returns the row of `personal`. A transaction runs it first. */
  readonly state: Effect.Effect<PersonalRow, SinkError>
  readonly setState: (state: PersonalRow) => Effect.Effect<void, SinkError>
  /** Returns whether any of the hashes is new. */
  readonly suppress: (hashes: ReadonlyArray<string>, erasure: number) => Effect.Effect<boolean, SinkError>
  readonly hasSuppressed: Effect.Effect<boolean, SinkError>
  readonly suppressedAmong: (hashes: ReadonlyArray<string>) => Effect.Effect<ReadonlySet<string>, SinkError>
  /** Returns the number of the unfinished erasure with this hash, or of a new one. */
  readonly openErasure: (
    erasure: Pick<Erasure, "hash" | "kind" | "by" | "startedAt">
  ) => Effect.Effect<number, SinkError>
  readonly countErased: (erasure: number, counts: RedactedCounts) => Effect.Effect<void, SinkError>
  readonly completeErasures: (erasures: ReadonlyArray<number>, now: string) => Effect.Effect<void, SinkError>
}

export interface TextStatements {
  readonly hasTable: (list: Lists.AnyList) => Effect.Effect<boolean, SinkError>
  /** Whether any scan of the list is complete, so that changes of its rows are recorded. */
  readonly isLoaded: (list: Lists.AnyList) => Effect.Effect<boolean, SinkError>
  readonly lastChange: Effect.Effect<number, SinkError>
  /** Returns pieces of the set of rows that a scan has seen. */
  readonly seen: (scan: number, pieces: ReadonlyArray<number>) => Effect.Effect<ReadonlyArray<Piece>, SinkError>
  /** Returns the next rows, in order: at most 1000, and fewer if their texts are long. Returns none only at the end. */
  readonly rows: (list: Lists.AnyList, selection: Selection) => Effect.Effect<ReadonlyArray<RowText>, SinkError>
  /** Returns those of the ids whose text at the end of the scan is in a change. */
  readonly changedSince: (
    list: Lists.AnyList,
    scan: CertifiedTexts,
    ids: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlySet<string>, SinkError>
  /** Returns the next changes of a list, in order: at most 1000, and fewer if their texts are long. */
  readonly changes: (
    list: Lists.AnyList,
    scan: CertifiedTexts | undefined,
    selection: Selection
  ) => Effect.Effect<ReadonlyArray<ChangeText>, SinkError>
}

export interface WriteStatements {
  /** Calls `use` with all quarantined records of a list, a batch at a time, and replaces those that it returns. */
  readonly replaceQuarantined: (
    list: Lists.AnyList,
    use: (batch: ReadonlyArray<QuarantinedText>) => Effect.Effect<ReadonlyArray<QuarantinedText>, SinkError>
  ) => Effect.Effect<void, SinkError>
  /** Sets the time of change only if `now` is given. */
  readonly writeRows: (
    list: Lists.AnyList,
    rows: ReadonlyArray<Omit<RowWrite, "isNew">>,
    now: string | undefined
  ) => Effect.Effect<void, SinkError>
  readonly writeChanges: (
    changes: ReadonlyArray<ChangeTexts & Pick<ChangeText, "seq">>
  ) => Effect.Effect<void, SinkError>
  /** Appends changes of a list and counts them. */
  readonly appendChanges: (
    list: Lists.AnyList,
    changes: ReadonlyArray<NewChange>,
    now: string
  ) => Effect.Effect<void, SinkError>
}

export interface ScanStatements {
  readonly certified: (list: Lists.AnyList) => Effect.Effect<CertifiedTexts | undefined, SinkError>
  readonly setCertificate: (scan: number, certificate: string) => Effect.Effect<void, SinkError>
  /** Returns the parts of a list that were scanned, and the number of the first scan of each. */
  readonly parts: (
    list: Lists.AnyList
  ) => Effect.Effect<ReadonlyArray<{ readonly part: string; readonly firstScan: number }>, SinkError>
  readonly replaceParts: (
    list: Lists.AnyList,
    parts: ReadonlyArray<{ readonly before: string; readonly after: string }>
  ) => Effect.Effect<void, SinkError>
  /** Abandons the running scans of a list, and removes their checkpoints. */
  readonly abandonScans: (list: Lists.AnyList, now: string) => Effect.Effect<void, SinkError>
  /**
   * Removes the digests of all scans of a list except the one in the certificate of the last complete full scan. Also
   * removes the names of undocumented fields from their totals. If all other texts of a scan are known, its digest
   * gives the hash of the last one.
   */
  readonly removeDigests: (list: Lists.AnyList) => Effect.Effect<void, SinkError>
}

/** The statements of one transaction. */
export interface RedactionStatements extends PersonalStatements, TextStatements, WriteStatements, ScanStatements {}

export interface RedactionStore {
  /** Runs statements as one transaction. If the connection is lost, the body is run again. */
  readonly redact: <A>(
    body: (statements: RedactionStatements) => Effect.Effect<A, SinkError>
  ) => Effect.Effect<A, SinkError>
  /**
   * Returns texts after a position that contain one of the needles or an escape; without needles, all texts. `next` is the
   * position for the next call, or undefined at the end.
   */
  readonly search: (
    list: Lists.AnyList,
    table: TextTable,
    needles: ReadonlyArray<string>,
    after: string | undefined
  ) => Effect.Effect<{ readonly found: ReadonlyArray<FoundTexts>; readonly next: string | undefined }, SinkError>
  /** In the order of their numbers. */
  readonly erasures: Effect.Effect<ReadonlyArray<Erasure>, SinkError>
  /**
   * Removes old copies of changed texts from the files of the destination. Fails with `LogInUse` if another program prevents
   * it. A server keeps its files itself.
   */
  readonly wipe: Effect.Effect<void, SinkError>
}
