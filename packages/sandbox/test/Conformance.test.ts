/** The suite that holds a service against the document, held against right and wrong services. */
import { assert, describe, it } from "@effect/vitest"
import { Lists, type PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { type Fault, layerClient, makeListService } from "@payments/core/testing"
import { Duration, Effect, Layer } from "effect"
import { FetchHttpClient, HttpClient, HttpClientResponse } from "effect/http"
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { conformance, type Finding, Sandbox, World } from "../src/index.ts"

const quick = { pause: Duration.zero, pages: 20 }

const findings = (
  url: string,
  client: Layer.Layer<HttpClient.HttpClient>,
  more: Partial<PaymentsConfig["Service"]> = {}
) =>
  Effect.flatMap(Sandbox.config(url), (config) => conformance({ ...config, ...more }, quick)).pipe(
    Effect.provide(client)
  )

const overSocket = (options: Parameters<typeof Sandbox.layer>[0]) =>
  Sandbox.use(({ url }) => findings(url, layerHttpClient)).pipe(Effect.provide(Sandbox.layer(options)))

const broken = (
  all: ReadonlyArray<Finding>
) => [...new Set(all.filter(({ verdict }) => verdict === "does not hold").map(({ rule }) => rule))]

const inMemory = layerClient((now) =>
  makeListService({ servers: World.make().servers, accepts: (key) => key === "sandbox_key" }, now)
)

/** A service in process that answers as it is told. */
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

/** A server until the scope closes; gives its address. */
const serving = (listener: RequestListener) =>
  Effect.acquireRelease(
    Effect.callback<Server>((resume) => {
      const server = createServer(listener).listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => (server.close(), server.closeAllConnections()))
  ).pipe(Effect.map((server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`)) // it listens on a port

describe("the conformance suite", () => {
  it.live.each<readonly [string, Effect.Effect<ReadonlyArray<Finding>, unknown>]>([
    ["the sandbox over a socket", overSocket({})],
    ["the sandbox with offset cursors, shuffled", overSocket({ cursors: "offset", order: "shuffled" })],
    ["the sandbox with cursors to percent-encode", overSocket({ reservedCursors: true })],
    ["the sandbox in process", findings("https://sandbox.localhost", Sandbox.layerClient())],
    ["the service of layerTest", findings("https://memory.localhost", inMemory)]
  ])("finds that %s keeps to the document", ([, find]) =>
    Effect.gen(function*() {
      const all = yield* find
      assert.deepStrictEqual(
        all.filter(({ verdict }) => verdict !== "holds").map(({ rule, verdict }) => [rule, verdict]),
        [["invoices are those of the key's merchant", "could not be observed"]]
      )
      for (const { name } of Lists.all) assert.isAtLeast(all.filter(({ list }) => list === name).length, 15)
    }))

  it.live.each<readonly [string, ReadonlyArray<Fault>, ReadonlyArray<string>]>([
    ["items is no array", [{ fault: "envelope", member: "items", value: "{}" }], [
      "items is an array of objects",
      "20 records come unless a limit is given"
    ]],
    ["the cursor is missing", [{ fault: "envelope", member: "cursor" }], [
      "cursor is a string or null",
      "a null cursor ends the list"
    ]],
    ["the count is text", [{ fault: "envelope", member: "count", value: `"5"` }], ["count is an integer"]],
    ["a page repeats the one before", [{ fault: "duplicate", records: 1 }], [
      "a string cursor, sent with the same limit, gives the next page"
    ]],
    ["the cursor goes round", [{ fault: "cursorCycle", length: 2, pages: "later" }], ["a null cursor ends the list"]],
    ["pages are larger than the limit", [{ fault: "largePage", joined: 2 }], [
      "limit is the most records of a page",
      "100 is a limit that is served",
      "20 records come unless a limit is given"
    ]],
    [
      "filters are ignored",
      [{ fault: "ignoreFilter" }],
      Lists.all.flatMap(({ filters }) => Object.keys(filters).map((field) => `${field} filters`))
    ],
    ["one filter is ignored", [{ fault: "ignoreFilter", field: "contract", list: "invoices" }], ["contract filters"]]
  ])("finds the rule that breaks where %s", ([, faults, rules]) =>
    Effect.gen(function*() {
      const found = broken(yield* overSocket({ faults }))
      for (const rule of rules) assert.include(found, rule)
      const others = found.filter((rule) => !rules.includes(rule))
      // A page that holds too much also repeats records, and a cursor that leads back gives the same page.
      const follows = new Set([
        "a string cursor, sent with the same limit, gives the next page",
        "items is an array of objects"
      ])
      assert.deepStrictEqual(others.filter((rule) => !follows.has(rule)), [])
    }))

  it.live.each<readonly [string, Fault, ReadonlyArray<string>]>([
    ["is refused", { fault: "status", status: 400, pages: "later", list: "invoices" }, [
      "a string cursor, sent with the same limit, gives the next page",
      "a cursor passed back unchanged is accepted, again too"
    ]],
    // The first is of §4.4.2; 3 records have no second page of 100.
    ["is refused when it comes again", { fault: "status", status: 400, pages: "later", list: "invoices", nth: 3 }, [
      "a cursor passed back unchanged is accepted, again too"
    ]]
  ])("finds a cursor that %s", ([, fault, rules]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(broken(yield* overSocket({ records: 3, faults: [fault] })), rules)
    }))

  it.live("finds a service that serves pages of no record", () =>
    Effect.gen(function*() {
      const empty = scripted((url) =>
        url.searchParams.get("limit") === "0"
          ? { status: 200, body: `{"items":[],"cursor":null,"count":0}` }
          : { status: 200, body: `{"items":[{"id":"a"}],"cursor":null,"count":1}` }
      )
      assert.include(broken(yield* findings("https://scripted.localhost", empty)), "no page size below 1 is served")
    }))

  it.live.each<readonly [string, number]>([["knows no list", 404], ["redirects", 302], ["fails", 500]])(
    "sees nothing of keys, limits and pages in a service that %s",
    ([, status]) =>
      Effect.gen(function*() {
        const all = yield* findings("https://scripted.localhost", scripted(() => ({ status, body: "" })))
        assert.deepStrictEqual(all.filter(({ verdict }) => verdict === "holds"), [])
        const expected = status === 404
          ? ["a request without a cursor gives the first page", "the configured key is accepted"]
          : []
        assert.deepStrictEqual(broken(all), expected)
      })
  )

  it.live("follows no redirect, sends no trace, and reads no more than the largest body", () =>
    Effect.gen(function*() {
      const seen: Array<IncomingMessage> = []
      const url = yield* serving((request, response) => {
        seen.push(request)
        if (request.url?.startsWith("/v1") === true) response.end("x".repeat(100_000))
        else response.writeHead(302, { location: "/elsewhere" }).end()
      })
      const all = yield* findings(url, FetchHttpClient.layer, { largestBodyBytes: 1000 }).pipe(Effect.withSpan("test"))
      assert.deepStrictEqual(all.filter(({ verdict }) => verdict !== "could not be observed"), [])
      assert.include(all.map((finding) => finding.seen), "an answer of more than 1000 bytes")
      assert.deepStrictEqual(seen.filter(({ headers }) => "traceparent" in headers || "b3" in headers), [])
      assert.deepStrictEqual(seen.filter((request) => request.url === "/elsewhere"), [])
      assert.isAbove(seen.length, 10)
    }).pipe(Effect.scoped))

  it.live("finds a service that lets any key in", () =>
    Effect.gen(function*() {
      const open = layerClient((now) => makeListService({ servers: World.make().servers, accepts: () => true }, now))
      assert.deepStrictEqual(broken(yield* findings("https://memory.localhost", open)), [
        "a request without a key is refused",
        "a request with a wrong key is refused"
      ])
    }))

  it.live("finds a key that is not accepted, and then sees nothing else", () =>
    Effect.gen(function*() {
      const shut = layerClient((now) => makeListService({ servers: World.make().servers, accepts: () => false }, now))
      const all = yield* findings("https://memory.localhost", shut)
      assert.deepStrictEqual(broken(all), [
        "a request without a cursor gives the first page",
        "the configured key is accepted"
      ])
      assert.isTrue(
        all.some(({ seen, verdict }) => verdict === "could not be observed" && seen === "the service answered 401")
      )
    }))

  it.live("finds the invoice parameters that are named otherwise", () =>
    Effect.gen(function*() {
      const options = { invoiceParameters: { contract: "contractId", settlementTime: "cycle" } }
      assert.deepStrictEqual(broken(yield* overSocket(options)), ["contract filters", "settlementTime filters"])
    }))

  it.live("tells what it could not observe of lists that are empty, short or limited", () =>
    Effect.gen(function*() {
      for (const options of [{ records: 0 }, { records: 1 }, { faults: [{ fault: "status", status: 429 } as const] }]) {
        const all = yield* overSocket(options)
        assert.deepStrictEqual(broken(all), [])
        assert.isAbove(all.filter(({ verdict }) => verdict === "could not be observed").length, 5)
      }
    }))

  it.live("tells nothing of a record, a cursor or a key", () =>
    Effect.gen(function*() {
      const told = JSON.stringify(yield* overSocket({ faults: [{ fault: "ignoreFilter", share: 0.5 }] }))
      for (const secret of ["cus_", "con_", "payout-", "sandbox_key", "2024-"]) assert.notInclude(told, secret)
    }))
})
