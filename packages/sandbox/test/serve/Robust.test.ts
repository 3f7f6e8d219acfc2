/**
 * Unusual use of a sandbox: answers that cannot be sent, large bodies, extreme clocks, requests that it must refuse.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Fault } from "@payments/core/testing"
import { Effect, Layer } from "effect"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import { request } from "node:http"
import type { AddressInfo, Server } from "node:net"
import { Sandbox, type SandboxOptions, World } from "../../src/index.ts"
import { listNames } from "./WorldFixtures.ts"

const headers = { authorization: "Bearer sandbox_key" }
const invoices = "/v1/invoices?limit=1"

const withSandbox = <A, E>(
  options: Parameters<typeof Sandbox.layer>[0],
  use: (sandbox: Sandbox["Service"]) => Effect.Effect<A, E>
) => Sandbox.use(use).pipe(Effect.provide(Sandbox.layer(options)))

/** Returns the status of the answer, or the code of the error. */
const statusOf = (url: string, init: RequestInit = {}) =>
  Effect.promise(() =>
    fetch(url, { headers, redirect: "manual", ...init }).then(
      ({ status }) => String(status),
      (error: { readonly cause?: { readonly code?: string } }) => error.cause?.code ?? "unknown"
    )
  )

/** Sends a request that can have any `Host` header, which `fetch` does not allow. Returns status 0 if the connection fails. */
const send = (
  url: string,
  options: { readonly method?: string; readonly headers?: Record<string, string>; readonly body?: string }
) =>
  Effect.callback<{ readonly status: number; readonly text: string }>((resume) => {
    const outgoing = request(url, { method: options.method ?? "GET", headers: options.headers ?? {} }, (answer) => {
      const chunks: Array<Buffer> = []
      answer.on("data", (chunk: Buffer) => chunks.push(chunk))
      answer.on("end", () =>
        resume(Effect.succeed({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString() })))
    })
    // The server may answer and close the connection before it has read a large body.
    outgoing.on("error", () =>
      resume(Effect.succeed({ status: 0, text: "" })))
    outgoing.end(options.body)
  })

describe("the sandbox", () => {
  // Faults that are passed as values are not checked by a schema.
  it.live.each<Fault>([
    { fault: "body", text: "x", status: 9999 },
    { fault: "contentType", value: "a\nb" },
    { fault: "redirect", location: "https://x/漢" },
    { fault: "status", status: 429, retryAfter: "später\n" }
  ])(
    "resets the connection if the answer for %j cannot be sent, and answers the next request",
    (fault) =>
      withSandbox({ faults: [{ ...fault, nth: 1 }, { fault: "latency", ms: 1 }] }, ({ url }) =>
        Effect.gen(function*() {
          assert.include(["ECONNRESET", "UND_ERR_SOCKET"], yield* statusOf(url + invoices))
          assert.strictEqual(yield* statusOf(url + invoices), "200")
        }))
  )

  it.live("keeps waiting if the sum of the delays exceeds the longest delay of a timer", () =>
    withSandbox(
      { faults: [{ fault: "latency", ms: 2 ** 31 - 1 }, { fault: "latency", ms: 2 ** 31 - 1 }] },
      ({ url }) =>
        Effect.gen(function*() {
          const answer = yield* Effect.promise(() =>
            fetch(url + invoices, { headers, signal: AbortSignal.timeout(200) }).then(() => "answered", () => "waiting")
          )
          assert.strictEqual(answer, "waiting")
        })
    ))

  it.live("answers other requests while it compresses a large body, and answers each request for that body", () =>
    withSandbox(
      { faults: [{ fault: "bomb", encoding: "gzip", mebibytes: 64, list: "invoices" }] },
      ({ url }) =>
        Effect.gen(function*() {
          const done: Array<string> = []
          const bomb = (name: string) =>
            send(url + invoices, { headers }).pipe(
              Effect.tap(({ status }) => Effect.sync(() => done.push(`${name} ${status}`)))
            )
          const page = send(`${url}/v0/payoutRequests`, { headers }).pipe(
            Effect.tap(({ status }) => Effect.sync(() => done.push(`page ${status}`)))
          )
          yield* Effect.all([bomb("bomb"), bomb("again"), Effect.delay(page, 1)], { concurrency: "unbounded" })
          assert.deepStrictEqual(done.toSorted(), ["again 200", "bomb 200", "page 200"])
          assert.strictEqual(done[0], "page 200")
        })
    ))

  it.live("answers only GET, and only keys that begin with sandbox_", () =>
    withSandbox({}, ({ url }) =>
      Effect.gen(function*() {
        assert.strictEqual(yield* statusOf(url + invoices), "200")
        for (const method of ["POST", "DELETE"]) assert.strictEqual(yield* statusOf(url + invoices, { method }), "405")
        const otherKey = { headers: { authorization: "1234567sandbox_key" } }
        assert.strictEqual(yield* statusOf(url + invoices, otherKey), "401")
      })))

  it.live("gives a loopback address if it listens on all addresses, and serves the controls on loopback only", () =>
    Effect.gen(function*() {
      // The test reads the addresses from Node, because not every machine has a second address to send a request to.
      const listening = new Map<string, string>()
      const onListen = (message: unknown) => {
        const { server } = message as { readonly server: Server } // as Node documents the channel
        const { address, port } = server.address() as AddressInfo // of a server on TCP
        listening.set(`http://127.0.0.1:${port}`, address)
      }
      yield* Effect.acquireRelease(
        Effect.sync(() => subscribe("tracing:net.server.listen:asyncEnd", onListen)),
        () => Effect.sync(() => unsubscribe("tracing:net.server.listen:asyncEnd", onListen))
      )
      yield* withSandbox({ host: "0.0.0.0", controlPort: 0 }, ({ controlUrl = "", url }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(Object.fromEntries(listening), { [url]: "0.0.0.0", [controlUrl]: "127.0.0.1" })
          assert.strictEqual(yield* statusOf(url + invoices), "200")
          assert.strictEqual(yield* statusOf(`${controlUrl}/faults`), "200")
        }))
    }).pipe(Effect.scoped))

  it("accepts only speeds from 0 to 1,000,000", () => {
    for (const speed of [-60, 1e15, Number.NaN]) {
      const build = Effect.runSyncExit(Effect.scoped(Layer.build(Sandbox.layerClient({ live: { speed } }))))
      assert.strictEqual(build._tag, "Failure", String(speed))
    }
  })
})

describe("virtual time", () => {
  it("has an end at every clock and rate, and the lists can be read after it", () => {
    for (const [appearPerHour, changePerHour] of [[0, 0], [60, 120], [1e300, 0], [60, 1e300]] as const) {
      const world = World.make({ records: 10, live: { now: () => Infinity, appearPerHour, changePerHour } })
      assert.isBelow(world.endMs, 101 * 366 * 24 * 3_600_000)
      for (const name of listNames) {
        assert.strictEqual(world.servers[name]({ filters: {}, limit: 2, cursor: undefined })._tag, "Page")
      }
    }
  })
})

const withControls = <A, E>(
  options: SandboxOptions,
  use: (controlUrl: string, sandbox: Sandbox["Service"]) => Effect.Effect<A, E>
) => withSandbox({ ...options, controlPort: 0 }, (sandbox) => use(sandbox.controlUrl ?? "", sandbox))

const jsonType = { "content-type": "application/json" }

describe("the control endpoint", () => {
  it.live("refuses requests that a web page could send, and other host names", () =>
    withControls({}, (url, { faults }) =>
      Effect.gen(function*() {
        const { host, port } = new URL(url)
        const put = (more: Record<string, string>) =>
          Effect.map(
            send(`${url}/faults`, { method: "PUT", headers: { ...jsonType, ...more }, body: `{"fault":"reset"}` }),
            ({ status }) => status
          )
        assert.strictEqual(yield* put({ origin: "https://elsewhere.example.com" }), 403)
        assert.strictEqual(yield* put({ origin: "null" }), 403)
        for (const name of ["elsewhere.example.com", `elsewhere.example.com:${port}`, "127.0.0.1", "127.0.0.1:1"]) {
          assert.strictEqual(yield* put({ host: name }), 403, name)
          assert.strictEqual((yield* send(`${url}/requests`, { headers: { host: name } })).status, 403, name)
        }
        for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"]) {
          assert.strictEqual(yield* put({ "content-type": type }), 415, type)
        }
        assert.deepStrictEqual(yield* faults, [])
        for (const name of [host, `localhost:${port}`, `[::1]:${port}`]) {
          assert.strictEqual(yield* put({ host: name }), 200, name)
        }
        assert.deepStrictEqual(yield* faults, [{ fault: "reset" }])
      })))

  it.live("accepts a fault, an array or the name of a scenario, and names the problem of anything else", () =>
    withControls({}, (url, { faults }) =>
      Effect.gen(function*() {
        const put = (body: string) =>
          Effect.map(
            send(`${url}/faults`, { method: "PUT", headers: jsonType, body }),
            ({ status, text }) => [status, JSON.parse(text) as unknown] as const
          )
        assert.deepStrictEqual(yield* put(`{"fault":"reset"}`), [200, [{ fault: "reset" }]])
        assert.deepStrictEqual(yield* put(`[{"fault":"close"}]`), [200, [{ fault: "close" }]])
        assert.strictEqual((yield* put(`"throttled"`))[0], 200)
        const set = yield* faults
        for (
          const [body, problem] of [
            ["[", /^the text is not JSON$/],
            [`"stormy"`, /^unknown scenario; one of calm, /],
            [`{"fault":"sttus","status":503}`, /^fault 0: unknown fault `sttus`; one of latency, status, /],
            [`{"fault":"reset","rat":0.5}`, /^fault 0\.rat: /],
            [JSON.stringify(Array.from({ length: 101 }, () => ({ fault: "reset" }))), /^101 faults are too many/],
            [`[{"fault":"body","text":"${"x".repeat(2 ** 20)}"}]`, /larger than 1 MiB/]
          ] as const
        ) {
          const [status, answer] = yield* put(body)
          assert.strictEqual(status, 400, problem.source)
          assert.match((answer as { readonly problem: string }).problem, problem) // as the contract says
        }
        assert.deepStrictEqual(yield* faults, set)
      })))

  it.live("moves the clock only of a live sandbox, and not beyond the end of virtual time", () =>
    Effect.gen(function*() {
      const advance = (url: string, body: string) => send(`${url}/clock`, { method: "POST", headers: jsonType, body })
      const fixed = yield* withControls({}, (url) => advance(url, `{"advanceMs":1}`))
      assert.deepStrictEqual([fixed.status, /not live/.test(fixed.text)], [409, true])
      yield* withControls({ live: { speed: 0 } }, (url, sandbox) =>
        Effect.gen(function*() {
          for (const invalid of [`{"advanceMs":1e300}`, `{"advanceMs":-1}`, `{"advanceMs":1e400}`, `{"ms":1}`, "1"]) {
            const { status, text } = yield* advance(url, invalid)
            assert.deepStrictEqual([status, text.startsWith(`{"problem":"`)], [400, true], `${invalid}: ${text}`)
          }
          assert.strictEqual((yield* advance(url, `{"advanceMs":5}`)).text, `{"nowMs":5}`)
          assert.strictEqual(yield* statusOf(sandbox.url + invoices), "200")
        }))
    }))
})
