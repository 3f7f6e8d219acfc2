import { assert, describe, it } from "@effect/vitest"
import { page } from "@payments/testkit/PageBody"
import { type Script, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Duration, Effect, Fiber, Layer, Redacted, Schema, Stream } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import type { ServerResponse } from "node:http"
import { type AddressInfo, createServer, type Socket } from "node:net"
import * as zlib from "node:zlib"
import { PaymentsApi, PaymentsConfig } from "../../src/index.ts"
import { type ConnectionOptions, layerHttpClient, layerHttpClientWith } from "../../src/node.ts"

const onePage = page([{ id: "a", description: "ñ 漢" }])
const bomb = Buffer.alloc(64 * 1024 * 1024, " ")
const encoders = {
  gzip: zlib.gzipSync,
  deflate: zlib.deflateSync,
  br: (bytes: Uint8Array) => zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }),
  zstd: zlib.zstdCompressSync
}

const answering = (coding: string, body: Uint8Array): Script => (_, response) =>
  response.writeHead(200, { "content-type": "application/json", "content-encoding": coding }).end(body)

const configured = (url: string, client: Layer.Layer<HttpClient.HttpClient>) =>
  PaymentsApi.layer.pipe(
    Layer.provide(client),
    Layer.provide(Layer.effect(
      PaymentsConfig,
      PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: Redacted.make("k") })
    ))
  )

/** Reads the first page of invoices through the Node client, or through a client derived from it. */
const readPage = (
  url: string,
  change: (client: HttpClient.HttpClient) => HttpClient.HttpClient = (client) => client,
  client: Layer.Layer<HttpClient.HttpClient> = layerHttpClient
) => {
  const changed = Layer.effect(HttpClient.HttpClient, Effect.map(HttpClient.HttpClient, change))
  return PaymentsApi.use((api) => api.invoices.page()).pipe(
    Effect.provide(configured(url, Layer.provide(changed, client)))
  )
}

/** A server that accepts connections and never answers, so that no TLS handshake completes. Returns its port. */
const silentServer = Effect.acquireRelease(
  Effect.callback<{ readonly port: number; readonly close: () => void }>((resume) => {
    const sockets: Array<Socket> = []
    const server = createServer((socket) => void sockets.push(socket.on("error", () => {}).resume()))
    const close = () => {
      server.close()
      for (const socket of sockets) socket.destroy()
    }
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo // of a server that listens on TCP
      resume(Effect.succeed({ port, close }))
    })
  }),
  ({ close }) => Effect.sync(close)
).pipe(Effect.map(({ port }) => port))

const reasonOf = (effect: ReturnType<typeof readPage>) =>
  Effect.map(Effect.flip(effect), (error) => error._tag === "PaymentsError" ? error.reason : undefined)

/** Replaces the response by one with a stream as its body, so that it cannot be read by the tuned read. */
const restreamed = HttpClient.transformResponse(
  Effect.map((response: HttpClientResponse.HttpClientResponse) =>
    HttpClientResponse.fromWeb(
      response.request,
      new Response(Stream.toReadableStream(response.stream), {
        status: response.status,
        headers: response.headers as Record<string, string> // a header of an answer is never undefined
      })
    )
  )
)

describe("a compressed answer", () => {
  it.live.each(Object.keys(encoders) as Array<keyof typeof encoders>)(
    "in %s is decoded, even if it was not requested, by all ways to read it",
    (coding) =>
      Effect.gen(function*() {
        const server = yield* scriptedServer(answering(coding, encoders[coding](Buffer.from(onePage))))
        const read = [yield* readPage(server.url), yield* readPage(server.url, restreamed)]
        const value = { id: "a", description: "ñ 漢" }
        for (const { items, records } of read) {
          assert.deepStrictEqual(items, [value])
          assert.deepStrictEqual(records(), [{ id: "a", text: JSON.stringify(value), value }])
        }
      }).pipe(Effect.scoped)
  )

  it.live.each(Object.keys(encoders) as Array<keyof typeof encoders>)(
    "in %s that exceeds the size limit when decompressed is refused at once, over any client",
    (coding) =>
      Effect.gen(function*() {
        const server = yield* scriptedServer(answering(coding, encoders[coding](bomb)))
        const clients = [readPage(server.url), readPage(server.url, restreamed)]
        // The platform's fetch does not support zstd, and returns the compressed bytes.
        if (coding !== "zstd") clients.push(readPage(server.url, undefined, FetchHttpClient.layer))
        for (const client of clients) {
          assert.deepInclude(yield* reasonOf(client), { _tag: "MalformedResponse", kind: "tooLarge" })
        }
        assert.strictEqual(server.requests.length, clients.length)
      }).pipe(Effect.scoped)
  )

  it.live.each(Object.keys(encoders) as Array<keyof typeof encoders>)(
    "in %s is truncated if it ends early, and malformed if it is not in that format",
    (coding) =>
      Effect.gen(function*() {
        const whole = encoders[coding](Buffer.from(onePage.repeat(100)))
        const half = yield* scriptedServer(answering(coding, whole.subarray(0, whole.length >> 1)))
        assert.deepInclude(yield* reasonOf(readPage(half.url)), { _tag: "Transport", kind: "truncated" })
        const wrong = yield* scriptedServer(answering(coding, Buffer.from(`<html>${onePage}`)))
        assert.deepInclude(yield* reasonOf(readPage(wrong.url)), { _tag: "MalformedResponse", kind: "notJson" })
      }).pipe(Effect.scoped)
  )

  it.live("in an unknown coding is refused with a message that says so", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer(answering("secret-canary", Buffer.from([0xff, 0x00])))
      for (const client of [layerHttpClient, FetchHttpClient.layer]) {
        const error = yield* Effect.flip(readPage(server.url, undefined, client))
        assert.include(error.message, "content-encoding that is not decoded")
        assert.notInclude(error.message, "canary")
      }
    }).pipe(Effect.scoped))
})

describe("the Node client", () => {
  it.live("is an HttpClient: requests can be changed, answers observed, bodies read in every way", () =>
    Effect.gen(function*() {
      const seen: Array<unknown> = []
      const server = yield* scriptedServer((request, response) => {
        seen.push(request.headers["x-team"])
        response.writeHead(200, { "x-many": ["1", "2"] }).end(onePage)
      })
      yield* readPage(server.url, (client) =>
        client.pipe(
          HttpClient.mapRequest(HttpClientRequest.setHeader("x-team", "billing")),
          HttpClient.tap((response) => Effect.sync(() => seen.push(response.status)))
        ))
      assert.deepStrictEqual(seen, ["billing", 200])
      const client = yield* HttpClient.HttpClient
      const get = client.get(server.url)
      assert.deepStrictEqual((yield* get).headers["x-many"], "1, 2")
      assert.strictEqual(yield* Effect.flatMap(get, (response) => response.text), onePage)
      assert.deepStrictEqual(yield* Effect.flatMap(get, (response) => response.json), JSON.parse(onePage))
      assert.strictEqual(
        yield* Effect.flatMap(get, ({ stream }) => Stream.mkString(Stream.decodeText(stream))),
        onePage
      )
      assert.deepStrictEqual(
        yield* Effect.flatMap(get, HttpClientResponse.schemaBodyJson(Schema.Struct({ cursor: Schema.Null }))),
        { cursor: null }
      )
      const posted = yield* client.post(server.url, {
        body: HttpClientRequest.bodyText(HttpClientRequest.post(""), "x").body
      })
      assert.strictEqual(posted.status, 200)
    }).pipe(Effect.provide(layerHttpClient), Effect.scoped))

  const inBody: Script = (_, response) => void response.writeHead(200).write(`{"items":[`)
  const inCompressedBody: Script = (_, response) => {
    const bytes = zlib.gzipSync(onePage.repeat(100))
    response.writeHead(200, { "content-encoding": "gzip" }).write(bytes.subarray(0, bytes.length >> 1))
  }
  const withHeader = HttpClient.mapRequest(HttpClientRequest.setHeader("x-team", "billing"))

  it.live.each<readonly [string, Script, ((client: HttpClient.HttpClient) => HttpClient.HttpClient) | undefined]>([
    ["before the headers", () => {}, undefined],
    ["before the headers, with a changed client", () => {}, withHeader],
    ["in the body", inBody, undefined],
    ["in the body, with a changed client", inBody, withHeader],
    ["in a compressed body, with a changed client", inCompressedBody, withHeader]
  ])(
    "closes the connection when it is interrupted %s",
    ([, script, change]) =>
      Effect.gen(function*() {
        const closed = Promise.withResolvers<string>()
        const requested = Promise.withResolvers<void>()
        const server = yield* scriptedServer((request, response, count) => {
          request.socket.on("close", () => closed.resolve("closed"))
          script(request, response, count)
          requested.resolve()
        })
        const fiber = yield* Effect.forkChild(readPage(server.url, change))
        yield* Effect.promise(() => requested.promise)
        yield* Effect.sleep("50 millis")
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(yield* Effect.promise(() => closed.promise), "closed")
      }).pipe(Effect.scoped)
  )

  it.live("keeps a body that is not read yet, and returns all of it later", () =>
    Effect.gen(function*() {
      const large = Buffer.alloc(8 * 1024 * 1024, "x")
      const server = yield* scriptedServer((_, response) => response.writeHead(200).end(large))
      const response = yield* HttpClient.get(server.url)
      yield* Effect.sleep("100 millis")
      const size = yield* Stream.runFold(response.stream, () => 0, (total, chunk) => total + chunk.length)
      assert.strictEqual(size, large.length)
    }).pipe(Effect.provide(layerHttpClient), Effect.scoped))

  it.live.each([[6, layerHttpClient], [2, layerHttpClientWith({ connections: 2 })]] as const)(
    "uses as many connections as the options allow: %s for six pages at once",
    ([most, client]) =>
      Effect.gen(function*() {
        const sockets = new Set<unknown>()
        const waiting: Array<ServerResponse> = []
        // Answer only when the allowed number of requests is waiting.
        const server = yield* scriptedServer((request, response) => {
          sockets.add(request.socket)
          waiting.push(response)
          if (waiting.length === most) { for (const ready of waiting.splice(0)) ready.writeHead(200).end(onePage) }
        })
        const api = PaymentsApi.use(({ invoices }) =>
          Effect.forEach(Array.from({ length: 6 }), () => invoices.page(), { concurrency: "unbounded" })
        )
        assert.strictEqual((yield* api.pipe(Effect.provide(configured(server.url, client)))).length, 6)
        assert.strictEqual(sockets.size, most)
      }).pipe(Effect.scoped)
  )

  it.live("times out a connection after connectTimeout", () =>
    Effect.gen(function*() {
      const port = yield* silentServer
      const giveUp = (options: ConnectionOptions) =>
        readPage(`https://127.0.0.1:${port}`, undefined, layerHttpClientWith(options)).pipe(
          Effect.flip,
          Effect.map((error) => ({ options, error }))
        )
      const short = { connectTimeout: Duration.millis(100) }
      const { error, options } = yield* Effect.raceFirst(giveUp({}), giveUp(short))
      assert.strictEqual(options, short)
      assert.deepInclude(error._tag === "PaymentsError" ? error.reason : undefined, {
        _tag: "Timeout",
        phase: "connect"
      })
    }).pipe(Effect.scoped))

  it.live.each([{ connections: 0 }, { connections: 1.5 }, { connectTimeout: Duration.zero }])(
    "refuses the options %j",
    (options) =>
      Effect.gen(function*() {
        const exit = yield* Effect.exit(Layer.build(layerHttpClientWith(options)))
        assert.strictEqual(exit._tag, "Failure")
      }).pipe(Effect.scoped)
  )

  it.live("accepts any status and any header", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((request) =>
        request.socket.end("HTTP/1.1 799 Odd\r\nx-odd: \u00ff\u00fe\r\ncontent-length: 0\r\n\r\n")
      )
      assert.deepInclude(yield* reasonOf(readPage(server.url)), { _tag: "UnexpectedStatus", status: 799 })
      const empty = yield* scriptedServer((_, response) => response.writeHead(204).end())
      assert.deepInclude(yield* reasonOf(readPage(empty.url)), { _tag: "MalformedResponse", kind: "notJson" })
    }).pipe(Effect.scoped))
})
