/** Who may read the status page, its events and the metrics: by the host of a request, and by a token. */
import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect, Redacted } from "effect"
import { chmodSync, writeFileSync } from "node:fs"
import { request } from "node:http"
import { join } from "node:path"
import { makeAccess } from "../../src/state/Access.ts"
import { startWorker } from "../loop/RunningWorker.ts"

const token = "4f1d0c9a3be8476aa55e"
const bearer = (text: string) => `Bearer ${text}`
const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`

describe("a request to the worker", () => {
  const local = { authorization: undefined, localAddress: "::ffff:10.0.0.7" }
  const status = (host: string | undefined, listenOn: string, allowedHosts: ReadonlyArray<string> = []) =>
    makeAccess({ host: listenOn, allowedHosts, token: undefined })({ ...local, host })?.status

  it("is accepted with a name or an address of this worker, and with no other", () => {
    for (const host of ["localhost", "LOCALHOST:1", "127.0.0.1:9464", "[::1]:9464", "localhost.", "10.0.0.7:9464"]) {
      assert.isUndefined(status(host, "0.0.0.0"), host)
    }
    const foreign = [
      undefined,
      "",
      "rebound.example.com",
      "rebound.example.com:9464",
      "localhost.example.com",
      "127.0.0.1.example.com",
      "localhost@example.com",
      "10.0.0.8",
      "[::2]",
      "[::1",
      "worker:9464"
    ]
    for (const host of foreign) assert.strictEqual(status(host, "0.0.0.0"), 403, host)
    assert.isUndefined(status("worker:9464", "0.0.0.0", ["other", "Worker"]))
    assert.isUndefined(status("[2001:db8::1]:80", "::", ["2001:db8::1"]))
    assert.isUndefined(status("[2001:db8::1]:80", "::", ["[2001:db8::1]:9464"]))
    assert.isUndefined(status("worker.internal", "worker.internal"))
  })

  it("needs the whole token, as bearer or as a password", () => {
    const refusalOf = makeAccess({ host: "0.0.0.0", allowedHosts: [], token: Redacted.make(token) })
    const statusOf = (authorization: string | undefined) =>
      refusalOf({ ...local, host: "localhost", authorization })?.status
    for (const accepted of [bearer(token), `bearer  ${token}`, basic(`:${token}`), basic(`anyone:${token}`)]) {
      assert.isUndefined(statusOf(accepted), accepted)
    }
    const wrong = [
      undefined,
      "",
      token,
      "Bearer",
      bearer(token.slice(1)),
      bearer(`${token}a`),
      bearer(token.toUpperCase()),
      basic(`${token}:`),
      basic(`:${token}:`),
      `Digest ${token}`
    ]
    for (const refused of wrong) assert.strictEqual(statusOf(refused), 401, refused)
    assert.strictEqual(refusalOf({ ...local, host: "evil.example.com", authorization: bearer(token) })?.status, 403)
  })
})

interface Answer {
  readonly status: number | undefined
  readonly challenge: string | undefined
  readonly body: string
}

/** Sends a request with a `Host` that `fetch` would not send. Ends it after the first bytes of an endless answer. */
const get = (port: unknown, path: string, headers: Readonly<Record<string, string>>) =>
  Effect.callback<Answer>((resume) => {
    // A kept connection may be closed by the worker at the moment of the next request.
    const sent = request({ host: "127.0.0.1", port: Number(port), path, headers, agent: false }, (response) => {
      let body = ""
      const done = () =>
        resume(
          Effect.succeed({ status: response.statusCode, challenge: response.headers["www-authenticate"], body })
        )
      response.setEncoding("utf8").on("data", (chunk: string) => {
        body += chunk
        if (path !== "/events") return
        done()
        sent.destroy()
      }).on("end", done)
    })
    sent.on("error", () => undefined).end()
  })

describe("a worker over HTTP", () => {
  const paths = ["/", "/events", "/metrics"]
  const env = { PAYMENTS_BASE_URL: "http://127.0.0.1:1", PAYMENTS_API_KEY: "k", PAYMENTS_ACCOUNT: "confidential" }

  it.live("says nothing to a page whose name was rebound to this machine, and warns if others can reach it", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const to = ["--to", `sqlite:${folder}/named.db`]
      const { log, port } = yield* startWorker([...to, "--host", "0.0.0.0"], {
        ...env,
        PAYMENTS_ALLOW_HOST: "worker.example.com"
      })
      const [warning] = log(
        "other machines can read the status page and the metrics: guard them with --token-file, or listen on 127.0.0.1"
      )
      assert.strictEqual(warning?.level, "WARN")
      for (const path of paths) {
        const rebound = yield* get(port, path, { host: `rebound.example.com:${String(port)}` })
        assert.strictEqual(rebound.status, 403, path)
        assert.include(rebound.body, "--allow-host")
        for (const host of ["localhost", "worker.example.com:80"]) {
          assert.strictEqual((yield* get(port, path, { host })).status, 200, `${host} ${path}`)
        }
      }
      for (const check of ["live", "ready", "fresh"]) {
        const { body, status } = yield* get(port, `/health/${check}?a=b`, { host: "10.1.2.3:9464" })
        assert.include([200, 503], status)
        assert.deepStrictEqual(JSON.parse(body), { [check]: status === 200, schemaVersion: 1 })
      }
      const quiet = yield* startWorker([...to, "--on-locked", "wait"], env)
      assert.notInclude(quiet.out(), "other machines")
      // A worker may listen a moment before it knows its sources.
      yield* quiet.until(
        get(quiet.port, "/health/ready", { host: "localhost" }),
        ({ body }) => body.includes("named.db")
      )
    }).pipe(Effect.scoped))

  it.live("needs the token for all but the health checks, which then have no names", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "token")
      writeFileSync(file, `${token}\n`)
      chmodSync(file, 0o600)
      const { out, port, until } = yield* startWorker(
        ["--to", `sqlite:${folder}/named.db`, "--host", "0.0.0.0", "--token-file", file],
        env
      )
      assert.notInclude(out(), "other machines")
      for (const path of [...paths, "/assets/x"]) {
        for (const refused of [{}, { authorization: bearer("wrong") }]) {
          const { body, challenge, status } = yield* get(port, path, { host: "localhost", ...refused })
          assert.strictEqual(status, 401, path)
          assert.match(challenge ?? "", /^Basic /)
          assert.notInclude(body, "named")
        }
        const accepted = yield* get(port, path, { host: "localhost", authorization: bearer(token) })
        assert.strictEqual(accepted.status, path === "/assets/x" ? 404 : 200)
      }
      const { body, status } = yield* get(port, "/health/ready", { host: "localhost" })
      assert.deepStrictEqual(JSON.parse(body), { ready: status === 200, schemaVersion: 1 })
      yield* until(
        get(port, "/health/ready", { host: "localhost", authorization: bearer(token) }),
        (named) => named.body.includes("named.db")
      )
      assert.notInclude(out(), token)
    }).pipe(Effect.scoped))
})
