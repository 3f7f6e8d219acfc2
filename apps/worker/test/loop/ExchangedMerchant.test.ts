/** A worker whose service exchanges the merchant behind the same key: its lists, scans and passes share one guard. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { exchangedService } from "@payments/testkit/ExchangedService"
import { rowsOf, tables, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Duration, Effect, Layer } from "effect"
import { join } from "node:path"
import { everyList, makeSource, sourceIn, startSources, testStatus } from "./TestSources.ts"

const every = (interval: Duration.Input) => ({ _tag: "Every", every: Duration.fromInputUnsafe(interval) }) as const

const setup = Effect.gen(function*() {
  const service = yield* exchangedService
  const file = join(yield* temporaryFolder, "p.db")
  const source = makeSource("one", service.url, file, {
    order: "newest-first",
    full: every("1 hour"),
    head: { pages: 1, schedule: every("200 millis") }
  })
  const foreign = () => tables.map((table) => rowsOf(file, `SELECT id FROM ${table} WHERE id LIKE 'b%'`).length)
  return { ...service, source, foreign }
})

type Status = Effect.Success<ReturnType<typeof startSources>>

const untilComplete = ({ until }: Status) =>
  until((now) => everyList(sourceIn(now, "one"), ({ completeScan }) => completeScan !== null))

const untilStopped = Effect.fnUntraced(function*({ until }: Status) {
  const stopped = yield* until((now) => sourceIn(now, "one")?.state === "stopped")
  assert.strictEqual(sourceIn(stopped, "one")?.problem?.reason, "OtherMerchant")
})

describe("a worker whose service has another merchant", () => {
  it.live("at its start writes no row of any list, and stops the source", () =>
    Effect.gen(function*() {
      const { exchangeAfter, foreign, source } = yield* setup
      yield* Effect.scoped(Effect.flatMap(startSources([source]), untilComplete))
      exchangeAfter(0)
      // Without invoices, too: the guard reads them.
      for (const lists of [source.lists, source.lists.filter((name) => name !== "invoices")]) {
        yield* Effect.scoped(
          Effect.flatMap(startSources([{ ...source, lists, full: every("1 second") }]), untilStopped)
        )
        assert.deepStrictEqual(foreign(), Lists.all.map(() => 0))
      }
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))

  it.live("while passes run writes no row of any list, and stops the source", () =>
    Effect.gen(function*() {
      const { add, exchangeAfter, foreign, restore, source } = yield* setup
      for (const after of [1, 2, 5]) {
        yield* Effect.scoped(Effect.gen(function*() {
          const running = yield* startSources([source])
          yield* untilComplete(running)
          add(60)
          exchangeAfter(after)
          yield* untilStopped(running)
          assert.deepStrictEqual(foreign(), Lists.all.map(() => 0), `after request ${after}`)
          restore()
        }))
      }
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))
})
