/** Clients that share the request rate of a key through PostgreSQL, with a sandbox, a server and a proxy over sockets. */
import { assert, describe, it } from "@effect/vitest"
import { Monotonic, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { RateLimitStores } from "@payments/program/sources"
import { Sandbox } from "@payments/sandbox"
import { freePort } from "@payments/testkit/FreePort"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { makeTcpGate } from "@payments/testkit/TcpGate"
import { Context, Effect, Exit, Layer, Logger, Redacted, Scope } from "effect"
import { afterAll, beforeAll } from "vitest"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

describe("clients of processes that share the store", () => {
  it.live("keep to one rate together, also without the store, and leave no key in its table", () =>
    Effect.gen(function*() {
      const key = "sandbox_confidential"
      const gate = yield* makeTcpGate(yield* Effect.promise(freePort))
      yield* gate.open(server.port)
      const sandbox = yield* Effect.map(
        Layer.build(Sandbox.layer({ records: 10 })),
        (built) => Context.get(built, Sandbox)
      )
      /** For each client, what it has said about the store. */
      const said = Array.from({ length: 3 }, (): Array<string> => [])
      // The connections of all clients close at the same time.
      const scope = yield* Effect.acquireRelease(Scope.make("parallel"), (made) => Scope.close(made, Exit.void))
      const clients = yield* Effect.forEach(Array.from({ length: 3 }), () =>
        Effect.map(
          Layer.buildWithScope(
            PaymentsApi.layer.pipe(
              Layer.provide(Layer.fresh(layerHttpClient)),
              Layer.provide(Layer.effect(
                PaymentsConfig,
                PaymentsConfig.fromSettings({
                  PAYMENTS_BASE_URL: sandbox.url,
                  PAYMENTS_API_KEY: Redacted.make(key),
                  PAYMENTS_MAX_REQUESTS_PER_SECOND: "50"
                })
              )),
              Layer.provide(Layer.unwrap(
                Effect.map(RateLimitStores, ({ layerOf }) => layerOf({ rateLimitStore: urlOf(gate, "shared") }))
              )),
              Layer.provide(Layer.fresh(RateLimitStores.layer))
            ),
            scope
          ),
          (built) => Context.get(built, PaymentsApi)
        ))
      yield* Effect.forEach(
        clients,
        (api, index) =>
          Effect.forkScoped(
            Effect.forever(Effect.all([api.invoices.page(), api.payinSources.page()], { concurrency: 2 }))
          ).pipe(
            Effect.provide(Logger.layer([Logger.make(({ message }) => void said[index]?.push(String(message)))]))
          )
      )
      /**
       * Asserts that no two seconds have more than `most` requests each, and that one of many such windows has no fewer than
       * `least`: a process that was delayed does not catch up.
       */
      const assertRate = Effect.fnUntraced(function*(least: number, most: number) {
        const rates: Array<number> = []
        while (rates.length < 10 && !rates.some((rate) => rate >= least)) {
          const before = (yield* sandbox.counters).requests
          const start = yield* Monotonic.millis
          yield* Effect.sleep("2 seconds")
          rates.push(((yield* sandbox.counters).requests - before) / ((yield* Monotonic.millis) - start) * 1000)
        }
        assert.isAtMost(Math.max(...rates), most)
        assert.isAtLeast(Math.max(...rates), least)
      })
      // The first second's requests may be sent at once.
      yield* Effect.sleep(20).pipe(
        Effect.andThen(sandbox.counters),
        Effect.repeat({ until: ({ requests }) => requests > 60 })
      )
      yield* Effect.sleep(300)
      yield* assertRate(40, 60)
      const rows = yield* Effect.promise(() => query(server, "SELECT t::text FROM shared.payments_rate_limits AS t"))
      assert.include(JSON.stringify(rows), sandbox.url)
      assert.notInclude(JSON.stringify(rows), key)
      yield* gate.stall
      const cannotUse = said.map((messages) => () =>
        messages.at(-1)?.includes("cannot be used: no answer for 1 s") === true
      )
      // A request notices it after 1 s. A server that did not run for so long may have been noticed before.
      yield* Effect.repeat(Effect.sleep(20), { until: () => cannotUse.every((isAway) => isAway()) })
      const before = said.map(({ length }) => length)
      // All of them together keep to the reserve, which is a twentieth.
      yield* assertRate(1, 5)
      assert.deepStrictEqual(said.map(({ length }) => length), before, "each says it once")
      // Connections to a server that answers close at once.
      yield* gate.open(server.port)
    }).pipe(Effect.scoped))
})
