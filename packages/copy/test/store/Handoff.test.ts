/** What is stored of hand-offs, in both databases. */
import type * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query as ask, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Duration, Effect, type Layer, type Scope } from "effect"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { moveConsumer } from "../../src/ask/Consumers.ts"
import { prune } from "../../src/ask/Retention.ts"
import type { Sink, SinkError } from "../../src/port/Sink.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import type { Handoff, HandoffBatch } from "../../src/store/HandoffStore.ts"
import type { Maintenance } from "../../src/store/Store.ts"
import { consumer, exporting, subscribed } from "../handoff/Subscribed.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

interface DestinationCase {
  readonly name: string
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError, NodeServices.NodeServices>
  readonly open: (folder: string) => Effect.Effect<Maintenance, SinkError, Scope.Scope>
  readonly run: (folder: string, statement: (table: (name: string) => string) => string) => Effect.Effect<unknown>
  /** The statement that gives the tables a version. */
  readonly setVersion: (version: number, table: (name: string) => string) => string
}

const fileIn = (folder: string) => join(folder, "payments.db")

const destinations: ReadonlyArray<DestinationCase> = [
  {
    name: "sqlite:FILE",
    layer: (folder) => SqliteSink.layer(fileIn(folder)),
    open: (folder) => openMaintenance(fileIn(folder), "here"),
    run: (folder, statement) => Effect.sync(() => execute(fileIn(folder), statement((name) => name))),
    setVersion: (version) => `PRAGMA user_version = ${version}`
  },
  {
    name: "postgres://HOST",
    layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
    open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder))),
    run: (folder, statement) => Effect.promise(() => ask(server, statement((name) => `"${basename(folder)}".${name}`))),
    setVersion: (version, table) => `UPDATE ${table("destination")} SET version = ${version}`
  }
]

const at = "2026-01-01T00:00:00.123Z"

/** Returns the stored boundary of the batch that begins with the same change. */
const boundary = (store: Maintenance, { first, generation, selection }: HandoffBatch) =>
  Effect.map(
    store.handoffBatches(consumer, { generation, after: first - 1, selection, count: 1 }),
    ([found]) => found?.first === first ? found : undefined
  )

describe.each(destinations)("the hand-offs of $name", ({ layer, open, run, setVersion }) => {
  const opened = Effect.gen(function*() {
    const folder = yield* temporaryFolder
    for (const amount of [1, 2]) yield* exporting(layer(folder), Array.from({ length: 10 }, () => amount))
    const store = yield* open(folder)
    yield* subscribed(store)
    const { generation = "" } = yield* store.changeRange
    const batch: HandoffBatch = {
      generation,
      after: 0,
      first: 1,
      last: 4,
      list: "invoices",
      changes: 4,
      selection: "invoices",
      nonce: "n1",
      storedAt: at,
      scannedAt: undefined
    }
    return { folder, store, batch, generation }
  })

  const change = (store: Maintenance, epoch: number | undefined, next: Partial<Handoff>) =>
    store.changeHandoff({ consumer, epoch, change: (stored) => ({ ...stored, ...next }) })

  it.live("keep every value, and are changed by the last sender only", () =>
    Effect.gen(function*() {
      const { batch, folder, store } = yield* opened
      assert.deepStrictEqual(yield* store.handoffs, [])
      const first = yield* store.takeOverHandoff(consumer)
      const empty = { consumer, epoch: 1, state: "running" as const, reason: undefined, batch: undefined, attempts: 0 }
      assert.deepInclude(first, empty)
      const state: Partial<Handoff> = {
        state: "waiting",
        reason: "refused",
        batch: { ...batch, scannedAt: at },
        attempts: 3,
        firstAttemptAt: at,
        nextAttemptAt: "2026-01-02T00:00:00.000Z",
        mostChanges: 2,
        suspectThrough: 9
      }
      const changed = yield* change(store, 1, state)
      assert.deepStrictEqual(changed, { handoff: { ...first, ...state }, moved: undefined })
      const other = yield* open(folder)
      assert.deepStrictEqual(yield* other.takeOverHandoff(consumer), { ...first, ...state, epoch: 2 })
      assert.deepStrictEqual(yield* change(store, 1, empty), { handoff: undefined, moved: undefined })
      assert.deepStrictEqual(yield* store.handoffs, [{ ...first, ...state, epoch: 2 }])
      // A person's decision has no epoch, and does not change it.
      assert.deepInclude((yield* change(other, undefined, { attempts: 4, epoch: 77 })).handoff, {
        epoch: 2,
        attempts: 4
      })
      assert.deepInclude((yield* other.changeHandoff({ consumer, epoch: 2, change: () => undefined })).handoff, {
        attempts: 4
      })
    }).pipe(Effect.scoped))

  it.live("have another epoch for each of many senders that take over at the same time", () =>
    Effect.gen(function*() {
      const { folder, store } = yield* opened
      const stores = [store, yield* open(folder), yield* open(folder)]
      const all = stores.flatMap((one) => Array.from({ length: 5 }, () => one.takeOverHandoff(consumer)))
      const epochs = (yield* Effect.all(all, { concurrency: "unbounded" })).map(({ epoch }) => epoch)
      assert.deepStrictEqual(epochs.toSorted((a, b) => a - b), Array.from({ length: 15 }, (_, index) => index + 1))
      const written = yield* Effect.all(
        epochs.map((epoch) => change(store, epoch, { attempts: epoch })),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(written.flatMap(({ handoff }) => handoff === undefined ? [] : [handoff.attempts]), [15])
    }).pipe(Effect.scoped))

  it.live("move the consumer in the same transaction, or change nothing", () =>
    Effect.gen(function*() {
      const { batch, generation, store } = yield* opened
      yield* store.takeOverHandoff(consumer)
      yield* change(store, 1, { batch, attempts: 1 })
      const move = (position: number, epoch = 1, of = generation) =>
        store.changeHandoff({
          consumer,
          epoch,
          change: (stored) => ({ ...stored, batch: undefined, attempts: 0 }),
          move: { name: consumer, position, generation: of, when: "forward", now: at },
          skip: { generation, seq: position, reason: "r", by: "b", at }
        })
      for (const [position, epoch, of] of [[4, 2, generation], [4, 1, "another"]] as const) {
        yield* move(position, epoch, of)
        assert.deepInclude((yield* store.handoffs)[0], { batch, attempts: 1 })
        assert.deepInclude((yield* store.consumerStates)[0], { position: 0 })
        assert.deepStrictEqual(yield* store.handoffSkips(consumer), [])
      }
      const { handoff, moved } = yield* move(4)
      assert.deepInclude(handoff, { batch: undefined, attempts: 0 })
      assert.strictEqual(moved?.verdict._tag, "move")
      assert.deepInclude((yield* store.consumerStates)[0], { position: 4 })
      assert.deepStrictEqual(yield* store.handoffSkips(consumer), [
        { generation, seq: 4, reason: "r", by: "b", at }
      ])
      // The boundary stays for a replay.
      assert.deepStrictEqual(yield* boundary(store, batch), batch)
    }).pipe(Effect.scoped))

  it.live("move the consumer forward themselves, so nobody else passes over changes or begins a generation", () =>
    Effect.gen(function*() {
      const { store } = yield* opened
      const acknowledge = (position: number) =>
        Effect.match(moveConsumer(store, { name: consumer, position, when: "forward" }), {
          onFailure: ({ _tag }) => _tag,
          onSuccess: (moved) => moved
        })
      const { last } = yield* store.changeRange
      assert.strictEqual(yield* acknowledge(1), 1, "nothing is handed off yet")
      yield* store.takeOverHandoff(consumer)
      assert.deepStrictEqual(
        [yield* acknowledge(1), yield* acknowledge(2), yield* acknowledge(last + 1)],
        [1, "ChangesUnsent", "BeyondLastChange"]
      )
      assert.deepInclude((yield* store.consumerStates)[0], { position: 1 })
      assert.lengthOf(yield* store.lineage, 1)
    }).pipe(Effect.scoped))

  it.live("store the boundaries of several batches, and nothing if somebody has moved the consumer back", () =>
    Effect.gen(function*() {
      const { batch, generation, store } = yield* opened
      yield* store.takeOverHandoff(consumer)
      const [second, third] = [4, 6].map((first, index) => ({
        ...batch,
        after: first - 1,
        first,
        last: first + 1,
        nonce: `m${index}`
      }))
      if (second === undefined || third === undefined) return assert.fail()
      const move = (from: number, position: number) =>
        store.changeHandoff({
          consumer,
          epoch: 1,
          change: (stored) => ({ ...stored, batch: { ...batch, last: 3 }, attempts: 7 }),
          boundaries: [second, third],
          from,
          move: { name: consumer, position, generation, when: "forward", now: at }
        })
      assert.deepInclude(yield* move(1, 3), { moved: undefined })
      assert.deepInclude((yield* store.consumerStates)[0], { position: 0 })
      assert.deepInclude((yield* store.handoffs)[0], { batch: undefined })
      assert.deepStrictEqual(yield* store.handoffBatches(consumer, { ...batch, after: 0, count: 9 }), [])
      assert.strictEqual((yield* move(0, 3)).moved?.verdict._tag, "move")
      const stored = [{ ...batch, last: 3 }, second, third]
      assert.deepStrictEqual(yield* store.handoffBatches(consumer, { ...batch, after: 0, count: 9 }), stored)
      assert.deepStrictEqual(yield* store.handoffBatches(consumer, { ...batch, after: 3, count: 1 }), [second])
      assert.deepStrictEqual(yield* store.handoffBatches(consumer, { ...batch, selection: "other", count: 9 }), [])
      // A position beyond the last change shows that the destination was restored.
      assert.strictEqual((yield* move(99, 1000)).moved?.verdict._tag, "begin")
    }).pipe(Effect.scoped))

  it.live("keep a boundary until a smaller one replaces it, its changes are removed, or its consumer is", () =>
    Effect.gen(function*() {
      const { batch, folder, generation, store } = yield* opened
      yield* store.takeOverHandoff(consumer)
      yield* change(store, 1, { batch })
      yield* change(store, 1, { batch: { ...batch, last: 10, changes: 10 } })
      assert.deepStrictEqual(yield* boundary(store, batch), batch)
      const smaller = { ...batch, last: 2, changes: 2, nonce: "n2" }
      assert.deepStrictEqual((yield* change(store, 1, { batch: smaller })).handoff?.batch, smaller)
      assert.deepStrictEqual(yield* boundary(store, batch), smaller)
      assert.isUndefined(yield* boundary(store, { ...batch, generation: "another" }))
      const settle = (position: number, next: HandoffBatch | undefined) =>
        store.changeHandoff({
          consumer,
          epoch: 1,
          change: (stored) => ({ ...stored, batch: next }),
          move: { name: consumer, position, generation, when: "forward", now: at }
        })
      const following = { ...batch, after: 2, first: 3, last: 8, nonce: "n3" }
      yield* settle(2, following)
      // The next complete scan needs none of the changes before it.
      yield* exporting(layer(folder), Array.from({ length: 10 }, () => 2))
      yield* Effect.delay(prune(store, { keepChanges: Duration.zero, isDryRun: false }), "2 millis")
      assert.deepInclude(yield* store.changeRange, { pruned: 2 })
      yield* settle(8, undefined)
      assert.isUndefined(yield* boundary(store, batch))
      assert.deepStrictEqual(yield* boundary(store, following), following)
      yield* store.removeConsumer(consumer)
      assert.deepStrictEqual(yield* store.handoffs, [])
      assert.isUndefined(yield* boundary(store, following))
    }).pipe(Effect.scoped))

  it.live("need the tables of this version", () =>
    Effect.gen(function*() {
      const { folder } = yield* opened
      for (const one of ["handoffs", "handoff_batches", "handoff_asides", "handoff_skips"]) {
        yield* run(folder, (table) => `DROP TABLE ${table(one)}`)
      }
      yield* run(folder, (table) => setVersion(10, table))
      const store = yield* open(folder)
      assert.deepStrictEqual(yield* store.handoffs, [])
      const error = yield* Effect.flip(store.takeOverHandoff(consumer))
      assert.include(error.message, "run payments migrate")
    }).pipe(Effect.scoped))
})
