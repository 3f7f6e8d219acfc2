import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { settingsOf } from "@payments/export/postgres"
import { Effect } from "effect"
import { type PostgresServer, startServer } from "../../../../packages/export/test/PostgresServer.ts"
import { urlOf } from "../../../../packages/export/test/PostgresTest.ts"
import { findPooling, refusePooler } from "../../src/cluster/Pooler.ts"
import { type Mode, startPooler } from "./PoolerProxy.ts"

let server: PostgresServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.stop())

const findAt = (port: number) => Effect.flatMap(settingsOf(urlOf({ port }, "s")), findPooling)

describe("a pooler before the database of a cluster", () => {
  const cases: ReadonlyArray<readonly [Mode, number, string | undefined]> = [
    ["transaction", 1, "transaction"],
    ["transaction", 3, "transaction"],
    ["statement", 3, "statement"],
    ["session", 3, undefined]
  ]
  it.live.each(cases)(
    "in %s mode with %i connections is found to share them by %s",
    ([mode, size, found]) =>
      Effect.gen(function*() {
        const { port } = yield* startPooler(server.port, mode, size)
        assert.strictEqual(yield* findAt(port), found)
      }).pipe(Effect.scoped)
  )

  it.live("is not found in a direct connection", () =>
    Effect.gen(function*() {
      assert.isUndefined(yield* findAt(server.port))
    }))

  it.live("is refused with the place of the mistake and what to name instead", () =>
    Effect.gen(function*() {
      const { port } = yield* startPooler(server.port, "transaction", 3)
      const refused = yield* Effect.flip(refusePooler(urlOf({ port }, "s")))
      assert.deepStrictEqual(
        [refused._tag, refused.message],
        [
          "CommandExit",
          `cluster: a connection pooler in transaction mode is in front of postgres://127.0.0.1:${port}/postgres. ` +
          "Statements of one session ran on different connections to the server, and runners hold their locks on one " +
          "connection. Name the server's own port, or a pool in session mode."
        ]
      )
      yield* refusePooler(urlOf(server, "s"))
    }).pipe(Effect.scoped))
})
