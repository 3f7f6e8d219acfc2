/** A file system of a given size, where this process may mount one. */
import { Console, Effect } from "effect"
import { spawnSync } from "node:child_process"
import { rmSync, statfsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryFolder } from "./Folder.ts"

const mount = (...args: ReadonlyArray<string>) => {
  const { error, status, stderr } = spawnSync("mount", args, { encoding: "utf8" })
  return status === 0 ? undefined : error?.message ?? stderr.trim()
}

/** A folder that is all of it, how it is made larger, filled but for so much, and freed of that; undefined, with a word on why, where none can be mounted. */
export const smallFileSystem = (kibibytes: number) =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const problem = mount("-t", "tmpfs", "-o", `size=${kibibytes}k`, "tmpfs", folder)
    if (problem !== undefined) {
      yield* Console.log(`no small file system: ${problem}`)
      return undefined
    }
    yield* Effect.addFinalizer(() => Effect.sync(() => spawnSync("umount", ["-l", folder])))
    const filler = join(folder, "filler")
    return {
      folder,
      grow: Effect.sync(() => mount("-o", "remount,size=256m", folder)),
      fill: (spareKibibytes: number) =>
        Effect.sync(() => {
          const { bavail, bsize } = statfsSync(folder)
          writeFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - spareKibibytes * 1024)))
        }),
      free: Effect.sync(() => rmSync(filler, { force: true }))
    }
  })
