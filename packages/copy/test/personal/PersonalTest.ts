/** A test suite for every kind of destination: what a scan or pass knew about personal data holds for all that it writes. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Effect, FileSystem, Layer, Redacted, Result } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { exitCodeOf } from "../../../program/src/outcome/ErrorTable.ts"
import {
  keepAll,
  keyCheck,
  keyCheckIn,
  openScanner,
  type PersonalRule,
  ruleNameOf,
  ruleWords,
  scan,
  type ScanEvent,
  scanParts,
  Sink
} from "../../src/index.ts"
import { tableOf } from "../../src/plan/Columns.ts"
import { toStored } from "../../src/rule/StoredRule.ts"
import { hashOf } from "../../src/rule/Suppression.ts"
import { batchOf, recordOf } from "../session/Batches.ts"
import type { OwnedDestination } from "../session/OwnerTest.ts"

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

const canary = "CANARY-7f3a"

const keyOf = (name: string) => Redacted.make(new TextEncoder().encode(name.repeat(32)))

const pseudonymize = (key: string): PersonalRule => ({ ...keepAll, preset: "pseudonymize", key: keyOf(key) })

/** Returns the bytes of all files in a folder as text. */
const textIn = async (folder: string): Promise<unknown> =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile() && !file.name.endsWith(".lock"))
    .map((file) => readFileSync(join(file.parentPath, file.name), "latin1"))

/** Runs the suite over a destination. */
export const personalSuite = (
  name: string,
  { content = textIn, execute, layer, read, snapshots }: PersonalDestination
) => {
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
    onEvent?: (event: ScanEvent) => Effect.Effect<void>,
    personal?: PersonalRule
  ) => scan("invoices", { limit, largestBatch: limit, onEvent, personal }).pipe(Effect.provide(over(folder, records)))
  const change = (folder: string, statements: (prefix: string) => ReadonlyArray<string>) =>
    Effect.forEach(
      statements("").keys(),
      (index) => Effect.promise(async () => execute(folder, (prefix) => statements(prefix)[index] ?? ""))
    )
  const contentOf = (folder: string) => content(folder)
  const erase = (folder: string) => change(folder, erasure)
  const textsIn = (folder: string) =>
    Effect.promise(async () => (await read(folder, list)).map(({ raw }) => raw).toSorted())
  /** Opens a locked list's sink, with what it knows about personal data now. */
  const opened = Effect.fnUntraced(function*(folder: string) {
    const sink = yield* Sink.pipe(Effect.provide(yield* Layer.build(layer(folder))))
    yield* sink.lock(list, "refuse")
    const state = yield* sink.inspect?.personal ?? Effect.die("it has no state")
    return { sink, state, request: { ...plainRequest, personal: { rule: toStored(keepAll), edition: state.edition } } }
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
          assert.deepStrictEqual(yield* stateOf, { rule: toStored(keepAll), ...nothing })
          yield* change(folder, (prefix) => [
            `INSERT INTO ${prefix}suppressed (hash, erasure) VALUES ('aa', 1), ('bb', 1)`,
            `UPDATE ${prefix}personal SET key_check = 'k', edition = 7`
          ])
          const { suppressed, ...state } = yield* stateOf
          assert.deepStrictEqual([suppressed.toSorted(), state], [
            ["aa", "bb"],
            { rule: toStored(keepAll), rewriting: false, edition: 7, keyCheck: "k" }
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
            // What this reads is not used by the pass, because the erasure outdates it.
            yield* sink.inspect?.scan(list, request) ?? Effect.die("it cannot be inspected")
            yield* erase(folder)
            const personal = { rule: toStored(keepAll), edition: request.personal.edition + 1 }
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
            const before = { ...request, personal: { rule: toStored(keepAll), edition: 2 } }
            assert.strictEqual((yield* Effect.flip(sink.begin(list, before))).reason._tag, "PersonalDataChanged")
            yield* sink.begin(list, request)
          }))
        })
      ))

    it.live("is stored after the rule of the first rows, and refused with another rule or key", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const bad = [
            `{"id":"inv_bad","amount":"x","customerDocumentNumber":"${canary}","${canary}":{"a":"${canary}"}}`
          ]
          const canaries = (text: string) =>
            numbers(30).map((index) =>
              `{"id":"inv_${index}","amount":${index},"customerDocumentNumber":"${canary}","status":"${text}","new":"${canary}"}`
            )
          const omit = { ...keepAll, preset: "omit", undocumented: "omit" } as const
          yield* run(folder, [...canaries("open"), ...bad], undefined, omit)
          const summary = yield* run(folder, [...canaries("paid"), ...bad], undefined, omit)
          assert.deepInclude(summary, { updated: 30, quarantined: 1 })
          assert.include(yield* textsIn(folder), `{"id":"inv_3","amount":3,"status":"paid"}`)
          yield* Effect.scoped(Effect.gen(function*() {
            const { sink, state } = yield* opened(folder)
            assert.strictEqual(ruleNameOf(state.rule), ruleNameOf(omit))
            // What an earlier scan knew: the rule that keeps every field.
            const error = yield* Effect.flip(sink.begin(list, plainRequest))
            assert.strictEqual(error.reason._tag, "PersonalDataChanged")
          }))
          for (const other of [keepAll, { ...omit, undocumented: "hold" } as const, pseudonymize("a")]) {
            const error = yield* Effect.flip(run(folder, canaries("void"), undefined, other))
            assert.strictEqual(error.reason._tag, "OtherRule")
            assert.strictEqual(exitCodeOf(error), 9)
            for (const text of [ruleWords(omit), ruleWords(other), "payments rewrite"]) {
              assert.include(error.message, text)
            }
          }
          assert.include(yield* textsIn(folder), `{"id":"inv_3","amount":3,"status":"paid"}`)
          const stored = JSON.stringify(yield* Effect.promise(() => contentOf(folder)))
          assert.notInclude(stored, canary)
          // The certificate and the manifest name the rule. PostgreSQL doubles quotation marks in rows.
          const unquoted = stored.replaceAll(/[\\"]/g, "")
          assert.include(unquoted, `rule:${ruleNameOf(omit)}`)
          if (snapshots) assert.include(unquoted, `name: ${ruleNameOf(omit)}`)
        })
      ))

    it.live("does not hide that a record does not match the document, unless the rule leaves its value out", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const deep = "[".repeat(600) + "]".repeat(600)
          const records = [
            `{"id":"a","amount":"${canary}","paymentAmount":5,"new":${deep}}`,
            `{"id":"b","customerDocumentNumber":{"${canary}":"${canary}"},"amount":7}`,
            `{"id":"c","customerDocumentNumber":1,"amount":9007199254740993}`,
            `"${canary}"`,
            `{"id":5,"reference":"${canary}"}`,
            `{"id":"d","${canary}":1,"amount":1}`
          ]
          const hold = { ...keepAll, preset: "omit", undocumented: "hold", fields: { reference: "omit" } } as const
          const summary = yield* run(folder, records, undefined, hold)
          assert.deepInclude(summary, { records: 6, quarantined: 5, withoutId: 2 })
          assert.deepStrictEqual(yield* textsIn(folder), [
            `{"id":"a","paymentAmount":5}`,
            `{"id":"b","amount":7}`,
            `{"id":"c","amount":9007199254740993}`,
            `{"id":"d","amount":1}`
          ])
          const stored = JSON.stringify(yield* Effect.promise(() => contentOf(folder)))
          assert.notInclude(stored, canary)
          assert.include(stored, "a decision: add the field to keep, omit or pseudonymize")
        })
      ))

    it.live("is stored as pseudonyms of one key", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const records = numbers(15).map((index) => `{"id":"inv_${index}","customerDocumentNumber":"${canary}"}`)
          yield* run(folder, records, undefined, pseudonymize("a"))
          assert.deepInclude(yield* run(folder, records, undefined, pseudonymize("a")), { unchanged: 15 })
          const error = yield* Effect.flip(run(folder, records, undefined, pseudonymize("b")))
          assert.include(error.message, "another personal key than the given one")
          const [text = ""] = yield* textsIn(folder)
          assert.match(text, /^\{"id":"inv_0","customerDocumentNumber":"ps1_[0-9a-f]{32}"\}$/)
          yield* Effect.scoped(Effect.gen(function*() {
            const { state } = yield* opened(folder)
            assert.strictEqual(state.keyCheck, keyCheckIn(state.rule))
          }))
        })
      ))

    it.live("of an empty destination gets one rule if two programs fill it at the same time", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const records = invoices(30).map((text) => text.replace("contract", "customerDocumentNumber"))
          const omit = { ...keepAll, preset: "omit" } as const
          const both = yield* Effect.all(
            ([["invoices", omit], ["payinSources", keepAll]] as const).map(([one, personal]) =>
              Effect.result(
                scan(one, { limit, largestBatch: limit, personal }).pipe(
                  Effect.provide(Layer.merge(
                    layer(folder),
                    layerTest({ invoices: records, payinSources: numbers(30).map((index) => ({ id: `pis_${index}` })) })
                  ))
                )
              )
            ),
            { concurrency: "unbounded" }
          )
          const refused = both.flatMap((result) => Result.isFailure(result) ? [result.failure] : [])
          assert.deepStrictEqual(refused.map(({ reason }) => reason._tag), ["OtherRule"])
          const texts = yield* textsIn(folder)
          assert.isTrue(texts.every((text) => !text.includes("person")), texts[0])
        })
      ))

    it.live("of a person on the suppression list is not stored again, and needs the key", () =>
      inFolder((folder) =>
        Effect.gen(function*() {
          const key = keyOf("a")
          const withKey = { ...keepAll, key }
          const records = (status: string) =>
            numbers(30).map((index) =>
              `{"id":"inv_${index}","customerDocumentNumber":"${
                index % 10
              }${canary}","amount":${index},"status":"${status}","x":"${index}"}`
            )
          yield* run(folder, records("open"), undefined, withKey)
          yield* change(folder, (prefix) => [
            `INSERT INTO ${prefix}suppressed (hash, erasure) VALUES ('${
              hashOf(key, { kind: "document-number", value: Redacted.make(`3${canary}`) })
            }', 1)`,
            `UPDATE ${prefix}personal SET key_check = '${keyCheck(key)}', edition = 1`
          ])
          for (
            const [other, problem] of [[keepAll, "needs the personal key"], [
              { ...keepAll, key: keyOf("b") },
              "not the one"
            ]] as const
          ) {
            const error = yield* Effect.flip(run(folder, records("paid"), undefined, other))
            assert.strictEqual(error.reason._tag, "WrongSetting")
            assert.strictEqual(exitCodeOf(error), 3)
            assert.include(error.message, problem)
          }
          const summary = yield* run(folder, records("paid"), undefined, withKey)
          assert.deepInclude(summary, { updated: 30 })
          const expected = records("paid").map((text, index) =>
            index % 10 === 3 ? `{"id":"inv_${index}","amount":${index},"status":"paid"}` : text
          )
          assert.deepStrictEqual(yield* textsIn(folder), expected.toSorted())
          assert.deepInclude(yield* run(folder, records("paid"), undefined, withKey), { unchanged: 30 })
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
