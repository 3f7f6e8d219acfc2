/** With `--format json`, a command that does one thing prints what it did as one document, and its errors as JSON. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest, type TestLists } from "@payments/core/testing"
import { payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect, Fiber } from "effect"
import { readdirSync } from "node:fs"
import { runInProcess } from "../program/InProcess.ts"

const data = {
  payoutRequests: [{ id: "por_1", amount: 5, constructor: "x" }],
  invoices: Array.from({ length: 150 }, (_, index) => ({ id: `inv_${index}`, settlementDate: "2024-05-01" }))
} as const

const runWith = (lists: TestLists, ...args: ReadonlyArray<string>) =>
  Effect.map(runInProcess(layerTest(lists), [...args, "--format", "json"]), ({ code, err, out }) => ({
    code,
    document: out === "" ? undefined : JSON.parse(out),
    /** The error on the last line of stderr. */
    error: err === "" ? undefined : JSON.parse(err.trimEnd().split("\n").at(-1) ?? "").error,
    err,
    out
  }))

describe("the result of a command as JSON", () => {
  it.live("of export has the figures of each list, and is one line", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      const { code, document, out } = yield* runWith(data, "export", "--to", to)
      assert.deepStrictEqual([code, out.split("\n").length], [0, 2])
      assert.deepInclude(document, { complete: true, destination: to })
      assert.isFalse("next" in document)
      assert.deepStrictEqual(document.lists.map((list: { readonly list: string }) => list.list), [
        "payout-requests",
        "payin-sources",
        "invoices"
      ])
      assert.deepInclude(document.lists[0], { complete: true, records: 1, new: 1, undocumented: { constructor: 1 } })
      assert.deepInclude(document.lists[2], { records: 150, pages: 2, new: 150, changed: 0, missing: 0, retries: 0 })
      const again = yield* runWith(data, "export", "invoices", "--to", to)
      assert.deepInclude(again.document.lists[0], { new: 0, unchanged: 150, start: "afterComplete" })
      const parts = ["--settlement-dates", "2024-05-01..2024-05-02"]
      const inParts = yield* runWith(data, "export", "invoices", "--to", to, ...parts)
      assert.deepInclude(inParts.document.lists[0], { parts: 2, records: 150, unchanged: 150 })
      // The records go to stdout, so the summary is a line of stderr.
      const piped = yield* runInProcess(layerTest(data), ["export", "invoices", "--to", "-", "--format", "json"])
      assert.strictEqual(piped.out.trimEnd().split("\n").length, 150)
      assert.deepInclude(JSON.parse(piped.err).summary, { complete: true, destination: null })
    }).pipe(Effect.scoped))

  it.live("of export names the lists that failed, with one error and the command that resumes", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      const failing = { ...data, faults: [{ fault: "status", status: 403, list: "invoices" }] } as const
      const next = `payments export --to ${to} --ignore-field authUrl --format json`
      const failed = yield* runWith(failing, "export", "--to", to, "--ignore-field", "authUrl")
      assert.strictEqual(failed.code, 4)
      assert.deepInclude(failed.document, { complete: false, next })
      assert.deepInclude(failed.document.lists[0], { complete: true, records: 1 })
      assert.deepInclude(failed.document.lists[2], { list: "invoices", complete: false })
      assert.strictEqual(failed.document.lists[2].error.reason, "Forbidden")
      assert.deepInclude(failed.error, { reason: "Forbidden", retryable: false, exitCode: 4, next })
      assert.strictEqual(failed.err.trimEnd().split("\n").length, 1)
      // The days are values of a filter.
      const days = ["--settlement-dates", "2024-05-01..2024-05-01"]
      const parts = yield* runWith(failing, "export", "invoices", "--to", to, ...days)
      assert.deepInclude(parts.error, {
        next: null,
        nextNeeds: {
          command: `payments export invoices --to ${to} --format json`,
          arguments: ["--settlement-dates"]
        }
      })
      const bad = yield* runWith({ invoices: [`{"id":"a","amount":"x"}`] }, "export", "invoices", "--to", `${to}2`)
      assert.deepStrictEqual([bad.code, bad.document.complete, bad.document.lists[0].quarantined], [10, true, 1])
      assert.deepInclude(bad.error, { reason: "Incomplete", exitCode: 10 })
      assert.include(bad.error.message, "payments quarantine --from")
    }).pipe(Effect.scoped))

  it.live("of an interrupted export says what is not complete", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      let isWaiting = false
      const server = yield* scriptedServer((request, response) => {
        if (request.url?.includes("invoice") === true) isWaiting = true
        else pageOf(response, [`{"id":"a"}`], null)
      })
      const { code, stderr, stdout } = yield* payments(["export", "--to", "sqlite:p.db", "--format", "json"], {
        cwd,
        env: { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "key" },
        interruptWhen: () => isWaiting
      })
      assert.strictEqual(code, 130)
      const next = "payments export --to sqlite:p.db --format json"
      const document = JSON.parse(stdout)
      assert.deepInclude(document, { complete: false, next })
      assert.deepInclude(document.lists[2], { list: "invoices", complete: false })
      assert.strictEqual(document.lists[2].error.reason, "Interrupted")
      const [note, error] = stderr.trimEnd().split("\n").map((line) => JSON.parse(line))
      assert.include(note.note.message, "Committed records are stored")
      assert.deepInclude(error.error, { reason: "Interrupted", exitCode: 130, next })
    }).pipe(Effect.scoped))

  it.live("of verify, prune and the consumers of changes", () =>
    Effect.gen(function*() {
      const from = `sqlite:${yield* temporaryFolder}/p.db`
      const run = (...args: ReadonlyArray<string>) => runWith(data, ...args, "--from", from)
      yield* runWith(data, "export", "invoices", "--to", from)
      const verified = yield* run("verify", "--against-api")
      assert.deepStrictEqual([verified.code, verified.err], [0, ""])
      const same = { list: "invoices", matches: true, differences: [] }
      assert.deepStrictEqual(verified.document, {
        matches: true,
        damage: [],
        lists: [{ ...same, scan: 1, certifiedRecords: 150, heldBack: 0, notCompared: [] }],
        files: [],
        api: [same],
        schemaVersion: 1
      })
      const invoices = data.invoices.map((invoice, index) => index === 7 ? { ...invoice, amount: 1 } : invoice)
      const changed = yield* runWith({ invoices }, "verify", "--against-api", "--from", from)
      assert.deepStrictEqual([changed.code, changed.document.matches, changed.document.lists[0].matches], [
        11,
        false,
        true
      ])
      assert.strictEqual(changed.document.api[0].differences[0].id, "inv_7")
      assert.deepInclude(changed.error, { reason: "Differs", exitCode: 11 })
      yield* runWith({ invoices }, "export", "invoices", "--to", from)
      const pruned = yield* run("prune", "--keep-changes", "1d", "--dry-run")
      assert.deepStrictEqual(pruned.document, {
        dryRun: true,
        changes: { generation: pruned.document.changes.generation, removed: 0, through: 0, heldBack: [] },
        scans: null,
        rows: null,
        snapshots: null,
        schemaVersion: 1
      })
      assert.deepStrictEqual((yield* run("changes", "ack", "reports", "1")).document, {
        consumer: "reports",
        generation: pruned.document.changes.generation,
        position: 1,
        schemaVersion: 1
      })
      const back = yield* run("changes", "ack", "reports", "9", "--back")
      assert.deepInclude(back.error, { reason: "Usage", exitCode: 2 })
      // A consumer that has read a change which does not exist shows that changes were lost.
      const beyond = yield* run("changes", "ack", "reports", "9")
      assert.deepInclude(beyond.error, { reason: "Incomplete", exitCode: 10 })
      const removed = yield* run("changes", "consumers", "--remove", "reports")
      assert.deepStrictEqual(removed.document, { consumer: "reports", removed: true, schemaVersion: 1 })
    }).pipe(Effect.scoped))

  it.live("of an export into a folder that verify finds changed", () =>
    Effect.gen(function*() {
      const from = `file:${yield* temporaryFolder}/out?format=csv`
      yield* runWith(data, "export", "invoices", "--to", from)
      const none = yield* runWith(data, "verify", "--from", `sqlite:${yield* temporaryFolder}/none.db`)
      assert.deepStrictEqual([none.code, none.document], [9, undefined])
      assert.deepInclude(none.error, { reason: "NotADestination", exitCode: 9 })
      const { document } = yield* runWith(data, "verify", "--from", from)
      assert.deepStrictEqual([document.matches, document.files, document.api], [true, [], null])
    }).pipe(Effect.scoped))

  it.live("of source add and remove names the file and the stored key", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const options = { cwd, env: { XDG_CONFIG_HOME: cwd, KEY: "k" } }
      const run = (...args: ReadonlyArray<string>) => payments(["source", ...args, "--format", "json"], options)
      const url = "https://payments.example.com"
      const added = yield* run("add", "north", "--base-url", url, "--key-env", "KEY")
      const file = `${cwd}/payments/payments.toml`
      assert.deepStrictEqual([added.code, added.stderr], [0, ""])
      assert.deepStrictEqual(JSON.parse(added.stdout), {
        source: "north",
        file,
        keyFile: null,
        next: "payments doctor --source north",
        schemaVersion: 1
      })
      const twice = yield* run("add", "north", "--base-url", url, "--key-env", "KEY")
      assert.deepInclude(JSON.parse(twice.stderr).error, { reason: "Usage", exitCode: 2 })
      const removed = yield* run("remove", "north")
      assert.deepStrictEqual(JSON.parse(removed.stdout), {
        source: "north",
        file,
        removedKeyFile: null,
        schemaVersion: 1
      })
      const unknown = yield* run("remove", "north")
      assert.deepStrictEqual([unknown.code, unknown.stdout], [2, ""])
      assert.deepInclude(JSON.parse(unknown.stderr).error, { reason: "Usage", next: "payments source remove --help" })
      assert.deepStrictEqual(readdirSync(cwd), ["payments"])
    }).pipe(Effect.scoped))

  it.live("of the sandbox has its address and key", () =>
    Effect.gen(function*() {
      let out = ""
      const fiber = yield* Effect.forkChild(
        runInProcess(layerTest(), ["sandbox", "--port", "0", "--format", "json"], false, 0, (text) =>
          Effect.sync(() => {
            out = text
          }))
      )
      while (out === "") yield* Effect.sleep(10)
      yield* Fiber.interrupt(fiber)
      const document = JSON.parse(out)
      assert.match(document.url, /^http:\/\/127\.0\.0\.1:\d+$/)
      assert.deepStrictEqual(Object.keys(document), ["url", "key", "controlUrl", "schemaVersion"])
    }))
})
