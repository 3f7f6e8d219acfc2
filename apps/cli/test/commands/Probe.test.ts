/** `payments probe` and `payments facts`, run as the docs describe. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { overPatientClock } from "@payments/testkit/Clocks"
import { makeAuthority } from "@payments/testkit/postgres/Certificates"
import { payments, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { smallFileSystem } from "@payments/testkit/SmallFileSystem"
import { ConfigProvider, Effect } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { createSecureServer } from "node:http2"
import * as https from "node:https"
import type { AddressInfo, Server } from "node:net"
import { join } from "node:path"
import * as tls from "node:tls"
import { runInProcess } from "../program/InProcess.ts"

/** Listens at a free port until the scope closes, and returns the port. */
const listening = (server: Server) =>
  Effect.acquireRelease(
    Effect.callback<number>((resume) =>
      void server.listen(0, "127.0.0.1", () => resume(Effect.succeed((server.address() as AddressInfo).port))) // it listens
    ),
    () => Effect.sync(() => server.close())
  )

const rowsOf = (ndjson: string): ReadonlyArray<Record<string, unknown>> =>
  ndjson.trimEnd().split("\n").map((line) => JSON.parse(line))

describe("payments probe", () => {
  it.live("learns facts within its requests, and payments facts shows them without a request", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 403, count: "total" })
      const cwd = yield* temporaryFolder
      const probed = yield* payments(["probe", "--pause", "1ms", "--budget", "500"], { env, cwd })
      assert.strictEqual(probed.code, 0, probed.stderr)
      assert.match(probed.stderr, /^Sending at most 500 requests/)
      assert.match(probed.stderr, /Sent \d+ requests\. \d+ of \d+ facts are certain\.\n$/)
      const count = rowsOf(probed.stdout).filter(({ fact }) => fact === "count")
      assert.deepStrictEqual(count.map(({ answer, degree }) => [answer, degree]), [
        ["the list", "certain"],
        ["the list", "certain"],
        ["the list", "certain"]
      ])
      // Without an address and a key, no request is possible.
      const shown = yield* payments(["facts"], { env: {}, cwd })
      assert.deepStrictEqual([shown.code, shown.stdout], [0, probed.stdout])
    }).pipe(Effect.scoped))

  it.live("continues in the next run if its requests are used up", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv()
      const cwd = yield* temporaryFolder
      const first = yield* payments(["probe", "--pause", "1ms", "--budget", "20"], { env, cwd })
      assert.match(first.stderr, /Sent 20 requests\. 0 of \d+ facts are certain\. Run again to continue\.\n$/)
      const second = yield* payments(["probe", "--pause", "1ms", "--budget", "20"], { env, cwd })
      assert.match(second.stderr, /Sent 20 requests\. [1-9]\d* of \d+ facts are certain\./)
    }).pipe(Effect.scoped))

  it.live("sends the key of --other-key-file, shows it nowhere, and refuses a file without a key", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ behaviour: { cursorKey: "refuse" } })
      const args = ["probe", "--pause", "1ms", "--budget", "300", "--format", "json", "--other-key-file"]
      writeFileSync(join(cwd, "other.key"), "sandbox_second\n", { mode: 0o644 })
      const probed = yield* payments([...args, "other.key"], { env, cwd })
      assert.strictEqual(probed.code, 0, probed.stderr)
      assert.include(probed.stderr, "--other-key-file: other users may read other.key (mode 644).")
      const { items } = JSON.parse(probed.stdout) as { readonly items: ReadonlyArray<Record<string, unknown>> }
      const found = items.filter(({ fact }) => fact === "cursor-key").map(({ answer, degree }) => [answer, degree])
      assert.deepStrictEqual(found, Array.from({ length: 3 }, () => ["a refusal", "certain"]))
      const stored = readFileSync(join(cwd, "payments-facts.json"), "utf8")
      for (const text of [probed.stdout, probed.stderr, stored]) assert.notInclude(text, "sandbox_second")
      writeFileSync(join(cwd, "two.key"), "sandbox one", { mode: 0o600 })
      for (
        const [name, problem] of [
          ["none.key", "cannot be used: the file that it names does not exist"],
          ["two.key", "contains a character that is not allowed in a header"]
        ] as const
      ) {
        const refused = yield* payments([...args, name], { env, cwd })
        assert.deepStrictEqual([refused.code, refused.stdout], [3, ""])
        assert.include(refused.stderr, `--other-key-file ${problem}`)
      }
    }).pipe(Effect.scoped))

  it.live(
    "says before it begins that it provokes 429, and finds the rate within its requests",
    () =>
      // A busy machine cannot send at a rate, so the command runs in this process, with a clock that waits for it.
      Effect.gen(function*() {
        const to = join(yield* temporaryFolder, "facts.json")
        const sandbox = yield* sandboxEnv({ faults: [{ fault: "rateLimit", perSecond: 35, burst: 5 }] })
        const env = { XDG_CONFIG_HOME: "/dev/null", ...sandbox, PAYMENTS_MAX_REQUESTS_PER_SECOND: "25" }
        const args = ["probe", "--to", to, "--pause", "1ms", "--budget", "600", "--may-throttle", "--format", "json"]
        const { code, err, out } = yield* runInProcess(layerTest(), args).pipe(
          Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord(env)))
        )
        assert.strictEqual(code, 0, err)
        assert.match(
          err,
          /^Sending at most 600 .*\nAt the end, it sends up to 100 requests a second until the service answers 429\. Other/
        )
        const { items } = JSON.parse(out) as { readonly items: ReadonlyArray<Record<string, unknown>> }
        const rate = items.find(({ fact }) => fact === "rate-limit")
        assert.strictEqual(rate?.["answer"], "between 20 and 50 a second", String(rate?.["seen"]))
      }).pipe(Effect.scoped, (effect) => overPatientClock(() => effect)),
    600_000
  )

  it.live("sees the version of HTTP that a service chooses, on a connection that it trusts", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const authority = makeAuthority("Test authority")
      writeFileSync(join(cwd, "authority.pem"), authority.certificate)
      const { certificate: cert, key } = authority.certify("127.0.0.1")
      let runs = 0
      const versionOf = Effect.fnUntraced(function*(server: Server, more: Readonly<Record<string, string>> = {}) {
        const url = `https://127.0.0.1:${yield* listening(server)}`
        const env = { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_test", ...more }
        const to = `facts-${++runs}.json`
        const args = ["probe", "--to", to, "--budget", "1", "--pause", "1ms", "--format", "json"]
        const { stdout } = yield* payments(args, { env, cwd })
        const { items } = JSON.parse(stdout) as { readonly items: ReadonlyArray<Record<string, unknown>> }
        const found = items.find(({ fact }) => fact === "http-version")
        return [found?.["degree"], found?.["degree"] === "certain" ? found["answer"] : found?.["seen"]]
      })
      const trusted = { NODE_EXTRA_CA_CERTS: join(cwd, "authority.pem") }
      const options = { cert, key }
      const http1 = () => https.createServer(options, (_, answer) => void answer.writeHead(404).end())
      const http2 = createSecureServer(
        { ...options, allowHTTP1: true },
        (_, answer) => void answer.writeHead(404).end()
      )
      const withoutChoice = tls.createServer(options, (socket) => void socket.end())
      assert.deepStrictEqual(yield* versionOf(http2, trusted), ["certain", "2"])
      assert.deepStrictEqual(yield* versionOf(http1(), trusted), ["certain", "1.1"])
      assert.deepStrictEqual(yield* versionOf(withoutChoice, trusted), ["certain", "1.1"])
      assert.deepStrictEqual(yield* versionOf(http1()), [
        "undecided",
        "there is no secure connection (UNABLE_TO_VERIFY_LEAF_SIGNATURE)"
      ])
      assert.deepStrictEqual(yield* versionOf(http1(), { ...trusted, HTTPS_PROXY: "http://127.0.0.1:9" }), [
        "undecided",
        "a proxy is set, which may make the connections"
      ])
    }).pipe(Effect.scoped))

  it.live("ends with one line and exit code 9 if the disk is full, and continues once it has space", () =>
    Effect.gen(function*() {
      const small = yield* smallFileSystem(8 * 1024)
      // This machine cannot mount a small file system. `FullDisk.test.ts` of the copy package needs none.
      if (small === undefined) return
      const cwd = small.folder
      const env = yield* sandboxEnv({ records: 150 })
      const probe = (to: string) => payments(["probe", "--to", to, "--pause", "1ms", "--budget", "20"], { env, cwd })
      for (const to of ["facts.json", "sqlite:./payments.db"]) {
        assert.strictEqual((yield* probe(to)).code, 0)
        const known = yield* payments(["facts", "--from", to], { env: {}, cwd })
        yield* small.fill(0)
        const { code, stderr, stdout } = yield* probe(to)
        assert.deepStrictEqual([code, stdout], [9, ""])
        assert.match(stderr, /^Sending at most 20 requests, .*\npayments: .*: there is no space left.*\n$/)
        yield* small.free
        assert.deepStrictEqual(yield* payments(["facts", "--from", to], { env: {}, cwd }), known)
        assert.match((yield* probe(to)).stderr, /[1-9]\d* of \d+ facts are certain/)
      }
    }).pipe(Effect.scoped))

  it.live("stores facts in a destination, before and after an export, and payments facts accepts a changed one", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ order: "newest" })
      const to = "sqlite:./payments.db"
      const probe = ["probe", "--to", to, "--pause", "1ms", "--budget", "500"]
      assert.strictEqual((yield* payments(probe, { env, cwd })).code, 0)
      assert.strictEqual((yield* payments(["export", "--to", to], { env, cwd })).code, 0)
      const facts = Effect.map(payments(["facts", "--from", to], { env: {}, cwd }), ({ stdout }) => rowsOf(stdout))
      const orders = Effect.map(
        facts,
        (rows) =>
          rows.filter(({ fact }) => fact === "order").map(({ accepted, answer, degree }) => [degree, answer, accepted])
      )
      assert.deepStrictEqual(
        yield* orders,
        Array.from({ length: 3 }, () => ["certain", "createdAt, newest first", null])
      )
      const doctor = yield* payments(["doctor", "--to", to], { env, cwd })
      const uncertain = rowsOf(doctor.stdout).find(({ check }) => check === "facts")
      assert.strictEqual(
        uncertain?.["found"],
        "not certain, so not used: list-order (payout-requests, payin-sources, invoices), places (payout-requests, payin-sources, invoices)"
      )
      assert.includeMembers((yield* facts).map(({ fact }) => fact), ["count", "values-status", "empty-fields"])
      const other = yield* payments(probe, { env: yield* sandboxEnv(), cwd })
      assert.deepStrictEqual([other.code, other.stderr.includes("it has the data of another source")], [9, true])
      const accept = (fact: string, ...more: ReadonlyArray<string>) =>
        payments(["facts", "accept", fact, "--from", to, "--by", "operations", ...more], { env: {}, cwd })
      const accepted = yield* accept("order", "--list", "invoices")
      assert.deepStrictEqual(rowsOf(accepted.stdout), [
        {
          list: "invoices",
          fact: "order",
          before: "createdAt, newest first",
          after: "createdAt, newest first",
          schemaVersion: 1
        }
      ])
      const unknown = yield* accept("no-such-fact")
      assert.deepStrictEqual([unknown.code, unknown.stdout], [2, ""])
      assert.include(unknown.stderr, "Nothing was observed of no-such-fact there.")
    }).pipe(Effect.scoped))

  it.live("proves the name of a parameter, which exports then send unless a setting names another one", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ invoiceParameters: { settlementDate: "settlement_date" } })
      const to = "sqlite:./payments.db"
      assert.strictEqual((yield* payments(["export", "--to", to], { env, cwd })).code, 0)
      const days = yield* payments(
        ["query", "--from", to, "SELECT max(settlement_date) AS day FROM invoices"],
        { env: {}, cwd }
      )
      const day = String(rowsOf(days.stdout)[0]?.["day"])
      const exported = (more: Record<string, string> = {}) =>
        payments(["export", "invoices", "--to", to, "--settlement-dates", `${day}..${day}`], {
          env: { ...env, ...more },
          cwd
        })
      const refused = yield* exported()
      assert.notStrictEqual(refused.code, 0, "the service ignores the assumed name")
      const probe = ["probe", "--to", to, "--pause", "1ms", "--budget", "500"]
      assert.strictEqual((yield* payments(probe, { env, cwd })).code, 0)
      const { code, stderr } = yield* exported()
      assert.strictEqual(code, 0, stderr)
      const line =
        "invoices: settlementDate is sent as settlement_date, because the fact name-settlementDate is certain."
      assert.include(stderr, line)
      const set = yield* exported({ PAYMENTS_INVOICE_PARAMS: "settlementDate=settlementDate" })
      assert.strictEqual(set.code, refused.code, "a setting wins")
      assert.notInclude(set.stderr, line)
      // Facts of this service in a destination that another one fills.
      const other = ["--to", "sqlite:./other.db"]
      assert.strictEqual((yield* payments([...probe.slice(0, 1), ...other, ...probe.slice(3)], { env, cwd })).code, 0)
      const foreign = yield* payments(["export", "invoices", ...other], { env: yield* sandboxEnv(), cwd })
      assert.deepStrictEqual([foreign.code, foreign.stderr.includes("is sent as")], [0, false])
    }).pipe(Effect.scoped))

  it.live("writes one document of JSON, and a page without scripts or parts of records", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv()
      const cwd = yield* temporaryFolder
      const args = ["probe", "--pause", "1ms", "--html", "facts.html", "--format", "json"]
      const { code, stderr, stdout } = yield* payments(args, { env, cwd })
      assert.strictEqual(code, 0, stderr)
      const document = JSON.parse(stdout) as { readonly schemaVersion: number; readonly items: ReadonlyArray<object> }
      assert.strictEqual(document.schemaVersion, 1)
      const page = readFileSync(join(cwd, "facts.html"), "utf8")
      assert.strictEqual(page.split("<tr>").length - 2, document.items.length)
      assert.include(page, "In which order are the first 100 records?")
      for (const secret of ["<script", "sandbox_key", "127.0.0.1", "cus_", "con_", "payout-1", "invoice-1"]) {
        assert.notInclude(page, secret)
      }
    }).pipe(Effect.scoped))

  it.live("shows the values, steps and empty fields that a copy has collected", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const record = (index: number, status: string) => ({ id: `inv_${index}`, status, amount: index === 1 ? null : 5 })
      for (const statuses of [["pending", "pending"], ["paid", "pending"], ["paid", "failed"]]) {
        const env = yield* sandboxEnv({ lists: { invoices: statuses.map((status, index) => record(index, status)) } })
        const { code } = yield* payments(["export", "invoices", "--to", "sqlite:copy.db", "--rebind"], { env, cwd })
        assert.strictEqual(code, 0)
      }
      const { stdout } = yield* payments(["facts", "--from", "sqlite:copy.db"], { env: {}, cwd })
      const answers = new Map(rowsOf(stdout).map(({ answer, degree, fact, seen }) => [fact, [answer, degree, seen]]))
      assert.deepStrictEqual(answers.get("values-status"), [
        "pending, paid, failed",
        "likely",
        "pending 2, paid 1, failed 1"
      ])
      assert.deepStrictEqual(answers.get("steps")?.[2], "pending → paid 1, pending → failed 1")
      assert.deepStrictEqual(answers.get("last-states")?.[0], "paid, failed")
      assert.include(String(answers.get("empty-fields")?.[2]), "amount 2")
      assert.deepStrictEqual(answers.get("changed-fields")?.[2], "status 2; of 2 changes")
      assert.deepStrictEqual(
        answers.get("signs-amount")?.[2],
        "positive 1, zero 0, negative 0; no whole number below 2^53: 0; without a number: 1"
      )
      assert.deepStrictEqual(answers.get("length-id"), ["5", "likely", "0 of 2 texts are empty"])
      const missing = yield* payments(["facts", "--from", "sqlite:none.db"], { env: {}, cwd })
      assert.deepStrictEqual([missing.code, missing.stdout], [9, ""])
    }).pipe(Effect.scoped))

  it.live("leaves a file as it is that has no facts, and says so", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv()
      const cwd = yield* temporaryFolder
      const file = join(cwd, "other.json")
      writeFileSync(file, "{}")
      for (const [flag, command] of [["--to", "probe"], ["--from", "facts"]] as const) {
        const { code, stderr, stdout } = yield* payments([command, flag, "other.json"], { env, cwd })
        assert.deepStrictEqual([code, stdout], [2, ""])
        assert.include(stderr, `${flag}: other.json is not a file of facts, or damaged.`)
      }
      assert.strictEqual(readFileSync(file, "utf8"), "{}")
      const { code, stderr } = yield* payments(["probe", "--to", "missing/facts.json"], { env, cwd })
      assert.strictEqual(code, 9)
      assert.include(stderr, "--to: missing/facts.json cannot be")
    }).pipe(Effect.scoped))
})
