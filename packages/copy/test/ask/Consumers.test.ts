import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Cause, Clock, Console, Deferred, Duration, Effect, Exit, Fiber, Layer, type Pull, Scope, Stream } from "effect"
import { readFileSync, statSync, writeFileSync } from "node:fs"
import { basename, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterAll, beforeAll } from "vitest"
import { type ChangeBatch, changesAfter, moveConsumer } from "../../src/ask/Consumers.ts"
import { prune } from "../../src/ask/Retention.ts"
import { verify } from "../../src/ask/Verify.ts"
import * as FileSink from "../../src/files/FileSink.ts"
import type { Sink, SinkError } from "../../src/port/Sink.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { scan, type ScanEvent } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import type { ChangeRow, Maintenance } from "../../src/store/Store.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

/** A kind of destination. A folder's name is also the name of a schema. */
interface DestinationCase {
  readonly name: string
  readonly histories: number
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError, NodeServices.NodeServices>
  readonly open: (folder: string) => Effect.Effect<Maintenance, SinkError, Scope.Scope>
}

const fileIn = (folder: string) => join(folder, "payments.db")

const destinations: ReadonlyArray<DestinationCase> = [
  {
    name: "sqlite:FILE",
    histories: isLongRun ? 300 : 10,
    layer: (folder) => SqliteSink.layer(fileIn(folder)),
    open: (folder) => openMaintenance(fileIn(folder), "here")
  },
  {
    name: "file:FOLDER",
    histories: isLongRun ? 50 : 2,
    layer: (folder) => FileSink.layer(folder),
    open: (folder) => openMaintenance(join(folder, FileSink.copyFile), "here")
  },
  {
    name: "postgres://HOST",
    histories: isLongRun ? 100 : 2,
    layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
    open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder)))
  }
]

/** Removes everything that nothing needs. A change is older than 0 ms only in the next millisecond. */
const pruneAll = (opened: Maintenance, isDryRun = false) =>
  Effect.delay(prune(opened, { keepChanges: Duration.zero, keepScans: Duration.zero, isDryRun }), "2 millis")

/** Exports invoices with these amounts, five per commit. If `commits` is given, the export is killed after so many. */
const exporting = Effect.fnUntraced(function*(
  layer: Layer.Layer<Sink, SinkError, NodeServices.NodeServices>,
  amounts: ReadonlyArray<number>,
  commits = 0
) {
  const reached = yield* Deferred.make<void>()
  let count = 0
  const onEvent = ({ _tag }: ScanEvent) =>
    _tag === "Committed" && ++count === commits
      ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
      : Effect.void
  const invoices = amounts.map((amount, index) => ({ id: `inv_${index}`, amount }))
  const exported = scan("invoices", { limit: 5, largestBatch: 5, missingLimit: 1, onEvent }).pipe(
    Effect.provide(Layer.merge(layer, layerTest({ invoices }))),
    Effect.provide(NodeServices.layer)
  )
  yield* Effect.raceFirst(Effect.asVoid(exported), Deferred.await(reached))
})

/** A reader of changes: a process that may be killed at any moment. */
interface Session {
  readonly consumer: string | undefined
  readonly scope: Scope.Closeable
  readonly pull: Pull.Pull<ReadonlyArray<ChangeBatch>, unknown>
  /** The number after which it began. */
  readonly start: number
  through: number
  isOver: boolean
}

const names = ["reports", "ledger"] as const

/** Plays one history of writes, readers, acknowledgements, kills and removals, and checks every reader after each step. */
const play = (
  destination: DestinationCase,
  number: number,
  figures: { -readonly [name in keyof typeof noFigures]: number }
) =>
  Effect.gen(function*() {
    const dice = diceOf(seed, "consumers", destination.name, number)
    const folder = yield* temporaryFolder
    const layer = destination.layer(folder)
    const amounts = Array.from({ length: 30 }, () => 1)
    yield* exporting(layer, amounts)
    const opened = yield* destination.open(folder)
    /** Every change that was written, in order. */
    const written: Array<ChangeRow> = []
    const sessions = new Set<Session>()
    const positions = new Map<string, number>()

    const write = Effect.gen(function*() {
      if (dice.chance(0.2)) amounts.push(1)
      for (let times = dice.below(6); times > 0; times--) {
        const index = dice.below(amounts.length)
        amounts[index] = (amounts[index] ?? 0) + 1
      }
      yield* exporting(layer, amounts, dice.chance(0.3) ? 1 + dice.below(5) : 0)
      const rows = yield* opened.changes(written.length, Number.MAX_SAFE_INTEGER, Lists.all)
      for (const row of rows) {
        written.push(row)
        assert.strictEqual(row.seq, written.length, "the numbers have no gap")
      }
    })

    const begin = Effect.gen(function*() {
      const { last, pruned } = yield* opened.changeRange
      const consumer = dice.chance(0.7) ? dice.pick(names) : undefined
      const start = consumer === undefined
        ? dice.below(last + 1)
        : yield* moveConsumer(opened, { name: consumer, position: dice.pick([pruned, last]), when: "create" })
      if (consumer !== undefined) assert.strictEqual(start, positions.get(consumer) ?? start)
      if (consumer !== undefined) positions.set(consumer, start)
      const scope = yield* Scope.make()
      const stream = changesAfter(opened, start, { lists: Lists.all, isFollowing: true })
      const pull = yield* Scope.provide(Stream.toPull(stream), scope)
      sessions.add({ consumer, scope, pull, start, through: start, isOver: false })
    })

    /** Lets a reader take its next batch. */
    const read = Effect.fnUntraced(function*(session: Session) {
      // A reader that follows waits for the next change.
      if (session.through === written.length || session.isOver) return
      const { pruned } = yield* opened.changeRange
      const exit = yield* Effect.exit(session.pull)
      if (Exit.isFailure(exit)) {
        session.isOver = true
        figures.gaps++
        assert.include(Cause.pretty(exit.cause), "ChangesRemoved")
        assert.isAbove(pruned, session.through, "only removed changes end a reader")
        // Another reader of the same consumer has acknowledged them.
        if (session.consumer !== undefined) assert.isAtLeast(positions.get(session.consumer) ?? 0, pruned)
        return
      }
      for (const { rows, through } of exit.value) {
        assert.deepStrictEqual(rows, written.slice(session.through, through), "every change, in order, unchanged")
        figures.delivered += rows.length
        session.through = through
      }
    })

    const acknowledge = Effect.fnUntraced(function*({ consumer, through }: Session) {
      if (consumer === undefined) return
      const before = positions.get(consumer) ?? 0
      const position = yield* moveConsumer(opened, { name: consumer, position: through, when: "forward" })
      assert.strictEqual(position, Math.max(before, through), "a position only moves forward")
      positions.set(consumer, position)
      figures.acknowledged++
    })

    const kill = (session: Session) =>
      Effect.suspend(() => {
        sessions.delete(session)
        figures.kills++
        return Scope.close(session.scope, Exit.void)
      })

    const remove = Effect.gen(function*() {
      const { changes } = yield* pruneAll(opened)
      const { last, pruned } = yield* opened.changeRange
      assert.deepStrictEqual([pruned, last], [changes.through, written.length])
      for (const [name, position] of positions) assert.isAtMost(pruned, position, name)
      figures.removed += changes.removed
      figures.heldBack += changes.heldBack.length
      assert.deepStrictEqual(yield* opened.changes(0, Number.MAX_SAFE_INTEGER, Lists.all), written.slice(pruned))
      assert.deepStrictEqual((yield* verify(opened, Lists.invoices)).differences, [])
    })

    for (let left = isLongRun ? 60 : 40; left > 0; left--) {
      const session = sessions.size === 0 ? undefined : dice.pick([...sessions])
      const step = dice.below(10)
      if (step < 3) yield* write
      else if (step === 3 || session === undefined) yield* begin
      else if (step < 7) yield* read(session)
      else if (step === 7) yield* acknowledge(session)
      else if (step === 8) yield* kill(session)
      else yield* remove
    }
    const stored = (yield* opened.consumerStates).map(({ lag, name, position }) => [name, position, lag])
    assert.deepStrictEqual(
      stored,
      [...positions].toSorted().map(([name, position]) => [name, position, written.length - position])
    )
    for (const session of sessions) yield* kill(session)
  }).pipe(
    Effect.scoped,
    Effect.onError(() => Console.error(`history ${number} of ${destination.name}, seed ${seed}`))
  )

const noFigures = { delivered: 0, acknowledged: 0, kills: 0, removed: 0, heldBack: 0, gaps: 0 }

describe(`readers of changes, next to exports, kills and the removal of changes (seed ${seed})`, () => {
  it.live.each(destinations)(
    "get every change in order, a repeated one with the same number, and no gap without an error: $histories histories in $name",
    (destination) =>
      Effect.gen(function*() {
        const figures = { ...noFigures }
        for (let number = 1; number <= destination.histories; number++) yield* play(destination, number, figures)
        yield* Console.log(`readers of changes in ${destination.name}: ${JSON.stringify(figures)}`)
        // A few histories need not contain every kind of event.
        if (destination.histories < 10) return
        for (const name of ["delivered", "acknowledged", "kills", "removed"] as const) {
          assert.isAbove(figures[name], 0, name)
        }
      }),
    600_000
  )
})

/** Opens a destination with `count` changes: every invoice has changed once. */
const withChanges = Effect.fnUntraced(function*(destination: DestinationCase, count: number) {
  const folder = yield* temporaryFolder
  const layer = destination.layer(folder)
  yield* exporting(layer, Array.from({ length: count }, () => 1))
  yield* exporting(layer, Array.from({ length: count }, () => 2))
  return { folder, layer, opened: yield* destination.open(folder) }
})

describe.each(destinations)("the consumers in $name", (destination) => {
  it.live("do not move before removed changes or beyond the last change, nor back without being told to", () =>
    Effect.gen(function*() {
      const { layer, opened } = yield* withChanges(destination, 10)
      const move = (position: number, when: "create" | "forward" | "any") =>
        Effect.match(moveConsumer(opened, { name: "a", position, when }), {
          onFailure: ({ _tag }) => _tag,
          onSuccess: (at) => at
        })
      assert.strictEqual(yield* move(11, "create"), "BeyondLastChange")
      assert.strictEqual(yield* move(4, "create"), 4)
      assert.strictEqual(yield* move(7, "create"), 4)
      assert.strictEqual(yield* move(11, "any"), "BeyondLastChange")
      assert.strictEqual(yield* move(10, "forward"), 10)
      assert.strictEqual(yield* move(6, "forward"), 10)
      assert.strictEqual(yield* move(6, "any"), 6)
      // The next complete scan needs none of the changes before it.
      yield* exporting(layer, Array.from({ length: 10 }, () => 2))
      const pruned = yield* pruneAll(opened)
      assert.deepStrictEqual(pruned.changes, {
        removed: 6,
        through: 6,
        heldBack: [{ by: "consumer", name: "a", position: 6 }]
      })
      assert.strictEqual(yield* move(5, "any"), "ChangesRemoved")
      assert.strictEqual(yield* move(5, "forward"), 6)
      assert.isTrue(yield* opened.removeConsumer("a"))
      assert.isFalse(yield* opened.removeConsumer("a"))
      assert.strictEqual(yield* move(5, "create"), "ChangesRemoved")
      assert.deepStrictEqual(yield* opened.consumerStates, [])
    }).pipe(Effect.scoped))

  it.live("fail if changes after their last batch were removed, instead of skipping them", () =>
    Effect.gen(function*() {
      const { layer, opened } = yield* withChanges(destination, 10)
      const scope = yield* Effect.scope
      const pull = yield* Scope.provide(
        Stream.toPull(changesAfter(opened, 0, { lists: Lists.all, isFollowing: true })),
        scope
      )
      assert.deepStrictEqual((yield* pull).map(({ rows, through }) => [rows.length, through]), [[10, 10]])
      // The second of these scans is complete without a change, so that nothing needs the changes of the first.
      for (const amount of [3, 3]) yield* exporting(layer, Array.from({ length: 10 }, () => amount))
      yield* pruneAll(opened)
      assert.deepInclude(yield* opened.changeRange, { pruned: 20, last: 20 })
      const error = yield* Effect.flip(pull)
      assert.deepInclude(error, { _tag: "ChangesRemoved", position: 10, through: 20 })
    }).pipe(Effect.scoped))

  it.live("lose no change to a removal at the same time, and exports continue", () =>
    Effect.gen(function*() {
      const { layer, opened } = yield* withChanges(destination, 40)
      yield* exporting(layer, Array.from({ length: 40 }, () => 2))
      const positions = Array.from({ length: 20 }, (_, index) => 2 * index)
      const moved = yield* Effect.all([
        Effect.forEach(positions, (position) =>
          Effect.exit(moveConsumer(opened, { name: `c${position}`, position, when: "create" })), { concurrency: 5 }),
        Effect.repeat(pruneAll(opened), { times: 10 }),
        Effect.forEach([3, 4, 5], (amount) =>
          exporting(
            layer,
            Array.from({ length: 40 }, () =>
              amount)
          ))
      ], { concurrency: "unbounded" })
      const { last, pruned } = yield* opened.changeRange
      assert.strictEqual(last, 4 * 40)
      assert.deepStrictEqual((yield* verify(opened, Lists.invoices)).differences, [])
      for (const { name, position } of yield* opened.consumerStates) {
        assert.isAtLeast(position, pruned, name)
      }
      assert.strictEqual((yield* opened.consumerStates).length, moved[0].filter(Exit.isSuccess).length)
    }).pipe(Effect.scoped))
})

describe("a reader of changes", () => {
  it.effect("reads at most 1,000 at once, and after a full batch passes over no change of another list", () =>
    Effect.gen(function*() {
      const written = Array.from({ length: 2500 }, (_, index): ChangeRow => ({
        seq: index + 1,
        generation: undefined,
        list: "invoices",
        scan: 1,
        at: "2024-05-01T10:00:00.000Z",
        kind: "update",
        id: `inv_${index}`,
        fields: [],
        before: undefined,
        after: undefined,
        rechecked: undefined
      }))
      const batches = yield* Stream.runCollect(changesAfter(
        {
          changes: (after, count) => Effect.succeed(written.slice(after, after + count)),
          // The last 10 changes are those of other lists.
          changeRange: Effect.succeed({ generation: undefined, pruned: 0, last: 2510 }),
          lineage: Effect.succeed([])
        },
        0,
        { lists: [Lists.invoices] }
      ))
      assert.deepStrictEqual(batches.map(({ rows, through }) => [rows.length, through]), [
        [1000, 1000],
        [1000, 2000],
        [500, 2510]
      ])
    }))
})

describe.each(destinations)("payments prune in $name", (destination) => {
  it.live("keeps what is younger, and in a dry run everything", () =>
    Effect.gen(function*() {
      const { layer, opened } = yield* withChanges(destination, 10)
      for (let times = 0; times < 3; times++) yield* exporting(layer, Array.from({ length: 10 }, () => 2))
      const scans = () => Effect.map(opened.scansFrom(Lists.invoices, 0), ({ length }) => length)
      const old = { keepChanges: Duration.days(1), keepScans: Duration.days(1) }
      const { generation } = yield* opened.changeRange
      assert.deepStrictEqual(yield* prune(opened, old), {
        generation,
        changes: { removed: 0, through: 0, heldBack: [] },
        scans: { removed: 0 },
        rows: { removed: 0, heldBack: [] }
      })
      assert.deepStrictEqual(yield* pruneAll(opened, true), {
        generation,
        changes: { removed: 10, through: 10, heldBack: [] },
        scans: { removed: 4 },
        rows: { removed: 0, heldBack: [] }
      })
      const range = yield* opened.changeRange
      assert.deepStrictEqual([range, yield* scans()], [{ ...range, pruned: 0, last: 10 }, 5])
      yield* pruneAll(opened)
      assert.deepStrictEqual([yield* opened.changeRange, yield* scans()], [{ ...range, pruned: 10, last: 10 }, 1])
      // The numbers continue after all changes were removed.
      yield* exporting(layer, Array.from({ length: 10 }, () => 3))
      assert.deepStrictEqual((yield* opened.changes(0, 1, Lists.all)).map(({ seq }) => seq), [11])
      assert.deepStrictEqual((yield* verify(opened, Lists.invoices)).differences, [])
    }).pipe(Effect.scoped))

  it.live("keeps the changes that verify needs: those after the last complete scan", () =>
    Effect.gen(function*() {
      const { layer, opened } = yield* withChanges(destination, 10)
      yield* exporting(layer, Array.from({ length: 10 }, () => 3), 1)
      const { changes } = yield* pruneAll(opened)
      assert.deepStrictEqual(changes, {
        removed: 10,
        through: 10,
        heldBack: [{ by: "scan", list: "invoices", scan: 2 }]
      })
      assert.deepStrictEqual((yield* verify(opened, Lists.invoices)).differences, [])
    }).pipe(Effect.scoped))
})

describe("an SQLite file", () => {
  const [sqlite] = destinations as [DestinationCase] // the first one
  it.live("does not grow while changes are written and removed: freed pages are used again", () =>
    Effect.gen(function*() {
      const { folder, layer, opened } = yield* withChanges(sqlite, 300)
      const file = fileIn(folder)
      const pages = () => rowsOf(file, "PRAGMA page_count")[0]?.["page_count"]
      for (let amount = 3; amount < 6; amount++) yield* exporting(layer, Array.from({ length: 300 }, () => amount))
      yield* pruneAll(opened)
      const before = pages()
      for (let amount = 6; amount < 9; amount++) {
        yield* exporting(layer, Array.from({ length: 300 }, () => amount))
        yield* pruneAll(opened)
      }
      assert.strictEqual(pages(), before)
    }).pipe(Effect.scoped))

  it.live("waits with an acknowledgement until another writer has committed", () =>
    Effect.gen(function*() {
      const { folder, opened } = yield* withChanges(sqlite, 3)
      const other = new DatabaseSync(fileIn(folder))
      other.exec("BEGIN IMMEDIATE")
      const moved = yield* Effect.forkChild(moveConsumer(opened, { name: "a", position: 2, when: "forward" }))
      yield* Effect.sleep("300 millis")
      assert.deepStrictEqual(yield* opened.consumerStates, [])
      other.exec("ROLLBACK")
      other.close()
      assert.strictEqual(yield* Fiber.join(moved), 2)
    }).pipe(Effect.scoped))

  it.live("opens at once if a writer was killed between the header of its log and the first frame", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      yield* exporting(sqlite.layer(folder), [1])
      const file = fileIn(folder)
      const writer = new DatabaseSync(file)
      writer.exec("UPDATE destination SET only = only")
      const header = readFileSync(`${file}-wal`).subarray(0, 32)
      writer.close()
      writeFileSync(`${file}-wal`, header)
      writeFileSync(`${file}-shm`, Buffer.alloc(32 * 1024))
      // The program sleeps only while another one has the file.
      const clock: Clock.Clock = Object.assign(Object.create(yield* Clock.Clock), {
        sleep: () => Effect.die(new Error("it waits for another program"))
      })
      const opened = yield* Effect.provideService(sqlite.open(folder), Clock.Clock, clock)
      assert.strictEqual((yield* opened.scansFrom(Lists.invoices, 0)).length, 1)
    }).pipe(Effect.scoped))

  it.live("is not created and not migrated by an acknowledgement", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const missing = yield* Effect.flip(Effect.scoped(sqlite.open(folder)))
      assert.include(missing.message, "there is nothing there. Export into it first.")
      assert.throws(() => statSync(fileIn(folder)))
      yield* exporting(sqlite.layer(folder), [1])
      execute(fileIn(folder), "PRAGMA user_version = 4")
      const older = yield* Effect.flip(Effect.scoped(sqlite.open(folder)))
      assert.include(
        older.message,
        "it was written by an earlier version of this program. Export into it first, or run payments migrate."
      )
    }).pipe(Effect.scoped))
})

describe("a PostgreSQL schema", () => {
  const postgres = destinations.at(-1) as DestinationCase // there are three
  it.live("lets a role acknowledge that may read, and write only consumers", () =>
    Effect.gen(function*() {
      const { folder } = yield* withChanges(postgres, 3)
      const s = `"${basename(folder)}"`
      const role = "acknowledger"
      for (
        const sql of [
          `CREATE ROLE ${role} LOGIN`,
          `GRANT USAGE ON SCHEMA ${s} TO ${role}`,
          `GRANT SELECT ON ALL TABLES IN SCHEMA ${s} TO ${role}`,
          `GRANT INSERT, UPDATE, DELETE ON ${s}.consumers TO ${role}`
        ]
      ) yield* Effect.promise(() => query(server, sql))
      const opened = yield* PostgresSink.maintenance({ ...urlOf(server, basename(folder)), user: role })
      assert.strictEqual(yield* moveConsumer(opened, { name: "a", position: 2, when: "create" }), 2)
      assert.strictEqual(yield* moveConsumer(opened, { name: "a", position: 3, when: "forward" }), 3)
      assert.isTrue(yield* opened.removeConsumer("a"))
      const refused = yield* Effect.flip(prune(opened, { keepScans: Duration.zero }))
      assert.include(refused.message, "42501")
    }).pipe(Effect.scoped))
})
