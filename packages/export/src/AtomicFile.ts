/** Durable replacement of a small file: who reads it sees the old text or the new, also after a crash. */
import { Effect, FileSystem, Path } from "effect"

/** Writes beside, syncs, renames, syncs the folder. The file is readable by its owner alone. */
export const replaceFile = Effect.fnUntraced(function*(target: string, text: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const beside = `${target}.new`
  const file = yield* fs.open(beside, { flag: "w", mode: 0o600 })
  yield* file.writeAll(new TextEncoder().encode(text))
  yield* file.sync
  yield* fs.rename(beside, target)
  const folder = yield* fs.open(path.dirname(target), { flag: "r" })
  yield* folder.sync
}, Effect.scoped)
