/** Runs the conformance check against services that match the document and services that do not. */
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { type Fault, layerClient, makeListService } from "@payments/core/testing"
import { Sandbox, scenarios, World } from "@payments/sandbox"
import { page } from "@payments/testkit/PageBody"
import { Duration, Effect, Layer, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientResponse } from "effect/http"
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { conformance, type Finding } from "../../src/facts.ts"

const settings = { pause: Duration.zero, pages: 20 }

/** The faults of these services depend on no rate, so a slower check would only take longer. */
const slowDown = { factor: 1, recoveryPerSecond: 1, slowestPerSecond: 1000 }

const findings = (
  url: string,
  client: Layer.Layer<HttpClient.HttpClient>,
  more: Partial<PaymentsConfig["Service"]> = {}
) =>
  Effect.flatMap(Sandbox.config(url), (config) => conformance({ ...config, slowDown, ...more }, settings)).pipe(
    Effect.provide(client)
  )

const overSocket = (options: Parameters<typeof Sandbox.layer>[0]) =>
  Sandbox.use(({ url }) => findings(url, layerHttpClient)).pipe(Effect.provide(Sandbox.layer(options)))

const failedRules = (all: ReadonlyArray<Finding>) => [
  ...new Set(all.filter(({ verdict }) => verdict === "does not hold").map(({ rule }) => rule))
]

const inMemory = layerClient((now) =>
  makeListService({ servers: World.make().servers, accepts: (key) => key === "sandbox_key" }, now)
)

/** A service in process with scripted answers. */
const scripted = (answer: (url: URL) => { readonly status: number; readonly body: string }) =>
  Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((request, url) =>
      Effect.sync(() => {
        const { body, status } = answer(url)
        return HttpClientResponse.fromWeb(request, new Response(body === "" ? null : body, { status }))
      })
    )
  )

/** Starts a server that runs until the scope closes. Returns its address. */
const startServer = (listener: RequestListener) =>
  Effect.acquireRelease(
    Effect.callback<Server>((resume) => {
      const server = createServer(listener).listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => (server.close(), server.closeAllConnections()))
  ).pipe(Effect.map((server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`)) // it listens on a port

describe("the conformance check", () => {
  it.live.each<readonly [string, Effect.Effect<ReadonlyArray<Finding>, unknown>]>([
    ["the sandbox over a socket", overSocket({})],
    ["the sandbox with offset cursors, shuffled", overSocket({ cursors: "offset", order: "shuffled" })],
    ["the sandbox with cursors to percent-encode", overSocket({ reservedCursors: true })],
    ["the sandbox in process", findings("https://sandbox.localhost", Sandbox.layerClient())],
    ["the service of layerTest", findings("https://memory.localhost", inMemory)]
  ])("finds that %s matches the document", ([, find]) =>
    Effect.gen(function*() {
      const all = yield* find
      assert.deepStrictEqual(
        all.filter(({ verdict }) => verdict !== "holds").map(({ rule, verdict }) => [rule, verdict]),
        [["invoices are those of the key's merchant", "could not be observed"]]
      )
      for (const { name } of Lists.all) assert.isAtLeast(all.filter(({ list }) => list === name).length, 15)
    }))

  it.live.each<readonly [string, ReadonlyArray<Fault>, ReadonlyArray<string>]>([
    ["items is not an array", [{ fault: "envelope", member: "items", value: "{}" }], [
      "items is an array of objects",
      "a request without a cursor gives the first page"
    ]],
    ["the cursor is missing", [{ fault: "envelope", member: "cursor" }], [
      "cursor is a string or null",
      "a null cursor ends the list"
    ]],
    ["the count is text", [{ fault: "envelope", member: "count", value: `"5"` }], ["count is an integer"]],
    ["a page repeats a record of the previous page", [{ fault: "duplicate", records: 1 }], [
      "a string cursor, sent with the same limit, gives the next page"
    ]],
    ["the cursors form a cycle", [{ fault: "cursorCycle", length: 2, pages: "later" }], [
      "a null cursor ends the list"
    ]],
    ["pages are larger than the limit", [{ fault: "largePage", joined: 2 }], [
      "a page has at most limit records",
      "limit 100 is accepted",
      "without a limit, a page has 20 records"
    ]],
    [
      "filters are ignored",
      [{ fault: "ignoreFilter" }],
      Lists.all.flatMap(({ filters }) => Object.keys(filters).map((field) => `${field} filters`))
    ],
    ["one filter is ignored", [{ fault: "ignoreFilter", field: "contract", list: "invoices" }], ["contract filters"]]
  ])("finds the rule that fails if %s", ([, faults, rules]) =>
    Effect.gen(function*() {
      const failed = failedRules(yield* overSocket({ faults }))
      for (const rule of rules) assert.include(failed, rule)
      const others = failed.filter((rule) => !rules.includes(rule))
      // This rule fails too if the next page repeats records, as it does with pages that are too large and with a
      // cycle.
      const consequence = "a string cursor, sent with the same limit, gives the next page"
      assert.deepStrictEqual(others.filter((rule) => rule !== consequence), [])
    }))

  it.live.each<readonly [string, Fault, rule: string, path: string, kind: string]>([
    [
      "an amount that is text",
      { fault: "field", field: "amount", value: `"12"` },
      "amounts are integers, in digits that JSON carries exactly",
      "amount",
      "expected number | null, found string"
    ],
    [
      "an amount that parsing rounds",
      { fault: "field", field: "amount", value: "9007199254740993" },
      "amounts are integers, in digits that JSON carries exactly",
      "amount",
      "expected an integer, found number of another kind"
    ],
    [
      "an id that is missing",
      { fault: "field", field: "id" },
      "every record has an id that is text",
      "id",
      "missing key, found nothing"
    ],
    [
      "an instant that is a number",
      { fault: "field", field: "createdAt", value: "1714557600" },
      "all other fields have the documented type",
      "createdAt",
      "expected string | null, found number"
    ],
    [
      "an instant of another precision",
      { fault: "field", field: "createdAt", value: `"2024-05-01T10:00:00.123456Z"` },
      "date-times and days have the documented format",
      "createdAt",
      "expected an ISO 8601 date-time in UTC, of the documented precision, found text of another format"
    ]
  ])(
    "finds %s, with its number and the path and kind of the first, and no value",
    ([, fault, rule, path, kind]) =>
      Effect.gen(function*() {
        const records = 30
        const all = yield* overSocket({
          records,
          faults: [{ ...fault, list: "invoices", share: 0.5, pages: "later" } as Fault]
        })
        assert.deepStrictEqual(failedRules(all), [rule])
        const finding = all.find(({ verdict }) => verdict === "does not hold")
        const broken = finding?.broken
        assert.deepStrictEqual([finding?.list, broken?.path, broken?.kind], ["invoices", path, kind])
        assert.isAtLeast(broken?.count ?? 0, 1)
        assert.isAtMost(broken?.count ?? 0, broken?.of ?? 0)
        assert.match(finding?.seen ?? "", /^\d+ of \d+ records; the first: /)
        for (const value of ["9007199254740993", "1714557600", "123456", `"12"`]) {
          assert.notInclude(JSON.stringify(all), value)
        }
      })
  )

  it.live("finds the rules that the scenario drift breaks", () =>
    Effect.gen(function*() {
      const failed = failedRules(yield* overSocket({ records: 1000, faults: scenarios.drift.faults }))
      assert.include(failed, "amounts are integers, in digits that JSON carries exactly")
      assert.include(failed, "all other fields have the documented type")
    }))

  it.live("counts each record that an export quarantines", () =>
    Effect.gen(function*() {
      const faults: ReadonlyArray<Fault> = [{ fault: "field", field: "amount", value: `"12,50"` }]
      const options = { records: 300, faults }
      const { all, bad } = yield* Sandbox.use(({ url }) =>
        Effect.gen(function*() {
          const api = PaymentsApi.layer.pipe(
            Layer.provide(layerHttpClient),
            Layer.provide(Layer.effect(PaymentsConfig, Sandbox.config(url)))
          )
          const pages = yield* PaymentsApi.use(({ invoices }) =>
            Stream.runCollect(invoices.pages({ limit: 100, onBadRecord: "quarantine" }))
          ).pipe(Effect.provide(api))
          return { all: yield* findings(url, layerHttpClient), bad: pages.flatMap((one) => one.bad).length }
        })
      ).pipe(Effect.provide(Sandbox.layer(options)))
      const counts = all.filter(({ broken, list }) => list === "invoices" && broken !== undefined)
      assert.strictEqual(bad, 300)
      assert.strictEqual(counts.reduce((sum, { broken }) => sum + (broken?.count ?? 0), 0), bad)
    }).pipe(Effect.scoped))

  it.live.each<readonly [string, Fault, ReadonlyArray<string>]>([
    ["is refused", { fault: "status", status: 400, pages: "later", list: "invoices" }, [
      "a string cursor, sent with the same limit, gives the next page",
      "an unchanged cursor is accepted, also a second time"
    ]],
    // The checks of §4.4.2 and §4.4.4 share the first request with a cursor. The check of §4.4.3 sends none, because 3
    // records fit on one page. The check of §4.4.4 sends the second, with the same cursor.
    ["is refused when it is sent again", { fault: "status", status: 400, pages: "later", list: "invoices", every: 2 }, [
      "an unchanged cursor is accepted, also a second time"
    ]]
  ])("finds a cursor that %s", ([, fault, rules]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(failedRules(yield* overSocket({ records: 3, faults: [fault] })), rules)
    }))

  it.live("finds a service that returns empty pages for limit 0", () =>
    Effect.gen(function*() {
      const empty = scripted((url) =>
        url.searchParams.get("limit") === "0"
          ? { status: 200, body: page() }
          : { status: 200, body: page([{ id: "a" }]) }
      )
      assert.include(
        failedRules(yield* findings("https://scripted.localhost", empty)),
        "limit 0 is refused, or treated as another limit"
      )
    }))

  it.live.each<readonly [string, number]>([["has no list", 404], ["redirects", 302], ["fails", 500]])(
    "observes nothing about keys, limits and pages in a service that %s",
    ([, status]) =>
      Effect.gen(function*() {
        const all = yield* findings("https://scripted.localhost", scripted(() => ({ status, body: "" })))
        assert.deepStrictEqual(all.filter(({ verdict }) => verdict === "holds"), [])
        const expected = status === 404 ? ["a request without a cursor gives the first page"] : []
        assert.deepStrictEqual(failedRules(all), expected)
      })
  )

  it.live("follows no redirect, sends no trace headers, and stops reading a body at `largestBodyBytes`", () =>
    Effect.gen(function*() {
      const seen: Array<IncomingMessage> = []
      const url = yield* startServer((request, response) => {
        seen.push(request)
        if (request.url?.startsWith("/v1") === true) response.end("x".repeat(100_000))
        else response.writeHead(302, { location: "/elsewhere" }).end()
      })
      const all = yield* findings(url, FetchHttpClient.layer, { largestBodyBytes: 1000 }).pipe(Effect.withSpan("test"))
      assert.deepStrictEqual(all.filter(({ verdict }) => verdict !== "could not be observed"), [])
      assert.include(all.map((finding) => finding.seen), "the answer has more than 1000 bytes")
      assert.deepStrictEqual(seen.filter(({ headers }) => "traceparent" in headers || "b3" in headers), [])
      assert.deepStrictEqual(seen.filter((request) => request.url === "/elsewhere"), [])
      assert.isAbove(seen.length, 10)
    }).pipe(Effect.scoped))

  it.live("finds a service that accepts any key", () =>
    Effect.gen(function*() {
      const acceptsAll = layerClient((now) =>
        makeListService({ servers: World.make().servers, accepts: () => true }, now)
      )
      assert.deepStrictEqual(failedRules(yield* findings("https://memory.localhost", acceptsAll)), [
        "a request without a key is refused",
        "a request with a wrong key is refused"
      ])
    }))

  it.live("finds that the configured key is refused, and then observes nothing else", () =>
    Effect.gen(function*() {
      const acceptsNone = layerClient((now) =>
        makeListService({ servers: World.make().servers, accepts: () => false }, now)
      )
      const all = yield* findings("https://memory.localhost", acceptsNone)
      assert.deepStrictEqual(failedRules(all), [
        "a request without a cursor gives the first page",
        "the configured key is accepted"
      ])
      assert.isTrue(
        all.some(({ seen, verdict }) => verdict === "could not be observed" && seen === "the service answered 401")
      )
    }))

  it.live("finds invoice parameters with other names", () =>
    Effect.gen(function*() {
      const options = { invoiceParameters: { contract: "contractId", settlementTime: "cycle" } }
      assert.deepStrictEqual(failedRules(yield* overSocket(options)), ["contract filters", "settlementTime filters"])
    }))

  it.live("reports what it could not observe if lists are empty, short or rate limited", () =>
    Effect.gen(function*() {
      for (const options of [{ records: 0 }, { records: 1 }, { faults: [{ fault: "status", status: 429 } as const] }]) {
        const all = yield* overSocket(options)
        assert.deepStrictEqual(failedRules(all), [])
        assert.isAbove(all.filter(({ verdict }) => verdict === "could not be observed").length, 5)
      }
    }))

  it.live("reports no part of a record, a cursor or a key", () =>
    Effect.gen(function*() {
      const report = JSON.stringify(yield* overSocket({ faults: [{ fault: "ignoreFilter", share: 0.5 }] }))
      for (const secret of ["cus_", "con_", "payout-", "sandbox_key", "2024-"]) assert.notInclude(report, secret)
    }))
})
