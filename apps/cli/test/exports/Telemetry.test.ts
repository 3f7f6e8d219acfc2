/** `payments export` with a collector, as cron runs it. */
import { assert, describe, it } from "@effect/vitest"
import { lastMetrics, startCollector } from "@payments/testkit/programs/Collector"
import { canary, echoingEnv } from "@payments/testkit/programs/EchoingService"
import {
  binary,
  longTimers,
  payments,
  rowsOf,
  runProgram,
  sandboxEnv,
  temporaryFolder
} from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect } from "effect"
import { cpSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"

/** With long timers, the end of the program waits 20 s for the collector, in which also a busy machine delivers. */
const json = { ...longTimers, OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" }

/** Exports 20 records of each list with these variables. */
const exportWith = Effect.fnUntraced(function*(variables: Readonly<Record<string, string>>) {
  const file = join(yield* temporaryFolder, "p.db")
  const env = { ...(yield* sandboxEnv({ records: 20 })), ...variables }
  const startedAt = performance.now()
  const result = yield* payments(["export", "--to", `sqlite:${file}`], { env })
  return {
    ...result,
    rows: () => rowsOf(file, "SELECT id FROM invoices").length,
    elapsedMs: performance.now() - startedAt
  }
})

describe("an export with a collector", () => {
  it.live("delivers its traces, metrics and logs before it ends", () =>
    Effect.gen(function*() {
      const { received, url } = yield* startCollector()
      const { code, stderr } = yield* exportWith({
        ...json,
        OTEL_EXPORTER_OTLP_ENDPOINT: url,
        OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20s3cret",
        OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test,team=pay%20ments",
        OTEL_SERVICE_NAME: "nightly",
        PAYMENTS_MAX_OPEN: "payout-requests=48h"
      })
      assert.deepStrictEqual([code, stderr.includes("telemetry")], [0, false], stderr)
      const paths = new Set(received.map(({ path }) => path))
      assert.deepStrictEqual([...paths].toSorted(), ["/v1/metrics", "/v1/traces"])
      for (const { body, headers } of received) {
        assert.deepStrictEqual(
          [headers["authorization"], headers["content-type"]],
          ["Bearer s3cret", "application/json"]
        )
        assert.notInclude(body, "s3cret")
      }
      const { names, resource, unitOf, valueOf } = lastMetrics(received)
      assert.deepInclude(resource, {
        "service.name": "nightly",
        "deployment.environment.name": "test",
        "team": "pay ments"
      })
      const invoices = { source: "default", list: "invoices" }
      assert.strictEqual(valueOf("payments_records_total", { ...invoices, outcome: "inserted" }), 20)
      assert.strictEqual(valueOf("payments_scans_total", { ...invoices, kind: "full", result: "complete" }), 1)
      assert.strictEqual(valueOf("payments_requests_total", { ...invoices, result: "ok" }), 1)
      assert.strictEqual(valueOf("payments_request_duration_seconds", invoices), 1)
      assert.strictEqual(valueOf("payments_list_rows", invoices), 20)
      const payouts = { source: "default", list: "payout-requests" }
      assert.strictEqual(valueOf("payments_list_max_open_seconds", payouts), 172_800)
      // The records of the sandbox were created in January 2024.
      assert.isAbove(valueOf("payments_oldest_open_seconds", { ...payouts, status: "completed" }) ?? 0, 365 * 86_400)
      const age = valueOf("payments_list_age_seconds", invoices) ?? -1
      assert.isTrue(age >= 0 && age < 60, String(age))
      assert.deepStrictEqual([unitOf("payments_list_age_seconds"), unitOf("payments_list_rows")], ["s", "{row}"])
      // Only the registry's metrics leave the process: their series are limited.
      assert.isTrue(names.every((name) => /^(payments|process)_/.test(name)), names.join(" "))
      const traces = received.filter(({ path }) => path === "/v1/traces").map(({ body }) => body).join("")
      for (const span of ["payments export", "Export.scan", "GET /v1/invoices"]) assert.include(traces, `"${span}"`)
      const ids = new Set([...traces.matchAll(/"traceId":"(\w+)"/g)].map(([, id]) => id))
      assert.strictEqual(ids.size, 1)
    }).pipe(Effect.scoped))

  it.live("names the source of a file and its max_age", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const { received, url } = yield* startCollector()
      const service = yield* sandboxEnv({ records: 3 })
      writeFileSync(
        join(folder, "payments.toml"),
        `[sources.acme]
base_url = "${service.PAYMENTS_BASE_URL}"
api_key_env = "ACME_KEY"
to = "sqlite:p.db"
lists = ["invoices"]
max_age = "24h"
`
      )
      const env = { ...json, ACME_KEY: service.PAYMENTS_API_KEY, OTEL_EXPORTER_OTLP_ENDPOINT: url }
      const { code, stderr } = yield* payments(["export", "--config", join(folder, "payments.toml")], { env })
      assert.strictEqual(code, 0, stderr)
      const { valueOf } = lastMetrics(received)
      assert.strictEqual(valueOf("payments_list_max_age_seconds", { source: "acme", list: "invoices" }), 24 * 3600)
      assert.isUndefined(valueOf("payments_list_age_seconds", { list: "payin-sources" }))
    }).pipe(Effect.scoped))

  it.live("follows the variables of each signal, protobuf and gzip", () =>
    Effect.gen(function*() {
      const { received, url } = yield* startCollector()
      const { code, stderr } = yield* exportWith({
        ...longTimers,
        OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${url}/custom/path`,
        OTEL_EXPORTER_OTLP_METRICS_HEADERS: "x-tenant=t1",
        OTEL_EXPORTER_OTLP_COMPRESSION: "gzip",
        OTEL_TRACES_EXPORTER: "none",
        OTEL_LOGS_EXPORTER: "none"
      })
      assert.strictEqual(code, 0, stderr)
      assert.isAbove(received.length, 0)
      for (const { body, headers, path } of received) {
        assert.deepStrictEqual(
          [path, headers["content-type"], headers["content-encoding"], headers["x-tenant"]],
          ["/custom/path", "application/x-protobuf", "gzip", "t1"]
        )
        assert.include(body, "payments_list_age_seconds")
      }
    }).pipe(Effect.scoped))

  it.live("ends with the same result, 2 s later at most, if the collector does not answer, fails or is down", () =>
    Effect.gen(function*() {
      const hanging = yield* startCollector("never")
      const failing = yield* startCollector(503)
      // All of them begin at the same moment, so a busy machine slows them alike. The limit of 2 s takes 20 s.
      const [without, ...others] = yield* Effect.all([
        exportWith(longTimers),
        ...[hanging.url, failing.url, "http://127.0.0.1:9"].map((url) =>
          exportWith({ ...longTimers, OTEL_EXPORTER_OTLP_ENDPOINT: url })
        )
      ], { concurrency: "unbounded" })
      assert.strictEqual(without.code, 0, without.stderr)
      for (const { code, elapsedMs, rows, stderr, stdout } of others) {
        assert.deepStrictEqual([code, rows()], [0, 20], stderr)
        assert.match(
          stderr,
          /payments: telemetry was not delivered: metrics, the collector (cannot|did not|answered)/
        )
        assert.include(stdout, "invoices")
        // Without the limit, the requests and their retries would take 40 s, and here 400 s.
        assert.isBelow(elapsedMs - without.elapsedMs, 60_000)
      }
    }).pipe(Effect.scoped))

  it.live("ignores invalid variables with a warning that does not repeat them", () =>
    Effect.gen(function*() {
      const { received, url } = yield* startCollector()
      const { code, rows, stderr } = yield* exportWith({
        ...longTimers,
        OTEL_EXPORTER_OTLP_ENDPOINT: url,
        OTEL_EXPORTER_OTLP_PROTOCOL: "grpc-s3cret",
        OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "http/json",
        OTEL_EXPORTER_OTLP_TIMEOUT: "s3cret",
        OTEL_RESOURCE_ATTRIBUTES: "s3cret%",
        OTEL_METRIC_EXPORT_INTERVAL: "-1",
        OTEL_TRACES_SAMPLER: "s3cret"
      })
      assert.deepStrictEqual([code, rows()], [0, 20], stderr)
      assert.notInclude(stderr, "s3cret")
      for (const name of ["EXPORTER_OTLP_PROTOCOL", "EXPORTER_OTLP_TIMEOUT", "RESOURCE_ATTRIBUTES", "TRACES_SAMPLER"]) {
        assert.strictEqual(stderr.split(`payments: OTEL_${name} is ignored. Expected: `).length, 2, stderr)
      }
      assert.deepStrictEqual([...new Set(received.map(({ path }) => path))], ["/v1/metrics"])
      const share = { OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "1.5" }
      const sampled = yield* exportWith({ ...longTimers, OTEL_EXPORTER_OTLP_ENDPOINT: url, ...share })
      assert.include(sampled.stderr, "OTEL_TRACES_SAMPLER_ARG is ignored. Expected: a number from 0 to 1.")
      assert.isTrue(received.some(({ path }) => path === "/v1/traces"))
      const invalid = yield* exportWith({ OTEL_EXPORTER_OTLP_ENDPOINT: "s3cret" })
      assert.deepStrictEqual([invalid.code, invalid.stderr.includes("s3cret")], [0, false])
      assert.include(invalid.stderr, "payments: OTEL_EXPORTER_OTLP_ENDPOINT is ignored.")
    }).pipe(Effect.scoped))

  it.live.each(["http/json", "http/protobuf"])(
    "sends no secret that a service repeats, over %s",
    (protocol) =>
      Effect.gen(function*() {
        const { received, url } = yield* startCollector()
        const file = join(yield* temporaryFolder, "p.db")
        const env = {
          ...(yield* echoingEnv),
          ...longTimers,
          OTEL_EXPORTER_OTLP_ENDPOINT: url,
          OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
          PAYMENTS_ACCOUNT: "acme"
        }
        const { code } = yield* payments(["export", "--to", `sqlite:${file}`], { env })
        assert.strictEqual(code, 4)
        const all = received.map(({ body, headers }) => JSON.stringify(headers) + body).join("\n")
        for (const expected of ["payments_scans_total", "unauthorized", "Export.scan", "exception"]) {
          assert.include(all, expected)
        }
        for (const secret of Object.values(canary)) assert.notInclude(all.toLowerCase(), secret.toLowerCase())
      }).pipe(Effect.scoped)
  )
})

describe("a filter and the data of a record", () => {
  it.live("do not reach the collector, although the service repeats them in its errors", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const { received, url } = yield* startCollector()
      const secrets = ["CANARYCUSTOMER7", "canary.mail@example.com", "CANARYNAME", "4433221100", "c0ffee00c0ffee11"]
      const [customer, email, name, document, cursor] = secrets
      const service = yield* scriptedServer((request, response) => {
        if (request.url?.includes("cursor=")) {
          return void response.writeHead(422, { "x-request-id": document }).end(
            JSON.stringify({ code: request.url, secrets })
          )
        }
        const record = { id: "a", customerId: customer, customerDetails: { email, name, documentNumber: document } }
        pageOf(response, [JSON.stringify(record)], cursor ?? null)
      })
      const file = join(folder, "customers.txt")
      writeFileSync(file, `${customer}\n`)
      const { code, stderr } = yield* payments(
        ["export", "payin-sources", "--customer-ids", file, "--to", `sqlite:${join(folder, "p.db")}`],
        {
          env: {
            ...json,
            PAYMENTS_BASE_URL: service.url,
            PAYMENTS_API_KEY: "sk_canarykey",
            OTEL_EXPORTER_OTLP_ENDPOINT: url
          }
        }
      )
      assert.notStrictEqual(code, 0, stderr)
      assert.include(service.requests.join(), "CANARYCUSTOMER7")
      const all = received.map(({ body, headers }) => JSON.stringify(headers) + body).join("\n")
      for (const expected of ["GET /v0/payinSources", "payments_scans_total", "exception"]) {
        assert.include(all, expected)
      }
      for (const secret of ["sk_canarykey", ...secrets]) assert.notInclude(all, secret)
    }).pipe(Effect.scoped))
})

describe("an export without a collector", () => {
  it.live("does not load the exporter", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      cpSync(dirname(binary), join(folder, "dist"), { recursive: true })
      const exporter = readdirSync(join(folder, "dist")).filter((file) => file.startsWith("Otlp"))
      // An earlier build may have left its files.
      assert.isAbove(exporter.length, 0)
      for (const file of exporter) rmSync(join(folder, "dist", file))
      const service = yield* sandboxEnv({ records: 5 })
      const run = (variables: Readonly<Record<string, string>>) =>
        runProgram(
          process.execPath,
          [join(folder, "dist/payments.js"), "export", "--to", `sqlite:${join(folder, "p.db")}`],
          { env: { ...service, ...variables } }
        )
      for (
        const variables of [
          {},
          { OTEL_SERVICE_NAME: "nightly" },
          { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9", OTEL_SDK_DISABLED: "true" }
        ]
      ) {
        const { code, stderr } = yield* run(variables)
        assert.strictEqual(code, 0, stderr)
      }
      // Without this, the test could not fail.
      assert.strictEqual((yield* run({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" })).code, 1)
    }).pipe(Effect.scoped))
})
