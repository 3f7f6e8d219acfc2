/** What a scan does before it marks rows missing, for every database. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { temporaryFolder } from "@payments/testkit/Folder"
import { Effect, Layer, Option, type Scope } from "effect"
import * as Recheck from "../../src/port/Recheck.ts"
import type { Sink, SinkError } from "../../src/port/Sink.ts"
import { scan, type ScanOptions } from "../../src/scan/Scan.ts"
import type { ChangeRow, FullRow, Reader } from "../../src/store/Store.ts"
import { type Invoice, prove, SkippingService } from "./SkippingService.ts"

export interface Backend {
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError>
  readonly reader: (folder: string) => Effect.Effect<Reader, SinkError, Scope.Scope>
  /** Returns the column `rechecked` of the rows, by id. */
  readonly rechecked: (folder: string) => Effect.Effect<ReadonlyMap<string, string | null>>
}

export const invoice = (index: number): Invoice => ({
  id: `inv_${index}`,
  reference: `ref_${index}`,
  customerDocumentNumber: `doc_${index % 5}`,
  contract: `c_${index % 3}`,
  amount: index
})

export const invoices = (count: number) => Array.from({ length: count }, (_, index) => invoice(index))

export const opened = ({ layer, reader, rechecked }: Backend, count: number, proven: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const service = new SkippingService(invoices(count))
    const run = (options: ScanOptions = {}) =>
      scan("invoices", { limit: 10, ...options }).pipe(Effect.provide(Layer.merge(layer(folder), service.layer)))
    const proves = (fields: ReadonlyArray<string>, answer?: string) =>
      Effect.provide(prove(fields, answer), layer(folder))
    yield* run()
    if (proven.length > 0) yield* proves(proven)
    const read = <A>(body: (from: Reader) => Effect.Effect<A, SinkError>) =>
      Effect.scoped(Effect.flatMap(reader(folder), body))
    const changes = read((from) => from.changes(0, 1000, [Lists.invoices])) satisfies Effect.Effect<
      ReadonlyArray<ChangeRow>,
      SinkError
    >
    const rows: Effect.Effect<ReadonlyArray<FullRow>, SinkError> = read((from) => from.rows(Lists.invoices, -1, 1000))
    return { folder, service, run, proves, changes, rows, rechecked: rechecked(folder) }
  })

const checkOf = (text: string | null | undefined) => Option.getOrUndefined(Recheck.fromJson(text ?? ""))

const both = ["reference", "customerDocumentNumber"]

export const suite = (name: string, backend: Backend) =>
  describe(`a row that two complete scans did not return, in ${name}`, () => {
    it.live("is not missing if a filter finds it: unchanged, no change; changed, an update", () =>
      Effect.gen(function*() {
        const { changes, rechecked, rows, run, service } = yield* opened(backend, 40, both)
        service.skipped.add("inv_3").add("inv_7")
        assert.deepInclude(yield* run(), { missing: 0, skipped: 0, records: 38 })
        service.put({ ...invoice(7), amount: 700 })
        const found = yield* run()
        assert.deepInclude(found, { missing: 0, skipped: 2, records: 40, updated: 1, unseen: 0, unchecked: 0 })
        // Each scan begins with another row.
        const sent = service.requests.map(({ reference }) => reference).toSorted()
        assert.deepStrictEqual(sent, ["ref_3", "ref_7"])
        assert.deepStrictEqual((yield* changes).map(({ id, kind }) => [id, kind]), [["inv_7", "update"]])
        assert.isTrue((yield* rows).every(({ missingSince }) => missingSince === undefined))
        assert.isTrue([...(yield* rechecked).values()].every((text) => text === null))
        // It counts as seen by that scan, so that the next one misses it for the first time.
        assert.deepInclude(yield* run(), { missing: 0, skipped: 0 })
        assert.deepInclude(yield* run(), { missing: 0, skipped: 2 })
      }).pipe(Effect.scoped))

    it.live("is missing if no filter finds it, with how it was looked for, until it reappears", () =>
      Effect.gen(function*() {
        const { changes, rechecked, rows, run, service } = yield* opened(backend, 40, both)
        service.records.delete("inv_3")
        yield* run()
        assert.deepInclude(yield* run(), { missing: 1, skipped: 0, records: 39 })
        // Each filter has to return the last record of the list, before its answer without the record counts.
        assert.deepStrictEqual(service.requests, [
          { reference: "ref_3" },
          { reference: "ref_39" },
          { customerDocumentNumber: "doc_3" },
          { customerDocumentNumber: "doc_4" }
        ])
        const change = (yield* changes).at(-1)
        assert.deepInclude(change, { kind: "missing", id: "inv_3" })
        assert.deepInclude(checkOf(change?.rechecked), { filters: both, requests: 2 })
        assert.strictEqual((yield* rechecked).get("inv_3"), change?.rechecked)
        const marked = (yield* rows).find(({ id }) => id === "inv_3")
        assert.isDefined(marked?.missingSince)
        // No later scan asks again.
        yield* run()
        assert.lengthOf(service.requests, 4)
        service.put(invoice(3))
        assert.deepInclude(yield* run(), { returned: 1 })
        assert.strictEqual((yield* rechecked).get("inv_3"), null)
        const returned = (yield* changes).at(-1)
        assert.deepInclude(returned, { kind: "returned", id: "inv_3", rechecked: undefined })
        service.records.delete("inv_3")
        for (const missing of [0, 1]) assert.deepInclude(yield* run(), { missing })
        service.put({ ...invoice(3), amount: 4 })
        yield* run()
        assert.strictEqual((yield* rechecked).get("inv_3"), null)
      }).pipe(Effect.scoped))

    it.live("is found by a second filter if the value of the first has changed", () =>
      Effect.gen(function*() {
        const { changes, run, service } = yield* opened(backend, 40, both)
        service.skipped.add("inv_3")
        yield* run()
        service.put({ ...invoice(3), reference: "another" })
        assert.deepInclude(yield* run(), { missing: 0, skipped: 1, updated: 1 })
        assert.deepStrictEqual((yield* changes).map(({ fields, kind }) => [kind, fields]), [["update", ["reference"]]])
      }).pipe(Effect.scoped))

    it.live("is missing as before if no filter is proven, and says that it was not looked for", () =>
      Effect.gen(function*() {
        const { changes, proves, run, service } = yield* opened(backend, 40, [])
        yield* proves(["reference"], "records that begin with it")
        service.skipped.add("inv_3")
        yield* run()
        assert.deepInclude(yield* run(), { missing: 1, skipped: 0 })
        assert.deepStrictEqual(service.requests, [])
        assert.deepInclude(checkOf((yield* changes).at(-1)?.rechecked), { filters: [], requests: 0 })
      }).pipe(Effect.scoped))

    it.live("stays as it is if the service fails, and the next scan looks again", () =>
      Effect.gen(function*() {
        const { run, service } = yield* opened(backend, 40, both)
        service.records.delete("inv_3")
        yield* run()
        // The pages of the list come first.
        for (const status of [500, 429, 401]) {
          service.faults = [{ fault: "status", status, from: 5 }]
          assert.deepInclude(yield* run(), { missing: 0, unchecked: 1, heldBack: 0, records: 39 })
        }
        service.faults = []
        assert.deepInclude(yield* run(), { missing: 1, unchecked: 0 })
      }).pipe(Effect.scoped))

    it.live("is held back if too many have to be looked for, until a person accepts as many", () =>
      Effect.gen(function*() {
        const { changes, run, service } = yield* opened(backend, 200, both)
        for (let index = 0; index < 60; index++) service.records.delete(`inv_${index}`)
        const limit = { missingLimit: 0.5 }
        yield* run(limit)
        assert.deepInclude(yield* run(limit), { missing: 0, heldBack: 60, heldBackBy: "requests" })
        assert.deepInclude(yield* run({ ...limit, acceptMissing: 59 }), { missing: 0, heldBack: 60 })
        assert.deepInclude(yield* run(), { missing: 0, heldBack: 60, heldBackBy: "share" })
        assert.deepStrictEqual([service.requests, yield* changes], [[], []])
        service.put(invoice(0))
        service.skipped.add("inv_0")
        assert.deepInclude(yield* run({ acceptMissing: 60 }), { missing: 59, heldBack: 0, skipped: 1 })
      }).pipe(Effect.scoped))

    it.live("is accepted as missing only after it was held back, and only if no more rows are unseen", () =>
      Effect.gen(function*() {
        const { run, service } = yield* opened(backend, 100, ["reference"])
        for (let index = 0; index < 20; index++) service.records.delete(`inv_${index}`)
        assert.deepInclude(yield* run({ acceptMissing: 20 }), { missing: 0, heldBack: 20, accepted: 0 })
        assert.deepInclude(yield* run({ acceptMissing: 19 }), { missing: 0, heldBack: 20, accepted: 19 })
        for (let index = 0; index < 15; index++) service.put(invoice(index))
        // A share of 10 % would allow them.
        assert.deepInclude(yield* run({ acceptMissing: 4 }), { missing: 0, heldBack: 5, accepted: 4 })
        assert.lengthOf(service.requests, 0)
        assert.deepInclude(yield* run({ acceptMissing: 5 }), { missing: 5, heldBack: 0, accepted: 5 })
        const later = yield* run({ acceptMissing: 5 })
        assert.deepInclude(later, { missing: 0, heldBack: 0, accepted: 0 })
        assert.notProperty(yield* run(), "accepted")
      }).pipe(Effect.scoped))
  })
