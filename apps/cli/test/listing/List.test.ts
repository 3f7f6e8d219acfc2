import { assert, describe, it } from "@effect/vitest"
import { labels, payments, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect } from "effect"
import { existsSync, lstatSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const lines = (text: string) => text.split("\n").filter((line) => line !== "")
const idsOf = (ndjson: string) => lines(ndjson).map((line) => String((JSON.parse(line) as { readonly id: unknown }).id)) // every record has one

interface Document {
  readonly items: ReadonlyArray<{ readonly id: string }>
  readonly cursor: string | null
  readonly count: number
  readonly complete: boolean
  readonly schemaVersion: number
  readonly next?: string
  readonly error?: { readonly reason: string; readonly message: string }
}
const documentOf = (text: string) => JSON.parse(text) as Document // the tests check its shape

describe("payments <list> list", () => {
  it.live("prints one page, some or all of each list, as ndjson in a pipe", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 230 })
      for (const label of labels) {
        const page = yield* payments([label, "list"], { env })
        assert.deepStrictEqual([page.code, lines(page.stdout).length], [0, 20])
        assert.match(page.stderr, /^More records remain\. Read them all with --all, or continue .*--cursor-file/)
        const all = yield* payments([label, "list", "--all"], { env })
        assert.deepStrictEqual([all.code, all.stderr, lines(all.stdout).length], [0, "", 230])
        assert.deepStrictEqual(idsOf(all.stdout).slice(0, 20), idsOf(page.stdout))
        const some = yield* payments([label, "list", "--max", "130"], { env })
        assert.deepStrictEqual(idsOf(some.stdout), idsOf(all.stdout).slice(0, 130))
        const exact = yield* payments([label, "list", "--max", "230", "--limit", "23"], { env })
        assert.deepStrictEqual([lines(exact.stdout).length, exact.stderr], [230, ""])
      }
    }).pipe(Effect.scoped))

  it.live("applies every filter", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 300 })
      for (
        const [label, flag, field] of [
          ["payout-requests", "--reference", "reference"],
          ["payout-requests", "--customer-id", "customerId"],
          ["payout-requests", "--payout-target-id", "payoutTargetId"],
          ["payin-sources", "--reference", "reference"],
          ["payin-sources", "--customer-id", "customerId"],
          ["invoices", "--reference", "reference"],
          ["invoices", "--document-number", "customerDocumentNumber"],
          ["invoices", "--contract", "contract"],
          ["invoices", "--payment-date", "paymentDate"],
          ["invoices", "--settlement-date", "settlementDate"],
          ["invoices", "--settlement-time", "settlementTime"]
        ] as const
      ) {
        const all = lines((yield* payments([label, "list", "--all"], { env })).stdout).map((line) =>
          JSON.parse(line) as Record<string, unknown> // each line is an object
        )
        const wanted = all.find((record) => typeof record[field] === "string")?.[field]
        const found = yield* payments([label, "list", "--all", flag, String(wanted)], { env })
        const expected = all.filter((record) => record[field] === wanted).map(({ id }) => id)
        assert.deepStrictEqual([found.code, idsOf(found.stdout)], [0, expected], `${label} ${flag}`)
      }
    }).pipe(Effect.scoped))

  it.live("prints one valid JSON document for any number of pages", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 45 })
      const read = (...args: ReadonlyArray<string>) =>
        Effect.map(payments(["invoices", "list", "--format", "json", ...args], { env }), ({ stdout }) =>
          documentOf(stdout))
      const all = yield* read("--all", "--limit", "10")
      assert.deepStrictEqual([all.items.length, all.cursor, all.count], [45, null, 45])
      const first = yield* read("--limit", "10")
      assert.deepStrictEqual([first.items.length, first.count], [10, 10])
      const second = yield* read("--limit", "10", "--cursor", first.cursor ?? "")
      assert.deepStrictEqual(
        second.items.map(({ id }) =>
          id
        ),
        all.items.slice(10, 20).map(({ id }) => id)
      )
      const none = yield* read("--reference", "nothing has this")
      assert.deepStrictEqual(none, { items: [], cursor: null, count: 0, complete: true, schemaVersion: 1 })
    }).pipe(Effect.scoped))

  it.live("closes the JSON document when a later page fails, and exits with the code of the error", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((request, response) =>
        request.url?.includes("cursor=") ? response.writeHead(403).end() : pageOf(response, [`{"id":"a"}`], "next+page")
      )
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" }
      const { code, stderr, stdout } = yield* payments(["invoices", "list", "--all", "--format", "json"], { env })
      const { error, ...rest } = documentOf(stdout)
      assert.deepStrictEqual(rest, {
        items: [{ id: "a" }],
        cursor: "next+page",
        count: 1,
        complete: false,
        next: "payments invoices list --format json --all --limit 100 --cursor next+page",
        schemaVersion: 1
      })
      assert.deepStrictEqual([code, error?.reason], [4, "Forbidden"])
      // The cursor is on stdout only, because stderr may be logged.
      assert.deepStrictEqual(lines(stderr).map((line) => line.slice(0, 40)), [
        `{"note":{"message":"More records remain.`,
        `{"error":{"reason":"Forbidden","message"`
      ])
      assert.notInclude(stderr, "next+page")
    }).pipe(Effect.scoped))

  it.live("starts again in next if the service refuses the cursor, instead of repeating it", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((request, response) =>
        request.url?.includes("cursor=") ? response.writeHead(410).end() : pageOf(response, [`{"id":"a"}`], "gone")
      )
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" }
      const next = "payments invoices list --format json --limit 5"
      for (const [flags, expected] of [[["--cursor", "old"], next], [["--all"], `${next} --all`]] as const) {
        const { code, stderr, stdout } = yield* payments(
          ["invoices", "list", "--format", "json", "--limit", "5", ...flags],
          { env }
        )
        assert.deepStrictEqual([code, lines(stderr).length], [8, 1], stderr)
        const facts = [documentOf(stdout).next, JSON.parse(stderr).error.next]
        assert.deepStrictEqual(
          facts.map((text) => text?.split(" ").toSorted()),
          facts.map(() => expected.split(" ").toSorted())
        )
      }
    }).pipe(Effect.scoped))

  it.live("closes the JSON document, with the cursor of the next page, when it is interrupted", () =>
    Effect.gen(function*() {
      let requests = 0
      const server = yield* scriptedServer((_, response, count) => {
        requests = count
        if (count < 3) pageOf(response, [`{"id":"${count}"}`], `c${count}`)
      })
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" }
      const { code, stderr, stdout } = yield* payments(["invoices", "list", "--all", "--format", "json"], {
        env,
        // The second page has been printed, and the third one is awaited.
        interruptWhen: (printed) => requests === 3 && printed.includes(`{"id":"2"}`)
      })
      const { error, ...rest } = documentOf(stdout)
      assert.deepStrictEqual(rest, {
        items: [{ id: "1" }, { id: "2" }],
        cursor: "c2",
        count: 2,
        complete: false,
        next: "payments invoices list --format json --all --limit 100 --cursor c2",
        schemaVersion: 1
      })
      assert.deepStrictEqual([code, error?.reason], [130, "Interrupted"])
      assert.match(stderr, /^\{"note":\{"message":"More records remain\. Continue with the same filters/)
    }).pipe(Effect.scoped))

  it.live("chooses a page size that divides --max, so that the run ends at the end of a page", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 400 })
      const { stdout } = yield* payments(["invoices", "list", "--max", "150", "--format", "json"], { env })
      const first = documentOf(stdout)
      const next = yield* payments(["invoices", "list", "--limit", "75", "--cursor", first.cursor ?? ""], { env })
      const all = yield* payments(["invoices", "list", "--all"], { env })
      assert.deepStrictEqual(
        [...first.items.map(({ id }) => id), ...idsOf(next.stdout)],
        idsOf(all.stdout).slice(0, 225)
      )
    }).pipe(Effect.scoped))

  it.live("starts at the first page with an empty cursor file, keeps symbolic links, and refuses other kinds of files", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 9 })
      const list = (file: string) => payments(["invoices", "list", "--limit", "3", "--cursor-file", file], { env })
      const [target, link] = [join(folder, "target"), join(folder, "link")]
      writeFileSync(target, "")
      symlinkSync(target, link)
      assert.strictEqual((yield* list(link)).code, 0)
      assert.isTrue(lstatSync(link).isSymbolicLink())
      assert.include(readFileSync(target, "utf8"), "invoices")
      for (const file of ["/dev/null", folder, join(folder, "no/such")]) {
        const { code, stderr, stdout } = yield* list(file)
        assert.deepStrictEqual([code, stdout, lines(stderr).length], [2, "", 1], file)
      }
    }).pipe(Effect.scoped))

  it.live("saves its position in a file, and neither loses nor repeats a record, also if --max ends within a page", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "position.json")
      const env = yield* sandboxEnv({ records: 47 })
      const all = idsOf((yield* payments(["invoices", "list", "--all"], { env })).stdout)
      for (
        const sizes of [["--limit", "5", "--max", "7"], ["--limit", "100", "--max", "10"], ["--max", "47"], [
          "--limit",
          "9"
        ], ["--all"]]
      ) {
        rmSync(file, { force: true })
        const seen: Array<string> = []
        for (let more = true; more;) {
          const args = ["invoices", "list", ...sizes, "--cursor-file", file]
          const { code, stderr, stdout } = yield* payments(args, { env })
          assert.strictEqual(code, 0, stderr)
          assert.isAbove(idsOf(stdout).length, 0)
          seen.push(...idsOf(stdout))
          assert.strictEqual(statSync(file).mode & 0o777, 0o600)
          more = stderr !== ""
        }
        assert.deepStrictEqual(seen, all, sizes.join(" "))
      }
      const more = yield* payments(["invoices", "list", "--cursor-file", file], { env })
      assert.deepStrictEqual([more.code, more.stdout], [0, ""])
      assert.include(more.stderr, "read to its end")
    }).pipe(Effect.scoped))

  it.live("refuses a cursor file of another list, service, limit or program", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "position.json")
      const env = yield* sandboxEnv({ records: 50 })
      const other = yield* sandboxEnv({ records: 50 })
      yield* payments(["invoices", "list", "--limit", "5", "--cursor-file", file], { env })
      const before = readFileSync(file, "utf8")
      for (
        const [args, environment] of [
          [["payin-sources", "list", "--cursor-file", file], env],
          [["invoices", "list", "--limit", "6", "--cursor-file", file], env],
          [["invoices", "list", "--contract", "c", "--cursor-file", file], env],
          [["invoices", "list", "--cursor-file", file], other]
        ] as const
      ) {
        const { code, stderr, stdout } = yield* payments(args, { env: environment })
        assert.deepStrictEqual([code, stdout, lines(stderr).length], [2, "", 1], stderr)
      }
      assert.strictEqual(readFileSync(file, "utf8"), before)
      writeFileSync(file, "my notes")
      assert.strictEqual((yield* payments(["invoices", "list", "--cursor-file", file], { env })).code, 2)
      assert.strictEqual(readFileSync(file, "utf8"), "my notes")
    }).pipe(Effect.scoped))

  it.live("exits with code 0 when its reader closes the pipe", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 5000 })
      const { code, stderr, stdout } = yield* runProgram(
        "bash",
        ["-c", `set -o pipefail; "$NODE" "$BINARY" payout-requests list --all | head -n 3`],
        { env: { ...env, NODE: process.execPath, BINARY: join(import.meta.dirname, "../../dist/payments.js") } }
      )
      assert.deepStrictEqual([code, stderr, lines(stdout).length], [0, "", 3])
    }).pipe(Effect.scoped))

  it.live("reports that its output cannot be written", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 5 })
      const { code, stderr } = yield* runProgram(
        "bash",
        ["-c", `"$NODE" "$BINARY" payout-requests list --all > /dev/full`],
        { env: { ...env, NODE: process.execPath, BINARY: join(import.meta.dirname, "../../dist/payments.js") } }
      )
      assert.deepStrictEqual([code, stderr], [
        9,
        "payments: the output cannot be written: there is no space left (ENOSPC).\n"
      ])
    }).pipe(Effect.scoped))

  it.live("refuses invalid flags before any request, with nothing on stdout", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_, response) => pageOf(response, [], null))
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "k" }
      for (
        const args of [
          ["--limit", "0"],
          ["--limit", "101"],
          ["--limit", "ten"],
          ["--max", "0"],
          ["--all", "--max", "5"],
          ["--cursor", "c", "--cursor-file", "f"],
          ["--settlement-date", "canary"],
          ["--settlement-date", "2024-02-30"],
          ["--format", "xml"],
          ["--reference", ""],
          ["--customer-id", "an invoice has no such filter"]
        ]
      ) {
        const { code, stderr, stdout } = yield* payments(["invoices", "list", ...args], { env })
        assert.deepStrictEqual([code, stdout], [2, ""], args.join(" "))
        assert.match(stderr, /^payments: /, args.join(" "))
        assert.notInclude(stderr, "canary")
      }
      assert.deepStrictEqual(server.requests, [])
      assert.isFalse(existsSync("f"))
    }).pipe(Effect.scoped))
})
