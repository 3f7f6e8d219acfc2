/**
 * A destination: what its text says, as a value, and what can be done with it. To add a kind, write its {@link Driver}
 * in a file of this folder, and add it to {@link all}. Nothing else asks for the kind of a destination.
 */
import { Data, Effect, type FileSystem, Layer, type Path, Result, type Scope, type Stdio } from "effect"
import { existsSync, statSync } from "node:fs"
import { extname } from "node:path"
import { NotADestination, OtherSource, type Sink, SinkError } from "../port/Sink.ts"
import { type PendingMigration, pendingMigration as pendingIn } from "../store/Evolution.ts"
import { earlierVersion, renamedVersion } from "../store/Migrations.ts"
import type { Snapshot } from "../store/Snapshot.ts"
import type { Maintenance, Reader } from "../store/Store.ts"
import * as ThreadedSink from "../thread/ThreadedSink.ts"
import { suggestionFor } from "./DestinationPath.ts"
import type { DestinationSettings, Driver, Operations, TextPlace } from "./Driver.ts"
import { files } from "./FilesDriver.ts"
import { postgres } from "./PostgresDriver.ts"
import { sqlite } from "./SqliteDriver.ts"
import * as StdoutSink from "./StdoutSink.ts"

export { isCurrent } from "../store/Evolution.ts"

/** All kinds of destinations that store records. */
export const all = [sqlite, postgres, files] as const

type DestinationOf<D> = D extends Driver<infer Parsed> ? Parsed : never

/** A destination that stores the exported records. */
export type StoredDestination = DestinationOf<typeof all[number]> & DestinationSettings

/** A stored destination, or stdout. */
export type Destination = StoredDestination | { readonly _tag: "Stdout" }

/** Whether the destination stores records. */
export const isStored = (destination: Destination): destination is StoredDestination => destination._tag !== "Stdout"

/** The text is not a valid destination. */
export class DestinationError extends Data.TaggedError("DestinationError")<{ readonly problem: string }> {
  override get message() {
    return `${this.problem} A destination is ${all.map(({ form }) => form.join("")).join(", ")} or - (stdout).`
  }
}

/** The forms of a destination that stores records, for help. `options`: with the options that most people need. */
export const forms = (detail: "plain" | "options"): string =>
  either(all.map(({ form: [text, options] }) => detail === "plain" ? text : `${text}${options}`))

/** What a destination that stores records begins with, for messages. */
export const beginnings: string = either(all.map(({ form: [text] }) => text.replace(/[A-Z].*/, "")))

function either(texts: ReadonlyArray<string>): string {
  return `${texts.slice(0, -1).join(", ")} or ${texts.at(-1)}`
}

const driverIn = (text: string) => {
  const [, scheme = ""] = /^([a-z]+):/.exec(text) ?? []
  return all.find(({ schemes }) => schemes.includes(scheme))
}

/** Whether the text begins as a destination that stores records. Any other text may be a secret. */
export const hasScheme = (text: string): boolean => driverIn(text) !== undefined

/** Parses a text such as `sqlite:./payments.db`. */
export const parse = (text: string, from: TextPlace = "argument"): Effect.Effect<Destination, DestinationError> => {
  if (text === "-") return Effect.succeed({ _tag: "Stdout" })
  const rest = text.slice(text.indexOf(":") + 1)
  const parsed: Result.Result<StoredDestination, string> = driverIn(text)?.parse({ text, rest, from }) ??
    Result.fail(suggestionFor(text))
  return Effect.mapError(Effect.fromResult(parsed), (problem) => new DestinationError({ problem }))
}

const driverOf = ({ _tag }: { readonly _tag: string }): Driver<StoredDestination> =>
  all.find(({ kind }) => kind === _tag) as unknown as Driver<StoredDestination> // the driver of this kind gets only its own

/** Returns what can be done with a destination. */
export const operations = (destination: StoredDestination): Operations<StoredDestination> =>
  driverOf(destination).operations(destination)

/** Returns the destination as text, without the password. */
export const shown = (destination: StoredDestination): string => operations(destination).shown

/** Encodes a destination as a message, which can be copied. A password is plain text in it. */
export const toMessage = (destination: StoredDestination): { readonly _tag: string } =>
  driverOf(destination).encode?.(destination) ?? destination

/** Decodes a destination. */
export const fromMessage = (message: unknown): StoredDestination => {
  const destination = message as StoredDestination // `toMessage` leaves its tag, and changes nothing else without `decode`
  return driverOf(destination).decode?.(message) ?? destination
}

/** The code of the thread. It is next to this file: as a source, in the package, and in a program's bundle. */
const threadFile = new URL(`./SinkThread${extname(new URL(import.meta.url).pathname)}`, import.meta.url)

/**
 * The sink of a destination. The sink of a stored destination runs in a worker thread, so that writing overlaps with
 * reading. If a bundler has left out the code of the thread, it runs in the calling one.
 */
export const layer = (
  destination: Destination
): Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path | Stdio.Stdio> =>
  !isStored(destination)
    ? StdoutSink.layer
    : existsSync(threadFile)
    ? ThreadedSink.layer({ file: threadFile, message: toMessage(destination), location: shown(destination) })
    : layerInThisThread(destination)

/** The sink of a stored destination. It runs in the calling thread. */
export const layerInThisThread = (
  destination: StoredDestination
): Layer.Layer<Sink, SinkError, FileSystem.FileSystem | Path.Path> => operations(destination).layer

/** Opens a reader of an existing destination's database, until the scope closes. */
export const reader = (destination: StoredDestination): Effect.Effect<Reader, SinkError, Scope.Scope> =>
  ofChosenSource(destination, operations(destination).reader)

/** Opens a view of an existing destination that later commits do not change, until the scope closes. */
export const snapshot = (destination: StoredDestination): Effect.Effect<Snapshot, SinkError, Scope.Scope> =>
  ofChosenSource(destination, operations(destination).snapshot)

/**
 * Opens an existing destination for maintenance, until the scope closes. It needs no lock of a list. Opening writes
 * nothing, and in PostgreSQL needs no other privilege than {@link reader}.
 */
export const maintenance = (destination: StoredDestination): Effect.Effect<Maintenance, SinkError, Scope.Scope> =>
  ofChosenSource(destination, operations(destination).maintenance)

/** Fails if the destination was chosen by its source, but has the copy of another one. */
const ofChosenSource = <A extends Pick<Reader, "location" | "source">>(
  { boundTo }: StoredDestination,
  opening: Effect.Effect<A, SinkError, Scope.Scope>
) => boundTo === undefined ? opening : Effect.tap(opening, (opened) => requireSource(opened, boundTo))

/**
 * Fails if an open destination belongs to another source than the given one. Undefined: the source is not known.
 * Returns the source of the destination.
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

/**
 * Returns a text that is the same for two spellings of one existing destination, as the file system or the server knows
 * it. Undefined if it does not exist or cannot be opened.
 */
export const identityOf = (destination: StoredDestination): Effect.Effect<string | undefined> => {
  const { place } = operations(destination)
  if (!place.isLocal) return Effect.orElseSucceed(place.identity, () => undefined)
  return Effect.sync(() => {
    const stats = statSync(place.file, { bigint: true, throwIfNoEntry: false })
    return stats === undefined ? undefined : JSON.stringify(["file", String(stats.dev), String(stats.ino)])
  }).pipe(Effect.catchCause(() => Effect.undefined))
}

/** Whether an error of opening a destination says that there is none yet, so that an export would create it. */
export const isAbsent = (destination: StoredDestination, { reason }: SinkError): boolean => {
  const { place } = operations(destination)
  return (reason._tag === "NotADestination" && reason.isEmpty === true) ||
    // An export creates the folder of files, but not the folder of a database.
    (place.isLocal && place.path !== place.file && reason._tag === "Failed" && reason.code === "ENOENT")
}

/**
 * Returns what {@link migrate} would do. Writes nothing. A destination that does not exist has version 0. A destination
 * of another program, or of a later version, fails.
 */
export const pendingMigration = (destination: StoredDestination): Effect.Effect<PendingMigration, SinkError> =>
  Effect.catch(
    operations(destination).pendingMigration,
    (error) => isAbsent(destination, error) ? Effect.succeed(pendingIn(0, undefined)) : Effect.fail(error)
  )

/** Creates the tables of a destination, or changes those of an earlier version into those of this one. */
export const migrate = (
  destination: StoredDestination
): Effect.Effect<void, SinkError, FileSystem.FileSystem | Path.Path> =>
  Effect.asVoid(Effect.scoped(Layer.build(layerInThisThread(destination))))

/** Fails if the tables are of an earlier version, which no erasure and no rewrite changes. Writes nothing. */
export const requireMigrated = Effect.fnUntraced(function*(
  destination: StoredDestination,
  { location }: Pick<Reader, "location">
): Effect.fn.Return<void, SinkError> {
  const { from } = yield* pendingMigration(destination)
  if (from < renamedVersion) {
    return yield* new SinkError({ location, reason: new NotADestination({ problem: earlierVersion }) })
  }
})

/**
 * Begins an erasure or a rewrite, during which rendered files are older than the rows: makes `verify` wait until the
 * scope closes. Returns the effect that removes personal data from these files, too, after it was removed from the
 * tables.
 */
export const beginRedaction = Effect.fnUntraced(function*(destination: StoredDestination): Effect.fn.Return<
  Effect.Effect<void, SinkError, FileSystem.FileSystem | Path.Path>,
  SinkError,
  Path.Path | Scope.Scope
> {
  const { rendered } = operations(destination)
  if (rendered === undefined) return Effect.void
  yield* rendered.lock
  return rendered.renderAgain("redaction")
})
