import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { manifestOf } from "@payments/testkit/RenderedFiles"
import { Effect, Layer } from "effect"
import { readFileSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as FileSink from "../../src/files/FileSink.ts"
import type { Format } from "../../src/files/render/Format.ts"
import { scanAll, type ScanOptions, verifyFiles } from "../../src/index.ts"

const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices>) =>
  Effect.flatMap(temporaryFolder, use).pipe(Effect.scoped, Effect.provide(NodeServices.layer))

const records = (prefix: string) => Array.from({ length: 10 }, (_, index) => ({ id: `${prefix}${index}` }))
const api = layerTest({ payoutRequests: records("a"), invoices: records("b") })

const run = (
  folder: string,
  names: ReadonlyArray<Lists.ListName>,
  format: Format = FileSink.defaultFormat,
  onEvent?: ScanOptions["onEvent"]
) => scanAll(names, { onEvent }).pipe(Effect.provide(Layer.merge(FileSink.layer(folder, format), api)))

const fileNameOf = (folder: string, list: Lists.AnyList) => manifestOf(folder).lists[list.label]?.files[0]?.file ?? ""

describe("the folder", () => {
  it.live("renders CSV again if an earlier version wrote it without quoting line breaks", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const csv = { ...FileSink.defaultFormat, format: "csv" } as const
        yield* run(folder, ["invoices"], csv)
        const old = fileNameOf(folder, Lists.invoices)
        execute(
          join(folder, FileSink.copyFile),
          `UPDATE manifest SET text = replace(text, ',\n      "dialect": 2', '')`
        )
        yield* run(folder, ["invoices"], csv)
        const again = fileNameOf(folder, Lists.invoices)
        assert.notStrictEqual(again, old)
        yield* run(folder, ["invoices"], csv)
        assert.strictEqual(fileNameOf(folder, Lists.invoices), again)
      })
    ))

  it.live("renders a file again if one of its bytes has changed, even during the scan", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder, ["payoutRequests", "invoices"])
        const flip = () => {
          const file = join(folder, fileNameOf(folder, Lists.payoutRequests))
          const bytes = readFileSync(file)
          writeFileSync(file, bytes.with(5, (bytes[5] ?? 0) ^ 1))
          // The clock of a file system is coarse, so set a later time.
          utimesSync(file, new Date(), new Date(Date.now() + 60_000))
        }
        flip()
        assert.deepStrictEqual((yield* verifyFiles(folder)).map(({ kind }) => kind), ["changed"])
        yield* run(folder, ["invoices"])
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        const flipOnce = ({ _tag }: { readonly _tag: string }) => _tag === "Begun" ? Effect.sync(flip) : Effect.void
        yield* run(folder, ["invoices"], FileSink.defaultFormat, flipOnce)
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        const shown = fileNameOf(folder, Lists.payoutRequests)
        yield* run(folder, ["invoices"])
        assert.strictEqual(fileNameOf(folder, Lists.payoutRequests), shown)
      })
    ))
})
