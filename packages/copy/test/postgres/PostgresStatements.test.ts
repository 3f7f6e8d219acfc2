/**
 * The numbers of statements that exports send to PostgreSQL, as the server logs them. Each statement waits for the server, and
 * costs both sides processor time. A worker of 100 sources sends those of a scan all the time.
 */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { startServer } from "@payments/testkit/postgres/PostgresServer"
import { urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Duration, Effect, Layer, Redacted } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { type Times, times } from "../../src/postgres/PostgresLease.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { openScanner } from "../../src/scan/Scan.ts"

const invoice = (index: number) => ({
  id: `inv_${index}`,
  amount: index,
  paymentUrl: `https://pay.example.com/shop/pay/mer_1/inv_${index}`
})

/** A renewal of the lease would count too. */
const unrenewed: Times = { ...times, validity: Duration.minutes(10), renewalInterval: Duration.minutes(5) }

describe("an export into PostgreSQL", () => {
  it.live("sends these numbers of statements", () =>
    Effect.gen(function*() {
      const server = yield* Effect.acquireRelease(
        Effect.promise(() => startServer(["log_statement=all"])),
        ({ stop }) => Effect.promise(stop)
      )
      const statements = () =>
        readFileSync(join(server.folder, "log"), "utf8").match(/LOG: {2}(execute|statement)/g)?.length ?? 0
      const counted = Effect.fnUntraced(function*<A, E, R>(step: Effect.Effect<A, E, R>) {
        const before = statements()
        yield* step
        return statements() - before
      })
      const invoices = Array.from({ length: 50 }, (_, index) => invoice(index))
      const services = Layer.merge(
        PostgresSink.layer(urlOf(server, "copy"), unrenewed),
        layerTest({ invoices, config: { apiKey: Redacted.make("key") } })
      )
      yield* Effect.gen(function*() {
        const opening = statements()
        const { full, head } = yield* openScanner("invoices")
        const locking = statements() - opening
        const first = yield* counted(full)
        const unchanged = yield* counted(full)
        const updating = yield* counted(
          Effect.andThen(Effect.sync(() => invoices[3] = { ...invoice(3), amount: 99 }), full)
        )
        const inserting = yield* counted(Effect.andThen(Effect.sync(() => invoices.push(invoice(50))), full))
        const passing = yield* counted(head(1))
        assert.deepStrictEqual({ locking, first, unchanged, updating, inserting, passing }, {
          // The holder, and a transaction of two statements.
          locking: 5,
          // As unchanged, and: the version of the tables, the owner again, the server and the source and the merchant to which the copy is bound.
          first: 17,
          // What the scan has to know, its start, the rows, the earlier scans, and a transaction: its begin, the lease, the writes, the count
          // of the rows, the end of the scan, and its commit. Then the last scans, and the references, because the scan before added rows.
          unchanged: 12,
          // Also the rows by their ids, because the hashes differ, and the text of the row that differs.
          updating: 13,
          // The rows by their ids at once, because the page before has differed.
          inserting: 11,
          // The version of the tables, personal data, what the pass has to know, the owner, and the rows.
          passing: 5
        })
      }).pipe(Effect.scoped, Effect.provide(services))
    }).pipe(Effect.scoped))
})
