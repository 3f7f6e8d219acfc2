import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Effect, Layer } from "effect"
import { spawnSync } from "node:child_process"
import { copyFileSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { tableOf } from "../src/engine/Columns.ts"
import { scan } from "../src/Scan.ts"
import * as SqliteSink from "../src/sqlite/SqliteSink.ts"
import { openStore } from "../src/sqlite/SqliteStore.ts"
import { execute, rowsOf, temporaryFolder } from "./Folder.ts"

/** A destination as version 1 wrote it, in the words of its own SQL. */
const version1 = readFileSync(join(import.meta.dirname, "version1.sql"), "utf8")

const invoice = (index: number) => `{"id":"inv_${index}","amount":${index},"contract":"c","extra":1.10}`
const invoices = (count: number) => Array.from({ length: count }, (_, index) => invoice(index))
const payout = (index: number) => `{"id":"por_${index}","amount":${index},"customerDetails":{"name":"n${index}"}}`
const payouts = [...Array.from({ length: 11 }, (_, index) => payout(index)), `{"id":"por_bad","amount":"12"}`]

const old = Effect.map(temporaryFolder, (folder) => {
  const file = join(folder, "payments.db")
  execute(file, version1)
  return file
})

const run = (file: string, lists: Parameters<typeof layerTest>[0], list: Lists.ListName = "invoices", limit = 10) =>
  scan(list, { limit, largestBatch: limit }).pipe(Effect.provide(Layer.merge(SqliteSink.layer(file), layerTest(lists))))

const versionOf = (file: string) => rowsOf(file, "PRAGMA user_version")[0]?.["user_version"]

/** All that is in the file, schema and rows. */
const contentOf = (file: string) =>
  rowsOf(file, "SELECT type, name, sql FROM sqlite_schema ORDER BY name").map((entry) => [
    entry,
    entry["type"] === "table" ? rowsOf(file, `SELECT * FROM ${String(entry["name"])} ORDER BY 1, 2`) : []
  ])

const rawsOf = (file: string, list: Lists.AnyList) =>
  rowsOf(file, `SELECT raw FROM ${tableOf(list)}`).map(({ raw }) => String(raw)).toSorted()

const missingOf = (file: string) =>
  rowsOf(file, "SELECT id FROM invoices WHERE missing_since IS NOT NULL").map(({ id }) => id)

describe("a destination of version 1", () => {
  it.live("goes on from its checkpoint, and doubles no row", () =>
    Effect.gen(function*() {
      const file = yield* old
      assert.strictEqual(rowsOf(file, "SELECT 1 FROM invoices").length, 20, "two pages were committed")
      const summary = yield* run(file, { invoices: invoices(35) })
      assert.deepInclude(summary, { scan: 3, start: "resumed", pages: 4, records: 35, inserted: 30, missing: 0 })
      assert.strictEqual(versionOf(file), 3)
      assert.deepStrictEqual(rawsOf(file, Lists.invoices), invoices(35).toSorted())
      const numbers = rowsOf(file, "SELECT row FROM invoices ORDER BY row").map(({ row }) => row)
      assert.deepStrictEqual(numbers, Array.from({ length: 35 }, (_, row) => row))
      // It saw rows that no version 1 wrote down: its certificate would be a guess.
      assert.deepStrictEqual(rowsOf(file, "SELECT certificate FROM scans WHERE scan = 3"), [{ certificate: null }])
    }).pipe(Effect.scoped))

  it.live("keeps its rows, their times, its scans and its quarantine", () =>
    Effect.gen(function*() {
      const file = yield* old
      const columns = "id, amount, customer_details_name, raw, hash, first_seen_at, changed_at"
      const kept = () => [
        rowsOf(file, `SELECT ${columns} FROM payout_requests ORDER BY id`),
        rowsOf(file, "SELECT scan, list, state, pages, records, started_at FROM scans ORDER BY scan"),
        rowsOf(file, "SELECT scan, list, id, path, expected, raw FROM quarantine"),
        rowsOf(file, "SELECT * FROM destination")
      ]
      const before = kept()
      yield* run(file, {}, "payinSources")
      const [rows, scans, quarantine, destination] = kept()
      assert.deepStrictEqual([rows, scans?.slice(0, 3), quarantine, destination], before)
    }).pipe(Effect.scoped))

  it.live("concludes nothing from what version 1 saw, and as usual from two scans after it", () =>
    Effect.gen(function*() {
      const file = yield* old
      yield* run(file, { invoices: invoices(35) })
      // One that version 1 saw, and one that only the resumed scan did.
      const fewer = { invoices: invoices(35).filter((_, index) => index !== 3 && index !== 33) }
      assert.deepInclude(yield* run(file, fewer), { missing: 0, heldBack: 0 })
      assert.deepStrictEqual(missingOf(file), [])
      assert.deepInclude(yield* run(file, fewer), { missing: 2, heldBack: 0 })
      assert.deepStrictEqual(missingOf(file), ["inv_3", "inv_33"])
    }).pipe(Effect.scoped))

  it.live("concludes nothing from a complete scan of version 1", () =>
    Effect.gen(function*() {
      const file = yield* old
      const options = { payoutRequests: payouts.slice(1) }
      for (const missing of [0, 1]) {
        assert.deepInclude(yield* run(file, options, "payoutRequests"), {
          start: "afterComplete",
          missing,
          inserted: 0
        })
      }
      assert.deepStrictEqual(rowsOf(file, "SELECT kind, id FROM changes"), [{ kind: "missing", id: "por_0" }])
      // Version 1 had the whole list: what comes after is told.
      yield* run(file, { payoutRequests: [...payouts, payout(99)] }, "payoutRequests")
      assert.deepStrictEqual(
        rowsOf(file, "SELECT kind, id FROM changes").map(({ kind, id }) => `${String(kind)} ${String(id)}`),
        ["missing por_0", "returned por_0", "insert por_99"]
      )
    }).pipe(Effect.scoped))

  it.live("begins anew where it was asked with another limit, and keeps what it has", () =>
    Effect.gen(function*() {
      const file = yield* old
      const summary = yield* run(file, { invoices: invoices(35) }, "invoices", 7)
      assert.deepInclude(summary, { start: "otherRequest", inserted: 15, unchanged: 20 })
      assert.deepStrictEqual(rawsOf(file, Lists.invoices), invoices(35).toSorted())
    }).pipe(Effect.scoped))

  it.live("is as it was where its migration is killed after any of its steps, and is migrated by the next run", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const origin = join(folder, "origin.db")
      execute(origin, version1)
      const before = contentOf(origin)
      /** Migrates in a process of its own, which dies right behind its nth statement. */
      const migrateAndDie = (file: string, nth: number) =>
        spawnSync(process.execPath, [
          "--input-type=module",
          "-e",
          `
          import { DatabaseSync } from "node:sqlite"
          import { migrate } from ${JSON.stringify(join(import.meta.dirname, "../src/sqlite/SqliteSchema.ts"))}
          const db = new DatabaseSync(${JSON.stringify(file)})
          const exec = db.exec.bind(db)
          let count = 0
          db.exec = (sql) => {
            exec(sql)
            if (++count === ${nth}) process.kill(process.pid, "SIGKILL")
          }
          migrate(db)`
        ], { encoding: "utf8", cwd: import.meta.dirname })
      let kills = 0
      for (let nth = 1;; nth++) {
        const file = join(folder, `${nth}.db`)
        copyFileSync(origin, file)
        const { signal, status, stderr } = migrateAndDie(file, nth)
        if (signal !== "SIGKILL") {
          assert.strictEqual(status, 0, stderr)
          break
        }
        kills++
        if (versionOf(file) === 1) assert.deepStrictEqual(contentOf(file), before)
        else assert.strictEqual(versionOf(file), 3)
        assert.deepStrictEqual(rowsOf(file, "PRAGMA integrity_check"), [{ integrity_check: "ok" }])
        assert.deepInclude(yield* run(file, { invoices: invoices(35) }), {
          start: "resumed",
          records: 35,
          inserted: 30
        })
        assert.deepStrictEqual(rawsOf(file, Lists.invoices), invoices(35).toSorted())
      }
      assert.isAtLeast(kills, 4, "a migration has several steps")
    }).pipe(Effect.scoped))

  it.live("is the same for whichever of two programs migrates it", () =>
    Effect.gen(function*() {
      const file = yield* old
      const [invoiced, paid] = yield* Effect.all([
        run(file, { invoices: invoices(35) }),
        run(file, { payoutRequests: payouts }, "payoutRequests")
      ], { concurrency: 2 })
      assert.deepInclude(invoiced, { start: "resumed", inserted: 30 })
      assert.deepInclude(paid, { start: "afterComplete", unchanged: 12 })
    }).pipe(Effect.scoped))

  it.live("of a later version is refused with a clear line, and left as it is", () =>
    Effect.gen(function*() {
      const file = yield* old
      execute(file, "PRAGMA user_version = 4")
      const before = contentOf(file)
      const error = yield* Effect.flip(run(file, { invoices: invoices(35) }))
      assert.strictEqual(error._tag === "SinkError" && error.reason._tag, "NotADestination")
      assert.include(error.message, "it was written by a later version of this program. Use that version.")
      assert.deepStrictEqual([versionOf(file), contentOf(file)], [4, before])
    }).pipe(Effect.scoped))
})

describe("a destination of version 2", () => {
  const version2 = readFileSync(join(import.meta.dirname, "version2.sql"), "utf8")
  const ofVersion2 = Effect.map(temporaryFolder, (folder) => {
    const file = join(folder, "payments.db")
    execute(file, version2)
    return file
  })

  it.live("goes on from its checkpoint, doubles no row, and keeps its certificates and changes", () =>
    Effect.gen(function*() {
      const file = yield* ofVersion2
      const kept = () =>
        [
          "payout_requests",
          "changes",
          "quarantine",
          "scans WHERE list = 'payout-requests'",
          "revisions WHERE list <> 'invoices'"
        ]
          .map((table) => rowsOf(file, `SELECT * FROM ${table}`))
      const before = kept()
      const summary = yield* run(file, { invoices: invoices(35) })
      assert.deepInclude(summary, { scan: 3, start: "resumed", pages: 4, records: 35, inserted: 35, missing: 0 })
      assert.deepStrictEqual([versionOf(file), kept()], [3, before])
      assert.deepStrictEqual(rawsOf(file, Lists.invoices), invoices(35).toSorted())
      assert.deepInclude(
        yield* run(file, {
          payoutRequests: payouts.with(4, `{"id":"por_4","amount":44,"customerDetails":{"name":"n4"}}`)
        }, "payoutRequests"),
        { start: "afterComplete", unchanged: 12 }
      )
    }).pipe(Effect.scoped))

  it.live("that an earlier program goes on with by another path to it ends the export of this one", () =>
    Effect.gen(function*() {
      const file = yield* ofVersion2
      yield* run(file, {}, "payinSources")
      const store = yield* openStore(file, "here")
      yield* store.hold("invoices", "refuse")
      // What version 2 does when it has taken its lock, which a link let it find elsewhere.
      execute(file, "INSERT OR REPLACE INTO holders (label, holder) VALUES ('invoices', 'process 1 on host')")
      const error = yield* Effect.flip(store.rebind(Lists.invoices, "elsewhere"))
      assert.strictEqual(error.reason._tag, "LeaseLost")
    }).pipe(Effect.scoped))

  it.live("is locked for this one while an earlier program writes the list", () =>
    Effect.gen(function*() {
      const file = yield* ofVersion2
      const lock = new DatabaseSync(`${file}.invoices.lock`)
      lock.exec("BEGIN EXCLUSIVE")
      const error = yield* Effect.flip(run(file, { invoices: invoices(35) }))
      assert.strictEqual(error._tag === "SinkError" && error.reason._tag, "Locked")
      lock.close()
      assert.deepInclude(yield* run(file, { invoices: invoices(35) }), { start: "resumed" })
    }).pipe(Effect.scoped))
})
