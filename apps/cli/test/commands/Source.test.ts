/** `payments source` and `payments config`: the settings from the command line. No key is ever shown. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { chosenConfig, run } from "@payments/program"
import { binary, payments, runProgram, type RunResult, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { type Cause, ConfigProvider, Effect, Layer, Option, Queue, Sink, Stdio, Terminal } from "effect"
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { payments as commandLine } from "../../src/cli.ts"
import { runInProcess } from "../program/InProcess.ts"

const canary = "sk_live_canary5ecret"
const url = "https://payments.example.com"

// These commands request nothing.
const noApi = Layer.effect(PaymentsApi, Effect.die("not used"))

const assertEnds = ({ code, stderr, stdout }: RunResult, expected: number, ...texts: ReadonlyArray<string>) => {
  assert.strictEqual(code, expected, stdout + stderr)
  assert.notInclude(stdout + stderr, canary)
  for (const text of texts) assert.include(stdout + stderr, text)
}

/** Runs the command line in this process on a terminal where someone types this text. Returns its code and what it shows. */
const typing = Effect.fnUntraced(function*(args: ReadonlyArray<string>, env: Record<string, string>, typed: string) {
  let shown = ""
  let isPiped = false
  const stream = (isStdout: boolean) => () =>
    Sink.forEach((text: string | Uint8Array) =>
      Effect.sync(() => {
        if (isStdout) isPiped = true
        shown += String(text)
      })
    )
  const stdio = Stdio.layerTest({
    stdout: stream(true),
    stderr: stream(false),
    stdinIsTerminal: Effect.succeed(true),
    stderrIsTerminal: Effect.succeed(true)
  })
  const keyboard = Layer.effect(
    Terminal.Terminal,
    Effect.gen(function*() {
      const terminal = yield* Terminal.Terminal
      const keys = yield* Queue.unbounded<Terminal.UserInput, Cause.Done>()
      const press = (name: string, input: Option.Option<string>) =>
        Queue.offer(keys, { input, key: { name, ctrl: false, meta: false, shift: false } })
      for (const character of typed) {
        yield* character === "\u0003"
          // After Ctrl-C, the terminal ends the input.
          ? Queue.end(keys)
          : character === "\n"
          ? press("enter", Option.none())
          : press(character, Option.some(character))
      }
      return { ...terminal, columns: Effect.succeed(80), readInput: Effect.succeed(keys) }
    })
  ).pipe(Layer.provide(NodeServices.layer))
  const services = {
    api: noApi,
    config: chosenConfig,
    http: layerHttpClient,
    version: "0.0.0"
  }
  const command = yield* Effect.promise(() => commandLine(services, args))
  const exit = yield* Effect.exit(
    run(command, args, { version: "0.0.0" }).pipe(
      Effect.provide(Layer.mergeAll(NodeServices.layer, keyboard, stdio)),
      Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord(env)))
    )
  )
  return { exit, isPiped, shown }
})

describe("payments source", () => {
  it.live(
    "adds, lists and removes sources; the key comes from standard input, a command, a file or a variable",
    () =>
      Effect.gen(function*() {
        const cwd = yield* temporaryFolder
        const env = { XDG_CONFIG_HOME: join(cwd, "config") }
        const file = join(cwd, "config/payments/payments.toml")
        const script =
          `printf ' ${canary} \\n' | "$0" "$1" source add north --base-url ${url} --key-stdin --to sqlite:north.db`
        const piped = yield* runProgram("sh", ["-c", script, process.execPath, binary], { env, cwd })
        assertEnds(piped, 0, "Added north", "payments doctor --source north")
        assert.strictEqual(piped.stdout, "")
        const key = join(cwd, "config/payments/keys/north")
        assert.strictEqual(readFileSync(key, "utf8"), `${canary}\n`)
        assert.strictEqual(statSync(key).mode & 0o777, 0o600)
        const add = (name: string, ...args: ReadonlyArray<string>) =>
          payments(["source", "add", name, "--base-url", url, ...args], { env, cwd })
        assertEnds(yield* add("a", "--key-command", "pass show 'a b' | head -1", "--account", "first"), 0)
        assertEnds(yield* add("b", "--key-command", "pass show b", "--to", "file:out?format=csv"), 0)
        assertEnds(yield* add("c", "--key-file", "c.key"), 0)
        assertEnds(yield* add("d", "--key-env", "KEY"), 0)
        assert.strictEqual(
          readFileSync(file, "utf8").replaceAll(cwd, "/cwd"),
          `[sources.north]
base_url = "${url}"
to = "sqlite:/cwd/north.db"
api_key_file = "keys/north"

[sources.a]
base_url = "${url}"
account = "first"
api_key_command = ["sh", "-c", "pass show 'a b' | head -1"]

[sources.b]
base_url = "${url}"
api_key_command = ["pass", "show", "b"]
to = "file:/cwd/out?format=csv"

[sources.c]
base_url = "${url}"
api_key_file = "/cwd/c.key"

[sources.d]
base_url = "${url}"
api_key_env = "KEY"
`
        )
        const config = yield* payments(["config"], { env })
        assertEnds(config, 0, `"source":"north"`)
        assert.strictEqual(config.stderr, "")
        for (
          const words of [["source", "list"], ["sources"], ["--log-level", "info", "source", "--config", file, "list"]]
        ) {
          const old = yield* payments(words, { env })
          assertEnds(old, 0, "is now called payments config. Version 0.3.0 no longer accepts the old name.")
          const rows = (text: string) => text.split("\n").filter((row) => !/"setting":"config"/.test(row))
          assert.deepStrictEqual(rows(old.stdout), rows(config.stdout))
        }
        assertEnds(yield* payments(["source", "remove", "north"], { env }), 0, "Removed its key")
        assert.isFalse(existsSync(key))
        const before = readFileSync(file, "utf8")
        const refusals: ReadonlyArray<readonly [ReadonlyArray<string>, number, string]> = [
          [["remove", "nort"], 2, "no source of that name"],
          [["add", "a", "--base-url", url, "--key-env", "K"], 2, "already has a source a"],
          [["add", "e", "--base-url", url], 2, "There is no terminal to ask for the key"],
          [["add", "e", "--base-url", url, "--key-stdin"], 2, "The key is empty"],
          [["add", "e", "--base-url", url, "--key-stdin", "--key-env", "K"], 2, "Give one of"],
          [["add", "e", "--base-url", url, "--key-env", "K", "--to", "-"], 2, "stdout (-) stores nothing"],
          [["add", "e", "--base-url", url, "--key-env", "K", "--source", "a"], 2, "--source"],
          [["add", "e", "--base-url", url, "--api-key", canary], 2, ""]
        ]
        for (const [args, code, problem] of refusals) {
          const ended = yield* runInProcess(noApi, ["source", ...args]).pipe(
            Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord(env)))
          )
          assertEnds({ code: ended.code, signal: null, stdout: ended.out, stderr: ended.err }, code, problem)
        }
        assert.strictEqual(readFileSync(file, "utf8"), before)
        writeFileSync(file, `${before}[sources.x`)
        assertEnds(yield* add("e", "--key-env", "K"), 3, "payments.toml:")
        assert.strictEqual(readFileSync(file, "utf8"), `${before}[sources.x`)
      }).pipe(Effect.scoped)
  )

  it.live("leaves a file that every command understands when it removes the last source", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = { XDG_CONFIG_HOME: join(cwd, "config") }
      const file = join(cwd, "config/payments/payments.toml")
      const none = yield* payments(["config"], { env })
      assertEnds(none, 0, `There is no sources file. It would be ${file}. Add a source: payments source add NAME`)
      assertEnds(yield* payments(["source", "add", "x", "--base-url", url, "--key-env", "K"], { env }), 0)
      assertEnds(yield* payments(["source", "remove", "x"], { env }), 0)
      for (const command of ["config", "sources"]) {
        assertEnds(yield* payments([command], { env }), 0, `${file} has no source. Add a source: payments source add`)
      }
      const doctor = yield* payments(["doctor"], { env })
      assertEnds(doctor, 3, `${file} has no source`, "payments source add NAME --base-url URL")
      assert.notInclude(doctor.stdout, "is not set")
      assertEnds(yield* payments(["invoices", "list"], { env }), 3, "PAYMENTS_BASE_URL is not set")
      // A file that is named is never replaced by the environment.
      const service = { ...env, PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "k" }
      assertEnds(yield* payments(["invoices", "list", "--config", file], { env: service }), 3, "The file has no source")
      assertEnds(yield* payments(["config", "--config", file], { env: service }), 0, "has no source")
      assertEnds(yield* payments(["source", "add", "y", "--base-url", url, "--key-env", "K"], { env }), 0, "Added y")
    }).pipe(Effect.scoped))

  it.live("names every flag that is missing without a terminal, and leaves no file", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = { XDG_CONFIG_HOME: join(cwd, "config") }
      const ended = yield* payments(["source", "add", "shop"], { env })
      assertEnds(ended, 2, "give --base-url URL", "give --key-stdin")
      assert.deepStrictEqual(readdirSync(cwd), [])
      const named = yield* payments(["source", "add", "Shop", "--base-url", url, "--key-env", "K"], { env })
      assertEnds(named, 2, "The name of a source has 1 to 40 small letters")
      assert.deepStrictEqual(readdirSync(cwd), [])
    }).pipe(Effect.scoped))

  it.live(
    "asks for the address on the terminal, unless the defaults of the file have one",
    () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const file = join(folder, "payments.toml")
        const env = { PAYMENTS_CONFIG: file }
        const wrong = yield* typing(["source", "add", "shop"], env, "ftp://x\n")
        assert.deepInclude(wrong.exit, { value: 2 })
        assert.include(wrong.shown, "base_url must begin with https://")
        assert.notInclude(wrong.shown, "API key of")
        const name = yield* typing(["source", "add", "Shop"], env, "")
        assert.include(name.shown, "The name of a source")
        assert.notInclude(name.shown, "Address of")
        assert.deepStrictEqual(readdirSync(folder), [])
        const added = yield* typing(["source", "add", "shop"], env, `${url}\n${canary}\n`)
        assert.deepInclude(added.exit, { value: 0 })
        assert.isFalse(added.isPiped)
        assert.isBelow(added.shown.indexOf("Address of the service of shop"), added.shown.indexOf("API key of shop"))
        assert.strictEqual(
          readFileSync(file, "utf8"),
          `[sources.shop]\nbase_url = "${url}"\napi_key_file = "keys/shop"\n`
        )
        writeFileSync(file, `[defaults]\nbase_url = "${url}"\n`)
        const inherited = yield* typing(["source", "add", "other"], env, `${canary}\n`)
        assert.deepInclude(inherited.exit, { value: 0 })
        assert.notInclude(inherited.shown, "Address of")
      }).pipe(Effect.scoped)
  )

  it.live.skipIf(!existsSync("/proc/self"))("fails if its folder can never be created", () =>
    Effect.gen(function*() {
      const add = ["source", "add", "a", "--base-url", url, "--key-env", "K"]
      const file = "/proc/payments/payments.toml"
      const ended = yield* payments(add, { env: { XDG_CONFIG_HOME: "/proc" }, killAfterMs: 60_000 })
      assertEnds(ended, 9, `${file} was not changed: it cannot be written: its folder does not exist (ENOENT).`)
    }))

  it.live("loses no change of programs that run at once", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "payments.toml")
      const names = ["a", "b", "c", "d"]
      const results = yield* Effect.forEach(
        names,
        (name) => payments(["source", "add", name, "--base-url", url, "--key-env", "K", "--config", file]),
        { concurrency: "unbounded" }
      )
      for (const result of results) assertEnds(result, 0)
      const found = [...readFileSync(file, "utf8").matchAll(/^\[sources\.(.)\]$/gm)].map(([, name]) => name)
      assert.deepStrictEqual(found.toSorted(), names)
      assert.deepStrictEqual(readdirSync(folder).toSorted(), ["payments.toml", "payments.toml.lock"])
    }).pipe(Effect.scoped))

  it.live(
    "asks for the key on the terminal without showing it, and not before it can be used",
    () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const env = { PAYMENTS_CONFIG: join(folder, "payments.toml") }
        const add = ["source", "add", "north", "--base-url", url]
        const cancelled = yield* typing(add, env, "sk_l\u0003")
        assert.strictEqual(cancelled.exit._tag, "Failure")
        assert.isFalse(existsSync(env.PAYMENTS_CONFIG))
        const added = yield* typing(add, env, `${canary}\n`)
        assert.deepInclude(added.exit, { value: 0 })
        assert.include(added.shown, "API key of north")
        // The question must not get into a pipe.
        assert.isFalse(added.isPiped)
        for (let length = 3; length <= canary.length; length++) assert.notInclude(added.shown, canary.slice(0, length))
        assert.strictEqual(readFileSync(join(folder, "keys/north"), "utf8"), `${canary}\n`)
        const again = yield* typing(add, env, "")
        assert.include(again.shown, "already has a source north")
        assert.notInclude(again.shown, "API key of")
      }).pipe(Effect.scoped)
  )
})

describe("payments config", () => {
  it.live("prints every setting: a flag overrides the environment, which overrides the file, then the default", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "payments.toml")
      writeFileSync(
        file,
        `[sources.north]\nbase_url = "${url}"\napi_key_env = "${canary}"\npatience = "1m"\nmissing_limit = "1%"\non_locked = "wait"\n`
      )
      const env = {
        PAYMENTS_CONFIG: file,
        PAYMENTS_PATIENCE: "2m",
        PAYMENTS_MISSING_LIMIT: "2%",
        HTTPS_PROXY: `http://user:${canary}@proxy.example.com:3128`,
        PGPASSWORD: canary
      }
      const { code, stderr, stdout } = yield* payments(
        ["config", "--source", "north", "--missing-limit", "3%", "--to", "sqlite:a.db", "--format", "json"],
        { env }
      )
      assert.deepStrictEqual([code, stderr], [0, ""])
      assert.notInclude(stdout, canary)
      const rows: ReadonlyArray<Record<string, string | null>> = JSON.parse(stdout)
      const of = (setting: string) => {
        const { from, source, value } = rows.find((row) => row["setting"] === setting) ?? {}
        return [source, value, from]
      }
      assert.deepStrictEqual(of("missing_limit"), ["north", "3%", "--missing-limit"])
      assert.deepStrictEqual(of("patience"), ["north", "2m", "PAYMENTS_PATIENCE"])
      assert.deepStrictEqual(of("on_locked"), ["north", "wait", `${file}:6`])
      assert.deepStrictEqual(of("order"), ["north", "unknown", "default"])
      assert.deepStrictEqual(of("invoices_base_url"), ["north", url, "default"])
      assert.deepStrictEqual(of("max_requests_per_second"), ["north", "no limit", "default"])
      assert.deepStrictEqual(of("to"), ["north", "sqlite:a.db", "--to"])
      assert.deepStrictEqual(of("api_key_env"), ["north", "***", `${file}:3`])
      assert.deepStrictEqual(of("config"), [null, file, "PAYMENTS_CONFIG"])
      assert.deepStrictEqual(of("source"), [null, "north", "--source"])
      assert.deepStrictEqual(of("trace_headers"), [null, "false", "default"])
      assert.deepStrictEqual(of("HTTPS_PROXY"), [null, "http://***@proxy.example.com:3128", "HTTPS_PROXY"])
      assert.deepStrictEqual(of("PGPASSWORD"), [null, "***", "PGPASSWORD"])
    }).pipe(Effect.scoped))
})
