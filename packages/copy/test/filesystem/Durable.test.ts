import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { assertDurable, type Call, recording } from "@payments/testkit/FileSystemRecorder"
import { temporaryFolder } from "@payments/testkit/Folder"
import { Effect, Layer } from "effect"
import { writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import * as FileSink from "../../src/files/FileSink.ts"
import { replaceFile, scanAll } from "../../src/index.ts"

const records = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: `${prefix}${index}` }))

describe("a file that is replaced", () => {
  it.live("is written, synced and renamed, and then its folder is synced", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const target = join(folder, "manifest.json")
      writeFileSync(target, "before")
      const calls: Array<Call> = []
      yield* Effect.provide(replaceFile(target, "after"), recording(calls))
      assert.deepStrictEqual(
        calls.map(({ call, file }) => [call, basename(file).replace(/\.[0-9a-f-]{36}\./, ".*.")]),
        [
          ["open", "manifest.json.*.new"],
          ["write", "manifest.json.*.new"],
          ["sync", "manifest.json.*.new"],
          ["rename", "manifest.json.*.new"],
          ["open", basename(folder)],
          ["sync", basename(folder)]
        ]
      )
      assertDurable(calls)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it.live("is in a folder whose name and whose parents' names are on disk", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const calls: Array<Call> = []
      const open = Effect.scoped(Layer.build(FileSink.layer(join(folder, "a/b/c")))).pipe(
        Effect.provide(recording(calls))
      )
      yield* open
      const synced = calls.flatMap(({ call, file }) => call === "sync" ? [file] : [])
      assert.sameMembers(synced, [folder, join(folder, "a"), join(folder, "a/b")])
      yield* open
      assert.strictEqual(calls.filter(({ call }) => call === "sync").length, 3)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it.live.each(
    [
      { format: "ndjson", compress: "none" },
      { format: "csv", compress: "gzip" },
      { format: "parquet", compress: "zstd" }
    ] as const
  )(
    "is on disk before the manifest names it ($format, $compress)",
    (format) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const calls: Array<Call> = []
        const run = (count: number) =>
          scanAll(["payoutRequests", "invoices"], { missingLimit: 1 }).pipe(
            Effect.provide(Layer.merge(
              FileSink.layer(folder, { ...format, formulas: "escape" }).pipe(Layer.provide(recording(calls))),
              layerTest({ payoutRequests: records("a", 10), invoices: records("b", count) })
            ))
          )
        for (const count of [1100, 900, 900, 1000]) yield* run(count)
        assert.isAtLeast(calls.filter(({ call }) => call === "rename").length, 4)
        assert.isAtLeast(calls.filter(({ call, file }) => call === "sync" && /invoices-/.test(file)).length, 3)
        assertDurable(calls)
      }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
