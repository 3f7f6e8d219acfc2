/** What the built program has loaded when it sends its first request, and what it loads later. */
import { assert, describe, it } from "@effect/vitest"
import { listening } from "@payments/testkit/Listening"
import { makeAuthority } from "@payments/testkit/postgres/Certificates"
import { binary, payments, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { statSync, writeFileSync } from "node:fs"
import { createServer, request } from "node:http"
import { createSecureServer } from "node:http2"
import { isBuiltin } from "node:module"
import { connect } from "node:net"
import { basename, join } from "node:path"
import * as tls from "node:tls"
import { gzipSync } from "node:zlib"

/** Prints what the process has loaded when undici has written a request, or when the process ends. */
const reportLoaded = `--import=data:text/javascript,${
  encodeURIComponent(`
    const { writeSync } = process.getBuiltinModule("node:fs")
    const { _cache } = process.getBuiltinModule("node:module")
    let reported = false
    const report = () => {
      if (reported) return
      reported = true
      writeSync(2, JSON.stringify({ modules: process.moduleLoadList, files: Object.keys(_cache) }) + "\\n")
    }
    process.getBuiltinModule("node:diagnostics_channel").subscribe("undici:client:sendHeaders", report)
    process.on("exit", report)`)
}`

/** Returns the public modules of Node and the files that a program has loaded. */
const loadedBy = Effect.fnUntraced(function*(args: ReadonlyArray<string>, env: Readonly<Record<string, string>>) {
  const { stderr } = yield* runProgram(process.execPath, [reportLoaded, ...args], { env })
  const { files, modules }: { readonly files: ReadonlyArray<string>; readonly modules: ReadonlyArray<string> } = JSON
    .parse(stderr.split("\n", 1)[0] ?? "")
  return {
    modules: modules.filter((name) => name.startsWith("NativeModule ")).map((name) =>
      name.slice("NativeModule ".length)
    )
      .filter((name) => isBuiltin(name) && !name.startsWith("_")),
    files: files.map((file) => basename(file))
  }
})

describe("the start of payments", () => {
  it.live("loads only what its first request needs", () =>
    Effect.gen(function*() {
      const env = { XDG_CONFIG_HOME: "/dev/null", ...yield* sandboxEnv({ records: 3 }) }
      const alone = yield* loadedBy(["--eval", "0"], {})
      const { files, modules } = yield* loadedBy([binary, "invoices", "list"], env)
      assert.deepStrictEqual(
        modules.filter((name) => !alone.modules.includes(name)).toSorted(),
        ["net", "perf_hooks", "stream", "stream/promises", "string_decoder"],
        "Every other module of Node delays the first request. Add it to the lazy modules in apps/cli/lazy.ts, or import what needs it on demand."
      )
      assert.deepStrictEqual(
        files.toSorted(),
        ["Undici.cjs", "payments-main.cjs", "payments.js"],
        "Every other file of the bundle delays the first request. Import it after the request, or on demand."
      )
      assert.isBelow(
        statSync(join(binary, "../payments-main.cjs")).size,
        600_000,
        "The file that every start loads is larger: 10 KB take 0.1 ms. Import on demand what most commands do not need."
      )
    }).pipe(Effect.scoped))

  it.live("loads TLS, HTTP/2, decompression and proxies when they are needed", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 3 })
      const service = new URL(env.PAYMENTS_BASE_URL)
      const authority = makeAuthority("Test authority")
      const file = join(yield* temporaryFolder, "authority.pem")
      writeFileSync(file, authority.certificate)
      const toService = () => connect(Number(service.port), service.hostname)
      const list = Effect.fnUntraced(function*(url: string, more: Readonly<Record<string, string>> = {}) {
        const result = yield* payments(["invoices", "list", "--format", "ndjson"], {
          env: { ...env, PAYMENTS_BASE_URL: url, NODE_EXTRA_CA_CERTS: file, ...more }
        })
        assert.deepStrictEqual([result.code, result.stdout.split("\n").length, result.stderr], [0, 4, ""], url)
      })
      const direct = authority.certify("127.0.0.1")
      const options = { cert: direct.certificate, key: direct.key }
      const http1 = tls.createServer(options, (socket) => void socket.pipe(toService()).pipe(socket))
      yield* list(`https://127.0.0.1:${yield* listening(http1)}`)

      const versions: Array<string> = []
      const http2 = createSecureServer(options, (asked, answer) => {
        versions.push(asked.httpVersion)
        const { authorization = "" } = asked.headers
        request(new URL(asked.url, service), { headers: { authorization } }, (page) => {
          const chunks: Array<Buffer> = []
          page.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", () => {
            answer.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" })
              .end(gzipSync(Buffer.concat(chunks)))
          })
        }).end()
      })
      yield* list(`https://127.0.0.1:${yield* listening(http2)}`)
      assert.deepStrictEqual(versions, ["2.0"])

      const named = authority.certify("192.0.2.1")
      const behind = yield* listening(
        tls.createServer(
          { cert: named.certificate, key: named.key },
          (socket) => void socket.pipe(toService()).pipe(socket)
        )
      )
      const tunnels: Array<string | undefined> = []
      const proxy = createServer().on("connect", (asked, socket) => {
        tunnels.push(asked.url)
        socket.write("HTTP/1.1 200 OK\r\n\r\n")
        socket.pipe(connect(behind, "127.0.0.1")).pipe(socket)
      })
      yield* list("https://192.0.2.1", { HTTPS_PROXY: `http://127.0.0.1:${yield* listening(proxy)}` })
      assert.deepStrictEqual(tunnels, ["192.0.2.1:443"])
    }).pipe(Effect.scoped))
})
