/**
 * The port through which a scan writes into a destination. A sink promises: a batch and its checkpoint are committed
 * together or not at all; a destination takes the data of one source; one writer per list.
 */
import type { Lists, RecordProblem } from "@payments/core"
import { Context, Data, type Effect, type Scope } from "effect"
import type { Counts } from "./engine/Counts.ts"

/** A record on its way into a destination. */
export interface BatchRecord {
  /** Undefined if it has no id that every database can store. */
  readonly id: string | undefined
  /** The exact text. */
  readonly text: string
  /** The values of the amount columns, in their order; NaN stands for null. */
  readonly amounts: ReadonlyArray<number>
  /** Why the record is quarantined. It is also stored as a row if it has an id. */
  readonly problem: Problem | undefined
}

/** Why a record is quarantined. */
export interface Problem extends RecordProblem {
  /** No row may hold the record's text: an existing row of its id stays unchanged, and no new row is made. */
  readonly isUnstorable?: boolean
}

/** Pages on their way into a destination, with the checkpoint behind them. */
export interface Batch {
  readonly pages: number
  /** In the order of the list. If an id repeats, its last record is stored. */
  readonly records: ReadonlyArray<BatchRecord>
  /** Undocumented fields by path, and how many of the records have them. */
  readonly undocumented: ReadonlyMap<string, number>
  /** The position at which the scan resumes, as `Position.toJson` encodes it; null ends the scan. */
  readonly checkpoint: string | null
  /** What the destination is bound to with this batch, beside what it is bound to already. */
  readonly owner?: OwnerClaim | undefined
}

/** A fingerprint of a key, and the salt that it was derived with. */
export interface KnownKey {
  readonly salt: string
  readonly fingerprint: string
}

/** Whose data a destination holds, as far as it shows. */
export interface Owner {
  /** For fingerprints that are bound from now on. */
  readonly salt: string
  /** The keys that it was filled with: the last hundred. */
  readonly keys: ReadonlyArray<KnownKey>
  /** The merchant ids that its records show. */
  readonly merchants: ReadonlyArray<string>
  /** Whether the merchant ids are bound, or only found among the rows: a destination of an earlier version has bound none. */
  readonly bound: boolean
  /** The lists that have rows. */
  readonly filled: ReadonlyArray<Lists.ListName>
}

/** What binds a destination to its owner. */
export interface OwnerClaim {
  readonly key: KnownKey | undefined
  readonly merchants: ReadonlyArray<string>
  /** Whether the destination was found empty. If another program has bound it since, with its own salt, the commit fails. */
  readonly isFirst: boolean
}

/** What a scan has come to so far, over all its runs. */
export interface ScanProgress extends Counts {
  /** Rows that the scan's end found missing. */
  readonly missing: number
  /** Rows that were not marked missing, because they are too many at once. */
  readonly heldBack: number
  /** Fields that the document does not show, and how many records had them. */
  readonly undocumented: { readonly [path: string]: number }
  /** Texts that were written without characters that not every database takes. `raw` has them whole. */
  readonly replaced: number
}

/**
 * How the scan begins: where an earlier run was cut, or anew, and why. `overtaken`: since it was cut, parts of the list (the
 * whole list, for a part) were written, and what it had read may no longer be what there is.
 */
export type ScanStart = "resumed" | "first" | "afterComplete" | "otherRequest" | "overtaken" | "afterFailure"

/** The scan that a session would have, before anything is written. */
export interface ScanPreview {
  readonly start: ScanStart
  /** The checkpoint at which the scan resumes; undefined if it begins at the first page. */
  readonly resumeAt: string | undefined
  readonly progress: ScanProgress
  readonly owner: Owner
  /** What `begin` fills before the scan; undefined where no row lacks a value. */
  readonly filling: Filling | undefined
}

/** Columns that a later version of the program has added to a list's table. Their values are read from the rows' texts. */
export interface Filling {
  readonly columns: ReadonlyArray<string>
  /** Rows that were filled before. */
  readonly filled: number
  /** All rows of the list. */
  readonly rows: number
}

/** A scan of one list, or of a part of one, that is open for writing. */
export interface ScanSession {
  /** Counts up per destination. */
  readonly scan: number
  readonly start: ScanStart
  /** {@inheritDoc ScanPreview.resumeAt} */
  readonly resumeAt: string | undefined
  readonly progress: Effect.Effect<ScanProgress>
  /**
   * Writes the batch and its checkpoint in one transaction; with `checkpoint: null` it also ends the scan. A batch that changes
   * no row may wait for later ones, a few thousand records at most: after a kill they are read again.
   */
  readonly commit: (batch: Batch) => Effect.Effect<ScanProgress, SinkError>
  /** Begins the scan's traversal again. What was read is kept. */
  readonly restart: Effect.Effect<void, SinkError>
  /** Ends a scan that cannot reach its end. What was read is kept; the next scan begins anew. */
  readonly giveUp: Effect.Effect<void, SinkError>
}

/** The part of a list that has this value of a filter. */
export interface Part {
  readonly field: string
  readonly value: string
}

/** What a scan asks, kept with its checkpoint: another limit or other parameter names are another scan. */
export interface ScanRequest {
  readonly source: string
  readonly limit: number
  readonly parameters: { readonly [field: string]: string }
  /** All of the list unless given. */
  readonly part?: Part | undefined
  /** Members whose difference alone is no change: their rows stay as they are. */
  readonly ignoredFields?: ReadonlyArray<string> | undefined
  /** Binds a destination of another source to this one, for a service that has moved. */
  readonly rebind?: boolean | undefined
  /** The share of a list's rows that may go missing at once, 0 to 1; 0.1 unless given. */
  readonly missingLimit?: number | undefined
}

/** A destination. */
export class Sink extends Context.Service<Sink, {
  /** Where the rows are, for people. */
  readonly location: string
  /** Holds the list for this program until the scope closes. */
  readonly lock: (list: Lists.AnyList, onLocked: "refuse" | "wait") => Effect.Effect<void, SinkError, Scope.Scope>
  /** What is there, read without writing anything. Absent where nothing is kept. */
  readonly inspect?: {
    /** The scan that `begin` would open. Fails where it would refuse. */
    readonly scan: (list: Lists.AnyList, request: ScanRequest) => Effect.Effect<ScanPreview, SinkError>
    readonly owner: Effect.Effect<Owner, SinkError>
    /** Whether any of these ids has a row in the list. */
    readonly hasAny: (list: Lists.AnyList, ids: ReadonlyArray<string>) => Effect.Effect<boolean, SinkError>
  }
  /** Opens a scan of a list that is held, going on with the last one if that was cut. */
  readonly begin: (list: Lists.AnyList, request: ScanRequest) => Effect.Effect<ScanSession, SinkError, Scope.Scope>
  /**
   * Shows a list that is held as its scan left it, or the scans of its parts, where that takes more than their commits.
   * Called when they are complete.
   */
  readonly publish: (list: Lists.AnyList) => Effect.Effect<void, SinkError>
}>()("@payments/export/Sink") {}

/** Another program writes into the same list of the destination, or holds all of it. */
export class Locked extends Data.TaggedError("Locked")<{
  readonly label: string
  /** Which process, on which machine, since when, where it has said so. */
  readonly holder?: string | undefined
}> {
  override get message() {
    const who = this.holder === undefined ? "another program" : `another program (${this.holder})`
    return `${who} is writing ${this.label} there. Wait for it (--on-locked wait), or stop it.`
  }
}

/** Another program has taken the list over: this one was silent for too long, or its lock file was removed. */
export class LeaseLost extends Data.TaggedError("LeaseLost")<{
  readonly label: string
  readonly loss: "expired" | "lockRemoved"
}> {
  override get message() {
    const problem = this.loss === "expired" ? "this one did not respond for 30 s" : "its lock file was removed"
    return `another program has taken ${this.label} over from this one, because ${problem}. What was committed is kept.`
  }
}

/** The file that is open is not the one at its path any more. */
export class Moved extends Data.TaggedError("Moved")<{ readonly problem: string }> {
  override get message() {
    return `${this.problem} while it was open. Run again, with what is at its path then.`
  }
}

/** Rows that the scan had written or found are no longer in the destination, or what it keeps of the scan is not. */
export class RowsRemoved extends Data.TaggedError("RowsRemoved")<{ readonly label: string }> {
  override get message() {
    return `another program removed rows of ${this.label} there during the export, so that nothing is certified. The next run reads the list from its first page.`
  }
}

/** The destination belongs to another source. */
export class OtherSource extends Data.TaggedError("OtherSource")<{ readonly bound: string; readonly given: string }> {
  override get message() {
    return `it holds the data of another source (${described(this.bound)}), not of ${
      described(this.given)
    }. Choose another destination, or say that the service has moved (--rebind).`
  }
}

/** A source names one or two addresses, then the account if one is set. */
const described = (source: string): string => {
  const [, addresses, account] = /^(https?:\S+(?: https?:\S+)?) (.+)$/s.exec(source) ?? []
  return addresses === undefined ? source : `${addresses}, account ${account}`
}

/** The service shows the data of another merchant than the destination holds, or nothing shows that it is the same one. */
export class OtherMerchant extends Data.TaggedError("OtherMerchant")<{
  /**
   * What shows it: the merchant ids of the records, or a key that is not known beside records that are not known.
   * `race`: another program has bound the empty destination meanwhile, and it is not yet known whose it is.
   */
  readonly by: "merchantId" | "key" | "race"
}> {
  override get message() {
    return `${
      otherMerchant[this.by]
    }. Nothing of it was written. Export each merchant into another destination, with its name in PAYMENTS_ACCOUNT; if both belong into this one, run once with --rebind.`
  }
}

const otherMerchant: { readonly [by in OtherMerchant["by"]]: string } = {
  merchantId: "its records belong to another merchant than those that this key reads",
  key: "this key is new to it, and so is all that the key reads: the data may belong to another merchant",
  race: "another program has begun to fill it at the same time: the data may belong to another merchant"
}

/** The place holds something that is no destination of ours, or one of a later version. */
export class NotADestination extends Data.TaggedError("NotADestination")<{ readonly problem: string }> {
  override get message() {
    return this.problem
  }
}

/** A setting of the destination is wrong, such as a password file that is no file. `problem` names the setting. */
export class WrongSetting extends Data.TaggedError("WrongSetting")<{ readonly problem: string }> {
  override get message() {
    return this.problem
  }
}

/** The destination holds what no export has written there: it was damaged, or changed by hand. */
export class Damaged extends Data.TaggedError("Damaged")<{
  readonly problem: string
  /** What can still be read, and what to do about the rest. */
  readonly advice?: string | undefined
}> {
  override get message() {
    const advice = this.advice === undefined ? "" : ` ${this.advice}`
    return `it is damaged: ${this.problem}.${advice} Export into a new destination (another --to), and keep this one until that is done.`
  }
}

/** The system lets this program not read or write there. */
export class Denied extends Data.TaggedError("Denied")<{ readonly problem: string }> {
  override get message() {
    return this.problem
  }
}

/** There is no space left. */
export class Full extends Data.TaggedError("Full")<{}> {
  override get message() {
    return "there is no space left. What was committed is kept; run again when there is space."
  }
}

/**
 * The server cannot be reached now, or has ended the connection. Nothing has to be corrected for it to be reached later.
 * `code` is the system's own, such as `ECONNREFUSED`, or a SQLSTATE.
 */
export class Unavailable extends Data.TaggedError("Unavailable")<{ readonly code: string }> {
  override get message() {
    const known = outages[this.code] ?? "the server cannot be reached. What was committed is kept; run again later"
    return `${known} (${this.code}).`
  }
}

/** What can be done about the usual outages. */
const outages: { readonly [code: string]: string } = {
  "ECONNREFUSED": "no server listens there. Check host and port",
  "ENOENT": "no server listens on that socket. Check its folder and port",
  "ENOTFOUND": "no such host is known. Check its name",
  "EAI_AGAIN": "the name of its host cannot be looked up now",
  "connection lost": "the connection to the server was lost. What was committed is kept: run again",
  "no answer": "the server accepts connections and does not answer. What was committed is kept; run again later",
  "53300": "the server has no connection left. Run again later",
  "57P03": "the server is starting or stopping. Run again later"
}

/** Reading or writing failed. `code` is the system's own, such as `EACCES`, `SQLite` and its number, or a SQLSTATE. */
export class Failed extends Data.TaggedError("Failed")<{ readonly code: string }> {
  override get message() {
    return `${mends[this.code] ?? "it cannot be read or written. What was committed is kept"} (${this.code}).`
  }
}

/**
 * What there is to do about the usual ones. SQLite's numbers: https://sqlite.org/rescode.html; PostgreSQL's:
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const mends: { readonly [code: string]: string } = {
  "ENOENT": "its folder is not there. Make it first",
  "EISDIR": "it is a folder. Name a file in it",
  "EEXIST": "it is a file. Name a folder",
  "ELOOP": "its links lead in a circle. Name the file that is meant",
  "ENAMETOOLONG": "its name is longer than the file system takes. Choose a shorter one",
  "ENOTDIR": "a part of its path is a file, not a folder",
  "EPIPE": "nobody reads it any more, and what was left is not kept. The next run begins anew",
  "EACCES": "there is no permission to write there",
  "EROFS": "it can only be read there",
  "SQLite 8": "it can only be read",
  "SQLite 14": "it cannot be opened. Is it a folder, or one where nothing may be written?",
  "no password": "the server asks for a password. Give it in PGPASSWORD, or in a file that PGPASSFILE names",
  "no TLS": "the server offers no TLS. Where the network in between is trusted, say sslmode=disable",
  "TLS":
    "the server's certificate does not hold. Name its authority's file with sslrootcert, or its host as it is certified",
  "28P01": "user and password do not fit. Correct PGUSER, PGPASSWORD or the password file",
  "28000": "the server does not let this user in. Correct the user, or its pg_hba.conf",
  "3D000": "there is no such database. Make it first (CREATE DATABASE)",
  "42501": "the user lacks a privilege. It needs CREATE on the database for the first export, and owns the schema then",
  "0A000":
    "a view, or another object that is not this program's, uses a column of quarantine whose type has to change. Drop it, run again, and create it anew",
  "42701": "a column that this version adds is there already, and is not this program's. Rename it, and run again",
  "42P07": "a table that this version adds is there already, and is not this program's. Rename it, and run again",
  "25006": "it can only be read there. Name the primary server",
  "55P03": "another program holds a lock there and does not let go. See which one (pg_stat_activity), and run again"
}

/** Why a destination could not be written. */
export type SinkReason =
  | Locked
  | LeaseLost
  | Moved
  | RowsRemoved
  | OtherSource
  | OtherMerchant
  | NotADestination
  | Damaged
  | Denied
  | WrongSetting
  | Full
  | Unavailable
  | Failed

/** A destination failed. No message holds a record or a cursor. */
export class SinkError extends Data.TaggedError("SinkError")<{
  readonly location: string
  readonly reason: SinkReason
}> {
  override get message() {
    return `${this.location}: ${this.reason.message}`
  }
}
