/** Only their owner may read the files that an export creates, even with the umask 000. */
import { assert, describe, it } from "@effect/vitest"
import { moduleOf, startChild } from "@payments/testkit/ChildProcess"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { Effect } from "effect"
import { chmodSync, lstatSync, mkdirSync, readdirSync, symlinkSync } from "node:fs"
import { join } from "node:path"

/** Exports all lists with the umask 000, then starts a second export that hangs after its first commit. */
const exporting = (to: string) =>
  startChild(`
    import * as NodeServices from "@effect/platform-node/NodeServices"
    import { layerTest } from "@payments/core/testing"
    import { Effect, Layer } from "effect"
    import * as Destination from ${moduleOf("destination/Destination.ts")}
    import { scan, scanAll } from ${moduleOf("scan/Scan.ts")}
    process.umask(0)
    const records = (name) => Array.from({ length: 30 }, (_, index) => ({ id: name + index, amount: index }))
    const lists = Object.fromEntries(["payoutRequests", "payinSources", "invoices"].map((name) => [name, records(name)]))
    const layer = Layer.unwrap(Effect.map(Destination.parse(${JSON.stringify(to)}), Destination.layer))
    const withLayers = (effect) => effect.pipe(Effect.provide(Layer.merge(layer, layerTest(lists))))
    const first = withLayers(scanAll(Object.keys(lists))).pipe(
      Effect.tap((outcomes) => outcomes.some(({ result }) => result._tag === "Failure") ? Effect.die(outcomes) : Effect.void)
    )
    const onEvent = ({ _tag }) =>
      _tag === "Committed" ? Effect.andThen(Effect.sync(() => console.log("committed")), Effect.never) : Effect.void
    await Effect.runPromise(
      first.pipe(Effect.andThen(withLayers(scan("invoices", { onEvent }))), Effect.provide(NodeServices.layer))
    )`)

/** Returns the modes of everything in the folder except symbolic links. */
const modesIn = (folder: string): ReadonlyArray<readonly [path: string, mode: string]> =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).flatMap((name) => {
    const stats = lstatSync(join(folder, name))
    if (stats.isSymbolicLink()) return []
    return [[name, `${stats.isDirectory() ? "folder" : "file"} ${(stats.mode & 0o777).toString(8)}`] as const]
  })

describe("an export with the umask 000", () => {
  it.live.each(
    [
      ["a new file", "sqlite:", "x.db", () => {}],
      ["a dangling link", "sqlite:", "link.db", (folder: string) => symlinkSync("x.db", join(folder, "link.db"))],
      ["a link to a dangling link", "sqlite:", "link.db", (folder: string) => {
        mkdirSync(join(folder, "inner"), { mode: 0o700 })
        symlinkSync(join(folder, "inner", "next.db"), join(folder, "link.db"))
        symlinkSync("../x.db", join(folder, "inner", "next.db"))
      }],
      ["a new folder in a new folder", "file:", "outer/inner", () => {}],
      ["a folder whose copy is a dangling link", "file:", "files", (folder: string) => {
        mkdirSync(join(folder, "files"), { mode: 0o700 })
        symlinkSync("../x.db", join(folder, "files", "copy.db"))
      }]
    ] as const
  )("into %s creates nothing that other users may read", ([, scheme, name, prepare]) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      prepare(folder)
      const child = yield* exporting(`${scheme}${join(folder, name)}`)
      assert.strictEqual(child.firstLine, "committed")
      const modes = modesIn(folder)
      assert.includeMembers(
        modes.map(([path]) => path.slice(path.lastIndexOf(".") + 1).replace(/^.*-/, "")),
        scheme === "sqlite:" ? ["db", "wal", "shm", "lock"] : ["wal", "shm", "lock", "json", "ndjson"]
      )
      assert.deepStrictEqual(modes.filter(([, mode]) => !["file 600", "folder 700"].includes(mode)), [])
    }).pipe(Effect.scoped))

  it.live("keeps the permissions of a file that its owner created", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "x.db")
      execute(file, "VACUUM")
      chmodSync(file, 0o640)
      yield* exporting(`sqlite:${file}`)
      const modes = new Map(modesIn(folder))
      assert.deepStrictEqual([modes.get("x.db"), modes.get("x.db-wal")], ["file 640", "file 640"])
    }).pipe(Effect.scoped))
})
