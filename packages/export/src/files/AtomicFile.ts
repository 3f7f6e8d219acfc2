/** Durable replacement of a small file: who reads it sees the old text or the new, also after a crash. */
import { Effect, FileSystem, Path, Stream } from "effect"
import { createHash, randomUUID } from "node:crypto"

/** Writes beside, syncs, renames, syncs the folder. The file is readable by its owner alone. */
export const replaceFile = Effect.fnUntraced(function*(target: string, text: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  // Two at once must not share it.
  const beside = `${target}.${randomUUID()}.new`
  yield* Effect.scoped(Effect.gen(function*() {
    const file = yield* fs.open(beside, { flag: "w", mode: 0o600 })
    yield* file.writeAll(new TextEncoder().encode(text))
    yield* file.sync
  })).pipe(
    Effect.andThen(fs.rename(beside, target)),
    Effect.onError(() => Effect.ignore(fs.remove(beside, { force: true })))
  )
  yield* syncFolder(path.dirname(target))
})

/** Makes the folder and those above it where they are not there, and has their names on disk. */
export const makeFolder = Effect.fnUntraced(function*(folder: string, mode: number) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const made: Array<string> = []
  for (let at = path.resolve(folder); !(yield* fs.exists(at)); at = path.dirname(at)) made.push(at)
  yield* fs.makeDirectory(folder, { recursive: true, mode })
  for (const one of made) yield* syncFolder(path.dirname(one))
})

/** Has the names of a folder's files on disk: a file that is synced is not found again without. */
export const syncFolder = Effect.fnUntraced(function*(folder: string) {
  const fs = yield* FileSystem.FileSystem
  const handle = yield* fs.open(folder, { flag: "r" })
  yield* handle.sync
}, Effect.scoped)

/** SHA-256 of a file's bytes, in lower-case hex. */
export const digestOf = Effect.fnUntraced(function*(file: string) {
  const fs = yield* FileSystem.FileSystem
  const sha256 = createHash("sha256")
  yield* Stream.runForEach(
    fs.stream(file, { chunkSize: 1024 * 1024 }),
    (bytes) => Effect.sync(() => void sha256.update(bytes))
  )
  return sha256.digest("hex")
})
