/** Sources that stop, and what the worker says about the copies at their destinations. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsConfig } from "@payments/core"
import { Metrics } from "@payments/program"
import { overSettableClock, overStandingClock } from "@payments/testkit/Clocks"
import { execute } from "@payments/testkit/Folder"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Clock, Duration, Effect, Layer, Logger, Redacted } from "effect"
import { join } from "node:path"
import { initialState, listFrom, Status, updateList } from "../../src/state/Status.ts"
import { everyList, makeSource, sourceIn, startSources, testStatus } from "./TestSources.ts"

const service = (isReady: () => boolean = () => true) =>
  scriptedServer((_, response) => {
    const answer = () => isReady() ? pageOf(response, [`{"id":"r1"}`], null) : void setTimeout(answer, 5)
    answer()
  })

describe("a source", () => {
  it.live("calls no copy of another source its own, also as a standby that opened the destination first", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "p.db")
      let isReady = false
      const { url } = yield* service(() => isReady)
      const maxAge = Duration.minutes(1)
      const north = makeSource("north", url, file, { maxAge })
      const south = makeSource("south", url, file, {
        maxAge,
        service: PaymentsConfig.fromSettings({
          PAYMENTS_BASE_URL: url,
          PAYMENTS_ACCOUNT: "south",
          PAYMENTS_API_KEY: Redacted.make("sandbox_test")
        })
      })
      const { until } = yield* startSources([north, south])
      // One of them has the locks and waits for its service, while the destination is empty.
      yield* until(({ sources }) => sources.every((source) => everyList(source, ({ rows }) => rows === 0)))
      isReady = true
      const ended = yield* until(({ sources }) =>
        sources.some(({ state }) => state === "stopped") &&
        sources.some((source) => everyList(source, ({ completeScan }) => completeScan !== null))
      )
      const stopped = ended.sources.find(({ state }) => state === "stopped")
      assert.strictEqual(stopped?.problem?.reason, "OtherSource")
      assert.isTrue(
        everyList(stopped, ({ completeScan, isFresh, rows }) => !isFresh && rows === null && completeScan === null)
      )
    }).pipe(Effect.scoped, Effect.provide(Layer.fresh(testStatus))))

  it.live("stops and says so once if a later version of the program has changed its destination", () =>
    Effect.gen(function*() {
      const messages: Array<unknown> = []
      const layer = Layer.mergeAll(
        Status.layer("0.0.0"),
        Metrics.layer("0.0.0"),
        Logger.layer([Logger.make(({ message }) => void messages.push(...[message].flat()))]),
        NodeServices.layer
      )
      yield* Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "p.db")
        const { url } = yield* service()
        const { until } = yield* startSources([makeSource("one", url, file)])
        yield* until((now) => everyList(sourceIn(now, "one"), ({ completeScan }) => completeScan !== null))
        execute(
          file,
          "PRAGMA user_version = 1000; INSERT INTO list_columns (list, name, kind) VALUES ('invoices', 'newer', 'text')"
        )
        const stopped = yield* until((now) => sourceIn(now, "one")?.state === "stopped")
        assert.include(sourceIn(stopped, "one")?.problem?.message, "it was written by a later version of this program")
        const countOf = (text: string) => messages.filter((message) => message === text).length
        const failed = countOf("scan failed")
        assert.isAtMost(failed, Lists.all.length)
        // Without the stop, two more scans of each list would begin and fail.
        yield* Effect.sleep("2500 millis")
        assert.deepStrictEqual([countOf("source stopped"), countOf("scan failed")], [1, failed])
      }).pipe(Effect.scoped, Effect.provide(layer))
    }))
})

/** `advance` moves the wall clock and the monotonic clock, `set` only the wall clock. */
const overTwoClocks = <A, E, R>(
  use: (advance: (ms: number) => void, set: (byMs: number) => void) => Effect.Effect<A, E, R>
) => overStandingClock((advance) => overSettableClock((set) => use(advance, set)))

describe("the age of a list", () => {
  const withScan = Effect.fnUntraced(function*(startedBeforeMs: number) {
    const startedAt = new Date((yield* Clock.currentTimeMillis) - startedBeforeMs).toISOString()
    const completeScan = { scan: 1, startedAt, endedAt: startedAt, certificate: undefined }
    const status = yield* Status
    const source = makeSource("one", "http://127.0.0.1:1", "p.db", {
      lists: ["invoices"],
      maxAge: Duration.seconds(15)
    })
    yield* status.set(initialState(source, ""))
    const read = {
      list: "invoices",
      rows: 1,
      missing: 0,
      quarantined: 0,
      generation: undefined,
      lastChange: 0,
      consumers: []
    }
    const freshness = { ...read, completeScan, running: undefined, holder: undefined, headProblem: undefined }
    yield* status.update("one", (state) => updateList(state, "invoices", (list) => listFrom(freshness, list)))
    return Effect.map(status.current, ({ sources }) => sources[0]?.lists[0])
  })

  it.live("does not become younger when the wall clock is set back", () =>
    overTwoClocks((advance, set) =>
      Effect.gen(function*() {
        const list = yield* withScan(14_000)
        assert.isTrue((yield* list)?.isFresh)
        advance(1100)
        // By wall-clock time the scan began 5 s ago.
        set(-10_000)
        const after = yield* list
        assert.isAbove(after?.ageSeconds ?? 0, 15)
        assert.isFalse(after?.isFresh)
      })
    ).pipe(Effect.provide(Layer.fresh(testStatus))))

  it.live("is unknown, so that the list is not fresh, if its scan begins in the future", () =>
    overTwoClocks((_, set) =>
      Effect.gen(function*() {
        const list = yield* withScan(5000)
        set(-16_000)
        assert.deepInclude(yield* list, { ageSeconds: null, isFresh: false })
      })
    ).pipe(Effect.provide(Layer.fresh(testStatus))))
})
