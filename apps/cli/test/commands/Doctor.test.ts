/** `payments doctor` against servers with faults, over sockets. */
import { assert, describe, it } from "@effect/vitest"
import { Lists, PaymentsApi } from "@payments/core"
import type { Fault } from "@payments/core/testing"
import { Sandbox, type SandboxOptions } from "@payments/sandbox"
import { overPatientClock, overStandingClock } from "@payments/testkit/Clocks"
import { listening } from "@payments/testkit/Listening"
import { page } from "@payments/testkit/PageBody"
import { makeAuthority, makeSelfSigned } from "@payments/testkit/postgres/Certificates"
import { sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { ConfigProvider, DateTime, Effect, Fiber, Layer } from "effect"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { createServer, request } from "node:http"
import { connect, createServer as createTcpServer } from "node:net"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as tls from "node:tls"
import { gunzipSync } from "node:zlib"
import { runInProcess } from "../program/InProcess.ts"

interface Found {
  readonly source: string
  readonly check: string
  readonly state: string
  readonly found: string
  readonly advice: string | null
  readonly reason: string | null
  readonly exitCode: number
}

// The command makes its own client for each source.
const noApi = Layer.effect(PaymentsApi, Effect.die("not used"))

/** Runs the command in this environment. */
const doctor = Effect.fnUntraced(function*(env: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) {
  const { code, err, out } = yield* runInProcess(noApi, ["doctor", "--format", "ndjson", ...args]).pipe(
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({ XDG_CONFIG_HOME: "/dev/null", ...env })))
  )
  const findings: ReadonlyArray<Found> = out.trimEnd().split("\n").map((line) => JSON.parse(line))
  const of = (state: string) => findings.filter((finding) => finding.state === state).map(({ check }) => check)
  const the = (check: string) => {
    const finding = findings.find((one) => one.check === check)
    assert.isDefined(finding, `no finding about ${check}: ${out}`)
    return finding
  }
  return { code, err, out, findings, failed: of("failed"), warnings: of("warning"), skipped: of("skipped"), the }
})

const sandbox = (options: SandboxOptions = {}) => sandboxEnv({ records: 250, hostileText: 0, ...options })

/** A server with TLS in front of a service. Returns its address. */
const overTls = (url: string, options: tls.TlsOptions) =>
  Effect.map(
    listening(tls.createServer(options, (socket) => {
      const service = connect(Number(new URL(url).port), "127.0.0.1")
      service.on("error", () => socket.destroy()).pipe(socket).on("error", () => service.destroy()).pipe(service)
    })),
    (port) => `https://127.0.0.1:${port}`
  )

/** A server in front of a service that changes the date of its answers, or refuses requests. Returns its address. */
const changing = (
  url: string,
  { dateOf, isRefused = () => false }: {
    readonly dateOf?: () => string | undefined
    readonly isRefused?: (parameters: URLSearchParams) => boolean
  }
) =>
  Effect.map(
    listening(createServer((incoming, outgoing) => {
      const at = new URL(incoming.url ?? "", url)
      if (isRefused(at.searchParams)) return void outgoing.writeHead(400).end("{}")
      const { host: _, ...headers } = incoming.headers
      request(at, { headers }, (answer) => {
        outgoing.sendDate = false
        const date = dateOf === undefined ? answer.headers.date : dateOf()
        const { date: _own, ...others } = answer.headers
        outgoing.writeHead(answer.statusCode ?? 500, date === undefined ? others : { ...others, date })
        answer.pipe(outgoing)
      }).end()
    })),
    (port) => `http://127.0.0.1:${port}`
  )

describe("payments doctor", () => {
  it.live("finds nothing wrong with the sandbox, and writes nothing into the destination", () =>
    Effect.gen(function*() {
      const env = yield* sandbox()
      const folder = yield* temporaryFolder
      const to = `sqlite:${folder}/a.db`
      const result = yield* doctor(env, "--to", to)
      assert.deepStrictEqual([result.code, result.err, result.failed, result.warnings], [0, "", [], []])
      assert.deepStrictEqual(result.skipped, ["tls", "facts"])
      assert.include(result.the("facts").advice, `payments probe --to ${to}`)
      assert.deepInclude(result.the("settings"), { source: "default", state: "ok" })
      assert.include(result.the("destination").found, "does not exist yet")
      for (const { label } of Lists.all) {
        for (const check of ["", " limit 1", " limit 100", " reference"]) result.the(`${label}${check}`)
      }
      for (const check of ["payout-requests payoutTargetId", "invoices contract", "invoices settlementTime"]) {
        assert.match(result.the(check).found, /^filters: \d+ records? for a known value, none for an impossible one$/)
      }
      assert.deepStrictEqual(readdirSync(folder), [])
    }).pipe(Effect.scoped))

  it.live("advises a migration before a probe if the tables are of an earlier version", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const fixture = join(import.meta.dirname, "../fixtures/0.1.0/sqlite/payments.db.gz")
      writeFileSync(file, gunzipSync(readFileSync(fixture)), { mode: 0o600 })
      const to = `sqlite:${file}`
      const env = yield* sandbox()
      const db = new DatabaseSync(file)
      db.prepare("UPDATE destination SET source = ?").run(`${env["PAYMENTS_BASE_URL"]}/`)
      db.close()
      const { the } = yield* doctor(env, "--to", to)
      assert.strictEqual(
        the("facts").advice,
        `To decide them, run payments migrate --to ${to}, then payments probe --to ${to}. Exports observe places.`
      )
    }).pipe(Effect.scoped))

  it.live("reads on if the service returns empty pages before the end of a list", () =>
    Effect.gen(function*() {
      const result = yield* doctor(yield* sandbox({ faults: [{ fault: "emptyPage", every: 2 }] }))
      assert.deepStrictEqual([result.code, result.failed, result.skipped], [0, [], ["tls", "destination"]], result.out)
    }).pipe(Effect.scoped))

  it.live("names each filter that the service ignores, also if the client does not check it", () =>
    Effect.gen(function*() {
      const faults: ReadonlyArray<Fault> = [
        { fault: "ignoreFilter", field: "contract" },
        { fault: "ignoreFilter", field: "customerId", list: "payinSources" }
      ]
      for (const unchecked of ["", "invoices.contract,payinSources.customerId"]) {
        const env = { ...(yield* sandbox({ faults })), PAYMENTS_UNCHECKED_FILTERS: unchecked }
        const result = yield* doctor(env)
        assert.strictEqual(result.code, 8)
        assert.deepStrictEqual(result.failed, ["payin-sources customerId", "invoices contract"])
        assert.include(result.the("invoices contract").found, "is ignored")
        assert.include(result.the("invoices contract").advice, "PAYMENTS_INVOICE_PARAMS")
        assert.include(result.the("payin-sources customerId").advice, "Do not use this filter")
        assert.include(result.err, "2 of ")
      }
      // All records have the same value, so only the impossible value shows that the filter is ignored.
      const lists = { invoices: [{ id: "a", contract: "c" }, { id: "b", contract: "c" }] }
      const same = yield* doctor({
        ...(yield* sandbox({ lists, faults: [{ fault: "ignoreFilter", field: "contract" }] })),
        PAYMENTS_UNCHECKED_FILTERS: "invoices.contract"
      })
      assert.deepStrictEqual(same.failed, ["invoices contract"])
      assert.include(same.the("invoices contract").found, "impossible value")
      assert.include(same.the("invoices reference").found, "no value to request on the first page")
      assert.include(same.the("payout-requests reference").found, "the list has no records")
    }).pipe(Effect.scoped))

  it.live("says which key, list or limit is refused", () =>
    Effect.gen(function*() {
      const env = yield* sandbox()
      const refused = yield* doctor({ ...env, PAYMENTS_API_KEY: "canary-5ecret" })
      assert.deepStrictEqual([refused.code, refused.failed], [
        4,
        ["key", ...Lists.all.map(({ label }) => label)]
      ])
      assert.strictEqual(refused.the("key").reason, "Unauthorized")
      assert.notInclude(refused.out + refused.err, "canary")
      const one = yield* doctor({ ...env, PAYMENTS_INVOICES_API_KEY: "canary-5ecret" })
      assert.deepStrictEqual([one.code, one.failed], [4, ["key of invoices", "invoices"]])
      assert.strictEqual(one.the("key").state, "ok")

      const forbidden = yield* doctor(
        yield* sandbox({ faults: [{ fault: "status", status: 403, list: "invoices" }] })
      )
      assert.deepStrictEqual([forbidden.code, forbidden.failed], [4, ["invoices"]])

      const down = yield* doctor(yield* sandbox({ faults: [{ fault: "status", status: 501, list: "invoices" }] }))
      assert.include(down.the("invoices").advice, "Run again later")

      const limited = yield* changing(env.PAYMENTS_BASE_URL, {
        isRefused: (parameters) => parameters.get("limit") === "100" && !parameters.has("reference")
      })
      const limits = yield* doctor({ ...env, PAYMENTS_BASE_URL: limited })
      assert.strictEqual(limits.code, 5)
      assert.deepStrictEqual(limits.failed.filter((check) => check.includes("limit")), [
        "payout-requests limit 100",
        "payin-sources limit 100",
        "invoices limit 100"
      ])
      assert.include(limits.the("invoices limit 100").advice, "invoice_params")
      const ignored = yield* doctor(yield* sandbox({ faults: [{ fault: "largePage", joined: 2, list: "invoices" }] }))
      assert.strictEqual(ignored.code, 8)
      assert.include(ignored.the("invoices limit 1").found, "is ignored: the page has 2 records")
    }).pipe(Effect.scoped))

  it.live("compares the clocks", () =>
    Effect.gen(function*() {
      const env = yield* sandbox({ records: 3 })
      const withDate = Effect.fnUntraced(function*(dateOf: () => string | undefined) {
        const url = yield* changing(env.PAYMENTS_BASE_URL, { dateOf })
        return yield* doctor({ ...env, PAYMENTS_BASE_URL: url })
      })
      const now = DateTime.toEpochMillis(yield* DateTime.now)
      const dateIn = (ms: number) => () => new Date(now + ms).toUTCString()
      const behind = yield* withDate(dateIn(601_000))
      assert.deepStrictEqual([behind.code, behind.failed], [3, ["clock"]])
      assert.match(behind.the("clock").found, /^this machine is 10m( \d+s)? behind the service$/)
      const ahead = yield* withDate(dateIn(-60_000))
      assert.deepStrictEqual([ahead.code, ahead.warnings], [0, ["clock"]])
      assert.include(ahead.the("clock").found, "ahead of")
      assert.strictEqual((yield* withDate(() => undefined)).the("clock").state, "skipped")
      assert.strictEqual((yield* withDate(() => "no date")).the("clock").state, "skipped")
    }).pipe(Effect.scoped, (test) => overStandingClock(() => test)))

  it.live("names what is wrong with a certificate, and sends no key before that", () =>
    Effect.gen(function*() {
      const built = yield* Layer.build(Sandbox.layer({ records: 3 }))
      const { counters, url } = yield* Effect.provide(Sandbox, built)
      const authority = makeAuthority("Test authority")
      const { certificate: cert, key } = authority.certify("127.0.0.1")
      const alone = makeSelfSigned("127.0.0.1")
      const named = authority.certify("127.0.0.2")
      const env = { PAYMENTS_API_KEY: "sandbox_test" }
      const problems: ReadonlyArray<readonly [options: tls.TlsOptions, code: string, problem: string]> = [
        [{ cert, key }, "UNABLE_TO_VERIFY_LEAF_SIGNATURE", "no chain to a trusted authority"],
        [{ cert: cert + authority.certificate, key }, "SELF_SIGNED_CERT_IN_CHAIN", "does not trust"],
        [{ cert: alone.certificate, key: alone.key }, "DEPTH_ZERO_SELF_SIGNED_CERT", "self-signed"]
      ]
      for (const [options, code, problem] of problems) {
        const result = yield* doctor({ ...env, PAYMENTS_BASE_URL: yield* overTls(url, options) })
        assert.deepStrictEqual([result.code, result.failed, result.the("tls").reason], [7, ["tls"], code])
        assert.include(result.the("tls").found, problem)
        assert.match(
          result.the("tls").found,
          /certificate of (Test authority|server), valid until \d{4}-\d\d-\d\d \(.*\), TLSv1\.3;/
        )
        assert.include(result.the("invoices").found, "cannot be reached")
      }
      assert.strictEqual((yield* counters).requests, 0)
      const defaults = tls.getCACertificates("default")
      yield* Effect.acquireRelease(
        Effect.sync(() => tls.setDefaultCACertificates([...defaults, authority.certificate])),
        () => Effect.sync(() => tls.setDefaultCACertificates(defaults))
      )
      const trusted = yield* doctor({ ...env, PAYMENTS_BASE_URL: yield* overTls(url, { cert, key }) })
      assert.deepStrictEqual([trusted.code, trusted.failed, trusted.warnings], [0, [], ["tls"]])
      assert.include(trusted.the("tls").found, "(0 days)")
      const other = yield* doctor({
        ...env,
        PAYMENTS_BASE_URL: yield* overTls(url, { cert: named.certificate, key: named.key })
      })
      assert.strictEqual(other.the("tls").reason, "ERR_TLS_CERT_ALTNAME_INVALID")
      const plain = yield* doctor({ ...env, PAYMENTS_BASE_URL: url.replace("http:", "https:") })
      assert.deepStrictEqual([plain.code, plain.failed], [7, ["tls"]])
    }).pipe(Effect.scoped))

  it.live("ends each check in time", () =>
    Effect.gen(function*() {
      const silent = yield* listening(createTcpServer((socket) => void socket.resume()))
      const { handshake, later, rated, stalled } = yield* Effect.all({
        stalled: doctor(yield* sandbox({ faults: [{ fault: "stall", at: "headers" }] }), "--timeout", "2s"),
        later: doctor(
          yield* sandbox({ faults: [{ fault: "stall", at: "body", list: "invoices", from: 3 }] }),
          "--timeout",
          "2s"
        ),
        handshake: doctor(
          { PAYMENTS_BASE_URL: `https://127.0.0.1:${silent}`, PAYMENTS_API_KEY: "k" },
          "--timeout",
          "2s"
        ),
        // The client's own request rate is no stall: two requests take more than the time limit.
        rated: doctor(
          { ...(yield* sandbox({ lists: {} })), PAYMENTS_MAX_REQUESTS_PER_SECOND: "1.8" },
          "--timeout",
          "1s"
        )
      }, { concurrency: "unbounded" }).pipe(Effect.timeout("10 seconds"))
      assert.deepStrictEqual([stalled.code, stalled.failed], [7, Lists.all.map(({ label }) => label)])
      assert.include(stalled.the("invoices").advice, "--timeout")
      assert.strictEqual(later.code, 7)
      assert.include(later.failed, "invoices limit 100")
      assert.include(later.the("invoices").found, "can be read")
      assert.deepStrictEqual([handshake.code, handshake.failed], [7, ["tls"]])
      assert.deepStrictEqual([rated.code, rated.failed, rated.the("clock").state], [0, [], "ok"])
    }).pipe(Effect.scoped, (effect) => overPatientClock(() => effect)))

  it.live("says what is wrong with the address and the settings", () =>
    Effect.gen(function*() {
      const closed = yield* doctor({ PAYMENTS_BASE_URL: "http://127.0.0.1:1", PAYMENTS_API_KEY: "k" })
      assert.deepStrictEqual([closed.code, closed.failed], [7, ["connection"]])
      assert.strictEqual(closed.the("connection").reason, "ECONNREFUSED")
      const unknown = yield* doctor({ PAYMENTS_BASE_URL: "https://payments.invalid", PAYMENTS_API_KEY: "k" })
      assert.deepStrictEqual([unknown.code, unknown.failed], [7, ["name"]])
      const proxied = yield* doctor(
        { PAYMENTS_BASE_URL: "https://payments.invalid", PAYMENTS_API_KEY: "k", HTTPS_PROXY: "http://127.0.0.1:1" },
        "--timeout",
        "2s"
      )
      assert.include(proxied.the("connection").found, "HTTPS_PROXY names a proxy")
      const excluded = yield* doctor({
        PAYMENTS_BASE_URL: "https://payments.invalid",
        PAYMENTS_API_KEY: "k",
        HTTPS_PROXY: "http://127.0.0.1:1",
        NO_PROXY: "example.com,.invalid"
      })
      assert.deepStrictEqual(excluded.failed, ["name"])
      const noKey = yield* doctor({ PAYMENTS_BASE_URL: "https://payments.invalid", PAYMENTS_API_KEY_FILE: "/none/key" })
      assert.deepStrictEqual([noKey.code, noKey.failed], [3, ["settings"]])
      assert.include(noKey.the("settings").found, "PAYMENTS_API_KEY_FILE")
      const nothing = yield* doctor({})
      assert.deepStrictEqual([nothing.code, nothing.failed], [3, ["settings"]])
      assert.include(nothing.the("settings").found, "There is no sources file. It would be /")
      assert.include(nothing.the("settings").advice, "payments source add NAME --base-url URL")
      const file = join(yield* temporaryFolder, "payments.toml")
      writeFileSync(file, `[sources.a]\nevry = "canary"\n`)
      const mistaken = yield* doctor({ PAYMENTS_CONFIG: file })
      assert.deepStrictEqual([mistaken.code, mistaken.failed], [3, ["settings", "settings", "settings"]])
      assert.include(mistaken.the("settings").found, `${file}:`)
      assert.notInclude(mistaken.out, "canary")
    }).pipe(Effect.scoped))

  it.live("checks the destinations of all sources of the file", () =>
    Effect.gen(function*() {
      const { PAYMENTS_API_KEY: KEY, PAYMENTS_BASE_URL } = yield* sandbox({ records: 3 })
      const folder = yield* temporaryFolder
      const file = join(folder, "payments.toml")
      writeFileSync(
        file,
        `[defaults]\nbase_url = "${PAYMENTS_BASE_URL}"\napi_key_env = "KEY"\n` +
          ["sqlite:a.db", "file:b", "sqlite:none/c.db", "sqlite:text.db", "sqlite:folder"].map((to, index) =>
            `[sources.s${index}]\nto = "${to}"\n`
          ).join("")
      )
      writeFileSync(join(folder, "text.db"), "this is no database, but it has text")
      mkdirSync(join(folder, "folder"))
      const env = { PAYMENTS_CONFIG: file, KEY }
      const shown = yield* runInProcess(noApi, ["doctor", "--format", "table"], true, 60).pipe(
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({ ...env, NO_COLOR: "1" })))
      )
      assert.strictEqual(shown.code, 9)
      assert.match(shown.out, /^FAIL {2}s2: destination:/m)
      for (const line of shown.out.split("\n")) assert.isAtMost(line.length, 60)
      const before = readdirSync(folder)
      const result = yield* doctor(env)
      const destinations = result.findings.filter(({ check }) => check === "destination")
      assert.deepStrictEqual(destinations.map(({ source, state }) => `${source} ${state}`), [
        "s0 ok",
        "s1 ok",
        "s2 failed",
        "s3 failed",
        "s4 failed"
      ])
      assert.strictEqual(result.code, 9)
      assert.deepStrictEqual(readdirSync(folder), before)
      assert.strictEqual(readFileSync(join(folder, "text.db"), "utf8"), "this is no database, but it has text")
      const chosen = yield* doctor(env, "--source", "s0")
      assert.strictEqual(chosen.code, 0)
      assert.deepStrictEqual([...new Set(chosen.findings.map(({ source }) => source))], ["s0"])
    }).pipe(Effect.scoped))

  it.live("prints each finding when it is known, and all of them after an interrupt", () =>
    Effect.gen(function*() {
      let answers = 0
      let isHanging = false
      const port = yield* listening(createServer((_, response) => {
        if (answers++ < 3) response.end(page([{ id: "a" }]))
        else isHanging = true
      }))
      const file = join(yield* temporaryFolder, "payments.toml")
      const base = `base_url = "http://127.0.0.1:${port}"\napi_key_env = "KEY"\n`
      writeFileSync(
        file,
        `[sources.a]\n${base}[sources.b]\nbase_url = "https://payments.invalid"\napi_key_env = "NONE"\n`
      )
      for (const format of ["ndjson", "csv", "table", "json"]) {
        answers = 0
        isHanging = false
        let out = ""
        const fiber = yield* Effect.forkChild(
          runInProcess(noApi, ["doctor", "--format", format], false, 0, (text) =>
            Effect.sync(() => {
              out = text
            })).pipe(
              Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({ PAYMENTS_CONFIG: file, KEY: "k" })))
            )
        )
        // The findings about b are known, but those about a come first.
        while (!isHanging || (format !== "json" && !out.includes("payout-requests"))) yield* Effect.sleep(10)
        assert.notInclude(out, "api_key_env", format)
        yield* Fiber.interrupt(fiber)
        assert.include(out, "api_key_env", format)
        if (format === "json") {
          const findings: ReadonlyArray<Found> = JSON.parse(out)
          assert.isTrue(
            findings.some(({ check, source, state }) => `${source} ${check} ${state}` === "a payout-requests ok")
          )
        }
      }
    }).pipe(Effect.scoped))
})
