/** Requests to receivers on this machine, and the addresses that are refused. */
import { assert, describe, it } from "@effect/vitest"
import { overStandingClock } from "@payments/testkit/Clocks"
import { listening } from "@payments/testkit/Listening"
import { makeSelfSigned } from "@payments/testkit/postgres/Certificates"
import { scriptedServer } from "@payments/testkit/ScriptedServer"
import { Clock, Duration, Effect } from "effect"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import type { LookupAddress } from "node:dns"
import * as https from "node:https"
import type { Socket } from "node:net"
import { checkedLookup, isAllowed, makePost, type Target, urlProblem } from "../../src/handoff/Post.ts"

const target = (url: string, more: Partial<Target> = {}): Target => ({
  url: new URL(url),
  timeout: Duration.minutes(1),
  allowPrivate: false,
  ...more
})

const body = Buffer.from(`{"a":1}`)

describe("an address", () => {
  it("is https without a password, or http to this machine", () => {
    for (
      const url of [
        "https://example.com/a",
        "https://8.8.8.8",
        "http://localhost:1",
        "http://127.0.0.1",
        "http://[::1]:1"
      ]
    ) {
      assert.isUndefined(urlProblem(target(url)), url)
    }
    for (
      const url of [
        "http://example.com",
        "ftp://example.com",
        "file:///etc/passwd",
        "http://10.0.0.1",
        "http://[fe80::1]"
      ]
    ) {
      assert.include(urlProblem(target(url, { allowPrivate: true })), "https://", url)
    }
    for (const url of ["https://a@example.com", "https://:b@example.com"]) {
      assert.include(urlProblem(target(url)), "user name", url)
    }
  })

  it("is not private, however it is written, unless it is allowed", () => {
    const written = [
      "10.0.0.1",
      "172.16.0.1",
      "172.31.255.255",
      "192.168.1.1",
      "169.254.169.254",
      "100.64.0.1",
      "0.0.0.0",
      "198.18.0.1",
      "224.0.0.1",
      "255.255.255.255",
      "[::]",
      "[fe80::1]",
      "[fc00::1]",
      "[fd12::1]",
      "[ff02::1]",
      "[::ffff:10.0.0.1]",
      "[::ffff:a9fe:a9fe]",
      "[::10.0.0.1]",
      "[64:ff9b::a00:1]",
      "[2002:a00:1::]",
      "2852039166",
      "0xa9fea9fe",
      "0251.0376.0251.0376"
    ]
    for (const host of written) {
      assert.include(urlProblem(target(`https://${host}/`)), "private", host)
      assert.isUndefined(urlProblem(target(`https://${host}/`, { allowPrivate: true })), host)
    }
    for (const host of ["1.1.1.1", "172.32.0.1", "100.128.0.1", "[2606:4700::1111]", "[::ffff:8.8.8.8]"]) {
      assert.isUndefined(urlProblem(target(`https://${host}/`)), host)
    }
  })

  it("is not private and not this machine with a proxy either, unless it is allowed", () => {
    const proxy = new URL("http://proxy.example:3128")
    const hosts = ["10.0.0.1", "169.254.169.254", "[fe80::1]", "[fd12::1]", "[::ffff:10.0.0.1]"]
    for (const host of hosts) assert.include(urlProblem(target(`https://${host}/`, { proxy })), "private", host)
    const machine = ["localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.1", "127.9.9.9.", "[::1]"]
    for (const host of machine) {
      assert.include(urlProblem(target(`https://${host}/`, { proxy })), "machine of the proxy", host)
    }
    for (const host of [...hosts, ...machine]) {
      assert.isUndefined(urlProblem(target(`https://${host}/`, { proxy, allowPrivate: true })), host)
    }
    for (const host of ["1.1.1.1", "a.example", "notlocalhost", "localhost.example"]) {
      assert.isUndefined(urlProblem(target(`https://${host}/`, { proxy })), host)
    }
  })

  it("of a name is checked after it was resolved, also one of several", () => {
    const resolved = (url: string, addresses: ReadonlyArray<string>, all: boolean) => {
      let outcome: unknown
      const resolve = (
        _name: string,
        _options: object,
        callback: (error: null, found: Array<LookupAddress>) => void
      ) => callback(null, addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })))
      checkedLookup(target(url), resolve)("name", { all }, (error, address) => {
        outcome = error === null ? address : "refused"
      })
      return outcome
    }
    for (const all of [true, false]) {
      for (const inner of ["10.0.0.1", "127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254"]) {
        assert.strictEqual(resolved("https://example.com", [inner], all), "refused", inner)
        assert.strictEqual(resolved("https://example.com", ["1.1.1.1", inner], all), "refused", inner)
      }
      assert.strictEqual(resolved("https://example.com", [], all), "refused")
      assert.strictEqual(resolved("http://localhost", ["1.1.1.1"], all), "refused")
    }
    assert.strictEqual(resolved("https://example.com", ["1.1.1.1", "1.0.0.1"], false), "1.1.1.1")
    assert.deepStrictEqual(resolved("https://example.com", ["1.1.1.1"], true), [{ address: "1.1.1.1", family: 4 }])
    assert.isTrue(isAllowed(target("http://localhost"), "127.0.0.1"))
    assert.isFalse(isAllowed(target("http://localhost", { allowPrivate: true }), "10.0.0.1"))
  })
})

describe("a request", () => {
  it.live("arrives with its bytes and headers, over one connection, also by the name of this machine", () =>
    Effect.gen(function*() {
      const sockets = new Set<Socket>()
      const seen: Array<unknown> = []
      const { url } = yield* scriptedServer((request, response) => {
        sockets.add(request.socket)
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          seen.push([request.method, request.headers["webhook-id"], Buffer.concat(chunks).toString()])
          response.writeHead(204).end()
        })
      })
      const post = yield* makePost(target(url.replace("127.0.0.1", "localhost")))
      for (let nth = 0; nth < 3; nth++) {
        assert.deepStrictEqual(yield* post({ "webhook-id": "m" }, body), {
          _tag: "Status",
          status: 204,
          retryAfter: undefined
        })
        yield* Effect.sleep("5 millis")
      }
      assert.deepStrictEqual(seen, Array.from({ length: 3 }, () => ["POST", "m", `{"a":1}`]))
      assert.strictEqual(sockets.size, 1)
    }).pipe(Effect.scoped))

  it.live("is sent again at once if the receiver has just closed an idle connection", () =>
    Effect.gen(function*() {
      const { requests, url } = yield* scriptedServer((request, response, count) => {
        if (count === 2) request.socket.destroy()
        else response.end()
      })
      const post = yield* makePost(target(url))
      for (let nth = 0; nth < 2; nth++) {
        // On a busy machine, the end of the connection is not seen at once.
        assert.deepInclude(yield* overStandingClock(() => post({}, body)), { status: 200 })
        yield* Effect.sleep("5 millis")
      }
      assert.lengthOf(requests, 3)
    }).pipe(Effect.scoped))

  it.live("is not sent again after it was given up, or if its connection ends late", () =>
    Effect.gen(function*() {
      const { requests, url } = yield* scriptedServer((request, response, count) => {
        if (count % 2 === 1) response.end()
        else setTimeout(() => request.socket.destroy(), 300)
      })
      for (const problem of ["timeout", "connection"] as const) {
        const limits = { ...target(url) }
        const post = yield* makePost(limits)
        assert.deepInclude(yield* post({}, body), { status: 200 })
        yield* Effect.sleep("5 millis")
        // Only the second request may time out.
        if (problem === "timeout") limits.timeout = Duration.millis(50)
        assert.deepStrictEqual(yield* post({}, body), { _tag: "NoAnswer", problem })
        yield* Effect.sleep("50 millis")
      }
      assert.lengthOf(requests, 4)
    }).pipe(Effect.scoped))

  it.live("uses one connection for many, whatever the form of the answers", () =>
    Effect.gen(function*() {
      const sockets = new Set<Socket>()
      const { url } = yield* scriptedServer((request, response, count) => {
        sockets.add(request.socket)
        request.resume().on("end", () => {
          if (count % 3 === 0) response.writeHead(204).end()
          else if (count % 3 === 1) response.writeHead(200).end("x".repeat(20_000))
          else {
            response.write("x")
            // A tenth of a second later, the connection would not be used again.
            setImmediate(() => response.end("x"))
          }
        })
      })
      const post = yield* makePost(target(url))
      for (let nth = 0; nth < 100; nth++) assert.deepInclude(yield* post({}, body), { _tag: "Status" })
      assert.strictEqual(sockets.size, 1)
    }).pipe(Effect.scoped))

  it.live("says which status came, follows no redirect, and reads Retry-After in both forms", () =>
    overStandingClock(() =>
      Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        const { requests, url } = yield* scriptedServer((_request, response, count) => {
          const retryAfter = ["7", new Date(now + 60_000).toUTCString(), "soon", "-1"][count - 1] ?? ""
          response.writeHead(count === 4 ? 302 : 503, { "retry-after": retryAfter, location: "/elsewhere" }).end(
            "secret"
          )
        })
        const post = yield* makePost(target(url))
        const waits: Array<number | undefined> = []
        for (const status of [503, 503, 503, 302]) {
          const answer = yield* post({}, body)
          if (answer._tag !== "Status") return assert.fail(answer.problem)
          assert.strictEqual(answer.status, status)
          waits.push(answer.retryAfter === undefined ? undefined : Duration.toMillis(answer.retryAfter))
        }
        assert.strictEqual(waits[0], 7000)
        // A date has whole seconds.
        assert.closeTo(waits[1] ?? 0, 60_000, 1000)
        assert.deepStrictEqual(waits.slice(2), [undefined, undefined])
        assert.deepStrictEqual(requests, ["/", "/", "/", "/"])
        return undefined
      })
    ).pipe(Effect.scoped))

  it.live("has the status of an answer whose connection is reset in its body", () =>
    Effect.gen(function*() {
      let onStatus = () => {}
      const { requests, url } = yield* scriptedServer((request, response, count) => {
        if (count === 2) onStatus = () => void request.socket.resetAndDestroy()
        response.writeHead(count === 1 ? 200 : 202, { "content-length": 10 }).write("x")
        if (count === 1) response.end("123456789")
      })
      const post = yield* makePost(target(url))
      assert.deepInclude(yield* post({}, body), { status: 200 })
      // The connection is reset when the status has arrived.
      const listener = () => onStatus()
      subscribe("http.client.response.finish", listener)
      yield* Effect.addFinalizer(() => Effect.sync(() => unsubscribe("http.client.response.finish", listener)))
      assert.deepInclude(yield* post({}, body), { status: 202 })
      assert.lengthOf(requests, 2)
    }).pipe(Effect.scoped))

  it.live("does not wait for the body of an answer, and reads little of it", () =>
    Effect.gen(function*() {
      let isClosed = false
      const { url } = yield* scriptedServer((_request, response, count) => {
        response.on("close", () => void (isClosed = true))
        response.writeHead(200)
        const more = () => void (response.destroyed || response.write("x".repeat(65_536), more))
        if (count % 2 === 0) response.write("x")
        else more()
      })
      const post = yield* makePost(target(url))
      const took: [Array<number>, Array<number>] = [[], []]
      for (let nth = 0; nth < 6; nth++) {
        isClosed = false
        const [time, answer] = yield* Effect.timed(post({}, body))
        assert.deepInclude(answer, { status: 200 })
        took[nth % 2 === 0 ? 0 : 1].push(Duration.toMillis(time))
        while (!isClosed) yield* Effect.sleep("10 millis")
      }
      // A busy machine may take longer for one of them.
      for (const times of took) assert.isBelow(Math.min(...times), 900)
    }).pipe(Effect.scoped))

  it.live("without an answer names the cause, and nothing else", () =>
    Effect.gen(function*() {
      const { close, url } = yield* scriptedServer(() => {})
      const hangs = yield* makePost(target(url, { timeout: Duration.millis(100) }))
      assert.deepStrictEqual(yield* hangs({}, body), { _tag: "NoAnswer", problem: "timeout" })
      yield* Effect.promise(close)
      const refused = yield* makePost(target(url))
      assert.deepStrictEqual(yield* refused({}, body), { _tag: "NoAnswer", problem: "connection" })
      const { certificate: cert, key } = makeSelfSigned("127.0.0.1")
      const port = yield* listening(https.createServer({ cert, key }, () => assert.fail("a request arrived")))
      const untrusted = yield* makePost(target(`https://127.0.0.1:${port}`))
      assert.deepStrictEqual(yield* untrusted({}, body), { _tag: "NoAnswer", problem: "tls" })
      const plain = yield* scriptedServer(() => assert.fail("a request arrived"))
      const unencrypted = yield* makePost(target(plain.url.replace("http://", "https://")))
      assert.deepStrictEqual(yield* unencrypted({}, body), { _tag: "NoAnswer", problem: "tls" })
    }).pipe(Effect.scoped))
})
