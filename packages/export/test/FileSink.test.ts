import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Effect, FileSystem, Layer, Schema } from "effect"
import { createHash } from "node:crypto"
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as FileSink from "../src/FileSink.ts"
import { Manifest, scan, scanAll } from "../src/index.ts"
import { type StoredRow, suite } from "./SinkTest.ts"

const manifestOf = (folder: string) =>
  Schema.decodeSync(Schema.fromJsonString(Manifest))(readFileSync(join(folder, "manifest.json"), "utf8"))

/** Reads as a careful reader would: the manifest first, then each file, held against size and digest. */
const read = (folder: string, list: Lists.AnyList): ReadonlyArray<StoredRow> => {
  if (!existsSync(join(folder, "manifest.json"))) return []
  return (manifestOf(folder).lists[list.label]?.files ?? []).flatMap(({ bytes, file, records, sha256 }) => {
    const content = readFileSync(join(folder, file))
    assert.deepStrictEqual([content.length, createHash("sha256").update(content).digest("hex")], [bytes, sha256])
    const lines = content.toString("utf8").split("\n").slice(0, -1)
    assert.strictEqual(lines.length, records)
    return lines.map((raw) => ({ raw, id: String((JSON.parse(raw) as { readonly id: unknown }).id) })) // every stored record has one
  })
}

suite("file:FOLDER?format=ndjson", { layer: FileSink.layer, read, snapshots: true })

describe("the folder", () => {
  const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices>) =>
    FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped()).pipe(
      Effect.flatMap(use),
      Effect.scoped,
      Effect.provide(NodeServices.layer)
    )

  const run = (folder: string, count: number) =>
    scanAll(Lists.all.map(({ name }) => name)).pipe(
      Effect.provide(Layer.merge(
        FileSink.layer(folder),
        layerTest({
          payoutRequests: Array.from({ length: count }, (_, index) => ({ id: `a${index}` })),
          payinSources: Array.from({ length: count * 2 }, (_, index) => ({ id: `b${index}` })),
          invoices: Array.from({ length: count * 3 }, (_, index) => ({ id: `c${index}` }))
        })
      ))
    )

  const counts = (folder: string) => Lists.all.map((list) => read(folder, list).length)

  it.live("shows all three lists side by side, and keeps one round of old files for who still reads them", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        for (const count of [100, 200, 700]) {
          const before = existsSync(join(folder, "manifest.json")) ? manifestOf(folder) : undefined
          yield* run(folder, count)
          assert.deepStrictEqual(counts(folder), [count, count * 2, count * 3])
          for (const { files } of Object.values(before?.lists ?? {})) {
            for (const { file } of files) assert.isTrue(existsSync(join(folder, file)), file)
          }
        }
        assert.strictEqual(readdirSync(folder).filter((file) => file.endsWith(".ndjson")).length, 6)
        for (const name of readdirSync(folder)) {
          assert.strictEqual(statSync(join(folder, name)).mode & 0o777, 0o600, name)
        }
      })
    ))

  it.live("renders what a cut between the last commit and the manifest left out, before it reads anything new", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder, 10)
        const shown = readFileSync(join(folder, "manifest.json"), "utf8")
        for (
          const harm of [
            () => rmSync(join(folder, "manifest.json")),
            () => writeFileSync(join(folder, "manifest.json"), shown.slice(0, 40))
          ]
        ) {
          harm()
          const seen: Array<ReadonlyArray<number>> = []
          yield* scan("invoices", {
            onEvent: (event) => Effect.sync(() => event._tag === "Begun" && seen.push(counts(folder)))
          }).pipe(
            Effect.provide(Layer.merge(FileSink.layer(folder), layerTest({})))
          )
          assert.deepStrictEqual(seen, [[10, 20, 30]])
          assert.deepStrictEqual(counts(folder).slice(0, 2), [10, 20])
          yield* run(folder, 10)
        }
      })
    ))

  it.live("removes no file that it has not rendered", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const mine = ["invoices-2023.ndjson", "invoices-backup.ndjson", "notes.txt"]
        for (const name of mine) writeFileSync(join(folder, name), "mine")
        for (let times = 0; times < 3; times++) yield* run(folder, 10)
        for (const name of mine) assert.strictEqual(readFileSync(join(folder, name), "utf8"), "mine")
      })
    ))

  it.live("shows nothing of a copy that is gone", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder, 3)
        for (const name of readdirSync(folder).filter((file) => file.startsWith("copy.db"))) rmSync(join(folder, name))
        const other = Layer.effect(PaymentsApi, Effect.map(PaymentsApi, (api) => ({ ...api, source: "another" }))).pipe(
          Layer.provide(layerTest({ invoices: [{ id: "x" }] }))
        )
        yield* scan("invoices").pipe(Effect.provide(Layer.merge(FileSink.layer(folder), other)))
        assert.strictEqual(manifestOf(folder).source, "another")
        assert.deepStrictEqual(counts(folder), [0, 0, 1])
      })
    ))
})
