import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { type Page, PaymentsApi, PaymentsError, Position, Reason } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { overJumpingClock, overSleptClock } from "@payments/testkit/Clocks"
import { rowsOf } from "@payments/testkit/Folder"
import { Duration, Effect, FileSystem, Layer, Stream } from "effect"
import { join } from "node:path"
import { scan, type ScanEvent, Sink } from "../../src/index.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"

const records = Array.from({ length: 50 }, (_, index) => ({ id: `inv_${index}`, amount: index }))

/** The service in memory. From the given page on, requests fail with the reasons, one after the other. */
const failing = (onPage: number, reasons: Array<Reason.Reason>) => {
  let number = 0
  return Layer.effect(
    PaymentsApi,
    Effect.map(PaymentsApi, (api): PaymentsApi["Service"] => ({
      ...api,
      invoices: {
        ...api.invoices,
        pages: (query) => {
          return api.invoices.pages({ ...query, prefetch: 0 }).pipe(
            Stream.mapEffect((page): Effect.Effect<Page<{ readonly id: string }>, PaymentsError> => {
              const reason = ++number >= onPage ? reasons.shift() : undefined
              return reason === undefined ? Effect.succeed(page) : Effect.fail(
                new PaymentsError({
                  list: "invoices",
                  reason,
                  attempts: 3,
                  status: undefined,
                  requestId: undefined,
                  body: undefined,
                  position: query?.position
                })
              )
            })
          )
        }
      }
    }))
  ).pipe(Layer.provide(layerTest({ invoices: records })))
}

/** Runs a scan over a service, and optionally a second scan over another service. Returns the result of the last one. */
const run = (api: Layer.Layer<PaymentsApi>, patience?: Duration.Duration, then?: Layer.Layer<PaymentsApi>) =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const file = join(yield* fs.makeTempDirectoryScoped(), "payments.db")
    const scanOnce = Effect.fnUntraced(function*(service: Layer.Layer<PaymentsApi>) {
      const events: Array<ScanEvent> = []
      const onEvent = (event: ScanEvent) => Effect.sync(() => void events.push(event))
      const result = yield* scan("invoices", { limit: 10, largestBatch: 10, patience, onEvent }).pipe(
        Effect.result,
        Effect.provide(Layer.merge(SqliteSink.layer(file), service))
      )
      return { result, tags: events.map(({ _tag }) => _tag) }
    })
    const first = yield* scanOnce(api)
    return then === undefined ? first : yield* scanOnce(then)
  }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))

const down = () => new Reason.ServerFailure({ status: 503, retryAfter: undefined })
const refused = () => new Reason.PaginationFault({ kind: "cursorRefused" })

/** Its patience is enough for the first wait only, without the time that a busy machine takes. */
const tiredRun = Effect.suspend(() => run(failing(2, [down(), down(), down(), down()]), Duration.millis(2500)))

describe("a scan", () => {
  it.live("waits for a service that becomes unavailable during the scan, and continues", () =>
    Effect.gen(function*() {
      const { result, tags } = yield* run(failing(3, [down()]))
      assert.deepInclude(result, { _tag: "Success" })
      assert.isTrue(result._tag === "Success" && result.success.inserted === 50 && result.success.retries === 3)
      assert.deepStrictEqual(tags, [
        "Begun",
        "Committed",
        "Committed",
        "Waiting",
        "Committed",
        "Committed",
        "Committed"
      ])
    }))

  it.live("does not wait beyond its patience, on a permanent error, or for a service that never responded", () =>
    Effect.gen(function*() {
      for (
        const [page, reason, patience] of [
          [2, down(), Duration.zero],
          [2, new Reason.Unauthorized(), Duration.minutes(1)],
          [1, down(), Duration.minutes(1)]
        ] as const
      ) {
        const { result, tags } = yield* run(failing(page, [reason]), patience)
        assert.isTrue(result._tag === "Failure" && result.failure.reason === reason)
        assert.notInclude(tags, "Waiting")
      }
    }))

  it.live("restarts when its cursor is refused, at most twice, without duplicating a row", () =>
    Effect.gen(function*() {
      const twice = yield* run(failing(3, [refused(), refused()]))
      assert.strictEqual(twice.tags.filter((tag) => tag === "Restarted").length, 2)
      assert.isTrue(
        twice.result._tag === "Success" && twice.result.success.records === 50 && twice.result.success.inserted === 50
      )
      const thrice = yield* run(failing(3, [refused(), refused(), refused()]))
      assert.isTrue(thrice.result._tag === "Failure")
    }))

  it.live("waits, within its patience, for a service that limits the rate from the first page on", () =>
    Effect.gen(function*() {
      const limited = () => new Reason.RateLimited({ retryAfter: Duration.millis(100) })
      const waited = yield* run(failing(1, [limited()]))
      assert.deepStrictEqual(waited.tags.slice(0, 3), ["Begun", "Waiting", "Committed"])
      const long = yield* run(failing(1, [new Reason.RateLimited({ retryAfter: Duration.hours(1) })]))
      assert.isTrue(long.result._tag === "Failure")
      const tired = yield* overSleptClock(() => tiredRun)
      assert.deepStrictEqual(tired.tags, ["Begun", "Committed", "Waiting"])
      assert.isTrue(tired.result._tag === "Failure" && tired.result.failure.reason._tag === "ServerFailure")
    }))

  it.live.each([["back", -3_600_000], ["forward", 3_600_000]] as const)(
    "has the same patience while the wall clock is set %s repeatedly",
    ([, byMs]) =>
      Effect.gen(function*() {
        const waited = yield* run(failing(3, [down()])).pipe(overJumpingClock(byMs))
        assert.include(waited.tags, "Waiting")
        assert.isTrue(
          waited.result._tag === "Success" &&
            Duration.isGreaterThanOrEqualTo(waited.result.success.elapsed, Duration.seconds(1)) &&
            Duration.isLessThan(waited.result.success.elapsed, Duration.minutes(10))
        )
        const tired = yield* overSleptClock(() => overJumpingClock(byMs)(tiredRun))
        assert.deepStrictEqual([tired.tags, tired.result._tag], [["Begun", "Committed", "Waiting"], "Failure"])
      })
  )

  it.live("restarts on a cycle of cursors only if an earlier run saved the first cursor", () =>
    Effect.gen(function*() {
      const circle = () => new Reason.PaginationFault({ kind: "repeatedCursor" })
      const fresh = yield* run(failing(3, [circle()]))
      assert.isTrue(fresh.result._tag === "Failure")
      const saved = yield* run(failing(2, [new Reason.Unauthorized()]), undefined, failing(1, [circle()]))
      assert.deepStrictEqual(saved.tags.slice(0, 2), ["Begun", "Restarted"])
      assert.isTrue(saved.result._tag === "Success" && saved.result.success.inserted === 50)
    }))

  it.live("commits pages together that arrive during a commit, and commits all pages before a failure", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const file = join(yield* fs.makeTempDirectoryScoped(), "payments.db")
      let read = 0
      let written = 0
      const batches: Array<number> = []
      const failsOn = 13
      const api = Layer.effect(
        PaymentsApi,
        Effect.map(PaymentsApi, (inner): PaymentsApi["Service"] => ({
          ...inner,
          invoices: {
            ...inner.invoices,
            pages: (query) => Stream.tap(inner.invoices.pages(query), () => Effect.sync(() => void read++))
          }
        }))
      ).pipe(Layer.provide(failing(failsOn, [new Reason.Unauthorized()])))
      /** Each commit ends when the reader is as many pages ahead as it may be. */
      const sink = Layer.effect(
        Sink,
        Effect.map(Sink, (inner) =>
          Sink.of({
            ...inner,
            begin: (list, request) =>
              Effect.map(inner.begin(list, request), (session) => ({
                ...session,
                commit: (batch) =>
                  Effect.gen(function*() {
                    batches.push(batch.pages)
                    written += batch.pages
                    while (read < Math.min(failsOn - 1, written + 5)) yield* Effect.sleep("1 millis")
                    return yield* session.commit(batch)
                  })
              }))
          }))
      ).pipe(Layer.provide(SqliteSink.layer(file)))
      const error = yield* scan("invoices", { limit: 2, largestBatch: 10 }).pipe(
        Effect.flip,
        Effect.provide(Layer.merge(sink, api))
      )
      assert.strictEqual(error.reason._tag, "Unauthorized")
      assert.deepStrictEqual([batches.reduce((sum, pages) => sum + pages), Math.max(...batches), batches[1]], [
        12,
        5,
        5
      ])
      assert.deepStrictEqual(rowsOf(file, "SELECT count(*) AS n FROM invoices"), [{ n: 24 }])
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))

  it("stores a position as text without showing its cursor", () => {
    const position = Position.make({ list: "invoices", cursor: "canary", limit: 10, filters: { contract: "c" } })
    assert.notInclude(`${position} ${JSON.stringify(position)}`, "canary")
    const back = Position.fromJson(Position.toJson(position))
    assert.isTrue(back._tag === "Some" && Position.toJson(back.value) === Position.toJson(position))
    assert.isTrue(Position.fromJson("{}")._tag === "None")
  })
})
