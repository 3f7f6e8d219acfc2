/** Records the calls to a file system, and checks that their effects survive a power failure at any moment. */
import { assert } from "@effect/vitest"
import { Effect, FileSystem, Layer } from "effect"
import { basename, dirname } from "node:path"

/** A successful call. */
export type Call =
  | { readonly call: "open"; readonly file: string; readonly writes: boolean }
  | { readonly call: "write" | "sync"; readonly file: string }
  | { readonly call: "rename"; readonly file: string; readonly to: string }

/** Records every call that creates, writes, syncs or renames a file. */
export const recording = (calls: Array<Call>): Layer.Layer<FileSystem.FileSystem, never, FileSystem.FileSystem> =>
  Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (fs): FileSystem.FileSystem => {
      const recorded = <A, E, R>(effect: Effect.Effect<A, E, R>, call: Call) =>
        Effect.tap(effect, () => Effect.sync(() => void calls.push(call)))
      const unsupported = (method: string) => () => Effect.die(new Error(`${method} is not recorded`))
      return {
        ...fs,
        open: (file, options) =>
          Effect.map(
            recorded(fs.open(file, options), { call: "open", file, writes: options?.flag !== "r" }),
            (real): FileSystem.File => ({
              ...real,
              sync: recorded(real.sync, { call: "sync", file }),
              write: (bytes) => recorded(real.write(bytes), { call: "write", file }),
              writeAll: (bytes) => recorded(real.writeAll(bytes), { call: "write", file })
            })
          ),
        rename: (file, to) => recorded(fs.rename(file, to), { call: "rename", file, to }),
        writeFile: unsupported("writeFile"),
        writeFileString: unsupported("writeFileString"),
        copyFile: unsupported("copyFile"),
        sink: () => assert.fail("sink is not recorded")
      }
    })
  )

/**
 * Asserts that each file is synced after its last write and before it is renamed. Its folder must be synced after the
 * file is created or renamed. All of that must be done before a `.new` file is renamed to a name that readers use.
 */
export const assertDurable = (calls: ReadonlyArray<Call>): void => {
  /** Files whose bytes are not on disk yet. */
  const unsynced = new Set<string>()
  /** Files whose names are not on disk yet. */
  const unnamed = new Set<string>()
  const inOrder = calls.map((call) => `${call.call} ${basename(call.file)}`).join("\n")
  for (const call of calls) {
    switch (call.call) {
      case "open":
        if (call.writes) {
          unsynced.add(call.file)
          unnamed.add(call.file)
        }
        break
      case "write":
        unsynced.add(call.file)
        break
      case "sync":
        unsynced.delete(call.file)
        for (const file of unnamed) if (dirname(file) === call.file && !unsynced.has(file)) unnamed.delete(file)
        break
      case "rename": {
        assert.deepStrictEqual([...unsynced], [], `not synced before a rename:\n${inOrder}`)
        unnamed.delete(call.file)
        assert.deepStrictEqual([...unnamed], [], `its folder is not synced before a rename:\n${inOrder}`)
        unnamed.add(call.to)
      }
    }
  }
  assert.deepStrictEqual([[...unsynced], [...unnamed]], [[], []], `not synced at the end:\n${inOrder}`)
}
