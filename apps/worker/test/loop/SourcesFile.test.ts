/** The built worker with a sources file: `run --config`, `check`, and SIGHUP. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { fetchOnce } from "@payments/testkit/FetchOnce"
import { freePort } from "@payments/testkit/FreePort"
import { runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { outputs } from "../../src/contract/WorkerOutputs.ts"
import { binary, keptBy, startWorker } from "./RunningWorker.ts"

/** Writes a sources file. Each source is a name and further lines. */
const writeSources = (
  folder: string,
  url: string,
  sources: Readonly<Record<string, string>>,
  defaults = `every = "1h"`
) =>
  writeFileSync(
    join(folder, "payments.toml"),
    [
      `[defaults]\nbase_url = "${url}"\napi_key_env = "KEY"\n${defaults}`,
      ...Object.entries(sources).map(([name, more]) => `[sources.${name}]\nto = "sqlite:${name}.db"\n${more}`)
    ].join("\n")
  )

const check = (folder: string, key: string) =>
  runProgram(process.execPath, [binary, "check", "--config", "payments.toml"], { env: { KEY: key }, cwd: folder })

describe("payments-worker check", () => {
  it.live("checks settings, services, keys and destinations, and prints the next runs, and writes nothing", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      writeSources(folder, url, {
        one: "",
        two:
          `cron = "30 6 * * *"\ntime_zone = "Europe/Madrid"\nlists = ["invoices"]\nwindow = { days = 7, every = "10m" }`
      })
      const good = yield* check(folder, "sandbox_test")
      assert.deepStrictEqual([good.code, good.stderr], [0, ""])
      const lines = good.stdout.split("\n")
      for (const { label } of Lists.all) {
        assert.include(lines, `one: ${label}: can be read`)
        // The checks are those of `payments doctor`.
        assert.include(lines, `one: ${label} limit 100: accepted`)
      }
      assert.match(good.stdout, /^one: destination: sqlite:.*one\.db: does not exist yet; the first scan creates it$/m)
      assert.match(good.stdout, /^two: next full scan: [-0-9]+T0[45]:30:00\.000Z(, [-0-9]+T0[45]:30:00\.000Z){4}$/m)
      assert.match(good.stdout, /^two: next window pass: (\S+, ){4}\S+$/m)
      const stored = yield* Effect.promise(freePort)
      writeSources(folder, url, { one: `rate_limit_store = "postgres://127.0.0.1:${stored}/payments"` })
      const away = yield* check(folder, "sandbox_test")
      assert.strictEqual(away.code, 0)
      assert.match(
        away.stdout,
        /^one: rate limit store: .*no server listens there.* Make the database available\. .*$/m
      )
      assert.notInclude(away.stdout, `"level"`)
      writeSources(folder, url, { one: "" })
      const refused = yield* check(folder, "canary-5ecret")
      assert.strictEqual(refused.code, 4)
      assert.match(refused.stdout, /^one: invoices: .*not authorized/m)
      assert.notInclude(refused.stdout, "canary-5ecret")
      writeSources(folder, url, { one: `evry = "1m"` })
      const mistaken = yield* check(folder, "sandbox_test")
      assert.deepStrictEqual([mistaken.code, mistaken.stdout], [3, ""])
      assert.match(mistaken.stderr, /^payments-worker: \S*payments\.toml:\d+: .*every/)
      assert.deepStrictEqual(readdirSync(folder), ["payments.toml"])
    }).pipe(Effect.scoped))

  it.live("names a destination that has another rule for personal data, or belongs to another source", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [one, other] = [yield* sandboxEnv({ records: 3 }), yield* sandboxEnv({ records: 3 })]
      writeSources(folder, one.PAYMENTS_BASE_URL, { one: "" })
      const once = yield* runProgram(process.execPath, [binary, "run", "--once", "--config", "payments.toml"], {
        env: { KEY: "sandbox_test" },
        cwd: folder
      })
      assert.strictEqual(once.code, 0, once.stderr)
      writeSources(folder, one.PAYMENTS_BASE_URL, { one: `personal = "omit"` })
      const otherRule = yield* check(folder, "sandbox_test")
      assert.strictEqual(otherRule.code, 9)
      assert.match(otherRule.stdout, /^one: destination: .*its personal data has another rule/m)
      writeSources(folder, one.PAYMENTS_BASE_URL, { one: `personal_key_file = "none"` })
      assert.match((yield* check(folder, "sandbox_test")).stdout, /personal_key_file cannot be used/)
      writeSources(folder, other.PAYMENTS_BASE_URL, { one: "" })
      const foreign = yield* check(folder, "sandbox_test")
      assert.strictEqual(foreign.code, 9)
      assert.match(foreign.stdout, /^one: destination: .*it has the data of another source/m)
    }).pipe(Effect.scoped))
})

const earlySignal = import.meta.resolve("@payments/testkit/programs/EarlySignal")

describe("payments-worker run --config", () => {
  it.live("reads the file again on a SIGHUP that arrives while it starts", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      writeSources(folder, url, { one: "" })
      for (const afterMs of [-1, 0, 100]) {
        const env = { KEY: "sandbox_test", EARLY_SIGNAL: "SIGHUP", EARLY_AFTER_MS: String(afterMs) }
        const worker = yield* startWorker(["--config", join(folder, "payments.toml")], env, ["--import", earlySignal])
        yield* worker.untilLogged("settings read again", 1)
        assert.deepStrictEqual(yield* worker.end("SIGTERM"), [0, null])
      }
    }).pipe(Effect.scoped))

  it.live("adds, changes and removes sources on SIGHUP, and keeps all of them if the file has a mistake", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      writeSources(folder, url, { kept: "", changed: "", removed: "" })
      const worker = yield* startWorker(["--config", join(folder, "payments.toml")], { KEY: "sandbox_test" })
      yield* worker.untilUpToDate
      const [started] = worker.log("started")
      const { sources } = (started ?? assert.fail("it is logged")).annotations as {
        readonly sources: Readonly<Record<string, unknown>>
      } // its format
      assert.deepStrictEqual(Object.keys(sources), ["kept", "changed", "removed"])
      assert.deepInclude(sources["kept"], { api_key_env: "***", base_url: url, every: "1h" })
      writeSources(folder, url, { kept: `evry = "1m"` })
      worker.child.kill("SIGHUP")
      const [mistake] = yield* worker.untilLogged("settings not changed: the file has a mistake", 1)
      assert.match(String(mistake?.annotations["error"]), /evry|every/)
      writeSources(folder, url, { kept: "", changed: `max_age = "2h"`, added: "" })
      worker.child.kill("SIGHUP")
      const [again] = yield* worker.untilLogged("settings read again", 1)
      assert.deepInclude(again?.annotations, { added: ["added"], changed: ["changed"], removed: ["removed"] })
      const { body } = yield* worker.until(
        worker.readiness,
        ({ body: now }) =>
          now.sources.some(({ name }) => name === "added") && now.sources.every(({ state }) => state === "running") &&
          now.sources.some(({ lists }) => lists.every(({ maxAgeSeconds }) => maxAgeSeconds === 7200))
      )
      assert.deepStrictEqual(body.sources.map(({ name }) => name), ["kept", "changed", "added"])
      const complete = (name: string) =>
        worker.log("scan complete").filter(({ annotations }) => annotations["source"] === name).length
      assert.deepStrictEqual([complete("kept"), complete("changed")], [3, 3])
      assert.strictEqual(yield* worker.statusOf("/health/fresh"), 200)
      assert.deepStrictEqual(yield* worker.end("SIGTERM"), [0, null])
    }).pipe(Effect.scoped))

  it.live("answers 503 at /health/fresh with the lists that are too old, and why", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      writeSources(folder, url, { fresh: "", stale: `max_age = "1s"\nlists = ["invoices"]` }, `every = "1h"`)
      const worker = yield* startWorker(["--config", join(folder, "payments.toml"), "--log-format", "json"], {
        KEY: "sandbox_test"
      })
      yield* worker.untilUpToDate
      yield* worker.until(worker.statusOf("/health/fresh"), (status) => status === 503)
      const body = yield* Effect.promise(() =>
        fetchOnce(`http://127.0.0.1:${worker.port}/health/fresh`).then((response) => response.json())
      )
      keptBy(body, outputs.fresh)
      const { stale } = body as { readonly stale: ReadonlyArray<Readonly<Record<string, unknown>>> } // documented
      assert.deepStrictEqual(
        stale.map(({ list, maxAgeSeconds, source, why }) => [source, list, maxAgeSeconds, why]),
        [["stale", "invoices", 1, "no full scan has been complete since"]]
      )
      assert.strictEqual(yield* worker.statusOf("/health/ready"), 200)
    }).pipe(Effect.scoped))
})

describe("payments-worker check of hand-offs", () => {
  it.live("says what would be sent where, signed by what, and what is wrong, and shows no secret", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const { PAYMENTS_BASE_URL: url } = yield* sandboxEnv({ records: 3 })
      const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`
      const ed25519 = `whsk_${Buffer.alloc(32, 7).toString("base64")}`
      writeFileSync(join(folder, "two.keys"), `${secret}\n${ed25519}\n`, { mode: 0o600 })
      const handoff = (name: string, more: string) =>
        `[sources.one.handoff.${name}]\nurl = "http://127.0.0.1:9/hidden?token=hidden"\n${more}\n`
      const withHandoffs = (...tables: ReadonlyArray<string>) =>
        writeSources(folder, url, { one: `lists = ["invoices"]\n${tables.join("")}` })
      withHandoffs(
        handoff("ledger", `secret_file = "two.keys"`),
        handoff("search", `secret_command = ["cat", "two.keys"]\nthin = true\nstart = "now"`)
      )
      const good = yield* check(folder, "sandbox_test")
      const lines = good.stdout.split("\n").filter((line) => line.includes("hand-off"))
      assert.deepStrictEqual(lines, [
        "one: hand-off ledger: changes of invoices to http://127.0.0.1:9, signed with HMAC-SHA256 and ed25519; begins with the first change that is kept",
        "one: hand-off search: numbers, kinds and ids of changes of invoices to http://127.0.0.1:9, signed with HMAC-SHA256 and ed25519; begins with the next change"
      ])
      assert.strictEqual(good.code, 0)
      withHandoffs(handoff("ledger", `secret_env = "NOT_SET"`), handoff("search", `secret_file = "absent.keys"`))
      const bad = yield* check(folder, "sandbox_test")
      assert.strictEqual(bad.code, 3)
      assert.match(bad.stdout, /one: hand-off ledger: \S+:10: secret_env names a variable that is not set\./)
      assert.match(bad.stdout, /one: hand-off search: \S+:13: secret_file cannot be used/)
      withHandoffs(handoff("ledger", `secret_env = "SECRET"\nurl_ = 1`))
      const wrong = yield* check(folder, "sandbox_test")
      assert.strictEqual(wrong.code, 3)
      assert.include(
        wrong.stderr,
        "payments.toml:11: sources.one.handoff.ledger.url_ is not a setting. The nearest one is url."
      )
      for (const { stderr, stdout } of [good, bad, wrong]) {
        for (const hidden of ["hidden", secret.slice(6), ed25519.slice(5)]) {
          assert.notInclude(stdout + stderr, hidden)
        }
      }
    }).pipe(Effect.scoped))
})
