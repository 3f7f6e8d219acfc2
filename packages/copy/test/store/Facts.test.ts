/** The facts of a service in a destination, in both databases. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query as ask, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Effect, Layer, type Scope } from "effect"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { acceptFact, factsIn } from "../../src/facts.ts"
import { driftLine } from "../../src/port/Drift.ts"
import { add, judge } from "../../src/port/Judgement.ts"
import type { Sink, SinkError } from "../../src/port/Sink.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { scan } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import type { Maintenance } from "../../src/store/Store.ts"
import { changeEvidence, storedEvidence } from "../../src/store/StoredFacts.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

interface DestinationCase {
  readonly name: string
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError>
  readonly open: (folder: string) => Effect.Effect<Maintenance, SinkError, Scope.Scope>
  /** Runs a statement. `table` returns a table's name in it. */
  readonly run: (folder: string, statement: (table: (name: string) => string) => string) => Effect.Effect<unknown>
}

const fileIn = (folder: string) => join(folder, "payments.db")

const destinations: ReadonlyArray<DestinationCase> = [
  {
    name: "sqlite:FILE",
    layer: (folder) => SqliteSink.layer(fileIn(folder)),
    open: (folder) => openMaintenance(fileIn(folder), "here"),
    run: (folder, statement) => Effect.sync(() => execute(fileIn(folder), statement((name) => name)))
  },
  {
    name: "postgres://HOST",
    layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
    open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder))),
    run: (folder, statement) => Effect.promise(() => ask(server, statement((name) => `"${basename(folder)}".${name}`)))
  }
]

const observe = (writer: Maintenance, answer: string, source = "https://a/", list: Lists.AnyList = Lists.invoices) =>
  changeEvidence(
    writer,
    list,
    source,
    (evidence) => new Map([["order", add(evidence("order"), { answer, seen: "100 records", at: "2026-01-01" })]])
  )

const answerIn = (reader: Maintenance, source: string | undefined, list: Lists.AnyList = Lists.invoices) =>
  Effect.map(storedEvidence(reader, list, source), (evidence) => {
    const order = evidence.get("order")
    return order === undefined ? undefined : [judge(order).degree, judge(order).answer, order.accepted]
  })

describe.each(destinations)("a destination $name", ({ layer, open, run }) => {
  const opened = Effect.gen(function*() {
    const folder = yield* temporaryFolder
    yield* scan("invoices").pipe(Effect.provide(Layer.merge(layer(folder), layerTest({ invoices: [`{"id":"a"}`] }))))
    return { folder, writer: yield* open(folder) }
  })

  it.live("keeps the facts of each list, and those of one service only", () =>
    Effect.gen(function*() {
      const { writer } = yield* opened
      assert.isUndefined(yield* answerIn(writer, "https://a/"))
      yield* observe(writer, "newest")
      yield* observe(writer, "oldest", "https://a/", Lists.payoutRequests)
      yield* observe(writer, "newest")
      assert.deepStrictEqual(yield* answerIn(writer, "https://a/"), ["certain", "newest", "newest"])
      assert.deepStrictEqual(yield* answerIn(writer, undefined), ["certain", "newest", "newest"])
      assert.deepStrictEqual(yield* answerIn(writer, "https://a/", Lists.payoutRequests), [
        "likely",
        "oldest",
        undefined
      ])
      assert.isUndefined(yield* answerIn(writer, "https://b/"))
      yield* observe(writer, "oldest", "https://b/")
      assert.deepStrictEqual(yield* answerIn(writer, "https://b/"), ["likely", "oldest", undefined])
      assert.deepStrictEqual(yield* answerIn(writer, "https://a/"), ["certain", "newest", "newest"])
    }).pipe(Effect.scoped))

  it.live("keeps every observation of programs that write at the same time", () =>
    Effect.gen(function*() {
      const { folder, writer } = yield* opened
      const writers = [writer, yield* open(folder), yield* open(folder)]
      const observed = writers.flatMap((one) => Array.from({ length: 5 }, () => observe(one, "newest")))
      yield* Effect.all(observed, { concurrency: "unbounded" })
      const stored = yield* storedEvidence(writer, Lists.invoices, "https://a/")
      assert.lengthOf(stored.get("order")?.observations ?? [], 15)
    }).pipe(Effect.scoped))

  it.live("has a new answer only once it is accepted, and keeps who accepted it", () =>
    Effect.gen(function*() {
      const { writer } = yield* opened
      const accept = acceptFact(writer, { fact: "order", by: "operations", lists: Lists.all })
      const of = yield* writer.source
      for (const answer of ["newest", "newest", "oldest"]) yield* observe(writer, answer, of)
      assert.deepStrictEqual(yield* answerIn(writer, of), ["undecided", "oldest", "newest"])
      const accepted = [{ list: "invoices" as const, fact: "order", before: "newest", after: "oldest" }]
      assert.deepStrictEqual(yield* accept, accepted)
      assert.deepStrictEqual(yield* answerIn(writer, of), ["likely", "oldest", "oldest"])
      yield* observe(writer, "oldest", of)
      assert.deepStrictEqual(yield* answerIn(writer, of), ["certain", "oldest", "oldest"])
      yield* accept
      const { invoices } = yield* factsIn(writer, of)
      assert.deepStrictEqual(
        invoices?.["order"]?.acceptances?.map(({ after, before, by }) => [by, before, after]),
        [["operations", "newest", "oldest"]]
      )
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it.live("says that its facts cannot be read if they are damaged", () =>
    Effect.gen(function*() {
      const { folder, writer } = yield* opened
      yield* observe(writer, "newest")
      yield* run(folder, (table) => `UPDATE ${table("facts")} SET evidence = '{}'`)
      // An observation must not replace what is stored.
      for (const use of [Effect.asVoid(answerIn(writer, "https://a/")), observe(writer, "newest")]) {
        assert.include((yield* Effect.flip(use)).message, "the facts of invoices cannot be read")
      }
    }).pipe(Effect.scoped))

  const scanned = (
    folder: string,
    invoices: ReadonlyArray<{ readonly id: string; readonly [field: string]: unknown }>
  ) =>
    scan("invoices").pipe(
      Effect.map(({ drift }) => drift.map(driftLine)),
      Effect.provide(Layer.merge(layer(folder), layerTest({ invoices })))
    )

  it.live("names references that records share, unless records of the first scans share some", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const withReferences = (count: number, referenceOf: (index: number) => number) =>
        Array.from({ length: count }, (_, index) => ({ id: `inv_${index}`, reference: `order-${referenceOf(index)}` }))
      for (const count of [200, 210]) assert.deepStrictEqual(yield* scanned(folder, withReferences(count, Number)), [])
      const shared = withReferences(216, (index) => index < 210 ? index : 7)
      const expected = [
        "changed: whether each new record has another reference than those before: no (before: yes) (6 records)"
      ]
      assert.deepStrictEqual(yield* scanned(folder, shared), expected)
      // Nothing is counted again before a record is added.
      assert.deepStrictEqual(yield* scanned(folder, shared), expected)
      assert.deepStrictEqual(yield* scanned(folder, shared), [])
      const other = yield* temporaryFolder
      for (const count of [100, 120, 140]) {
        assert.deepStrictEqual(yield* scanned(other, withReferences(count, (index) => index % 50)), [])
      }
    }).pipe(Effect.scoped))

  it.live("names a day without records, in the first scan that begins a day after its end", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const now = Date.now()
      const dayBefore = (days: number) => new Date(now - days * 86_400_000).toISOString()
      const invoices = Array.from(
        { length: 60 },
        (_, day) =>
          day === 2 ? [] : Array.from({ length: 30 }, (__, index) => ({
            id: `inv_${day}_${index}`,
            createdAt: dayBefore(day)
          }))
      ).flat()
      assert.deepStrictEqual(yield* scanned(folder, invoices), [])
      yield* run(folder, (table) => `UPDATE ${table("scans")} SET started_at = '${dayBefore(1)}'`)
      assert.deepStrictEqual(yield* scanned(folder, invoices), [
        `changed: number of records created on ${dayBefore(2).slice(0, 10)}, where 30 to 30 were usual (0 records)`
      ])
      assert.deepStrictEqual(yield* scanned(folder, invoices), [])
    }).pipe(Effect.scoped))
})
