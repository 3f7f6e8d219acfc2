import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query as ask, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Context, Effect, Layer, type Scope, Stream } from "effect"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { changesAfter, moveConsumer, requireCurrent, requirePosition } from "../../src/ask/Consumers.ts"
import { type Generation, isLost, isShared, judgeMove } from "../../src/port/Generations.ts"
import { Sink, type SinkError } from "../../src/port/Sink.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { scan } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import type { Maintenance } from "../../src/store/Store.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const query = (statement: string) => Effect.promise(() => ask(server, statement))

const restoredAs = (name: string, beganAfter: number): Generation => ({
  generation: name,
  beganAfter,
  beganAt: "2026-01-01T00:00:00.000Z",
  reason: "restored"
})

/** The copy was restored at change 100, and again from a backup in which it had change 150. */
const known = [restoredAs("a", 0), restoredAs("b", 100), restoredAs("c", 150)]

describe("a number of a change", () => {
  it.each([
    ["c", 1, true],
    ["c", 999, true],
    ["b", 150, true],
    ["b", 151, false],
    ["a", 100, true],
    ["a", 101, false],
    ["unknown", 1, false],
    [undefined, 999, true]
  ])("of generation %s: %i is the same change in the current one: %s", (name, seq, expected) => {
    assert.strictEqual(isShared(known, { generation: name, seq }), expected)
  })

  it.each([
    [{ generation: "c", seq: 170 }, 170, false],
    [{ generation: "c", seq: 171 }, 170, true],
    // Another program has noticed the loss.
    [{ generation: "b", seq: 999 }, 170, false],
    // The backup is older than the generation.
    [{ generation: "later", seq: 1 }, 170, true]
  ])("that a writer knows (%o) is lost if the last one is %i: %s", (change, last, expected) => {
    assert.strictEqual(isLost(change, known, last), expected)
  })

  const range = { generation: "c", pruned: 10, last: 170 }
  const stored = (name: string, position: number) => ({ generation: name, position })
  const handedOff = { isHandedOff: true, when: "forward" } as const
  it.each(
    [
      ["a new consumer", undefined, { position: 20, when: "create" }, "move"],
      [
        "a new consumer, of another generation",
        undefined,
        { position: 120, generation: "a", when: "forward" },
        "otherGeneration"
      ],
      ["a new consumer, beyond the last", undefined, { position: 171, when: "forward" }, "beyondLast"],
      ["a step forward", stored("c", 20), { position: 30, when: "forward" }, "move"],
      ["a step back", stored("c", 30), { position: 20, when: "forward" }, "stay"],
      ["a step back on purpose", stored("c", 30), { position: 20, when: "any" }, "move"],
      ["back before removed changes", stored("c", 30), { position: 9, when: "any" }, "removed"],
      ["forward to a lost change", stored("c", 30), { position: 171, when: "forward" }, "begin"],
      ["back beyond the last", stored("c", 30), { position: 171, when: "any" }, "beyondLast"],
      ["a restored position", stored("b", 30), { position: 160, when: "forward" }, "otherGeneration"],
      ["a restored position, and its reader says where it stands", stored("b", 140), {
        position: 30,
        generation: "b",
        when: "forward"
      }, "move"],
      ["a restored position, whose reader has lost changes", stored("b", 30), {
        position: 151,
        generation: "b",
        when: "any"
      }, "otherGeneration"],
      [
        "a lost change of an earlier generation",
        stored("c", 160),
        { position: 155, generation: "b", when: "forward" },
        "otherGeneration"
      ],
      ["a change that its hand-off has not sent", stored("c", 30), { ...handedOff, position: 31 }, "unsent"],
      ["a change that its hand-off has sent", stored("c", 30), { ...handedOff, position: 30 }, "move"],
      ["a change after removed ones of its hand-off", stored("c", 9), { ...handedOff, position: 31 }, "move"],
      ["a change beyond the last one of its hand-off", stored("c", 30), { ...handedOff, position: 171 }, "beyondLast"],
      ["a change, after the destination of its hand-off was restored", stored("b", 140), {
        ...handedOff,
        position: 150,
        generation: "c"
      }, "move"]
    ] as const
  )("that a consumer acknowledges, %s", (_, before, move, expected) => {
    const verdict = judgeMove({ generation: undefined, ...move }, before, range, known)
    assert.strictEqual(verdict._tag, expected)
    if (verdict._tag === "begin") assert.strictEqual(verdict.after, 30, "what is known to be common")
  })
})

/** A kind of destination. A folder's name is also the name of a schema. */
interface DestinationCase {
  readonly name: string
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError>
  readonly open: (folder: string) => Effect.Effect<Maintenance, SinkError, Scope.Scope>
  /** Runs statements over the tables, whose names have a prefix. */
  readonly run: (folder: string, statements: (prefix: string) => ReadonlyArray<string>) => Effect.Effect<void>
  /** The statement that sets the number of the last change. */
  readonly setLast: (prefix: string, last: number) => string
}

const fileIn = (folder: string) => join(folder, "payments.db")

const destinations: ReadonlyArray<DestinationCase> = [
  {
    name: "sqlite:FILE",
    layer: (folder) => SqliteSink.layer(fileIn(folder)),
    open: (folder) => openMaintenance(fileIn(folder), "here"),
    run: (folder, statements) => Effect.sync(() => execute(fileIn(folder), statements("").join(";"))),
    setLast: (_, last) => `UPDATE sqlite_sequence SET seq = ${last} WHERE name = 'changes'`
  },
  {
    name: "postgres://HOST",
    layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
    open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder))),
    run: (folder, statements) =>
      Effect.forEach(statements(`"${basename(folder)}".`), (statement) => query(statement), { discard: true }),
    setLast: (s, last) => `UPDATE ${s}destination SET changes = ${last}`
  }
]

/** Exports ten invoices with this amount. */
const exporting = (amount: number) =>
  scan("invoices", { limit: 5, largestBatch: 5 }).pipe(
    Effect.provide(layerTest({ invoices: Array.from({ length: 10 }, (_, index) => ({ id: `inv_${index}`, amount })) })),
    Effect.provide(NodeServices.layer)
  )

describe.each(destinations)("generations in $name", ({ layer, open, run, setLast }) => {
  /** A destination with ten changes for each amount after the first one. */
  const withChanges = Effect.fnUntraced(function*(...amounts: ReadonlyArray<number>) {
    const folder = yield* temporaryFolder
    for (const amount of amounts) yield* Effect.provide(exporting(amount), layer(folder))
    return { folder, opened: yield* open(folder) }
  })
  const move = (opened: Maintenance, position: number, generation?: string) =>
    Effect.match(moveConsumer(opened, { name: "a", position, generation, when: "forward" }), {
      onFailure: ({ _tag }) => _tag,
      onSuccess: (at) => at
    })
  const begin = { reason: "restored", now: "2026-01-01T00:00:00.000Z" } as const

  it.live("have random names, and every change has that of its own", () =>
    Effect.gen(function*() {
      const { folder, opened } = yield* withChanges(1, 2)
      const [first] = yield* opened.lineage
      assert.match(first?.generation ?? "", /^[0-9a-f]{12}$/)
      const [, second] = yield* opened.beginGeneration(begin)
      assert.deepInclude(second, { beganAfter: 10, reason: "restored" })
      assert.notStrictEqual(second?.generation, first?.generation)
      yield* Effect.provide(exporting(3), layer(folder))
      const changes = yield* opened.changes(0, 100, Lists.all)
      assert.deepStrictEqual(
        changes.map((row) => row.generation),
        changes.map(({ seq }) => seq <= 10 ? first?.generation : second?.generation)
      )
      assert.deepStrictEqual(yield* opened.changeRange, { generation: second?.generation, pruned: 0, last: 20 })
      // Changes of an export that ran between the restore and now belong to the new generation too.
      const third = (yield* opened.beginGeneration({ ...begin, after: 15 })).at(-1)
      const later = yield* opened.changes(14, 3, Lists.all)
      assert.deepStrictEqual(later.map((row) => row.generation), [
        second?.generation,
        third?.generation,
        third?.generation
      ])
      // Another program has begun one meanwhile.
      assert.lengthOf(yield* opened.beginGeneration({ ...begin, instead: first?.generation }), 3)
    }).pipe(Effect.scoped))

  it.live("refuse stored positions of earlier ones until their reader says where it stands", () =>
    Effect.gen(function*() {
      const { folder, opened } = yield* withChanges(1, 2)
      const first = (yield* opened.changeRange).generation
      assert.strictEqual(yield* move(opened, 4), 4)
      yield* opened.beginGeneration(begin)
      yield* Effect.provide(exporting(3), layer(folder))
      const [restored] = yield* opened.consumerStates
      assert.deepInclude(restored, { generation: first, position: 4, lag: undefined })
      assert.isDefined(restored)
      const refused = yield* Effect.flip(requireCurrent(opened, restored))
      assert.deepInclude(refused, { _tag: "OtherGeneration", isStored: true, position: 4, generation: first })
      // The reader may have applied changes that were lost.
      assert.strictEqual(yield* move(opened, 5), "OtherGeneration")
      assert.strictEqual(yield* move(opened, 11, first), "OtherGeneration")
      assert.strictEqual(yield* move(opened, 12, "ffffffffffff"), "OtherGeneration")
      assert.deepInclude((yield* opened.consumerStates)[0], { generation: first, position: 4 })
      const refusedAt = yield* Effect.flip(requirePosition(opened, { generation: first, seq: 11 }))
      assert.strictEqual(refusedAt._tag, "OtherGeneration")
      yield* requirePosition(opened, { generation: first, seq: 10 })
      // It stands before its stored position, or after it.
      assert.strictEqual(yield* move(opened, 2, first), 2)
      assert.strictEqual(yield* move(opened, 12), 12)
      assert.deepInclude((yield* opened.consumerStates)[0], {
        generation: (yield* opened.changeRange).generation,
        position: 12,
        lag: 8
      })
    }).pipe(Effect.scoped))

  it.live("begin when a consumer acknowledges a change that was lost, after its stored position", () =>
    Effect.gen(function*() {
      const { opened } = yield* withChanges(1, 2)
      const before = yield* opened.changeRange
      assert.strictEqual(yield* move(opened, 4), 4)
      assert.strictEqual(yield* move(opened, 11), "ChangesLost")
      const begun = (yield* opened.lineage).at(-1)
      assert.deepInclude(begun, { beganAfter: 4, reason: "consumer" })
      assert.deepInclude((yield* opened.consumerStates)[0], {
        generation: before.generation,
        position: 4,
        lag: undefined
      })
      assert.deepStrictEqual((yield* opened.changes(3, 2, Lists.all)).map((row) => row.generation), [
        before.generation,
        begun?.generation
      ])
    }).pipe(Effect.scoped))

  it.live("end the reading of a reader that began before", () =>
    Effect.gen(function*() {
      const { folder, opened } = yield* withChanges(1, 2)
      const numbers: Array<number> = []
      const error = yield* changesAfter(opened, 0, { lists: Lists.all, isFollowing: true }).pipe(
        Stream.runForEach(({ rows }) =>
          Effect.gen(function*() {
            numbers.push(...rows.map(({ seq }) => seq))
            yield* opened.beginGeneration(begin)
            yield* Effect.orDie(Effect.provide(exporting(3), layer(folder)))
          })
        ),
        Effect.flip
      )
      assert.strictEqual(error._tag, "OtherGeneration")
      assert.deepStrictEqual(numbers, Array.from({ length: 10 }, (_, index) => index + 1))
    }).pipe(Effect.scoped))

  it.live("begin when a writer that stays open has written higher numbers", () =>
    Effect.gen(function*() {
      const { folder, opened } = yield* withChanges(1)
      const sink = Context.get(yield* Layer.build(layer(folder)), Sink)
      const write = (amount: number) => Effect.provideService(exporting(amount), Sink, sink)
      yield* write(2)
      yield* write(3)
      assert.lengthOf(yield* opened.lineage, 1)
      // The backup was made after ten changes.
      yield* run(folder, (s) => [`DELETE FROM ${s}changes WHERE seq > 10`, setLast(s, 10)])
      yield* write(4)
      assert.deepInclude((yield* opened.lineage).at(-1), { beganAfter: 10, reason: "writer" })
      const current = (yield* opened.changeRange).generation
      assert.deepStrictEqual(
        (yield* opened.changes(9, 2, Lists.all)).map((row) => row.generation === current),
        [false, true]
      )
      yield* write(5)
      assert.lengthOf(yield* opened.lineage, 2, "one loss begins one generation")
    }).pipe(Effect.scoped))
})

describe("a schema whose server was failed over", () => {
  it.live("begins a generation with the first commit that finds another server, before it writes a change", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const layer = PostgresSink.layer(urlOf(server, basename(folder)))
      const s = `"${basename(folder)}"`
      for (const amount of [1, 2]) yield* Effect.provide(exporting(amount), layer)
      const origins = Effect.map(
        query(`SELECT origin FROM ${s}.generations ORDER BY number`),
        (rows) => rows.map(({ origin }) => origin)
      )
      const [own] = yield* origins
      assert.match(String(own), /^[0-9]+\/[0-9A-F]{8}$/)
      const opened = yield* PostgresSink.maintenance(urlOf(server, basename(folder)))
      // The first commit after a failover sees the earlier server's timeline.
      yield* query(`UPDATE ${s}.generations SET origin = 'earlier/00000001'`)
      for (const amount of [3, 4]) yield* Effect.provide(exporting(amount), layer)
      assert.deepStrictEqual(yield* origins, ["earlier/00000001", own])
      const lineage = yield* opened.lineage
      assert.deepInclude(lineage.at(-1), { beganAfter: 10, reason: "server" })
      assert.strictEqual((yield* opened.changes(10, 1, Lists.all))[0]?.generation, lineage.at(-1)?.generation)
    }).pipe(Effect.scoped))
})
