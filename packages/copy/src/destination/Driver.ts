/**
 * What each kind of destination defines. A kind is a {@link Driver} in its own file and an entry in `Destination.all`.
 */
import type { Effect, FileSystem, Layer, Path, Result, Scope } from "effect"
import type { FileDifference } from "../files/VerifyFiles.ts"
import type { Sink, SinkError, SinkReason } from "../port/Sink.ts"
import type { AsOf } from "../statement/AsOf.ts"
import type { Dialect } from "../statement/Dialect.ts"
import type { QueryError, QueryResult } from "../statement/Statement.ts"
import type { PendingMigration } from "../store/Evolution.ts"
import type { Snapshot } from "../store/Snapshot.ts"
import type { Maintenance, Reader } from "../store/Store.ts"

/** Settings that a destination of any kind may have. */
export interface DestinationSettings {
  /** The source whose copy is read, if one was chosen. Reading or maintaining the copy of another one fails. */
  readonly boundTo?: string | undefined
  /** How many earlier snapshots of a list a folder of files keeps. Other destinations have none. */
  readonly keepSnapshots?: number | undefined
  /** The name of this process in a cluster, which people then see as the holder of a lock on a server. */
  readonly runner?: string | undefined
}

/** Only a text from the environment may contain a password. */
export type TextPlace = "argument" | "file" | "environment"

/** A kind of destination. `D` has what its text says. */
export interface Driver<D extends { readonly _tag: string }> {
  readonly kind: D["_tag"]
  /** What the text of a destination has before its first colon. */
  readonly schemes: ReadonlyArray<string>
  /** The form of the text for people, such as `file:FOLDER`, and its options: the most needed ones, and the others. */
  readonly form: readonly [text: string, options: string, moreOptions: string]
  /** Parses a text, or fails with a problem as a sentence. `rest` is what follows the colon. */
  readonly parse: (given: { readonly text: string; readonly rest: string; readonly from: TextPlace }) => Result.Result<
    D,
    string
  >
  /** Encodes a destination for a thread, if it cannot be copied: `Redacted` cannot. */
  readonly encode?: (destination: D) => { readonly _tag: D["_tag"] }
  readonly decode?: (message: unknown) => D
  readonly operations: (destination: D & DestinationSettings) => Operations<D>
}

/** What can be done with one destination. Nothing is opened before an effect runs. */
export interface Operations<D = unknown> {
  /** The destination as text, without the password. */
  readonly shown: string
  /** The place of its tables, for messages. It has no password. */
  readonly location: string
  readonly place: LocalPlace | ServerPlace
  readonly dialect: Dialect
  /** The SQLite file of its tables, if they are in one. */
  readonly sqliteFile?: string
  readonly rendered?: RenderedFiles
  /** Returns the destination that a text in a file of this folder means: paths are relative to the folder. */
  readonly relativeTo: (folder: string) => D
  /** The sink, which runs in the calling thread. */
  readonly layer: Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path>
  readonly reader: Effect.Effect<Reader, SinkError, Scope.Scope>
  readonly snapshot: Effect.Effect<Snapshot, SinkError, Scope.Scope>
  readonly maintenance: Effect.Effect<Maintenance, SinkError, Scope.Scope>
  readonly pendingMigration: Effect.Effect<PendingMigration, SinkError>
  /** Runs one statement that only reads, over tables that exist, as they are or as of a point. Closing the scope stops it. */
  readonly query: (
    sql: string,
    parameters: ReadonlyArray<string>,
    asOf?: AsOf
  ) => Effect.Effect<QueryResult, SinkError | QueryError, Scope.Scope>
}

/** A place on this machine, which only this machine can write. */
export interface LocalPlace {
  readonly isLocal: true
  /** The file or the folder that the text names. */
  readonly path: string
  /** The file of the tables: the path itself, or a file in the folder. An export creates the folder. */
  readonly file: string
}

/** A place on a server, which several machines can write. */
export interface ServerPlace {
  readonly isLocal: false
  readonly server: string
  /** Why an export could not write there, or undefined if it could. Writes nothing. */
  readonly accessProblem: Effect.Effect<SinkReason | undefined, SinkError>
  /** A text that is the same for two spellings of one place, as this machine sees it. */
  readonly spelling: Effect.Effect<string>
  /** {@inheritDoc ServerPlace.spelling} As the server sees it. */
  readonly identity: Effect.Effect<string, SinkError>
  /** The statement after which the server has nothing left of removed data, except in its log, replicas and backups. */
  readonly cleaning: string
}

/** Files rendered from the tables of a destination. While personal data is removed, they are older than the rows. */
export interface RenderedFiles {
  /** Makes {@link verify} wait until the scope closes. */
  readonly lock: Effect.Effect<void, SinkError, Path.Path | Scope.Scope>
  /** Renders what has changed, and removes older files that may have removed personal data. */
  readonly renderAgain: (
    after: "prune" | "redaction",
    keepSnapshots?: number
  ) => Effect.Effect<void, SinkError, FileSystem.FileSystem | Path.Path>
  /** Removes all snapshots of a list but the last one and `keep` earlier ones. Returns the number of files. */
  readonly prune: (
    keep: number,
    isDryRun: boolean
  ) => Effect.Effect<number, SinkError, FileSystem.FileSystem | Path.Path>
  readonly verify: Effect.Effect<ReadonlyArray<FileDifference>, SinkError, FileSystem.FileSystem | Path.Path>
}
