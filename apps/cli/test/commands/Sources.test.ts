/** The sources file from the command line: which source a command uses, and that no key is printed. */
import { assert, describe, it } from "@effect/vitest"
import { payments, rowsOf, type RunResult, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/** Two sources that read one sandbox. */
const twoSources = (url: string) =>
  `[defaults]
base_url = "${url}"
api_key_env = "KEY"

[sources.north]
account = "north"
to = "sqlite:north.db"
lists = ["invoices"]
max_age = "1h"
keep_changes = "1h"

[sources.south]
account = "south"
to = "sqlite:south.db"
`

/** Writes a sources file into a new folder. */
const written = Effect.fnUntraced(function*(content: string) {
  const folder = yield* temporaryFolder
  const file = join(folder, "payments.toml")
  writeFileSync(file, content)
  return { folder, file }
})

const assertEnds = ({ code, stderr, stdout }: RunResult, expected: number, ...texts: ReadonlyArray<string>) => {
  assert.strictEqual(code, expected, stdout + stderr)
  for (const text of texts) assert.include(stderr, text)
}

const invoicesIn = (file: string): unknown => rowsOf(file, "SELECT count(*) AS n FROM invoices")[0]?.["n"]

describe("a source", () => {
  it.live("is chosen for every command by --source or PAYMENTS_SOURCE", () =>
    Effect.gen(function*() {
      const { PAYMENTS_API_KEY, PAYMENTS_BASE_URL } = yield* sandboxEnv({ records: 30 })
      const { file, folder } = yield* written(twoSources(PAYMENTS_BASE_URL))
      const env = { KEY: PAYMENTS_API_KEY, PAYMENTS_CONFIG: file }
      // The flags can stand before and after the command.
      assertEnds(yield* payments(["--source", "north", "export"], { env }), 0)
      assertEnds(
        yield* payments(["export", "--config", file, "--source", "south"], { env: { KEY: PAYMENTS_API_KEY } }),
        0
      )
      assert.strictEqual(invoicesIn(join(folder, "north.db")), 30)
      assert.strictEqual(invoicesIn(join(folder, "south.db")), 30)
      const tables = "SELECT count(*) AS n FROM payout_requests"
      assert.strictEqual(rowsOf(join(folder, "north.db"), tables)[0]?.["n"], 0, "it copies only invoices")

      const north = { env: { ...env, PAYMENTS_SOURCE: "north" } }
      assert.strictEqual((yield* payments(["invoices", "list", "--max", "3"], north)).stdout.split("\n").length, 4)
      assert.strictEqual(
        (yield* payments(["query", "SELECT count(*) AS n FROM invoices"], north)).stdout,
        "{\"n\":30}\n"
      )
      assert.strictEqual(
        (yield* payments(["verify", "--against-api"], north)).stdout,
        "invoices: matches the certificate of scan 1: 30 records\ninvoices: matches the API\n"
      )
      for (
        const command of [["changes"], ["quarantine"], ["prune"], ["conformance", "--pages", "1", "--pause", "1ms"]]
      ) {
        assertEnds(yield* payments(command, north), 0)
      }
      const status = yield* payments(["status", "--format", "json"], north)
      assert.deepInclude(JSON.parse(status.stdout), {
        ...JSON.parse(status.stdout)[0],
        list: "invoices",
        maxAgeSeconds: 3600,
        isFresh: true
      })
      // A destination belongs to the address and the account of its source.
      const other = yield* payments(["export", "--source", "south", "--to", `sqlite:${folder}/north.db`], { env })
      assertEnds(other, 9, "another source")
      // An argument names the destination, so no source is needed.
      const named = ["query", "--from", `sqlite:${folder}/south.db`, "SELECT 1"]
      assertEnds(yield* payments(named, { env: { PAYMENTS_CONFIG: "/missing.toml" } }), 0)
    }).pipe(Effect.scoped))

  it.live("never comes from the working folder", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      for (const folder of [".", "payments", "relative/payments", ".config/payments"]) {
        mkdirSync(join(cwd, folder), { recursive: true })
        writeFileSync(join(cwd, folder, "payments.toml"), twoSources("http://127.0.0.1:1"))
      }
      for (const env of [{}, { XDG_CONFIG_HOME: "relative", HOME: "/dev/null" }]) {
        const ended = yield* payments(["export", "--to", "sqlite:x.db"], { env, cwd })
        assertEnds(ended, 3, "PAYMENTS_BASE_URL is not set")
      }
      assert.isFalse(existsSync(join(cwd, "x.db")))
      assertEnds(
        yield* payments(["start"], { env: { PAYMENTS_SOURCE: "north" }, cwd }),
        2,
        "payments export --source NAME"
      )
    }).pipe(Effect.scoped))

  it.live("gets a new key from its command when the service no longer accepts the old one", () =>
    Effect.gen(function*() {
      const { PAYMENTS_BASE_URL } = yield* sandboxEnv({ records: 250 })
      // The sandbox accepts only keys that begin with sandbox_.
      const script = `printf x >> runs; [ "$(cat runs)" = x ] && echo expired || echo sandbox_fresh`
      const { file, folder } = yield* written(`[sources.north]
base_url = "${PAYMENTS_BASE_URL}"
api_key_command = ["sh", "-c", '''${script}''']
to = "sqlite:north.db"
`)
      assertEnds(yield* payments(["export"], { env: { PAYMENTS_CONFIG: file } }), 0)
      assert.strictEqual(invoicesIn(join(folder, "north.db")), 250)
      assert.strictEqual(readFileSync(join(folder, "runs"), "utf8"), "xx", "one request reads the key for all")
    }).pipe(Effect.scoped))

  it.live("ends its key command when it is interrupted", () =>
    Effect.gen(function*() {
      const { file, folder } = yield* written(`[sources.north]
base_url = "http://127.0.0.1:1"
api_key_command = ["sh", "-c", "echo $$ > pid; sleep 1000; echo"]
to = "sqlite:north.db"
`)
      const pid = join(folder, "pid")
      // The shell makes the file before it writes the number into it.
      const isWritten = () => existsSync(pid) && readFileSync(pid, "utf8").endsWith("\n")
      const { code } = yield* payments(["export", "--config", file], { interruptWhen: isWritten })
      assert.strictEqual(code, 130)
      const isRunning = () => {
        try {
          return process.kill(Number(readFileSync(pid, "utf8")), 0)
        } catch {
          return false
        }
      }
      yield* Effect.timeout(Effect.repeat(Effect.sleep("10 millis"), { until: () => !isRunning() }), "1 minute")
      assert.isFalse(existsSync(join(folder, "north.db")))
    }).pipe(Effect.scoped))
})

describe("payments config", () => {
  const canary = "sk_live_canary5ecret"

  it.live("shows no key, and nothing of how to get one, in any format", () =>
    Effect.gen(function*() {
      const { file, folder } = yield* written(`[defaults]
base_url = "https://payments.example.com"
[sources.north]
api_key_file = "${canary}"
invoices_api_key_command = ["echo", "${canary}"]
[sources.south]
api_key_command = ["echo", "${canary}", "-H", "Authorization: ${canary}"]
invoices_api_key_env = "${canary}"
to = "sqlite:south.db"
`)
      writeFileSync(join(folder, canary), canary)
      for (const format of ["table", "json", "ndjson", "csv"]) {
        const { code, stderr, stdout } = yield* payments(["config", "--config", file, "--format", format])
        assert.deepStrictEqual([code, stderr], [0, ""])
        assert.notInclude(stdout, canary)
        assert.strictEqual(stdout.match(/\*\*\*/g)?.length, 4)
        // The number of asterisks does not depend on the key.
        assert.notInclude(stdout, "****")
      }
      const { stdout } = yield* payments(["config", "--config", file, "--source", "south", "--format", "ndjson"])
      const rows = stdout.trimEnd().split("\n").map((line) => JSON.parse(line))
      assert.deepStrictEqual(rows.filter(({ setting }) => /^(base_url|api_key_command)$/.test(setting)), [
        {
          source: "south",
          setting: "base_url",
          value: "https://payments.example.com",
          from: `${file}:2`,
          schemaVersion: 1
        },
        { source: "south", setting: "api_key_command", value: "***", from: `${file}:7`, schemaVersion: 1 }
      ])
    }).pipe(Effect.scoped))

  it.live("shows the environment as the source default, without its key and password", () =>
    Effect.gen(function*() {
      const env = {
        PAYMENTS_BASE_URL: "https://payments.example.com",
        PAYMENTS_API_KEY: canary,
        PAYMENTS_INVOICES_API_KEY_FILE: canary,
        PAYMENTS_TO: `postgres://user:${canary}@db.example.com/finance`,
        PAYMENTS_MISSING_LIMIT: "5%"
      }
      const { code, stderr, stdout } = yield* payments(["config", "--format", "csv"], { env })
      assert.deepStrictEqual([code, stderr], [0, ""])
      const rows = stdout.replaceAll("\r\n", "\n").split("\n")
      assert.deepStrictEqual(
        rows.filter((row) => /^(source,setting|default,(?!.*,default$))/.test(row)),
        [
          "source,setting,value,from",
          "default,api_key,***,PAYMENTS_API_KEY",
          "default,base_url,https://payments.example.com,PAYMENTS_BASE_URL",
          "default,invoices_api_key_file,***,PAYMENTS_INVOICES_API_KEY_FILE",
          "default,to,postgres://user@db.example.com/finance?schema=payments,PAYMENTS_TO",
          "default,missing_limit,5%,PAYMENTS_MISSING_LIMIT"
        ]
      )
      for (
        const row of [`lists,"payout-requests, payin-sources, invoices"`, "every,5m", "order,unknown", "patience,15m"]
      ) {
        assert.include(rows, `default,${row},default`)
      }
      assert.include(rows, "default,on_locked,refuse,default")
      const wrong = yield* payments(["config"], { env: { ...env, PAYMENTS_BASE_URL: `https://u:${canary}@x` } })
      assertEnds(wrong, 3, "PAYMENTS_BASE_URL must not contain a user name or password")
      assert.notInclude(wrong.stdout + wrong.stderr, canary)
      assertEnds(
        yield* payments(["config"], { env: { PAYMENTS_API_KEY: canary } }),
        3,
        "PAYMENTS_BASE_URL is not set"
      )
    }).pipe(Effect.scoped))

  it.live("never shows a key in an error", () =>
    Effect.gen(function*() {
      const at = `base_url = "http://127.0.0.1:1"\nto = "sqlite:x.db"\n`
      const keys = [
        [`api_key = "${canary}"`, "no key stands in this file"],
        [`api_key_file = "${canary}"`, ":2: api_key_file cannot be used: the file that it names does not exist"],
        [`api_key_env = "${canary}"`, ":2: api_key_env names a variable that is not set"],
        [`api_key_env = "WITH_SPACE"`, ":2: api_key_env contains a character that is not allowed in a header"],
        [`api_key_command = ["${canary}"]`, ":2: api_key_command cannot be started (ENOENT)"],
        [
          `api_key_command = ["sh", "-c", "echo ${canary}; echo ${canary} >&2; exit 7"]`,
          ":2: api_key_command failed with exit code 7"
        ],
        [`api_key_command = "${canary}"`, "must be an array of arguments"],
        [`api_key_command = ["printf", "${canary} x"]`, ":2: api_key_command contains a character"]
      ] as const
      for (const [key, problem] of keys) {
        const { file } = yield* written(`[sources.north]\n${key}\n${at}`)
        const env = { PAYMENTS_CONFIG: file, WITH_SPACE: `${canary} x` }
        const { code, stderr, stdout } = yield* payments(["export"], { env })
        assert.deepStrictEqual([code, stdout], [3, ""], stderr)
        assert.include(stderr, problem)
        assert.notInclude(stderr, canary)
      }
    }).pipe(Effect.scoped))
})
