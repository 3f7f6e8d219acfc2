/** A test suite for every kind of destination: what a scan or pass knew about personal data holds for all that it writes. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Effect, FileSystem, Layer } from "effect"
import { tableOf } from "../src/engine/Columns.ts"
import { keepRule } from "../src/engine/Personal.ts"
import { exitCodeOf, openScanner, scan, type ScanEvent, scanParts, Sink } from "../src/index.ts"
import { batchOf, recordOf } from "./Batches.ts"
import type { OwnedDestination } from "./OwnerTest.ts"

/** A kind of destination. Each test has its own folder, or a schema with the folder's name. */
export interface PersonalDestination extends OwnedDestination {
  /** Whether a reader sees the rows of a scan only after the scan is complete. */
  readonly snapshots: boolean
  /** Runs a statement in the database over a separate connection. `prefix` precedes the names of the tables. */
  readonly execute: (folder: string, statement: (prefix: string) => string) => Promise<void> | void
}

const list = Lists.invoices
const invoice = (index: number, name = `person ${index}`) =>
  `{"id":"inv_${index}","amount":${index},"contract":"${name}","settlementDate":"2024-05-0${index % 3 + 1}"}`
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index)
const invoices = (count: number, name?: string) => numbers(count).map((index) => invoice(index, name))

/** Records per page. */
const limit = 10
const plainRequest = { source: "memory", limit, parameters: {} }

/** Statements that do what an erasure does to the first ten rows: it leaves out a field and adds one to the edition. */
const erasure = (prefix: string) => [
  `UPDATE ${prefix}personal SET edition = edition + 1`,
  `UPDATE ${prefix}scans SET state = 'abandoned' WHERE state = 'running'`,
  `UPDATE ${prefix}${tableOf(list)} SET raw = ('{"id":"' || id || '"}')${
    prefix === "" ? "" : "::json"
  }, hash = id, contract = NULL WHERE amount < 10`
]

/** Runs the suite over a destination. */
export const personalSuite = (name: string, { execute, layer, read, snapshots }: PersonalDestination) => {
  const inFolder = <A, E>(use: (folder: string) => Effect.Effect<A, E, NodeServices.NodeServices>) =>
    FileSystem.FileSystem.use((fs) => fs.makeTempDirectoryScoped()).pipe(
      Effect.flatMap(use),
      Effect.scoped,
      Effect.provide(NodeServices.layer)
    )
  const over = (folder: string, records: ReadonlyArray<string>) =>
    Layer.merge(layer(folder), layerTest({ invoices: records }))
  const run = (
    folder: string,
    records: ReadonlyArray<string>,
    onEvent?: (event: ScanEvent) => Effect.Effect<void>
  ) => scan("invoices", { limit, largestBatch: limit, onEvent }).pipe(Effect.provide(over(folder, records)))
  const change = (folder: string, statements: (prefix: string) => ReadonlyArray<string>) =>
    Effect.forEach(
      statements("").keys(),
      (index) => Effect.promise(async () => execute(folder, (prefix) => statements(prefix)[index] ?? ""))
    )
  const erase = (folder: string) => change(folder, erasure)
  const textsIn = (folder: string) =>
    Effect.promise(async () => (await read(folder, list)).map(({ raw }) => raw).toSorted())
  /** Opens a locked list's sink, with what it knows about personal data now. */
  const opened = Effect.fnUntraced(function*(folder: string) {
    const sink = yield* Sink.pipe(Effect.provide(yield* Layer.build(layer(folder))))
    yield* sink.lock(list, "refuse")
    const state = yield* sink.inspect?.personal ?? Effect.die("it has no state")
    return { sink, state, request: { ...plainRequest, personal: { rule: keepRule, edition: state.edition } } }
  })
  const page = (from: number, text = invoice) =>
    numbers(limit).map((index) => recordOf(list, `inv_${from + index}`, text(from + index)))

  describe(`personal data in ${name}`, () => {
    it.live("has no rule and no edition before the first rows, and then the rule that keeps every field", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const stateOf = Effect.scoped(Effect.map(opened(folder), ({ state }) => state))
          const nothing = { rewriting: false, edition: 0, keyCheck: undefined, suppressed: [] }
          assert.deepStrictEqual(yield* stateOf, { rule: undefined, ...nothing })
          yield* run(folder, invoices(5))
          assert.deepStrictEqual(yield* stateOf, { rule: keepRule, ...nothing })
          yield* change(folder, (prefix) => [
            `INSERT INTO ${prefix}suppressed (hash, erasure) VALUES ('aa', 1), ('bb', 1)`,
            `UPDATE ${prefix}personal SET key_check = 'k', edition = 7`
          ])
          const { suppressed, ...state } = yield* stateOf
          assert.deepStrictEqual([suppressed.toSorted(), state], [
            ["aa", "bb"],
            { rule: keepRule, rewriting: false, edition: 7, keyCheck: "k" }
          ])
        })
      ))

    it.live("that is erased during a scan is not written again: the scan starts again from its first page", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          for (const [earlier, at] of [[0, 3], [50, 2], [50, 5]] as const) {
            if (earlier > 0) yield* run(folder, invoices(earlier))
            const starts: Array<string> = []
            let erased = false
            const summary = yield* run(folder, invoices(60), (event) => {
              if (event._tag === "Begun") starts.push(event.start)
              if (event._tag !== "Committed" || event.progress.pages !== at || erased) return Effect.void
              erased = true
              return Effect.asVoid(erase(folder))
            })
            assert.lengthOf(starts, 2, `${at}`)
            assert.deepInclude(summary, { pages: 6, records: 60 })
            assert.deepStrictEqual(yield* textsIn(folder), invoices(60).toSorted())
          }
        })
      ))

    it.live("makes every commit of an earlier session fail, also of unchanged records, and leaves all as it is", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, invoices(40))
          yield* Effect.scoped(Effect.gen(function*() {
            const { request, sink } = yield* opened(folder)
            const session = yield* sink.begin(list, request)
            const pass = yield* sink.passes?.begin(list, "head", request) ?? Effect.die("it has no passes")
            // These pages change nothing, so they are pending when the erasure commits.
            yield* session.commit(batchOf(list, page(0), "a"))
            yield* session.commit(batchOf(list, page(10), "b"))
            yield* erase(folder)
            const erased = yield* textsIn(folder)
            for (
              const commit of [
                session.commit(batchOf(list, page(20, (index) => invoice(index, "changed")), "c")),
                session.commit(batchOf(list, page(20), null)),
                session.restart,
                session.giveUp,
                pass.commit(batchOf(list, page(0), "a"))
              ]
            ) {
              const error = yield* Effect.flip(Effect.asVoid(commit))
              assert.strictEqual(error.reason._tag, "PersonalDataChanged")
              assert.strictEqual(exitCodeOf(error), 9)
            }
            for (
              const begun of [
                Effect.asVoid(sink.begin(list, request)),
                Effect.asVoid(sink.passes?.begin(list, "head", request) ?? Effect.die("it has no passes"))
              ]
            ) {
              const error = yield* Effect.flip(begun)
              assert.strictEqual(error.reason._tag, "PersonalDataChanged")
            }
            assert.deepStrictEqual(yield* textsIn(folder), erased)
          }))
          if (!snapshots) assert.include(yield* textsIn(folder), `{"id":"inv_0"}`)
          assert.deepInclude(yield* run(folder, invoices(40)), { pages: 4, records: 40, updated: 10 })
          assert.deepStrictEqual(yield* textsIn(folder), invoices(40).toSorted())
        })
      ))

    it.live("lets a pass write after an erasure while an earlier full scan is still open", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, invoices(40))
          yield* Effect.scoped(Effect.gen(function*() {
            const { request, sink } = yield* opened(folder)
            const full = yield* sink.begin(list, request)
            yield* full.commit(batchOf(list, page(0), "a"))
            yield* erase(folder)
            const personal = { rule: keepRule, edition: request.personal.edition + 1 }
            const pass = yield* sink.passes?.begin(list, "head", { ...request, personal }) ?? Effect.die("no passes")
            const write = pass.commit(batchOf(list, page(0), "a"))
            // The pass corrects the totals of the full scan, whose pending pages cannot be committed any more.
            assert.strictEqual((yield* Effect.flip(write)).reason._tag, "PersonalDataChanged")
            assert.deepInclude(yield* write, { updated: 10 })
            assert.strictEqual((yield* Effect.flip(full.giveUp)).reason._tag, "PersonalDataChanged")
          }))
          yield* run(folder, invoices(40))
          assert.deepStrictEqual(yield* textsIn(folder), invoices(40).toSorted())
        })
      ))

    it.live("that is erased during passes and parts makes them start again", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const days = ["2024-05-01", "2024-05-02", "2024-05-03"]
          const again: Array<string> = []
          let erasures = 0
          const onEvent = (event: ScanEvent) => {
            if (event._tag === "Begun") again.push(event.kind)
            if (event._tag !== "Committed" || erasures === 0) return Effect.void
            erasures--
            return Effect.asVoid(erase(folder))
          }
          const options = { limit: 5, largestBatch: 5, onEvent }
          yield* Effect.scoped(Effect.gen(function*() {
            const scanner = yield* openScanner("invoices", options)
            yield* scanner.full
            yield* erase(folder)
            for (const pass of [scanner.head(3), scanner.window(days), scanner.window(days)]) {
              again.length = 0
              erasures = 1
              yield* pass
              assert.isAtLeast(again.length, 1)
            }
          })).pipe(Effect.provide(over(folder, invoices(40))))
          again.length = 0
          erasures = 2
          const parts = yield* scanParts("invoices", { ...options, field: "settlementDate", values: days }).pipe(
            Effect.provide(over(folder, invoices(40)))
          )
          assert.isAbove(again.length, days.length)
          assert.strictEqual(parts.reduce((sum, { records }) => sum + records, 0), 40)
          yield* run(folder, invoices(40))
          assert.deepStrictEqual(yield* textsIn(folder), invoices(40).toSorted())
        })
      ))

    it.live("is not filled into columns from texts that were read before an erasure", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, invoices(20))
          yield* change(folder, (prefix) => [
            `UPDATE ${prefix}list_columns SET unfilled_from = 0 WHERE name = 'contract'`,
            `UPDATE ${prefix}personal SET edition = 3`
          ])
          yield* Effect.scoped(Effect.gen(function*() {
            const { request, sink } = yield* opened(folder)
            const before = { ...request, personal: { rule: keepRule, edition: 2 } }
            assert.strictEqual((yield* Effect.flip(sink.begin(list, before))).reason._tag, "PersonalDataChanged")
            yield* sink.begin(list, request)
          }))
        })
      ))

    it.live("is refused while a rewrite is not complete, and nothing is written", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          yield* run(folder, invoices(20))
          yield* change(folder, (prefix) => [`UPDATE ${prefix}personal SET rewriting = '{}'`])
          const error = yield* Effect.flip(run(folder, invoices(30)))
          assert.include(error.message, "payments rewrite")
          assert.strictEqual(exitCodeOf(error), 9)
          assert.lengthOf(yield* textsIn(folder), 20)
          yield* change(folder, (prefix) => [`UPDATE ${prefix}personal SET rewriting = NULL`])
          assert.deepInclude(yield* run(folder, invoices(30)), { inserted: 10 })
        })
      ))

    it.live("that is rewritten during a scan ends the scan", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const error = yield* Effect.flip(run(folder, invoices(60), (event) =>
            event._tag === "Committed" && event.progress.pages === 3
              ? Effect.asVoid(change(folder, (prefix) => [`UPDATE ${prefix}personal SET rewriting = '{}'`]))
              : Effect.void))
          assert.strictEqual(error.reason._tag, "OtherRule")
          if (!snapshots) assert.lengthOf(yield* textsIn(folder), 30)
        })
      ))
  })
}
