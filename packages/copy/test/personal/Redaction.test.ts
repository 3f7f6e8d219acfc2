import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { contentOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { isLongRun } from "@payments/testkit/Seed"
import { smallFileSystem } from "@payments/testkit/SmallFileSystem"
import { Duration, Effect, Layer, Redacted } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { exitCodeOf } from "../../../program/src/outcome/ErrorTable.ts"
import { erase } from "../../src/personal/Erase.ts"
import { rewrite } from "../../src/personal/Rewrite.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import * as PostgresSnapshot from "../../src/postgres/PostgresSnapshot.ts"
import { keepAll } from "../../src/rule/Rule.ts"
import { scan } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import * as SqliteSnapshot from "../../src/sqlite/SqliteSnapshot.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import { histories } from "./RedactionHistories.ts"
import { key, type RedactedDestination, suite } from "./RedactionTest.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const sqlite: RedactedDestination = {
  layer: (folder) => SqliteSink.layer(join(folder, "payments.db")),
  open: (folder) => openMaintenance(join(folder, "payments.db"), "here"),
  snapshot: (folder) => SqliteSnapshot.openSnapshot(join(folder, "payments.db"), "here"),
  // The bytes of the database, its log and its index.
  content: (folder) =>
    Effect.sync(() => readdirSync(folder).map((file) => readFileSync(join(folder, file), "utf8")).join("\n"))
}

const postgres: RedactedDestination = {
  layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
  open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder))),
  snapshot: (folder) => PostgresSnapshot.openSnapshot(urlOf(server, basename(folder))),
  content: (folder) => Effect.promise(async () => JSON.stringify(await contentOf(server, basename(folder))))
}

suite("sqlite:FILE", sqlite)
suite("postgres://HOST", postgres)
histories("sqlite:FILE", sqlite, isLongRun ? 300 : 8)
histories("postgres://HOST", postgres, isLongRun ? 60 : 2)

describe("the files of an SQLite database after an erasure", () => {
  const text = (index: number) =>
    `{"id":"inv_${index}","amount":${index},"customerDocumentNumber":"document-${index % 2}-x"}`
  const invoices = Array.from({ length: 2000 }, (_, index) => text(index))
  const load = (folder: string) =>
    scan("invoices").pipe(Effect.provide(Layer.merge(sqlite.layer(folder), layerTest({ invoices }))))
  const criteria = [{ kind: "document-number", value: Redacted.make("document-1-x") }] as const
  const eraseIn = (folder: string) =>
    Effect.scoped(Effect.flatMap(
      openMaintenance(join(folder, "payments.db"), "here", undefined, Duration.millis(200)),
      (opened) => erase(opened, { criteria, key, by: "tester" })
    ))
  const isStored = (folder: string) => Effect.map(sqlite.content(folder), (content) => content.includes("document-1-x"))
  const protocol = (folder: string) =>
    rowsOf(join(folder, "payments.db"), "SELECT erasure, completed_at, records FROM erasures")

  it.live("have no old copy once no other program reads the log: until then the erasure is not complete", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      yield* load(folder)
      // An earlier version did not overwrite what it deleted.
      execute(
        join(folder, "payments.db"),
        "PRAGMA secure_delete = OFF; CREATE TABLE own AS SELECT 'old document-1-x' AS old FROM invoices; DROP TABLE own"
      )
      yield* Effect.scoped(Effect.gen(function*() {
        yield* sqlite.snapshot(folder)
        const error = yield* Effect.flip(eraseIn(folder))
        assert.strictEqual(error.reason._tag, "LogInUse")
        assert.strictEqual(exitCodeOf(error), 9)
      }))
      assert.deepStrictEqual(protocol(folder), [{ erasure: 1, completed_at: null, records: 1000 }])
      const [erasure] = yield* eraseIn(folder)
      assert.deepInclude(erasure, { erasure: 1, records: 1000 })
      assert.isString(erasure?.completedAt)
      assert.isFalse(yield* isStored(folder))
    }).pipe(Effect.scoped))

  it.live("are erased although another program has damaged texts", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      yield* load(folder)
      const damaged = [
        `{"id":"inv_0","customerDocumentNumber":"\\q`,
        `{"id":"inv_1","customerDocumentNumber":"document-1-x`,
        `{"id":"inv_2","customerDocumentNumber":"\\q document-1-x"}`,
        `{"id":"inv_4","customer\\qDocumentNumber":"\\u12",`
      ]
      for (const raw of damaged) {
        const [, id] = /"(inv_.)"/.exec(raw) ?? []
        execute(join(folder, "payments.db"), `UPDATE invoices SET raw = '${raw}' WHERE id = '${id}'`)
      }
      const [erasure] = yield* eraseIn(folder)
      assert.isString(erasure?.completedAt)
      assert.isFalse(yield* isStored(folder))
      const opened = yield* openMaintenance(join(folder, "payments.db"), "here")
      yield* rewrite(opened, { rule: { ...keepAll, preset: "omit" } })
      assert.notMatch(yield* sqlite.content(folder), /document-\d/)
    }).pipe(Effect.scoped))

  it.live("have no old copy once the disk has space again", () =>
    Effect.gen(function*() {
      const disk = yield* smallFileSystem(8000)
      if (disk === undefined) return
      const { fill, folder, free } = disk
      yield* load(folder)
      yield* fill(900)
      const error = yield* Effect.flip(eraseIn(folder))
      assert.strictEqual(error.reason._tag, "Full")
      assert.notInclude(readdirSync(folder).join(), "etilqs")
      yield* free
      yield* eraseIn(folder)
      assert.deepStrictEqual(protocol(folder).map(({ records }) => records), [1000])
      assert.isFalse(yield* isStored(folder))
    }).pipe(Effect.scoped))
})
