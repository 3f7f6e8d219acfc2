/** The stored data about the owner of a destination, and destinations of earlier versions without such data. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { Effect, Layer, Redacted } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { outcomeExitCode } from "../../../program/src/outcome/ErrorTable.ts"
import { scan, scanAll, type ScanOptions } from "../../src/index.ts"
import { tableOf } from "../../src/plan/Columns.ts"
import { OtherSource } from "../../src/port/Sink.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { maxKeys } from "../../src/store/Store.ts"

const invoices = (merchant: string, count = 30) =>
  Array.from({ length: count }, (_, index) => ({
    id: `inv_${merchant}_${index}`,
    paymentUrl: `https://pay.example.com/pay/${merchant}/inv_${merchant}_${index}`
  }))
const payouts = (merchant: string, from = 0) =>
  Array.from({ length: 30 }, (_, index) => ({ id: `por_${merchant}_${index + from}` }))

const serving = (key: string, lists: Parameters<typeof layerTest>[0] = {}) => {
  const apiKey = Redacted.make(key)
  return layerTest({ ...lists, config: { apiKey, invoicesApiKey: apiKey } })
}

const run = (
  file: string,
  list: Lists.ListName,
  key: string,
  lists: Parameters<typeof layerTest>[0],
  options: ScanOptions = {}
) => scan(list, options).pipe(Effect.provide(Layer.merge(SqliteSink.layer(file), serving(key, lists))))

const fileIn = Effect.map(temporaryFolder, (folder) => join(folder, "payments.db"))
const keysIn = (file: string) => rowsOf(file, "SELECT salt, fingerprint FROM known_keys ORDER BY number")

/** The tables of lists of version 2, and those that were added later. */
const earlierTables = ["payout_requests", "payin_sources", "invoices"]
const laterTables = Lists.all.map(tableOf).filter((table) => !earlierTables.includes(table))

/** Removes what version 2 did not have. */
const ofVersion2 = (file: string) =>
  execute(
    file,
    `${
      laterTables.map((table) => `DROP VIEW ${table}_seen; DROP TABLE ${table};`).join("")
    } DROP TABLE list_columns; DROP TABLE program_version; DROP TABLE known_keys; DROP TABLE known_merchants;
    DROP TABLE handoffs; DROP TABLE handoff_batches; DROP TABLE handoff_asides; DROP TABLE handoff_skips;
    DROP TABLE consumers; DROP TABLE changes_pruned; DROP TABLE head_passes; DROP TABLE change_counts;
    DROP TABLE facts; DROP TABLE personal; DROP TABLE suppressed; DROP TABLE erasures; DROP TABLE rows_pruned; DROP TABLE generations;
    ${
      ["changes", ...earlierTables].map((table) => `ALTER TABLE ${table} DROP COLUMN rechecked;`).join("")
    } ALTER TABLE changes DROP COLUMN generation; ALTER TABLE scans RENAME COLUMN request TO asked;
    ALTER TABLE scans RENAME COLUMN totals TO tally;
    DROP INDEX scans_of_a_part; DROP INDEX passes_of_a_list; ALTER TABLE scans DROP COLUMN kind;
    ALTER TABLE scans DROP COLUMN last_change; ALTER TABLE holders DROP COLUMN epoch;
    ALTER TABLE rendered DROP COLUMN edition; PRAGMA user_version = 2`
  )

describe("the stored data about a key", () => {
  it.live("is a fingerprint with a random salt, and no part of the key", () =>
    Effect.gen(function*() {
      const key = "canary-5ecret-key"
      const files = [yield* fileIn, yield* fileIn]
      for (const file of files) yield* run(file, "invoices", key, { invoices: invoices("a") })
      const kept = files.flatMap(keysIn)
      assert.strictEqual(kept.length, 2)
      assert.notStrictEqual(kept[0]?.["salt"], kept[1]?.["salt"])
      assert.notStrictEqual(kept[0]?.["fingerprint"], kept[1]?.["fingerprint"])
      for (const { fingerprint } of kept) assert.match(String(fingerprint), /^[0-9a-f]{8}$/)
      for (const file of files) {
        for (const name of readdirSync(join(file, ".."))) {
          const bytes = readFileSync(join(file, "..", name))
          for (
            const part of [key, key.slice(0, 8), Buffer.from(key).toString("hex"), Buffer.from(key).toString("base64")]
          ) {
            assert.isFalse(bytes.includes(part), `${name} holds ${part}`)
          }
        }
      }
      assert.deepStrictEqual(rowsOf(files[0] ?? "", "SELECT merchant FROM known_merchants"), [{ merchant: "a" }])
    }).pipe(Effect.scoped))

  it.live("is written once for each key, and deleted after a hundred later keys", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      const lists = { payoutRequests: payouts("a") }
      for (let times = 0; times < 3; times++) yield* run(file, "payoutRequests", "first", lists)
      assert.strictEqual(keysIn(file).length, 1)
      for (let number = 0; number < maxKeys; number++) yield* run(file, "payoutRequests", `key ${number}`, lists)
      assert.strictEqual(keysIn(file).length, maxKeys)
      const foreign = { payoutRequests: payouts("b") }
      assert.strictEqual(
        (yield* Effect.flip(run(file, "payoutRequests", "first", foreign))).reason._tag,
        "OtherMerchant"
      )
      yield* run(file, "payoutRequests", "key 0", foreign, { missingLimit: 1 })
    }).pipe(Effect.scoped))
})

describe("a destination of an earlier version", () => {
  it.live("is guarded by the merchant ids of its invoices, which the next commit of any list binds", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      // More rows than are searched. The first and the last rows have another merchant than those in between.
      // One page has invoices of both, so both belong to one account.
      const [first, last] = [invoices("a", 6050), invoices("c", 6000)]
      yield* run(file, "invoices", "old", { invoices: [...first, ...last] })
      yield* run(file, "payoutRequests", "old", { payoutRequests: payouts("a") })
      ofVersion2(file)
      const foreign = { invoices: invoices("b"), payoutRequests: payouts("b") }
      const refusal = yield* Effect.flip(run(file, "invoices", "new", foreign))
      assert.deepInclude(refusal.reason, { _tag: "OtherMerchant", by: "merchantId" })
      const other = yield* Effect.flip(run(file, "payoutRequests", "new", foreign))
      assert.deepInclude(other.reason, { _tag: "OtherMerchant", by: "merchantId" })
      assert.deepStrictEqual([keysIn(file), rowsOf(file, "SELECT 1 FROM known_merchants")], [[], []])
      yield* run(file, "payoutRequests", "new", { invoices: invoices("c"), payoutRequests: payouts("a", 2000) }, {
        missingLimit: 1
      })
      assert.strictEqual(keysIn(file).length, 1)
      assert.deepStrictEqual(rowsOf(file, "SELECT merchant FROM known_merchants ORDER BY 1"), [{ merchant: "a" }, {
        merchant: "c"
      }])
    }).pipe(Effect.scoped))

  it.live("accepts its first key if a record is known", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      yield* run(file, "payoutRequests", "old", { payoutRequests: payouts("a") })
      ofVersion2(file)
      const foreign = yield* Effect.flip(run(file, "payoutRequests", "other", { payoutRequests: payouts("b") }))
      assert.deepInclude(foreign.reason, { _tag: "OtherMerchant", by: "key" })
      yield* run(file, "payoutRequests", "old", { payoutRequests: payouts("a", 29) })
      assert.strictEqual(keysIn(file).length, 1)
    }).pipe(Effect.scoped))
})

describe("the lists of one run", () => {
  it.live("fill an empty destination together, even if invoices have a separate key", () =>
    Effect.gen(function*() {
      const file = yield* fileIn
      const api = layerTest({
        payoutRequests: payouts("a"),
        invoices: invoices("a"),
        config: { apiKey: Redacted.make("one"), invoicesApiKey: Redacted.make("two") }
      })
      const outcomes = yield* scanAll(Lists.all.map(({ name }) => name)).pipe(
        Effect.provide(Layer.merge(SqliteSink.layer(file), api))
      )
      assert.deepStrictEqual(outcomes.map(outcomeExitCode), Lists.all.map(() => 0))
      assert.strictEqual(keysIn(file).length, 2)
    }).pipe(Effect.scoped))
})

describe("the message about another source", () => {
  it.each([
    ["http://a/ shop B", "http://a/", "(http://a/, account shop B), not of http://a/."],
    ["http://a/", "http://a/ http://b/ shop", "(http://a/), not of http://a/ http://b/, account shop."],
    ["sandbox seed 1", "memory", "(sandbox seed 1), not of memory."]
  ])("says of %j and %j which word is the account", (bound, given, said) => {
    assert.include(new OtherSource({ bound, given }).message, said)
  })
})
