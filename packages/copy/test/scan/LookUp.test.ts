/** Looking for rows before they are marked missing: its limits, personal data, passes, kills, and hostile answers. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi } from "@payments/core"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { Deferred, Effect, Fiber, Layer, Logger, Redacted } from "effect"
import { join } from "node:path"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { verify } from "../../src/ask/Verify.ts"
import * as Destination from "../../src/destination/Destination.ts"
import { defaultFormat } from "../../src/files/FileSink.ts"
import { erase } from "../../src/personal/Erase.ts"
import * as Certificate from "../../src/port/Certificate.ts"
import { keepAll, type PersonalRule } from "../../src/rule/Rule.ts"
import { openScanner, scan } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance, openReader } from "../../src/sqlite/SqliteStore.ts"
import { heldBackText, skippedText } from "../../src/store/Freshness.ts"
import { type Backend, invoice, invoices, opened, suite } from "./LookUpTest.ts"
import { prove, SkippingService } from "./SkippingService.ts"

const fileIn = (folder: string) => join(folder, "payments.db")

const sqlite: Backend = {
  layer: (folder) => SqliteSink.layer(fileIn(folder)),
  reader: (folder) => openReader(fileIn(folder), "here"),
  rechecked: (folder) =>
    Effect.sync(() =>
      new Map(
        rowsOf(fileIn(folder), "SELECT id, rechecked FROM invoices").map((row) => [
          String(row["id"]),
          row["rechecked"] === null ? null : String(row["rechecked"])
        ])
      )
    )
}

suite("SQLite", sqlite)

const matches = (folder: string) =>
  Effect.scoped(Effect.flatMap(openReader(fileIn(folder), "here"), (reader) => verify(reader, Lists.invoices))).pipe(
    Effect.map(({ differences }) => assert.deepStrictEqual(differences, []))
  )

const both = ["reference", "customerDocumentNumber"]

setFlagsFromString("--expose-gc")
const collectGarbage: () => void = runInNewContext("gc")

describe("a hostile answer of a filter", () => {
  it.live.each<readonly [name: string, answer: NonNullable<SkippingService["answer"]>, expected: object]>([
    [
      "another record with the same reference",
      ({ reference }) => reference === "ref_3" ? [{ ...invoice(9), reference: "ref_3" }] : undefined,
      { missing: 1 }
    ],
    ["everything", () => invoices(40), { missing: 0, unchecked: 1 }],
    ["records that begin with the value", () => [{ ...invoice(3), reference: "ref_33" }], { missing: 0, unchecked: 1 }],
    // The service has it. The destination gets what the service returns.
    ["the record itself", () => [{ ...invoice(3), amount: 9 }], { missing: 0, skipped: 1, updated: 1 }],
    ["the record as text without its amount", () => [{ id: "inv_3", reference: "ref_3", amount: "3" }], {
      missing: 0,
      skipped: 1,
      quarantined: 1
    }],
    [
      "more pages than a look-up reads",
      () => Array.from({ length: 101 }, (_, index) => ({ ...invoice(500 + index), reference: "ref_3" })),
      { missing: 0, unchecked: 1 }
    ]
  ])("%s", ([, answer, expected]) =>
    Effect.gen(function*() {
      const { folder, run, service } = yield* opened(sqlite, 40, ["reference"])
      service.records.delete("inv_3")
      yield* run()
      service.answer = answer
      assert.deepInclude(yield* run(), expected)
      // None of the other records of an answer is written.
      assert.deepStrictEqual(rowsOf(fileIn(folder), "SELECT count(*) AS rows FROM invoices"), [{ rows: 40 }])
      yield* matches(folder)
    }).pipe(Effect.scoped))
})

/** What status says of the rows that the last full scan did not return. */
const said = (folder: string) => {
  const [row] = rowsOf(fileIn(folder), "SELECT certificate FROM scans WHERE certificate IS NOT NULL ORDER BY scan DESC")
  const certificate = Certificate.ofScan({ certificate: String(row?.["certificate"]) })
  return [heldBackText(certificate), skippedText(certificate)]
}

describe("a scan that looks for rows", () => {
  it.live("uses the filters that still work, and does not send those again that do not", () =>
    Effect.gen(function*() {
      const { folder, run, service } = yield* opened(sqlite, 40, both)
      service.ignored.add("reference")
      for (const index of [3, 4]) service.records.delete(`inv_${index}`)
      service.skipped.add("inv_5")
      yield* run()
      assert.deepInclude(yield* run(), { missing: 2, skipped: 1, unchecked: 0 })
      assert.deepStrictEqual(service.requests.map((filters) => Object.keys(filters).join()), [
        "reference",
        ...Array.from({ length: 3 }, () => "customerDocumentNumber")
      ])
      yield* matches(folder)
    }).pipe(Effect.scoped))

  it.live.each<readonly [name: string, proven: ReadonlyArray<string>, expected: object]>([
    ["unchecked if a wide filter could return it", both, { missing: 0, unchecked: 1 }],
    ["missing if two other filters do not have it", [...both, "contract"], { missing: 1, unchecked: 0 }]
  ])("leaves a row %s", ([, proven, expected]) =>
    Effect.gen(function*() {
      const { changes, run, service } = yield* opened(sqlite, 40, proven)
      service.records.delete("inv_3")
      yield* run()
      const wide = Array.from(
        { length: 101 },
        (_, index) => ({ ...invoice(500 + index), customerDocumentNumber: "doc_3" })
      )
      service.answer = ({ customerDocumentNumber }) => customerDocumentNumber === "doc_3" ? wide : undefined
      assert.deepInclude(yield* run(), expected)
      assert.lengthOf(yield* changes, Number("missing" in expected && expected.missing))
    }).pipe(Effect.scoped))

  it.live("sends nothing more without candidates", () =>
    Effect.gen(function*() {
      const { run, service } = yield* opened(sqlite, 40, both)
      const before = service.pages
      yield* run()
      assert.deepStrictEqual([service.pages - before, service.requests], [4, []])
    }).pipe(Effect.scoped))

  it.live("does not believe a filter that does not return a record of the list, such as one whose index is down", () =>
    Effect.gen(function*() {
      const { folder, run, service } = yield* opened(sqlite, 40, both)
      service.records.delete("inv_3")
      service.skipped.add("inv_4")
      yield* run()
      service.answer = () => []
      assert.deepInclude(yield* run(), { missing: 0, skipped: 0, unchecked: 2 })
      assert.deepStrictEqual(said(folder), [
        "the last full scan returned 38 of 40 rows; the others were held back: they have no missing mark, because they could not be looked for",
        undefined
      ])
      // One look-up and one control of each filter.
      assert.lengthOf(service.requests, 4)
      // The other filter decides alone.
      service.answer = ({ reference }) => reference === undefined ? undefined : []
      assert.deepInclude(yield* run(), { missing: 1, skipped: 1, unchecked: 0, repeats: 0 })
      assert.deepStrictEqual(said(folder), [
        undefined,
        "the list did not return 1 record in the last full scan that a filter found: not missing"
      ])
      assert.lengthOf(service.requests, 9)
      yield* matches(folder)
    }).pipe(Effect.scoped))

  it.live("believes a filter that returns other records of a value, if they fill a page", () =>
    Effect.gen(function*() {
      // The value of the last record has 14 records, and a page has 10.
      const { run, service } = yield* opened(sqlite, 40, ["contract"])
      service.records.delete("inv_4")
      yield* run()
      assert.deepInclude(yield* run(), { missing: 1, unchecked: 0 })
      assert.deepStrictEqual(service.requests, [{ contract: "c_1" }, { contract: "c_1" }, { contract: "c_0" }])
    }).pipe(Effect.scoped))

  it.live("requests another record of the list if the service fails for the first one", () =>
    Effect.gen(function*() {
      const { run, service } = yield* opened(sqlite, 40, ["reference"])
      for (const index of [3, 4]) service.records.delete(`inv_${index}`)
      yield* run()
      service.failing = ({ reference }) => reference === "ref_39" ? 500 : undefined
      assert.deepInclude(yield* run(), { missing: 1, unchecked: 1 })
      assert.deepInclude(yield* run(), { missing: 0, unchecked: 1 })
    }).pipe(Effect.scoped))

  it.live("keeps no texts of the other records that the filters return", () =>
    Effect.gen(function*() {
      const { run, service } = yield* opened(sqlite, 0, both)
      for (let index = 0; index < 400; index++) service.put({ ...invoice(index), memo: "x".repeat(8000) })
      yield* run({ limit: 100 })
      for (let index = 0; index < 30; index++) service.records.delete(`inv_${index}`)
      yield* run({ limit: 100 })
      const used: Array<number> = []
      service.answer = () => {
        if (service.requests.length % 10 !== 5) return undefined
        collectGarbage()
        used.push(process.memoryUsage().heapUsed)
        return undefined
      }
      assert.deepInclude(yield* run({ limit: 100 }), { missing: 30 })
      // The answers have about 18 MB of text.
      assert.isBelow(Math.max(...used) - (used[0] ?? 0), 6 * 1024 * 1024)
    }).pipe(Effect.scoped))

  it.live("looks for the other rows although the service always fails for three values", () =>
    Effect.gen(function*() {
      const { folder, run, service } = yield* opened(sqlite, 100, ["reference"])
      for (let index = 0; index < 6; index++) service.records.delete(`inv_${index}`)
      const failing = new Set(["ref_0", "ref_1", "ref_2"])
      service.failing = ({ reference }) => failing.has(reference ?? "") ? 500 : undefined
      for (let scanned = 0; scanned < 6; scanned++) yield* run()
      const missing = () =>
        rowsOf(fileIn(folder), "SELECT id FROM invoices WHERE missing_since IS NOT NULL ORDER BY id")
      assert.deepStrictEqual(missing(), ["inv_3", "inv_4", "inv_5"].map((id) => ({ id })))
    }).pipe(Effect.scoped))

  it.live("tries the next filter of a row after a failed one, and counts only failures in a row", () =>
    Effect.gen(function*() {
      const { run, service } = yield* opened(sqlite, 100, both)
      for (let index = 0; index < 6; index++) service.skipped.add(`inv_${index}`)
      yield* run()
      service.failing = ({ reference }) => reference === undefined ? undefined : 500
      assert.deepInclude(yield* run(), { missing: 0, skipped: 6, unchecked: 0 })
      for (let index = 0; index < 6; index++) service.records.delete(`inv_${index}`)
      yield* run()
      // The value of the other filter may have changed.
      assert.deepInclude(yield* run(), { missing: 0, skipped: 0, unchecked: 6 })
    }).pipe(Effect.scoped))

  it.live("uses a filter on after refused values if it has answered another one", () =>
    Effect.gen(function*() {
      const { run, service } = yield* opened(sqlite, 100, ["reference"])
      for (let index = 0; index < 6; index++) service.skipped.add(`inv_${index}`)
      yield* run()
      let answered = 0
      service.failing = () => answered++ === 0 ? undefined : 400
      assert.deepInclude(yield* run(), { missing: 0, skipped: 1, unchecked: 5 })
      assert.strictEqual(answered, 6)
      answered = 1
      assert.deepInclude(yield* run(), { missing: 0, skipped: 0, unchecked: 5 })
      assert.strictEqual(answered, 3)
    }).pipe(Effect.scoped))

  it.live("gives up after three failures, and says so without a value", () =>
    Effect.gen(function*() {
      const { run, service } = yield* opened(sqlite, 100, both)
      for (let index = 0; index < 6; index++) service.records.delete(`inv_${index}`)
      yield* run()
      service.faults = [{ fault: "status", status: 500, from: 11 }]
      const lines: Array<unknown> = []
      const logger = Logger.layer([Logger.make(({ message }) => void lines.push(message))])
      assert.deepInclude(yield* Effect.provide(run(), logger), { missing: 0, unchecked: 6 })
      assert.lengthOf(service.requests, 0)
      const text = JSON.stringify(lines)
      assert.include(text, "6 of 6 rows could not be looked for")
      assert.notMatch(text, /ref_|doc_|inv_/)
    }).pipe(Effect.scoped))

  it.live("stores a fact about the list, and keeps the order of new records", () =>
    Effect.gen(function*() {
      const { folder, run, service } = yield* opened(sqlite, 40, both)
      service.skipped.add("inv_3")
      yield* run()
      for (let index = 40; index < 45; index++) service.put(invoice(index))
      assert.deepInclude(yield* run(), { skipped: 1, places: { known: 39, fresh: 5, freshAtStart: 0, freshAtEnd: 5 } })
      const facts = rowsOf(
        fileIn(folder),
        "SELECT fact, evidence FROM facts WHERE fact IN ('skipped-records', 'places')"
      )
      assert.deepStrictEqual(
        new Map(facts.map(({ evidence, fact }) => [fact, JSON.parse(String(evidence)).observations.at(-1).answer])),
        new Map([["skipped-records", "yes"], ["places", "last"]])
      )
    }).pipe(Effect.scoped))
})

describe("a run that ends while it looks for rows", () => {
  it.live("marks nothing, and the next run reads the last page again", () =>
    Effect.gen(function*() {
      const { folder, run, service } = yield* opened(sqlite, 40, both)
      service.records.delete("inv_3")
      service.skipped.add("inv_4")
      yield* run()
      const options = { limit: 10, largestBatch: 10 }
      const asked = yield* Deferred.make<void>()
      const stuck = Layer.effect(
        PaymentsApi,
        Effect.map(PaymentsApi, (api) => ({
          ...api,
          invoices: { ...api.invoices, page: () => Effect.andThen(Deferred.succeed(asked, undefined), Effect.never) }
        }))
      ).pipe(Layer.provide(service.layer))
      const fiber = yield* scan("invoices", options).pipe(
        Effect.provide(Layer.merge(sqlite.layer(folder), stuck)),
        Effect.forkChild
      )
      yield* Deferred.await(asked)
      yield* Fiber.interrupt(fiber)
      const last = rowsOf(fileIn(folder), "SELECT state, checkpoint IS NOT NULL AS has FROM scans ORDER BY scan").at(-1)
      assert.deepStrictEqual(last, { state: "running", has: 1 })
      assert.deepStrictEqual(rowsOf(fileIn(folder), "SELECT id FROM invoices WHERE missing_since IS NOT NULL"), [])
      const before = service.pages
      const resumed = yield* run(options)
      assert.deepInclude(resumed, { start: "resumed", missing: 1, skipped: 1, records: 39, repeats: 0, pages: 4 })
      assert.strictEqual(service.pages - before, 1)
      yield* matches(folder)
    }).pipe(Effect.scoped))
})

describe("a pass at the same time", () => {
  it.live("waits for the look-ups, so that no older text replaces what it reads", () =>
    Effect.gen(function*() {
      const { folder, run, service } = yield* opened(sqlite, 40, both)
      service.skipped.add("inv_3")
      yield* run()
      const [asked, mayAnswer] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const slow = Layer.effect(
        PaymentsApi,
        Effect.map(PaymentsApi, (api): PaymentsApi["Service"] => ({
          ...api,
          invoices: {
            ...api.invoices,
            page: (query) =>
              query?.reference === undefined ? api.invoices.page(query) : api.invoices.page(query).pipe(
                Effect.tap(() => Deferred.succeed(asked, undefined)),
                Effect.tap(() => Deferred.await(mayAnswer))
              )
          }
        }))
      ).pipe(Layer.provide(service.layer))
      const context = yield* Layer.build(Layer.merge(sqlite.layer(folder), slow))
      const scanner = yield* Effect.provide(openScanner("invoices", { limit: 10 }), context)
      const full = yield* Effect.forkChild(scanner.full)
      yield* Deferred.await(asked)
      service.skipped.clear()
      service.put({ ...invoice(3), amount: 300 })
      const head = yield* Effect.forkChild(scanner.head(4))
      yield* Effect.sleep("50 millis")
      yield* Deferred.succeed(mayAnswer, undefined)
      assert.deepInclude(yield* Fiber.join(full), { missing: 0, skipped: 1 })
      assert.deepInclude(yield* Fiber.join(head), { updated: 1 })
      assert.deepStrictEqual(rowsOf(fileIn(folder), "SELECT amount FROM invoices WHERE id = 'inv_3'"), [{
        amount: 300
      }])
    }).pipe(Effect.scoped))
})

describe("a rule for personal data", () => {
  const key = Redacted.make(Buffer.alloc(32, 7))
  it.live.each<readonly [name: string, rule: PersonalRule, sent: ReadonlyArray<string>]>([
    ["omit", { ...keepAll, preset: "omit", undocumented: "omit" }, ["reference"]],
    ["pseudonymize", { ...keepAll, preset: "pseudonymize", key }, ["reference"]],
    ["keep", keepAll, ["reference", "contract"]],
    ["omit the reference", { ...keepAll, fields: { reference: "omit" } }, ["contract", "customerDocumentNumber"]]
  ])("%s: sends only values that the destination has", ([, personal, sent]) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const service = new SkippingService(invoices(25))
      const run = scan("invoices", { limit: 10, personal }).pipe(
        Effect.provide(Layer.merge(sqlite.layer(folder), service.layer))
      )
      yield* run
      yield* Effect.provide(prove(["customerDocumentNumber", "contract", "reference"]), sqlite.layer(folder))
      service.records.delete("inv_3")
      yield* run
      assert.deepInclude(yield* run, { missing: 1 })
      // Each filter is sent twice: to look for the record, and for one that the list has.
      const twice = sent.flatMap((field) => [field, field])
      assert.deepStrictEqual(service.requests.map((filters) => Object.keys(filters).join()), twice)
    }).pipe(Effect.scoped))
})

describe("a record that has no value of a filter", () => {
  const key = Redacted.make(Buffer.alloc(32, 7))
  const missing = (service: SkippingService, change: (folder: string) => Effect.Effect<unknown, unknown>) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const run = scan("invoices", { limit: 10, personal: { ...keepAll, key } }).pipe(
        Effect.provide(Layer.merge(sqlite.layer(folder), service.layer))
      )
      yield* run
      yield* Effect.provide(prove(both), sqlite.layer(folder))
      yield* Effect.orDie(change(folder))
      service.records.delete("inv_3")
      yield* run
      assert.deepInclude(yield* run, { missing: 1, unchecked: 0 })
      return service.requests
    })

  it.live("because its person was erased, is not looked for", () =>
    Effect.gen(function*() {
      const service = new SkippingService([{ ...invoice(3), customerDocumentNumber: "secret" }, ...invoices(3)])
      const criteria = [{ kind: "document-number", value: Redacted.make("secret") }] as const
      const requests = yield* missing(service, (folder) =>
        Effect.scoped(
          Effect.flatMap(
            openMaintenance(fileIn(folder), "here"),
            (open) => erase(open, { criteria, key, by: "tester" })
          )
        ))
      assert.deepStrictEqual(requests, [])
    }).pipe(Effect.scoped))

  it.live("but a pseudonym of an earlier rule, is not looked for by it", () =>
    Effect.gen(function*() {
      const pseudonym = `ps1_${"0123456789abcdef".repeat(2)}`
      const service = new SkippingService([
        { ...invoice(3), reference: pseudonym, customerDocumentNumber: "" },
        ...invoices(3)
      ])
      assert.deepStrictEqual(yield* missing(service, () => Effect.void), [])
    }).pipe(Effect.scoped))
})

describe("a destination behind another sink", () => {
  it.live.each<readonly [name: string, to: (folder: string) => Destination.Destination]>([
    ["a thread", (folder) => ({ _tag: "Sqlite", file: fileIn(folder) })],
    ["a folder of files", (folder) => ({ _tag: "Files", folder: join(folder, "files"), format: defaultFormat })]
  ])("of %s waits for the look-ups too", ([, to]) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const service = new SkippingService(invoices(40))
      const sink = Layer.provide(Destination.layer(to(folder)), NodeServices.layer)
      const run = scan("invoices", { limit: 10 }).pipe(Effect.provide(Layer.merge(sink, service.layer)))
      yield* run
      yield* Effect.provide(prove(both), sink)
      service.records.delete("inv_3")
      service.skipped.add("inv_4")
      yield* run
      assert.deepInclude(yield* run, { missing: 1, skipped: 1, records: 39, unseen: 0 })
      assert.deepInclude(yield* run, { missing: 0, skipped: 0 })
    }).pipe(Effect.scoped))
})

describe("a reader of a destination of version 9", () => {
  it.live("reads its changes without the new columns, and an export adds them", () =>
    Effect.gen(function*() {
      const { folder, run, service } = yield* opened(sqlite, 40, both)
      service.put({ ...invoice(3), amount: 4 })
      yield* run()
      const tables = ["changes", "invoices", "payout_requests", "payin_sources"]
      const views = Lists.all.map(({ label }) => `DROP VIEW ${label.replaceAll("-", "_")}_seen`)
      execute(
        fileIn(folder),
        [
          ...views,
          ...tables.map((table) => `ALTER TABLE ${table} DROP COLUMN rechecked`),
          ...["handoffs", "handoff_batches", "handoff_asides", "handoff_skips"].map((table) => `DROP TABLE ${table}`),
          "PRAGMA user_version = 9"
        ].join(";")
      )
      const changes = Effect.scoped(
        Effect.flatMap(openReader(fileIn(folder), "here"), (reader) => reader.changes(0, 10, [Lists.invoices]))
      )
      assert.deepStrictEqual((yield* changes).map(({ id, rechecked }) => [id, rechecked]), [["inv_3", undefined]])
      service.records.delete("inv_5")
      for (const missing of [0, 1]) assert.deepInclude(yield* run(), { missing })
      assert.include((yield* changes).at(-1)?.rechecked, "customerDocumentNumber")
    }).pipe(Effect.scoped))
})
