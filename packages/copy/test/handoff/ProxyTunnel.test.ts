/** Requests through an HTTP proxy. */
import { assert, describe, it } from "@effect/vitest"
import { listening } from "@payments/testkit/Listening"
import { makeSelfSigned } from "@payments/testkit/postgres/Certificates"
import { Duration, Effect } from "effect"
import { createServer } from "node:http"
import * as https from "node:https"
import { connect, type Socket } from "node:net"
import * as tls from "node:tls"
import { makePost, type Target } from "../../src/handoff/Post.ts"

/** Starts a proxy that answers with this status, and returns its address and what it was asked. */
const startProxy = Effect.fnUntraced(function*(status: number) {
  const asked: Array<{ readonly place: string; readonly headers: object }> = []
  const proxy = createServer((_, response) => response.writeHead(500).end())
  proxy.on("connect", ({ headers, url: place = "" }, socket: Socket) => {
    asked.push({ place, headers })
    socket.on("error", () => {})
    if (status === 0) return
    if (status !== 200) {
      socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: 6\r\n\r\nhidden`)
      return
    }
    const [host = "", port = ""] = place.split(":")
    const through = connect(Number(port), host, () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n")
      through.pipe(socket).pipe(through)
    })
    through.on("error", () => socket.destroy())
  })
  return { url: new URL(`http://127.0.0.1:${yield* listening(proxy)}`), asked }
})

const body = Buffer.from(`{"a":1}`)

const postThrough = (url: string, proxy: URL, more: Partial<Target> = {}) =>
  makePost({ url: new URL(url), timeout: Duration.minutes(1), allowPrivate: true, proxy, ...more })

describe("a proxy", () => {
  it.live("gets the name of the host, and the receiver the request, over one tunnel", () =>
    Effect.gen(function*() {
      const { certificate: cert, key } = makeSelfSigned("127.0.0.1")
      const arrived: Array<string> = []
      const port = yield* listening(https.createServer({ cert, key }, (request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          arrived.push(`${request.headers["webhook-id"]} ${Buffer.concat(chunks).toString()}`)
          response.writeHead(204).end()
        })
      }))
      const proxy = yield* startProxy(200)
      const post = yield* postThrough(`https://127.0.0.1:${port}/hook?token=hidden`, proxy.url)
      // The certificate is checked through the tunnel too.
      assert.deepStrictEqual(yield* post({ "webhook-id": "a" }, body), { _tag: "NoAnswer", problem: "tls" })
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          const trusted = tls.getCACertificates("default")
          tls.setDefaultCACertificates([...trusted, cert])
          return trusted
        }),
        (trusted) => Effect.sync(() => tls.setDefaultCACertificates(trusted))
      )
      for (const id of ["b", "c"]) {
        assert.deepStrictEqual(yield* post({ "webhook-id": id }, body), {
          _tag: "Status",
          status: 204,
          retryAfter: undefined
        })
        // The connection is free after the end of the answer.
        yield* Effect.sleep("20 millis")
      }
      assert.deepStrictEqual(arrived, [`b {"a":1}`, `c {"a":1}`])
      assert.deepStrictEqual(proxy.asked.map(({ place }) => place), [`127.0.0.1:${port}`, `127.0.0.1:${port}`])
      assert.notInclude(JSON.stringify(proxy.asked), "hidden")
      assert.notInclude(JSON.stringify(proxy.asked), "webhook")
    }).pipe(Effect.scoped))

  it.live("that refuses or does not answer is a failed connection", () =>
    Effect.gen(function*() {
      for (const status of [407, 502]) {
        const { url } = yield* startProxy(status)
        const post = yield* postThrough("https://receiver.example", url)
        assert.deepStrictEqual(yield* post({}, body), { _tag: "NoAnswer", problem: "connection" })
      }
      const { url } = yield* startProxy(0)
      const slow = yield* postThrough("https://receiver.example", url, { timeout: Duration.millis(200) })
      const late = yield* slow({}, body)
      assert.include(["timeout", "connection"], late._tag === "NoAnswer" ? late.problem : late._tag)
      const absent = yield* postThrough("https://receiver.example", new URL("http://127.0.0.1:9"))
      assert.deepStrictEqual(yield* absent({}, body), { _tag: "NoAnswer", problem: "connection" })
    }).pipe(Effect.scoped))

  it.live("is not used for this machine over http, nor because of the environment", () =>
    Effect.gen(function*() {
      const proxy = yield* startProxy(200)
      const port = yield* listening(createServer((_, response) => response.writeHead(200).end()))
      const post = yield* postThrough(`http://127.0.0.1:${port}`, proxy.url)
      assert.deepInclude(yield* post({}, body), { _tag: "Status", status: 200 })
      assert.deepStrictEqual(proxy.asked, [])
    }).pipe(Effect.scoped))
})
