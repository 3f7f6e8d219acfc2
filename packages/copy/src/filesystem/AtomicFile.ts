/** Replaces a file durably and atomically: a reader sees the old or the new content, also after a crash. */
import { Effect, FileSystem, Path, Stream } from "effect"
import { createHash, randomUUID } from "node:crypto"

/** Replaces the text of a file, as {@link replaceFileWith} does. */
export const replaceFile = (target: string, text: string) =>
  replaceFileWith(target, (file) => file.writeAll(new TextEncoder().encode(text)))

/**
 * `write` fills a temporary file, which is open and has a name. It is then synced and renamed to the target, and the folder is
 * synced. Nothing is left of it if `write` fails. Only the file's owner may read it.
 */
export const replaceFileWith = Effect.fnUntraced(function*<A, E, R>(
  target: string,
  write: (file: FileSystem.File, name: string) => Effect.Effect<A, E, R>
) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  // The name is unique, because two programs may replace the file at the same time.
  const temporary = `${target}.${randomUUID()}.new`
  const result = yield* Effect.scoped(Effect.gen(function*() {
    const file = yield* fs.open(temporary, { flag: "w", mode: 0o600 })
    const written = yield* write(file, temporary)
    yield* file.sync
    return written
  })).pipe(
    Effect.tap(() => fs.rename(temporary, target)),
    Effect.onError(() => Effect.ignore(fs.remove(temporary, { force: true })))
  )
  yield* syncFolder(path.dirname(target))
  return result
})

/** Creates the folder and its missing parents, and syncs their names to disk. */
export const makeFolder = Effect.fnUntraced(function*(folder: string, mode: number) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const missing: Array<string> = []
  for (let at = path.resolve(folder); !(yield* fs.exists(at)); at = path.dirname(at)) missing.push(at)
  // Node's own recursion never ends if a file system such as /proc answers ENOENT for a folder that cannot be created.
  for (const created of missing.toReversed()) {
    yield* Effect.catchIf(
      fs.makeDirectory(created, { mode }),
      // Another program has created it.
      ({ reason }) => reason._tag === "AlreadyExists",
      () => Effect.void
    )
  }
  // Fails if there is a file in its place.
  yield* fs.makeDirectory(folder, { recursive: true, mode })
  for (const created of missing) yield* syncFolder(path.dirname(created))
})

/** Syncs the names of a folder's files to disk. Without this, a crash may lose the name of a synced file. */
export const syncFolder = Effect.fnUntraced(function*(folder: string) {
  const fs = yield* FileSystem.FileSystem
  const handle = yield* fs.open(folder, { flag: "r" })
  yield* handle.sync
}, Effect.scoped)

/** Returns the SHA-256 of a file's bytes, in lower-case hex. */
export const digestOf = Effect.fnUntraced(function*(file: string) {
  const fs = yield* FileSystem.FileSystem
  const sha256 = createHash("sha256")
  yield* Stream.runForEach(
    fs.stream(file, { chunkSize: 1024 * 1024 }),
    (bytes) => Effect.sync(() => void sha256.update(bytes))
  )
  return sha256.digest("hex")
})
