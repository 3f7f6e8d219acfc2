/** The control endpoint of a running sandbox, the scenarios, and faults as JSON text. */
import { assert, describe, it } from "@effect/vitest"
import { PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import type { Fault } from "@payments/core/testing"
import { Context, Effect, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { HttpApiClient } from "effect/http-api"
import {
  ControlApi,
  faultsFromJson,
  Sandbox,
  type SandboxOptions,
  type ScenarioName,
  scenarios
} from "../../src/index.ts"

const key = "sandbox_canary-key"

/** Provides the API of the sandbox at `url`, with a key that no answer may contain. */
const layerOf = (url: string) => {
  const config = Effect.map(Sandbox.config(url), (settings) => ({
    ...settings,
    apiKey: Redacted.make(key),
    invoicesApiKey: Redacted.make(key)
  }))
  return PaymentsApi.layer.pipe(
    Layer.provide(layerHttpClient),
    Layer.provide(Layer.effect(PaymentsConfig, config))
  )
}

/** Starts a sandbox that runs until the scope closes. Returns its addresses and a client of its control endpoint. */
const startSandbox = Effect.fnUntraced(function*(options: SandboxOptions = {}) {
  const context = yield* Layer.build(Sandbox.layer({ ...options, controlPort: 0 }))
  const { controlUrl = "", url } = Context.get(context, Sandbox)
  const { control } = yield* HttpApiClient.make(ControlApi, { baseUrl: controlUrl }).pipe(
    Effect.provide(FetchHttpClient.layer)
  )
  return { control, url, controlUrl }
})

describe("the control endpoint", () => {
  it.live("sets faults that count requests from 1 again, and removes them", () =>
    Effect.gen(function*() {
      const { control, url } = yield* startSandbox({ records: 300 })
      const read = PaymentsApi.use(({ invoices }) => Stream.runCount(invoices.stream({ limit: 100 }))).pipe(
        Effect.provide(layerOf(url))
      )
      assert.strictEqual(yield* read, 300)
      const revoked: ReadonlyArray<Fault> = [{ fault: "status", status: 401, from: 3 }]
      assert.deepStrictEqual(yield* control.setFaults({ payload: revoked }), revoked)
      assert.deepStrictEqual(yield* control.faults(), revoked)
      const error = yield* Effect.flip(read)
      assert.strictEqual(error.reason._tag, "Unauthorized")
      yield* control.setFaults({ payload: [] })
      assert.strictEqual(yield* read, 300)
    }).pipe(Effect.scoped))

  it.live("counts requests by list, status and fault, and returns the latest, without a key, cursor or value", () =>
    Effect.gen(function*() {
      const { control, controlUrl, url } = yield* startSandbox({
        records: 300,
        faults: [{ fault: "status", status: 503, nth: 2 }, { fault: "reset", nth: 4 }, { fault: "latency", ms: 1 }]
      })
      yield* PaymentsApi.use(({ payoutRequests }) =>
        Stream.runDrain(payoutRequests.stream({ customerId: "cus_canary" }))
      )
        .pipe(Effect.provide(layerOf(url)))
      yield* PaymentsApi.use(({ invoices }) => Stream.runDrain(invoices.stream({ limit: 100 })))
        .pipe(Effect.provide(layerOf(url)))
      yield* Effect.promise(() => fetch(`${url}/elsewhere`))
      assert.deepStrictEqual(yield* control.counters(), {
        requests: 7,
        lists: { payoutRequests: 1, invoices: 5, other: 1 },
        statuses: { 200: 4, 503: 1, none: 1, 404: 1 },
        faults: { latency: 6, status: 1, reset: 1 }
      })
      const requests = yield* control.requests()
      assert.deepStrictEqual(
        requests.map(({ faults, list, status }) => [list, status, faults]),
        [
          ["payoutRequests", 200, ["latency"]],
          ["invoices", 503, ["status", "latency"]],
          ["invoices", 200, ["latency"]],
          ["invoices", null, ["reset", "latency"]],
          ["invoices", 200, ["latency"]],
          ["invoices", 200, ["latency"]],
          [null, 404, []]
        ]
      )
      const response = yield* Effect.promise(() => fetch(`${controlUrl}/requests`).then((answer) => answer.text()))
      for (const secret of ["canary", "cursor", "limit", "Bearer"]) assert.notInclude(response, secret)
    }).pipe(Effect.scoped))

  it.live("moves the clock of a live world", () =>
    Effect.gen(function*() {
      const { control, url } = yield* startSandbox({
        records: 100,
        live: { speed: 0, vanishPerHour: 0, changePerHour: 0 }
      })
      const count = PaymentsApi.use(({ payinSources }) => Stream.runCount(payinSources.stream())).pipe(
        Effect.provide(layerOf(url))
      )
      assert.strictEqual(yield* count, 100)
      const { nowMs } = yield* control.advance({ payload: { advanceMs: 3_600_000 } })
      assert.strictEqual(nowMs, 3_600_000)
      const later = yield* count
      assert.isAbove(later, 130)
      assert.isBelow(later, 190)
    }).pipe(Effect.scoped))

  it.live("misplaces new records of a live world that is newest first, and of no other", () =>
    Effect.gen(function*() {
      const { control, url } = yield* startSandbox({
        records: 50,
        order: "newest",
        live: { speed: 0, vanishPerHour: 0, changePerHour: 0 }
      })
      const ids = PaymentsApi.use(({ payinSources }) => Stream.runCollect(payinSources.stream())).pipe(
        Effect.provide(layerOf(url)),
        Effect.map((records) => records.map(({ id }) => id))
      )
      const before = yield* ids
      assert.deepStrictEqual(yield* control.misplace({ payload: { share: 1 } }), { share: 1 })
      yield* control.advance({ payload: { advanceMs: 3_600_000 } })
      const after = yield* ids
      assert.isAbove(after.length, 80)
      assert.deepStrictEqual(after.slice(0, 50), before)
      const other = yield* startSandbox({ live: {} })
      const refused = yield* Effect.flip(other.control.misplace({ payload: { share: 1 } }))
      assert.include("problem" in refused ? refused.problem : "", "only if the lists are live and newest first")
    }).pipe(Effect.scoped))

  it.live("refuses an unknown fault, and keeps the current ones", () =>
    Effect.gen(function*() {
      const { control, controlUrl } = yield* startSandbox({ faults: [{ fault: "reset", rate: 0.5 }] })
      const answer = yield* Effect.promise(() =>
        fetch(`${controlUrl}/faults`, {
          method: "PUT",
          headers: { "content-type": "application/json" },
          body: `[{"fault":"gremlin"}]`
        })
      )
      assert.strictEqual(answer.status, 400)
      assert.deepStrictEqual(yield* control.faults(), [{ fault: "reset", rate: 0.5 }])
    }).pipe(Effect.scoped))
})

describe("a scenario", () => {
  it.live.each<ScenarioName>(["calm", "flaky", "throttled", "hostile"])(
    "%s skips and repeats no record",
    (name) =>
      Effect.gen(function*() {
        const { control, url } = yield* startSandbox({ records: 3000, faults: scenarios[name].faults, seed: 3 })
        const ids = yield* PaymentsApi.use(({ invoices }) =>
          Stream.runCollect(Stream.map(invoices.stream({ limit: 50 }), ({ id }) => id))
        ).pipe(Effect.provide(layerOf(url)))
        assert.deepStrictEqual([ids.length, new Set(ids).size], [3000, 3000])
        const { faults } = yield* control.counters()
        assert.strictEqual(Object.keys(faults).length > 0, name !== "calm")
      }).pipe(Effect.scoped)
  )

  it.live("outage ends a listing, which then continues from its position", () =>
    Effect.gen(function*() {
      const { control, url } = yield* startSandbox({ records: 500 })
      const api = layerOf(url)
      const first = yield* PaymentsApi.use(({ invoices }) => invoices.page()).pipe(Effect.provide(api))
      yield* control.setFaults({ payload: scenarios.outage.faults.map((fault) => ({ ...fault, afterMs: 0 })) })
      const rest = PaymentsApi.use(({ invoices }) =>
        Stream.runCollect(invoices.stream({ position: first.next ?? undefined }))
      )
      const error = yield* Effect.flip(Effect.provide(rest, api))
      assert.include(["ServerFailure", "Transport"], error.reason._tag)
      yield* control.setFaults({ payload: [] })
      const position = error.position
      const records = yield* PaymentsApi.use(({ invoices }) => Stream.runCollect(invoices.stream({ position }))).pipe(
        Effect.provide(api)
      )
      assert.strictEqual(first.items.length + records.length, 500)
    }).pipe(Effect.scoped))

  it.live("drift quarantines records that no longer match the document, and keeps the others", () =>
    Effect.gen(function*() {
      const { url } = yield* startSandbox({ records: 3000, faults: scenarios.drift.faults })
      const pages = yield* PaymentsApi.use(({ invoices }) =>
        Stream.runCollect(invoices.pages({ onBadRecord: "quarantine" }))
      ).pipe(Effect.provide(layerOf(url)))
      const bad = pages.flatMap((page) => page.bad)
      assert.isAbove(bad.length, 0)
      assert.deepStrictEqual([...new Set(bad.map(({ problem }) => problem.path))].toSorted(), [
        "amount",
        "createdAt",
        "id"
      ])
      assert.strictEqual(pages.flatMap(({ items }) => items).length + bad.length, 3000)
    }).pipe(Effect.scoped))
})

describe("faults as JSON text", () => {
  it("are one fault or an array of faults; other text fails with the problem", () => {
    const read = (text: string) => faultsFromJson(text)
    assert.deepStrictEqual(read(`{"fault":"reset"}`), read(`[{"fault":"reset"}]`))
    for (
      const [text, problem] of [
        ["{", "the text is not JSON"],
        [`{"fault":"gremlin"}`, "fault 0"],
        [`[{"fault":"reset"},{"fault":"latency","ms":"1"}]`, "fault 1.ms"],
        [`{"fault":"status","status":401,"form":50}`, "fault 0.form"]
      ] as const
    ) {
      const result = read(text)
      assert.isTrue(
        result._tag === "Failure" && result.failure.startsWith(problem),
        `${text}: ${JSON.stringify(result)}`
      )
    }
  })
})
