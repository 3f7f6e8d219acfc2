/** Facts that cannot be stored because the disk is full. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it, vi } from "@effect/vitest"
import { layerHttpClient } from "@payments/core/node"
import { layerTest } from "@payments/core/testing"
import { Sandbox } from "@payments/sandbox"
import { Fault, layerFailing } from "@payments/testkit/FailingFileSystem"
import { rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { Duration, Effect, Layer, Logger } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { probe } from "../../src/facts.ts"
import { Destination } from "../../src/index.ts"
import { scan } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"

/** Fills the pages that the table has, and allows no further one. */
const fillPages = (db: DatabaseSync): void => {
  db.exec("PRAGMA max_page_count = 1")
  const insert = originalPrepare.call(
    db,
    "INSERT INTO facts (service, list, fact, evidence) VALUES ('filler', ?, '', ?)"
  )
  let fillers = 0
  for (const size of [2000, 200, 20, 1]) {
    try {
      while (fillers < 10_000) insert.run(String(fillers++), "x".repeat(size))
    } catch {
      // There is no page for such a text any more.
    }
  }
}

const originalPrepare = DatabaseSync.prototype.prepare

/** Leaves no space before facts are stored. */
const withoutSpaceForFacts = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() =>
      vi.spyOn(DatabaseSync.prototype, "prepare").mockImplementation(function(this: DatabaseSync, sql, ...more) {
        if (/^INSERT INTO \S*facts/.test(sql)) fillPages(this)
        return originalPrepare.call(this, sql, ...more)
      })
    ),
    () => effect,
    (spy) => Effect.sync(() => spy.mockRestore())
  )

const invoices = Array.from({ length: 60 }, (_, index) => ({
  id: `inv_${index}`,
  createdAt: new Date(Date.UTC(2026, 0, 1) + index * 60_000).toISOString()
}))

const newFile = Effect.map(temporaryFolder, (folder) => join(folder, "payments.db"))

const factsIn = (file: string) =>
  rowsOf(file, "SELECT list, fact, evidence FROM facts WHERE service <> 'filler' ORDER BY list, fact")

describe("on a full disk", () => {
  it.live("a scan stays complete, and says that what it has shown is not stored", () =>
    Effect.gen(function*() {
      const file = yield* newFile
      const lines: Array<string> = []
      const logger = Logger.make(({ message }) => void lines.push(String(message)))
      const scanned = scan("invoices", { limit: 10 }).pipe(
        Effect.provide(Layer.mergeAll(SqliteSink.layer(file), layerTest({ invoices }), Logger.layer([logger])))
      )
      const { pages } = yield* withoutSpaceForFacts(scanned)
      assert.deepStrictEqual([pages, rowsOf(file, "SELECT state, records FROM scans")], [6, [
        { state: "complete", records: 60 }
      ]])
      assert.deepStrictEqual(
        lines.filter((line) => line.includes("not stored")),
        [
          `invoices: what the scan has shown of the service is not stored: sqlite:${file}: there is no space left. ` +
          "What was committed is kept; run again when there is space."
        ]
      )
      assert.deepStrictEqual(factsIn(file), [])
      yield* scanned
      assert.deepStrictEqual(factsIn(file).map(({ fact }) => fact), ["count", "list-order", "page-records"])
    }).pipe(Effect.scoped))

  it.live("a probe of a destination ends with an error, and its facts and rows stay as they are", () =>
    Effect.gen(function*() {
      const file = yield* newFile
      const to = yield* Destination.parse(`sqlite:${file}`)
      if (to._tag === "Stdout") return assert.fail("stdout stores nothing")
      yield* Effect.provide(Destination.migrate(to), NodeServices.layer)
      const probed = Effect.gen(function*() {
        const { url } = yield* Sandbox
        const config = yield* Sandbox.config(url, "here")
        const place = yield* Destination.maintenance(to)
        return yield* probe(config, { to: place, budget: 10, pause: Duration.zero })
      }).pipe(
        Effect.scoped,
        Effect.provide(Layer.mergeAll(NodeServices.layer, layerHttpClient, Sandbox.layer({ records: 150 })))
      )
      yield* probed
      const before = factsIn(file)
      assert.isAbove(before.length, 3)
      const error = yield* Effect.flip(withoutSpaceForFacts(probed))
      assert.strictEqual("reason" in error ? error.reason._tag : error._tag, "Full")
      assert.deepStrictEqual(factsIn(file), before)
      assert.deepStrictEqual(rowsOf(file, "PRAGMA integrity_check"), [{ integrity_check: "ok" }])
      yield* probed
      assert.notDeepEqual(factsIn(file), before)
    }).pipe(Effect.scoped))

  it.live("a probe into a file ends with an error, and the file stays as it is", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "facts.json")
      const { url } = yield* Sandbox
      const config = yield* Sandbox.config(url)
      const probed = probe(config, { to: file, budget: 10, pause: Duration.zero })
      yield* Effect.provide(probed, NodeServices.layer)
      const before = readFileSync(file)
      // The first call opens the new file, the second one writes it, the third one syncs it.
      for (const call of [1, 2, 3]) {
        const full = Layer.provideMerge(layerFailing(new Fault(call, false, "ENOSPC")), NodeServices.layer)
        const error = yield* Effect.flip(Effect.provide(probed, full))
        assert.strictEqual(
          error._tag === "FactsFileError" && error.problem,
          `${file} cannot be written: there is no space left (ENOSPC).`
        )
        assert.deepStrictEqual(readFileSync(file), before)
      }
      yield* Effect.provide(probed, NodeServices.layer)
      assert.notDeepEqual(readFileSync(file), before)
      assert.deepStrictEqual(readdirSync(folder).filter((name) => name.endsWith(".new")), [])
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(layerHttpClient, Sandbox.layer({ records: 150 })))))
})
