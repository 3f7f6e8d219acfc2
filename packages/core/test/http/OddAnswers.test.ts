/**
 * Malformed or incomplete HTTP answers. They are written to the socket directly, since Node's HTTP server refuses them.
 */
import { assert, describe, it } from "@effect/vitest"
import { page } from "@payments/testkit/PageBody"
import { scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect, Layer, Redacted } from "effect"
import { FetchHttpClient, type HttpClient } from "effect/http"
import { type AddressInfo, createServer, type Socket } from "node:net"
import { PaymentsApi, PaymentsConfig, type PaymentsError } from "../../src/index.ts"
import { layerHttpClient } from "../../src/node.ts"

const onePage = page([{ id: "a" }])
const ok = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${onePage.length}\r\n\r\n${onePage}`

/** A server that answers each request with these bytes, part by part. If `closes`, it then closes the connection. */
const rawServer = (parts: ReadonlyArray<string>, closes = true) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly url: string; readonly requests: () => number; readonly close: () => void }>((resume) => {
      const sockets = new Set<Socket>()
      let requests = 0
      const server = createServer((socket) => {
        sockets.add(socket.on("error", () => {}).setNoDelay())
        socket.on("data", () => {
          requests++
          const send = (index: number): void => {
            const part = parts[index]
            if (part === undefined) return void (closes && socket.end())
            socket.write(part, "latin1", () => setTimeout(() => send(index + 1), 5))
          }
          send(0)
        })
      })
      const close = () => {
        server.close()
        for (const socket of sockets) socket.destroy()
      }
      server.listen(0, "127.0.0.1", () => {
        const { port } = server.address() as AddressInfo // of a server that listens on TCP
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, requests: () => requests, close }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

const readPages = (url: string, client: Layer.Layer<HttpClient.HttpClient> = layerHttpClient, times = 1) =>
  PaymentsApi.use((api) => Effect.forEach(Array.from({ length: times }), () => api.invoices.page())).pipe(
    Effect.provide(PaymentsApi.layer.pipe(
      Layer.provide(client),
      Layer.provide(Layer.effect(
        PaymentsConfig,
        Effect.orDie(PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make("k") }))
      ))
    ))
  )

const clients = [["the Node client", layerHttpClient], ["fetch", FetchHttpClient.layer]] as const

const tooLong = `HTTP/1.1 200 OK\r\nx-long: ${"a".repeat(100_000)}\r\n\r\n`
const tooMany = `HTTP/1.1 200 OK\r\n${"x-many: canary\r\n".repeat(5000)}\r\n`

const notHttp: ReadonlyArray<readonly [title: string, answer: string]> = [
  ["headers that are too long", tooLong],
  ["too many headers", tooMany],
  ["a header without a colon", "HTTP/1.1 200 OK\r\ncanary canary\r\n\r\n"],
  ["a header with a NUL", "HTTP/1.1 200 OK\r\nx-canary: a\0b\r\n\r\n"],
  ["two lengths", `HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}`],
  ["another protocol", "SSH-2.0-canary\r\n"],
  ["chunks without valid lengths", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\ncanary\r\n"]
]

describe.each(clients)("with %s, an answer", (_, client) => {
  it.live.each(notHttp)("with %s is malformed and not retried", ([, answer]) =>
    Effect.gen(function*() {
      const server = yield* rawServer([answer])
      const error: PaymentsError = yield* Effect.flip(readPages(server.url, client))
      assert.deepInclude(error.reason, { _tag: "MalformedResponse", kind: "notHttp" })
      assert.strictEqual(server.requests(), 1)
      assert.match(error.message, /^invoices: malformed answer: /)
      assert.notInclude(error.message, "canary")
    }).pipe(Effect.scoped))

  it.live.each<readonly [where: string, answer: string]>([
    ["its status line", "HTTP/1.1 2"],
    ["its headers", "HTTP/1.1 200 OK\r\nconte"],
    ["a chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"i"]
  ])("that ends within %s is truncated and retried", ([, answer]) =>
    Effect.gen(function*() {
      const server = yield* rawServer([answer])
      const error = yield* Effect.flip(readPages(server.url, client))
      assert.strictEqual(error.reason._tag, "Transport")
      assert.deepStrictEqual([error.attempts, server.requests()], [3, 3])
    }).pipe(Effect.scoped))

  it.live.each([
    ["206", "bytes 0-34/9000"],
    ["206", "bytes 0-34/*"],
    ["200", "items 0-0/250"]
  ])(
    "with status %s and the content-range %s is refused as part of a page",
    ([status, range]) =>
      Effect.gen(function*() {
        const server = yield* scriptedServer((_request, response) =>
          response.writeHead(Number(status), { "content-range": range }).end(onePage)
        )
        const error = yield* Effect.flip(readPages(server.url, client))
        assert.deepInclude(error.reason, { _tag: "MalformedResponse", kind: "partial" })
        assert.strictEqual(
          error.message,
          "invoices: malformed answer: only part of a page (content-range), but the whole page was requested."
        )
      }).pipe(Effect.scoped)
  )

  it.live("with status 206 and a whole page is accepted: the document names no status", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_request, response) => response.writeHead(206).end(onePage))
      const [got] = yield* readPages(server.url, client)
      assert.deepStrictEqual(got?.items, [{ id: "a" }])
    }).pipe(Effect.scoped))
})

const interim = "HTTP/1.1 100 Continue\r\n\r\n"

describe("an unrequested interim answer (RFC 9110 §15.2)", () => {
  it.live.each(
    [
      ["before the answer", [interim, ok]],
      ["together with the answer", [interim + ok]],
      ["several times, with headers", [`HTTP/1.1 100 \r\nx-a: b\r\n\r\n${interim}`, `${interim}${ok}`]],
      ["byte by byte", [...interim, ok]],
      ["split within the answer's status line", [`${interim}HTTP/1.1`, ok.slice("HTTP/1.1".length)]],
      ["after another one", [`HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n${interim}`, ok]]
    ] as const
  )("is skipped: %s", ([, parts]) =>
    Effect.gen(function*() {
      const server = yield* rawServer(parts, false)
      const pages = yield* readPages(server.url, layerHttpClient, 3)
      assert.deepStrictEqual(pages.map(({ attempts, items }) => [attempts, items]), [
        [1, [{ id: "a" }]],
        [1, [{ id: "a" }]],
        [1, [{ id: "a" }]]
      ])
    }).pipe(Effect.scoped))

  it.live("is not removed from a body that contains its text", () =>
    Effect.gen(function*() {
      const body = `{"items":[{"id":"HTTP/1.1 100 Continue"}],\r\n\r\n"cursor":null}`
      const [head, tail] = [body.slice(0, body.indexOf("HTTP")), body.slice(body.indexOf("HTTP"))]
      const server = yield* rawServer([
        `${interim}HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`,
        head,
        tail
      ], false)
      const [got] = yield* readPages(server.url)
      assert.deepStrictEqual(got?.items, [{ id: "HTTP/1.1 100 Continue" }])
    }).pipe(Effect.scoped))
})

describe("https", () => {
  it.live("to a port that speaks http reports that, and does not mention the certificate", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_, response) => response.end(onePage))
      for (const [, client] of clients) {
        const error = yield* Effect.flip(readPages(server.url.replace("http:", "https:"), client))
        assert.deepInclude(error.reason, { _tag: "Transport", kind: "tls" })
        assert.include(error.message, "the port does not speak TLS")
        assert.notInclude(error.message, "certificate")
        assert.strictEqual(error.attempts, 1)
      }
    }).pipe(Effect.scoped))
})
