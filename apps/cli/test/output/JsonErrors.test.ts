/** With `--format json` or `ndjson`, an error is one line of JSON on stderr. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { binary, payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, type Script, scriptedServer } from "@payments/testkit/ScriptedServer"
import { spawnSync } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { TestConsole } from "effect/testing"
import { openSync } from "node:fs"
import { join } from "node:path"
import { runInProcess } from "../program/InProcess.ts"

const members = ["reason", "message", "retryable", "retryAfterMs", "exitCode", "next"]

/** Returns the error on the only line of stderr, without its message. */
const errorIn = (stderr: string) => {
  assert.match(stderr, /^[^\n]+\n$/, stderr)
  const { error } = JSON.parse(stderr)
  assert.deepStrictEqual(Object.keys(error), members)
  const { message, ...facts } = error
  assert.isAbove(message.length, 5)
  return facts
}

/** Faults of the service, with the reason, `retryable`, `retryAfterMs` and the exit code. */
const faults: ReadonlyArray<readonly [Script, string, boolean, number | null, number]> = [
  [(_, response) => response.writeHead(401).end(), "Unauthorized", false, null, 4],
  [(_, response) => response.writeHead(404).end(), "NotFound", false, null, 5],
  [(_, response) => response.writeHead(429, { "retry-after": "3600" }).end(), "RateLimited", true, 3_600_000, 6],
  [(_, response) => response.writeHead(503, { "retry-after": "60" }).end(), "ServerFailure", true, 60_000, 7],
  [(_, response) => response.writeHead(200).end("<html>"), "MalformedResponse", false, null, 8],
  [(_, response) => pageOf(response, [`{"reference":"x"}`], null), "Incomplete", false, null, 10]
]

describe("an error with --format json", () => {
  it.live("says what a script needs to decide, for each fault of the service", () =>
    Effect.gen(function*() {
      for (const [script, reason, retryable, retryAfterMs, exitCode] of faults) {
        const server = yield* scriptedServer(script)
        const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "canary-key" }
        const { code, stderr } = yield* payments(["invoices", "list", "--format=ndjson"], { env })
        const line = stderr.split("\n").findLast((text) => text.startsWith("{")) ?? ""
        const { next, ...facts } = errorIn(`${line}\n`)
        assert.deepInclude(facts, { reason, retryAfterMs, exitCode })
        assert.strictEqual(facts.retryable ?? false, retryable, reason)
        assert.strictEqual(code, exitCode)
        assert.notInclude(stderr, "canary")
        assert.notInclude(String(next), "undefined")
      }
    }).pipe(Effect.scoped))

  it.effect("names the help of the command after a usage error", () =>
    Effect.gen(function*() {
      const usage = { reason: "Usage", retryable: false, retryAfterMs: null, exitCode: 2 }
      for (
        const [args, next] of [
          [["invoices", "list", "--limit", "x", "--max", "y"], "payments invoices list --help"],
          [["invoices", "list", "--limt", "5"], "payments invoices list --help"],
          [["--source", "export", "invoices", "list", "--limit", "x"], "payments invoices list --help"],
          [["changes", "--ack"], "payments changes --help"],
          [["chnges"], "payments --help"],
          [["chnges", "--help"], "payments --help"],
          [["changes", "consumrs", "--help"], "payments changes --help"],
          [["--help", "chnges"], "payments --help"]
        ] as const
      ) {
        const before = (yield* TestConsole.errorLines).length
        const { err } = yield* runInProcess(layerTest({}), [...args, "--format", "json"])
        const printed = (yield* TestConsole.errorLines).slice(before).map((line) => `${String(line)}\n`)
        assert.deepStrictEqual(errorIn([...printed, err].join("")), { ...usage, next }, args.join(" "))
      }
    }))

  it.live("covers missing settings, destinations and an output that cannot be written", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const none = yield* payments(["invoices", "list", "--format", "json"])
      assert.deepInclude(errorIn(none.stderr), {
        reason: "Configuration",
        retryable: false,
        exitCode: 3,
        next: "payments doctor"
      })
      const named = ["--source", "north", "--config=no such file"]
      const unread = yield* payments(["invoices", "list", "--format", "json", ...named])
      assert.strictEqual(errorIn(unread.stderr).next, "payments doctor --source north --config 'no such file'")
      const plain = yield* payments(["invoices", "list"])
      assert.match(
        plain.stderr,
        /^payments: PAYMENTS_BASE_URL is not set[^\n]*\npayments: check the settings with: payments doctor\n$/
      )
      const absent = yield* payments(["status", "--from", `sqlite:${join(folder, "no.db")}`, "--format", "json"])
      assert.deepInclude(errorIn(absent.stderr), { reason: "NotADestination", retryable: false, exitCode: 9 })
      const full = spawnSync(process.execPath, [binary, "config", "--format", "json"], {
        stdio: ["ignore", openSync("/dev/full", "w"), "pipe"],
        env: { XDG_CONFIG_HOME: "/dev/null", PAYMENTS_BASE_URL: "http://127.0.0.1:1" },
        encoding: "utf8"
      })
      assert.deepInclude(errorIn(full.stderr), { reason: "Output", retryable: false, exitCode: 9, next: null })
    }).pipe(Effect.scoped))

  it.live("covers an interruption", () =>
    Effect.gen(function*() {
      let requests = 0
      const server = yield* scriptedServer(() => void requests++)
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "key" }
      const { code, stderr } = yield* payments(["invoices", "list", "--format", "ndjson"], {
        env,
        interruptWhen: () => requests > 0
      })
      assert.strictEqual(code, 130)
      assert.deepInclude(errorIn(stderr), { reason: "Interrupted", exitCode: 130 })
    }).pipe(Effect.scoped))
})
