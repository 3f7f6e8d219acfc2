import * as NodeServices from "@effect/platform-node/NodeServices"
/** Erasures next to exports that read and write the same records, and the locks that keep them apart in PostgreSQL. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { connectionTo, query, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Effect, Fiber, Layer, Redacted, type Scope } from "effect"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import {
  Destination,
  erase,
  keepAll,
  openScanner,
  scan,
  type ScanEvent,
  scanParts,
  verify,
  verifyAgainstApi
} from "../../src/index.ts"
import { Sink, type SinkError } from "../../src/port/Sink.ts"
import { settingsOf } from "../../src/postgres/PostgresSettings.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { openStore as openPostgresStore } from "../../src/postgres/PostgresStore.ts"
import { makeSink } from "../../src/session/SqlSink.ts"
import { openMaintenance, openStore } from "../../src/sqlite/SqliteStore.ts"
import type { Store } from "../../src/store/Store.ts"
import type { RedactedDestination } from "./RedactionTest.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const list = Lists.invoices
const key = Redacted.make(new TextEncoder().encode("0123456789abcdef0123456789abcdef"))
const personal = { ...keepAll, key }
const days = ["2024-05-01", "2024-05-02"]

/** Records of ten persons, whose status is that of the generation. */
const recordsOf = (generation: number) =>
  Array.from(
    { length: 80 },
    (_, index) =>
      `{"id":"inv_${index}","amount":${index},"status":"s${index % 3 === generation % 3 ? generation : 0}",` +
      `"settlementDate":"${days[index % 2]}","customerDocumentNumber":"document-${index % 10}","more":"of document-${
        index % 10
      }"}`
  )

interface RacedDestination extends Pick<RedactedDestination, "layer" | "open"> {
  readonly store: (folder: string) => Effect.Effect<Store, SinkError, Scope.Scope>
}

const destinations: ReadonlyArray<readonly [string, RacedDestination]> = [
  ["sqlite:FILE", {
    layer: (folder) =>
      Layer.provide(Destination.layer({ _tag: "Sqlite", file: join(folder, "payments.db") }), NodeServices.layer),
    open: (folder) => openMaintenance(join(folder, "payments.db"), "here"),
    store: (folder) => openStore(join(folder, "payments.db"), "here")
  }],
  ["postgres://HOST", {
    layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
    open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder))),
    store: (folder) => Effect.flatMap(settingsOf(urlOf(server, basename(folder))), openPostgresStore)
  }]
]

describe.each(destinations)("a person who is erased from %s", (_, { layer, open, store }) => {
  const criteria = [{ kind: "document-number", value: Redacted.make("document-1") }] as const
  const eraseIn = (folder: string) =>
    Effect.scoped(Effect.flatMap(open(folder), (opened) => erase(opened, { criteria, key, by: "tester" })))
  const everything = (folder: string) =>
    Effect.scoped(Effect.gen(function*() {
      const opened = yield* open(folder)
      return JSON.stringify([yield* opened.scans(list), yield* opened.rows(list, -1, 1000)])
    }))

  it.live("just before the scan of their part begins leaves no scan with their value", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const api = layerTest({ invoices: recordsOf(0) })
      yield* scan("invoices", { personal }).pipe(Effect.provide(Layer.merge(layer(folder), api)))
      const opened = yield* store(folder)
      let isErased = false
      const raced: Store = {
        ...opened,
        start: (begun) =>
          Effect.suspend(() => isErased ? Effect.void : Effect.asVoid(eraseIn(folder))).pipe(
            Effect.andThen(Effect.suspend(() => {
              isErased = true
              return opened.start(begun)
            }))
          )
      }
      const error = yield* scanParts("invoices", {
        personal,
        field: "customerDocumentNumber",
        values: ["document-1"]
      }).pipe(
        Effect.provide(Layer.merge(Layer.succeed(Sink, makeSink(raced)), api)),
        Effect.flip
      )
      assert.isTrue(isErased)
      assert.include(error.message, "a person with one of the values was erased")
      assert.notInclude(yield* everything(folder), "document-1")
    }).pipe(Effect.scoped))

  it.live("does not come back in the name of an undocumented field", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const records = [0, 1].map((person) =>
        `{"id":"inv_${person}","customerDocumentNumber":"document-${person}","name_${person}":1,"n_1020304050":1}`
      )
      const run = scan("invoices", { personal }).pipe(
        Effect.provide(Layer.merge(layer(folder), layerTest({ invoices: records })))
      )
      assert.deepStrictEqual((yield* run).undocumented, { name_0: 1, name_1: 1, "(other)": 2 })
      yield* eraseIn(folder)
      assert.deepStrictEqual((yield* run).undocumented, { name_0: 1, "(other)": 1 })
      assert.notInclude(yield* everything(folder), "name_1")
    }).pipe(Effect.scoped))
})

describe.each(destinations)(
  "persons that are erased from %s while scans and passes read them",
  (name, { layer, open }) => {
    it.live(`are not stored again, and all others are kept (seed ${seed})`, () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const dice = diceOf(seed, name)
        const over = (generation: number) => Layer.merge(layer(folder), layerTest({ invoices: recordsOf(generation) }))
        const begun: Array<string> = []
        const options = {
          limit: 5,
          largestBatch: 5,
          personal,
          missingLimit: 1,
          onEvent: (event: ScanEvent) => Effect.sync(() => void (event._tag === "Begun" && begun.push(event.kind)))
        }
        yield* scan("invoices", options).pipe(Effect.provide(over(0)))
        let generation = 0
        let isErasing = true
        const round = Effect.suspend(() =>
          Effect.scoped(Effect.gen(function*() {
            const scanner = yield* openScanner("invoices", options)
            yield* Effect.all([scanner.full, Effect.andThen(scanner.head(2), scanner.window(days))], {
              concurrency: "unbounded"
            })
          })).pipe(Effect.provide(over(++generation)))
        )
        const exports = yield* Effect.forkChild(Effect.repeat(round, { while: () => isErasing }))
        const persons = isLongRun ? [0, 1, 2, 3, 4, 5, 6, 7] : [0, 1, 2]
        const storedIn = Effect.scoped(Effect.gen(function*() {
          const opened = yield* open(folder)
          const rows = yield* opened.rows(list, -1, 1000)
          const changes = yield* opened.changes(0, 100_000, [list])
          return JSON.stringify([rows, changes])
        }))
        for (const person of persons) {
          yield* Effect.sleep(dice.below(60))
          const value = Redacted.make(`document-${person}`)
          yield* Effect.scoped(Effect.flatMap(open(folder), (opened) =>
            erase(opened, { criteria: [{ kind: "document-number", value }], key, by: "tester" }).pipe(
              // A program that exports may prevent that old copies are removed from the file. The same call completes it.
              Effect.retry({ times: 20 })
            )))
          for (let check = 0; check < 3; check++) {
            assert.notInclude(yield* storedIn, `document-${person}`)
            yield* Effect.sleep(dice.below(20))
          }
        }
        isErasing = false
        yield* Fiber.join(exports)
        yield* scan("invoices", options).pipe(Effect.provide(over(++generation)))
        const stored = yield* storedIn
        for (let person = 0; person < 10; person++) {
          assert.strictEqual(stored.includes(`document-${person}`), !persons.includes(person), `person ${person}`)
        }
        assert.isAtLeast(begun.length, persons.length, "exports ran meanwhile")
        yield* Effect.scoped(Effect.gen(function*() {
          const opened = yield* open(folder)
          assert.deepStrictEqual((yield* verify(opened, list)).differences, [])
          const compared = yield* verifyAgainstApi(opened, list, personal)
          assert.deepStrictEqual(compared.differences, [])
          const error = yield* Effect.flip(verifyAgainstApi(opened, list, keepAll))
          assert.include(error.message, "needs the personal key")
        })).pipe(Effect.provide(layerTest({ invoices: recordsOf(generation) })))
      }).pipe(Effect.scoped))
  }
)

describe("the state of personal data in PostgreSQL", () => {
  const connection = Effect.suspend(() => connectionTo(server))
  const filled = Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const s = `"${basename(folder)}"`
    const run = (records: ReadonlyArray<string>, onEvent?: (event: ScanEvent) => Effect.Effect<void>) =>
      scan("invoices", { limit: 20, largestBatch: 20, onEvent }).pipe(
        Effect.provide(
          Layer.merge(PostgresSink.layer(urlOf(server, basename(folder))), layerTest({ invoices: records }))
        )
      )
    yield* run(recordsOf(0))
    return { s, run }
  })
  /** Waits until a statement of the schema's programs waits for a lock. */
  const untilBlocked = Effect.promise(() =>
    query(server, "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'payments'")
  ).pipe(Effect.repeat({ until: (waiting) => waiting.length > 0 }), Effect.timeout("1 minute"))

  it.live("is locked by an erasure: a commit waits for its end, and then writes nothing", () =>
    Effect.gen(function*() {
      const { run, s } = yield* filled
      const erasing = yield* connection
      yield* erasing.query("BEGIN")
      yield* erasing.query(`SELECT FROM ${s}.personal FOR UPDATE`)
      let begun = 0
      const exported = yield* Effect.forkChild(run(
        recordsOf(1),
        (event) => Effect.sync(() => void (event._tag === "Begun" && begun++))
      ))
      yield* untilBlocked
      yield* erasing.query(`UPDATE ${s}.personal SET edition = edition + 1`)
      yield* erasing.query("COMMIT")
      assert.deepInclude(yield* Fiber.join(exported), { records: 80, updated: 27 })
      assert.strictEqual(begun, 2)
    }).pipe(Effect.scoped))

  it.live("is locked by a commit: an erasure waits for its end", () =>
    Effect.gen(function*() {
      const { run, s } = yield* filled
      const reader = yield* connection
      yield* reader.query("BEGIN")
      yield* reader.query(`LOCK TABLE ${s}.invoices IN SHARE MODE`)
      const exported = yield* Effect.forkChild(run(recordsOf(1)))
      yield* untilBlocked
      const erasing = yield* connection
      const refused = yield* Effect.exit(erasing.query(`SELECT FROM ${s}.personal FOR UPDATE NOWAIT`))
      assert.strictEqual(refused._tag, "Failure")
      // Other commits do not wait for each other, also not for the one that binds an empty destination.
      yield* erasing.query(`SELECT FROM ${s}.personal FOR KEY SHARE NOWAIT`)
      yield* erasing.query("SET lock_timeout = '1s'")
      yield* erasing.query(`UPDATE ${s}.personal SET rule = NULL`)
      yield* reader.query("ROLLBACK")
      assert.deepInclude(yield* Fiber.join(exported), { records: 80, updated: 27 })
    }).pipe(Effect.scoped))
})
