import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { manifestOf, textsOf } from "@payments/testkit/RenderedFiles"
import { diceOf, seed } from "@payments/testkit/Seed"
import { Deferred, Effect, Fiber, Layer, Stream } from "effect"
import { copyFileSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { verify } from "../../src/ask/Verify.ts"
import * as Destination from "../../src/destination/Destination.ts"
import * as FileSink from "../../src/files/FileSink.ts"
import { verifyFiles } from "../../src/files/VerifyFiles.ts"
import type { ScanStart, Sink, SinkError } from "../../src/port/Sink.ts"
import { type ListScanner, openScanner, type ScanEvent, type ScanOptions, scanParts } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openReader } from "../../src/sqlite/SqliteStore.ts"
import { ChangingList, layerOver } from "../session/ChangingList.ts"

const days = ["2024-05-01", "2024-05-02", "2024-05-03"]

/** Opens the scanner until the scope closes. */
const openIn = (layer: Layer.Layer<PaymentsApi | Sink, SinkError>, options: ScanOptions = {}) =>
  Effect.flatMap(Layer.build(layer), (context) => Effect.provide(openScanner("invoices", options), context))

/** A list of invoices, newest first, and its scanner over a new SQLite file. */
const opened = (size: number, options: ScanOptions = {}) =>
  Effect.gen(function*() {
    const file = join(yield* temporaryFolder, "payments.db")
    const list = new ChangingList(diceOf(seed, "passes"), { order: "newest", cursors: "keyset" }, size, days)
    const scanner = yield* openIn(Layer.merge(layerOver(list), SqliteSink.layer(file)), {
      limit: 5,
      largestBatch: 5,
      ...options
    })
    const differences = Effect.scoped(
      Effect.flatMap(openReader(file, "here"), (reader) => verify(reader, Lists.invoices))
    ).pipe(Effect.map((verified) => verified.differences))
    const texts = () =>
      new Map(rowsOf(file, "SELECT id, raw FROM invoices").map(({ id, raw }) => [String(id), String(raw)]))
    return { file, list, scanner, differences, texts }
  })

describe("a head pass", () => {
  it.live("reads nothing before a full scan is complete", () =>
    Effect.gen(function*() {
      const { file, scanner } = yield* opened(20)
      assert.deepInclude(yield* scanner.head(2), { kind: "head", pages: 0, records: 0 })
      assert.deepStrictEqual(rowsOf(file, "SELECT * FROM scans"), [])
    }).pipe(Effect.scoped))

  it.live("writes new and changed records, and ends after quiet pages", () =>
    Effect.gen(function*() {
      const { differences, file, list, scanner, texts } = yield* opened(60)
      yield* scanner.full
      const before = rowsOf(file, "SELECT * FROM scans")
      assert.deepInclude(yield* scanner.head(2), { pages: 2, records: 10, inserted: 0, updated: 0 })
      assert.deepStrictEqual(rowsOf(file, "SELECT * FROM scans"), before, "a pass without changes writes nothing")
      list.insert(3)
      assert.deepInclude(yield* scanner.head(2), { pages: 3, inserted: 3, updated: 0 })
      assert.deepStrictEqual(texts(), list.texts())
      assert.deepStrictEqual(
        rowsOf(file, "SELECT kind, state, part, certificate IS NULL AS uncertified FROM scans ORDER BY scan"),
        [
          { kind: "full", state: "complete", part: "", uncertified: 0 },
          { kind: "head", state: "complete", part: "", uncertified: 1 }
        ]
      )
      assert.deepStrictEqual(yield* differences, [])
    }).pipe(Effect.scoped))

  it.live("interrupts a full scan at a page boundary, and keeps its certificate right", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      let pages = 0
      const onEvent = (event: ScanEvent) =>
        Effect.suspend(() =>
          event._tag === "Committed" && event.kind === "full" && ++pages === 16
            ? Deferred.succeed(reached, undefined)
            : Effect.void
        )
      const { differences, list, scanner, texts } = yield* opened(60, { onEvent })
      yield* scanner.full
      const full = yield* Effect.forkChild(scanner.full)
      yield* Deferred.await(reached)
      list.insert(2)
      list.changeNewest(4)
      const pass = yield* scanner.head(1)
      assert.deepInclude(pass, { inserted: 2 })
      assert.isAtLeast(pass.updated, 2)
      assert.deepInclude(yield* Fiber.join(full), { behindHead: 0, missing: 0, heldBack: 0 })
      assert.deepStrictEqual(yield* differences, [])
      assert.deepStrictEqual(texts(), list.texts())
    }).pipe(Effect.scoped))
})

describe("a head pass after one that was interrupted", () => {
  it.live.each([false, true])(
    "reads the records that are new behind those that the other has written (in a new process: %s)",
    (isNew) =>
      Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "payments.db")
        const list = new ChangingList(diceOf(seed, "hole"), { order: "newest", cursors: "keyset" }, 60, days)
        const layer = Layer.merge(layerOver(list), SqliteSink.layer(file))
        let interruptAt = 0
        let pages = 0
        const onEvent = (event: ScanEvent) =>
          event._tag === "Committed" && event.kind === "head" && ++pages === interruptAt
            ? Effect.interrupt
            : Effect.void
        const open = openIn(layer, { limit: 5, onEvent })
        const passes = Effect.gen(function*() {
          const scanner = yield* open
          if (pages === 0) {
            yield* scanner.full
            yield* scanner.head(2)
            list.insert(40)
            ;[interruptAt, pages] = [3, 0]
            yield* Effect.exit(scanner.head(2))
            assert.strictEqual(pages, 3)
            if (isNew) return
          }
          assert.deepInclude(yield* scanner.head(2), { pages: 10, inserted: 25 })
          assert.deepInclude(yield* scanner.head(2), { pages: 2, inserted: 0 })
          list.insert(1)
          assert.deepInclude(yield* scanner.full, { inserted: 1, behindHead: 0 })
        }).pipe(Effect.scoped)
        yield* passes
        if (isNew) yield* passes
      }).pipe(Effect.scoped)
  )
})

describe("an interrupted scan of a part", () => {
  it.live("is overtaken by a pass that has written, and by no other pass", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const list = new ChangingList(diceOf(seed, "parts"), { order: "newest", cursors: "keyset" }, 60, days)
      const layer = Layer.merge(layerOver(list), SqliteSink.layer(file))
      const withScanner = <A, E>(use: (scanner: ListScanner) => Effect.Effect<A, E>) =>
        Effect.scoped(Effect.flatMap(openIn(layer, { limit: 5 }), use))
      const part = { field: "settlementDate", values: days.slice(0, 1), limit: 5, largestBatch: 5 }
      const startOf = (isInterrupted: boolean) =>
        Effect.gen(function*() {
          const started = yield* Deferred.make<ScanStart>()
          const onEvent = (event: ScanEvent) =>
            event._tag === "Begun"
              ? Deferred.succeed(started, event.start)
              : event._tag === "Committed" && isInterrupted
              ? Effect.interrupt
              : Effect.void
          yield* Effect.exit(scanParts("invoices", { ...part, onEvent }).pipe(Effect.provide(layer)))
          return yield* Deferred.await(started)
        })
      yield* withScanner((scanner) => scanner.full)
      assert.strictEqual(yield* startOf(true), "first")
      assert.deepInclude(yield* withScanner((scanner) => scanner.head(2)), { pages: 2, updated: 0 })
      assert.strictEqual(yield* startOf(true), "resumed")
      list.changeNewest(1)
      assert.deepInclude(yield* withScanner((scanner) => scanner.head(2)), { updated: 1 })
      assert.strictEqual(yield* startOf(false), "overtaken")
    }).pipe(Effect.scoped))
})

describe("the quarantine", () => {
  it.live("has the records that a pass has written until the next full scan has read them", () =>
    Effect.gen(function*() {
      const { file, list, scanner } = yield* opened(20)
      yield* scanner.full
      list.insert(40)
      const bad = [...list.texts()].filter(([, text]) => text.includes(`"amount":"`)).map(([id]) => id).toSorted()
      const newlyBad = bad.filter((id) => Number(id.slice("inv_".length)) >= 20)
      const ids = (kind: string) =>
        rowsOf(file, `SELECT id FROM quarantine JOIN scans USING (scan) WHERE kind = '${kind}'`).map(({ id }) =>
          String(id)
        )
      assert.deepInclude(yield* scanner.head(1), { inserted: 40, quarantined: newlyBad.length })
      assert.sameMembers(ids("head"), newlyBad)
      assert.deepInclude(yield* scanner.head(1), { quarantined: 0 })
      yield* scanner.full
      assert.deepStrictEqual([ids("head"), ids("full").toSorted()], [[], bad])
    }).pipe(Effect.scoped))
})

describe("a full scan that is killed after a pass has changed rows that it has read", () => {
  it.live("is resumed with the right totals", () =>
    Effect.gen(function*() {
      const reached = yield* Deferred.make<void>()
      const copy = join(yield* temporaryFolder, "payments.db")
      let commits = 0
      let copyNow = () => {}
      const onEvent = (event: ScanEvent) =>
        Effect.suspend(() => {
          // The pages of the second full scan are unchanged, so none of them is stored before the pass.
          if (event._tag === "Committed" && event.kind === "full" && ++commits === 18) {
            return Deferred.succeed(reached, undefined)
          }
          // The full scan continues only after this event.
          if (event._tag === "Ended" && event.kind === "head") copyNow()
          return Effect.void
        })
      const { file, list, scanner } = yield* opened(60, { onEvent })
      copyNow = () => {
        for (const suffix of ["", "-wal"]) copyFileSync(file + suffix, copy + suffix)
      }
      yield* scanner.full
      const full = yield* Effect.forkChild(scanner.full)
      yield* Deferred.await(reached)
      list.changeNewest(4)
      assert.deepInclude(yield* scanner.head(1), { updated: 4 })
      yield* Fiber.interrupt(full)
      const next = yield* openIn(Layer.merge(layerOver(list), SqliteSink.layer(copy)), { limit: 5 })
      const summary = yield* next.full
      assert.deepInclude(summary, { start: "resumed", pages: 12, records: 60 })
      const verified = yield* Effect.scoped(
        Effect.flatMap(openReader(copy, "here"), (reader) => verify(reader, Lists.invoices))
      )
      assert.deepInclude(verified.certificate, { records: 60, distinct: 60 })
      assert.deepStrictEqual(verified.differences, [])
    }).pipe(Effect.scoped))
})

describe("a window pass", () => {
  it.live("reads the records of its days and no others", () =>
    Effect.gen(function*() {
      const { differences, list, scanner, texts } = yield* opened(60)
      yield* scanner.full
      list.insert(9)
      assert.deepInclude(yield* scanner.window(days.slice(1)), { kind: "window", inserted: 6, records: 46 })
      const stored = texts()
      for (const [id, text] of list.texts()) {
        assert.strictEqual(stored.get(id), text.includes(days[0] ?? "") && Number(id.slice(4)) >= 60 ? undefined : text)
      }
      assert.deepStrictEqual(yield* differences, [])
    }).pipe(Effect.scoped))

  it.live("stores the newer text of a record that moves to another date meanwhile", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const list = new ChangingList(diceOf(seed, "dates"), { order: "newest", cursors: "keyset" }, 3, days)
      const [from = "", to = ""] = days
      const isRead = yield* Deferred.make<void>()
      const isCommitted = yield* Deferred.make<void>()
      let isFirst = true
      // The first page of the old date arrives only after the page of the new date is committed.
      const api = Layer.effect(
        PaymentsApi,
        Effect.map(PaymentsApi, (inner): PaymentsApi["Service"] => ({
          ...inner,
          invoices: {
            ...inner.invoices,
            pages: (query) => {
              const pages = inner.invoices.pages(query)
              if (query?.settlementDate === from && isFirst) {
                isFirst = false
                return Stream.tap(pages, () =>
                  Effect.andThen(Deferred.succeed(isRead, undefined), Deferred.await(isCommitted)))
              }
              if (query?.settlementDate !== to) {
                return pages
              }
              const move = Effect.andThen(
                Deferred.await(isRead),
                Effect.sync(() =>
                  list.moveTo("inv_0", to)
                )
              )
              return Stream.unwrap(Effect.as(move, pages))
            }
          }
        }))
      ).pipe(Layer.provide(layerOver(list)))
      const onEvent = (event: ScanEvent) =>
        event._tag === "Committed" && event.kind === "window" ? Deferred.succeed(isCommitted, undefined) : Effect.void
      const scanner = yield* openIn(Layer.merge(api, SqliteSink.layer(file)), { onEvent })
      yield* scanner.full
      yield* scanner.window([from, to])
      const rows = rowsOf(file, "SELECT id, raw FROM invoices").map(({ id, raw }) => [String(id), String(raw)] as const)
      assert.deepStrictEqual(new Map(rows), list.texts())
    }).pipe(Effect.scoped))

  it.live("fails alone if the service ignores the filter", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const invoices = days.map((day) => `{"id":"${day}","settlementDate":"${day}"}`)
      const api = layerTest({ invoices, faults: [{ fault: "ignoreFilter" }] })
      const scanner = yield* openIn(Layer.merge(api, SqliteSink.layer(file)))
      yield* scanner.full
      const error = yield* Effect.flip(scanner.window(days))
      assert.strictEqual(error.reason._tag, "FilterNotApplied")
      assert.deepInclude(yield* scanner.full, { records: 3 })
    }).pipe(Effect.scoped))
})

describe("a folder of files", () => {
  it.live("is rendered after full scans only, and every manifest and file is right", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const list = new ChangingList(diceOf(seed, "files"), { order: "newest", cursors: "keyset" }, 20, days)
      const sink = FileSink.layer(folder).pipe(Layer.provide(NodeServices.layer))
      const scanner = yield* openIn(Layer.merge(layerOver(list), sink), { limit: 5 })
      const differences = verifyFiles(folder).pipe(Effect.provide(NodeServices.layer))
      const certificate = () => manifestOf(folder).lists["invoices"]?.certificate
      yield* scanner.full
      const before = readFileSync(join(folder, "manifest.json"), "utf8")
      list.insert(2)
      assert.deepInclude(yield* scanner.head(1), { inserted: 2 })
      assert.strictEqual(readFileSync(join(folder, "manifest.json"), "utf8"), before)
      assert.deepStrictEqual(yield* differences, [])
      yield* scanner.full
      assert.deepInclude(certificate(), { distinct: 22 })
      assert.deepStrictEqual(yield* differences, [])
      assert.sameMembers([...yield* textsOf(folder, Lists.invoices)], [...list.texts().values()])
    }).pipe(Effect.scoped))
})

describe("the order of a list that is read newest first", () => {
  it.live("is contradicted by a record that is new behind the place where the last head pass ended", () =>
    Effect.gen(function*() {
      const { list, scanner } = yield* opened(60)
      yield* scanner.full
      list.insert(1)
      yield* scanner.head(2)
      list.insert(2)
      assert.deepInclude(yield* scanner.full, { inserted: 2, behindHead: 0 })
      yield* scanner.head(2)
      list.insertOldest(3)
      assert.deepInclude(yield* scanner.full, { inserted: 3, behindHead: 3 })
      assert.isUndefined(yield* scanner.headProblem)
      yield* scanner.stopHead("3 records")
      assert.strictEqual(yield* scanner.headProblem, "3 records")
      yield* scanner.resumeHead
      assert.isUndefined(yield* scanner.headProblem)
    }).pipe(Effect.scoped))
})

it.live("passes run in the thread of the sink", () =>
  Effect.gen(function*() {
    const file = join(yield* temporaryFolder, "payments.db")
    const list = new ChangingList(diceOf(seed, "thread"), { order: "newest", cursors: "keyset" }, 20, days)
    const sink = Layer.provide(Destination.layer({ _tag: "Sqlite", file }), NodeServices.layer)
    const scanner = yield* openIn(Layer.merge(layerOver(list), sink), { limit: 5 })
    yield* scanner.full
    list.insert(2)
    assert.deepInclude(yield* scanner.head(1), { inserted: 2, pages: 2 })
    assert.deepInclude(yield* scanner.window(days), { inserted: 0, records: 22 })
    yield* scanner.stopHead("why")
    assert.strictEqual(yield* scanner.headProblem, "why")
    yield* scanner.resumeHead
    assert.isUndefined(yield* scanner.headProblem)
  }).pipe(Effect.scoped))
