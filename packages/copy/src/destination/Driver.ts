/** What each kind of destination defines. A kind is one {@link Driver} in its own file and an entry in `Destination.all`. */
import type { Effect, FileSystem, Layer, Path, Result, Scope } from "effect"
import type { FileDifference } from "../files/VerifyFiles.ts"
import type { Sink, SinkError, SinkReason } from "../port/Sink.ts"
import type { Dialect } from "../statement/Dialect.ts"
import type { QueryResult } from "../statement/QueryResult.ts"
import type { QueryError } from "../statement/Statement.ts"
import type { PendingMigration } from "../store/Evolution.ts"
import type { Snapshot } from "../store/Snapshot.ts"
import type { Maintenance, Reader } from "../store/Store.ts"

/** Settings that a destination of any kind may have. */
export interface DestinationSettings {
  /** The source whose copy is read, if one was chosen. Opening the copy of another one for reading or maintenance fails. */
  readonly boundTo?: string | undefined
  /** How many earlier snapshots of a list a folder of files keeps. Other destinations have none. */
  readonly keepSnapshots?: number | undefined
  /** The name of this process in a cluster, which people then see as the holder of a lock on a server. */
  readonly runner?: string | undefined
}

/** Where the text of a destination stands. Only a text from the environment may contain a password. */
export type TextPlace = "argument" | "file" | "environment"

/** A kind of destination. `D` has what its text says. */
export interface Driver<D extends { readonly _tag: string }> {
  readonly kind: D["_tag"]
  /** What the text of a destination has before its first colon. */
  readonly schemes: ReadonlyArray<string>
  /** The form of the text for people, such as `file:FOLDER`, and its options: those that most people need, and the others. */
  readonly form: readonly [text: string, options: string, moreOptions: string]
  /** Parses a text, or fails with a problem as a sentence. `rest` is what follows the colon. */
  readonly parse: (given: { readonly text: string; readonly rest: string; readonly from: TextPlace }) => Result.Result<
    D,
    string
  >
  /** Encodes a destination for a thread, if it cannot be copied: `Redacted` cannot. */
  readonly encode?: (destination: D) => { readonly _tag: D["_tag"] }
  readonly decode?: (message: unknown) => D
  /** Returns what can be done with a destination. */
  readonly operations: (destination: D & DestinationSettings) => Operations<D>
}

/** What can be done with one destination. Nothing is opened before an effect runs. */
export interface Operations<D = unknown> {
  /** The destination as text, without the password. */
  readonly shown: string
  /** The place of its tables, for messages. It has no password. */
  readonly location: string
  readonly place: LocalPlace | ServerPlace
  /** The SQL of its queries. */
  readonly dialect: Dialect
  /** The SQLite file of its tables, if they are in one. */
  readonly sqliteFile?: string
  /** The files that are rendered from its tables, if there are any. */
  readonly rendered?: RenderedFiles
  /** Returns the destination that a text in a file of this folder means: paths are relative to the folder. */
  readonly relativeTo: (folder: string) => D
  /** The sink, which runs in the calling thread. */
  readonly layer: Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path>
  readonly reader: Effect.Effect<Reader, SinkError, Scope.Scope>
  readonly snapshot: Effect.Effect<Snapshot, SinkError, Scope.Scope>
  readonly maintenance: Effect.Effect<Maintenance, SinkError, Scope.Scope>
  readonly pendingMigration: Effect.Effect<PendingMigration, SinkError>
  /** Runs one statement that only reads, over tables that exist. Closing the scope stops it. */
  readonly query: (
    sql: string,
    parameters: ReadonlyArray<string>
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

/** Files that are rendered from the tables of a destination. They are older than the rows while personal data is removed. */
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
  /** Compares the files with the tables. */
  readonly verify: Effect.Effect<ReadonlyArray<FileDifference>, SinkError, FileSystem.FileSystem | Path.Path>
}
