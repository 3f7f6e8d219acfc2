import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi } from "@payments/core"
import { Effect, FileSystem, Layer } from "effect"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { tableOf } from "../src/Columns.ts"
import { scan } from "../src/index.ts"
import * as SqliteSink from "../src/SqliteSink.ts"
import { type StoredRow, suite } from "./SinkTest.ts"

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
  snapshots: false
})

const inFolder = <A, E>(use: (folder: string, fs: FileSystem.FileSystem) => Effect.Effect<A, E>) =>
  FileSystem.FileSystem.use((fs) => Effect.flatMap(fs.makeTempDirectoryScoped(), (folder) => use(folder, fs))).pipe(
    Effect.scoped,
    Effect.provide(NodeServices.layer)
  )

const run = (
  folder: string,
  lists: Parameters<typeof PaymentsApi.layerTest>[0],
  list: Lists.ListName = "payoutRequests"
) => scan(list).pipe(Effect.provide(Layer.merge(SqliteSink.layer(fileIn(folder)), PaymentsApi.layerTest(lists))))

describe("the SQLite file", () => {
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

  it.live("is readable by its owner alone, with its companions", () =>
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
      ["somebody else's database", (file: string) => execute(file, "CREATE TABLE invoices (id INTEGER)")],
      ["a destination of a later version", (file: string) => execute(file, "PRAGMA user_version = 99")]
    ] as const
  )("refuses %s and leaves it as it is", ([, make]) =>
    inFolder((folder, fs) =>
      Effect.gen(function*() {
        yield* make(fileIn(folder), fs)
        const error = yield* Effect.flip(run(folder, { payoutRequests: [{ id: "a" }] }))
        assert.strictEqual(error._tag === "SinkError" && error.reason._tag, "NotADestination")
        assert.notInclude(error.message, "undefined")
      })
    ))

  it.live("says that it cannot be opened where there is no such folder", () =>
    inFolder((folder) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(run(join(folder, "no", "such"), {}))
        assert.include(error.message, "ENOENT")
      })
    ))

  it("gives every list a table of its own", () => {
    assert.deepStrictEqual(Lists.all.map(tableOf), ["payout_requests", "payin_sources", "invoices"])
  })
})

const execute = (file: string, sql: string) =>
  Effect.sync(() => {
    const db = new DatabaseSync(file)
    db.exec(sql)
    db.close()
  })
