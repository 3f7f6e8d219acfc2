import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Console, Effect, Layer } from "effect"
import {
  closeSync,
  copyFileSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync
} from "node:fs"
import { join } from "node:path"
import * as FileSink from "../src/files/FileSink.ts"
import type { Format } from "../src/files/render/Format.ts"
import { scan, scanAll, verifyFiles } from "../src/index.ts"
import * as SqliteSink from "../src/sqlite/SqliteSink.ts"
import { temporaryFolder } from "./Folder.ts"
import { manifestOf } from "./Rendered.ts"
import { crash, diceOf, seed } from "./Seed.ts"

/** A slice of them runs always, all of them behind `npm run test:crash`. */
const flips = crash ? 10_000 : 500

const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices>) =>
  Effect.flatMap(temporaryFolder, use).pipe(Effect.scoped, Effect.provide(NodeServices.layer))

const records = (prefix: string) =>
  Array.from({ length: 40 }, (_, index) => ({ id: `${prefix}${index}`, amount: index, reference: "ñ" }))
const api = layerTest({ payoutRequests: records("a"), payinSources: records("b"), invoices: records("c") })

const run = (folder: string, format: Format = FileSink.defaultFormat) =>
  scanAll(Lists.all.map(({ name }) => name)).pipe(Effect.provide(Layer.merge(FileSink.layer(folder, format), api)))

const namedIn = (folder: string) =>
  Object.values(manifestOf(folder).lists).flatMap(({ files }) => files.map(({ file }) => file))

/** Flips bits of the byte at a place. */
const flip = (file: string, offset: number, bits: number) => {
  const byte = new Uint8Array(1)
  const handle = openSync(file, "r+")
  readSync(handle, byte, 0, 1, offset)
  writeSync(handle, byte.map((value) => value ^ bits), 0, 1, offset)
  closeSync(handle)
}

describe("a folder's files", () => {
  it.live.each(
    [
      { format: "ndjson", compress: "none", formulas: "escape" },
      { format: "csv", compress: "gzip", formulas: "escape" },
      { format: "parquet", compress: "zstd", formulas: "escape" }
    ] as const
  )(
    "show any flipped bit, in the manifest or in a file that it names ($format)",
    (format) =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, format)
          assert.deepStrictEqual(yield* verifyFiles(folder), [])
          yield* Console.log(`flips of ${format.format}: seed ${seed}`)
          const { below } = diceOf(seed, format.format)
          const files = ["manifest.json", ...namedIn(folder)]
          for (let times = 0; times < flips / 3; times++) {
            const file = files[below(files.length)] ?? ""
            const path = join(folder, file)
            const offset = below(statSync(path).size)
            const bits = 1 + below(255)
            flip(path, offset, bits)
            assert.deepStrictEqual(
              yield* verifyFiles(folder),
              [{ file, kind: "changed" }],
              `${file} ${offset} ${bits}`
            )
            flip(path, offset, bits)
          }
          assert.deepStrictEqual(yield* verifyFiles(folder), [])
        })
      ),
    600_000
  )

  it.live("show a file that is absent, cut, longer or another's", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder)
        const [first = "", second = ""] = namedIn(folder)
        copyFileSync(join(folder, first), join(folder, second))
        assert.deepStrictEqual(yield* verifyFiles(folder), [{ file: second, kind: "changed" }])
        rmSync(join(folder, first))
        rmSync(join(folder, "manifest.json"))
        assert.deepStrictEqual(yield* verifyFiles(folder), [
          { file: "manifest.json", kind: "absent" },
          { file: first, kind: "absent" },
          { file: second, kind: "changed" }
        ])
      })
    ))

  it.live("show a list that was read to its end and not rendered", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder)
        // A scan that ends, and nobody there to render it.
        const rows = SqliteSink.layer(join(folder, FileSink.copyFile))
        yield* scan("invoices").pipe(Effect.provide(Layer.merge(rows, api)))
        assert.deepStrictEqual(yield* verifyFiles(folder), [{ file: "invoices", kind: "outdated" }])
        yield* scan("payinSources").pipe(Effect.provide(Layer.merge(FileSink.layer(folder), api)))
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        // Rendered, and the manifest not yet in its place.
        const before = readFileSync(join(folder, "manifest.json"))
        yield* scan("invoices").pipe(Effect.provide(Layer.merge(FileSink.layer(folder), api)))
        assert.notDeepEqual(readFileSync(join(folder, "manifest.json")), before)
        writeFileSync(join(folder, "manifest.json"), before)
        assert.deepStrictEqual(yield* verifyFiles(folder), [{ file: "manifest.json", kind: "outdated" }])
      })
    ))

  it.live("are nothing to compare where nothing was exported, and are none of ours where the copy is gone", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const nothing = yield* Effect.flip(verifyFiles(folder))
        assert.strictEqual(nothing.reason._tag, "NotADestination")
        yield* Effect.scoped(Layer.build(FileSink.layer(folder)))
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        yield* run(folder)
        const manifest = readFileSync(join(folder, "manifest.json"))
        for (const name of [FileSink.copyFile, `${FileSink.copyFile}-wal`, `${FileSink.copyFile}-shm`]) {
          rmSync(join(folder, name), { force: true })
        }
        yield* Effect.scoped(Layer.build(FileSink.layer(folder)))
        assert.deepStrictEqual(yield* verifyFiles(folder), [{ file: "manifest.json", kind: "unknown" }])
        assert.deepStrictEqual(readFileSync(join(folder, "manifest.json")), manifest)
      })
    ))
})
