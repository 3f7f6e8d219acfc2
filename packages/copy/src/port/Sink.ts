/**
 * The port through which a scan writes into a destination. Every sink ensures three things:
 *
 * 1. A batch and its checkpoint are committed together or not at all.
 * 2. A destination has the data of one source.
 * 3. A list has one writer.
 */
import type { Lists, RecordProblem } from "@payments/core"
import { Context, Data, type Effect, type Scope } from "effect"
import { fieldsText } from "../text/FieldNames.ts"
import { printable } from "../text/Printable.ts"
import type { Counts } from "./Counts.ts"
import type { Drift, ObservedFact } from "./Drift.ts"
import type { ListFreshness, OpenQuestion, OpenRecords, Overview } from "./ListFreshness.ts"
import type { Rechecks } from "./Recheck.ts"

/** A record of a batch. */
export interface BatchRecord {
  /** Undefined if it has no id that every database can store. */
  readonly id: string | undefined
  /** The exact text. */
  readonly text: string
  /** The values of the amount columns in their order, with NaN for null. */
  readonly amounts: ReadonlyArray<number>
  /** Why the record is quarantined. It is also stored as a row if it has an id. */
  readonly problem: Problem | undefined
}

/** Why a record is quarantined. */
export interface Problem extends RecordProblem {
  /**
   * Whether the text cannot be stored in a row. An existing row with its id stays unchanged, and no row is inserted.
   */
  readonly isUnstorable?: boolean
}

/** The records of one or more pages that one transaction commits, with the checkpoint after them. */
export interface Batch {
  readonly pages: number
  /** The records in the order of the list. If an id repeats, its last record is stored. */
  readonly records: ReadonlyArray<BatchRecord>
  /** The number of records with each undocumented field, by its path. */
  readonly undocumented: ReadonlyMap<string, number>
  /** The position at which the scan resumes, as `Position.toJson` encodes it; null ends the scan. */
  readonly checkpoint: string | null
  /** A key and merchant ids to which this batch binds the destination. Earlier ones stay bound. */
  readonly owner?: OwnerClaim | undefined
  /**
   * With `checkpoint: null`: what was found out about the {@link Session.unseen} rows. The scan ends with this batch, which has
   * the records of the batch that waited, and then those that filters have found.
   */
  readonly rechecks?: Rechecks | undefined
}

/** The fingerprint of a key, and the salt of the fingerprint. */
export interface KnownKey {
  readonly salt: string
  readonly fingerprint: string
}

/** The merchant to whom the data of a destination belongs, as far as the destination knows. */
export interface BoundMerchant {
  /** The salt of new fingerprints. */
  readonly salt: string
  /** The last hundred keys that read its records. */
  readonly keys: ReadonlyArray<KnownKey>
  /** The merchant ids of its records. */
  readonly merchants: ReadonlyArray<string>
  /** Whether the merchant ids are bound. An earlier version of this program bound none; then they are read from the rows. */
  readonly bound: boolean
  /** The lists that have rows. */
  readonly filled: ReadonlyArray<Lists.ListName>
}

/** A key and merchant ids that bind a destination to its owner. */
export interface OwnerClaim {
  readonly key: KnownKey | undefined
  readonly merchants: ReadonlyArray<string>
  /** Whether the destination was empty. If another program has bound it since, with its own salt, the commit fails. */
  readonly isFirst: boolean
}

/** How a destination treats personal data. */
export interface PersonalState {
  /** The stored form of the rule, or undefined if the destination has no data yet. */
  readonly rule: string | undefined
  /** Whether a rewrite of the data with another rule has begun and is not complete. */
  readonly rewriting: boolean
  /** A number that every transaction of an erasure or rewrite increments. */
  readonly edition: number
  /** A value that shows whether a key is the one of the pseudonyms and of the suppression list. */
  readonly keyCheck: string | undefined
  /** The suppression list: keyed hashes of erased persons and records. */
  readonly suppressed: ReadonlyArray<string>
}

/** What a scan or pass knew about personal data before it read a page. Its commits fail if that has changed. */
export interface PersonalBinding {
  /** The stored form of the rule. */
  readonly rule: string
  /**
   * What the destination has stored for the rule, if an earlier version of this program wrote it in another form. The first commit
   * replaces it, because the stored form says which fields the texts have.
   */
  readonly before?: string | undefined
  readonly edition: number
}

/** Where the new records of a scan are, next to those that were known before it. */
export interface Places {
  /** Records that the last complete scan knew. */
  readonly known: number
  /** Records that this scan has inserted. */
  readonly fresh: number
  /** Those before the first known one, and those after the last. */
  readonly freshAtStart: number
  readonly freshAtEnd: number
}

/** An answer to a fact, which a scan of the whole list has observed. It has no part of a record. */
export interface Sighting {
  readonly fact: ObservedFact
  readonly answer: string
  /** What was seen, as a sentence. */
  readonly seen: string
  /** The records that show it. */
  readonly records: number
  /** Whether chance explains another answer than the certain one. Then it is not named. */
  readonly mayBeChance?: boolean
}

/** Why rows are too many to be marked missing. */
export type HeldBackBy = "share" | "requests"

/** The counts of a scan so far, over all its runs. */
export interface ScanProgress extends Counts {
  /** Rows that the end of the scan marked missing. */
  readonly missing: number
  /** Rows that were not marked missing, because they are too many at once. */
  readonly heldBack: number
  /** Why they are too many: `share` of the list, or `requests` that would look for them. */
  readonly heldBackBy: HeldBackBy | undefined
  /** {@inheritDoc ScanRequest.acceptMissing} 0 if the last complete scan held no row back. Absent if nothing was accepted. */
  readonly accepted?: number
  /** Rows that wait for {@link Batch.rechecks}, because the end of the scan would mark them missing. Then it has not ended. */
  readonly unseen: number
  /** {@inheritDoc Rechecks.skipped} They count as records of the scan. */
  readonly skipped: number
  /** {@inheritDoc Rechecks.unchecked} */
  readonly unchecked: number
  /**
   * New records that a full scan has read after a record on the last page of the last head pass. They show that the list is not
   * served newest first. 0 if no head pass ended before the scan began.
   */
  readonly behindHead: number
  /** The number of records with each undocumented field, by its path. */
  readonly undocumented: { readonly [path: string]: number }
  /** Texts in which characters were replaced, because not every database can store them. `raw` has the exact text. */
  readonly replaced: number
  /** Where the new records are. */
  readonly places: Places
  /** What the new and changed records have that no earlier record of the list had. Empty until two scans are complete. */
  readonly drift: ReadonlyArray<Drift>
}

/**
 * Why a scan is a new one, or that it is resumed. `overtaken`: since the last scan was interrupted, another program has
 * written parts of the list, or for a part the whole list. What that scan has read may be outdated.
 */
export type ScanStart = "resumed" | "first" | "afterComplete" | "otherRequest" | "overtaken" | "afterFailure"

/** The scan that `begin` would open. A preview writes nothing. */
export interface ScanPreview {
  readonly start: ScanStart
  /** The checkpoint at which the scan resumes, or undefined if it starts at the first page. */
  readonly resumeAt: string | undefined
  readonly progress: ScanProgress
  readonly owner: BoundMerchant
  readonly personal: PersonalState
  /** The columns that `begin` fills before the scan. Undefined if there are none. */
  readonly filling: Filling | undefined
}

/** New columns of a list's table whose values have to be read from the rows' texts. */
export interface Filling {
  readonly columns: ReadonlyArray<string>
  /** Rows that are filled already. */
  readonly filled: number
  /** All rows of the list. */
  readonly rows: number
}

/** An open scan of a list or of a part of one, or an open pass. */
export interface Session {
  /** Increases within a destination. 0 for a pass, which gets a number only if it writes. */
  readonly scan: number
  readonly start: ScanStart
  /** {@inheritDoc ScanPreview.resumeAt} */
  readonly resumeAt: string | undefined
  readonly progress: Effect.Effect<ScanProgress>
  /**
   * Writes the batch and its checkpoint in one transaction. `checkpoint: null` also ends the scan, unless rows have to be looked
   * for first: `unseen` of the progress. Then nothing is written, and the batch has to be committed again with `rechecks`. A batch that changes no row may be
   * committed later, together with other such batches. After a crash, those records are read again.
   */
  readonly commit: (batch: Batch) => Effect.Effect<ScanProgress, SinkError>
  /** Only of a scan of the whole list: the rows that wait for {@link Batch.rechecks}. */
  readonly unseen?: {
    readonly rows: Effect.Effect<ReadonlyArray<number>>
    /** Returns the texts of those of the rows that exist. */
    readonly textsOf: (rows: ReadonlyArray<number>) => Effect.Effect<ReadonlyMap<number, string>, SinkError>
  }
  /** Restarts the scan at the first page. Committed rows stay. */
  readonly restart: Effect.Effect<void, SinkError>
  /** Ends a scan that cannot be completed. Committed rows stay, and the next run begins a new scan. */
  readonly giveUp: Effect.Effect<void, SinkError>
  /**
   * Only of a pass. A pass has no checkpoint and no certificate, marks no row missing, and writes nothing if no record is new or
   * changed.
   */
  readonly pass?: {
    /** Whether a full scan of the list is complete. Before that, a pass reads nothing that the full scan will not read. */
    readonly isLoaded: boolean
    /**
     * Whether the last batch had nothing new or changed, and only rows that are older than the last complete head pass. A pass
     * or scan that was interrupted may have left out records behind a newer row.
     */
    readonly isQuiet: Effect.Effect<boolean>
    /** Ends a pass that has read all its pages. Full scans compare the last page of a head pass with the list's order. */
    readonly end: Effect.Effect<void>
  }
}

/** What reads a list into a destination: a full scan (of the whole list or a part of it), or a pass. */
export type ScanKind = "full" | PassKind

/** A pass reads some pages of a list between two full scans: from the first page on, or the last days. */
export type PassKind = "head" | "window"

/** The stopped head passes of a destination. They stay stopped, in all processes, until {@link resume}. */
export interface HeadPasses {
  /** Returns why they are stopped, or undefined if they are not. */
  readonly problem: (list: Lists.AnyList) => Effect.Effect<string | undefined, SinkError>
  /** The list must be locked. */
  readonly stop: (list: Lists.AnyList, problem: string) => Effect.Effect<void, SinkError>
  /** The list must be locked. */
  readonly resume: (list: Lists.AnyList) => Effect.Effect<void, SinkError>
}

/** The part of a list that has this value of a filter. */
export interface Part {
  readonly field: string
  readonly value: string
}

/** The request of a scan. It is stored with the checkpoint. Another limit or other parameter names begin a new scan. */
export interface ScanRequest {
  readonly source: string
  readonly limit: number
  readonly parameters: { readonly [field: string]: string }
  /** By default the whole list. */
  readonly part?: Part | undefined
  /** Members that are ignored when records are compared. If only they differ, the row stays unchanged. */
  readonly ignoredFields?: ReadonlyArray<string> | undefined
  /** Binds a destination of another source to this one, for a service that has moved. */
  readonly rebind?: boolean | undefined
  /** The share of a list's rows, from 0 to 1, that one scan may mark missing. Default 0.1. Up to 3 rows always, unless it is 0. */
  readonly missingLimit?: number | undefined
  /**
   * If the last complete scan of the list held rows back: the scan may mark so many rows missing, whatever the limit. If more are
   * unseen, it marks none.
   */
  readonly acceptMissing?: number | undefined
  /** Whether the end of the scan waits for {@link Batch.rechecks} if it would mark rows missing. Default false. */
  readonly recheck?: boolean | undefined
  /** By default, a rule that keeps every field, in a destination where nothing was ever erased. */
  readonly personal?: PersonalBinding | undefined
}

/** A destination. */
export class Sink extends Context.Service<Sink, {
  /** For messages. */
  readonly location: string
  /** Locks the list for this program until the scope closes. */
  readonly lock: (list: Lists.AnyList, onLocked: "refuse" | "wait") => Effect.Effect<void, SinkError, Scope.Scope>
  /** Functions that only read the destination. Undefined for a destination that stores nothing. */
  readonly inspect?: {
    /** Returns the scan that `begin` would open. Fails if `begin` would fail. */
    readonly scan: (list: Lists.AnyList, request: ScanRequest) => Effect.Effect<ScanPreview, SinkError>
    readonly owner: Effect.Effect<BoundMerchant, SinkError>
    readonly personal: Effect.Effect<PersonalState, SinkError>
    /** Whether any of these ids has a row in the list. */
    readonly hasAny: (list: Lists.AnyList, ids: ReadonlyArray<string>) => Effect.Effect<boolean, SinkError>
    /**
     * See `freshnessOf` and `overviewOf` of `Freshness.ts`. Fails if the destination belongs to another source than the
     * given one.
     */
    readonly freshness: (
      lists: ReadonlyArray<Lists.AnyList>,
      source?: string
    ) => Effect.Effect<ReadonlyArray<ListFreshness>, SinkError>
    readonly overview: (list: Lists.AnyList) => Effect.Effect<Overview, SinkError>
    /** See `openRecordsOf` of `OpenRecords.ts`. */
    readonly openRecords: (
      list: Lists.AnyList,
      question: OpenQuestion
    ) => Effect.Effect<OpenRecords | undefined, SinkError>
  }
  /** The passes over locked lists. Undefined for a destination that stores nothing. */
  readonly passes?: {
    /** Opens a pass over a locked list. It may run while a full scan of the list is open, but not while another pass is. */
    readonly begin: (
      list: Lists.AnyList,
      kind: PassKind,
      request: ScanRequest
    ) => Effect.Effect<Session, SinkError, Scope.Scope>
    readonly head: HeadPasses
  }
  /** What is known about the service. Undefined for a destination that stores nothing. */
  readonly facts?: {
    /** Returns the answers that contradict those that are certain, or were accepted. Writes nothing. */
    readonly contradictions: (
      list: Lists.AnyList,
      source: string,
      sightings: ReadonlyArray<Sighting>
    ) => Effect.Effect<ReadonlyArray<Drift>, SinkError>
    /** Returns what the rows of a list show together, after a complete scan of it. */
    readonly ofRows: (
      list: Lists.AnyList
    ) => Effect.Effect<{ readonly sightings: ReadonlyArray<Sighting>; readonly drift: ReadonlyArray<Drift> }, SinkError>
    /** Adds what a scan of a locked list has observed. */
    readonly observe: (
      list: Lists.AnyList,
      source: string,
      sightings: ReadonlyArray<Sighting>
    ) => Effect.Effect<void, SinkError>
    /** Returns the answers that are certain, by the name of the fact. */
    readonly certain: (
      list: Lists.AnyList,
      source: string
    ) => Effect.Effect<{ readonly [fact: string]: string }, SinkError>
  }
  /** Opens a scan of a locked list. Resumes the last scan if it was interrupted. */
  readonly begin: (list: Lists.AnyList, request: ScanRequest) => Effect.Effect<Session, SinkError, Scope.Scope>
  /**
   * Publishes the rows of a locked list after its scan, or the scans of its parts, are complete. Only destinations whose
   * commits do not publish the rows, such as rendered files, have something to do.
   */
  readonly publish: (list: Lists.AnyList) => Effect.Effect<void, SinkError>
}>()("@payments/copy/Sink") {}

/** Another program has locked the list, or the whole destination. */
export class Locked extends Data.TaggedError("Locked")<{
  readonly label: string
  /** The process, its machine and the start of its lock, if known. */
  readonly holder?: string | undefined
}> {
  override get message() {
    const who = this.holder === undefined ? "another program" : `another program (${this.holder})`
    return `${who} is writing ${this.label} there. Wait for it (--on-locked wait), or stop it.`
  }
}

/** Another program has taken the list over, because this one's lease expired or its lock file was removed. */
export class LeaseLost extends Data.TaggedError("LeaseLost")<{
  readonly label: string
  readonly loss: "expired" | "lockRemoved"
}> {
  override get message() {
    const problem = this.loss === "expired" ? "this one did not respond for 30 s" : "its lock file was removed"
    return `another program has taken ${this.label} over from this one, because ${problem}. What was committed is kept.`
  }
}

/** The open file is no longer the file at its path. */
export class DestinationMoved extends Data.TaggedError("Moved")<{ readonly problem: string }> {
  override get message() {
    return `${this.problem} while it was open. Check the file at that path, and run again.`
  }
}

/** Another program has removed rows that the scan had read, or the stored scan itself. */
export class RowsRemoved extends Data.TaggedError("RowsRemoved")<{ readonly label: string }> {
  override get message() {
    return `another program removed rows of ${this.label} during the export, so the scan has no certificate. The next run reads the list from its first page.`
  }
}

/** The destination belongs to another source. */
export class OtherSource extends Data.TaggedError("OtherSource")<{ readonly bound: string; readonly given: string }> {
  override get message() {
    return `it has the data of another source (${described(this.bound)}), not of ${
      described(this.given)
    }. Choose another destination, or, if the service has moved, run payments export --rebind once.`
  }
}

/** A source has one or two addresses, then the account if one is set. */
const described = (source: string): string => {
  const [, addresses, account] = /^(https?:\S+(?: https?:\S+)?) (.+)$/s.exec(source) ?? []
  return addresses === undefined ? source : `${addresses}, account ${account}`
}

/** The destination's data has another rule for personal data than the given one, or a rewrite of it is not complete. */
export class OtherRule extends Data.TaggedError("OtherRule")<{
  /** The rules in words. The same words mean the same rule. */
  readonly bound: string
  readonly given: string
  readonly isRewriting: boolean
  /** The fields that the destination may have only because an earlier version did not count them as personal. */
  readonly reclassified?: ReadonlyArray<string> | undefined
}> {
  override get message() {
    const { reclassified = [] } = this
    if (this.isRewriting) {
      return "a rewrite of its personal data has begun and is not complete. Complete it first: payments rewrite."
    }
    if (reclassified.length > 0) {
      return `an earlier version kept fields in it that this version counts as personal: ${
        fieldsText(reclassified)
      }. Remove them as its rule says: payments rewrite.`
    }
    return this.bound === this.given
      ? "its pseudonyms were made with another personal key than the given one. Give the earlier key, choose another destination, or make new pseudonyms in all its data: payments rewrite."
      : `its personal data has another rule (${this.bound}) than the given one (${this.given}). Give the earlier rule, choose another destination, or carry the new rule out over all its data: payments rewrite.`
  }
}

/** An erasure or a rewrite has changed the destination since the list was opened, so nothing was written. */
export class PersonalDataChanged extends Data.TaggedError("PersonalDataChanged")<{}> {
  override get message() {
    return "its personal data was erased or rewritten during the export. What was committed is kept; run again."
  }
}

/** The records of a list that a scan or pass has committed. */
export interface CommittedRecords {
  /** The name of the list. */
  readonly label: string
  readonly records: number
}

/** The data belongs to another merchant than the destination's, or nothing proves that it is the same merchant. */
export class OtherMerchant extends Data.TaggedError("OtherMerchant")<{
  /**
   * The evidence. `merchantId`: the records have other merchant ids. `key`: neither the key nor any record is known. `race`:
   * another program has bound the empty destination meanwhile, so the pages have to be judged again.
   */
  readonly by: "merchantId" | "key" | "race"
  /**
   * The records that the same run has committed before. None by default. The map still grows while other lists commit
   * pages that were accepted before, so all errors of a run end up with the same message.
   */
  readonly committed?: ReadonlyMap<string, CommittedRecords> | undefined
}> {
  override get message() {
    const sums = new Map<string, number>()
    for (const { label, records } of this.committed?.values() ?? []) {
      if (records > 0) sums.set(label, (sums.get(label) ?? 0) + records)
    }
    const written = sums.size === 0
      ? "Nothing was written"
      : `None of its pages was written. This run has committed pages before it: ${
        [...sums].map(([label, records]) => `${records} records of ${label}`).join(", ")
      }`
    return `${
      otherMerchant[this.by]
    }. ${written}. Export each merchant into its own destination, with its name in PAYMENTS_ACCOUNT. If both belong in this one, run once with --rebind.`
  }
}

const otherMerchant: { readonly [by in OtherMerchant["by"]]: string } = {
  merchantId: "its records belong to another merchant than those that this key reads",
  key: "it knows neither this key nor any record that the key reads, so the data may belong to another merchant",
  race: "another program started to fill it at the same time, so the data may belong to another merchant"
}

/** The file, schema or folder is not a destination of this program, or it is one of a later version. */
export class NotADestination extends Data.TaggedError("NotADestination")<{
  readonly problem: string
  /** Whether nothing is there yet, so that an export would create it. */
  readonly isEmpty?: boolean
  /** Whether a later version of this program has written it, so that this one cannot use it any more. */
  readonly isLater?: boolean
}> {
  override get message() {
    return this.problem
  }
}

/** A setting of the destination is invalid, such as a password file that does not exist. `problem` names the setting. */
export class WrongSetting extends Data.TaggedError("WrongSetting")<{ readonly problem: string }> {
  override get message() {
    return this.problem
  }
}

/** The destination has data that no export wrote: it was damaged or edited. */
export class Damaged extends Data.TaggedError("Damaged")<{
  readonly problem: string
  /** Which data is still readable, and what to do about the rest. */
  readonly advice?: string | undefined
}> {
  override get message() {
    const advice = this.advice === undefined ? "" : ` ${this.advice}`
    return `it is damaged: ${this.problem}.${advice} Export into a new destination (another --to), and keep this one until that is done.`
  }
}

/** The system denies this program access. */
export class AccessDenied extends Data.TaggedError("Denied")<{ readonly problem: string }> {
  override get message() {
    return this.problem
  }
}

/** There is no space left. */
export class DiskFull extends Data.TaggedError("Full")<{}> {
  override get message() {
    return "there is no space left. What was committed is kept; run again when there is space."
  }
}

/** Old copies of erased data stay in SQLite's log, because another program reads the database. */
export class LogInUse extends Data.TaggedError("LogInUse")<{}> {
  override get message() {
    return "the data is erased from its tables, but the log next to it still has old copies, because another program reads the database. Stop that program or wait for it, and run again: that completes the erasure."
  }
}

/**
 * The server is unreachable or has closed the connection. The problem may be temporary. `code` is the system's code, such as
 * `ECONNREFUSED`, or a SQLSTATE.
 */
export class Unavailable extends Data.TaggedError("Unavailable")<{ readonly code: string }> {
  override get message() {
    const known = outages[this.code] ?? "the server cannot be reached. What was committed is kept; run again later"
    return `${known} (${this.code}).`
  }
}

const outages: { readonly [code: string]: string } = {
  "ECONNREFUSED": "no server listens there. Check host and port",
  "ENOENT": "no server listens on that socket. Check its folder and port",
  "ENOTFOUND": "no such host is known. Check its name",
  "EAI_AGAIN": "the name of its host cannot be resolved now",
  "connection lost": "the connection to the server was lost. What was committed is kept: run again",
  "no answer": "the server accepts connections but does not respond. What was committed is kept; run again later",
  "53300": "the server has no connection left. Run again later",
  "57P03": "the server is starting or stopping. Run again later"
}

/** Reading or writing failed. `code` is the system's code, such as `EACCES`, `SQLite` with its result code, or a SQLSTATE. */
export class DestinationFailed extends Data.TaggedError("Failed")<{
  readonly code: string
  /** The login that a server of PostgreSQL refused. */
  readonly login?: Login | undefined
}> {
  override get message() {
    const remedy = this.login === undefined ? undefined : loginRemedy(this.code, this.login)
    const known = remedy ?? remedies[this.code] ?? "it cannot be read or written. What was committed is kept"
    return `${known} (${this.code}).`
  }
}

/** Who logs in to PostgreSQL, and where the user and the password come from. */
export interface Login {
  readonly user: string
  readonly userFrom: "the URL" | "PGUSER" | "this system"
  readonly passwordFrom: "the URL" | "PGPASSWORD" | "the password file"
}

const loginRemedy = (code: string, { passwordFrom, user, userFrom }: Login): string | undefined => {
  const origin = userFrom === "this system"
    ? "this system's user, because neither the URL nor PGUSER names one"
    : `from ${userFrom}`
  const named = `the user ${printable(user)} (${origin})`
  const correctUser = userFrom === "this system" ? "Name the user in PGUSER" : `Correct the user in ${userFrom}`
  const password = {
    "the URL": "the password in the URL",
    "PGPASSWORD": "the password in PGPASSWORD",
    "the password file": "the password in the password file"
  }[passwordFrom]
  switch (code) {
    case "28P01":
      return `the server does not accept ${named}, or the password. ${correctUser}, or ${password}`
    case "28000":
      return `the server does not admit ${named}. ${correctUser}, or correct the server's pg_hba.conf`
    case "no password":
      return `the server asks for a password for ${named}. Give it in PGPASSWORD, or in a file that PGPASSFILE names`
    default:
      return undefined
  }
}

/**
 * The problem and the remedy for common codes. SQLite's codes: https://sqlite.org/rescode.html; PostgreSQL's:
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const remedies: { readonly [code: string]: string } = {
  "ENOENT": "its folder does not exist. Create it first",
  "EISDIR": "it is a folder. Name a file in it",
  "EEXIST": "it is a file. Name a folder",
  "ELOOP": "its symbolic links form a cycle. Name the file itself",
  "ENAMETOOLONG": "its name is too long for the file system. Choose a shorter one",
  "ENOTDIR": "a part of its path is a file, not a folder",
  "EPIPE": "its reader has closed it, and the remaining records are lost. The next run starts at the first page",
  "EACCES": "there is no permission to write there",
  "EROFS": "it is on a read-only file system",
  "SQLite 8": "it is read-only",
  "SQLite 14":
    "it cannot be opened. Check that it is a file, that its folder is writable, and that the process may open more files (ulimit -n)",
  "no password": "the server asks for a password. Give it in PGPASSWORD, or in a file that PGPASSFILE names",
  "no TLS": "the server offers no TLS. If the network is trusted, use sslmode=disable",
  "TLS":
    "the server's certificate is not valid. Name its authority's file with sslrootcert, or use the host name in the certificate",
  "28P01": "the user or the password is wrong. Correct PGUSER, PGPASSWORD or the password file",
  "28000": "the server does not admit this user. Correct the user, or the server's pg_hba.conf",
  "3D000": "there is no such database. Create it first (CREATE DATABASE)",
  "42501":
    "the user lacks a privilege. A reader needs USAGE on the schema and SELECT on its tables, also on those that a new version has added; an export needs INSERT, UPDATE and DELETE too. Only a user that owns the schema, or that has CREATE on the database, creates the tables: with the first export, or with payments migrate",
  "42701": "a column that this version adds already exists, and is not this program's. Rename it, and run again",
  "42P07": "a table that this version adds already exists, and is not this program's. Rename it, and run again",
  "3F000": "its schema does not exist. It was dropped: restore it, or name another one (?schema=NAME)",
  "42P01":
    "one of its tables does not exist. It, or the schema, was dropped: restore it, or name another schema (?schema=NAME)",
  "25006":
    "the server is read-only: it is a standby, or default_transaction_read_only is on. Name the primary server, or turn that setting off",
  "55P03": "another program has a lock there and does not release it. Find it in pg_stat_activity, and run again"
}

/** The classes of {@link SinkReason}, by their tags. */
export const reasons = {
  Damaged,
  Denied: AccessDenied,
  Failed: DestinationFailed,
  Full: DiskFull,
  LeaseLost,
  Locked,
  LogInUse,
  Moved: DestinationMoved,
  NotADestination,
  OtherMerchant,
  OtherRule,
  OtherSource,
  PersonalDataChanged,
  RowsRemoved,
  Unavailable,
  WrongSetting
}

/** The reasons for which a destination fails. */
export type SinkReason = InstanceType<typeof reasons[keyof typeof reasons]>

/** The error of a destination. No message contains a record or a cursor. */
export class SinkError extends Data.TaggedError("SinkError")<{
  readonly location: string
  readonly reason: SinkReason
}> {
  override get message() {
    return `${this.location}: ${this.reason.message}`
  }
}
