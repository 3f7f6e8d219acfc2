import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { manifestOf, textsOf } from "@payments/testkit/RenderedFiles"
import { Effect, FileSystem, Layer } from "effect"
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { basename, join } from "node:path"
import * as FileSink from "../../src/files/FileSink.ts"
import type { Format } from "../../src/files/render/Format.ts"
import { scan, scanAll, verifyFiles } from "../../src/index.ts"

const canary = "canary@example.org"
const csv: Format = { format: "csv", compress: "none", formulas: "keep" }

/** Ten records of each list. One record of the payout requests and of the payin sources has the canary. */
const recordsAt = (version: number) => {
  const of = (prefix: string) =>
    Array.from({ length: 10 }, (_, index) => ({
      id: `${prefix}${index}`,
      reference: `version ${version}`,
      customerDetails: { email: index === 3 ? canary : "other@example.org" }
    }))
  return { payoutRequests: of("a"), payinSources: of("b"), invoices: [{ id: "c", description: `version ${version}` }] }
}

/** Exports three versions of the records, so that the folder has every older file that is kept for readers. */
const exportVersions = Effect.fnUntraced(function*(folder: string, format: Format = csv) {
  for (const version of [1, 2, 3]) {
    yield* scanAll(Lists.all.map(({ name }) => name)).pipe(
      Effect.provide(Layer.merge(FileSink.layer(folder, format), layerTest(recordsAt(version))))
    )
  }
})

/** Removes the canary from the rows of the copy, as one transaction of an erasure does. */
const remove = (folder: string) =>
  execute(
    join(folder, FileSink.copyFile),
    ["payout-requests", "payin-sources"].map((list) =>
      `UPDATE ${list.replace("-", "_")} SET raw = json_remove(raw, '$.customerDetails'), customer_details_email = NULL
        WHERE customer_details_email = '${canary}';
      UPDATE revisions SET revision = revision + 1 WHERE list = '${list}';`
    ).join("\n").replace(/^/, "BEGIN IMMEDIATE;\n") +
      "UPDATE personal SET edition = edition + 1; COMMIT;"
  )

const otherThanCopy = (folder: string) => readdirSync(folder).filter((name) => !name.startsWith(FileSink.copyFile))

/** The files in the folder, except the copy, that have the canary. */
const filesWithCanary = (folder: string) =>
  otherThanCopy(folder).filter((name) => readFileSync(join(folder, name)).includes(canary))

/** Asserts that the folder has nothing but the current files and the manifest, and that they have no canary. */
const assertRemoved = Effect.fnUntraced(function*(folder: string, what: string) {
  assert.deepStrictEqual(filesWithCanary(folder), [], what)
  const named = Object.values(manifestOf(folder).lists).flatMap(({ files }) => files.map(({ file }) => file))
  const names = otherThanCopy(folder)
  const old = names.filter((name) => name !== "manifest.json" && !named.includes(name))
  // The list without a removed value has a current file that is older, and no other.
  assert.deepStrictEqual(old, [], what)
  const copy = join(folder, FileSink.copyFile)
  assert.sameMembers(rowsOf(copy, "SELECT file FROM rendered").map(({ file }) => String(file)), named, what)
  assert.deepStrictEqual(rowsOf(copy, "SELECT 1 FROM manifest WHERE previous IS NOT NULL"), [], what)
  assert.deepStrictEqual(yield* verifyFiles(folder), [], what)
})

const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices>) =>
  Effect.flatMap(temporaryFolder, (root) => use(join(root, "files"))).pipe(
    Effect.scoped,
    Effect.provide(NodeServices.layer)
  )

/** A file system that runs an effect before each call that changes a file. */
const layerBefore = (before: Effect.Effect<void>): Layer.Layer<FileSystem.FileSystem, never, FileSystem.FileSystem> =>
  Layer.effect(
    FileSystem.FileSystem,
    Effect.map(FileSystem.FileSystem, (fs): FileSystem.FileSystem => ({
      ...fs,
      open: (path, options) =>
        Effect.andThen(
          before,
          Effect.map(fs.open(path, options), (file): FileSystem.File => ({
            ...file,
            sync: Effect.andThen(before, file.sync),
            writeAll: (bytes) => Effect.andThen(before, file.writeAll(bytes))
          }))
        ),
      remove: (path, options) => Effect.andThen(before, fs.remove(path, options)),
      rename: (from, to) => Effect.andThen(before, fs.rename(from, to))
    }))
  )

describe("a folder of whose copy personal data was removed", () => {
  it.live("has no file with that data any more, in the formats that its lists have", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* exportVersions(folder)
        assert.isAbove(filesWithCanary(folder).length, 3)
        const before = manifestOf(folder).lists
        remove(folder)
        yield* FileSink.renderAgain(folder, FileSink.defaultFormat)
        yield* assertRemoved(folder, "rendered again")
        const { lists } = manifestOf(folder)
        assert.deepStrictEqual(
          Lists.all.map(({ label }) => `${lists[label]?.format} ${lists[label]?.formulas}`),
          Lists.all.map(() => "csv keep")
        )
        // The rows of the invoices did not change, so their current file stays.
        assert.deepStrictEqual(lists["invoices"]?.files, before["invoices"]?.files)
        const names = otherThanCopy(folder)
        yield* FileSink.renderAgain(folder, FileSink.defaultFormat)
        assert.deepStrictEqual(otherThanCopy(folder), names, "nothing is left to do")
      })
    ))

  it.live("is rendered again without a certificate if the last scan of a list was interrupted", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* exportVersions(folder)
        yield* scan("payoutRequests", {
          limit: 4,
          onEvent: ({ _tag }) => _tag === "Committed" ? Effect.interrupt : Effect.void
        }).pipe(
          Effect.provide(Layer.merge(FileSink.layer(folder, csv), layerTest(recordsAt(4)))),
          Effect.exit
        )
        const states = rowsOf(
          join(folder, FileSink.copyFile),
          `SELECT state FROM scans WHERE pages > 0 AND scan > ${3 * Lists.all.length}`
        )
        assert.deepStrictEqual(states, [{ state: "running" }])
        remove(folder)
        yield* FileSink.renderAgain(folder, csv)
        yield* assertRemoved(folder, "rendered again")
        const { lists } = manifestOf(folder)
        assert.isUndefined(lists["payout-requests"]?.certificate)
        assert.isDefined(lists["payin-sources"]?.certificate)
        const texts = yield* textsOf(folder, Lists.payoutRequests)
        assert.deepStrictEqual(
          [4, 3].map((version) => texts.filter((text) => text.includes(`version ${version}`)).length),
          [4, 6]
        )
      })
    ))

  it.live("leaves out a list whose new columns are not filled, until its next export", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* exportVersions(folder)
        execute(
          join(folder, FileSink.copyFile),
          "UPDATE list_columns SET unfilled_from = 0 WHERE list = 'payout-requests' AND name = 'reference'"
        )
        remove(folder)
        yield* FileSink.renderAgain(folder, csv)
        assert.sameMembers(
          Object.keys(manifestOf(folder).lists),
          Lists.all.filter(({ name }) => name !== "payoutRequests").map(({ label }) => label)
        )
        assert.deepStrictEqual(filesWithCanary(folder), [])
        yield* exportVersions(folder)
        assert.strictEqual((yield* textsOf(folder, Lists.payoutRequests)).length, 10)
      })
    ))

  it.live("is rendered again if the data is removed while another program renders it", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* exportVersions(folder)
        let calls = 0
        const removeOnce = Effect.sync(() => {
          // The third call writes rows of the old copy into a new file.
          if (++calls === 3) remove(folder)
        })
        yield* FileSink.renderAgain(folder, csv).pipe(Effect.provide(layerBefore(removeOnce)))
        assert.strictEqual(calls, 0, "nothing to render")
        yield* scan("payoutRequests").pipe(
          Effect.provide(
            Layer.merge(
              FileSink.layer(folder, csv).pipe(Layer.provide(layerBefore(removeOnce))),
              layerTest({ ...recordsAt(4), payoutRequests: recordsAt(4).payoutRequests.slice(5) })
            )
          )
        )
        assert.isAbove(calls, 3)
        yield* assertRemoved(folder, "rendered by the export")
      })
    ))

  it.live("has no file with that data after a kill before any call of the file system, once it is rendered again", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* exportVersions(folder)
        remove(folder)
        const killed: Array<string> = []
        const keepState = Effect.sync(() => {
          const state = `${folder}-${killed.length}`
          mkdirSync(state)
          // The index of the log is lost with the processes that use it.
          for (const name of readdirSync(folder)) {
            if (!/-shm$|\.lock$|\.holder$/.test(name)) cpSync(join(folder, name), join(state, name))
          }
          killed.push(state)
        })
        yield* FileSink.renderAgain(folder, csv).pipe(Effect.provide(layerBefore(keepState)))
        yield* assertRemoved(folder, "not killed")
        assert.isAbove(killed.length, 20)
        for (const state of killed) {
          yield* FileSink.renderAgain(state, csv)
          yield* assertRemoved(state, `killed before call ${basename(state)}`)
          rmSync(state, { recursive: true })
        }
        assert.isFalse(existsSync(`${folder}-0`))
      })
    ))
})
