import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { moduleOf, startChild } from "@payments/testkit/ChildProcess"
import { rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { Clock, Deferred, Duration, Effect, Exit, Fiber, Layer, Option, Scope } from "effect"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { join } from "node:path"
import * as ScanTotals from "../../src/plan/ScanTotals.ts"
import { DiskFull, SinkError } from "../../src/port/Sink.ts"
import { scan, type ScanOptions, scanParts } from "../../src/scan/Scan.ts"
import { makeSink } from "../../src/session/SqlSink.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openStore } from "../../src/sqlite/SqliteStore.ts"
import { batchOf, recordOf } from "./Batches.ts"

const lists = {
  payoutRequests: Array.from({ length: 30 }, (_, index) => ({ id: `por_${index}` })),
  invoices: Array.from({ length: 30 }, (_, index) => ({ id: `inv_${index}`, contract: index % 2 === 0 ? "a" : "b" }))
}

const fileIn = Effect.map(temporaryFolder, (folder) => join(folder, "payments.db"))

/** Runs an export over a new connection. */
const run = (file: string, list: Lists.ListName, options: ScanOptions = {}) =>
  scan(list, { limit: 10, ...options }).pipe(Effect.provide(Layer.merge(SqliteSink.layer(file), layerTest(lists))))

/** Starts an export that pauses after its first commit until it is released. */
const pausedRun = Effect.fnUntraced(function*(file: string) {
  const reached = yield* Deferred.make<void>()
  const released = yield* Deferred.make<void>()
  const fiber = yield* Effect.forkChild(run(file, "invoices", {
    largestBatch: 10,
    onEvent: (event) =>
      event._tag === "Committed"
        ? Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(released))
        : Effect.void
  }))
  yield* Deferred.await(reached)
  return { fiber, release: Deferred.succeed(released, undefined) }
})

describe("two writers", () => {
  it.effect("of one list: the second is refused within a second, and its error names the holder of the lock", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      const first = yield* pausedRun(file)
      for (
        const second of [
          Effect.asVoid(run(file, "invoices")),
          scanParts("invoices", { field: "contract", values: ["a"] }).pipe(
            Effect.asVoid,
            Effect.provide(Layer.merge(SqliteSink.layer(file), layerTest(lists)))
          )
        ]
      ) {
        const refused = yield* Effect.forkChild(Effect.flip(second))
        yield* TestClock.adjust("500 millis")
        const error = yield* Fiber.join(refused)
        assert.isTrue(error._tag === "SinkError" && error.reason._tag === "Locked")
        assert.match(error.message, new RegExp(`another program \\(process ${process.pid} on \\S+ since 20\\S+Z\\)`))
        assert.include(error.message, "is writing invoices there")
      }
      yield* Fiber.interrupt(first.fiber)
    }).pipe(Effect.scoped))

  it.effect("of one list: with onLocked \"wait\" the second waits without a limit and finds the first one's rows", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      const first = yield* pausedRun(file)
      const begun: Array<string> = []
      const second = yield* Effect.forkChild(run(file, "invoices", {
        onLocked: "wait",
        onEvent: ({ _tag }) => Effect.sync(() => void begun.push(_tag))
      }))
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(begun, [])
      yield* first.release
      assert.deepInclude(yield* Fiber.join(first.fiber), { records: 30, inserted: 30 })
      yield* TestClock.adjust("1 second")
      assert.deepInclude(yield* Fiber.join(second), { start: "afterComplete", records: 30, inserted: 0, unchanged: 30 })
    }).pipe(Effect.scoped))

  it.live("of different lists run concurrently", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      for (let round = 0; round < 5; round++) {
        const summaries = yield* Effect.all(
          [run(file, "invoices"), run(file, "payoutRequests"), run(file, "payinSources")],
          {
            concurrency: "unbounded"
          }
        )
        assert.deepStrictEqual(summaries.map(({ records }) => records), [30, 30, 0])
      }
    }).pipe(Effect.scoped))

  it.live("of one list: a killed writer does not block another one", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      const holder = yield* startChild(`
        import { Effect } from "effect"
        import { openStore } from ${moduleOf("sqlite/SqliteStore.ts")}
        await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
          const store = yield* openStore(${JSON.stringify(file)}, "here")
          yield* store.lockAndTakeOver("invoices", "refuse")
          console.log("locked")
          yield* Effect.sleep("1 hour")
        })))`)
      assert.strictEqual(holder.firstLine, "locked")
      const refused = yield* Effect.flip(run(file, "invoices"))
      assert.include(refused.message, `process ${holder.pid} on`)
      const waiting = yield* Effect.forkChild(run(file, "invoices", { onLocked: "wait" }))
      yield* holder.kill("SIGKILL")
      assert.deepInclude(yield* Fiber.join(waiting), { records: 30, inserted: 30 })
      assert.deepInclude(yield* run(file, "invoices"), { unchanged: 30 })
    }).pipe(Effect.scoped))
})

/** A clock that runs fifty times as fast. */
const fastClock = Effect.map(Clock.Clock, (clock): Clock.Clock => {
  const began = clock.currentTimeMillisUnsafe()
  const now = () => began + (clock.currentTimeMillisUnsafe() - began) * 50
  const nanos = () => BigInt(Math.round(now() * 1e6))
  return {
    currentTimeMillisUnsafe: now,
    currentTimeMillis: Effect.sync(now),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) => clock.sleep(Duration.millis(Duration.toMillis(duration) / 50))
  }
})

describe("a database that another program has locked", () => {
  const lockDatabase = (file: string) =>
    startChild(`
      import { DatabaseSync } from "node:sqlite"
      const db = new DatabaseSync(${JSON.stringify(file)})
      db.exec("BEGIN EXCLUSIVE")
      console.log("locked")
      setTimeout(() => {}, 3_600_000)`)

  it.live("makes an export fail after half a minute, without a part of the batch", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      yield* run(file, "payoutRequests")
      const before = rowsOf(file, "SELECT * FROM scans")
      const holder = yield* lockDatabase(file)
      assert.strictEqual(holder.firstLine, "locked")
      const clock = yield* fastClock
      const began = clock.currentTimeMillisUnsafe()
      const error = yield* Effect.flip(Effect.provideService(run(file, "invoices"), Clock.Clock, clock))
      assert.isTrue(error._tag === "SinkError" && error.reason._tag === "Locked")
      assert.isAtLeast(clock.currentTimeMillisUnsafe() - began, 30_000)
      assert.include(error.message, "is writing the database there")
      assert.deepStrictEqual(rowsOf(file, "SELECT * FROM scans"), before)
      yield* holder.kill("SIGKILL")
      assert.deepInclude(yield* run(file, "invoices"), { start: "first", inserted: 30 })
    }).pipe(Effect.scoped))

  it.live("is written as soon as the lock is released", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      yield* run(file, "payoutRequests")
      const holder = yield* lockDatabase(file)
      const waiting = yield* Effect.forkChild(run(file, "invoices"))
      yield* Effect.sleep("300 millis")
      yield* holder.kill("SIGKILL")
      assert.deepInclude(yield* Fiber.join(waiting), { inserted: 30 })
    }).pipe(Effect.scoped))
})

describe("a batch that is interrupted while it is planned", () => {
  const batch = (ids: ReadonlyArray<string>, cursor: string | null) =>
    batchOf(Lists.invoices, ids.map((id) => recordOf(Lists.invoices, id, `{"id":"${id}"}`)), cursor)

  it.live.each(
    [
      ["changes nothing", ["c", "d"]],
      ["has new records", ["c", "new"]]
    ] as const
  )(
    "and %s: the totals count only pages up to the checkpoint (%j)",
    ([, ids]) =>
      Effect.gen(function*() {
        const store = yield* openStore(yield* fileIn, "here")
        yield* store.lockAndTakeOver("invoices", "refuse")
        const begin = makeSink(store).begin(Lists.invoices, { source: "memory", limit: 10, parameters: {} })
        const first = yield* begin
        yield* first.commit(batch(["a", "b", "c", "d"], null))
        const scope = yield* Scope.make()
        const session = yield* Scope.provide(begin, scope)
        // The first page changes nothing, so its commit is delayed.
        yield* session.commit(batch(["a", "b"], "one"))
        const clock = yield* Clock.Clock
        // The commit hangs when it reads the time.
        const hangingClock: Clock.Clock = { ...clock, currentTimeMillis: Effect.never }
        const fiber = yield* Effect.forkChild(
          Effect.provideService(
            session.commit(batch(ids, "two")),
            Clock.Clock,
            hangingClock
          ),
          { startImmediately: true }
        )
        yield* Fiber.interrupt(fiber)
        yield* Scope.close(scope, Exit.void)
        const again = yield* begin
        const { pages, records } = yield* again.progress
        const cursor = ["one", "two"].find((one) => again.resumeAt?.includes(`"cursor":"${one}"`)) ?? "none"
        assert.deepStrictEqual(
          [pages, records],
          new Map([["none", [0, 0]], ["one", [1, 2]], ["two", [2, 4]]]).get(cursor)
        )
        const ended = yield* again.commit(batch(["a", "b", "c", "d", "new"], null))
        const [{ certificate } = { certificate: undefined }] = yield* store.scans(Lists.invoices)
        assert.deepInclude(JSON.parse(certificate ?? ""), {
          distinct: 5,
          digest: digestOf(["a", "b", "c", "d", "new"])
        })
        assert.strictEqual(ended.inserted, 1)
      }).pipe(Effect.scoped)
  )
})

describe("a restart whose commit fails", () => {
  it.effect("leaves the checkpoint and its totals unchanged", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      yield* run(file, "invoices")
      const store = yield* openStore(file, "here")
      const full = new SinkError({ location: "here", reason: new DiskFull() })
      const flaky = makeSink({
        ...store,
        commit: (commit) => commit.restart === true ? Effect.fail(full) : store.commit(commit)
      })
      yield* store.lockAndTakeOver("invoices", "refuse")
      yield* Effect.scoped(Effect.gen(function*() {
        const session = yield* flaky.begin(Lists.invoices, { source: "memory", limit: 10, parameters: {} })
        const record = recordOf(Lists.invoices, "inv_0", JSON.stringify(lists.invoices[0]))
        // The page changes nothing, so its commit is delayed.
        yield* session.commit(batchOf(Lists.invoices, [record], "c"))
        yield* Effect.flip(session.restart)
      }))
      const [{ checkpoint, totals } = { checkpoint: undefined, totals: "" }] = yield* store.scans(Lists.invoices)
      assert.deepStrictEqual([checkpoint, Option.getOrThrow(ScanTotals.fromJson(totals)).counts.pages], [undefined, 0])
    }).pipe(Effect.scoped))
})

describe("a page that changes nothing", () => {
  it.effect("is committed within 2 s, even if no other page follows", () =>
    Effect.gen(function*() {
      const store = yield* openStore(yield* fileIn, "here")
      yield* store.lockAndTakeOver("invoices", "refuse")
      const session = yield* makeSink(store).begin(Lists.invoices, { source: "memory", limit: 10, parameters: {} })
      yield* session.commit(batchOf(Lists.invoices, [], "c"))
      assert.strictEqual((yield* store.scans(Lists.invoices))[0]?.checkpoint, undefined)
      yield* TestClock.adjust("2 seconds")
      assert.include((yield* store.scans(Lists.invoices))[0]?.checkpoint, `"cursor":"c"`)
    }).pipe(Effect.scoped))
})

const digestOf = (ids: ReadonlyArray<string>): string => {
  const hashes = ids.map((id) =>
    BigInt(`0x${createHash("sha256").update(`{"id":"${id}"}`).digest("hex").slice(0, 32)}`)
  )
  return (hashes.reduce((sum, hash) => sum + hash, 0n) % 2n ** 128n).toString(16).padStart(32, "0")
}
