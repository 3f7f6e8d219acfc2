/** `payments export LIST --to -`. */
import { assert, describe, it } from "@effect/vitest"
import { binary, payments, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect } from "effect"
import { readdirSync } from "node:fs"

const lines = (text: string) => text.split("\n").filter((line) => line !== "")

describe("an export to stdout", () => {
  it.live("prints only records on stdout, the summary on stderr, and creates no file", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 1234 })
      const listed = yield* payments(["payout-requests", "list", "--all", "--format", "ndjson"], { env, cwd })
      const exported = yield* payments(["export", "payout-requests", "--to", "-"], { env, cwd })
      assert.strictEqual(exported.code, 0, exported.stderr)
      assert.strictEqual(exported.stdout, listed.stdout)
      assert.match(exported.stderr, /^ +records +pages +seconds\npayout-requests +1,234 +13 +\d+\.\d\n/)
      const byVariable = yield* payments(["export", "payout-requests"], { env: { ...env, PAYMENTS_TO: "-" }, cwd })
      assert.deepStrictEqual([byVariable.code, byVariable.stdout], [0, listed.stdout])
      assert.deepStrictEqual(readdirSync(cwd), [])
    }).pipe(Effect.scoped))

  it.live("prints the parts of a list", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((request, response) => {
        const day = new URL(request.url ?? "", "http://x").searchParams.get("settlementDate")
        pageOf(response, [`{"id":"${day}","settlementDate":"${day}"}`], null)
      })
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" }
      const { code, stdout } = yield* payments(
        ["export", "invoices", "--to", "-", "--settlement-dates", "2024-05-01..2024-05-03"],
        { env }
      )
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(
        lines(stdout).toSorted(),
        ["01", "02", "03"].map((day) => `{"id":"2024-05-${day}","settlementDate":"2024-05-${day}"}`)
      )
    }).pipe(Effect.scoped))

  it.live("prints a record that does not match the document, and exits with code 10", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_, response) => pageOf(response, [`{"id":"a","amount":"1,50"}`], null))
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" }
      const { code, stderr, stdout } = yield* payments(["export", "invoices", "--to", "-"], { env })
      assert.deepStrictEqual([code, stdout], [10, `{"id":"a","amount":"1,50"}\n`])
      assert.include(stderr, "invoices: records that do not match the document: 1; printed anyway")
    }).pipe(Effect.scoped))

  it.live("exits with code 9 when its reader closes the pipe, because the list is incomplete", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 5000 })
      const { code, stderr, stdout } = yield* runProgram(
        "bash",
        ["-c", `set -o pipefail; "$NODE" "$BINARY" export invoices --to - | head -n 2`],
        { env: { ...env, NODE: process.execPath, BINARY: binary } }
      )
      assert.deepStrictEqual([code, lines(stdout).length, lines(stderr).length], [9, 2, 1], stderr)
      assert.include(stderr, "payments: standard output: its reader has closed it")
    }).pipe(Effect.scoped))

  it.live("refuses flags that do not apply to stdout, before any request", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_, response) => pageOf(response, [], null))
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" }
      for (
        const [args, words] of [
          [["export", "--to", "-"], "Only one list at a time"],
          [["export", "invoices", "payin-sources", "--to", "-"], "Only one list at a time"],
          [["export", "invoices", "--to", "-", "--rebind"], "--rebind"],
          [["export", "invoices", "--to", "-", "--on-locked", "wait"], "--on-locked"],
          [["export", "invoices", "--to", "-", "--ignore-field", "authUrl"], "--ignore-field"],
          [["export", "invoices", "--to", "-", "--missing-limit", "1%"], "--missing-limit"],
          [["changes", "--from", "-"], "stores nothing"],
          [["verify", "--from", "-"], "stores nothing"]
        ] as const
      ) {
        const { code, stderr, stdout } = yield* payments(args, { env })
        assert.deepStrictEqual([code, stdout, lines(stderr).length], [2, "", 1], args.join(" "))
        assert.include(stderr, words)
      }
      assert.deepStrictEqual(server.requests, [])
    }).pipe(Effect.scoped))
})
