/**
 * What a record costs during an export, in counts that do not vary with the machine. A commit that raises one of them says why.
 * The times are those of `npm run bench -- export`.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it, type MockInstance, vi } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/Folder"
import { Effect, Layer } from "effect"
import crypto from "node:crypto"
import { syncBuiltinESMExports } from "node:module"
import { join } from "node:path"
import { StatementSync } from "node:sqlite"
import { serialize } from "node:v8"
import { Destination } from "../../src/index.ts"
import { keepAll, type PersonalRule } from "../../src/rule/Rule.ts"
import { scan, type ScanOptions, scanParts } from "../../src/scan/Scan.ts"
import { fromBatch } from "../../src/thread/BatchMessage.ts"

const invoices = Array.from(
  { length: 2000 },
  (_, index) =>
    `{"id":"inv_${index}","amount":${index},"description":"é ${"x".repeat(400)}","customerDocumentNumber":"1"}`
)
const characters = invoices.join("").length

/** Counts the characters that a function gets, as a multiple of those of the records. */
const counting = (spy: MockInstance, place: number) => () => {
  const count = spy.mock.calls.reduce((sum, call) => sum + String(call[place]).length, 0) / characters
  spy.mockRestore()
  syncBuiltinESMExports()
  return Math.round(count * 100) / 100
}

/** The service, and a file that is written in this thread. */
const layer = (file: string) =>
  Layer.unwrap(Effect.gen(function*() {
    const destination = yield* Destination.parse(`sqlite:${file}`)
    if (destination._tag === "Stdout") return yield* Effect.die("stdout stores nothing")
    return Layer.merge(Destination.layerInThisThread(destination), layerTest({ invoices }))
  })).pipe(Layer.provide(NodeServices.layer))

/** Runs a scan, and counts how often each record is parsed and hashed. */
const costsOf = Effect.fnUntraced(function*(file: string, options: ScanOptions = {}) {
  const [parses, hashes] = [counting(vi.spyOn(JSON, "parse"), 0), counting(vi.spyOn(crypto, "hash"), 1)]
  syncBuiltinESMExports()
  yield* Effect.provide(scan("invoices", options), layer(file))
  return { parses: parses(), hashes: hashes() }
})

/** Counts the rows that the statements of an export return. */
const rowsReadBy = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const all = vi.spyOn(StatementSync.prototype, "all")
    return Effect.map(work, () => {
      const rows = all.mock.results.reduce((sum, { value }) => sum + (Array.isArray(value) ? value.length : 0), 0)
      all.mockRestore()
      return rows
    })
  })

describe("a record of an export", () => {
  it.live("is parsed and hashed so often", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "payments.db")
      // Parsed as part of its page, and again where its row is written: that costs less than to copy its cells there.
      assert.deepStrictEqual(yield* costsOf(file), { parses: 2, hashes: 1 })
      // An unchanged record is only compared by its hash. Each scan also parses the totals of the scan before, once.
      assert.deepStrictEqual(yield* costsOf(file), { parses: 1.01, hashes: 1 })
      const personal: PersonalRule = { ...keepAll, preset: "omit", fields: { description: "keep" } }
      const other = join(folder, "rule.db")
      // The rule removes 6 % of each text.
      assert.deepStrictEqual(yield* costsOf(other, { personal }), { parses: 1.96, hashes: 0.94 })
      assert.deepStrictEqual(yield* costsOf(other, { personal }), { parses: 1.01, hashes: 0.94 })
    }).pipe(Effect.scoped))

  it.live("is read in the same number of rows after a thousand scans of parts", () =>
    Effect.gen(function*() {
      const days = Array.from({ length: 1000 }, (_, day) => new Date(day * 86_400_000).toISOString().slice(0, 10))
      const parts = (values: ReadonlyArray<string>) =>
        scanParts("invoices", { field: "settlementDate", values, concurrency: 1 })
      const [early, late] = yield* Effect.gen(function*() {
        yield* parts(days.slice(0, 10))
        const again = rowsReadBy(parts(days.slice(0, 1)))
        const first = yield* again
        yield* parts(days.slice(10))
        return [first, yield* again] as const
      }).pipe(Effect.provide(layer(join(yield* temporaryFolder, "parts.db"))))
      assert.isAbove(early, 0)
      assert.strictEqual(late, early)
    }).pipe(Effect.scoped))

  it("is copied to the thread that writes with these bytes", () => {
    const records = invoices.map((text, index) => ({ id: `inv_${index}`, text, amounts: [index], problem: undefined }))
    const message = fromBatch({ pages: 20, records, undocumented: new Map(), checkpoint: null, owner: undefined })
    // Besides its text: its id, its amounts, and the lengths of all three.
    assert.closeTo((serialize(message).byteLength - characters) / records.length, 20.5, 0.1)
  })
})
