/** A service whose merchant is exchanged behind the same key: no row of the other one is written, whenever it happens. */
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { exchangedService } from "@payments/testkit/ExchangedService"
import { rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { Effect, Layer, Redacted, Result } from "effect"
import { join } from "node:path"
import { exitCodeOf } from "../../../program/src/outcome/ErrorTable.ts"
import { makeSourceGuard, openScanner, scan, scanAll, type ScanOptions } from "../../src/index.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"

const names = Lists.all.map(({ name }) => name)

const apiAt = (url: string) =>
  PaymentsApi.layer.pipe(
    Layer.provide(Layer.effect(
      PaymentsConfig,
      PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make("sandbox_test") })
    )),
    Layer.provide(Layer.fresh(layerHttpClient))
  )

const setup = Effect.gen(function*() {
  const service = yield* exchangedService
  const file = join(yield* temporaryFolder, "p.db")
  const layer = Layer.merge(SqliteSink.layer(file), apiAt(service.url))
  const rows = (merchant: string) =>
    Lists.all.map(({ label }) => label.replaceAll("-", "_")).map((table) =>
      Number(rowsOf(file, `SELECT count(*) AS n FROM ${table} WHERE id LIKE '${merchant}%'`)[0]?.["n"])
    )
  const merchants = () => rowsOf(file, "SELECT merchant FROM known_merchants").map(({ merchant }) => merchant)
  return { ...service, layer, rows, merchants }
})

describe("a merchant that is exchanged", () => {
  it.live.each([1, 4, 12])(
    "after request %s of a first scan ends it; the pages before stay, and are named",
    (requests) =>
      Effect.gen(function*() {
        const { exchangeAfter, layer, merchants, rows } = yield* setup
        exchangeAfter(requests)
        const options: ScanOptions = { limit: 10 }
        const error = yield* Effect.flip(Effect.provide(scan("invoices", options), layer))
        assert.strictEqual(exitCodeOf(error), 9)
        const committed = requests * 10
        assert.deepStrictEqual([rows("a")[2], rows("b")[2]], [committed, 0])
        assert.deepStrictEqual(merchants(), ["a"])
        assert.include(
          error.message,
          `None of its pages was written. This run has committed pages before it: ${committed} records of invoices. Export`
        )
        // The next scan does not accept the other merchant either.
        const again = yield* Effect.flip(Effect.provide(scan("invoices", options), layer))
        assert.include(again.message, "Nothing was written.")
        assert.deepStrictEqual([rows("a")[2], rows("b")[2]], [committed, 0])
      }).pipe(Effect.scoped)
  )

  it.live("is said with what the other lists commit until they end, so that all of them say the same", () =>
    Effect.gen(function*() {
      const { exchangeAfter, layer } = yield* setup
      exchangeAfter(4)
      const sourceGuard = makeSourceGuard()
      const error = yield* Effect.flip(Effect.provide(scan("invoices", { limit: 10, sourceGuard }), layer))
      // A commit of pages that were accepted before the refusal ends after it.
      sourceGuard.committed.set("payoutRequests full", { label: "payout-requests", records: 20 })
      assert.include(error.message, "before it: 40 records of invoices, 20 records of payout-requests. Export")
    }).pipe(Effect.scoped))

  it.live("at any request of an export of all lists ends it, and none of its rows is written", () =>
    Effect.gen(function*() {
      const { add, exchangeAfter, layer, merchants, requests, restore, rows } = yield* setup
      const exported = scanAll(names, { limit: 50 }).pipe(
        Effect.map((outcomes) => {
          const messages = outcomes.flatMap(({ result }) => Result.isFailure(result) ? [result.failure.message] : [])
          assert.isAtMost(new Set(messages).size, 1, messages.join("\n"))
          return outcomes.map(({ result }) => Result.isSuccess(result) ? "done" : "failed")
        }),
        Effect.provide(layer)
      )
      assert.deepStrictEqual(yield* exported, names.map(() => "done"))
      const before = requests.length
      assert.deepStrictEqual(yield* exported, names.map(() => "done"))
      const usual = requests.length - before
      for (let after = 0; after < usual; after++) {
        // The first pages have new records only, so that no known record shows whose they are.
        add(60)
        exchangeAfter(after)
        assert.include(yield* exported, "failed", `after request ${after}`)
        assert.deepStrictEqual([rows("b"), merchants()], [Lists.all.map(() => 0), ["a"]], `after request ${after}`)
        restore()
      }
      assert.deepStrictEqual(yield* exported, names.map(() => "done"))
    }).pipe(Effect.scoped))

  it.live("ends the passes of all lists of the source too", () =>
    Effect.gen(function*() {
      const { add, exchangeAfter, layer, restore, rows } = yield* setup
      yield* Effect.provide(scanAll(names), layer)
      for (const after of [0, 1, 2, 3]) {
        yield* Effect.gen(function*() {
          const sourceGuard = makeSourceGuard()
          const scanners = yield* Effect.forEach(names, (name) => openScanner(name, { limit: 50, sourceGuard }))
          yield* Effect.forEach(scanners, ({ full }) => full)
          const passes = Effect.forEach(scanners, ({ head }) => Effect.exit(head(1)), { concurrency: "unbounded" })
          add(60)
          yield* passes
          add(60)
          exchangeAfter(after)
          yield* passes
          const ended = yield* passes
          assert.deepStrictEqual(ended.map(({ _tag }) => _tag), names.map(() => "Failure"))
          // The scans and passes that were complete before are other runs.
          if (after === 0) assert.include(String(ended[0]), "Nothing was written")
        }).pipe(Effect.provide(layer), Effect.scoped)
        assert.deepStrictEqual(rows("b"), Lists.all.map(() => 0), `after request ${after}`)
        restore()
      }
    }).pipe(Effect.scoped))
})
