import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { type Invoice, Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { manifestOf } from "@payments/testkit/RenderedFiles"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Console, Deferred, Effect, Fiber, Layer, Redacted } from "effect"
import { createHash } from "node:crypto"
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
import * as FileSink from "../../src/files/FileSink.ts"
import type { Format } from "../../src/files/render/Format.ts"
import { scan, scanAll, verifyFiles } from "../../src/index.ts"
import { erase } from "../../src/personal/Erase.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"

/** The number of flipped bytes. `npm run test:crash` tests more of them. */
const flips = isLongRun ? 10_000 : 500

const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices>) =>
  Effect.flatMap(temporaryFolder, use).pipe(Effect.scoped, Effect.provide(NodeServices.layer))

const records = (prefix: string) =>
  Array.from({ length: 40 }, (_, index) => ({ id: `${prefix}${index}`, amount: index, reference: "ñ" }))
const api = layerTest({ payoutRequests: records("a"), payinSources: records("b"), invoices: records("c") })

const run = (folder: string, format: Format = FileSink.defaultFormat) =>
  scanAll(Lists.all.map(({ name }) => name)).pipe(Effect.provide(Layer.merge(FileSink.layer(folder, format), api)))

const filesInManifest = (folder: string) =>
  Object.values(manifestOf(folder).lists).flatMap(({ files }) => files.map(({ file }) => file))

/** Flips bits of the byte at an offset. */
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
    "are reported as changed if any bit is flipped, in the manifest or in a file that it names ($format)",
    (format) =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, format)
          assert.deepStrictEqual(yield* verifyFiles(folder), [])
          yield* Console.log(`flips of ${format.format}: seed ${seed}`)
          const { below } = diceOf(seed, format.format)
          const files = ["manifest.json", ...filesInManifest(folder)]
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

  /** Simulates a bug of the renderer: replaces a file, and its digest in the copy and in the manifest. */
  const replaceWithDigest = (folder: string, file: string, bytes: Uint8Array) => {
    const digest = (content: Uint8Array) => createHash("sha256").update(content).digest("hex")
    const [before, after] = [digest(readFileSync(join(folder, file))), digest(bytes)]
    writeFileSync(join(folder, file), bytes)
    const copy = join(folder, FileSink.copyFile)
    execute(
      copy,
      `UPDATE rendered SET sha256 = '${after}' WHERE file = '${file}';
      UPDATE manifest SET text = replace(text, '${before}', '${after}')`
    )
    writeFileSync(join(folder, "manifest.json"), String(rowsOf(copy, "SELECT text FROM manifest")[0]?.["text"]))
  }

  const hostile = [
    { id: "a", amount: 1, description: "y\n=1+1" },
    { id: "b", amount: 9007199254740991, description: null },
    { id: "c", amount: -1, description: "" },
    { id: "d", description: "\ufeff\"x\"\r\n, \r" }
  ]
  const plain = { compress: "none", formulas: "escape" } as const

  // The test clock does not advance, so the files of two folders differ only in their records.
  it.effect.each(
    [
      { format: "ndjson", compress: "none" },
      { format: "ndjson", compress: "gzip" },
      { format: "csv", compress: "none" },
      { format: "csv", compress: "zstd" },
      { format: "parquet", compress: "none" },
      { format: "parquet", compress: "gzip" },
      { format: "parquet", compress: "zstd" }
    ] as const
  )(
    "are reported as different if their records differ from the copy ($format, $compress)",
    (format) =>
      Effect.gen(function*() {
        const rendered = Effect.fnUntraced(function*(invoices: ReadonlyArray<Partial<Invoice>>) {
          const folder = yield* temporaryFolder
          yield* scan("invoices").pipe(
            Effect.provide(Layer.merge(FileSink.layer(folder, { ...plain, ...format }), layerTest({ invoices })))
          )
          return folder
        })
        const folder = yield* rendered(hostile)
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        const [file = ""] = filesInManifest(folder)
        const original = readFileSync(join(folder, file))
        for (
          const [changedInvoices, problem] of [
            [
              hostile.with(1, { id: "b", amount: 9007199254740990, description: null }),
              /^record 2 \(b\): (amount|the line) differs/
            ],
            [
              hostile.with(3, { id: "d", description: "\ufeff\"x\"\r\n, \n" }),
              /^record 4 \(d\): (description|the line) differs/
            ],
            [hostile.toReversed(), /^record 1 \(a\): (id|the line) differs/],
            [hostile.slice(0, 3), /^it has 3 records, not 4$/],
            [[...hostile, { id: "e" }], /^the copy has no record 5$/]
          ] as const
        ) {
          const otherFolder = yield* rendered(changedInvoices)
          replaceWithDigest(folder, file, readFileSync(join(otherFolder, filesInManifest(otherFolder)[0] ?? "")))
          const [difference, ...more] = yield* verifyFiles(folder)
          assert.deepStrictEqual([difference?.file, difference?.kind, more], [file, "differs", []])
          assert.match(difference?.problem ?? "", problem)
        }
        replaceWithDigest(folder, file, original.subarray(0, -20))
        const [truncated] = yield* verifyFiles(folder)
        assert.match(truncated?.problem ?? "", /^it cannot be read after record [03]$|differs from the copy$/)
      }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.live("are reported as different if CSV has an unquoted line break", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* scan("invoices").pipe(
          Effect.provide(Layer.merge(
            FileSink.layer(folder, { ...plain, format: "csv" }),
            layerTest({ invoices: hostile })
          ))
        )
        const [file = ""] = filesInManifest(folder)
        const text = readFileSync(join(folder, file), "utf8")
        assert.include(text, `"y\n'=1+1"`)
        replaceWithDigest(folder, file, Buffer.from(text.replace(`"y\n'=1+1"`, "y\n=1+1")))
        const [difference] = yield* verifyFiles(folder)
        assert.strictEqual(difference?.problem, "record 1 (a): description differs from the copy")
      })
    ))

  it.live("are compared only by the number of records while an incomplete scan has changed the copy", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const page = (invoices: ReadonlyArray<Partial<Invoice>>, more: object = {}) =>
          scan("invoices", { limit: 1 }).pipe(
            Effect.provide(Layer.merge(FileSink.layer(folder), layerTest({ invoices, ...more })))
          )
        yield* page(hostile)
        const changed = hostile.map((invoice) => ({ ...invoice, amount: 7 }))
        yield* Effect.flip(page(changed, { faults: [{ fault: "status", status: 403, nth: 3 }] }))
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        const [file = ""] = filesInManifest(folder)
        replaceWithDigest(folder, file, Buffer.from(`${JSON.stringify(hostile[0])}\n`))
        const [difference] = yield* verifyFiles(folder)
        assert.strictEqual(difference?.problem, "it has 1 record, not 4")
      })
    ))

  it.live("are reported as absent if they were deleted, and as changed if they were overwritten", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder)
        const [first = "", second = ""] = filesInManifest(folder)
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

  it.live("are reported as outdated if a list was scanned completely but not rendered", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder)
        // This scan completes without a file sink, so nothing renders the list.
        const sqliteSink = SqliteSink.layer(join(folder, FileSink.copyFile))
        yield* scan("invoices").pipe(Effect.provide(Layer.merge(sqliteSink, api)))
        assert.deepStrictEqual(yield* verifyFiles(folder), [{ file: "invoices", kind: "outdated" }])
        yield* scan("payinSources").pipe(Effect.provide(Layer.merge(FileSink.layer(folder), api)))
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        // The list is rendered, but the manifest is still the old one.
        const before = readFileSync(join(folder, "manifest.json"))
        yield* scan("invoices").pipe(Effect.provide(Layer.merge(FileSink.layer(folder), api)))
        assert.notDeepEqual(readFileSync(join(folder, "manifest.json")), before)
        writeFileSync(join(folder, "manifest.json"), before)
        assert.deepStrictEqual(yield* verifyFiles(folder), [{ file: "manifest.json", kind: "outdated" }])
      })
    ))

  it.live("are compared after a running erasure, which has removed texts of the copy, has rendered them again", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder)
        const [reached, go] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const erasing = Effect.scoped(Effect.gen(function*() {
          yield* FileSink.lockForRedaction(folder)
          yield* erase(yield* openMaintenance(join(folder, FileSink.copyFile), "here"), {
            criteria: [{ kind: "id", value: Redacted.make("c1") }],
            key: Redacted.make(new TextEncoder().encode("0123456789abcdef0123456789abcdef")),
            by: "tester",
            publish: Deferred.succeed(reached, undefined).pipe(
              Effect.andThen(Deferred.await(go)),
              Effect.andThen(FileSink.renderAgain(folder, FileSink.defaultFormat))
            )
          })
        }))
        const eraser = yield* Effect.forkChild(erasing)
        yield* Deferred.await(reached)
        const verifier = yield* Effect.forkChild(verifyFiles(folder))
        yield* Effect.sleep("300 millis")
        yield* Deferred.succeed(go, undefined)
        yield* Fiber.join(eraser)
        assert.deepStrictEqual(yield* Fiber.join(verifier), [])
      })
    ))

  it.live("are reported as unknown if the copy was replaced by an empty one; a folder without a copy is refused", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(verifyFiles(folder))
        assert.strictEqual(error.reason._tag, "NotADestination")
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
