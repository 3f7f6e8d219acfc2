import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { manifestOf, read, tableOf, textsOf } from "@payments/testkit/RenderedFiles"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as FileSink from "../../src/files/FileSink.ts"
import { compressions, type Format, formats } from "../../src/files/render/Format.ts"
import { scan, scanAll, type ScanOptions, scanParts, Sink, verifyFiles } from "../../src/index.ts"
import { suite } from "../session/SinkTest.ts"

const plain = FileSink.defaultFormat

for (const [format, compress] of [["ndjson", "none"], ["csv", "gzip"], ["parquet", "zstd"]] as const) {
  suite(`file:FOLDER?format=${format}&compress=${compress}`, {
    layer: (folder) => FileSink.layer(folder, { ...plain, format, compress }),
    read,
    snapshots: true,
    isVariant: format !== "ndjson",
    execute: (folder, statement) => execute(join(folder, FileSink.copyFile), statement(""))
  })
}

const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices>) =>
  Effect.flatMap(temporaryFolder, use).pipe(Effect.scoped, Effect.provide(NodeServices.layer))

const ids = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: `${prefix}${index}` }))

/** The numbers of records of the lists that {@link run} exports. */
const perList = (count: number) => Lists.all.map((_, at) => count * (at + 1))

/** Exports all lists: the first with `count` records, the second with twice as many, and so on. */
const run = (folder: string, count: number, format: Format = plain) =>
  scanAll(Lists.all.map(({ name }) => name)).pipe(
    Effect.provide(Layer.merge(
      FileSink.layer(folder, format),
      layerTest(
        Object.fromEntries(Lists.all.map(({ name }, at) => [name, ids(String.fromCharCode(97 + at), count * (at + 1))]))
      )
    ))
  )

/** Exports invoices. */
const invoices = (
  folder: string,
  records: ReadonlyArray<{ readonly id: string } | string>,
  format: Format = plain,
  options: ScanOptions = {}
) =>
  scan("invoices", options).pipe(
    Effect.provide(Layer.merge(FileSink.layer(folder, format), layerTest({ invoices: records })))
  )

/** Locks a list, which renders outstanding files first. */
const holding = (list: Lists.AnyList) => Sink.use((sink) => sink.lock(list, "refuse"))

const counts = (folder: string) =>
  Effect.forEach(Lists.all, (list) => Effect.map(textsOf(folder, list), ({ length }) => length))

const rendered = (folder: string) => readdirSync(folder).filter((name) => /\.(ndjson|csv|parquet)/.test(name))

/** Returns the files of a list in the manifest. */
const named = (folder: string, list: Lists.AnyList = Lists.invoices) =>
  (manifestOf(folder).lists[list.label]?.files ?? []).map(({ file }) => file)

describe("the folder", () => {
  it.live("has all lists, and keeps the previous files for programs that still read them", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        for (const count of [100, 200, 700]) {
          const before = existsSync(join(folder, "manifest.json")) ? manifestOf(folder) : undefined
          yield* run(folder, count)
          assert.deepStrictEqual(yield* counts(folder), perList(count))
          for (const { files } of Object.values(before?.lists ?? {})) {
            for (const { file } of files) assert.isTrue(existsSync(join(folder, file)), file)
          }
        }
        assert.strictEqual(rendered(folder).length, 2 * Lists.all.length)
        for (const name of readdirSync(folder)) {
          assert.strictEqual(statSync(join(folder, name)).mode & 0o777, 0o600, name)
        }
      })
    ))

  it.live.each(formats.flatMap((format) => compressions.map((compress) => [format, compress] as const)))(
    "as %s with %s has the exact text and the typed cells of every record",
    ([format, compress]) =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const records = [
            `{"id":"=1+1","amount":-9007199254740991,"description":"a\\"b\\r\\n,\\u0000\\ud800","10":1.10}`,
            `{"id":"b","amount":9007199254740991,"paymentDate":"2024-05-01T10:00:00.123Z","settlementTime":"01","x":1e400}`,
            `{"id":"c","description":""}`
          ]
          yield* invoices(folder, records, { ...plain, format, compress })
          const table = yield* tableOf(folder, Lists.invoices)
          assert.deepStrictEqual(table.map(({ raw }) => raw), records)
          const { lists } = manifestOf(folder)
          assert.deepInclude(lists["invoices"], { format, compress, scan: 1 })
          assert.match(
            named(folder)[0] ?? "",
            {
              none: /\.(ndjson|csv|parquet)$/,
              gzip: /\.(ndjson\.gz|csv\.gz|parquet)$/,
              zstd: /\.(ndjson\.zst|csv\.zst|parquet)$/
            }[compress]
          )
          if (format !== "ndjson") {
            const integer = format === "csv" ? String : BigInt
            assert.deepStrictEqual(table.map(({ amount }) => amount), [
              integer("-9007199254740991"),
              integer("9007199254740991"),
              null
            ])
            assert.deepStrictEqual(table.map(({ description }) => description), ["a\"b\r\n,\ufffd\ufffd", null, ""])
            assert.strictEqual(table[1]?.["settlement_time"], "01")
          }
          assert.deepStrictEqual(yield* verifyFiles(folder), [])
        })
      )
  )

  it.live("renders every list again if the format or the compression changes, even without a scan", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder, 10)
        for (
          const format of [
            { ...plain, compress: "gzip" },
            { ...plain, format: "csv" },
            { ...plain, format: "csv", formulas: "keep" }
          ] as const
        ) {
          const before = named(folder, Lists.payoutRequests)
          yield* invoices(folder, ids("c", 30), format)
          assert.deepStrictEqual(yield* counts(folder), perList(10))
          assert.notDeepEqual(named(folder, Lists.payoutRequests), before)
          assert.isTrue(existsSync(join(folder, before[0] ?? "")))
          for (const list of Object.values(manifestOf(folder).lists)) {
            assert.deepInclude(list, { format: format.format, compress: format.compress })
          }
        }
        const before = rendered(folder)
        yield* Effect.scoped(Effect.provide(
          holding(Lists.invoices),
          FileSink.layer(folder, {
            ...plain,
            format: "csv",
            formulas: "keep"
          })
        ))
        assert.deepStrictEqual(rendered(folder), before)
      })
    ))

  it.live("has missing records in a separate file, or marks them in a column", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const twice = (records: ReadonlyArray<{ readonly id: string }>, format: Format) =>
          Effect.andThen(
            invoices(folder, records, format, { missingLimit: 1 }),
            invoices(folder, records, format, { missingLimit: 1 })
          )
        yield* twice(ids("c", 3), plain)
        assert.strictEqual(named(folder).length, 1)
        yield* twice(ids("c", 2), plain)
        const { files } = manifestOf(folder).lists["invoices"] ?? { files: [] }
        assert.deepStrictEqual(files.map(({ missing, records }) => [records, missing]), [[2, undefined], [1, true]])
        assert.match(files[1]?.file ?? "", /^invoices-\d+-\d+-missing\.ndjson$/)
        assert.deepStrictEqual(yield* textsOf(folder, Lists.invoices), ["c0", "c1", "c2"].map((id) => `{"id":"${id}"}`))
        for (const format of ["csv", "parquet"] as const) {
          yield* twice(ids("c", 2), { ...plain, format })
          const missing = (yield* tableOf(folder, Lists.invoices)).map((cells) => cells["missing_since"] !== null)
          assert.deepStrictEqual(missing, [false, false, true])
        }
        yield* twice(ids("c", 3), plain)
        assert.deepStrictEqual(manifestOf(folder).lists["invoices"]?.files.map(({ records }) => records), [3])
      })
    ))

  it.live("renders nothing again for a scan that changed no row, but names the scan in the manifest", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const twice = (records: ReadonlyArray<{ readonly id: string }>) =>
          Effect.andThen(
            invoices(folder, records, plain, { missingLimit: 1 }),
            invoices(folder, records, plain, { missingLimit: 1 })
          )
        yield* invoices(folder, ids("c", 3))
        const [first] = named(folder)
        yield* invoices(folder, ids("c", 3))
        assert.deepStrictEqual(named(folder), [first])
        assert.strictEqual(manifestOf(folder).lists["invoices"]?.certificate?.scan, 2)
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        // A record becomes missing, stays missing, and reappears.
        yield* twice(ids("c", 2))
        const missing = named(folder)
        assert.strictEqual(missing.length, 2)
        assert.notInclude(missing, first)
        yield* invoices(folder, ids("c", 2))
        assert.deepStrictEqual(named(folder), missing)
        yield* invoices(folder, ids("c", 3))
        assert.deepStrictEqual(
          yield* textsOf(folder, Lists.invoices),
          ids("c", 3).map((record) => JSON.stringify(record))
        )
        assert.strictEqual(named(folder).length, 1)
        assert.notInclude(named(folder), first)
      })
    ))

  it.live("renders a list that is scanned in parts when all parts are complete, with the certificate of each part", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const records = ["x", "y", "z"].flatMap((customerId) =>
          ids(customerId, 5).map((record) => ({ ...record, customerId }))
        )
        const parts = (
          values: ReadonlyArray<string>,
          more: ReadonlyArray<{ readonly id: string; readonly customerId: string }> = []
        ) =>
          scanParts("payoutRequests", { field: "customerId", values, concurrency: 2 }).pipe(
            Effect.provide(Layer.merge(FileSink.layer(folder), layerTest({ payoutRequests: [...records, ...more] })))
          )
        const shown = () => manifestOf(folder).lists["payout-requests"]
        const partsShown = () =>
          (shown()?.parts ?? []).map(({ certificate, part: { field, value } }) => [field, value, certificate.distinct])
            .toSorted()

        yield* parts(["x", "y"])
        assert.deepStrictEqual(partsShown(), [["customerId", "x", 5], ["customerId", "y", 5]])
        assert.isUndefined(shown()?.certificate)
        assert.strictEqual((yield* textsOf(folder, Lists.payoutRequests)).length, 10)
        // The list is rendered once, not once for each part.
        assert.strictEqual(rendered(folder).length, 1)

        yield* scan("payoutRequests").pipe(
          Effect.provide(Layer.merge(FileSink.layer(folder), layerTest({ payoutRequests: records })))
        )
        assert.strictEqual(shown()?.certificate?.distinct, 15)
        assert.isUndefined(shown()?.parts)

        yield* parts(["z"])
        assert.strictEqual(shown()?.certificate?.distinct, 15)
        assert.deepStrictEqual(partsShown(), [["customerId", "z", 5]])

        yield* parts(["z"], [{ id: "new", customerId: "z" }])
        assert.isUndefined(shown()?.certificate)
        assert.deepStrictEqual(partsShown(), [["customerId", "z", 6]])
        assert.strictEqual((yield* textsOf(folder, Lists.payoutRequests)).length, 16)
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
      })
    ))

  it.live("does not render a list that an incomplete scan has changed, even while other lists are rendered", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder, 10)
        const before = manifestOf(folder).lists["invoices"]
        const reached = yield* Deferred.make<void>()
        const interrupted = yield* Effect.forkChild(invoices(folder, ids("other", 30), plain, {
          limit: 10,
          largestBatch: 10,
          onEvent: (event) =>
            event._tag === "Committed"
              ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
              : Effect.void
        }))
        yield* Deferred.await(reached)
        const payouts = (count: number) =>
          scan("payoutRequests").pipe(Effect.provide(Layer.merge(
            FileSink.layer(folder, { ...plain, format: "csv" }),
            layerTest({ payoutRequests: ids("a", count) })
          )))
        yield* payouts(11)
        yield* Fiber.interrupt(interrupted)
        yield* payouts(12)
        const { lists } = manifestOf(folder)
        assert.deepStrictEqual(lists["invoices"], before)
        assert.strictEqual(lists["payin-sources"]?.format, "csv")
        assert.deepStrictEqual(yield* counts(folder), [12, ...perList(10).slice(1)])
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
      })
    ))

  it.live("renders a missing or damaged file again, and replaces such a manifest, before it reads a page", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder, 10)
        const manifest = join(folder, "manifest.json")
        const file = (list: Lists.AnyList) => join(folder, named(folder, list)[0] ?? "")
        for (
          const harm of [
            () => rmSync(manifest),
            () => writeFileSync(manifest, readFileSync(manifest, "utf8").slice(0, 40)),
            () => rmSync(file(Lists.payoutRequests)),
            () => truncateSync(file(Lists.invoices), 5)
          ]
        ) {
          harm()
          const seen: Array<ReadonlyArray<number>> = []
          yield* scan("invoices", {
            onEvent: (event) =>
              event._tag === "Begun" ? Effect.map(counts(folder), (shown) => void seen.push(shown)) : Effect.void
          }).pipe(
            Effect.provide(Layer.merge(FileSink.layer(folder), layerTest({})))
          )
          assert.deepStrictEqual(seen, [perList(10)])
          assert.deepStrictEqual((yield* counts(folder)).slice(0, 2), [10, 20])
          yield* run(folder, 10)
        }
      })
    ))

  it.live("removes only files that it rendered, and the temporary manifest of a killed run", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const mine = ["invoices-2023.ndjson", "invoices-backup.ndjson", "notes.txt", "manifest.json.new"]
        const left = "manifest.json.0b54bb8e-3f56-4f3f-8f4f-111111111111.new"
        for (const name of [...mine, left]) writeFileSync(join(folder, name), "mine")
        for (let times = 0; times < 3; times++) yield* run(folder, 10)
        for (const name of mine) assert.strictEqual(readFileSync(join(folder, name), "utf8"), "mine")
        assert.isFalse(existsSync(join(folder, left)))
      })
    ))

  it.live("starts without lists if the copy was removed", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder, 3)
        for (const name of readdirSync(folder).filter((file) => file.startsWith("copy.db"))) rmSync(join(folder, name))
        const other = Layer.effect(PaymentsApi, Effect.map(PaymentsApi, (api) => ({ ...api, source: "another" }))).pipe(
          Layer.provide(layerTest({ invoices: [{ id: "x" }] }))
        )
        yield* scan("invoices").pipe(Effect.provide(Layer.merge(FileSink.layer(folder), other)))
        assert.strictEqual(manifestOf(folder).source, "another")
        assert.deepStrictEqual(yield* counts(folder), Lists.all.map(({ name }) => name === "invoices" ? 1 : 0))
      })
    ))
})
