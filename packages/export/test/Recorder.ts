/** What a program asks of the file system, in order; and whether that survives a power cut at any moment. */
import { assert } from "@effect/vitest"
import { Effect, FileSystem, Layer } from "effect"
import { basename, dirname } from "node:path"

/** One call that has succeeded. */
export type Call =
  | { readonly call: "open"; readonly file: string; readonly writes: boolean }
  | { readonly call: "write" | "sync"; readonly file: string }
  | { readonly call: "rename"; readonly file: string; readonly to: string }

/** The file system that is there, which notes every call that makes, writes, syncs or renames a file. */
export const recording = (calls: Array<Call>): Layer.Layer<FileSystem.FileSystem, never, FileSystem.FileSystem> =>
  Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (fs): FileSystem.FileSystem => {
      const noted = <A, E, R>(effect: Effect.Effect<A, E, R>, call: Call) =>
        Effect.tap(effect, () => Effect.sync(() => void calls.push(call)))
      const notExpected = (method: string) => () => Effect.die(new Error(`nothing is known of ${method}`))
      return {
        ...fs,
        open: (file, options) =>
          Effect.map(
            noted(fs.open(file, options), { call: "open", file, writes: options?.flag !== "r" }),
            (real): FileSystem.File => ({
              ...real,
              sync: noted(real.sync, { call: "sync", file }),
              write: (bytes) => noted(real.write(bytes), { call: "write", file }),
              writeAll: (bytes) => noted(real.writeAll(bytes), { call: "write", file })
            })
          ),
        rename: (file, to) => noted(fs.rename(file, to), { call: "rename", file, to }),
        writeFile: notExpected("writeFile"),
        writeFileString: notExpected("writeFileString"),
        copyFile: notExpected("copyFile"),
        sink: () => assert.fail("nothing is known of sink")
      }
    })
  )

/**
 * Each file is synced after its last write and before it is renamed; its folder is synced after it is made or renamed. All of
 * that is done before another file takes a name that readers know: a `.new` one that is renamed.
 */
export const assertDurable = (calls: ReadonlyArray<Call>): void => {
  /** Files whose bytes, and whose names, are not on disk yet. */
  const unsynced = new Set<string>()
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
