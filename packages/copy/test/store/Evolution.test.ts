import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { moduleOf } from "@payments/testkit/ChildProcess"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { contentOf, query, schemaOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { manifestOf, tableOf } from "@payments/testkit/RenderedFiles"
import { withText } from "@payments/testkit/SmallerLists"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { createHash } from "node:crypto"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import * as FileSink from "../../src/files/FileSink.ts"
import { type Format, formats } from "../../src/files/render/Format.ts"
import { scan, type ScanEvent, verifyFiles } from "../../src/index.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openReader, openStore } from "../../src/sqlite/SqliteStore.ts"
import { fillColumns } from "../../src/store/Filling.ts"
import { keepBinding } from "../../src/store/PersonalBinding.ts"
import { evolutionSuite, type EvolvingDestination, recordOf, smallerLists } from "./EvolutionTest.ts"

/** Makes a kind of destination whose database is this file of the folder. */
const ofFile = (name: string): Omit<EvolvingDestination, "layer" | "script" | "isKilled"> => ({
  reader: (folder, lists) => openReader(join(folder, name), "here", lists),
  relations: (folder) =>
    Effect.sync(() => {
      const found = new Map<string, Array<string>>()
      const columns = rowsOf(
        join(folder, name),
        `SELECT t.name AS relation, c.name AS name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
        WHERE t.type IN ('table', 'view')`
      )
      for (const column of columns) {
        const relation = String(column["relation"])
        found.set(relation, [...(found.get(relation) ?? []), String(column["name"])])
      }
      return found
    }),
  execute: (folder, statement) => Effect.sync(() => execute(join(folder, name), statement(""))),
  // Every program that locks a list creates a lock file. A reader may leave an empty log and its index.
  content: (folder, exact) =>
    Effect.sync(() =>
      readdirSync(folder)
        .filter((file) => !(exact === "exact" ? /\.(lock|holder)$/ : /\.(lock|holder)$|-(wal|shm)$/).test(file))
        .map((file) => [file, createHash("sha256").update(readFileSync(join(folder, file))).digest("hex")])
    )
})

evolutionSuite("sqlite:FILE", {
  ...ofFile("payments.db"),
  isKilled: true,
  layer: (folder, lists) => SqliteSink.layer(join(folder, "payments.db"), lists),
  script: (folder) => `
    import * as SqliteSink from ${moduleOf("sqlite/SqliteSink.ts")}
    const layer = SqliteSink.layer(${JSON.stringify(join(folder, "payments.db"))})`
})

for (const [format, compress] of [["ndjson", "none"], ["csv", "gzip"], ["parquet", "zstd"]] as const) {
  const full: Format = { ...FileSink.defaultFormat, format, compress }
  evolutionSuite(`file:FOLDER?format=${format}`, {
    ...ofFile(FileSink.copyFile),
    isKilled: format === "csv",
    layer: (folder, lists) => FileSink.layer(folder, full, lists),
    script: (folder) => `
      import * as FileSink from ${moduleOf("files/FileSink.ts")}
      const layer = FileSink.layer(${JSON.stringify(folder)}, ${JSON.stringify(full)})`,
    check: (folder) => Effect.map(verifyFiles(folder), (differences) => assert.deepStrictEqual(differences, []))
  })
}

let server: PostgresServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.stop())

evolutionSuite("postgres://HOST/DATABASE", {
  isKilled: true,
  settled: Effect.promise(() => query(server, "SELECT FROM pg_stat_activity WHERE application_name = 'payments'")).pipe(
    Effect.delay("20 millis"),
    Effect.repeat({ until: (connected) => connected.length === 0 }),
    Effect.asVoid
  ),
  layer: (folder, lists) => PostgresSink.layer(urlOf(server, schemaOf(folder)), undefined, lists),
  reader: (folder, lists) => PostgresSink.reader(urlOf(server, schemaOf(folder)), lists),
  relations: (folder) =>
    Effect.promise(async () => {
      const found = new Map<string, Array<string>>()
      const columns = await query(
        server,
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = $1",
        [schemaOf(folder)]
      )
      for (const column of columns) {
        const relation = String(column["table_name"])
        found.set(relation, [...(found.get(relation) ?? []), String(column["column_name"])])
      }
      return found
    }),
  execute: (folder, statement) =>
    Effect.promise(async () => void (await query(server, statement(`"${schemaOf(folder)}".`)))),
  content: (folder) => Effect.promise(() => contentOf(server, schemaOf(folder))),
  script: (folder) => `
    import { Duration } from "effect"
    import * as PostgresSink from ${moduleOf("postgres/PostgresSink.ts")}
    import { briefTimes, urlOf } from ${JSON.stringify(import.meta.resolve("@payments/testkit/postgres/PostgresTest"))}
    // The lease of a killed program ends soon, and a program that the machine delays keeps its transaction.
    const times = { ...briefTimes, idleTimeout: Duration.minutes(1) }
    const layer = PostgresSink.layer(urlOf({ port: ${server.port} }, ${JSON.stringify(schemaOf(folder))}), times)`
})

describe("the views of a schema", () => {
  it.live("show an added column, and users' views that use them continue to work", () =>
    Effect.gen(function*() {
      const schema = "views_that_grow"
      const run = (lists: typeof smallerLists) =>
        scan("invoices", { lists }).pipe(
          Effect.provide(Layer.merge(
            PostgresSink.layer(urlOf(server, schema), undefined, lists),
            layerTest({ invoices: [recordOf(Lists.invoices, 1)] })
          ))
        )
      const ask = (sql: string) => Effect.promise(() => query(server, sql))
      yield* run(smallerLists)
      yield* ask(`CREATE VIEW ${schema}.mine AS SELECT * FROM ${schema}.invoices_seen`)
      const mine = ask(`SELECT id, amount::text, changed_at FROM ${schema}.mine`)
      const before = yield* mine
      yield* run(Lists.all)
      assert.deepStrictEqual(yield* mine, before)
      assert.deepStrictEqual(
        yield* ask(`SELECT contract, payment_amount::text AS amount, last_seen_at >= changed_at AS seen
          FROM ${schema}.invoices_seen`),
        [{ contract: "contract 1", amount: "21", seen: true }]
      )
    }))
})

describe("the files of a list with new columns", () => {
  const namesIn = (folder: string) => manifestOf(folder).lists["invoices"]?.files.map(({ file }) => file)

  for (const format of ["csv", "parquet"] as const) {
    it.live(`are compared as ${format} with the columns that they have, if an earlier version rendered them`, () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const records = { invoices: [`{"id":"a","taxCode":"t","amount":1}`] }
        const layer = FileSink.layer(folder, { ...FileSink.defaultFormat, format })
        yield* scan("invoices").pipe(Effect.provide(Layer.merge(layer, layerTest(records))))
        // Earlier versions did not name the columns in the manifest.
        const copy = join(folder, FileSink.copyFile)
        execute(copy, "UPDATE manifest SET text = json_remove(text, '$.lists.invoices.columns') || char(10)")
        writeFileSync(join(folder, "manifest.json"), String(rowsOf(copy, "SELECT text FROM manifest")[0]?.["text"]))
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        const later = [withText(Lists.invoices, "taxCode"), ...Lists.all.filter((list) => list !== Lists.invoices)]
        yield* Effect.scoped(Effect.gen(function*() {
          const store = yield* openStore(copy, "here", later)
          yield* store.lockAndTakeOver("invoices", "refuse")
          const list = later[0] ?? Lists.invoices
          yield* fillColumns(store, list, keepBinding, yield* store.columns(list))
        }))
        assert.deepStrictEqual(rowsOf(copy, "SELECT tax_code AS code FROM invoices"), [{ code: "t" }])
        assert.deepStrictEqual(yield* verifyFiles(folder, later), [{ file: "invoices", kind: "outdated" }])
      }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
  }

  for (const format of formats) {
    it.live(`are rendered again as ${format} when the columns are filled, and only if they have columns`, () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const full: Format = { ...FileSink.defaultFormat, format }
        const records = { invoices: [recordOf(Lists.invoices, 1), recordOf(Lists.invoices, 2)] }
        const run = (list: Lists.ListName, lists: typeof smallerLists) =>
          scan(list, { lists }).pipe(
            Effect.provide(Layer.merge(FileSink.layer(folder, full, lists), layerTest(records)))
          )
        yield* run("invoices", smallerLists)
        const [before, text] = [namesIn(folder), readFileSync(join(folder, "manifest.json"), "utf8")]
        // After an export of another list, the columns of invoices exist but are not filled.
        yield* run("payoutRequests", Lists.all)
        assert.deepStrictEqual(namesIn(folder), before)
        assert.notStrictEqual(readFileSync(join(folder, "manifest.json"), "utf8"), text)
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        // The next scan of invoices fills them, and is interrupted after its first page.
        const filled = Deferred.makeUnsafe<void>()
        const layer = Layer.merge(FileSink.layer(folder, full), layerTest(records))
        const onEvent = ({ _tag }: ScanEvent) =>
          _tag === "Committed" ? Effect.andThen(Deferred.succeed(filled, undefined), Effect.never) : Effect.void
        const interrupted = yield* Effect.forkChild(
          scan("invoices", { limit: 1, largestBatch: 1, onEvent }).pipe(Effect.provide(layer))
        )
        yield* Deferred.await(filled)
        yield* Fiber.interrupt(interrupted)
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
        yield* run("invoices", Lists.all)
        if (format === "ndjson") assert.deepStrictEqual(namesIn(folder), before)
        else {
          assert.notDeepEqual(namesIn(folder), before)
          const rows = yield* tableOf(folder, Lists.invoices)
          assert.deepStrictEqual(rows.map(({ contract }) => contract), ["contract 1", "contract 2"])
          assert.isTrue(manifestOf(folder).lists["invoices"]?.columns?.includes("payment_amount"))
        }
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
      }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
  }
})
