/** A file system of a given size, if this process may mount one. */
import { Console, Effect } from "effect"
import { rmSync, statfsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryFolder } from "./Folder.ts"
import { spawnSync } from "./TestProcess.ts"

const mount = (...args: ReadonlyArray<string>) => {
  const { error, status, stderr } = spawnSync("mount", args, { encoding: "utf8" })
  return status === 0 ? undefined : error?.message ?? stderr.trim()
}

/**
 * Mounts a file system of the given size. Returns its folder, and functions to enlarge it, to fill it except for some
 * space, and to free that space. If mounting fails, prints why and returns undefined.
 */
export const smallFileSystem = (kibibytes: number) =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const problem = mount("-t", "tmpfs", "-o", `size=${kibibytes}k`, "tmpfs", folder)
    if (problem !== undefined) {
      yield* Console.log(`cannot mount a small file system: ${problem}`)
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
