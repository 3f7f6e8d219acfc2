/** A PostgreSQL destination in a server of its own, to be killed and read while it is written. */
import { assert } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { type PostgresServer, startServer, user } from "../../../packages/export/test/PostgresServer.ts"
import { query } from "../../../packages/export/test/PostgresTest.ts"
import type { DestinationKind, Target } from "./Destinations.ts"

const targetIn = (server: PostgresServer): Target => {
  const ask = (sql: string) => Effect.promise(() => query(server, sql))
  const there = Effect.map(
    ask("SELECT to_regclass('payments.leases') IS NOT NULL AS yes"),
    ([row]) => row?.["yes"] === true
  )
  return {
    to: `postgres://${user}@127.0.0.1:${server.port}/postgres`,
    env: { PAYMENTS_ON_LOCKED: "wait" },
    cutAt: Effect.gen(function*() {
      if (!(yield* there)) return undefined
      // As if the time that a killed holder's lease goes on were over.
      yield* ask("UPDATE payments.leases SET expires = '-infinity'")
      const [scan] = yield* ask(
        "SELECT scan, pages FROM payments.scans WHERE list = 'payout-requests' AND state = 'running' AND pages > 0"
      )
      return scan === undefined ? undefined : `${String(scan["scan"])}:${String(scan["pages"])}`
    }),
    texts: Effect.map(
      ask("SELECT raw::text FROM payments.payout_requests"),
      (rows) => rows.map(({ raw }) => String(raw))
    ),
    harm: Effect.asVoid(ask(`DELETE FROM payments.payout_requests WHERE "row" = 7`)),
    watched: (effect) =>
      Effect.gen(function*() {
        const problems: Array<string> = []
        let looks = 0
        const look = Effect.gen(function*() {
          if (!(yield* there)) return
          const [seen] = yield* ask(
            `SELECT (SELECT count(*) FROM payments.payout_requests) AS rows,
              (SELECT coalesce(sum((tally #>> '{counts,inserted}')::bigint), 0)::bigint FROM payments.scans
                WHERE list = 'payout-requests') AS counted`
          )
          looks++
          if (seen?.["rows"] !== seen?.["counted"]) {
            problems.push(`${String(seen?.["rows"])} rows where ${String(seen?.["counted"])} were counted`)
          }
        })
        const looking = yield* Effect.forkChild(Effect.forever(Effect.andThen(look, Effect.sleep("20 millis"))))
        const result = yield* effect
        yield* Fiber.interrupt(looking)
        assert.deepStrictEqual(problems, [], "what a reader saw")
        assert.isAbove(looks, 0, "a reader that never looked has seen nothing")
        return result
      })
  }
}

/** `postgres:`. */
export const postgres: DestinationKind = {
  name: "postgres",
  isBrief: true,
  open: Effect.map(
    Effect.acquireRelease(Effect.promise(() => startServer()), (server) => Effect.promise(() => server.stop())),
    targetIn
  )
}
