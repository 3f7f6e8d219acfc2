import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { type ListQuery, PaymentsApi, PaymentsConfig, type PaymentsError } from "../src/index.ts"
import type { InvoiceFilters } from "../src/Lists.ts"
import { layerHttpClient } from "../src/node.ts"
import { pageOf, type Script, scriptedServer } from "./ScriptedServer.ts"

const key = "canary-key-5ecret"

const ask = <A, E>(
  url: string,
  use: (api: PaymentsApi["Service"]) => Effect.Effect<A, E>,
  client = layerHttpClient,
  more: { readonly PAYMENTS_INVOICE_PARAMS?: string } = {}
) =>
  PaymentsApi.use(use).pipe(Effect.provide(PaymentsApi.layer.pipe(
    Layer.provide(client),
    Layer.provide(Layer.effect(
      PaymentsConfig,
      PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make(key), ...more })
    ))
  )))

/** Lists all invoices from a server that answers so, and gives the error it must end with. */
const failure = Effect.fnUntraced(function*(script: Script, query: ListQuery<InvoiceFilters> = {}) {
  const server = yield* scriptedServer(script)
  const errors: Array<PaymentsError> = []
  for (const client of [layerHttpClient, FetchHttpClient.layer]) {
    server.requests.length = 0
    const error = yield* Effect.flip(ask(server.url, (api) => Stream.runDrain(api.invoices.pages(query)), client))
    assert.strictEqual(error._tag, "PaymentsError")
    if (error._tag === "PaymentsError") errors.push(error)
    assert.notInclude(`${error.message} ${JSON.stringify(error)}`, key)
  }
  const [first, second] = errors
  assert.deepStrictEqual([first?.reason._tag, first?.attempts], [second?.reason._tag, second?.attempts])
  return { reason: first?.reason, error: first, requests: server.requests }
}, Effect.scoped)

const html: Script = (_, response) =>
  response.writeHead(200, { "content-type": "text/html" }).end("<html>Welcome</html>")

describe("a page over HTTP", () => {
  it.live.each(
    [
      [401, "Unauthorized", 1],
      [403, "Forbidden", 1],
      [404, "NotFound", 1],
      [400, "InvalidRequest", 1],
      [422, "InvalidRequest", 1],
      [429, "RateLimited", 1],
      [500, "ServerFailure", 3],
      [501, "ServerFailure", 1],
      [503, "ServerFailure", 3],
      [408, "Timeout", 3]
    ] as const
  )("status %s is %s after so many attempts", ([status, tag, attempts]) =>
    Effect.gen(function*() {
      const { error, requests } = yield* failure((_, response) =>
        response.writeHead(status, {
          "content-type": "application/json",
          "retry-after": "3600",
          "x-request-id": "req-7"
        })
          .end(`{"error":{"code":"SOME_CODE","detail":"canary ${key}"}}`)
      )
      // A wait of an hour is handed back instead of being waited for.
      const waited = status === 500 || status === 503 ? 1 : attempts
      assert.deepStrictEqual([error?.reason._tag, error?.status, error?.attempts, requests.length], [
        tag,
        status,
        waited,
        waited
      ])
      assert.deepStrictEqual([error?.requestId, error?.body?.code], ["req-7", "SOME_CODE"])
      assert.include(error?.message, "req-7")
    }))

  it.live("asks again after failures that pass, and counts the attempts", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((request, response, count) =>
        count === 1
          ? response.writeHead(503).end()
          : count === 2
          ? request.socket.destroy()
          : pageOf(response, [`{"id":"a"}`], null)
      )
      const page = yield* ask(server.url, (api) => api.invoices.page())
      assert.deepStrictEqual([page.attempts, page.items], [3, [{ id: "a" }]])
    }))

  it.live("goes on where it stood after an error", () =>
    Effect.gen(function*() {
      let broken = true
      const server = yield* scriptedServer((request, response) => {
        const second = request.url?.includes("cursor=two")
        if (second && broken) return response.writeHead(500).end()
        return pageOf(response, [`{"id":"${second ? "b" : "a"}"}`], second ? null : "two")
      })
      const error = yield* Effect.flip(ask(server.url, (api) => Stream.runDrain(api.invoices.stream())))
      assert.strictEqual(error._tag, "PaymentsError")
      if (error._tag !== "PaymentsError") return
      broken = false
      const rest = yield* ask(server.url, (api) => Stream.runCollect(api.invoices.stream({ position: error.position })))
      assert.deepStrictEqual(rest, [{ id: "b" }])
    }))

  it.live("tells HTML from JSON that ends early", () =>
    Effect.gen(function*() {
      const page = yield* failure(html)
      assert.deepInclude(page.reason, { _tag: "MalformedResponse", kind: "notJson" })
      assert.strictEqual(page.error?.attempts, 1)
      const cut = yield* failure((_, response) => response.writeHead(200).end(`{"items":[{"id":"a"},{"id`))
      assert.deepInclude(cut.reason, { _tag: "Transport", kind: "truncated" })
      assert.strictEqual(cut.error?.attempts, 3)
      const half = yield* failure((_, response) =>
        response.writeHead(200).end(Buffer.from(`{"items":[{"id":"Marí`).subarray(0, -1))
      )
      assert.deepInclude(half.reason, { _tag: "Transport", kind: "truncated" })
      const short = yield* failure((_, response) => {
        response.writeHead(200, { "content-length": "1000" }).write(`{"items":[`)
        response.socket?.end()
      })
      assert.deepInclude(short.reason, { _tag: "Transport", kind: "truncated" })
    }))

  it.live.each(
    [
      ["", "MalformedResponse", ""],
      ["[]", "MalformedResponse", "(root)"],
      [`{"cursor":null}`, "MalformedResponse", "items"],
      [`{"items":[]}`, "PaginationFault", undefined],
      [`{"items":[],"Cursor":null}`, "PaginationFault", undefined],
      [`{"items":[],"cursor":7}`, "MalformedResponse", "cursor"],
      [`{"items":[],"cursor":"\\ud800"}`, "MalformedResponse", "cursor"],
      [`{"items":[{"id":"a"},{"amount":1}],"cursor":null}`, "MalformedResponse", "items[1].id"],
      [`{"items":[{"id":"a","amount":1.5}],"cursor":null}`, "MalformedResponse", "items[0].amount"],
      [`{"items":[{"id":"a","amount":9007199254740990.6}],"cursor":null}`, "MalformedResponse", "items[0].amount"],
      [`{"items":[{"id":"a","amount":1e400}],"cursor":null}`, "MalformedResponse", "items[0].amount"],
      [`{"items":[null],"cursor":null}`, "MalformedResponse", "items[0]"]
    ] as const
  )("refuses the complete answer %s at once", ([body, tag, path]) =>
    Effect.gen(function*() {
      const { error, reason } = yield* failure((_, response) => response.writeHead(200).end(body))
      assert.deepStrictEqual([reason?._tag, error?.attempts], [tag, 1])
      if (reason?._tag === "MalformedResponse" && path !== "") assert.strictEqual(reason.path, path)
    }))

  it.live("refuses bytes that are not UTF-8 and bodies beyond the cap", () =>
    Effect.gen(function*() {
      const bytes = yield* failure((_, response) => response.writeHead(200).end(Buffer.from([0x7b, 0xff, 0x7d])))
      assert.deepInclude(bytes.reason, { _tag: "MalformedResponse", kind: "notJson" })
      const large = yield* failure((_, response) => response.writeHead(200).end(Buffer.alloc(33 * 1024 * 1024, " ")))
      assert.deepInclude(large.reason, { _tag: "MalformedResponse", kind: "tooLarge" })
    }))

  it.live("does not follow a redirect, nor show another origin the key", () =>
    Effect.gen(function*() {
      const other = yield* scriptedServer(html)
      const { reason } = yield* failure((_, response) =>
        response.writeHead(302, { location: `${other.url}/v1/invoices` }).end()
      )
      assert.deepInclude(reason, { _tag: "RedirectRefused", status: 302 })
      assert.deepStrictEqual(other.requests, [])
    }))

  it.live("says that nobody listens there", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer(html)
      server.close()
      const error = yield* Effect.flip(ask(server.url, (api) => api.invoices.page()))
      assert.include(error.message, "connection refused (ECONNREFUSED)")
    }))

  it.live.each([1, 2, 5])("catches a cycle of %s cursors", (length) =>
    Effect.gen(function*() {
      const { reason, requests } = yield* failure((_, response, count) =>
        pageOf(response, [`{"id":"${count}"}`], `c${count % length}`)
      )
      assert.deepInclude(reason, { _tag: "PaginationFault", kind: "repeatedCursor" })
      assert.isAtMost(requests.length, length + 2)
    }))

  it.live("knows TLS that cannot be made, and does not try again", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer(html)
      const error = yield* Effect.flip(ask(server.url.replace("http:", "https:"), (api) => api.invoices.page()))
      assert.isTrue(error._tag === "PaymentsError" && error.attempts === 1 && error.reason._tag === "Transport")
      assert.include(error.message, "no secure connection")
    }))

  it.live.each(["100000", "-5", "soon", "Sat, 01 Jan 2000 00:00:00 GMT"])(
    "does not obey Retry-After: %s",
    (wish) =>
      Effect.gen(function*() {
        const { error } = yield* failure((_, response) => response.writeHead(503, { "retry-after": wish }).end())
        assert.strictEqual(error?.attempts, 3)
      })
  )

  it.live.each([400, 404, 410, 422])(
    "tells a cursor refused with %s from a request refused with it",
    (status) =>
      Effect.gen(function*() {
        const cursor = yield* failure((request, response) =>
          request.url?.includes("cursor=") ? response.writeHead(status).end() : pageOf(response, [`{"id":"a"}`], "old")
        )
        assert.deepInclude(cursor.reason, { _tag: "PaginationFault", kind: "cursorRefused" })
        assert.isUndefined(cursor.error?.position)
        const everything = yield* failure((_, response, count) =>
          count === 1 ? pageOf(response, [`{"id":"a"}`], "old") : response.writeHead(status).end()
        )
        assert.notStrictEqual(everything.reason?._tag, "PaginationFault")
        assert.isDefined(everything.error?.position)
      })
  )

  it.live("asks for the next page while this one is used, and not ahead of that", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_, response, count) => pageOf(response, [`{"id":"${count}"}`], `c${count}`))
      const asked = (prefetch: number) =>
        ask(server.url, (api) => {
          server.requests.length = 0
          return api.invoices.pages({ prefetch }).pipe(
            Stream.take(1),
            Stream.runForEach(() => Effect.sleep("300 millis")),
            Effect.map(() => server.requests.length)
          )
        })
      assert.deepStrictEqual([yield* asked(0), yield* asked(1)], [1, 2])
    }))

  it.live("goes through the proxy of the environment, but for this machine", () =>
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
      yield* ask(server.url, (api) => api.invoices.page())
      assert.deepStrictEqual([proxy.requests, tunnels], [[], []])
      yield* Effect.flip(ask("https://payments.invalid", (api) => api.invoices.page()))
      assert.include(tunnels, "payments.invalid:443")
    }).pipe(Effect.scoped))

  it.live("sends renamed parameters, and the key and nothing else in the headers", () =>
    Effect.gen(function*() {
      let headers: Record<string, unknown> = {}
      const server = yield* scriptedServer((request, response) => {
        headers = request.headers
        pageOf(response, [], null)
      })
      yield* ask(server.url, (api) => api.invoices.page({ settlementTime: "1 &2", limit: 7 }), layerHttpClient, {
        PAYMENTS_INVOICE_PARAMS: "settlementTime=cycle,limit=size"
      })
      assert.deepStrictEqual(server.requests, ["/v1/invoices?cycle=1+%262&size=7"])
      assert.deepStrictEqual(Object.keys(headers).toSorted(), ["accept", "authorization", "connection", "host"])
      assert.strictEqual(headers["authorization"], `Bearer ${key}`)
    }))

  it.live("catches a service that ignores a filter", () =>
    Effect.gen(function*() {
      const record = `{"id":"a","contract":"other","paymentDate":"2024-05-01T10:00:00.000Z"}`
      const answer: Script = (_, response) => pageOf(response, [record], null)
      const ignored = yield* failure(answer, { contract: "mine" })
      assert.deepInclude(ignored.reason, { _tag: "FilterNotApplied", field: "contract" })
      assert.notInclude(ignored.error?.message, "mine")
      const server = yield* scriptedServer(answer)
      for (const paymentDate of ["2024-05-01", "2024-05-01T10:00:00Z", "2024-05-01T10:00:00.000Z"]) {
        const page = yield* ask(server.url, (api) => api.invoices.page({ paymentDate }))
        assert.strictEqual(page.items.length, 1)
      }
    }))

  it.live("sets a record aside that does not decode, with its place, path and exact text", () =>
    Effect.gen(function*() {
      const records = [`{"id":"a"}`, `{"id":"b","amount":1.50}`, `{"amount":1}`, `{"id":"c","amount":2e0}`] as const
      const server = yield* scriptedServer((_, response) => pageOf(response, records, null))
      const page = yield* ask(server.url, (api) => api.invoices.page({ onBadRecord: "quarantine" }))
      assert.deepStrictEqual(page.items.map(({ id }) => id), ["a", "c"])
      assert.deepStrictEqual(page.texts(), [records[0], records[3]])
      assert.deepStrictEqual(page.bad.map(({ id, index, path, text }) => [index, id, path, text]), [
        [1, "b", "amount", records[1]],
        [2, undefined, "id", records[2]]
      ])
    }))
})
