import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { urlOf } from "@payments/testkit/postgres/PostgresTest"
import { manifestOf, textsOf } from "@payments/testkit/RenderedFiles"
import { Duration, Effect, Layer, Result, type Scope } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { moveConsumer } from "../../src/ask/Consumers.ts"
import { prune, pruneAll } from "../../src/ask/Retention.ts"
import { verify } from "../../src/ask/Verify.ts"
import * as FileSink from "../../src/files/FileSink.ts"
import { verifyFiles } from "../../src/files/VerifyFiles.ts"
import { current, Destination, openScanner, pointAt, scan, type ScanOptions } from "../../src/index.ts"
import { Sink, type SinkError } from "../../src/port/Sink.ts"
import { settingsOf } from "../../src/postgres/PostgresSettings.ts"
import { openStore as openPostgresStore } from "../../src/postgres/PostgresStore.ts"
import { makeSink } from "../../src/session/SqlSink.ts"
import { openStore } from "../../src/sqlite/SqliteStore.ts"
import type { Maintenance, Store } from "../../src/store/Store.ts"
import { rowsIn } from "../session/ChangeReplay.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

/** A kind of destination. A folder's name is also the name of a schema. */
interface DestinationCase {
  readonly name: string
  readonly destination: (folder: string) => Destination.StoredDestination
  readonly store: (folder: string) => Effect.Effect<Store, SinkError, Scope.Scope>
}

const fileIn = (folder: string) => join(folder, "payments.db")

const destinations: ReadonlyArray<DestinationCase> = [
  {
    name: "sqlite:FILE",
    destination: (folder) => ({ _tag: "Sqlite", file: fileIn(folder) }),
    store: (folder) => openStore(fileIn(folder), "here")
  },
  {
    name: "postgres://HOST",
    destination: (folder) => ({ _tag: "Postgres", url: urlOf(server, basename(folder)) }),
    store: (folder) => Effect.flatMap(settingsOf(urlOf(server, basename(folder))), openPostgresStore)
  }
]

const invoice = (id: number, amount = id) => `{"id":"inv_${id}","amount":${amount}}`
const invoices = (...ids: ReadonlyArray<number>) => ids.map((id) => invoice(id))

const scanning =
  (sink: Layer.Layer<Sink, SinkError, NodeServices.NodeServices>) =>
  (texts: ReadonlyArray<string>, options: ScanOptions = {}) =>
    scan("invoices", { missingLimit: 1, ...options }).pipe(
      Effect.provide(Layer.merge(sink, layerTest({ invoices: texts }))),
      Effect.provide(NodeServices.layer)
    )

/** A row is missing for longer than 0 ms only in the next millisecond. */
const removeMissing = (opened: Maintenance, isDryRun = false) =>
  Effect.map(
    Effect.delay(prune(opened, { keepMissing: Duration.zero, isDryRun }), "2 millis"),
    ({ rows }) => rows
  )

const numbersIn = (opened: Maintenance) =>
  Effect.map(rowsIn(opened), (rows) => rows.map(({ id, row }) => `${row} ${id}`))

describe.each(destinations)("payments prune removes rows that have been missing for long: $name", (kind) => {
  /** Exports five invoices, the second and fourth of which are missing afterwards. */
  const withMissing = Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const destination = kind.destination(folder)
    const fill = scanning(Destination.layerInThisThread(destination))
    yield* fill(invoices(0, 1, 2, 3, 4))
    yield* fill(invoices(0, 2, 4))
    yield* fill(invoices(0, 2, 4))
    return { folder, destination, fill, opened: yield* Destination.maintenance(destination) }
  })

  it.live("but neither younger ones, nor others, nor any in a dry run", () =>
    Effect.gen(function*() {
      const { opened } = yield* withMissing
      const before = yield* numbersIn(opened)
      const young = yield* prune(opened, { keepMissing: Duration.days(1) })
      assert.deepStrictEqual(young.rows, { removed: 0, heldBack: [] })
      assert.deepStrictEqual(yield* removeMissing(opened, true), { removed: 2, heldBack: [] })
      assert.deepStrictEqual(yield* numbersIn(opened), before)
      assert.deepStrictEqual(yield* removeMissing(opened), { removed: 2, heldBack: [] })
      assert.deepStrictEqual(yield* numbersIn(opened), ["0 inv_0", "2 inv_2", "4 inv_4"])
      assert.deepInclude(yield* opened.state(Lists.invoices), { rows: 3, missing: 0 })
      assert.deepStrictEqual((yield* verify(opened, Lists.invoices)).differences, [])
      assert.deepStrictEqual(yield* removeMissing(opened), { removed: 0, heldBack: [] })
    }).pipe(Effect.scoped))

  it.live("but never the one with the highest number, which would be used again", () =>
    Effect.gen(function*() {
      const { fill, opened } = yield* withMissing
      for (let times = 0; times < 2; times++) yield* fill(invoices(0, 2))
      assert.deepStrictEqual(yield* removeMissing(opened), { removed: 2, heldBack: [] })
      assert.deepStrictEqual(yield* numbersIn(opened), ["0 inv_0", "2 inv_2", "4 inv_4"])
      // As soon as a later row exists, it can be removed.
      yield* fill(invoices(0, 2, 5))
      assert.deepStrictEqual(yield* removeMissing(opened), { removed: 1, heldBack: [] })
      assert.deepStrictEqual(yield* numbersIn(opened), ["0 inv_0", "2 inv_2", "5 inv_5"])
    }).pipe(Effect.scoped))

  it.live("but none whose change a consumer has not read, and names the consumer", () =>
    Effect.gen(function*() {
      const { fill, opened } = yield* withMissing
      yield* moveConsumer(opened, { name: "slow", position: 1, when: "create" })
      yield* moveConsumer(opened, { name: "fast", position: 2, when: "create" })
      assert.deepStrictEqual(yield* removeMissing(opened), {
        removed: 1,
        heldBack: [{ by: "consumer", name: "slow", position: 1 }]
      })
      assert.deepStrictEqual(yield* numbersIn(opened), ["0 inv_0", "2 inv_2", "3 inv_3", "4 inv_4"])
      // A consumer that is created later begins after the change, or can read it.
      yield* opened.removeConsumer("slow")
      yield* fill(invoices(0, 2, 4))
      assert.deepStrictEqual(yield* removeMissing(opened), { removed: 1, heldBack: [] })
    }).pipe(Effect.scoped))

  it.live("and inserts a record as a new one if it is returned later", () =>
    Effect.gen(function*() {
      const { fill, opened } = yield* withMissing
      yield* removeMissing(opened)
      const summary = yield* fill(invoices(0, 1, 2, 3, 4))
      assert.deepInclude(summary, { inserted: 2, returned: 0, unchanged: 3, missing: 0 })
      assert.deepStrictEqual(yield* numbersIn(opened), ["0 inv_0", "2 inv_2", "4 inv_4", "5 inv_1", "6 inv_3"])
      const changes = yield* opened.changes(0, 10, Lists.all)
      assert.deepStrictEqual(changes.map(({ id, kind: change }) => `${change} ${id}`), [
        "missing inv_1",
        "missing inv_3",
        "insert inv_1",
        "insert inv_3"
      ])
      assert.deepStrictEqual((yield* verify(opened, Lists.invoices)).differences, [])
    }).pipe(Effect.scoped))

  it.live("while a scan runs that has seen other rows, and its certificate stays right", () =>
    Effect.gen(function*() {
      const { fill, opened } = yield* withMissing
      const onEvent = () => Effect.orDie(removeMissing(opened))
      const summary = yield* fill(invoices(0, 2, 4, 5, 6, 7), { limit: 2, largestBatch: 2, onEvent })
      assert.deepInclude(summary, { records: 6, inserted: 3, missing: 0, heldBack: 0 })
      assert.lengthOf(yield* numbersIn(opened), 6)
      const { certificate, differences } = yield* verify(opened, Lists.invoices)
      assert.deepStrictEqual([certificate?.distinct, differences], [6, []])
    }).pipe(Effect.scoped))

  /** The moments between the reads and the commit of a batch at which rows are removed. */
  const moments = ["textsOf", "commit", "commitPass", "missing", "present"] as const
  it.live.each(moments)(
    "while a record is returned in the same moment, before `%s`",
    (moment) =>
      Effect.gen(function*() {
        const { folder, opened } = yield* withMissing
        let removed = 0
        const removeOnce = Effect.suspend(() =>
          removed > 0
            ? Effect.void
            : Effect.map(Effect.orDie(removeMissing(opened)), (rows) => void (removed = rows.removed))
        )
        const store = yield* kind.store(folder)
        const raced: Store = {
          ...store,
          [moment]: (...args: ReadonlyArray<unknown>) =>
            // The arguments are those of the function with this name.
            Effect.andThen(
              removeOnce,
              Reflect.apply(store[moment], undefined, args) as Effect.Effect<unknown, SinkError>
            )
        }
        const sink = Layer.succeed(Sink, makeSink(raced))
        // The second record reappears with another text, the fourth with the same one, or does not reappear at the end of a scan.
        const isEnd = moment === "missing" || moment === "present"
        const texts = isEnd ? invoices(0, 2, 4) : [...invoices(0, 2, 4), invoice(1, 100), invoice(3)]
        if (moment === "commitPass") {
          const scanner = yield* openScanner("invoices").pipe(
            Effect.provide(yield* Layer.build(Layer.merge(sink, layerTest({ invoices: texts }))))
          )
          assert.deepInclude(yield* scanner.head(1), { inserted: 2, returned: 0, updated: 0 })
        } else {
          const expected = isEnd ? { inserted: 0, unchanged: 3 } : { inserted: 2, unchanged: 3 }
          const summary = yield* scanning(sink)(texts)
          assert.deepInclude(summary, { ...expected, returned: 0, updated: 0, missing: 0, heldBack: 0 })
        }
        assert.strictEqual(removed, 2)
        assert.deepStrictEqual((yield* rowsIn(opened)).map(({ raw }) => raw), texts)
        const { certificate, differences } = yield* verify(opened, Lists.invoices)
        assert.deepStrictEqual([certificate?.distinct, differences], [moment === "commitPass" ? 3 : texts.length, []])
      }).pipe(Effect.scoped)
  )

  it.live("and refuses points at which they were not missing, and says which points lack them", () =>
    Effect.gen(function*() {
      const { destination, fill, opened } = yield* withMissing
      yield* fill([...invoices(0, 2), invoice(4, 1)])
      const { rows } = yield* prune(opened, { keepMissing: Duration.zero })
      assert.strictEqual(rows.removed, 2)
      yield* fill([...invoices(0, 1, 2), invoice(4, 2)])
      const snapshot = yield* Destination.snapshot(destination)
      const pointOf = (at: number) => Effect.result(pointAt(snapshot, at, [Lists.invoices]))
      const idsAt = Effect.fnUntraced(function*(at: number) {
        const point = Result.getOrThrow(yield* pointOf(at))
        const found = point.contents(Lists.invoices, "text")
        yield* found.load
        const incomplete = point.incompleteLists.map(({ label }) => label)
        return [found.takeChunk().map(({ content, missing }) => missing ? `(${content})` : content), incomplete]
      })
      // 1 and 2: missing; 3: update; rows removed; 4: insert; 5: update
      for (const at of [0, 1]) {
        const refused = yield* pointOf(at)
        assert.match(
          Result.isFailure(refused) ? refused.failure.message : "",
          new RegExp(
            `^invoices: rows that were not yet missing after change ${at} were removed later\\. The first point that can be reconstructed is \\d{4}-\\d{2}-\\d{2}T[\\d:.]{12}Z, which is change 2\\.$`
          )
        )
      }
      assert.deepStrictEqual(yield* idsAt(2), [invoices(0, 2, 4), ["invoices"]])
      assert.deepStrictEqual(yield* idsAt(3), [[...invoices(0, 2), invoice(4, 1)], []])
      assert.deepStrictEqual((yield* idsAt(5))[0], [...invoices(0, 1, 2), invoice(4, 2)])
      assert.deepStrictEqual(current(snapshot).incompleteLists, [])
      // Other lists are not concerned.
      assert.isTrue(Result.isSuccess(yield* Effect.result(pointAt(snapshot, 0, [Lists.payoutRequests]))))
    }).pipe(Effect.scoped))
})

describe("an SQLite file", () => {
  it.live("and its log have no byte of removed rows, also while a worker has the file open", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const destination = { _tag: "Sqlite", file: fileIn(folder) } as const
      const worker = yield* Layer.build(Destination.layerInThisThread(destination)).pipe(
        Effect.provide(NodeServices.layer)
      )
      const fill = scanning(Layer.succeedContext(worker))
      const canaries = Array.from(
        { length: 200 },
        (_, index) => `{"id":"canary_${index}","reference":"canary ${index}"}`
      )
      const others = invoices(...Array.from({ length: 300 }, (_, index) => index))
      yield* fill([...others.slice(0, 150), ...canaries, ...others.slice(150)])
      for (let times = 0; times < 2; times++) yield* fill(others)
      const opened = yield* Destination.maintenance(destination)
      const found = () =>
        ["", "-wal"].filter((suffix) => readFileSync(fileIn(folder) + suffix, "latin1").includes("canary"))
      assert.deepInclude(found(), "-wal")
      assert.strictEqual((yield* removeMissing(opened)).removed, 200)
      // The changes have the ids. They are removed after the next full scan.
      yield* fill(others)
      yield* prune(opened, { keepChanges: Duration.zero })
      assert.deepStrictEqual(found(), [])
    }).pipe(Effect.scoped))
})

describe("the end of a scan into an SQLite file with removed rows", () => {
  it.live.each(
    [
      { seen: [0, 2, 4, 6, 7, 8, 9] },
      { seen: [0, 2, 4, 9] }
    ]
  )("finds that another program has removed one of the rows $seen", ({ seen }) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const fill = scanning(Destination.layerInThisThread({ _tag: "Sqlite", file: fileIn(folder) }))
      yield* fill(invoices(0, 1, 2, 3, 4, 5, 6, 7, 8, 9))
      for (let times = 0; times < 2; times++) yield* fill(invoices(0, 2, 4, 5, 6, 7, 8, 9))
      assert.strictEqual(
        (yield* removeMissing(yield* Destination.maintenance({ _tag: "Sqlite", file: fileIn(folder) }))).removed,
        2
      )
      const fillWithout = (row: number) =>
        fill(invoices(...seen), {
          limit: 1,
          largestBatch: 1,
          onEvent: (event) =>
            event._tag === "Committed" && event.progress.pages === seen.length - 1
              ? Effect.sync(() => execute(fileIn(folder), `DELETE FROM invoices WHERE row = ${row}`))
              : Effect.void
        })
      assert.strictEqual((yield* fillWithout(5)).missing, 0)
      const error = yield* Effect.flip(fillWithout(2))
      assert.strictEqual(error.reason._tag, "RowsRemoved")
    }).pipe(Effect.scoped))
})

describe("a folder of files", () => {
  it.live.each([0, 1, 3])(
    "keeps the files of the last snapshot of a list and of %i earlier ones",
    (keepSnapshots) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const fill = scanning(FileSink.layer(folder, FileSink.defaultFormat, Lists.all, keepSnapshots))
        const contents: Array<string> = []
        for (let amount = 1; amount <= 5; amount++) {
          yield* fill([invoice(0, amount)])
          contents.push(`${invoice(0, amount)}\n`)
          assert.sameMembers(renderedIn(folder), contents.slice(-1 - keepSnapshots))
          assert.deepStrictEqual(yield* verifyFiles(folder), [])
        }
        const destination = { _tag: "Files", folder, format: FileSink.defaultFormat } as const
        const pruneTo = (keep: number, isDryRun = false) =>
          Effect.map(
            pruneAll(destination, { keepSnapshots: keep, isDryRun }),
            ({ snapshots }) => snapshots.removedFiles
          )
        assert.strictEqual(yield* pruneTo(4), 0)
        assert.strictEqual(yield* pruneTo(0, true), keepSnapshots)
        assert.lengthOf(renderedIn(folder), keepSnapshots + 1)
        assert.strictEqual(yield* pruneTo(0), keepSnapshots)
        assert.deepStrictEqual(renderedIn(folder), contents.slice(-1))
        assert.deepStrictEqual(yield* verifyFiles(folder), [])
      }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})

/** Returns the contents of the rendered files, whether the manifest names them or not. */
const renderedIn = (folder: string) =>
  readdirSync(folder).filter((name) => name.endsWith(".ndjson")).map((name) => readFileSync(join(folder, name), "utf8"))

describe("payments prune in a folder of files, killed before it rendered", () => {
  it.live.each(["an export of another list", "the next prune"])(
    "leaves the rendering to %s",
    (next) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const fill = scanning(FileSink.layer(folder))
        for (const ids of [[0, 1, 2], [0, 2], [0, 2]]) yield* fill(invoices(...ids))
        const destination = { _tag: "Files", folder, format: FileSink.defaultFormat } as const
        assert.lengthOf(manifestOf(folder).lists["invoices"]?.files ?? [], 2)
        // Without the rendering that follows.
        yield* removeMissing(yield* Destination.maintenance(destination))
        if (next === "the next prune") {
          const { rows } = yield* pruneAll(destination, { keepMissing: Duration.zero })
          assert.strictEqual(rows.removed, 0)
        } else {
          yield* Effect.scoped(
            Effect.provide(
              Effect.flatMap(Sink, (sink) => sink.lock(Lists.payoutRequests, "refuse")),
              FileSink.layer(folder)
            )
          )
        }
        assert.deepStrictEqual(yield* textsOf(folder, Lists.invoices), invoices(0, 2))
        const [file] = manifestOf(folder).lists["invoices"]?.files ?? []
        assert.strictEqual(readFileSync(join(folder, file?.file ?? ""), "utf8"), `${invoices(0, 2).join("\n")}\n`)
      }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )
})
