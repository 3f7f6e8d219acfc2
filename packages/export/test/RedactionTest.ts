/** A test suite of erasures and rewrites for every kind of database. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { Effect, Layer, Redacted, type Scope } from "effect"
import type { Maintenance } from "../src/engine/Store.ts"
import { erase, rewrite } from "../src/personal/Redaction.ts"
import { keepAll, type PersonalRule } from "../src/personal/Rule.ts"
import type { Criterion } from "../src/personal/Suppression.ts"
import { scan } from "../src/Scan.ts"
import type { Sink, SinkError } from "../src/Sink.ts"
import { verify } from "../src/Verify.ts"
import { temporaryFolder } from "./Folder.ts"

/** A kind of database. Each test has its own folder, or a schema with the folder's name. */
export interface RedactedDestination {
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError>
  readonly open: (folder: string) => Effect.Effect<Maintenance, SinkError, Scope.Scope>
  /** Returns everything that the destination stores, in which erased values are searched. */
  readonly content: (folder: string) => Effect.Effect<string>
}

export const key = Redacted.make(new TextEncoder().encode("0123456789abcdef0123456789abcdef"))

const criterion = (kind: Criterion["kind"], value: string): Criterion => ({ kind, value: Redacted.make(value) })

const payout = (index: number, customer: string, amount = index) =>
  `{"id":"por_${index}","amount":${amount},"status":"processing","customerId":"${customer}",` +
  `"customerDetails":{"name":"Name ${customer}","documentNumber":"doc-${customer}"},"extra":"other ${customer}"}`

const pseudonymize: PersonalRule = { ...keepAll, preset: "pseudonymize", undocumented: "omit", key }

/** Runs the suite over a database. */
export const suite = (name: string, destination: RedactedDestination) => {
  const run = (folder: string, records: ReadonlyArray<string>) =>
    scan("payoutRequests", { limit: 10 }).pipe(
      Effect.provide(Layer.merge(destination.layer(folder), layerTest({ payoutRequests: records })))
    )
  const withOpened = <A, E, R>(folder: string, use: (opened: Maintenance) => Effect.Effect<A, E, R>) =>
    Effect.scoped(Effect.flatMap(destination.open(folder), use))

  const assertVerified = (folder: string) =>
    withOpened(folder, (opened) =>
      Effect.map(verify(opened, Lists.payoutRequests), ({ certificate, differences }) => {
        assert.isDefined(certificate)
        assert.deepStrictEqual(differences, [])
      }))

  describe(name, () => {
    it.live("erases a person from rows and changes, and leaves a tombstone", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const records = Array.from({ length: 30 }, (_, index) => payout(index, `cust-${index % 3}-x`))
        yield* run(folder, records)
        yield* run(folder, records.with(1, payout(1, "cust-1-x", 500)))
        const [erasure] = yield* withOpened(folder, (opened) =>
          erase(opened, { criteria: [criterion("customer-id", "cust-1-x")], key, by: "tester" }))
        assert.deepInclude(erasure, { kind: "customer-id", by: "tester", records: 10, changes: 1, quarantined: 0 })
        assert.isString(erasure?.completedAt)
        yield* assertVerified(folder)
        const content = yield* destination.content(folder)
        assert.isFalse(content.includes("cust-1-x"))
        for (const kept of ["Name cust-2-x", "doc-cust-0-x", "other cust-2-x"]) {
          assert.isTrue(content.includes(kept))
        }
      }).pipe(Effect.scoped))

    it.live("rewrites every text once", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const records = Array.from({ length: 30 }, (_, index) => payout(index, `cust-${index % 3}-x`))
        yield* run(folder, records)
        yield* run(folder, records.with(1, payout(1, "cust-1-x", 500)))
        const rewritten = yield* withOpened(folder, (opened) => rewrite(opened, { rule: pseudonymize }))
        assert.deepInclude(rewritten, { from: "keep", records: 30, changes: 1, quarantined: 0 })
        assert.isUndefined(yield* withOpened(folder, (opened) => rewrite(opened, { rule: pseudonymize })))
        yield* assertVerified(folder)
        const content = yield* destination.content(folder)
        assert.isFalse(content.includes("cust-"))
        assert.isTrue(content.includes("ps1_"))
      }).pipe(Effect.scoped))
  })
}
