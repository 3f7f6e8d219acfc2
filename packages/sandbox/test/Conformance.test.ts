/** The suite that holds a service against the document, held against right and wrong services. */
import { assert, describe, it } from "@effect/vitest"
import { Lists, type PaymentsConfig } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { type Fault, layerClient, makeListService } from "@payments/core/testing"
import { Duration, Effect, type Layer } from "effect"
import type { HttpClient } from "effect/http"
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

describe("the conformance suite", () => {
  it.live.each<readonly [string, Effect.Effect<ReadonlyArray<Finding>, unknown>]>([
    ["the sandbox over a socket", overSocket({})],
    ["the sandbox with offset cursors, shuffled", overSocket({ cursors: "offset", order: "shuffled" })],
    ["the sandbox in process", findings("http://sandbox.localhost", Sandbox.layerClient())],
    ["the service of layerTest", findings("http://memory.localhost", inMemory)]
  ])("finds that %s keeps to the document", ([, find]) =>
    Effect.gen(function*() {
      const all = yield* find
      assert.deepStrictEqual(all.filter(({ verdict }) => verdict !== "holds"), [])
      for (const { name } of Lists.all) assert.isAtLeast(all.filter(({ list }) => list === name).length, 14)
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
    ["filters are ignored", [{ fault: "ignoreFilter" }], [
      "reference filters",
      "customerId filters",
      "payoutTargetId filters",
      "customerDocumentNumber filters",
      "contract filters",
      "paymentDate filters",
      "settlementDate filters",
      "settlementTime filters"
    ]],
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

  it.live("finds a service that lets any key in", () =>
    Effect.gen(function*() {
      const open = layerClient((now) => makeListService({ servers: World.make().servers, accepts: () => true }, now))
      assert.deepStrictEqual(broken(yield* findings("http://memory.localhost", open)), [
        "a request without a key is refused",
        "a request with a wrong key is refused"
      ])
    }))

  it.live("finds a key that is not accepted, and then sees nothing else", () =>
    Effect.gen(function*() {
      const shut = layerClient((now) => makeListService({ servers: World.make().servers, accepts: () => false }, now))
      const all = yield* findings("http://memory.localhost", shut)
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
