import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi, PaymentsConfig, PaymentsError, Reason, RequestObserver } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/Folder"
import { parsePrometheus, valueOf } from "@payments/testkit/PrometheusText"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Context, DateTime, Duration, Effect, Layer, Metric, Redacted, Result } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { join } from "node:path"
import { openScanner, scanAll, type ScanProgress, type ScanSummary } from "../../../copy/src/index.ts"
import * as ScanTotals from "../../../copy/src/plan/ScanTotals.ts"
import * as SqliteSink from "../../../copy/src/sqlite/SqliteSink.ts"
import { type Definition, definitions } from "../../src/telemetry/MetricDefinitions.ts"
import type { ObservedHandoff, ObservedList } from "../../src/telemetry/MetricFacts.ts"
import { Metrics } from "../../src/telemetry/Metrics.ts"

const families = Effect.map(
  Metrics,
  ({ registry }) => parsePrometheus(PrometheusMetrics.formatUnsafe(Context.make(Metric.MetricRegistry, registry)))
)

/** A list of which everything is known. */
const observed: ObservedList = {
  list: "invoices",
  rows: 10,
  missing: 2,
  quarantined: 1,
  ageSeconds: 3.5,
  maxAgeSeconds: 600,
  open: [{ status: "processing", seconds: 90, undated: 0 }],
  maxOpenSeconds: 60,
  holdsLock: true,
  headProblem: null,
  failure: null,
  stall: null,
  consumers: []
}

describe("the registry", () => {
  it("has these names, types and labels, which dashboards and alert rules of other teams use", () => {
    const frozen = Object.entries<Definition>(definitions).map(([name, { labels = {}, per, type }]) =>
      [
        name,
        type,
        per,
        ...Object.entries(labels).map(([label, values]) => values.length === 0 ? label : `${label}=${values.join("|")}`)
      ].join(" ")
    )
    assert.deepStrictEqual(frozen, [
      "payments_list_age_seconds gauge list",
      "payments_list_max_age_seconds gauge list",
      "payments_oldest_open_seconds gauge list status",
      "payments_open_undated_records gauge list",
      "payments_list_max_open_seconds gauge list",
      "payments_list_rows gauge list",
      "payments_list_missing_rows gauge list",
      "payments_list_quarantined_records gauge list",
      "payments_list_held_back_rows gauge list",
      "payments_behaviour_changed gauge list fact=new-value|new-step|new-gap|new-change|new-delay|day-records|list-order|places|page-records|count|references",
      "payments_list_lock_held gauge list",
      "payments_list_failure gauge list reason=unauthorized|service|destination|held_back|stalled|other",
      "payments_list_head_passes_stopped gauge list",
      "payments_consumer_lag_changes gauge source",
      "payments_consumer_idle_seconds gauge source",
      "payments_scan_duration_seconds gauge list kind=full|window|head",
      "payments_rate_limit_requests_per_second gauge source",
      "payments_rate_limit_shared gauge source",
      "payments_source_stopped gauge source",
      "payments_source_held gauge source",
      "payments_takeovers_total counter source",
      "payments_handoff_lag_changes gauge handoff",
      "payments_handoff_lag_seconds gauge handoff",
      "payments_handoff_attempts_total counter handoff result=accepted|refused|failed|no_answer",
      "payments_handoff_refusals_total counter handoff",
      "payments_handoff_set_aside_changes gauge handoff",
      "payments_handoff_stopped gauge handoff reason=gone|gave_up|restored|removed|refused|full",
      "payments_scans_total counter list kind=full|window|head result=complete|incomplete|unauthorized|failed",
      "payments_records_total counter list outcome=inserted|updated|unchanged|missing|returned|quarantined",
      "payments_requests_total counter list result=ok|unauthorized|refused|rate_limited|server_error|no_answer|malformed",
      "payments_waits_total counter list reason=rate_limited|service|destination",
      "payments_stalls_total counter list",
      "payments_request_duration_seconds histogram list",
      "payments_commit_duration_seconds histogram list",
      "payments_cluster_healthy gauge process",
      "payments_build_info gauge process version node",
      "process_start_time_seconds gauge process",
      "process_cpu_seconds_total counter process",
      "process_resident_memory_bytes gauge process"
    ])
  })

  it("follows Prometheus' rules for names", () => {
    for (const [name, { buckets = [], help, labels = {}, type, unit }] of Object.entries<Definition>(definitions)) {
      assert.match(name, /^(payments|process)(_[a-z]+)+$/)
      assert.strictEqual(name.endsWith("_total"), type === "counter", name)
      assert.notMatch(name, /_(ms|milliseconds|minutes|hours|count|sum|bucket|info_total)$/)
      if (unit === "s") assert.match(name, /_seconds(_total)?$/)
      if (unit === "By") assert.match(name, /_bytes$/)
      for (const label of Object.keys(labels)) assert.match(label, /^[a-z]+$/)
      assert.isTrue(
        buckets.length > 0 === (type === "histogram") &&
          !buckets.some((bound, index) => bound <= (buckets[index - 1] ?? 0)),
        name
      )
      assert.match(help, /\.$/)
    }
  })
})

describe("the metrics of a scan", () => {
  it.live("count its requests, records, commits and result", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const metrics = yield* Metrics
      const records = Array.from({ length: 25 }, (_, index) => ({ id: `inv_${index}`, amount: index }))
      const scanned = (invoices: ReadonlyArray<{ readonly id: string }>, status: number) =>
        scanAll(["invoices"], {
          limit: 10,
          missingLimit: 1,
          onEvent: (event) => metrics.onEvent("acme", event)
        }).pipe(
          Effect.provide(layerTest({ invoices, faults: [{ fault: "status", status, nth: 2 }] })),
          Effect.provide(SqliteSink.layer(join(folder, "p.db")), { local: true }),
          Effect.provideService(RequestObserver, metrics.requestsOf("acme"))
        )
      yield* scanned(records, 503)
      yield* scanned(records.slice(0, 24), 429)
      const limit = "payments_rate_limit_requests_per_second"
      assert.isAbove(valueOf(yield* families, limit, { source: "acme" }) ?? 0, 0)
      // Without a store, there is nothing to share.
      assert.isUndefined((yield* families).get("payments_rate_limit_shared"))
      for (const isRateShared of [true, false]) {
        metrics.requestsOf("other")({
          list: "invoices",
          result: "Succeeded",
          seconds: 0.1,
          maxPerSecond: 5,
          isRateShared
        })
        assert.strictEqual(
          valueOf(yield* families, "payments_rate_limit_shared", { source: "other" }),
          Number(isRateShared)
        )
      }
      yield* scanned([...records.slice(1, 24), { id: "inv_0", amount: 7 }], 401)
      yield* Effect.flatMap(
        openScanner("invoices", { limit: 10, onEvent: (event) => metrics.onEvent("acme", event) }),
        (scanner) => scanner.head(1)
      ).pipe(
        Effect.scoped,
        Effect.provide(layerTest({ invoices: [{ id: "inv_new", amount: 1 }, ...records] })),
        Effect.provide(SqliteSink.layer(join(folder, "p.db")), { local: true })
      )
      const all = yield* families
      const value = (name: string, labels = {}) => valueOf(all, name, { source: "acme", list: "invoices", ...labels })
      assert.deepStrictEqual(
        ["ok", "server_error", "rate_limited", "unauthorized"].map((result) =>
          value("payments_requests_total", { result })
        ),
        [3 + 3 + 1, 1, 1, 1]
      )
      assert.strictEqual(value("payments_request_duration_seconds_count"), 10)
      // The last client was not limited.
      assert.isUndefined(valueOf(all, limit, { source: "acme" }))
      assert.deepStrictEqual(
        ["inserted", "updated", "unchanged", "missing"].map((outcome) => value("payments_records_total", { outcome })),
        [25 + 1, 0, 34 + 19, 0]
      )
      assert.deepStrictEqual(
        ["complete", "unauthorized", "failed"].map((result) => value("payments_scans_total", { kind: "full", result })),
        [2, 1, 0]
      )
      assert.strictEqual(value("payments_scans_total", { kind: "head", result: "complete" }), 1)
      assert.isAbove(value("payments_scan_duration_seconds", { kind: "head" }) ?? 0, 0)
      assert.isAbove(value("payments_commit_duration_seconds_count") ?? 0, 2)
      assert.isAbove(value("payments_scan_duration_seconds", { kind: "full" }) ?? 0, 0)
      assert.strictEqual(value("payments_list_held_back_rows"), 0)
      // A standby knows nothing about the scans of the worker that has the lock.
      metrics.observe(
        [{ name: "acme", state: "standby", problem: null, lists: [{ ...observed, holdsLock: false }] }],
        0
      )
      const standby = yield* families
      assert.isUndefined(valueOf(standby, "payments_list_held_back_rows", { source: "acme", list: "invoices" }))
    }).pipe(Effect.scoped, Effect.provide(Metrics.layer("1.2.3"))))

  it.effect("show the gauges of the last observation only, and forget lists and sources that are gone", () =>
    Effect.gen(function*() {
      const metrics = yield* Metrics
      const now = DateTime.toEpochMillis(DateTime.makeUnsafe("2026-01-01T00:01:00Z"))
      const consumers = [
        { lag: 3, movedAt: "2026-01-01T00:00:00Z" },
        { lag: 9, movedAt: "2026-01-01T00:00:59Z" },
        // It has read all changes, so it is not late.
        { lag: 0, movedAt: "2020-01-01T00:00:00Z" }
      ]
      const other = { ...observed, list: "payin-sources", ageSeconds: null, maxAgeSeconds: null, rows: null }
      metrics.observe([
        { name: "acme", state: "running", problem: null, lists: [{ ...observed, consumers }, other] },
        { name: "globex", state: "stopped", problem: { reason: "OtherSource" }, lists: [observed] }
      ], now)
      const first = yield* families
      assert.deepStrictEqual(
        [
          valueOf(first, "payments_list_age_seconds", { source: "acme", list: "invoices" }),
          valueOf(first, "payments_consumer_lag_changes", { source: "acme" }),
          valueOf(first, "payments_consumer_idle_seconds", { source: "acme" }),
          valueOf(first, "payments_list_failure", { source: "globex", reason: "destination" }),
          valueOf(first, "payments_source_stopped", { source: "globex" }),
          // The increase of a counter can only be computed if its first value is 0.
          valueOf(first, "payments_scans_total", { source: "acme", list: "payin-sources", result: "failed" })
        ],
        [3.5, 9, 60, 1, 1, 0]
      )
      for (const name of ["payments_list_age_seconds", "payments_list_max_age_seconds", "payments_list_rows"]) {
        assert.isUndefined(valueOf(first, name, { list: "payin-sources" }))
      }
      const left = [
        {
          name: "acme",
          state: "running",
          problem: null,
          lists: [{ ...observed, stall: { reason: "Stalled" }, holdsLock: false }]
        }
      ]
      metrics.observe(left, now)
      metrics.retain(left)
      const second = yield* families
      const samples = [...second.values()].flatMap((family) => family.samples)
      assert.deepStrictEqual(
        [...new Set(samples.map(({ labels }) => `${labels["source"]} ${labels["list"]}`))].toSorted(),
        [
          "acme invoices",
          "acme undefined",
          "undefined undefined"
        ]
      )
      assert.strictEqual(valueOf(second, "payments_list_lock_held"), 0)
      assert.deepStrictEqual(second.get("payments_list_failure")?.samples.map(({ labels }) => labels["reason"]), [
        "stalled"
      ])
      metrics.observe([{ name: "acme", state: "running", problem: null, lists: [observed] }], now)
      assert.isUndefined((yield* families).get("payments_list_failure"))
    }).pipe(Effect.provide(Metrics.layer("1.2.3"))))

  it.effect("have only a source's runner and its takeovers while another runner of the cluster has the source", () =>
    Effect.gen(function*() {
      const metrics = yield* Metrics
      const cluster = { isHealthy: true }
      const names = Effect.map(
        families,
        (all) =>
          [...all.values()].flatMap(({ samples }) =>
            samples.flatMap(({ labels, name, value }) => labels["source"] === "acme" ? [`${name} ${value}`] : [])
          )
      )
      const consumers = [{ lag: 3, movedAt: "2026-01-01T00:00:00Z" }]
      const here = { name: "acme", state: "stopped", problem: null, lists: [{ ...observed, consumers }] }
      metrics.observe([here], 0, cluster)
      yield* metrics.onTakeover("acme")
      assert.includeMembers([...yield* names], [
        "payments_source_held 1",
        "payments_takeovers_total 1",
        "payments_source_stopped 1",
        "payments_list_age_seconds 3.5",
        "payments_consumer_lag_changes 3"
      ])
      metrics.observe([{ ...here, state: "elsewhere", lists: [] }], 0, cluster)
      assert.sameMembers([...yield* names], ["payments_source_held 0", "payments_takeovers_total 1"])
      assert.strictEqual(valueOf(yield* families, "payments_cluster_healthy"), 1)
      metrics.observe([here], 0, { isHealthy: false })
      assert.strictEqual(valueOf(yield* families, "payments_cluster_healthy"), 0)
      assert.include(yield* names, "payments_list_rows 10")
      // Without a cluster, a process runs all its sources.
      metrics.observe([here], 0, null)
      assert.isUndefined((yield* families).get("payments_source_held"))
      assert.isUndefined((yield* families).get("payments_cluster_healthy"))
    }).pipe(Effect.provide(Metrics.layer("1.2.3"))))
})

describe("the metric of changed behaviour", () => {
  it.effect("shows what the last full scan has found, and what a pass has found since", () =>
    Effect.gen(function*() {
      const metrics = yield* Metrics
      const drift = [{ fact: "new-value", what: "status on_hold", records: 1 }] as const
      const ended = (kind: "full" | "head", found: ScanSummary["drift"]) => {
        const scanned = { ...summary("invoices"), drift: found }
        return kind === "full"
          ? {
            _tag: "Ended",
            list: "invoices",
            kind,
            outcome: { list: "invoices", result: Result.succeed([scanned]) }
          } as const
          : {
            _tag: "Ended",
            list: "invoices",
            kind,
            outcome: { list: "invoices", kind, result: Result.succeed({ ...scanned, kind }) }
          } as const
      }
      const labels = { source: "acme", list: "invoices", fact: "new-value" }
      const shown = Effect.map(families, (all) => valueOf(all, "payments_behaviour_changed", labels))
      for (
        const [kind, found, value] of [["full", drift, 1], ["full", [], 0], ["head", drift, 1], ["head", [], 1], [
          "full",
          [],
          0
        ]] as const
      ) {
        yield* metrics.onEvent("acme", ended(kind, found))
        assert.strictEqual(yield* shown, value)
      }
    }).pipe(Effect.provide(Metrics.layer("1.2.3"))))
})

describe("the metrics of a hand-off", () => {
  it.effect("count attempts by result and refused changes, and have gauges only while this process sends", () =>
    Effect.gen(function*() {
      const metrics = yield* Metrics
      const context = Context.make(Metric.MetricRegistry, metrics.registry)
      const shown = Effect.sync(() =>
        Object.fromEntries(
          PrometheusMetrics.formatUnsafe(context).split("\n").flatMap((line) => {
            const [, name, value] = /^payments_handoff_(\S+) (\S+)/.exec(line) ?? []
            return name === undefined ? [] : [[name.replace(`source="acme",consumer="ledger"`, "…"), Number(value)]]
          })
        )
      )
      const status = (code: number) => ({ _tag: "Status" as const, status: code, retryAfter: undefined })
      const attempts: ReadonlyArray<Parameters<typeof metrics.onHandoffAttempt>[2]> = [
        { answer: status(200), verdict: { _tag: "Accept" } },
        { answer: status(422), verdict: { _tag: "Halve", mostChanges: 1 } },
        { answer: status(422), verdict: { _tag: "Halt", state: "waiting", reason: "refused" } },
        { answer: status(410), verdict: { _tag: "Halt", state: "stopped", reason: "gone" } },
        { answer: status(503), verdict: { _tag: "Retry", wait: Duration.seconds(1) } },
        { answer: { _tag: "NoAnswer", problem: "tls" }, verdict: { _tag: "Halt", state: "stopped", reason: "gaveUp" } }
      ]
      yield* Effect.forEach(attempts, (attempted) => metrics.onHandoffAttempt("acme", "ledger", attempted))
      const counters = {
        "attempts_total{…,result=\"accepted\"}": 1,
        "attempts_total{…,result=\"refused\"}": 3,
        "attempts_total{…,result=\"failed\"}": 1,
        "attempts_total{…,result=\"no_answer\"}": 1,
        "refusals_total{…}": 1
      }
      assert.deepStrictEqual(yield* shown, counters)
      const observe = (change: Partial<ObservedHandoff>, state = "running") =>
        metrics.observe([{
          name: "acme",
          state,
          problem: null,
          lists: [],
          handoffs: [{
            consumer: "ledger",
            state: "stopped",
            reason: null,
            lagChanges: 7,
            lagSeconds: 1.5,
            undecided: 2,
            ...change
          }]
        }], 0)
      observe({ reason: "gaveUp" })
      assert.deepStrictEqual(yield* shown, {
        ...counters,
        "lag_changes{…}": 7,
        "lag_seconds{…}": 1.5,
        "set_aside_changes{…}": 2,
        "stopped{…,reason=\"gave_up\"}": 1
      })
      observe({ state: "running", lagChanges: 0, lagSeconds: 0, undecided: null })
      assert.deepStrictEqual(yield* shown, { ...counters, "lag_changes{…}": 0, "lag_seconds{…}": 0 })
      observe({ state: "inactive" })
      assert.deepStrictEqual(yield* shown, counters)
      observe({ state: "removed" })
      assert.deepStrictEqual(yield* shown, {})
    }).pipe(Effect.provide(Metrics.layer("1.2.3"))))
})

describe("the number of series", () => {
  it("is 79 at most for a source with one list, 3 more in a cluster with a rate limit store, 9 for a hand-off, and 100 for a process, with all values of all labels", () => {
    const series = ({ atOnce, buckets, labels = {} }: Definition) =>
      (atOnce ?? Object.values(labels).reduce((product, { length }) => product * Math.max(1, length), 1)) *
      (buckets === undefined ? 1 : buckets.length + 3)
    const count = (per: Definition["per"]) =>
      Object.values<Definition>(definitions).reduce((sum, each) => sum + (each.per === per ? series(each) : 0), 0)
    const others = ["payments_source_held", "payments_takeovers_total", "payments_rate_limit_shared"].filter((name) =>
      Object.hasOwn(definitions, name)
    )
    assert.isAtMost(count("list") + count("source") - others.length, 79)
    assert.isAtMost(count("handoff"), 9)
    assert.isAtMost(count("process"), 100)
  })
})

describe("100 sources with 3 lists each", () => {
  it.live("have at most 79 series per source and list and 100 in all, whatever a service sends", () =>
    Effect.gen(function*() {
      const metrics = yield* Metrics
      // A service that answers with each status that a server can send, then with 1,000 undocumented fields.
      const service = yield* scriptedServer((_request, response, count) => {
        const status = count + 199
        if (status < 1000) {
          response.writeHead(status, `Reason ${status}`, { "x-request-id": `r${status}` }).end(`{"e":${status}}`)
        } else {
          const fields = Array.from({ length: 1000 }, (_, field) => `"field_${status}_${field}":"4433221100"`)
          pageOf(response, [`{"id":"r${status}",${fields.join(",")}}`], null)
        }
      })
      const api = PaymentsApi.layer.pipe(
        Layer.provide(layerHttpClient),
        Layer.provide(Layer.effect(
          PaymentsConfig,
          Effect.map(
            PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: service.url, PAYMENTS_API_KEY: Redacted.make("k") }),
            (config) => ({
              ...config,
              retry: { ...config.retry, attempts: 1 },
              slowDown: { ...config.slowDown, slowestPerSecond: 1e6 }
            })
          )
        ))
      )
      const seen = new Set<string>()
      yield* PaymentsApi.use(({ invoices }) => Effect.repeat(Effect.ignore(invoices.page()), { times: 805 })).pipe(
        Effect.provide(api),
        Effect.provideService(RequestObserver, (request) => {
          seen.add(request.result)
          for (const source of sourceNames) {
            for (const { name } of Lists.all) metrics.requestsOf(source)({ ...request, list: name })
          }
        })
      )
      assert.isAbove(service.requests.length, 800)
      assert.isAbove(seen.size, 8)
      for (const source of sourceNames) {
        for (const { name } of Lists.all) {
          for (
            const result of [
              Result.succeed([summary(name)]),
              Result.succeed([{ ...summary(name), heldBack: 0, quarantined: 0 }]),
              Result.fail(forbidden),
              Result.fail(notFound)
            ]
          ) {
            yield* metrics.onEvent(source, { _tag: "Ended", list: name, kind: "full", outcome: { list: name, result } })
          }
          yield* metrics.onEvent(source, {
            _tag: "Committed",
            list: name,
            kind: "full",
            before: nothing,
            progress: summary(name),
            retries: 3,
            elapsed: Duration.millis(5)
          })
          yield* metrics.onStall(source, name)
          yield* metrics.onDestinationWait(source, name)
        }
        for (const consumer of consumers) {
          yield* Effect.forEach(handoffAttempts, (attempted) => metrics.onHandoffAttempt(source, consumer, attempted))
        }
      }
      // A thousand reasons, one after the other.
      for (let reason = 0; reason < 1000; reason++) {
        if (reason >= 990 || reason % 100 === 0) {
          metrics.observe(
            sourceNames.map((name) => ({
              name,
              state: "stopped",
              problem: null,
              lists: Lists.all.map(({ label }) => ({
                ...observed,
                list: label,
                headProblem: "x",
                failure: { reason: `Reason ${reason} "\\\n` },
                open: hostileStatuses(reason),
                consumers: Array.from({ length: 100 }, () => ({ lag: reason, movedAt: "2026-01-01T00:00:00Z" }))
              })),
              handoffs: consumers.map((consumer) => ({
                consumer,
                state: "stopped",
                reason: haltReasons[reason % haltReasons.length] ?? null,
                lagChanges: reason,
                lagSeconds: reason,
                undecided: reason
              }))
            })),
            0
          )
        }
      }
      const counts = new Map<string, number>()
      const values = new Set<string>()
      const openStatuses = new Set<string>()
      for (const { samples } of (yield* families).values()) {
        for (const { labels: { consumer, le: _, list, source, ...own } } of samples) {
          const key = `${source} ${consumer ?? list}`
          counts.set(key, (counts.get(key) ?? 0) + 1)
          if (own["status"] !== undefined) openStatuses.add(own["status"])
          else if (source !== undefined) { for (const value of Object.values(own)) values.add(value) }
        }
      }
      assert.strictEqual(counts.size, 100 * (Lists.all.length + consumers.length + 1) + 1)
      assert.isAtMost(counts.get("undefined undefined") ?? 0, 100)
      assert.deepStrictEqual([...openStatuses].toSorted(), ["none", "other", "stuck"])
      const closed = Object.values<Definition>(definitions).flatMap(({ labels = {} }) => Object.values(labels).flat())
      for (const value of values) assert.include(closed, value)
      for (const source of sourceNames) {
        const own = counts.get(`${source} undefined`) ?? 0
        for (const { label } of Lists.all) assert.isAtMost((counts.get(`${source} ${label}`) ?? 0) + own, 79)
        for (const consumer of consumers) assert.isAtMost(counts.get(`${source} ${consumer}`) ?? Infinity, 9)
      }
    }).pipe(Effect.scoped, Effect.provide(Metrics.layer("1.2.3"))))
})

const consumers = ["ledger", "search"]

const haltReasons = ["gone", "gaveUp", "restored", "removed", "refused", "full"] as const

/** What can come of a request of a hand-off: every status, and every cause of a missing answer. */
const handoffAttempts: ReadonlyArray<Parameters<Metrics["Service"]["onHandoffAttempt"]>[2]> = [
  ...Array.from({ length: 500 }, (_, index) => ({
    answer: { _tag: "Status" as const, status: index + 100, retryAfter: undefined },
    verdict: index % 3 === 0
      ? { _tag: "Accept" as const }
      : index % 3 === 1
      ? { _tag: "Halt" as const, state: "waiting" as const, reason: "refused" as const }
      : { _tag: "Retry" as const, wait: Duration.zero }
  })),
  ...(["timeout", "connection", "tls", "address"] as const).map((problem) => ({
    answer: { _tag: "NoAnswer" as const, problem },
    verdict: { _tag: "Halt" as const, state: "stopped" as const, reason: "gaveUp" as const }
  }))
]

/** Statuses that are names, numbers and control characters, among them a code. */
const hostileStatuses = (round: number) => [
  { status: `Ana María ${round}`, seconds: 9, undated: 0 },
  { status: `4433221100${round}`, seconds: 8, undated: 0 },
  { status: "stuck", seconds: 7, undated: 0 },
  { status: null, seconds: 6, undated: 0 },
  ...Array.from({ length: 1000 }, (_, index) => ({ status: `x"\\\n ${index}`, seconds: 5, undated: 0 }))
]

const sourceNames = Array.from({ length: 100 }, (_, index) => `source-${index}`)

const failed = (reason: Reason.Reason, status: number) =>
  new PaymentsError({
    list: "invoices",
    reason,
    attempts: 1,
    status,
    requestId: undefined,
    body: undefined,
    position: undefined
  })
const forbidden = failed(new Reason.Forbidden(), 403)
const notFound = failed(new Reason.NotFound(), 404)

const nothing: ScanProgress = {
  ...ScanTotals.none.counts,
  missing: 0,
  heldBack: 0,
  heldBackBy: undefined,
  unseen: 0,
  skipped: 0,
  unchecked: 0,
  behindHead: 0,
  undocumented: {},
  replaced: 0,
  places: ScanTotals.none.places,
  drift: []
}

const summary = (list: Lists.ListName): ScanSummary => ({
  ...nothing,
  list,
  part: undefined,
  scan: 1,
  start: "first",
  retries: 0,
  elapsed: Duration.seconds(1),
  records: 5,
  inserted: 1,
  updated: 1,
  unchanged: 1,
  returned: 1,
  missing: 1,
  heldBack: 1,
  quarantined: 1
})
