/** The metrics of the built worker over HTTP, and what it sends to a collector. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { Metrics } from "@payments/program"
import { overPatientClock } from "@payments/testkit/Clocks"
import { fetchOnce } from "@payments/testkit/FetchOnce"
import { lastMetrics, startCollector } from "@payments/testkit/programs/Collector"
import { canary, echoingEnv } from "@payments/testkit/programs/EchoingService"
import { noTimers, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { parsePrometheus, valueOf } from "@payments/testkit/PrometheusText"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Context, Duration, Effect, Metric } from "effect"
import { PrometheusMetrics } from "effect/observability"
import { writeFileSync } from "node:fs"
import { hostname } from "node:os"
import { join } from "node:path"
import { rules } from "../alerts/AlertRules.ts"
import { compile, firing } from "../alerts/PromQL.ts"
import { binary, startWorker } from "../loop/RunningWorker.ts"
import { everyList, makeSource, sourceIn, startSources, testStatus } from "../loop/TestSources.ts"

/** Scrapes a worker. */
const scrape = ({ port }: { readonly port: unknown }) =>
  Effect.promise(async () => {
    const response = await fetchOnce(`http://127.0.0.1:${String(port)}/metrics`)
    assert.deepStrictEqual(
      [response.status, response.headers.get("content-type")],
      [200, "text/plain; version=0.0.4; charset=utf-8"]
    )
    const text = await response.text()
    return { text, families: parsePrometheus(text) }
  })

/** The series of one scrape, as the alert rules read them. */
const seriesOf = (families: ReturnType<typeof parsePrometheus>) =>
  [...families.values()].flatMap(({ samples }) =>
    samples.map(({ labels, name, value }) => ({ labels: { __name__: name, ...labels }, samples: [value] }))
  )

const invoices = { source: "default", list: "invoices" }

describe("/metrics", () => {
  it.live("shows what the worker did, and continues with the age after a restart", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "p.db")
      const env = yield* sandboxEnv({ records: 30, faults: [{ fault: "status", status: 503, nth: 1 }] })
      const first = yield* startWorker(["--every", "1h", "--to", `sqlite:${file}`], env)
      yield* first.untilLogged("scan complete", Lists.all.length)
      const { families } = yield* first.until(scrape(first), (scraped) =>
        valueOf(scraped.families, "payments_list_age_seconds", invoices) !== undefined)
      assert.deepStrictEqual(
        [
          valueOf(families, "payments_list_rows", invoices),
          valueOf(families, "payments_list_lock_held", invoices),
          valueOf(families, "payments_records_total", { ...invoices, outcome: "inserted" }),
          valueOf(families, "payments_scans_total", { ...invoices, kind: "full", result: "complete" }),
          valueOf(families, "payments_scans_total", { ...invoices, kind: "full", result: "failed" }),
          valueOf(families, "payments_source_stopped", { source: "default" }),
          families.get("payments_requests_total")?.samples.filter(({ labels, value }) =>
            labels["result"] === "server_error" && value > 0
          ).length
        ],
        [30, 1, 30, 1, 0, 0, 1]
      )
      // The scan's page, and at most one request of another list, which learns whose data the key reads.
      assert.include([1, 2], valueOf(families, "payments_requests_total", { ...invoices, result: "ok" }))
      assert.isAbove(valueOf(families, "payments_commit_duration_seconds_count", invoices) ?? 0, 0)
      assert.isAbove(valueOf(families, "process_resident_memory_bytes") ?? 0, 1e7)
      assert.isUndefined(valueOf(families, "payments_list_failure"))
      assert.deepStrictEqual(yield* first.end("SIGTERM"), [0, null])
      // No scan is due, so the second worker knows the age from the destination alone.
      const second = yield* startWorker(["--every", "1h", "--to", `sqlite:${file}`], env)
      const again = yield* second.until(scrape(second), (scraped) =>
        valueOf(scraped.families, "payments_list_age_seconds", invoices) !== undefined)
      assert.isAtLeast(
        valueOf(again.families, "payments_list_age_seconds", invoices) ?? 0,
        valueOf(families, "payments_list_age_seconds", invoices) ?? Infinity
      )
      assert.strictEqual(valueOf(again.families, "payments_scans_total", { ...invoices, result: "complete" }), 0)
    }).pipe(Effect.scoped))

  it.live("shows how long the oldest open record has been open, and the limit, which an alert compares", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const config = join(folder, "payments.toml")
      const { PAYMENTS_API_KEY, PAYMENTS_BASE_URL } = yield* sandboxEnv({ records: 300 })
      writeFileSync(
        config,
        `[sources.acme]\nbase_url = "${PAYMENTS_BASE_URL}"\napi_key_env = "KEY"\nto = "sqlite:p.db"\n` +
          `lists = ["payout-requests", "invoices"]\nmax_open = { payout-requests = "48h" }\n` +
          `final_states = { payout-requests = ["completed", "reversed"] }\n`
      )
      const running = yield* startWorker(["--config", config], { KEY: PAYMENTS_API_KEY })
      const payouts = { source: "acme", list: "payout-requests" }
      const { families } = yield* running.until(
        scrape(running),
        (scraped) => scraped.families.has("payments_oldest_open_seconds")
      )
      const open = families.get("payments_oldest_open_seconds")?.samples ?? []
      const statuses = open.map(({ labels }) => labels["status"])
      assert.includeMembers(statuses, ["processing", "failed"])
      assert.notIncludeMembers(statuses, ["completed", "reversed"])
      // The records of the sandbox are those of January 2024.
      const created = Date.parse("2024-01-01T00:00:00Z")
      for (const { labels, value } of open) {
        assert.strictEqual(labels["list"], "payout-requests")
        assert.isAtMost(value, (Date.now() - created) / 1000)
        assert.isAtLeast(value, 86_400 * 365)
      }
      assert.strictEqual(valueOf(families, "payments_list_max_open_seconds", payouts), 48 * 3600)
      assert.isUndefined(valueOf(families, "payments_list_max_open_seconds", { source: "acme", list: "invoices" }))
      const rule = rules.find(({ alert }) => alert === "PaymentsOpenTooLong")
      assert.isDefined(rule)
      assert.deepStrictEqual(
        firing(compile(rule.expr), 0, seriesOf(families), 0).map(({ labels }) => labels["list"]),
        ["payout-requests"]
      )
      const page = yield* Effect.promise(async () =>
        (await fetchOnce(`http://127.0.0.1:${String(running.port)}/`)).text()
      )
      assert.include(page, "Open records")
      assert.include(page, "payout-requests: final, by the setting final_states: completed, reversed.")
    }).pipe(Effect.scoped))

  it.live("has the sources of the file, and no series of a source that SIGHUP has removed", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const config = join(folder, "payments.toml")
      const { PAYMENTS_API_KEY, PAYMENTS_BASE_URL } = yield* sandboxEnv({ records: 3 })
      const write = (...names: ReadonlyArray<string>) =>
        writeFileSync(
          config,
          [
            `[defaults]\nbase_url = "${PAYMENTS_BASE_URL}"\napi_key_env = "KEY"\nmax_age = "10m"`,
            ...names.map((name) => `[sources.${name}]\nto = "sqlite:${name}.db"`)
          ].join("\n")
        )
      write("one", "two")
      const running = yield* startWorker(["--config", config], { KEY: PAYMENTS_API_KEY })
      yield* running.untilLogged("scan complete", 2 * Lists.all.length)
      const { families } = yield* scrape(running)
      for (const source of ["one", "two"]) {
        assert.strictEqual(valueOf(families, "payments_list_max_age_seconds", { source, list: "invoices" }), 600)
        assert.strictEqual(valueOf(families, "payments_records_total", { source, outcome: "inserted" }), 3)
      }
      write("two")
      running.child.kill("SIGHUP")
      yield* running.untilLogged("settings read again", 1)
      const { text } = yield* scrape(running)
      assert.include(text, `source="two"`)
      assert.notInclude(text, `source="one"`)
    }).pipe(Effect.scoped))

  it.live("shows refused keys as such, and no secret that a service repeats", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "p.db")
      const running = yield* startWorker(["--every", "1h", "--to", `sqlite:${file}`], yield* echoingEnv)
      const unauthorized = { source: "default", list: "payin-sources", reason: "unauthorized" }
      const { families, text } = yield* running.until(scrape(running), (scraped) =>
        valueOf(scraped.families, "payments_list_failure", unauthorized) === 1 &&
        valueOf(scraped.families, "payments_list_failure", { ...invoices, reason: "service" }) === 1)
      assert.strictEqual(
        valueOf(families, "payments_scans_total", {
          source: "default",
          list: "payin-sources",
          kind: "full",
          result: "unauthorized"
        }),
        1
      )
      assert.strictEqual(valueOf(families, "payments_requests_total", { ...invoices, result: "malformed" }), 1)
      for (const secret of Object.values(canary)) {
        assert.notInclude(text.toLowerCase(), secret.toLowerCase())
      }
    }).pipe(Effect.scoped))
})

describe("the alert rules, over the metrics of a worker", () => {
  it.live("hold for the sources that have the problem, and for no other", () =>
    overPatientClock(() =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const file = (name: string) => join(folder, `${name}.db`)
        const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
        const { PAYMENTS_BASE_URL: otherUrl } = yield* sandboxEnv({ records: 3, seed: 2 })
        const silent = yield* scriptedServer(() => {})
        const refusing = yield* scriptedServer((_, response) => void response.writeHead(401).end())
        yield* Effect.scoped(Effect.gen(function*() {
          const { until } = yield* startSources([makeSource("owner", otherUrl, file("foreign"))])
          yield* until((now) => everyList(sourceIn(now, "owner"), ({ completeScan }) => completeScan !== null))
        }))
        const { until } = yield* startSources([
          makeSource("good", url, file("good"), { maxAge: Duration.minutes(1) }),
          makeSource("refused", refusing.url, file("refused")),
          makeSource("foreign", url, file("foreign")),
          makeSource("stale", url, file("stale"), {
            full: { _tag: "Every", every: Duration.hours(1) },
            maxAge: Duration.millis(1)
          }),
          makeSource("down", url, file("no/such/folder")),
          makeSource("stuck", silent.url, file("stuck"))
        ], { stallAfter: Duration.millis(1500) })
        const { sources } = yield* until((now) =>
          ["good", "stale"].every((name) =>
            everyList(sourceIn(now, name), ({ completeScan }) => completeScan !== null)
          ) &&
          everyList(sourceIn(now, "refused"), ({ failure }) => failure !== null) &&
          everyList(sourceIn(now, "stuck"), ({ stall }) => stall !== null) &&
          sourceIn(now, "foreign")?.state === "stopped" && (sourceIn(now, "down")?.problem ?? null) !== null
        )
        const metrics = yield* Metrics
        metrics.observe(sources, Date.now())
        // It was ended twice.
        const stalls = { source: "stuck", list: "invoices" }
        const text = PrometheusMetrics.formatUnsafe(Context.make(Metric.MetricRegistry, metrics.registry))
        assert.isAtLeast(valueOf(parsePrometheus(text), "payments_stalls_total", stalls) ?? 0, 2)
        const series = seriesOf(parsePrometheus(text))
        const held = rules.flatMap(({ alert, expr }) =>
          firing(compile(expr), 0, series, 0).map(({ labels }) => `${alert} ${labels["source"] ?? ""}`)
        )
        assert.deepStrictEqual([...new Set(held)].toSorted(), [
          "PaymentsListStale stale",
          "PaymentsScanStalled stuck",
          "PaymentsScansFailing down",
          "PaymentsScansFailing foreign",
          "PaymentsSourceStopped foreign",
          "PaymentsUnauthorized refused"
        ])
      })
    ).pipe(Effect.scoped, Effect.provide(testStatus)))
})

/** A worker that ends waits for its collector for 2 s at most. Here that time does not pass. */
const patient = noTimers(2000)

describe("a worker with a collector", () => {
  it.live("delivers traces, metrics and logs, and the rest of them on SIGTERM", () =>
    Effect.gen(function*() {
      const { received, url } = yield* startCollector()
      const file = join(yield* temporaryFolder, "p.db")
      const running = yield* startWorker(["--every", "1h", "--to", `sqlite:${file}`], {
        ...(yield* echoingEnv),
        ...patient,
        OTEL_EXPORTER_OTLP_ENDPOINT: url,
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_EXPORTER_OTLP_HEADERS: "x-api-key=s3cret"
      })
      yield* running.untilLogged("scan failed", 2)
      yield* running.untilLogged("scan complete", 1)
      yield* scrape(running)
      assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
      const bodies = (path: string) => received.filter((one) => one.path === path).map(({ body }) => body).join("\n")
      for (const expected of ["scan complete", "scan failed", "payout-requests", "stopped"]) {
        assert.include(bodies("/v1/logs"), expected)
      }
      assert.include(bodies("/v1/traces"), "GET /v1/invoices")
      assert.notInclude(bodies("/v1/traces"), "/metrics")
      const { resource, valueOf: metric } = lastMetrics(received)
      assert.strictEqual(resource["service.name"], "payments-worker")
      assert.strictEqual(resource["service.instance.id"], `${hostname()}-${running.child.pid}`)
      assert.strictEqual(
        metric("payments_scans_total", { source: "default", list: "payin-sources", result: "unauthorized" }),
        1
      )
      assert.isAtLeast(metric("payments_list_age_seconds", { list: "payout-requests" }) ?? -1, 0)
      // A line of the log names its trace.
      const traceId = running.log("scan complete")[0]?.annotations["traceId"]
      assert.match(String(traceId), /^[0-9a-f]{32}$/)
      assert.include(bodies("/v1/traces"), String(traceId))
      const all = received.map(({ body }) => body).join("\n") + running.out()
      for (const secret of ["s3cret", ...Object.values(canary)]) {
        assert.notInclude(all.toLowerCase(), secret.toLowerCase())
      }
    }).pipe(Effect.scoped))

  it.live("delivers the metrics of a single round", () =>
    Effect.gen(function*() {
      const { received, url } = yield* startCollector()
      const env = {
        ...(yield* sandboxEnv({ records: 7 })),
        ...patient,
        OTEL_EXPORTER_OTLP_ENDPOINT: url,
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json"
      }
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      const args = [binary, "run", "--once", "--to", to]
      const { code, stderr } = yield* runProgram(process.execPath, args, { env })
      assert.deepStrictEqual([code, stderr], [0, ""])
      const { resource, valueOf: metric } = lastMetrics(received)
      assert.strictEqual(resource["service.instance.id"], hostname())
      assert.deepStrictEqual(
        [
          metric("payments_scans_total", { ...invoices, kind: "full", result: "complete" }),
          metric("payments_list_rows", invoices)
        ],
        [1, 7]
      )
    }).pipe(Effect.scoped))

  it.live("waits for 3 s at most at SIGTERM if the collector never answers", () =>
    Effect.gen(function*() {
      const { url } = yield* startCollector("never")
      const service = yield* scriptedServer((_, response) => pageOf(response, [`{"id":"a"}`], null))
      const running = yield* startWorker(["--every", "1h", "--to", `sqlite:${yield* temporaryFolder}/p.db`], {
        PAYMENTS_BASE_URL: service.url,
        PAYMENTS_API_KEY: "k",
        OTEL_EXPORTER_OTLP_ENDPOINT: url,
        // Any longer limit would never end.
        ...noTimers(3000)
      })
      yield* running.untilLogged("scan complete", Lists.all.length)
      assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
    }).pipe(Effect.scoped))
})
