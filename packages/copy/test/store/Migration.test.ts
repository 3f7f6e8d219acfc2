import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { moduleOf } from "@payments/testkit/ChildProcess"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { without, withText } from "@payments/testkit/SmallerLists"
import { spawnSync } from "@payments/testkit/TestProcess"
import { Effect, Layer } from "effect"
import { copyFileSync, existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { verify } from "../../src/ask/Verify.ts"
import { tableOf } from "../../src/plan/Columns.ts"
import { scan } from "../../src/scan/Scan.ts"
import { readerOver } from "../../src/sql/SqlReader.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { sqlOver } from "../../src/sqlite/SqliteSql.ts"
import { openReader, openStore } from "../../src/sqlite/SqliteStore.ts"
import { currentVersion, migrations, migrationsAfter, programVersion } from "../../src/store/Migrations.ts"

const invoice = (index: number) => `{"id":"inv_${index}","amount":${index},"contract":"c","extra":1.10}`
const invoices = (count: number) => Array.from({ length: count }, (_, index) => invoice(index))
const payout = (index: number) => `{"id":"por_${index}","amount":${index},"customerDetails":{"name":"n${index}"}}`
const payouts = [...Array.from({ length: 11 }, (_, index) => payout(index)), `{"id":"por_bad","amount":"12"}`]

const run = (
  file: string,
  lists: Parameters<typeof layerTest>[0],
  list: Lists.ListName = "invoices",
  limit = 10,
  known = Lists.all
) =>
  scan(list, { limit, largestBatch: limit, lists: known }).pipe(
    Effect.provide(Layer.merge(SqliteSink.layer(file, known), layerTest(lists)))
  )

const versionOf = (file: string) => rowsOf(file, "PRAGMA user_version")[0]?.["user_version"]

/** Returns the whole content of the file: the schema and the rows. */
const contentOf = (file: string) =>
  rowsOf(file, "SELECT type, name, sql FROM sqlite_schema ORDER BY name").map((entry) => [
    entry,
    entry["type"] === "table" ? rowsOf(file, `SELECT * FROM ${String(entry["name"])}`) : []
  ])

const rawsOf = (file: string, list: Lists.AnyList) =>
  rowsOf(file, `SELECT raw FROM ${tableOf(list)}`).map(({ raw }) => String(raw)).toSorted()

const version2 = readFileSync(join(import.meta.dirname, "version2.sql"), "utf8")

describe("the migrations", () => {
  it("have versions from 1 on, without gaps, up to the current one", () => {
    assert.deepStrictEqual(migrations.map(({ version }) => version), migrations.map((_, index) => index + 1))
    assert.strictEqual(migrations.at(-1)?.version, currentVersion)
  })

  it("record the version of the programs", () => {
    for (const app of ["cli", "worker"]) {
      const manifest: unknown = JSON.parse(
        readFileSync(join(import.meta.dirname, "../../../../apps", app, "package.json"), "utf8")
      )
      assert.deepInclude(manifest, { version: programVersion })
    }
  })

  it.live("of version 1 are no longer supported: such a file is refused unchanged", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      execute(file, "CREATE TABLE t (x); PRAGMA application_id = 0x50415952; PRAGMA user_version = 1")
      const before = contentOf(file)
      const error = yield* Effect.flip(run(file, {}))
      assert.include(error.message, "by version 1 of the tables, which this program no longer reads. Export into a new")
      assert.deepStrictEqual([versionOf(file), contentOf(file)], [1, before])
    }).pipe(Effect.scoped))

  it.live("refuse a file of a later version with the version to use, and change nothing", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      yield* run(file, {})
      execute(file, `PRAGMA user_version = ${currentVersion + 1}; UPDATE program_version SET version = '7.8.9'`)
      const before = contentOf(file)
      for (const opened of [Effect.asVoid(run(file, {})), Effect.asVoid(Effect.scoped(openReader(file, "here")))]) {
        const error = yield* Effect.flip(opened)
        assert.strictEqual(error._tag === "SinkError" && error.reason._tag, "NotADestination")
        assert.include(error.message, "it was written by a later version of this program (7.8.9). Use that version.")
      }
      assert.deepStrictEqual([versionOf(file), contentOf(file)], [currentVersion + 1, before])
    }).pipe(Effect.scoped))

  it.live("abandon a scan of version 1 that recorded no seen rows, so it proves no row missing", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      execute(file, `${version2}; UPDATE scans SET tally = json_set(tally, '$.blind', json('true'))`)
      assert.deepInclude(yield* run(file, { invoices: invoices(35) }), {
        start: "otherRequest",
        records: 35,
        missing: 0
      })
      const fewer = { payoutRequests: payouts.slice(1) }
      for (const missing of [0, 1]) assert.deepInclude(yield* run(file, fewer, "payoutRequests"), { missing })
    }).pipe(Effect.scoped))

  it.live("refuse a file of a later version without touching a log that was copied without its index", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const origin = join(folder, "origin.db")
      yield* run(origin, { invoices: invoices(5) })
      const open = new DatabaseSync(origin)
      open.exec(`PRAGMA journal_mode = WAL; PRAGMA user_version = ${currentVersion + 1}`)
      const file = join(folder, "payments.db")
      for (const suffix of ["", "-wal"]) copyFileSync(`${origin}${suffix}`, `${file}${suffix}`)
      open.close()
      const bytes = () =>
        ["", "-wal", "-shm"].map((suffix) => existsSync(file + suffix) && readFileSync(file + suffix, "base64"))
      const before = bytes()
      assert.notStrictEqual(before[1], "")
      for (const opened of [Effect.asVoid(run(file, {})), Effect.asVoid(Effect.scoped(openReader(file, "here")))]) {
        assert.include((yield* Effect.flip(opened)).message, "was written by a later version")
        assert.deepStrictEqual(bytes(), before)
      }
    }).pipe(Effect.scoped))

  it.live("leave a user's column alone if only another list has a column of that name", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      execute(file, `${version2}; ALTER TABLE invoices ADD COLUMN fee TEXT; UPDATE invoices SET fee = 'mine'`)
      const before = rowsOf(file, "SELECT id, fee FROM invoices ORDER BY row")
      assert.isNotEmpty(before)
      yield* run(file, { invoices: invoices(35) })
      yield* run(file, { invoices: invoices(35) })
      const kept = rowsOf(file, "SELECT id, fee FROM invoices WHERE fee IS NOT NULL ORDER BY row")
      assert.deepStrictEqual(kept, before)
    }).pipe(Effect.scoped))

  it.live.each(
    [
      ["column", "ALTER TABLE invoices ADD COLUMN tax_code TEXT", "a column that this version adds (tax_code)"],
      ["table", "CREATE TABLE payin_sources (mine)", "a table that this version adds (payin_sources)"]
    ] as const
  )(
    "refuse a file with a user's %s of the same name, and leave it unchanged",
    ([, statement, message]) =>
      Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "payments.db")
        const before = [Lists.payoutRequests, Lists.invoices]
        const after = [Lists.payoutRequests, Lists.payinSources, withText(Lists.invoices, "taxCode")]
        yield* run(file, { invoices: invoices(5) }, "invoices", 10, before)
        execute(file, statement)
        const content = contentOf(file)
        const error = yield* Effect.flip(run(file, { invoices: invoices(5) }, "invoices", 10, after))
        assert.strictEqual(error._tag === "SinkError" && error.reason._tag, "NotADestination")
        assert.include(error.message, `${message} already exists, and is not this program's. Rename it`)
        assert.deepStrictEqual(contentOf(file), content)
      }).pipe(Effect.scoped)
  )

  it.live.each(
    [
      ["of version 2", (file: string) => Effect.sync(() => execute(file, version2)), 35],
      [
        "that lacks a column of each list and a whole list",
        (file: string) =>
          run(
            file,
            { invoices: invoices(20) },
            "invoices",
            10,
            [
              without(Lists.payoutRequests, "fee"),
              without(Lists.invoices, "amount")
            ]
          ),
        15
      ]
    ] as const
  )(
    "leave a destination %s unchanged if killed after any statement, and the next run completes them",
    ([, make, inserted]) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const origin = join(folder, "origin.db")
        yield* make(origin)
        const before = contentOf(origin)
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
          const isMigrated = rowsOf(file, "SELECT 1 FROM sqlite_schema WHERE name = 'program_version'").length > 0 &&
            rowsOf(file, "SELECT 1 FROM list_columns WHERE list = 'payin-sources'").length > 0
          if (!isMigrated) assert.deepStrictEqual(contentOf(file), before)
          assert.deepStrictEqual(rowsOf(file, "PRAGMA integrity_check"), [{ integrity_check: "ok" }])
          const all = invoices(35)
          assert.deepInclude(yield* run(file, { invoices: all }), { records: 35, inserted })
          assert.deepStrictEqual(rawsOf(file, Lists.invoices), all.toSorted())
          assert.deepStrictEqual(rowsOf(file, "SELECT sum(amount) AS sum FROM invoices"), [{ sum: 595 }])
        }
        assert.isAtLeast(kills, 8, "a migration has several statements")
      }).pipe(Effect.scoped)
  )

  it.live("run once if two programs start at the same time", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      execute(file, version2)
      const [invoiced, paid] = yield* Effect.all([
        run(file, { invoices: invoices(35) }),
        run(file, { payoutRequests: payouts }, "payoutRequests")
      ], { concurrency: 2 })
      assert.deepInclude(invoiced, { start: "resumed", inserted: 35 })
      assert.deepInclude(paid, { start: "afterComplete" })
    }).pipe(Effect.scoped))
})

/** Migrates in a child process, which is killed after its nth statement. */
const migrateAndDie = (file: string, nth: number) =>
  spawnSync(process.execPath, [
    "--input-type=module",
    "-e",
    `
    import { DatabaseSync } from "node:sqlite"
    import { migrate } from ${moduleOf("sqlite/SqliteSchema.ts")}
    const db = new DatabaseSync(${JSON.stringify(file)})
    const exec = db.exec.bind(db)
    let count = 0
    db.exec = (sql) => {
      exec(sql)
      if (++count === ${nth}) process.kill(process.pid, "SIGKILL")
    }
    migrate(db)`
  ], { encoding: "utf8", cwd: import.meta.dirname })

const earlierNames = "ALTER TABLE scans RENAME COLUMN request TO asked; ALTER TABLE scans RENAME COLUMN totals TO tally"
const renamed: { readonly [name: string]: string } = { asked: "request", tally: "totals" }

const withoutRechecks = ["changes", ...Lists.all.map(tableOf)]
  .map((table) => `ALTER TABLE ${table} DROP COLUMN rechecked`).join(";")

const withoutHandoffs =
  "DROP TABLE handoffs; DROP TABLE handoff_batches; DROP TABLE handoff_asides; DROP TABLE handoff_skips"

describe("a destination of version", () => {
  const older = [
    ["10", withoutHandoffs],
    ["9", withoutRechecks],
    ["8", "DROP TABLE facts"],
    ["7", earlierNames],
    [
      "6",
      `DROP TABLE generations; ALTER TABLE changes DROP COLUMN generation;
      ALTER TABLE consumers DROP COLUMN generation`
    ],
    [
      "5",
      `DROP TABLE personal; DROP TABLE suppressed; DROP TABLE erasures; DROP TABLE rows_pruned;
      ALTER TABLE rendered DROP COLUMN edition`
    ]
  ] as const
  it.live.each(older)(
    "%s is read and verified as it is, and migrated by the next export",
    ([version]) =>
      Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "payments.db")
        yield* run(file, { invoices: invoices(25) })
        yield* run(file, { invoices: invoices(26) })
        const answers = Effect.scoped(Effect.gen(function*() {
          const reader = yield* openReader(file, "here")
          const { certificate, differences } = yield* verify(reader, Lists.invoices)
          const list = Lists.invoices
          return [
            yield* reader.scans(list),
            yield* reader.scansFrom(list, 1),
            yield* reader.state(list),
            certificate,
            differences
          ]
        }))
        const current = yield* answers
        for (const [earlier, statements] of older) {
          if (Number(earlier) >= Number(version)) execute(file, `${statements}; PRAGMA user_version = ${earlier}`)
        }
        const before = contentOf(file)
        assert.deepStrictEqual(yield* answers, current)
        assert.deepStrictEqual(contentOf(file), before)
        assert.deepInclude(yield* run(file, { invoices: invoices(26) }), { start: "afterComplete", unchanged: 26 })
        assert.deepStrictEqual([versionOf(file), (yield* answers)[4]], [currentVersion, []])
      }).pipe(Effect.scoped)
  )
})

describe("a destination that is migrated while it is read", () => {
  it.live("is read with the new names of the columns, and not called damaged", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      yield* run(file, { invoices: invoices(25) })
      const reader = yield* openReader(file, "here")
      const expected = yield* reader.scans(Lists.invoices)
      execute(
        file,
        `${withoutHandoffs}; ${withoutRechecks}; DROP TABLE facts; ${earlierNames}; PRAGMA user_version = 7`
      )
      let steps = 0
      // The first step reads the version.
      const migrated: typeof reader.run = (step) =>
        Effect.tap(reader.run(step), () =>
          Effect.sync(() => {
            if (steps++ > 0) return
            execute(file, migrationsAfter(7).flatMap(({ sqlite }) => sqlite).join(";"))
            execute(file, `PRAGMA user_version = ${currentVersion}`)
          }))
      const other = readerOver(sqlOver({ run: migrated }, "here"), { ...reader, holderOf: () => Effect.undefined })
      assert.deepStrictEqual(yield* other.scans(Lists.invoices), expected)
      assert.isAbove(steps, 2)
    }).pipe(Effect.scoped))
})

describe("a destination of version 2", () => {
  const ofVersion2 = Effect.map(temporaryFolder, (folder) => {
    const file = join(folder, "payments.db")
    execute(file, version2)
    return file
  })

  it.live("resumes from its checkpoint, duplicates no row, and keeps its certificates and changes", () =>
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
          // Version 5 adds the first two columns to `scans`, and version 7 the third one to `changes`. Version 8 renames two
          // columns of `scans`. Version 10 adds the last one to `changes` and to the tables of lists.
          .map((table) =>
            rowsOf(file, `SELECT * FROM ${table}`).map((row) =>
              Object.entries(row).filter(([name]) => !["kind", "last_change", "generation", "rechecked"].includes(name))
                .map(([name, value]) => [renamed[name] ?? name, value])
            )
          )
      const before = kept()
      const summary = yield* run(file, { invoices: invoices(35) })
      assert.deepInclude(summary, { scan: 3, start: "resumed", pages: 4, records: 35, inserted: 35, missing: 0 })
      assert.deepStrictEqual([versionOf(file), kept()], [currentVersion, before])
      assert.deepStrictEqual(rawsOf(file, Lists.invoices), invoices(35).toSorted())
      assert.deepInclude(
        yield* run(file, {
          payoutRequests: payouts.with(4, `{"id":"por_4","amount":44,"customerDetails":{"name":"n4"}}`)
        }, "payoutRequests"),
        { start: "afterComplete", unchanged: 12 }
      )
    }).pipe(Effect.scoped))

  it.live("counts the changes that it has by day and kind", () =>
    Effect.gen(function*() {
      const file = yield* ofVersion2
      execute(
        file,
        `DELETE FROM changes;
        INSERT INTO changes (list, scan, at, kind, id, fields) SELECT column1, 1, column2, column3, 'a', '[]' FROM (VALUES
          ('invoices', '2026-01-01T23:59:59.999Z', 'update'), ('invoices', '2026-01-02T00:00:00.000Z', 'update'),
          ('invoices', '2026-01-02T10:00:00.000Z', 'update'), ('invoices', '2026-01-02T10:00:00.000Z', 'missing'),
          ('payin-sources', '2026-01-02T10:00:00.000Z', 'insert'))`
      )
      yield* run(file, {}, "payinSources")
      assert.deepStrictEqual(
        rowsOf(file, "SELECT * FROM change_counts ORDER BY list, day, kind").map((row) => Object.values(row)),
        [
          ["invoices", "2026-01-01", "update", 1],
          ["invoices", "2026-01-02", "missing", 1],
          ["invoices", "2026-01-02", "update", 2],
          ["payin-sources", "2026-01-02", "insert", 1]
        ]
      )
    }).pipe(Effect.scoped))

  it.live("gets the kind of each scan", () =>
    Effect.gen(function*() {
      const file = yield* ofVersion2
      execute(file, `UPDATE scans SET part = '["status","PAID"]' WHERE scan = 1`)
      yield* run(file, {}, "payinSources")
      assert.deepStrictEqual(
        rowsOf(file, "SELECT kind FROM scans WHERE scan < 4 ORDER BY scan").map(({ kind }) => kind),
        ["part", "full", "full"]
      )
    }).pipe(Effect.scoped))

  it.live("ends an export of this version if an earlier program writes it through another path", () =>
    Effect.gen(function*() {
      const file = yield* ofVersion2
      yield* run(file, {}, "payinSources")
      const store = yield* openStore(file, "here")
      yield* store.lockAndTakeOver("invoices", "refuse")
      // The statement of version 2 after it has locked the list. Through a link, it uses another lock file.
      execute(file, "INSERT OR REPLACE INTO holders (label, holder) VALUES ('invoices', 'process 1 on host')")
      const error = yield* Effect.flip(store.rebind(Lists.invoices, "elsewhere"))
      assert.strictEqual(error.reason._tag, "LeaseLost")
    }).pipe(Effect.scoped))

  it.live("is locked while an earlier program writes the list", () =>
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
