/**
 * Requests on the socket, and answers that the sandbox cannot send. The sandbox's `FaultCases.ts` covers the others.
 */
import { assert, describe, it } from "@effect/vitest"
import { pageOf, type Script, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect, Layer, Redacted } from "effect"
import { FetchHttpClient } from "effect/http"
import { PaymentsApi, PaymentsConfig, type PaymentsError } from "../../src/index.ts"
import { layerHttpClient } from "../../src/node.ts"

const key = "canary-key-5ecret"

const withApi = <A, E>(
  url: string,
  use: (api: PaymentsApi["Service"]) => Effect.Effect<A, E>,
  client = layerHttpClient,
  more: { readonly PAYMENTS_INVOICE_PARAMS?: string } = {}
) =>
  PaymentsApi.use(use).pipe(Effect.provide(PaymentsApi.layer.pipe(
    Layer.provide(client),
    Layer.provide(Layer.effect(
      PaymentsConfig,
      // The settings are valid.
      Effect.orDie(
        PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make(key), ...more })
      )
    ))
  )))

/** Requests a page from a server that runs `script`, over both clients. Returns the errors. */
const failures = Effect.fnUntraced(function*(script: Script) {
  const server = yield* scriptedServer(script)
  const errors: Array<PaymentsError> = []
  for (const client of [layerHttpClient, FetchHttpClient.layer]) {
    errors.push(yield* Effect.flip(withApi(server.url, (api) => api.invoices.page(), client)))
  }
  return errors
}, Effect.scoped)

const html: Script = (_, response) =>
  response.writeHead(200, { "content-type": "text/html" }).end("<html>Welcome</html>")

describe("a page over HTTP", () => {
  it.live("is truncated if it ends within a character, and malformed if it is not UTF-8", () =>
    Effect.gen(function*() {
      const half = yield* failures((_, response) =>
        response.writeHead(200).end(Buffer.from(`{"items":[{"id":"Marí`).subarray(0, -1))
      )
      for (const { attempts, reason } of half) {
        assert.deepInclude(reason, { _tag: "Transport", kind: "truncated" })
        assert.strictEqual(attempts, 3)
      }
      const bytes = yield* failures((_, response) => response.writeHead(200).end(Buffer.from([0x7b, 0xff, 0x7d])))
      for (const { attempts, reason } of bytes) {
        assert.deepInclude(reason, { _tag: "MalformedResponse", kind: "notJson" })
        assert.strictEqual(attempts, 1)
      }
    }))

  it.live("reports the request id of a refusal, unless it could be a secret", () =>
    Effect.gen(function*() {
      for (const header of ["x-request-id", "request-id", "x-correlation-id"]) {
        const named = yield* failures((_, response) => response.writeHead(403, { [header]: "req-7" }).end("{}"))
        for (const { message, requestId } of named) {
          assert.strictEqual(requestId, "req-7")
          assert.include(message, "req-7")
        }
        const odd = yield* failures((_, response) => response.writeHead(403, { [header]: "a canary" }).end("{}"))
        for (const { message, requestId } of odd) {
          assert.isUndefined(requestId)
          assert.notInclude(message, "canary")
        }
      }
    }))

  it.live("fails with the system's code if no server listens", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer(html)
      server.close()
      const error = yield* Effect.flip(withApi(server.url, (api) => api.invoices.page()))
      assert.include(
        error.message,
        `connection refused (ECONNREFUSED). Check the address (${server.url}/v1/invoices), and that it is up.`
      )
    }).pipe(Effect.scoped))

  it.live.each<readonly [number, (address: string) => string]>([
    [401, (address) => `Check the key, and that it belongs to this address (${address}).`],
    [404, (address) => `not found (404). The request was sent to ${address}. Check the base address`]
  ])("names the address after %s, without the query", ([status, words]) =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_, response) => response.writeHead(status).end())
      const { address, message } = yield* Effect.flip(
        withApi(`${server.url}/prefix`, (api) => api.invoices.page({ contract: "canary" }))
      )
      assert.strictEqual(address, `${server.url}/prefix/v1/invoices`)
      assert.include(message, words(`${server.url}/prefix/v1/invoices`))
      assert.notInclude(message, "canary")
    }).pipe(Effect.scoped))

  it.live("is not retried after a TLS failure", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer(html)
      const error = yield* Effect.flip(withApi(server.url.replace("http:", "https:"), (api) => api.invoices.page()))
      assert.deepInclude(error.reason, { _tag: "Transport", kind: "tls" })
      assert.strictEqual(error.attempts, 1)
      assert.include(error.message, "no secure connection")
    }).pipe(Effect.scoped))

  it.live("is requested through the proxy of the environment, except from this machine", () =>
    Effect.gen(function*() {
      const tunnels: Array<string> = []
      const proxy = yield* scriptedServer(html, (path) => tunnels.push(path))
      const server = yield* scriptedServer((_, response) => pageOf(response, [], null))
      yield* Effect.acquireRelease(
        Effect.sync(() => Object.assign(process.env, { HTTPS_PROXY: proxy.url, HTTP_PROXY: proxy.url })),
        () =>
          Effect.sync(() => {
            delete process.env["HTTPS_PROXY"]
            delete process.env["HTTP_PROXY"]
          })
      )
      yield* withApi(server.url, (api) => api.invoices.page())
      assert.deepStrictEqual([proxy.requests, tunnels], [[], []])
      yield* Effect.flip(withApi("https://payments.invalid", (api) => api.invoices.page()))
      assert.include(tunnels, "payments.invalid:443")
      // A proxy that is down looks like a service that is down.
      proxy.close()
      const { message } = yield* Effect.flip(withApi("https://payments.invalid", (api) => api.invoices.page()))
      assert.include(
        message,
        "Check the address (https://payments.invalid/v1/invoices), or that of the proxy (HTTPS_PROXY, HTTP_PROXY), and"
      )
      const local = yield* Effect.flip(withApi(proxy.url, (api) => api.invoices.page()))
      assert.include(local.message, `Check the address (${proxy.url}/v1/invoices), and`)
    }).pipe(Effect.scoped))

  it.live("is refused if the proxy's address has no scheme, except from this machine", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_, response) => pageOf(response, [], null))
      yield* Effect.acquireRelease(
        Effect.sync(() => Object.assign(process.env, { https_proxy: "canary.corp:3128" })),
        () => Effect.sync(() => delete process.env["https_proxy"])
      )
      yield* withApi(server.url, (api) => api.invoices.page())
      const error = yield* Effect.flip(withApi("https://payments.invalid", (api) => api.invoices.page()))
      assert.deepStrictEqual([error.reason._tag, error.attempts], ["InvalidRequest", 1])
      assert.include(error.message, "https_proxy is not the address of a proxy, such as http://proxy.example.com:3128")
      assert.notInclude(error.message, "canary")
    }).pipe(Effect.scoped))

  it.live("is requested with renamed parameters, the key and only standard headers", () =>
    Effect.gen(function*() {
      let headers: Record<string, unknown> = {}
      const server = yield* scriptedServer((request, response) => {
        headers = request.headers
        pageOf(response, [], null)
      })
      yield* withApi(server.url, (api) => api.invoices.page({ settlementTime: "1 &2", limit: 7 }), layerHttpClient, {
        PAYMENTS_INVOICE_PARAMS: "settlementTime=cycle,limit=size"
      })
      assert.deepStrictEqual(server.requests, ["/v1/invoices?cycle=1+%262&size=7"])
      assert.deepStrictEqual(Object.keys(headers).toSorted(), ["accept", "authorization", "connection", "host"])
      assert.strictEqual(headers["authorization"], `Bearer ${key}`)
    }))
})
