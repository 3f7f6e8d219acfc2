import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { overJumpingClock } from "@payments/testkit/Clocks"
import { execute as executeIn } from "@payments/testkit/Folder"
import type { StoredRow } from "@payments/testkit/postgres/StoredRow"
import { spawnSync } from "@payments/testkit/TestProcess"
import { Effect, Exit, FileSystem, Layer, Scope } from "effect"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { scan } from "../../src/index.ts"
import { tableOf } from "../../src/plan/Columns.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openStore } from "../../src/sqlite/SqliteStore.ts"
import { suite } from "../session/SinkTest.ts"
import { assertRowsAreBounded, layerOfLargeRecords } from "../store/RowsTest.ts"
import { assertScans } from "../store/ScansTest.ts"

const fileIn = (folder: string) => join(folder, "payments.db")

const query = (folder: string, sql: string) => {
  const db = new DatabaseSync(fileIn(folder), { readOnly: true })
  try {
    return db.prepare(sql).all()
  } finally {
    db.close()
  }
}

suite("sqlite:FILE", {
  layer: (folder) => SqliteSink.layer(fileIn(folder)),
  read: (folder, list): ReadonlyArray<StoredRow> =>
    query(folder, `SELECT id, raw FROM ${tableOf(list)}`).map(({ id, raw }) => ({ id: String(id), raw: String(raw) })),
  snapshots: false,
  execute: (folder, statement) => executeIn(fileIn(folder), statement(""))
})

const inFolder = <A, E>(use: (folder: string, fs: FileSystem.FileSystem) => Effect.Effect<A, E, Scope.Scope>) =>
  FileSystem.FileSystem.use((fs) => Effect.flatMap(fs.makeTempDirectoryScoped(), (folder) => use(folder, fs))).pipe(
    Effect.scoped,
    Effect.provide(NodeServices.layer)
  )

const run = (
  folder: string,
  lists: Parameters<typeof layerTest>[0],
  list: Lists.ListName = "payoutRequests"
) => scan(list).pipe(Effect.provide(Layer.merge(SqliteSink.layer(fileIn(folder)), layerTest(lists))))

describe("the SQLite file", () => {
  it.live("returns each part's scans from its last complete one on", () =>
    inFolder((folder) =>
      Effect.flatMap(
        openStore(fileIn(folder), "here"),
        (store) => assertScans(store, "scans", (sql) => execute(fileIn(folder), sql))
      )
    ))

  it.live("returns fewer rows per call if they are large", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* scan("payoutRequests").pipe(
          Effect.provide(Layer.merge(SqliteSink.layer(fileIn(folder)), layerOfLargeRecords))
        )
        yield* assertRowsAreBounded(yield* openStore(fileIn(folder), "here"))
      })
    ))

  it.live("has a typed column for every field, null where the field is absent, null or unreadable", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        yield* run(folder, {
          payoutRequests: [
            {
              id: "a",
              amount: -9007199254740991,
              customerDetails: { name: "Zoë", documentNumber: "007" },
              payoutTargetDetails: null,
              createdAt: "2024-05-01T10:00:00Z"
            },
            { id: "b", amount: "12", fee: 3, customerDetails: "none" }
          ]
        })
        const [a, b] = query(folder, "SELECT * FROM payout_requests ORDER BY id")
        assert.deepInclude({ ...a }, {
          amount: -9007199254740991,
          customer_details_name: "Zoë",
          customer_details_document_number: "007",
          payout_target_details_type: null,
          created_at: "2024-05-01T10:00:00Z",
          reference: null
        })
        assert.deepInclude({ ...b }, { id: "b", amount: null, fee: 3, customer_details_name: null })
        yield* run(folder, { payinSources: [{ id: "p", partialPayinsEnabled: true }] }, "payinSources")
        assert.deepInclude({ ...query(folder, "SELECT * FROM payin_sources")[0] }, { partial_payins_enabled: 1 })
        assert.deepStrictEqual(
          query(folder, "SELECT id, path FROM quarantine").map((row) => ({ ...row })),
          [{ id: "b", path: "customerDetails" }]
        )
      })
    ))

  it.live("and its companions are readable only by their owner", () =>
    inFolder((folder, fs) =>
      Effect.gen(function*() {
        yield* run(folder, { payoutRequests: [{ id: "a" }] })
        for (const name of yield* fs.readDirectory(folder)) {
          assert.strictEqual((yield* fs.stat(join(folder, name))).mode & 0o777, 0o600, name)
        }
      })
    ))

  it.live.each(
    [
      [
        "a text file",
        (file: string, fs: FileSystem.FileSystem) =>
          fs.writeFileString(file, "not a database, but longer than a header")
      ],
      ["another program's database", (file: string) => execute(file, "CREATE TABLE invoices (id INTEGER)")],
      [
        "a destination of a later version",
        (file: string) =>
          execute(file, "CREATE TABLE t (x); PRAGMA application_id = 0x50415952; PRAGMA user_version = 99")
      ]
    ] as const
  )("refuses %s and does not change it", ([, make]) =>
    inFolder((folder, fs) =>
      Effect.gen(function*() {
        yield* make(fileIn(folder), fs)
        const before = yield* fs.readFile(fileIn(folder))
        const error = yield* Effect.flip(run(folder, { payoutRequests: [{ id: "a" }] }))
        assert.strictEqual(error._tag === "SinkError" && error.reason._tag, "NotADestination")
        assert.deepStrictEqual(yield* fs.readFile(fileIn(folder)), before)
      })
    ))

  it.live("fails with ENOENT if its folder does not exist", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(run(join(folder, "no", "such"), {}))
        assert.include(error.message, "ENOENT")
      })
    ))

  it.live("writes rows and checkpoint together or not at all", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const records = ["a", "b", "boom", "d"].map((id) => ({ id }))
        const state = () => [
          query(folder, "SELECT id FROM payout_requests ORDER BY id").map(({ id }) => id),
          query(folder, "SELECT pages, checkpoint IS NULL AS start FROM scans WHERE state = 'running'").map((row) => ({
            ...row
          }))
        ]
        yield* run(folder, {}, "payinSources")
        yield* execute(
          fileIn(folder),
          "CREATE TRIGGER t BEFORE INSERT ON payout_requests WHEN NEW.id = 'boom' BEGIN SELECT RAISE(ABORT, 'x'); END"
        )
        const failing = scan("payoutRequests", { limit: 2, largestBatch: 2 }).pipe(
          Effect.provide(
            Layer.merge(SqliteSink.layer(fileIn(folder)), layerTest({ payoutRequests: records }))
          )
        )
        assert.strictEqual((yield* Effect.flip(failing)).reason._tag, "Failed")
        assert.deepStrictEqual(state(), [["a", "b"], [{ pages: 1, start: 0 }]])
        yield* execute(fileIn(folder), "DROP TRIGGER t")
        assert.deepInclude(yield* failing, { start: "resumed", pages: 2, inserted: 4 })
      })
    ))

  it.live("writes nothing for an unchanged record, and deletes the quarantine of older scans", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const lists = { payoutRequests: [{ id: "a" }, { id: "b", amount: "bad" }] }
        yield* run(folder, lists)
        const before = query(folder, "SELECT * FROM payout_requests")
        for (let times = 0; times < 3; times++) yield* run(folder, lists)
        assert.deepStrictEqual(query(folder, "SELECT * FROM payout_requests"), before)
        assert.deepStrictEqual(query(folder, "SELECT scan, id FROM quarantine").map((row) => ({ ...row })), [{
          scan: 4,
          id: "b"
        }])
      })
    ))

  it.live("quarantines ids that would be equal as texts of the database", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const summary = yield* run(folder, {
          payoutRequests: [`{"id":"a\\ud800"}`, `{"id":"a\\udbff"}`, `{"id":"a\\ufffd"}`, `{"id":"a\\u0000"}`]
        })
        assert.deepInclude(summary, { records: 4, inserted: 1, quarantined: 3, withoutId: 3 })
        assert.deepStrictEqual(query(folder, "SELECT raw FROM quarantine").map(({ raw }) => raw), [
          `{"id":"a\\ud800"}`,
          `{"id":"a\\udbff"}`,
          `{"id":"a\\u0000"}`
        ])
      })
    ))

  it.live("stays locked for other processes after a failed lock in the same process", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const store = yield* openStore(fileIn(folder), "here")
        const lockScope = yield* Scope.make()
        yield* Scope.provide(store.lockAndTakeOver("invoices", "refuse"), lockScope)
        const error = yield* Effect.flip(store.lockAndTakeOver("invoices", "refuse"))
        assert.include(error.message, `process ${process.pid} on`)
        const other = () =>
          spawnSync(process.execPath, [
            "--input-type=module",
            "-e",
            `
            import { Effect } from "effect"
            import { openStore } from ${JSON.stringify(join(import.meta.dirname, "../../src/sqlite/SqliteStore.ts"))}
            const locking = Effect.flatMap(openStore(${JSON.stringify(fileIn(folder))}, "here"), (store) =>
              store.lockAndTakeOver("invoices", "refuse"))
            console.log(await Effect.runPromise(Effect.scoped(Effect.match(locking, {
              onFailure: ({ reason }) => reason._tag + " " + reason.holder,
              onSuccess: () => "acquired"
            }))))`
          ], { encoding: "utf8", cwd: import.meta.dirname }).stdout
        assert.match(other(), new RegExp(`^Locked process ${process.pid} on `))
        yield* Scope.close(lockScope, Exit.void)
        assert.strictEqual(other(), "acquired\n")
        yield* store.lockAndTakeOver("invoices", "refuse")
      })
    ))

  it.live("reports a locked list even while the wall clock is set back repeatedly", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const store = yield* openStore(fileIn(folder), "here")
        yield* store.lockAndTakeOver("invoices", "refuse")
        const error = yield* Effect.flip(store.lockAndTakeOver("invoices", "refuse")).pipe(overJumpingClock(-3_600_000))
        assert.strictEqual(error.reason._tag, "Locked")
      })
    ))

  it("has a table for every list", () => {
    assert.deepStrictEqual(Lists.all.map(tableOf), Lists.all.map(({ label }) => label.replaceAll("-", "_")))
  })
})

const execute = (file: string, sql: string) =>
  Effect.sync(() => {
    const db = new DatabaseSync(file)
    db.exec(sql)
    db.close()
  })
