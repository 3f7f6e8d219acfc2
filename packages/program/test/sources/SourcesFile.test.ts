/** The sources file: what it means, and what is said about its mistakes. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { temporaryFolder } from "@payments/testkit/Folder"
import { processorMs } from "@payments/testkit/ProcessorTime"
import { diceOf, seed } from "@payments/testkit/Seed"
import { spawnSync } from "@payments/testkit/TestProcess"
import { ConfigProvider, Cron, DateTime, Duration, Effect, Layer, Logger, Redacted, Result } from "effect"
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, isAbsolute, join } from "node:path"
import { keepAll } from "../../../copy/src/rule/Rule.ts"
import { usualFile } from "../../src/settings/Location.ts"
import { type LoadedSources, loadSources, SourcesError } from "../../src/sources.ts"
import { sourcesOfEnvironment } from "../../src/sources/LoadSources.ts"
import { SourceSettings } from "../../src/sources/SourceSchema.ts"
import { readSourcesFile } from "../../src/sources/SourcesFile.ts"

const silent = Logger.layer([])

/** Loads the sources of a file with this content, in an environment. */
const load = Effect.fnUntraced(function*(
  content: string | Uint8Array,
  env: Readonly<Record<string, string>> = {},
  flags = {}
) {
  const file = join(yield* temporaryFolder, "payments.toml")
  writeFileSync(file, content)
  return yield* loadSources({ config: file, flags }).pipe(
    Effect.provide(Layer.mergeAll(
      NodeFileSystem.layer,
      ConfigProvider.layer(ConfigProvider.fromEnvRecord(env)),
      silent
    ))
  )
})

/** Returns the mistakes of a file as `LINE: PROBLEM`. */
const mistakes = Effect.fnUntraced(function*(content: string | Uint8Array) {
  const error = yield* Effect.flip(load(content))
  assert.instanceOf(error, SourcesError)
  return error.findings.map(({ line, problem }) => `${line ?? "-"}: ${problem}`)
})

const only = ({ sources: [source, ...others] }: LoadedSources) => {
  assert.deepStrictEqual(others, [])
  if (source === undefined) throw new Error("there is no source")
  return source
}

/** A source with every setting that can stand beside the others. */
const complete = `
base_url = "https://api.example.com/pay"
invoices_base_url = "http://localhost:1"
account = "north"
api_key_file = "keys/north"
invoices_api_key_env = "NORTH_INVOICES"
invoice_params = { settlementTime = "settlementCycle", limit = "pageSize" }
unchecked_filters = ["invoices.paymentDate", "payinSources.reference"]
max_requests_per_second = 0.5
rate_limit_store = "postgres://db/limits"
to = "sqlite:./north.db"
lists = ["invoices", "payin-sources"]
cron = "30 3 * * *"
time_zone = "Europe/Madrid"
window = { days = 7, every = "10m" }
head = { pages = 3, cron = "*/15 * * * * *" }
order = "newest-first"
final_states = { invoices = ["paid", "void, late"], payin-sources = [] }
max_open = { payout-requests = "48h", invoices = "30d" }
max_age = "24h"
patience = "1h"
runner = "worker-1"
on_locked = "wait"
ignore_fields = ["authUrl", "riskScore"]
missing_limit = "2.5%"
keep_changes = "90d"
keep_scans = "400d"
keep_missing = "300d"
keep_snapshots = 3
personal = "omit"
omit = ["reference", '"a.b".c']
pseudonymize = ["customerDetails.documentNumber"]
keep = ["authUrl"]
undocumented = "hold"
personal_key_command = ["cat", "personal.key"]
journal = { unit = "cents", commodity = "EUR", clearing_account = "Assets:Clearing", accounts = { invoices = "Income:Invoices" } }
handoff = { ledger = { url = "https://ledger.example/in?token=hidden", secret_env = "LEDGER" } }
`

/** The least that a source needs. */
const least = `base_url = "https://api.example.com"\napi_key_env = "KEY"\n`

describe("a sources file", () => {
  it.effect("names its rate limit store, which the environment overrides", () =>
    Effect.gen(function*() {
      const file =
        `[defaults]\nrate_limit_store = "postgres://db/limits?schema=own"\n[sources.north]\n${least}to = "sqlite:a.db"\n`
      assert.strictEqual(only(yield* load(file)).rateLimitStore?.schema, "own")
      const variable = { PAYMENTS_RATE_LIMIT_STORE: "postgres://reader:hidden@other/limits" }
      const source = only(yield* load(file, variable))
      assert.strictEqual(source.rateLimitStore?.host, "other")
      const shown = source.settings.find(({ name }) => name === "rate_limit_store")
      assert.deepStrictEqual(shown?.from, "PAYMENTS_RATE_LIMIT_STORE")
      assert.notInclude(JSON.stringify(source.settings), "hidden")
      const wrong = yield* Effect.flip(load(file, { PAYMENTS_RATE_LIMIT_STORE: "redis://x:hidden@y" }))
      assert.strictEqual(
        wrong.message,
        "PAYMENTS_RATE_LIMIT_STORE: It must be postgres://HOST/DATABASE, or postgres://HOST/DATABASE?schema=NAME."
      )
      assert.deepStrictEqual(
        yield* mistakes(`[sources.north]\n${least}rate_limit_store = "postgres://a:hidden@db/limits"\n`),
        [
          "4: sources.north.rate_limit_store is no database. No password stands in this file. Set PGPASSFILE or PGPASSWORD instead."
        ]
      )
    }).pipe(Effect.scoped))

  it.effect("describes sources with all settings", () =>
    Effect.gen(function*() {
      const loaded = yield* load(`concurrency = 7\n[sources.north]${complete}`)
      assert.strictEqual(loaded.concurrency, 7)
      const source = only(loaded)
      assert.isDefined(loaded.file)
      assert.deepStrictEqual(source.to, {
        _tag: "Sqlite",
        file: loaded.file.replace("payments.toml", "north.db"),
        keepSnapshots: 3
      })
      const store = source.rateLimitStore
      assert.deepStrictEqual([store?.host, store?.database, store?.schema], ["db", "limits", "public"])
      assert.deepStrictEqual(source.lists, ["payinSources", "invoices"])
      assert.strictEqual(source.order, "newest-first")
      assert.strictEqual(source.runner, "worker-1")
      assert.deepStrictEqual(source.scan, {
        patience: Duration.hours(1),
        onLocked: "wait",
        ignoredFields: ["authUrl", "riskScore"],
        missingLimit: 0.025
      })
      assert.deepStrictEqual(source.maxAge, Duration.hours(24))
      assert.deepStrictEqual(source.finalStates, { invoices: ["paid", "void, late"], "payin-sources": [] })
      assert.deepStrictEqual(source.maxOpen, { "payout-requests": Duration.hours(48), invoices: Duration.days(30) })
      assert.deepStrictEqual([source.keepChanges, source.keepScans], [Duration.days(90), Duration.days(400)])
      assert.deepStrictEqual(source.keepMissing, Duration.days(300))
      assert.deepStrictEqual(source.journal, {
        unit: "cents",
        commodity: "EUR",
        clearing_account: "Assets:Clearing",
        accounts: { invoices: "Income:Invoices" }
      })
      assert.strictEqual(
        source.settings.find(({ name }) => name === "journal")?.value,
        "unit = cents, commodity = EUR, clearing_account = Assets:Clearing, accounts = { invoices = Income:Invoices }"
      )
      const other = only(yield* load(`[sources.north]${complete.replace("sqlite:./north.db", "file:./north")}`))
      assert.deepInclude(other.to, { _tag: "Files", keepSnapshots: 3 })
      assert.deepStrictEqual(source.window, { days: 7, schedule: { _tag: "Every", every: Duration.minutes(10) } })
      const { full, head } = source
      assert.isTrue(full._tag === "Cron" && head?.schedule._tag === "Cron" && head.pages === 3)
      if (full._tag !== "Cron" || head?.schedule._tag !== "Cron") return
      // 03:30 in Madrid is 02:30 UTC in winter and 01:30 UTC in summer.
      assert.strictEqual(
        Cron.next(full.cron, new Date("2026-01-10T00:00:00Z")).toISOString(),
        "2026-01-10T02:30:00.000Z"
      )
      assert.strictEqual(
        Cron.next(full.cron, new Date("2026-07-10T00:00:00Z")).toISOString(),
        "2026-07-10T01:30:00.000Z"
      )
      const next = Cron.next(head.schedule.cron, DateTime.makeUnsafe("2026-01-10T00:00:01Z"))
      assert.strictEqual(next.toISOString(), "2026-01-10T00:00:15.000Z")
      // Every setting of the schema is in this test, except the other ways to get a key and the other schedule.
      const others = new Set([
        "api_key_env",
        "api_key_command",
        "invoices_api_key_file",
        "invoices_api_key_command",
        "every",
        "personal_key_file",
        "personal_key_env"
      ])
      for (const name of Object.keys(SourceSettings.fields)) {
        assert.isTrue(others.has(name) || complete.includes(`\n${name} =`), name)
      }
    }).pipe(Effect.scoped))

  it.effect("has accounts that mean nothing else in a journal, and names no value that does", () =>
    Effect.gen(function*() {
      const journal = `[sources.north]\n${least}[sources.north.journal]\n`
      assert.deepStrictEqual(
        yield* mistakes(`${journal}unit = "euros"\ncommodity = "eur"\naccounts.payins = "A:B"\n`),
        [
          "4: sources.north.journal.clearing_account is not set.",
          "5: sources.north.journal.unit must be cents, units, mills, or the number of decimals, in quotes.",
          "6: sources.north.journal.commodity must be 2 to 24 capital letters, digits, `.`, `_`, `'` and `-`, that begin with a letter, such as EUR, in quotes.",
          "7: sources.north.journal.accounts.payins is not a setting. The nearest one is invoices."
        ]
      )
      const wrong = ["A;B", "A:", ":A", "A  B", "(A)", "A\\nB", "A\\tB", "A:B ", " A", "A\\u0022", "*A", "A::B", "A :B"]
      for (const account of wrong) {
        const found = yield* mistakes(
          `${journal}unit = "2"\ncommodity = "EUR"\nclearing_account = "${account}"\naccounts = {}\n`
        )
        assert.deepStrictEqual(found, [
          "7: sources.north.journal.clearing_account must be an account such as Assets:Clearing, in quotes."
        ])
      }
      const same = (account: string) =>
        journal.replace(least, `${least}to = "sqlite:a.db"\n`) +
        `unit = "2"\ncommodity = "EUR"\nclearing_account = "A:B"\naccounts.invoices = "${account}"\n`
      assert.deepStrictEqual(yield* mistakes(same("A:B")), [
        "5: sources.north.journal has the same account in clearing_account and in accounts.invoices, so its journal would say nothing."
      ])
      yield* load(same("A:C"))
    }).pipe(Effect.scoped))

  it.effect("has a rule for personal fields, with its key", () =>
    Effect.gen(function*() {
      const loaded = yield* load(`[sources.north]${complete}`)
      const folder = dirname(loaded.file ?? "")
      writeFileSync(join(folder, "personal.key"), `${"k".repeat(32)}\n`)
      const { key, ...rule } = yield* only(loaded).personal
      assert.deepStrictEqual(rule, {
        preset: "omit",
        fields: {
          "reference": "omit",
          "\"a.b\".c": "omit",
          "customerDetails.documentNumber": "pseudonymize",
          "authUrl": "keep"
        },
        undocumented: "hold"
      })
      assert.strictEqual(new TextDecoder().decode(key && Redacted.value(key)), "k".repeat(32))
      const shown = new Map(only(loaded).settings.map(({ name, value }) => [name, value]))
      assert.strictEqual(shown.get("personal_key_command"), "***")
      assert.strictEqual(shown.get("omit"), "reference, \"a.b\".c")
      writeFileSync(join(folder, "personal.key"), "short")
      const refused = yield* Effect.flip(only(loaded).personal)
      assert.match(refused.message, /payments\.toml:\d+: personal_key_command has fewer than 32 characters/)
      assert.notInclude(refused.message, "short")
    }).pipe(Effect.scoped))

  it.effect("has a rule for personal fields in the environment, and none for the sources of a file", () =>
    Effect.gen(function*() {
      const env = {
        PAYMENTS_PERSONAL: "pseudonymize",
        PAYMENTS_KEEP: "authUrl, metadata.kind",
        PAYMENTS_PERSONAL_KEY: "k".repeat(32)
      }
      const inEnvironment = (variables: Readonly<Record<string, string>>) =>
        Effect.flatMap(sourcesOfEnvironment(), (loaded) => only(loaded).personal).pipe(
          Effect.provide(
            Layer.mergeAll(NodeFileSystem.layer, ConfigProvider.layer(ConfigProvider.fromEnvRecord(variables)), silent)
          )
        )
      const { preset, undocumented, ...rule } = yield* inEnvironment(env)
      assert.deepStrictEqual([preset, undocumented], ["pseudonymize", "omit"])
      assert.deepStrictEqual(rule.fields, { "authUrl": "keep", "metadata.kind": "keep" })
      assert.deepStrictEqual(yield* inEnvironment({}), keepAll)
      const problems = Effect.fnUntraced(function*(variables: Readonly<Record<string, string>>) {
        return (yield* Effect.flip(inEnvironment(variables))).message
      })
      assert.strictEqual(
        yield* problems({ PAYMENTS_PERSONAL: "drop", PAYMENTS_OMIT: "a,,b", PAYMENTS_PSEUDONYMIZE: "contract" }),
        "PAYMENTS_PERSONAL must be keep, omit or pseudonymize; " +
          "PAYMENTS_OMIT must be fields such as customerDetails.email, separated by commas; " +
          "PAYMENTS_PSEUDONYMIZE needs a key: set PAYMENTS_PERSONAL_KEY or PAYMENTS_PERSONAL_KEY_FILE"
      )
      assert.strictEqual(
        yield* problems({ ...env, PAYMENTS_PERSONAL_KEY_FILE: "personal.key" }),
        "PAYMENTS_PERSONAL_KEY and PAYMENTS_PERSONAL_KEY_FILE are both set: unset one of them"
      )
      const inFile = only(yield* load(`[sources.north]\n${least}to = "sqlite:a.db"\n`, env))
      assert.deepStrictEqual(yield* inFile.personal, keepAll)
    }).pipe(Effect.scoped))

  it.effect("has the defaults of the programs", () =>
    Effect.gen(function*() {
      const { concurrency, ...loaded } = yield* load(`[sources.a]\n${least}to = "file:./a"`)
      assert.strictEqual(concurrency, 32)
      const { full, head, keepChanges, keepScans, lists, maxAge, order, scan, window } = only({
        ...loaded,
        concurrency
      })
      assert.deepStrictEqual(full, { _tag: "Every", every: Duration.minutes(5) })
      assert.deepStrictEqual(lists, Lists.all.map(({ name }) => name))
      assert.deepStrictEqual(scan, {
        patience: undefined,
        onLocked: undefined,
        ignoredFields: undefined,
        missingLimit: undefined
      })
      assert.deepStrictEqual([head, window, maxAge, keepChanges, keepScans, order], [
        undefined,
        undefined,
        undefined,
        undefined,
        undefined,
        "unknown"
      ])
    }).pipe(Effect.scoped))

  it.effect("lets a source replace a default, also by another way to get a key and by another schedule", () =>
    Effect.gen(function*() {
      const { sources } = yield* load(`
[sources.late]
base_url = "https://late.example.com"
api_key_command = ["true"]
cron = "0 * * * *"
to = "sqlite:late.db"
[defaults]
base_url = "https://api.example.com"
api_key_env = "KEY"
every = "10m"
lists = ["invoices"]
[sources.early]
to = "sqlite:early.db"
`)
      assert.deepStrictEqual(sources.map(({ name }) => name), ["late", "early"])
      const [late, early] = sources.map(({ settings }) =>
        Object.fromEntries(settings.map(({ name, value }) => [name, value]))
      )
      assert.include(late, { base_url: "https://late.example.com", api_key_command: "***", cron: "0 * * * *" })
      assert.doesNotHaveAnyKeys(late, ["api_key_env", "every"])
      assert.include(early, {
        base_url: "https://api.example.com",
        api_key_env: "***",
        every: "10m",
        lists: "invoices"
      })
    }).pipe(Effect.scoped))

  it.effect("is overridden by variables, and these by flags, except in what a key belongs to", () =>
    Effect.gen(function*() {
      const file = `[sources.a]\n${least}every = "1h"\npatience = "1h"\nto = "sqlite:a.db"\naccount = "a"`
      const env = {
        PAYMENTS_EVERY: "2h",
        PAYMENTS_PATIENCE: "2h",
        PAYMENTS_IGNORE_FIELD: "x,y",
        PAYMENTS_BASE_URL: "https://other.example.com",
        PAYMENTS_ACCOUNT: "b",
        PAYMENTS_MAX_REQUESTS_PER_SECOND: "1",
        PAYMENTS_TO: "sqlite:b.db",
        KEY: "key-of-a"
      }
      const source = only(yield* load(file, env, { patience: "3h" }))
      assert.deepStrictEqual(source.full, { _tag: "Every", every: Duration.hours(2) })
      assert.deepStrictEqual(source.scan.patience, Duration.hours(3))
      assert.deepStrictEqual(source.scan.ignoredFields, ["x", "y"])
      assert.isTrue(source.to?._tag === "Sqlite" && source.to.file.endsWith("/a.db"))
      const service = yield* Effect.provide(source.service, ConfigProvider.layer(ConfigProvider.fromEnvRecord(env)))
      assert.strictEqual(service.source, "https://api.example.com/ a")
      assert.isUndefined(service.maxRequestsPerSecond)
      const from = Object.fromEntries(source.settings.map((setting) => [setting.name, setting.from]))
      assert.include(from, { every: "PAYMENTS_EVERY", patience: "--patience", order: "default" })
      assert.match(from["account"] ?? "", /payments\.toml:7$/)
    }).pipe(Effect.scoped))

  it.effect("has the same revision until a setting changes", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "payments.toml")
      const revision = Effect.fnUntraced(function*(content: string) {
        writeFileSync(file, `[sources.a]\n${least}to = "sqlite:a.db"\n${content}`)
        return only(yield* Effect.provide(loadSources({ config: file }), NodeFileSystem.layer)).revision
      })
      const first = yield* revision("")
      assert.strictEqual(yield* revision("# a comment\n"), first)
      assert.notStrictEqual(yield* revision(`patience = "1h"`), first)
      assert.notStrictEqual(yield* revision(`personal = "omit"`), first)
      assert.notStrictEqual(yield* revision(`invoices_api_key_command = ["echo", "key"]`), first)
    }).pipe(Effect.scoped))
})

describe("the mistakes of a sources file", () => {
  it.effect("are reported at once, with their lines", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(
        yield* mistakes(`concurency = 5
[defaults]
every = "5"
cron = "* * * * *"
api_key_env = "NORTH"
[sources.north]
base_url = "http://example.com/v0"
api_key = "sk_live_123"
api_key_file = "keys/north"
api_key_command = []
to = "sqlite:./north.db"
wndow = 3
window = { days = 0, every = "10m" }
lists = ["invoices", "inv"]
head = { pages = 3 }
[sources.south]
to = "sqlite:north.db"
account = 5
max_requests_per_second = 0
invoice_params = { limit = "limit", cursor = "limit" }
time_zone = "Europa/Madrit"
[sources.west]
base_url = "https://x.example.com"
to = "postgres://u:secret@h/d"
cron = "0 0 31 2 *"
lists = ["payin-sources"]
window = { days = 7, every = "1h" }
[sources.ok]
base_url = "https://x.example.com"
to = "-"
order = "newest-first"
head = { pages = 3, every = "15s", cron = "* * * * *" }
[sources."Bad Name"]
[sources.empty]
max_age = "9999999d"
`),
        [
          "1: concurency is not a setting. The nearest one is concurrency.",
          "3: defaults.every must be a duration such as 90s, 5m or 2h, not shorter than 1s, in quotes.",
          "4: defaults sets both every and cron. Set one of them.",
          "7: sources.north.base_url must begin with https:// (plain http: exposes the key; it is only for localhost, 127.0.0.1 and [::1]).",
          "8: sources.north.api_key is not a setting, because no key stands in this file. Set api_key_file, api_key_env or api_key_command.",
          "10: sources.north.api_key_command must be an array of arguments, the first of which is the program.",
          "10: sources.north sets both api_key_file and api_key_command. Set one of them.",
          "12: sources.north.wndow is not a setting. The nearest one is window.",
          "13: sources.north.window.days must be a whole number from 1 to 366.",
          `14: sources.north.lists must be ${
            new Intl.ListFormat("en-GB", { type: "disjunction" }).format(Lists.all.map(({ label }) => `"${label}"`))
          }.`,
          "15: sources.north.head needs either every or cron.",
          "16: sources.south has no base_url.",
          "17: sources.south has the same destination as sources.north. Each source needs its own.",
          "18: sources.south.account must be text without control characters and without spaces at its ends, in quotes.",
          "19: sources.south.max_requests_per_second must be a number above 0.",
          "20: sources.south.invoice_params has the same name for two fields.",
          "21: sources.south.time_zone must be a time zone such as Europe/Madrid, in quotes.",
          "24: sources.west.to is no destination. No password stands in this file. Set PGPASSFILE or PGPASSWORD instead.",
          "25: sources.west.cron names a time that never comes.",
          "27: sources.west.window reads invoices, which are not in the lists of sources.west.",
          "30: sources.ok.to is no destination. Stdout (-) stores nothing.",
          "32: sources.ok.head needs either every or cron.",
          "33: The name of a source has 1 to 40 small letters, digits, _ and -.",
          "33: sources.… has no base_url.",
          "34: sources.empty has no base_url.",
          "35: sources.empty.max_age must be a duration such as 90s, 5m or 2h, in quotes."
        ]
      )
    }).pipe(Effect.scoped))

  it.effect("include every wrong rule for personal fields", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(
        yield* mistakes(`[defaults]
pseudonymize = ["contract"]
[sources.north]
${least}to = "sqlite:./north.db"
personal = "drop"
personal_key = "0123456789abcdef0123456789abcdef"
omit = ["email", "id", "contract"]
keep = ["contract", "customerDetails.email", "a,b", "id"]
[sources.south]
${least}to = "sqlite:./south.db"
personal = "pseudonymize"
pseudonymize = ["amount", "customerDetails", "metadata.name"]
undocumented = "quarantine"
[sources.west]
${least}to = "sqlite:./west.db"
personal = "pseudonymize"
personal_key_env = "A"
personal_key_file = "b"
`),
        [
          "2: defaults.pseudonymize names a field that omit names too. Name it in one of them.",
          `7: sources.north.personal must be "keep", "omit" or "pseudonymize".`,
          "8: sources.north.personal_key is not a setting, because no key stands in this file. Set personal_key_file, personal_key_env or personal_key_command.",
          "9: sources.north.omit names a field that the API's document does not have. Did you mean customerDetails.email? An undocumented field with such a name needs double quotes.",
          "9: sources.north.omit names id, which every row needs.",
          "10: sources.north.keep must be a field such as customerDetails.email, in quotes.",
          "15: sources.south.personal needs a key. Set personal_key_file, personal_key_env or personal_key_command.",
          "16: sources.south.pseudonymize can only name text fields of the API's document, and amount is none.",
          "16: sources.south.pseudonymize can only name text fields of the API's document, and customerDetails is none.",
          "16: sources.south.pseudonymize can only name text fields of the API's document.",
          `17: sources.south.undocumented must be "keep", "omit" or "hold".`,
          "23: sources.west sets both personal_key_file and personal_key_env. Set one of them."
        ]
      )
    }).pipe(Effect.scoped))

  it.effect("in a source with a wrong name are reported with it, and no name that may be a secret", () =>
    Effect.gen(function*() {
      const secret = "sk live canary"
      assert.deepStrictEqual(
        yield* mistakes(`[sources.North]
evry = "5m"
api_key_env = "KEY"
max_age = 7
[sources."${secret}"]
base_url = "https://api.example.com"
api_key_env = "KEY"
cron = "0 2 30 2 *"
window = { days = 7 }
`),
        [
          "1: The name of a source has 1 to 40 small letters, digits, _ and -.",
          "1: sources.North has no base_url.",
          "2: sources.North.evry is not a setting. The nearest one is every.",
          "4: sources.North.max_age must be a duration such as 90s, 5m or 2h, in quotes.",
          "5: The name of a source has 1 to 40 small letters, digits, _ and -.",
          "8: sources.….cron names a time that never comes.",
          "9: sources.….window needs either every or cron."
        ]
      )
    }).pipe(Effect.scoped))

  it.effect("in [defaults] are reported once, whatever the number of sources", () =>
    Effect.gen(function*() {
      const sources = Array.from({ length: 500 }, (_, index) => `[sources.s${index}]\nto = "sqlite:s${index}.db"\n`)
      assert.deepStrictEqual(
        yield* mistakes(`[defaults]\nbase_url = "ftp://x"\napi_key_env = "KEY"\n${sources.join("")}`),
        ["2: defaults.base_url must begin with https://."]
      )
    }).pipe(Effect.scoped))

  it.effect("include a file without a source, a source without a key or a destination, and every other shape", () =>
    Effect.gen(function*() {
      const noSource = "-: The file has no source. Add one: payments source add NAME --base-url URL."
      for (
        const [content, expected] of [
          ["", noSource],
          ["sources = {}", noSource],
          ["[[sources]]\nname = 1", "1: sources must be a table."],
          ["sources = 5", "1: sources must be a table."],
          ["[sources]\nnorth = 5", "2: sources.north must be a table."],
          [
            "defaults = []\n[sources.a]\nbase_url='https://x'\napi_key_env='K'\nto='file:x'",
            "1: defaults must be a table."
          ],
          [
            "[sources.a]\nbase_url = 'https://x'",
            "1: sources.a has no key. Set api_key_file, api_key_env or api_key_command."
          ],
          [`[sources.a]\n${least}`, "-: sources.a has no destination. Set to."],
          [
            `[sources.a]\nbase_url='https://x'\napi_key_file='~/key'\nto='file:x'`,
            "3: sources.a.api_key_file must be the path of a file, without ~, in quotes."
          ],
          [`[sources.a\n${least}to='file:x'`, "1: The name of a table has no closing bracket."],
          [`[sources.a]\n${least}to='file:x'\n[sources.b\n\n`, "5: The name of a table has no closing bracket."],
          [`[sources.a]\n${least}to =\n\n# a comment\nevery = "5m"`, "4: The key has no value."],
          [`[sources.a]\n${least}to = # why\n`, "4: The key has no value."],
          [`[sources.a]\n${least}to='file:x'\nlists = [\n`, "5: Unspecified values are invalid."],
          [
            `[sources.a]\n${least}to # why\n# a comment\n\n[sources.b]`,
            "4: The key, equals sign, and value must be on the same line."
          ],
          [`[sources.a]\n${least}to='file:x'\n[sources.a]`, "5: Defining a key multiple times is invalid."],
          [`[sources.a]\n${least}to='file:x`, "4: Unterminated string constant."],
          [
            `[sources.a]\n${least}to='file:x'\n__proto__ = { every = "5m" }`,
            "5: sources.a.__proto__ is not a setting. The nearest one is to."
          ],
          [`${"[sources.a]\nx=".padEnd(60, "[")}`, "2: Unspecified values are invalid."],
          [`x = ${"[".repeat(30)}${"]".repeat(30)}`, "1: Tables or arrays are nested too deeply."],
          [`${"a.".repeat(20_000)}b = 1`, "1: Tables or arrays are nested too deeply."]
        ] as const
      ) {
        assert.deepStrictEqual(yield* mistakes(content), [expected], content.slice(0, 80))
      }
    }).pipe(Effect.scoped))

  it.effect("never repeat a value, for any wrong value of any setting", () =>
    Effect.gen(function*() {
      const canary = "sk_live_canary5ecret"
      const values = [
        `"${canary}"`,
        `" ${canary}"`,
        `"${canary}\\u0000"`,
        `["${canary}", 5]`,
        `[["${canary}"]]`,
        `{ ${canary} = "${canary}" }`,
        `{ days = "${canary}", pages = "${canary}", every = "${canary}", cron = "${canary}" }`,
        "5",
        "-1.5",
        "nan",
        "99999999999999999999999",
        "true",
        "1979-05-27",
        "[]",
        "{}",
        `"""\n${canary}\n"""`
      ]
      let refused = 0
      for (const name of [...Object.keys(SourceSettings.fields), canary]) {
        for (const value of values) {
          const base = ["base_url = \"https://api.example.com\"", "api_key_env = \"KEY\"", "to = \"sqlite:a.db\""]
            .filter((line) => !line.startsWith(`${name} =`))
          const result = yield* Effect.result(load(`[sources.a]\n${base.join("\n")}\n${name} = ${value}\n`))
          if (Result.isSuccess(result)) continue
          refused++
          assert.instanceOf(result.failure, SourcesError, `${name} = ${value}`)
          assert.notInclude(result.failure.message.toLowerCase(), canary, `${name} = ${value}`)
          for (const { line = 1 } of result.failure.findings) assert.isAtMost(line, base.length + 4)
        }
      }
      assert.isAbove(refused, 300)
    }).pipe(Effect.scoped))

  it.effect(`never end in a defect, for any bytes (PAYMENTS_SEED=${seed})`, () =>
    Effect.gen(function*() {
      const dice = diceOf(seed, "sources file")
      const text = `concurrency = 7\n[defaults]\nevery = "5m"\n[sources.north]${complete}`
      const pieces = [
        "[",
        "]",
        "=",
        "\"",
        "'",
        "\n",
        ".",
        "{",
        "}",
        "#",
        "sources",
        "\u0000",
        "\uD800",
        "0x",
        "1979-05-27T",
        ","
      ]
      for (let run = 0; run < 400; run++) {
        const bytes = [...Buffer.from(text)]
        for (let edit = dice.below(6); edit >= 0; edit--) {
          const at = dice.below(bytes.length)
          const inserted = dice.chance(0.5) ? [...Buffer.from(dice.pick(pieces))] : [dice.below(256)]
          bytes.splice(at, dice.below(4), ...inserted)
        }
        const result = yield* Effect.result(load(Uint8Array.from(bytes)))
        if (Result.isSuccess(result)) continue
        assert.instanceOf(result.failure, SourcesError)
        assert.isAbove(result.failure.findings.length, 0)
      }
    }).pipe(Effect.scoped))

  it.effect("include a file that is too large, no text, no file or unreadable", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* mistakes("#".repeat(1024 * 1024 + 1)), [
        "-: The sources file contains more than 1024 KiB."
      ])
      assert.deepStrictEqual(yield* mistakes(Uint8Array.from([0x0a, 0xff])), [
        "-: The sources file is not UTF-8 text (line 2)."
      ])
      const folder = yield* temporaryFolder
      spawnSync("mkfifo", [join(folder, "pipe")])
      for (
        const [name, problem] of [
          [".", "is a folder, not a plain file"],
          ["pipe", "is a pipe, not a plain file"],
          [
            "none",
            "does not exist. Name another one with --config or PAYMENTS_CONFIG, or create it: payments source add"
          ]
        ] as const
      ) {
        const { message } = yield* Effect.flip(
          Effect.provide(readSourcesFile(join(folder, name)), NodeFileSystem.layer)
        )
        assert.strictEqual(message, `${join(folder, name)}: The sources file ${problem}.`)
      }
    }).pipe(Effect.scoped))

  it.effect("are found in a file of 1,000 sources within seconds", () =>
    Effect.gen(function*() {
      const sources = Array.from({ length: 1000 }, (_, index) =>
        `[sources.s${index}]\n${least}to = "sqlite:s${index}.db"\nwindow = { days = 7, every = "10m" }\n`)
      const startedAt = processorMs()
      const { sources: loaded } = yield* load(sources.join(""))
      assert.strictEqual(loaded.length, 1000)
      assert.strictEqual(loaded[999]?.name, "s999")
      assert.isBelow(processorMs() - startedAt, 10_000)
    }).pipe(Effect.scoped))
})

describe("one destination", () => {
  it.effect("cannot belong to two sources, however it is written", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      mkdirSync(join(folder, "real"))
      symlinkSync("real", join(folder, "link"))
      const pairs = [
        ["sqlite:real/a.db", "sqlite:link/a.db", true],
        ["sqlite:./real/../a.db", `sqlite:${folder}/a.db`, true],
        ["file:real", "file:link?format=csv", true],
        ["file:real", "sqlite:link/copy.db", true],
        ["postgres://localhost/finance", "postgres://db@LOCALHOST:5432/finance?schema=payments", true],
        ["postgres:///finance", "postgres://localhost/finance", true],
        ["postgres://localhost/finance", "postgres://localhost/finance?schema=south", false],
        ["sqlite:a.db", "sqlite:b.db", false],
        ["sqlite:a", "file:b", false]
      ] as const
      const file = join(folder, "payments.toml")
      for (const [one, other, isSame] of pairs) {
        writeFileSync(file, `[sources.a]\n${least}to = "${one}"\n[sources.b]\n${least}to = "${other}"\n`)
        const result = yield* Effect.result(Effect.provide(loadSources({ config: file }), NodeFileSystem.layer))
        assert.strictEqual(Result.isFailure(result), isSame, `${one} ${other}`)
        if (Result.isFailure(result)) {
          assert.include(result.failure.message, ":8: sources.b has the same destination as sources.a.")
        }
      }
    }).pipe(Effect.scoped))
})

describe("the usual place of the file", () => {
  it.effect("is in the platform's configuration folder, never in the working folder", () =>
    Effect.gen(function*() {
      const home = { HOME: "/home/user" }
      const inHome = (folder: string) => `/home/user/${folder}/payments/payments.toml`
      for (
        const [platform, env, expected] of [
          ["linux", home, inHome(".config")],
          ["linux", { ...home, XDG_CONFIG_HOME: "/etc/user" }, "/etc/user/payments/payments.toml"],
          ["linux", { ...home, XDG_CONFIG_HOME: "relative" }, inHome(".config")],
          ["linux", { ...home, XDG_CONFIG_HOME: "" }, inHome(".config")],
          ["darwin", { ...home, XDG_CONFIG_HOME: "/etc/user" }, inHome("Library/Application Support")],
          ["win32", { ...home, APPDATA: "/appdata" }, "/appdata/payments/payments.toml"],
          ["win32", home, inHome("AppData/Roaming")]
        ] as const
      ) {
        const found = yield* Effect.provide(
          usualFile(platform),
          ConfigProvider.layer(ConfigProvider.fromEnvRecord(env))
        )
        assert.strictEqual(found, expected)
      }
      for (const env of [{}, { HOME: "" }, { HOME: "." }, { HOME: "relative", XDG_CONFIG_HOME: "." }]) {
        const found = yield* Effect.provide(usualFile("linux"), ConfigProvider.layer(ConfigProvider.fromEnvRecord(env)))
        assert.isTrue(found === undefined || isAbsolute(found))
        assert.isFalse(found?.startsWith(process.cwd()) ?? false)
      }
    }))
})

describe("a file that every user may change", () => {
  it.effect("gets a warning, which says more if it names commands", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.toml")
      const warnings: Array<unknown> = []
      const logger = Logger.layer([Logger.make(({ message }) => void warnings.push(message))])
      for (
        const [mode, key, expected] of [
          [0o646, `api_key_command = ["x"]`, ["where keys are sent and which commands run. Restrict it: chmod 600."]],
          [0o646, `api_key_env = "X"`, ["where keys are sent. Restrict it: chmod 600."]],
          [0o664, `api_key_command = ["x"]`, []],
          [0o600, `api_key_env = "X"`, []]
        ] as const
      ) {
        writeFileSync(file, `[sources.a]\nbase_url = "https://x.example.com"\n${key}\n`)
        chmodSync(file, mode)
        warnings.length = 0
        yield* Effect.provide(readSourcesFile(file), Layer.merge(NodeFileSystem.layer, logger))
        const found = warnings.map((warning) => String(warning).replace(/^.*, and so /, ""))
        assert.deepStrictEqual(found, [...expected], `${mode.toString(8)} ${key}`)
      }
    }).pipe(Effect.scoped))
})
