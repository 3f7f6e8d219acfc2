/** A PostgreSQL destination of the kill tests, in its own server. */
import { assert } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { type PostgresServer, startServer, user } from "../postgres/PostgresServer.ts"
import { query } from "../postgres/PostgresTest.ts"
import type { DestinationKind, Target } from "./Target.ts"

const targetIn = (server: PostgresServer): Target => {
  const run = (sql: string) => Effect.promise(() => query(server, sql))
  const exists = Effect.map(
    run("SELECT to_regclass('payments.leases') IS NOT NULL AS yes"),
    ([row]) => row?.["yes"] === true
  )
  return {
    to: `postgres://${user}@127.0.0.1:${server.port}/postgres`,
    env: { PAYMENTS_ON_LOCKED: "wait" },
    interruptedAt: Effect.gen(function*() {
      if (!(yield* exists)) return undefined
      // Let the lease of the killed process expire at once.
      yield* run("UPDATE payments.leases SET expires = '-infinity'")
      const [scan] = yield* run(
        "SELECT scan, pages FROM payments.scans WHERE list = 'payout-requests' AND state = 'running' AND pages > 0"
      )
      return scan === undefined ? undefined : `${String(scan["scan"])}:${String(scan["pages"])}`
    }),
    texts: Effect.map(
      run("SELECT raw::text FROM payments.payout_requests"),
      (rows) => rows.map(({ raw }) => String(raw))
    ),
    damage: Effect.asVoid(run(`DELETE FROM payments.payout_requests WHERE "row" = 7`)),
    whileReading: (effect) =>
      Effect.gen(function*() {
        const problems: Array<string> = []
        let polls = 0
        const poll = Effect.gen(function*() {
          if (!(yield* exists)) return
          const [seen] = yield* run(
            `SELECT (SELECT count(*) FROM payments.payout_requests) AS rows,
              (SELECT coalesce(sum((totals #>> '{counts,inserted}')::bigint), 0)::bigint FROM payments.scans
                WHERE list = 'payout-requests') AS counted`
          )
          polls++
          if (seen?.["rows"] !== seen?.["counted"]) {
            problems.push(`${String(seen?.["rows"])} rows where ${String(seen?.["counted"])} were counted`)
          }
        })
        let isLast = false
        const reader = yield* Effect.forkChild(
          Effect.repeat(Effect.andThen(poll, Effect.sleep("20 millis")), { until: () => isLast })
        )
        const result = yield* effect
        isLast = true
        // This fails if the reader has failed.
        yield* Fiber.join(reader)
        yield* poll
        assert.deepStrictEqual(problems, [], "inconsistencies that the reader saw")
        assert.isAbove(polls, 0, "the reader must have read the destination")
        return result
      })
  }
}

export const postgres: DestinationKind = {
  name: "postgres",
  isInShortRun: true,
  open: Effect.map(
    Effect.acquireRelease(Effect.promise(() => startServer()), (server) => Effect.promise(() => server.stop())),
    targetIn
  )
}
