import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Effect, Layer } from "effect"
import { createHash } from "node:crypto"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as FileSink from "../src/files/FileSink.ts"
import type { Format } from "../src/files/render/Format.ts"
import { scan, verifyFiles } from "../src/index.ts"
import { execute, temporaryFolder } from "./Folder.ts"
import { manifestOf, textsOf } from "./RenderedFiles.ts"

const invoices = (count: number) =>
  Array.from({ length: count }, (_, index) => `{"id":"inv_${index}","amount":${index},"contract":"c","extra":1.10}`)
const payouts = [
  ...Array.from(
    { length: 11 },
    (_, index) => `{"id":"por_${index}","amount":${index},"customerDetails":{"name":"n${index}"}}`
  ),
  `{"id":"por_bad","amount":"12"}`
]

/** What version 1 showed of the two lists whose scans were complete, as it wrote it. */
const shown = [
  {
    list: "payout-requests",
    scan: 1,
    completedAt: "2026-11-21T16:15:17.140Z",
    pages: 2,
    quarantined: 1,
    lines: payouts
  },
  { list: "invoices", scan: 2, completedAt: "2026-11-21T16:15:17.156Z", pages: 1, quarantined: 0, lines: invoices(5) }
].map(({ lines, list, ...scanned }) => {
  const text = lines.map((line) => `${line}\n`).join("")
  const file = `${list}-${scanned.completedAt.replaceAll(/\D/g, "")}.ndjson`
  const digest = createHash("sha256").update(text).digest("hex")
  const files = [{ file, records: lines.length, bytes: Buffer.byteLength(text), sha256: digest }]
  return { list, file, text, entry: { files, certificate: { ...scanned, records: lines.length } } }
})
const manifest = {
  version: 1,
  source: "memory",
  lists: Object.fromEntries(shown.map(({ entry, list }) => [list, entry]))
}

/** A folder as version 1 left it: three scans, the last of them, of invoices, cut behind its second page. */
const folderOfVersion1 = (use: (folder: string) => Effect.Effect<void, unknown, NodeServices.NodeServices>) =>
  Effect.flatMap(temporaryFolder, (folder) => {
    const copy = join(folder, FileSink.copyFile)
    execute(copy, readFileSync(join(import.meta.dirname, "version1.sql"), "utf8"))
    for (const { entry: { certificate }, file, list, text } of shown) {
      execute(copy, `INSERT INTO rendered (file, list, scan) VALUES ('${file}', '${list}', ${certificate.scan})`)
      writeFileSync(join(folder, file), text)
    }
    writeFileSync(join(folder, "manifest.json"), `${JSON.stringify(manifest, null, 2)}\n`)
    return use(folder)
  }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))

const run = (
  folder: string,
  list: Lists.ListName,
  lists: Parameters<typeof layerTest>[0],
  format: Format = FileSink.defaultFormat
) =>
  scan(list, { limit: 10, largestBatch: 10 }).pipe(
    Effect.provide(Layer.merge(FileSink.layer(folder, format), layerTest(lists)))
  )

const namedIn = (folder: string) =>
  Object.fromEntries(
    Object.entries(manifestOf(folder).lists).map(([list, { files }]) => [list, files.map(({ file }) => file)])
  )

describe("a folder of version 1", () => {
  it.live("shows every list as it did, before any scan of this version has ended", () =>
    folderOfVersion1((folder) =>
      Effect.gen(function*() {
        yield* run(folder, "payinSources", { payinSources: ["{\"id\":\"pis_0\"}"] })
        assert.deepInclude(namedIn(folder), Object.fromEntries(shown.map(({ file, list }) => [list, [file]])))
        assert.deepStrictEqual(yield* textsOf(folder, Lists.payoutRequests), payouts)
        assert.deepStrictEqual(yield* textsOf(folder, Lists.invoices), invoices(5))
        assert.deepStrictEqual(yield* textsOf(folder, Lists.payinSources), ["{\"id\":\"pis_0\"}"])
        // What those scans saw was not kept: nothing is certified of them.
        assert.isUndefined(manifestOf(folder).lists["invoices"]?.certificate)
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
      })
    ))

  it.live("has its files held against their digests from then on", () =>
    folderOfVersion1((folder) =>
      Effect.gen(function*() {
        yield* run(folder, "payinSources", {})
        for (const { file } of shown) {
          const path = join(folder, file)
          writeFileSync(path, readFileSync(path, "utf8").replace("_1", "_7"))
        }
        assert.deepStrictEqual(
          (yield* verifyFiles(folder)).toSorted((a, b) => a.file < b.file ? -1 : 1),
          shown.map(({ file }) => ({ file, kind: "changed" })).toSorted((a, b) => a.file < b.file ? -1 : 1)
        )
      })
    ))

  it.live("shows a list anew when the scan that was cut has ended, and keeps the old file for who still reads it", () =>
    folderOfVersion1((folder) =>
      Effect.gen(function*() {
        const old = join(folder, shown[1]?.file ?? "")
        assert.deepInclude(yield* run(folder, "invoices", { invoices: invoices(35) }), { start: "resumed", pages: 4 })
        assert.deepStrictEqual((yield* textsOf(folder, Lists.invoices)).toSorted(), invoices(35).toSorted())
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        assert.isTrue(existsSync(old))
        yield* run(folder, "invoices", { invoices: invoices(36) })
        assert.isFalse(existsSync(old))
      })
    ))

  it.live("is rendered in another format where its rows are one snapshot, and left as it is where they are not", () =>
    folderOfVersion1((folder) =>
      Effect.gen(function*() {
        yield* run(folder, "payinSources", {}, { format: "csv", compress: "none", formulas: "escape" })
        const { lists } = manifestOf(folder)
        assert.deepStrictEqual([lists["payout-requests"]?.format, lists["invoices"]?.format], ["csv", "ndjson"])
        assert.strictEqual((yield* textsOf(folder, Lists.payoutRequests)).length, 12)
        assert.deepStrictEqual(yield* textsOf(folder, Lists.invoices), invoices(5))
      })
    ))

  it.live("shows nothing of a manifest that its copy did not write", () =>
    folderOfVersion1((folder) =>
      Effect.gen(function*() {
        const foreign = JSON.stringify(manifest).replaceAll("invoices-2026", "invoices-2025")
        writeFileSync(join(folder, "manifest.json"), foreign)
        yield* run(folder, "payinSources", {})
        assert.deepStrictEqual(Object.keys(namedIn(folder)).toSorted(), ["payin-sources", "payout-requests"])
      })
    ))
})
