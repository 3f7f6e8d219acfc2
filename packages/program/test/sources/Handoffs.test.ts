/** The hand-offs of the sources file: what they mean, how their keys are read, and what is said about mistakes. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { temporaryFolder } from "@payments/testkit/Folder"
import { ConfigProvider, Duration, Effect, Layer, Logger, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { checkHandoff } from "../../src/doctor/HandoffChecks.ts"
import { keyLife, keysIn } from "../../src/handoff.ts"
import { loadSources, type SourceHandoff, SourcesError } from "../../src/sources.ts"

const source = `[sources.north]
base_url = "https://api.example.com"
api_key_env = "KEY"
to = "sqlite:a.db"
lists = ["invoices", "payin-sources"]
`

const secret = (byte: number) => `whsec_${Buffer.alloc(24, byte).toString("base64")}`

const url = `url = "https://user-ledger.example/hook-hidden?token=hidden"\n`

const load = Effect.fnUntraced(function*(tables: string, env: Readonly<Record<string, string>> = {}, folder?: string) {
  const file = join(folder ?? (yield* temporaryFolder), "payments.toml")
  writeFileSync(file, `${source}${tables}`)
  const provider = ConfigProvider.layer(ConfigProvider.fromEnvRecord(env))
  const { sources: [loaded] } = yield* loadSources({ config: file }).pipe(Effect.provide(provider))
  return loaded ?? assert.fail("there is no source")
})

const services = Layer.mergeAll(NodeFileSystem.layer, Logger.layer([]))

const handoffOf = Effect.fnUntraced(function*(settings: string, folder?: string) {
  const { handoffs = [] } = yield* load(`[sources.north.handoff.ledger]\n${url}${settings}`, {}, folder)
  return handoffs[0] ?? assert.fail("there is no hand-off")
})

/** Reads the keys in an environment. */
const readKeys = ({ keys }: SourceHandoff, env: Readonly<Record<string, string>> = {}) =>
  Effect.provide(keys, ConfigProvider.layer(ConfigProvider.fromEnvRecord(env)))

describe("the hand-offs of a source", () => {
  it.effect("have the documented defaults", () =>
    Effect.gen(function*() {
      const handoff = yield* handoffOf(`secret_env = "LEDGER"\n`)
      assert.deepStrictEqual(handoff.lists, [Lists.byName.payinSources, Lists.byName.invoices])
      assert.deepStrictEqual(handoff.shape, { source: "north", isThin: false, kinds: undefined })
      assert.deepStrictEqual(handoff.limits, { changes: 100, bytes: 20_000 })
      assert.deepStrictEqual(handoff.policy.giveUpAfter, Duration.days(3))
      assert.deepStrictEqual([handoff.order, handoff.start, handoff.consumer], ["strict", "first", "ledger"])
      const { allowPrivate, proxy, timeout } = Redacted.value(handoff.target)
      assert.deepStrictEqual([allowPrivate, proxy, timeout], [false, undefined, Duration.seconds(20)])
    }).pipe(Effect.provide(services), Effect.scoped))

  it.live("say with a missing key, and with a name that leads nowhere, what to correct", () =>
    Effect.gen(function*() {
      const check = (handoff: SourceHandoff) =>
        Effect.provide(
          checkHandoff(handoff, undefined, Duration.minutes(1)),
          ConfigProvider.layer(ConfigProvider.fromEnvRecord({ LEDGER: secret(1) }))
        )
      const noFile = yield* check(yield* handoffOf(`secret_file = "none"\n`))
      assert.deepInclude(noFile, { advice: "Correct this setting, or make a key: payments handoff rotate ledger" })
      assert.include(noFile.found, "does not exist")
      const noVariable = yield* check(yield* handoffOf(`secret_env = "OTHER"\n`))
      assert.deepInclude(noVariable, { advice: "Correct this setting." })
      // The name ends with .example, which no server resolves (RFC 6761).
      const nowhere = yield* check(yield* handoffOf(`secret_env = "LEDGER"\n`))
      assert.deepInclude(nowhere, { advice: "Correct url.", reason: "Address" })
      assert.notInclude(JSON.stringify([noFile, noVariable, nowhere]), "hidden")
    }).pipe(Effect.provide(services), Effect.scoped))

  it.effect("have all settings", () =>
    Effect.gen(function*() {
      const handoff = yield* handoffOf(`secret_command = ["cat", "ledger.key"]
lists = ["invoices"]
kinds = ["insert", "missing"]
thin = true
max_changes = 7
max_bytes = 1000
timeout = "5s"
give_up_after = "1h"
order = "per-record"
allow_private = true
proxy = "http://proxy.example:3128"
start = "now"
`)
      assert.deepStrictEqual(handoff.lists, [Lists.byName.invoices])
      assert.deepStrictEqual(handoff.shape, {
        source: "north",
        isThin: true,
        kinds: new Set(["insert", "missing"] as const)
      })
      assert.deepStrictEqual(handoff.limits, { changes: 7, bytes: 1000 })
      assert.deepStrictEqual(handoff.policy.giveUpAfter, Duration.hours(1))
      assert.deepStrictEqual([handoff.order, handoff.start], ["per-record", "now"])
      const { allowPrivate, proxy, timeout } = Redacted.value(handoff.target)
      assert.deepStrictEqual([allowPrivate, proxy?.host, timeout], [true, "proxy.example:3128", Duration.seconds(5)])
    }).pipe(Effect.provide(services), Effect.scoped))

  it.effect("never show the path and the query of an address", () =>
    Effect.gen(function*() {
      const loaded = yield* load(`[sources.north.handoff.ledger]\n${url}secret_command = ["echo", "hidden"]\n`)
      assert.deepStrictEqual(
        loaded.settings.filter(({ name }) => name === "handoff").map(({ value }) => value),
        ["ledger = https://user-ledger.example"]
      )
      assert.notInclude(JSON.stringify(loaded), "hidden")
    }).pipe(Effect.provide(services), Effect.scoped))

  it.effect("sign with each key of the file, which is read again within seconds", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "ledger.keys")
      writeFileSync(file, `${secret(1)}\n`)
      const handoff = yield* handoffOf(`secret_file = "ledger.keys"\n`, folder)
      const count = Effect.map(readKeys(handoff), ({ length }) => length)
      assert.strictEqual(yield* count, 1)
      writeFileSync(file, `\n${secret(2)}\r\n\n ${secret(1)} \n`)
      assert.strictEqual(yield* count, 1)
      yield* TestClock.adjust(keyLife)
      assert.strictEqual(yield* count, 2)
      // A file without a key is a mistake, and the next reading finds it corrected.
      writeFileSync(file, "\n")
      yield* TestClock.adjust(keyLife)
      const [problem] = (yield* Effect.flip(readKeys(handoff))).problems
      assert.strictEqual(problem?.problem, "names an empty file")
      assert.match(problem?.setting ?? "", /payments\.toml:8: secret_file$/)
      writeFileSync(file, secret(3))
      assert.strictEqual(yield* count, 1)
    }).pipe(Effect.provide(services), Effect.scoped))

  it.effect("say which line is no key, without a part of it", () =>
    Effect.gen(function*() {
      const handoff = yield* handoffOf(`secret_env = "LEDGER"\n`)
      const problemOf = (text: string) =>
        Effect.map(Effect.flip(readKeys(handoff, { LEDGER: text })), ({ problems: [first] }) => first?.problem)
      assert.strictEqual(
        yield* problemOf(`${secret(1)}\nhidden`),
        "has no key in line 2: expected a text that begins with whsec_, whsk_ or whpk_"
      )
      assert.strictEqual(
        yield* problemOf(`whpk_${Buffer.alloc(32, 1).toString("base64")}`),
        "has no key in line 1: expected whsec_ or whsk_, because a public key cannot sign"
      )
      assert.strictEqual(yield* problemOf(""), "names a variable that is not set")
      assert.deepStrictEqual(keysIn(Redacted.make(`${secret(1)}\n`.repeat(9))), { problem: "has more than 8 keys" })
    }).pipe(Effect.provide(services), Effect.scoped))

  it.effect("name each mistake with its line, and no value", () =>
    Effect.gen(function*() {
      const mistakes = Effect.fnUntraced(function*(table: string) {
        const error = yield* Effect.flip(load(table))
        assert.instanceOf(error, SourcesError)
        assert.notInclude(error.message, "hidden")
        return error.findings.map(({ line, problem }) => `${line}: ${problem.replace("sources.north.handoff.", "")}`)
      })
      const settings = (...lines: ReadonlyArray<string>) =>
        mistakes(`[sources.north.handoff.ledger]\n${lines.join("\n")}\n`)
      assert.deepStrictEqual(yield* settings(), [
        "6: ledger has no url.",
        "6: ledger has no secret. Set secret_file, secret_env or secret_command."
      ])
      const valid = [`secret_env = "LEDGER"`, `url = "https://a.example"`]
      assert.deepStrictEqual(yield* settings(...valid, `secret_file = "hidden"`), [
        "7: ledger.secret_env and secret_file are both set. Set one of them."
      ])
      const cases: ReadonlyArray<readonly [settings: string, mistake: string]> = [
        [
          "url = \"http://hidden.example\"",
          "url cannot be used: it must begin with https://: http is allowed to this machine only."
        ],
        ["url = \"https://hidden:x@a.example\"", "url cannot be used: it must not contain a user name or a password."],
        ["url = \"https://10.0.0.7/hidden\"", "url cannot be used: private and link-local addresses are not allowed."],
        ["url = \"hidden\"", "url must be an address that begins with https://, in quotes."],
        ["lists = [\"payout-requests\"]", "lists names payout-requests, which the source does not copy."],
        ["lists = [\"hidden\"]", "lists must be \"payout-requests\", \"payin-sources\" or \"invoices\"."],
        ["kinds = [\"new\"]", "kinds must be \"insert\", \"update\", \"missing\" or \"returned\"."],
        ["thin = \"hidden\"", "thin must be true or false."],
        ["max_changes = 0", "max_changes must be a whole number from 1 to 1000."],
        ["max_bytes = 1.5", "max_bytes must be a whole number from 1 to 10000000."],
        ["timeout = \"10m\"", "timeout must be a duration from 100ms to 5m, in quotes."],
        ["give_up_after = 3", "give_up_after must be a duration from 1s to 365d, in quotes."],
        ["order = \"hidden\"", "order must be \"strict\" or \"per-record\"."],
        ["start = \"hidden\"", "start must be \"first\" or \"now\"."],
        [
          "proxy = \"http://hidden:x@proxy:3128\"",
          "proxy must be http://HOST:PORT, without a user name or a password."
        ],
        ["proxy = \"https://proxy:3128\"", "proxy must be http://HOST:PORT, without a user name or a password."],
        [
          "url = \"https://localhost/hidden\"\nproxy = \"http://proxy:3128\"",
          "url cannot be used: with a proxy, it is the machine of the proxy, which only allow_private = true allows."
        ],
        [
          "url = \"https://192.168.0.7/hidden\"\nproxy = \"http://proxy:3128\"",
          "url cannot be used: private and link-local addresses are not allowed."
        ],
        [
          "proxy = \"http://proxy:3128\"\nurl = \"http://127.0.0.1:1/hidden\"",
          "proxy is not used for http://, which goes to this machine. Remove it, or use https://."
        ],
        ["giveup_after = \"3d\"", "giveup_after is not a setting. The nearest one is give_up_after."],
        [
          "secret = \"whsec_hidden\"",
          "secret is not a setting, because no key stands in this file. Set secret_file, secret_env or secret_command."
        ]
      ]
      for (const [line, mistake] of cases) {
        const others = valid.filter((one) => !line.includes(one.slice(0, 6)) || line.startsWith("secret ="))
        assert.deepStrictEqual(yield* settings(...others, line), [`${7 + others.length}: ledger.${mistake}`], line)
      }
      assert.deepStrictEqual(yield* mistakes(`[sources.north.handoff."Hidden ledger hidden"]\n`), [
        "6: The name of a consumer has 1 to 40 small letters, digits, _ and -."
      ])
    }).pipe(Effect.provide(services), Effect.scoped))
})
