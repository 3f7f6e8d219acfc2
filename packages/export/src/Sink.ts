/**
 * The port through which a scan writes into a destination. A sink promises: a batch and its checkpoint are committed
 * together or not at all; a destination takes the data of one source; one writer per list.
 */
import type { BadRecord, Lists, Position } from "@payments/core"
import { Context, Data, type Effect, type Scope } from "effect"

/** A page on its way into a destination, with the checkpoint behind it. */
export interface Batch {
  readonly records: ReadonlyArray<{ readonly id: string; readonly value: unknown; readonly text: string }>
  /** Records that did not decode: stored where they have an id, and listed with path and text in any case. */
  readonly bad: ReadonlyArray<BadRecord>
  /** Where the scan goes on; null ends it. */
  readonly next: Position.Position | null
}

/** What a scan has committed so far, over all its runs. */
export interface ScanProgress {
  readonly pages: number
  readonly records: number
  readonly inserted: number
  readonly updated: number
  readonly unchanged: number
  readonly quarantined: number
}

/** A scan of one list that is open for writing. */
export interface ScanSession {
  /** Counts up per destination. */
  readonly scan: number
  /** Where the scan goes on, where an earlier run of it was cut. */
  readonly resumeAt: Position.Position | undefined
  readonly progress: Effect.Effect<ScanProgress, SinkError>
  /** Writes the batch and its checkpoint in one transaction. With `next: null` it also ends the scan. */
  readonly commit: (batch: Batch) => Effect.Effect<ScanProgress, SinkError>
  /** Begins the scan's traversal again. What was read is kept. */
  readonly restart: Effect.Effect<void, SinkError>
  /** Makes the complete list visible, where that takes more than the last commit. */
  readonly publish: Effect.Effect<void, SinkError>
}

/** What a scan asks, kept with its checkpoint: another limit or other parameter names are another scan. */
export interface ScanRequest {
  readonly source: string
  readonly limit: number
  readonly parameters: { readonly [field: string]: string }
}

/** A destination. */
export class Sink extends Context.Service<Sink, {
  /** Where the rows are, for people. */
  readonly location: string
  /** Opens a scan of the list, going on with the last one if that was cut; holds the list until the scope closes. */
  readonly begin: (list: Lists.AnyList, request: ScanRequest) => Effect.Effect<ScanSession, SinkError, Scope.Scope>
}>()("@payments/export/Sink") {}

/** Another program writes into the same list of the destination, or holds all of it. */
export class Locked extends Data.TaggedError("Locked")<{ readonly label: string }> {
  override get message() {
    return `another program is writing ${this.label} there. Wait for it, or stop it.`
  }
}

/** The destination belongs to another source. */
export class OtherSource extends Data.TaggedError("OtherSource")<{ readonly bound: string; readonly given: string }> {
  override get message() {
    return `it holds the data of another source (${this.bound}), not of ${this.given}. Choose another destination.`
  }
}

/** The place holds something that is no destination of ours, or one of a later version. */
export class NotADestination extends Data.TaggedError("NotADestination")<{ readonly problem: string }> {
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

/** Reading or writing failed. `code` is the system's own, such as `EACCES`, or `SQLite` and its number. */
export class Failed extends Data.TaggedError("Failed")<{ readonly code: string }> {
  override get message() {
    return `${mends[this.code] ?? "it cannot be read or written. What was committed is kept"} (${this.code}).`
  }
}

/** What there is to do about the usual ones. SQLite's numbers: https://sqlite.org/rescode.html */
const mends: { readonly [code: string]: string } = {
  "ENOENT": "its folder is not there. Make it first",
  "EISDIR": "it is a folder. Name a file in it",
  "EEXIST": "it is a file. Name a folder",
  "ENOTDIR": "a part of its path is a file, not a folder",
  "EACCES": "there is no permission to write there",
  "EROFS": "it can only be read there",
  "SQLite 8": "it can only be read",
  "SQLite 14": "it cannot be opened. Is it a folder, or one where nothing may be written?"
}

/** Why a destination could not be written. */
export type SinkReason = Locked | OtherSource | NotADestination | Full | Failed

/** A destination failed. No message holds a record or a cursor. */
export class SinkError extends Data.TaggedError("SinkError")<{
  readonly location: string
  readonly reason: SinkReason
}> {
  override get message() {
    return `${this.location}: ${this.reason.message}`
  }
}
