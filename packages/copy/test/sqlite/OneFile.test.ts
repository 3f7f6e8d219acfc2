/** A list has one writer, even if names, links and lock files of the database change. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { seed } from "@payments/testkit/Seed"
import { Deferred, Effect, Exit, Fiber, Layer, Random, Scope } from "effect"
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { dirname, join } from "node:path"
import * as FileSink from "../../src/files/FileSink.ts"
import * as Manifest from "../../src/files/Manifest.ts"
import * as Renderings from "../../src/files/Renderings.ts"
import { scan, type ScanOptions, type Sink, type SinkError, verify } from "../../src/index.ts"
import * as ScanTotals from "../../src/plan/ScanTotals.ts"
import { makeSink } from "../../src/session/SqlSink.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openReader, openStore } from "../../src/sqlite/SqliteStore.ts"
import { keepBinding } from "../../src/store/PersonalBinding.ts"
import { batchOf, recordOf } from "../session/Batches.ts"

const invoices = Array.from({ length: 30 }, (_, index) => ({ id: `inv_${index}` }))

const runWith = (layer: Layer.Layer<Sink, SinkError>, options: ScanOptions = {}) =>
  scan("invoices", { limit: 10, largestBatch: 10, ...options }).pipe(
    Effect.provide(Layer.merge(layer, layerTest({ invoices })))
  )
const run = (file: string, options: ScanOptions = {}) => runWith(SqliteSink.layer(file), options)

const files = (folder: string) => FileSink.layer(folder).pipe(Layer.provide(NodeServices.layer))

/** Starts an export that pauses after its nth commit until it is released. */
const pausedRun = Effect.fnUntraced(function*(layer: Layer.Layer<Sink, SinkError>, nth = 1) {
  const reached = yield* Deferred.make<void>()
  const released = yield* Deferred.make<void>()
  let commits = 0
  const fiber = yield* Effect.forkChild(runWith(layer, {
    onEvent: (event) =>
      event._tag === "Committed" && ++commits === nth
        ? Effect.andThen(Deferred.succeed(reached, undefined), Deferred.await(released))
        : Effect.void
  }))
  yield* Deferred.await(reached)
  return { fiber, end: Effect.andThen(Deferred.succeed(released, undefined), Effect.exit(Fiber.join(fiber))) }
})

const reasonOf = <A, E>(exit: Exit.Exit<A, E>): string => {
  const error = Exit.isFailure(exit) ? exit.cause.reasons[0] : undefined
  return error?._tag === "Fail" ? (error.error as SinkError).reason._tag : "none" // these exports fail with SinkError
}

/** Asserts that the rows match the last certificate and that the file is undamaged. */
const assertSound = Effect.fnUntraced(function*(file: string) {
  const reader = yield* openReader(file, "here")
  assert.deepStrictEqual((yield* verify(reader, Lists.invoices)).differences, [])
  assert.deepStrictEqual(rowsOf(file, "PRAGMA integrity_check"), [{ integrity_check: "ok" }])
}, Effect.scoped)

describe("another path to the same database", () => {
  it.live.each(
    [
      ["a symbolic link to it", (file: string, other: string) => symlinkSync(file, other)],
      ["a link to a link to it", (file: string, other: string) => {
        symlinkSync(file, `${file}.between`)
        symlinkSync(`${file}.between`, other)
      }]
    ] as const
  )("that is %s uses the same lock", ([, link]) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [file, other] = [join(folder, "x.db"), join(folder, "y.db")]
      const first = yield* pausedRun(SqliteSink.layer(file))
      link(file, other)
      assert.strictEqual(reasonOf(yield* Effect.exit(run(other))), "Locked")
      assert.isTrue(Exit.isSuccess(yield* first.end))
      assert.deepInclude(yield* run(other), { unchanged: 30, start: "afterComplete" })
      yield* assertSound(file)
      assert.isFalse(
        readdirSync(folder).some((name) => name.startsWith("y.db.")),
        "no file is created next to the link"
      )
    }).pipe(Effect.scoped))

  it.live("that goes through a link to its folder uses the same lock", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      mkdirSync(join(folder, "real"))
      symlinkSync("real", join(folder, "link"))
      const first = yield* pausedRun(SqliteSink.layer(join(folder, "real", "x.db")))
      assert.strictEqual(reasonOf(yield* Effect.exit(run(join(folder, "link", "x.db")))), "Locked")
      yield* Fiber.interrupt(first.fiber)
      const rendering = yield* pausedRun(files(join(folder, "real")))
      assert.strictEqual(reasonOf(yield* Effect.exit(runWith(files(join(folder, "link"))))), "Locked")
      yield* Fiber.interrupt(rendering.fiber)
    }).pipe(Effect.scoped))

  it.live("that is a hard link is refused, for reading and for writing", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [file, other] = [join(folder, "x.db"), join(folder, "y.db")]
      yield* run(file)
      linkSync(file, other)
      for (const path of [file, other]) {
        const error = yield* Effect.flip(run(path))
        assert.include(error.message, "second name (a hard link)")
        assert.strictEqual(reasonOf(yield* Effect.exit(Effect.scoped(openReader(path, "here")))), "NotADestination")
      }
      rmSync(other)
      assert.deepInclude(yield* run(file), { unchanged: 30 })
    }).pipe(Effect.scoped))

  it.live("that is a hard link, created during an export, ends the export before its next commit", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "x.db")
      const first = yield* pausedRun(SqliteSink.layer(file))
      linkSync(file, join(folder, "y.db"))
      assert.strictEqual(reasonOf(yield* first.end), "NotADestination")
      assert.strictEqual(rowsOf(file, "SELECT 1 FROM invoices").length, 10)
      rmSync(join(folder, "y.db"))
      assert.deepInclude(yield* run(file), { start: "resumed", inserted: 30 })
      yield* assertSound(file)
    }).pipe(Effect.scoped))
})

describe("a lock file that is removed", () => {
  it.live("lets a second export take the list over, and the first one commits nothing more", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "x.db")
      const first = yield* pausedRun(SqliteSink.layer(file))
      rmSync(`${file}.invoices.lock`)
      assert.deepInclude(yield* run(file), { records: 30 })
      const before = rowsOf(file, "SELECT * FROM scans")
      const ended = yield* first.end
      assert.strictEqual(reasonOf(ended), "LeaseLost")
      assert.deepStrictEqual(rowsOf(file, "SELECT * FROM scans"), before)
      yield* assertSound(file)
    }).pipe(Effect.scoped))

  it.live("and replaced by a file of another program is named in the error", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "x.db")
      writeFileSync(
        `${file}.invoices.lock`,
        "this file is mine, and it is long enough for a header of SQLite's own.".repeat(9)
      )
      assert.include(
        (yield* Effect.flip(run(file))).message,
        "x.db.invoices.lock is not a lock file of this program. Remove it."
      )
    }).pipe(Effect.scoped))

  it.live("makes every kind of write of the first holder fail: start, commit, restart, give up, rebind, render", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "x.db")
      const store = yield* openStore(file, "here")
      yield* store.lockAndTakeOver("invoices", "refuse")
      yield* store.lockAndTakeOver(Renderings.manifestLabel, "refuse")
      const request = { source: "memory", limit: 10, parameters: {} }
      const session = yield* makeSink(store).begin(Lists.invoices, request)
      yield* session.commit(batchOf(Lists.invoices, [], null))
      const second = yield* openStore(file, "here")
      for (const label of ["invoices", Renderings.manifestLabel]) {
        rmSync(`${file}.${label}.lock`)
        yield* second.lockAndTakeOver(label, "refuse")
      }
      const before = contentOf(file)
      const list = Lists.invoices
      const rendering = { number: 1, list, scan: 1, revision: 1, edition: 0 }
      const renderings = Renderings.make(store)
      const now = new Date().toISOString()
      const writes: Record<string, Effect.Effect<unknown, SinkError, Scope.Scope>> = {
        start: store.start({
          list,
          part: "",
          request: "[]",
          firstRow: 0,
          totals: ScanTotals.toJson(ScanTotals.none),
          now,
          personal: keepBinding
        }),
        begin: makeSink(store).begin(list, request),
        rebind: makeSink(store).begin(list, { ...request, source: "moved", rebind: true }),
        commit: session.commit(batchOf(list, [recordOf(list, "a", `{"id":"a"}`)], null)),
        restart: session.restart,
        giveUp: session.giveUp,
        addEntry: renderings.addEntry(rendering, "invoices-1.ndjson"),
        complete: renderings.complete([], Manifest.toText({ version: 1, source: "memory", lists: {} }), 0),
        withdraw: renderings.withdraw(list),
        deleteEntry: renderings.deleteEntry("invoices-1.ndjson")
      }
      for (const [name, write] of Object.entries(writes)) {
        assert.strictEqual(reasonOf(yield* Effect.exit(write)), "LeaseLost", name)
        assert.deepStrictEqual(contentOf(file), before, name)
      }
    }).pipe(Effect.scoped))

  it.live(
    `lets a store write only if no other one has taken the list over since its lock (seed ${seed})`,
    () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const file = join(folder, "x.db")
        const paths = [file, join(folder, "y.db"), join(folder, "link", "x.db")]
        symlinkSync("x.db", join(folder, "y.db"))
        symlinkSync(".", join(folder, "link"))
        const stores = yield* Effect.forEach([...paths, ...paths], (path) => openStore(path, "here"))
        const scans = () => Number(rowsOf(file, "SELECT count(*) AS n FROM scans")[0]?.["n"])
        /** The number of takeovers of the list. Each lock remembers the number that it has seen. */
        let taken = 0
        const locks = new Map<number, { readonly scope: Scope.Closeable; seen: number; isTaken: boolean }>()
        let refused = 0
        for (let step = 0; step < 120; step++) {
          const at = yield* Random.nextIntBetween(0, stores.length - 1)
          const [store, lock] = [stores[at], locks.get(at)]
          if (store === undefined) continue
          if (lock === undefined) {
            if ((yield* Random.nextIntBetween(0, 3)) > 0) rmSync(`${file}.invoices.lock`, { force: true })
            const scope = yield* Scope.make()
            const isTaken = yield* Random.nextBoolean
            const taking = isTaken ? store.lockAndTakeOver("invoices", "refuse") : store.lock("invoices", "refuse")
            if (Exit.isSuccess(yield* Effect.exit(Scope.provide(taking, scope)))) {
              if (isTaken) taken++
              locks.set(at, { scope, seen: taken, isTaken })
            } else yield* Scope.close(scope, Exit.void)
          } else if (yield* Random.nextBoolean) {
            const before = scans()
            const began = yield* Effect.exit(
              store.start({
                list: Lists.invoices,
                part: String(step),
                request: "[]",
                firstRow: 0,
                totals: ScanTotals.toJson(ScanTotals.none),
                now: "",
                personal: keepBinding
              })
            )
            const mayWrite = lock.seen === taken
            assert.deepStrictEqual(
              [Exit.isSuccess(began), scans() - before],
              mayWrite ? [true, 1] : [false, 0],
              `${step}`
            )
            if (!mayWrite) refused++
            else if (!lock.isTaken) {
              lock.seen = ++taken
              lock.isTaken = true
            }
          } else if ((yield* Random.nextIntBetween(0, 3)) === 0) {
            yield* Scope.close(lock.scope, Exit.void)
            locks.delete(at)
          }
        }
        assert.isAtLeast(taken, 3)
        assert.isAtLeast(refused, 1)
        yield* Effect.forEach(locks.values(), ({ scope }) => Scope.close(scope, Exit.void))
      }).pipe(Effect.scoped, Random.withSeed(seed))
  )

  it.live("ends an export that locked the list, and read from it, before the second one wrote", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "x.db")
      const store = yield* openStore(file, "here")
      yield* store.lock("invoices", "refuse")
      rmSync(`${file}.invoices.lock`)
      assert.deepInclude(yield* run(file), { records: 30 })
      const begun = yield* Effect.exit(
        makeSink(store).begin(Lists.invoices, { source: "memory", limit: 10, parameters: {} })
      )
      assert.strictEqual(reasonOf(begun), "LeaseLost")
      yield* assertSound(file)
    }).pipe(Effect.scoped))
})

/** All rows of the tables that an export writes. */
const contentOf = (file: string) =>
  ["destination", "scans", "invoices", "seen", "revisions", "rendered", "manifest", "holders"].map((table) =>
    rowsOf(file, `SELECT * FROM ${table}`)
  )

describe("a database that is moved, removed or replaced during an export", () => {
  const other = (path: string) => execute(path, "CREATE TABLE something (x)")

  const harms: ReadonlyArray<readonly [string, (file: string) => void]> = [
    ["removed", (file) => rmSync(file)],
    ["renamed", (file) => renameSync(file, `${file}.old`)],
    ["replaced by another file", (file) => {
      renameSync(file, `${file}.old`)
      other(file)
    }],
    ["replaced by a copy of itself", (file) => {
      execute(file, `VACUUM INTO '${file}.copy'`)
      renameSync(`${file}.copy`, file)
    }],
    ["in a folder that is renamed", (file) => renameSync(dirname(file), `${dirname(file)}.old`)],
    ["in a folder that is replaced", (file) => {
      renameSync(dirname(file), `${dirname(file)}.old`)
      mkdirSync(dirname(file))
      other(file)
    }],
    ["without its log", (file) => rmSync(`${file}-wal`)],
    ["without its log's index", (file) => rmSync(`${file}-shm`)]
  ]
  const destinations = [
    ["sqlite:", "x.db", (path: string) => SqliteSink.layer(path)],
    ["file:", FileSink.copyFile, (path: string) => files(dirname(path))]
  ] as const

  it.live.each(
    destinations.flatMap(([scheme, name, layer]) =>
      harms.flatMap(([what, harm]) =>
        [["after its first commit", 1], ["after its last commit", 3]].map(([when, nth]) =>
          [scheme, what, when, { name, layer, harm, nth: Number(nth) }] as const
        )
      )
    )
  )(
    "%s: %s %s makes the export fail, and the next one uses the file at the path",
    ([, , , { harm, layer, name, nth }]) =>
      Effect.gen(function*() {
        const folder = join(yield* temporaryFolder, "folder")
        mkdirSync(folder)
        const file = join(folder, name)
        const first = yield* pausedRun(layer(file), nth)
        harm(file)
        const replacement = existsSync(file) ? statSync(file) : undefined
        assert.strictEqual(reasonOf(yield* first.end), "Moved")
        if (replacement === undefined) {
          assert.isFalse(existsSync(file), "no new file is created")
          mkdirSync(folder, { recursive: true })
        } else assert.strictEqual(statSync(file).ino, replacement.ino)
        const again = yield* Effect.exit(runWith(layer(file)))
        // A file that is not a destination is refused.
        if (rowsOf(file, "SELECT 1 FROM sqlite_schema WHERE name = 'something'").length > 0) {
          assert.strictEqual(reasonOf(again), "NotADestination")
        } else {
          assert.isTrue(Exit.isSuccess(again))
          assert.strictEqual(rowsOf(file, "SELECT 1 FROM invoices").length, 30)
          yield* assertSound(file)
        }
      }).pipe(Effect.scoped)
  )

  it.live("makes a reader that follows it fail too", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "x.db")
      yield* run(file)
      const reader = yield* openReader(file, "here")
      yield* reader.changes(0, 1, Lists.all)
      renameSync(file, `${file}.old`)
      yield* run(file)
      assert.strictEqual((yield* Effect.flip(reader.changes(0, 1, Lists.all))).reason._tag, "Moved")
    }).pipe(Effect.scoped))
})
