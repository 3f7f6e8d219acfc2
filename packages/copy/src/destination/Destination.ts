/** The sink of each destination. */
import { Effect, type FileSystem, Layer, type Path, type Scope, type Stdio } from "effect"
import { statSync } from "node:fs"
import { join } from "node:path"
import { prune, type Pruned, type Retention } from "../ask/Retention.ts"
import * as FileSink from "../files/FileSink.ts"
import { NotADestination, OtherSource, type Sink, SinkError } from "../port/Sink.ts"
import * as SqliteSink from "../sqlite/SqliteSink.ts"
import { openSnapshot } from "../sqlite/SqliteSnapshot.ts"
import { openMaintenance, openReader, pendingMigration as pendingInFile } from "../sqlite/SqliteStore.ts"
import { type PendingMigration, pendingMigration as pendingIn } from "../store/Evolution.ts"
import { earlierVersion, generationVersion } from "../store/Migrations.ts"
import type { Snapshot } from "../store/Snapshot.ts"
import type { Maintenance, Reader } from "../store/Store.ts"
import * as ThreadedSink from "../thread/ThreadedSink.ts"
import type { Destination, StoredDestination } from "./DestinationUrl.ts"
import * as StdoutSink from "./StdoutSink.ts"

export { type Destination, DestinationError, parse, shown, type StoredDestination } from "./DestinationUrl.ts"

export { isCurrent } from "../store/Evolution.ts"

/** Loads the driver only when a destination needs it. */
const postgres = Effect.promise(() => import("../postgres/PostgresSink.ts"))

/** The sink of a destination. The sink of a stored destination runs in a worker thread, so that writing overlaps with reading. */
export const layer = (
  destination: Destination
): Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path | Stdio.Stdio> =>
  destination._tag === "Stdout"
    ? StdoutSink.layer
    : ThreadedSink.isAvailable()
    ? ThreadedSink.layer(destination)
    : layerInThisThread(destination)

/** The sink of a stored destination. It runs in the calling thread. */
export const layerInThisThread = (
  destination: StoredDestination
): Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path> => {
  switch (destination._tag) {
    case "Sqlite":
      return SqliteSink.layer(destination.file)
    case "Postgres":
      return Layer.unwrap(
        Effect.map(postgres, (sink) => sink.layer(destination.url, undefined, undefined, destination.runner))
      )
    case "Files":
      return FileSink.layer(destination.folder, destination.format, undefined, destination.keepSnapshots)
  }
}

/** Opens a reader of an existing destination's database, until the scope closes. */
export const reader = (destination: StoredDestination): Effect.Effect<Reader, SinkError, Scope.Scope> =>
  ofChosenSource(destination, openedReader(destination))

const openedReader = (destination: StoredDestination): Effect.Effect<Reader, SinkError, Scope.Scope> => {
  switch (destination._tag) {
    case "Sqlite":
      return openReader(destination.file, `sqlite:${destination.file}`)
    case "Postgres":
      return Effect.flatMap(postgres, (sink) => sink.reader(destination.url))
    case "Files":
      return openReader(join(destination.folder, FileSink.copyFile), `file:${destination.folder}`)
  }
}

/**
 * Returns a text that is the same for two spellings of one existing destination, as the file system or the server knows it.
 * Undefined if it does not exist or cannot be opened.
 */
export const identityOf = (destination: StoredDestination): Effect.Effect<string | undefined> => {
  const ofFile = (path: string) =>
    Effect.sync(() => {
      const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
      return stats === undefined ? undefined : JSON.stringify(["file", String(stats.dev), String(stats.ino)])
    }).pipe(Effect.catchCause(() => Effect.undefined))
  switch (destination._tag) {
    case "Sqlite":
      return ofFile(destination.file)
    case "Files":
      return ofFile(join(destination.folder, FileSink.copyFile))
    case "Postgres":
      return Effect.promise(() => import("../postgres/PostgresIdentity.ts")).pipe(
        Effect.flatMap(({ identityOf: identityOfSchema }) => identityOfSchema(destination.url)),
        Effect.orElseSucceed(() => undefined)
      )
  }
}

/**
 * Fails if an open destination belongs to another source than the given one. Undefined: the source is not known. Returns the
 * source of the destination.
 */
export const requireSource = Effect.fnUntraced(function*(
  { location, source }: Pick<Reader, "location" | "source">,
  given: string | undefined
): Effect.fn.Return<string | undefined, SinkError> {
  const bound = yield* source
  return bound === undefined || given === undefined || bound === given
    ? bound
    : yield* new SinkError({ location, reason: new OtherSource({ bound, given }) })
})

/** Fails if the destination was chosen by its source, but has the copy of another one. */
const ofChosenSource = <A extends Pick<Reader, "location" | "source">>(
  { boundTo }: StoredDestination,
  opening: Effect.Effect<A, SinkError, Scope.Scope>
) => boundTo === undefined ? opening : Effect.tap(opening, (opened) => requireSource(opened, boundTo))

/** Fails if the tables of a destination are of an earlier version, which no erasure and no rewrite changes. Writes nothing. */
export const requireMigrated = Effect.fnUntraced(function*(
  destination: StoredDestination,
  { location }: Pick<Reader, "location">
): Effect.fn.Return<void, SinkError> {
  const { from } = yield* pendingMigration(destination)
  if (from < generationVersion) {
    return yield* new SinkError({ location, reason: new NotADestination({ problem: earlierVersion }) })
  }
})

/**
 * Makes `verify` wait until the scope closes, in which an erasure or a rewrite runs and {@link publishAgain}: the files of a folder
 * are older than its rows meanwhile. Other destinations are consistent after each transaction.
 */
export const lockForRedaction = (
  destination: StoredDestination
): Effect.Effect<void, SinkError, Path.Path | Scope.Scope> =>
  destination._tag === "Files" ? FileSink.lockForRedaction(destination.folder) : Effect.void

/**
 * Removes personal data from what is made from the tables of a destination, after it was removed from the tables: renders files
 * again, and removes older ones.
 */
export const publishAgain = (
  destination: StoredDestination
): Effect.Effect<void, SinkError, FileSystem.FileSystem | Path.Path> =>
  destination._tag === "Files"
    ? FileSink.renderAgain(destination.folder, destination.format, destination.keepSnapshots)
    : Effect.void

/** Loads the driver only when a destination needs it. */
const postgresSnapshot = Effect.promise(() => import("../postgres/PostgresSnapshot.ts"))

/** Opens a view of an existing destination that later commits do not change, until the scope closes. */
export const snapshot = (destination: StoredDestination): Effect.Effect<Snapshot, SinkError, Scope.Scope> =>
  ofChosenSource(destination, openedSnapshot(destination))

const openedSnapshot = (destination: StoredDestination): Effect.Effect<Snapshot, SinkError, Scope.Scope> => {
  switch (destination._tag) {
    case "Sqlite":
      return openSnapshot(destination.file, `sqlite:${destination.file}`)
    case "Postgres":
      return Effect.flatMap(postgresSnapshot, (module) => module.openSnapshot(destination.url))
    case "Files":
      return openSnapshot(join(destination.folder, FileSink.copyFile), `file:${destination.folder}`)
  }
}

/**
 * Opens an existing destination for maintenance, until the scope closes. It needs no lock of a list. Opening writes nothing, and
 * in PostgreSQL needs no other privilege than {@link reader}.
 */
export const maintenance = (destination: StoredDestination): Effect.Effect<Maintenance, SinkError, Scope.Scope> =>
  ofChosenSource(destination, openedMaintenance(destination))

const openedMaintenance = (destination: StoredDestination): Effect.Effect<Maintenance, SinkError, Scope.Scope> => {
  switch (destination._tag) {
    case "Sqlite":
      return openMaintenance(destination.file, `sqlite:${destination.file}`)
    case "Postgres":
      return Effect.flatMap(postgres, (sink) => sink.maintenance(destination.url))
    case "Files":
      return openMaintenance(join(destination.folder, FileSink.copyFile), `file:${destination.folder}`)
  }
}

/**
 * Returns what {@link migrate} would do. Writes nothing. A destination that does not exist has version 0. A destination of another
 * program, or of a later version, fails.
 */
export const pendingMigration = (destination: StoredDestination): Effect.Effect<PendingMigration, SinkError> => {
  const inFile = (file: string, location: string) =>
    Effect.catch(pendingInFile(file, location), (error) => {
      const { reason } = error
      return (reason._tag === "NotADestination" && reason.isEmpty === true) ||
          // A migration creates the folder of files, but not the folder of a database.
          (destination._tag === "Files" && reason._tag === "Failed" && reason.code === "ENOENT")
        ? Effect.succeed(pendingIn(0, undefined))
        : Effect.fail(error)
    })
  switch (destination._tag) {
    case "Sqlite":
      return inFile(destination.file, `sqlite:${destination.file}`)
    case "Postgres":
      return Effect.flatMap(postgres, (sink) => sink.pendingMigration(destination.url))
    case "Files":
      return inFile(join(destination.folder, FileSink.copyFile), `file:${destination.folder}`)
  }
}

/** Creates the tables of a destination, or changes those of an earlier version into those of this one. */
export const migrate = (
  destination: StoredDestination
): Effect.Effect<void, SinkError, FileSystem.FileSystem | Path.Path> =>
  Effect.asVoid(Effect.scoped(Layer.build(layerInThisThread(destination))))

/** What to keep of a destination. */
export interface DestinationRetention extends Retention {
  /** How many earlier snapshots of a list a folder of files keeps. Other destinations have none. */
  readonly keepSnapshots?: number | undefined
}

/**
 * Removes what is older from a destination, as {@link prune} does. In a folder of files, it then renders the lists again whose rows
 * were removed.
 */
export const pruneAll = Effect.fnUntraced(function*(
  destination: StoredDestination,
  { keepSnapshots, ...retention }: DestinationRetention
): Effect.fn.Return<
  Pruned & { readonly snapshots: { readonly removedFiles: number } },
  SinkError,
  FileSystem.FileSystem | Path.Path
> {
  const pruned = yield* Effect.scoped(Effect.flatMap(maintenance(destination), (opened) => prune(opened, retention)))
  if (destination._tag !== "Files") return { ...pruned, snapshots: { removedFiles: 0 } }
  const { folder, format } = destination
  const removedFiles = keepSnapshots === undefined
    ? 0
    : yield* FileSink.pruneSnapshots(folder, keepSnapshots, retention.isDryRun ?? false)
  // An earlier run may have been killed after it removed rows and before it rendered.
  if (retention.keepMissing !== undefined && retention.isDryRun !== true) {
    yield* FileSink.renderAgain(folder, format, keepSnapshots ?? destination.keepSnapshots, "prune")
  }
  return { ...pruned, snapshots: { removedFiles } }
})
