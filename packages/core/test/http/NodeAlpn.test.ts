/** The version of HTTP that a server chooses. `Probe.test.ts` of the command line sees it on connections that Node trusts. */
import { assert, describe, it } from "@effect/vitest"
import { makeSelfSigned } from "@payments/testkit/postgres/Certificates"
import { Duration, Effect } from "effect"
import { createSecureServer } from "node:http2"
import { type AddressInfo, createServer, type Server } from "node:net"
import { afterEach, vi } from "vitest"
import { httpVersionOf } from "../../src/node.ts"

afterEach(() => void vi.unstubAllEnvs())

/** Listens at a free port until the scope closes, and returns the address. */
const listening = (server: Server) =>
  Effect.acquireRelease(
    Effect.callback<URL>((resume) =>
      void server.listen(0, "127.0.0.1", () => {
        resume(Effect.succeed(new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}`))) // it listens
      })
    ),
    () => Effect.sync(() => server.close())
  )

/** So long that only a server that hangs reaches it. */
const minute = Duration.minutes(1)

describe("the version of HTTP", () => {
  it.live("is not seen if the certificate is not trusted, and nothing is sent", () =>
    Effect.gen(function*() {
      const { certificate: cert, key } = makeSelfSigned("127.0.0.1")
      let streams = 0
      const server = createSecureServer({ cert, key }).on("stream", () => streams++)
      const found = yield* httpVersionOf(yield* listening(server), minute)
      assert.deepStrictEqual(found, { problem: "there is no secure connection (DEPTH_ZERO_SELF_SIGNED_CERT)" })
      assert.strictEqual(streams, 0)
    }).pipe(Effect.scoped))

  it.live("is not seen if nobody listens, or nobody answers in time", () =>
    Effect.gen(function*() {
      const closed = yield* Effect.scoped(listening(createServer()))
      assert.deepStrictEqual(yield* httpVersionOf(closed, minute), {
        problem: "there is no secure connection (ECONNREFUSED)"
      })
      const closing = Promise.withResolvers<void>()
      const silent = createServer((socket) => void socket.on("close", () => closing.resolve()).resume())
      assert.deepStrictEqual(yield* httpVersionOf(yield* listening(silent), Duration.millis(200)), {
        problem: "there is no secure connection after 200ms"
      })
      // The connection is closed.
      yield* Effect.promise(() => closing.promise)
    }).pipe(Effect.scoped))

  it.live("is not seen over plain HTTP, and through a proxy", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* httpVersionOf(new URL("http://127.0.0.1:1"), minute), {
        problem: "the address is not https"
      })
      vi.stubEnv("https_proxy", "http://127.0.0.1:1")
      assert.deepStrictEqual(yield* httpVersionOf(new URL("https://127.0.0.1:1"), minute), {
        problem: "a proxy is set, which may make the connections"
      })
    }))
})
