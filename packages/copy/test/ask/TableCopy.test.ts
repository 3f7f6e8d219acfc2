import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query } from "@payments/testkit/postgres/PostgresTest"
import { Effect, Layer } from "effect"
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { moveConsumer } from "../../src/ask/Consumers.ts"
import { copyToTable, copyToTablePromise, TableCopyError } from "../../src/postgres.ts"
import { scanAll } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

let tables = 0

/** A destination with a table that follows it. */
const following = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const [file, backup] = [join(folder, "payments.db"), join(folder, "backup.db")]
  const table = `copy_${++tables}`
  const options = {
    from: `sqlite:${file}`,
    to: `postgres://${user}@127.0.0.1:${server.port}/postgres`,
    table,
    consumer: "warehouse"
  }
  const ask = (sql: string) => Effect.promise(() => query(server, sql))
  /** Exports all lists, or only these. */
  const exporting = (
    invoices: ReadonlyArray<string>,
    lists: Parameters<typeof scanAll>[0] = ["invoices", "payinSources"]
  ) =>
    scanAll(lists, { missingLimit: 1 }).pipe(
      Effect.provide(Layer.merge(SqliteSink.layer(file), layerTest({ invoices, payinSources: [`{"id":"pis_1"}`] }))),
      Effect.provide(NodeServices.layer)
    )
  return {
    file,
    table,
    exporting,
    ask,
    copy: copyToTable(options),
    startAgain: copyToTable({ ...options, startAgain: true }),
    promise: () => copyToTablePromise(options),
    opened: openMaintenance(file, "here"),
    backUp: Effect.sync(() => copyFileSync(file, backup)),
    restore: Effect.sync(() => copyFileSync(backup, file)),
    /** Asserts that the table has the exact text of every row of these lists. */
    assertEqual: Effect.fnUntraced(function*(...lists: ReadonlyArray<"invoices" | "payin_sources">) {
      const expected = lists.toSorted().flatMap((list) =>
        rowsOf(
          file,
          `SELECT '${
            list.replace("_", "-")
          }' AS list, id, raw AS record, missing_since IS NOT NULL AS missing FROM ${list} ORDER BY id`
        )
      )
      const found = yield* ask(
        `SELECT list, id, record::text AS record, is_missing::int AS missing FROM ${table} ORDER BY list COLLATE "C", id COLLATE "C"`
      )
      assert.deepStrictEqual(found.map((row) => ({ ...row })), expected)
    })
  }
})

const invoices = (count: number, amount: number) =>
  Array.from(
    { length: count },
    (_, index) =>
      `{"id":"inv_${
        String(index).padStart(6, "0")
      }","amount":${amount},"rate":1.10,"large":9007199254740993,"text":"\\u0000 \\ud800 '"}`
  )

describe("a table that follows a destination", () => {
  it.live("has the exact text of every record after each run, and of lists that are exported later", () =>
    Effect.gen(function*() {
      const { assertEqual, copy, exporting, opened, promise } = yield* following
      yield* exporting(invoices(5, 1), ["invoices"])
      const first = yield* copy
      assert.deepInclude(first, { seq: 0, rows: 5, changes: 0 })
      yield* assertEqual("invoices")
      yield* exporting([...invoices(4, 2), `{"id":"inv_9"}`])
      // The first load of payin sources writes no changes.
      assert.deepInclude(yield* copy, { generation: first.generation, rows: 1, changes: 5 })
      yield* assertEqual("invoices", "payin_sources")
      for (let times = 0; times < 2; times++) yield* exporting(invoices(2, 2))
      const last = yield* Effect.promise(promise)
      assert.deepInclude(last, { rows: 0, changes: 4 })
      yield* assertEqual("invoices", "payin_sources")
      assert.deepInclude(yield* copy, { seq: last.seq, rows: 0, changes: 0 })
      assert.deepInclude((yield* (yield* opened).consumerStates)[0], { name: "warehouse", position: last.seq, lag: 0 })
    }).pipe(Effect.scoped))

  it.live("is written in batches, each with its position in one transaction", () =>
    Effect.gen(function*() {
      const { ask, assertEqual, copy, exporting, table } = yield* following
      for (const amount of [1, 2]) yield* exporting(invoices(2500, amount))
      yield* exporting(invoices(2500, 3))
      yield* copy
      yield* exporting(invoices(2500, 4))
      assert.deepInclude(yield* copy, { rows: 0, changes: 2500 })
      yield* assertEqual("invoices", "payin_sources")
      const [counted] = yield* ask(
        `SELECT count(DISTINCT i.xmin::text)::int AS transactions, max(p.seq) = max(i.seq) AS whole
        FROM ${table} AS i, ${table}_positions AS p WHERE i.list = 'invoices'`
      )
      assert.deepInclude(counted, { transactions: 3, whole: true })
    }).pipe(Effect.scoped))

  it.live("goes on after a restore if it has applied nothing that was lost", () =>
    Effect.gen(function*() {
      const { assertEqual, backUp, copy, exporting, opened, restore } = yield* following
      for (const amount of [1, 2]) yield* exporting(invoices(5, amount))
      const before = yield* copy
      yield* backUp
      yield* exporting(invoices(5, 3))
      yield* restore
      yield* (yield* opened).beginGeneration({ reason: "restored", now: "2026-01-01T00:00:00.000Z" })
      yield* exporting(invoices(5, 4))
      const after = yield* copy
      assert.deepInclude(after, { seq: 10, changes: 5 })
      assert.notStrictEqual(after.generation, before.generation)
      yield* assertEqual("invoices", "payin_sources")
    }).pipe(Effect.scoped))

  it.live("refuses to go on if it has applied changes that were lost, and can be copied again", () =>
    Effect.gen(function*() {
      const { assertEqual, backUp, copy, exporting, opened, restore, startAgain } = yield* following
      for (const amount of [1, 2]) yield* exporting(invoices(5, amount))
      yield* copy
      yield* backUp
      // One record is only in the lost changes.
      yield* exporting([...invoices(5, 3), `{"id":"inv_lost"}`])
      yield* copy
      yield* restore
      // Nobody has said that the destination was restored, but the table knows a higher number.
      const lost = yield* Effect.flip(copy)
      assert.instanceOf(lost, TableCopyError)
      assert.isTrue(lost._tag === "TableCopyError" && lost.needsStart)
      assert.include(lost.message, "change 11 was read before, but the last change is now 5")
      const lineage = yield* (yield* opened).lineage
      assert.deepInclude(lineage.at(-1), { reason: "consumer", beganAfter: 5 })
      // Later exports reach the number again, and the table is still refused.
      for (const amount of [4, 5]) yield* exporting(invoices(5, amount))
      const refused = yield* Effect.flip(copy)
      assert.include(refused.message, "is change 11 of generation")
      assert.deepInclude(yield* startAgain, { seq: 15, rows: 6, changes: 0 })
      yield* assertEqual("invoices", "payin_sources")
      assert.deepInclude(yield* copy, { seq: 15, rows: 0, changes: 0 })
    }).pipe(Effect.scoped))

  it.live("refuses the consumer of a hand-off, whose changes it would pass over", () =>
    Effect.gen(function*() {
      const { copy, exporting, opened } = yield* following
      for (const amount of [1, 2]) yield* exporting(invoices(5, amount))
      const store = yield* opened
      yield* moveConsumer(store, { name: "warehouse", position: 0, when: "create" })
      yield* store.takeOverHandoff("warehouse")
      const refusal = "consumer: the worker moves it, because a hand-off sends its changes. Choose another name."
      assert.include((yield* Effect.flip(copy)).message, refusal)
      assert.deepInclude((yield* store.consumerStates)[0], { position: 0 })
      // Also while the hand-off is not behind: it would go on without the table.
      const { last } = yield* store.changeRange
      const move = { name: "warehouse", position: last, when: "forward", now: "2026-01-01T00:00:00.000Z" } as const
      const { epoch } = yield* store.takeOverHandoff("warehouse")
      yield* store.changeHandoff({ consumer: "warehouse", epoch, change: (stored) => stored, move })
      assert.deepInclude((yield* store.consumerStates)[0], { position: last })
      assert.include((yield* Effect.flip(copy)).message, refusal)
    }).pipe(Effect.scoped))

  it.live("refuses to skip changes that were removed, and says so before any list is exported", () =>
    Effect.gen(function*() {
      const { copy, exporting, file } = yield* following
      assert.include((yield* Effect.flip(copy)).message, file)
      for (const amount of [1, 2]) yield* exporting(invoices(5, amount))
      yield* copy
      yield* exporting(invoices(5, 3))
      execute(file, "DELETE FROM consumers; DELETE FROM changes; INSERT INTO changes_pruned VALUES (1, 10, '')")
      const removed = yield* Effect.flip(copy)
      assert.include(removed.message, "changes 6 to 10 were removed")
      assert.isTrue(removed._tag === "TableCopyError" && removed.needsStart)
    }).pipe(Effect.scoped))
})
