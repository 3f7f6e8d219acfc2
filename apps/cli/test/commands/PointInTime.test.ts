import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { ConfigProvider, Effect } from "effect"
import { afterAll, beforeAll } from "vitest"
import { endOfDayMs, momentMs } from "../../src/listing/Since.ts"
import { runInProcess } from "../program/InProcess.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const kinds = ["sqlite", "postgres"] as const

const invoice = (id: string, status: string, amount: number) =>
  `{"id":"${id}","status":"${status}","amount":${amount},"reference":"ref-${id}","customerDocumentNumber":"doc-${id}"}`

const monday = [invoice("a", "paid", 1), invoice("b", "paid", 20)]
const tuesday = [invoice("a", "void", 1), invoice("b", "paid", 300), invoice("c", "paid", 4000)]

/** Exports two states. Returns the times before the first one and between them. */
const copied = Effect.fnUntraced(function*(kind: typeof kinds[number], env: { readonly [name: string]: string } = {}) {
  const folder = yield* temporaryFolder
  const to = kind === "sqlite"
    ? `sqlite:${folder}/p.db`
    : `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=${folder.slice(-6).toLowerCase()}`
  const before = new Date().toISOString()
  yield* Effect.sleep("2 millis")
  const exporting = (invoices: ReadonlyArray<string>) =>
    Effect.provide(
      runInProcess(layerTest({ invoices }), ["export", "invoices", "--to", to]),
      ConfigProvider.layer(ConfigProvider.fromEnvRecord({ XDG_CONFIG_HOME: "/dev/null", ...env }))
    )
  yield* exporting(monday)
  const between = new Date().toISOString()
  yield* Effect.sleep("2 millis")
  yield* exporting(tuesday)
  const run = (...args: ReadonlyArray<string>) =>
    Effect.map(
      payments([...args, "--from", to]),
      ({ code, stderr, stdout }) => ({
        code,
        out: stdout.replaceAll("\r\n", "\n"),
        err: stderr.replaceAll(/\s+/g, " ")
      })
    )
  return { to, before, between, run }
})

describe.each(kinds)("--at: %s", (kind) => {
  it.live("answers questions and SQL, and finds records, as they were then", () =>
    Effect.gen(function*() {
      const { before, between, run } = yield* copied(kind)
      const columns = "status,records,amount,amount_null,payment_amount,payment_amount_null\n"
      const question = ["query", "invoices-by-status", "--format", "csv"]
      assert.strictEqual((yield* run(...question)).out, `${columns}paid,2,4300,0,,2\nvoid,1,1,0,,1\n`)
      const then = yield* run(...question, "--at", between)
      assert.deepInclude(then, { code: 0, out: `${columns}paid,2,21,0,,2\n` })
      assert.include(then.err, `The rows are those of ${between} (after change 0).`)
      assert.match(then.err, /The last complete exports before then: invoices \d{4}-\d{2}-\d{2}T[\d:.]+Z\./)
      // The same moment in another time zone.
      const moment = new Date(new Date(between).getTime() + 5.5 * 3_600_000).toISOString().replace("Z", "+05:30")
      assert.deepStrictEqual(yield* run(...question, "--at", moment), then)
      assert.strictEqual((yield* run(...question, "--at", "1")).out, `${columns}paid,1,20,0,,1\nvoid,1,1,0,,1\n`)
      assert.strictEqual(
        (yield* run("query", "SELECT id, amount FROM invoices ORDER BY id", "--at", "0", "--format", "csv")).out,
        "id,amount\na,1\nb,20\n"
      )
      const find = ["find", "void", "--format", "csv"]
      assert.match((yield* run(...find)).out, /^list,.*\ninvoices,status,a,false,/)
      const found = yield* run(...find, "--at", between)
      assert.match(found.out, /^list,[^\n]*\n$/)
      assert.include(found.err, `The rows are those of ${between}`)
      const early = yield* run(...question, "--at", before)
      assert.deepInclude(early, { code: 10, out: "" })
      assert.match(
        early.err,
        /The first point that can be reconstructed is \d{4}-\d{2}-\d{2}T[\d:.]+Z, which is change 0\./
      )
      assert.strictEqual((yield* run(...find, "--at", before)).code, 10)
      const page = yield* run("query", "invoices-by-status", "--at", "0", "--chart")
      assert.include(page.out, "21")
      assert.include(page.err, "after change 0")
    }).pipe(Effect.scoped))

  it.live("prints the exact texts of the records of a copy, as they are and as they were", () =>
    Effect.gen(function*() {
      const { between, run, to } = yield* copied(kind)
      const print = ["export", "invoices", "--to", "-"]
      const now = yield* run(...print)
      assert.deepInclude(now, { code: 0, out: [...tuesday, ""].join("\n"), err: "invoices: 3 records " })
      const then = yield* run(...print, "--at", between)
      assert.deepInclude(then, { code: 0, out: [...monday, ""].join("\n") })
      assert.include(then.err, `invoices: 2 records The rows are those of ${between}`)
      const refused = [
        [["export", "--to", "-"], "name one list"],
        [["export", "invoices", "--to", to], "give --to -"],
        [[...print, "--rebind", "--missing-limit", "1"], "--rebind and --missing-limit"],
        [[...print, "--at", "tomorrow"], "Invalid value for --at"],
        [[...print, "--at", "99"], "there is no change 99 yet"]
      ] as const
      for (const [args, problem] of refused) {
        const found = yield* run(...args)
        assert.deepStrictEqual([found.code, found.out], [2, ""], found.err)
        assert.include(found.err, problem)
      }
      const alone = yield* payments([...print, "--at", "0"])
      assert.deepStrictEqual([alone.code, alone.stdout], [2, ""])
      assert.include(alone.stderr, "--at needs --from COPY")
    }).pipe(Effect.scoped))

  it.live("refuses what is no point, the future, and tables without a history", () =>
    Effect.gen(function*() {
      const { run, to } = yield* copied(kind)
      const refused = [
        ["invoices-by-status", "x", "Expected: a change number"],
        ["invoices-by-status", "2024-05-31 10:00 CET", "another time zone is written as an offset such as +02:00"],
        ["invoices-by-status", "2024-05-31T10:00[Europe/Madrid]", "an offset such as +02:00"],
        ["invoices-by-status", "2024-02-30", "Expected: a change number"],
        ["invoices-by-status", "-1", "Expected: a change number"],
        ["invoices-by-status", "9", "there is no change 9 yet: the last one is 3."],
        ["invoices-by-status", "2999-01-01T00:00Z", "2999-01-01T00:00:00.000Z is in the future"],
        ["invoices-by-status", "2999-01-01", "the day 2999-01-01 has not ended yet"],
        ["SELECT count(*) FROM scans", "0", "So scans cannot be read as of an earlier point."],
        ["SELECT count(*) FROM invoicess", "0", "Did you mean invoices?"],
        ["DELETE FROM invoices", "0", "only reads"]
      ] as const
      for (const [sql, at, problem] of refused) {
        const found = yield* run("query", sql, `--at=${at}`)
        assert.deepStrictEqual([found.code, found.out], [2, ""], `${at} ${problem} ${found.err}`)
        assert.include(found.err, problem)
      }
      // In this time zone it is noon, so the day does not end meanwhile.
      const now = new Date()
      const ahead = 12 - now.getUTCHours()
      const today = new Date(now.getTime() + ahead * 3_600_000).toISOString().slice(0, 10)
      const ended = yield* payments(["query", "invoices-by-status", "--at", today, "--from", to], {
        env: { TZ: `Etc/GMT${ahead > 0 ? "-" : "+"}${Math.abs(ahead)}` }
      })
      assert.include(ended.stderr.replaceAll(/\s+/g, " "), "has not ended yet")
    }).pipe(Effect.scoped))

  it.live("says that the copy leaves out a field that is asked for", () =>
    Effect.gen(function*() {
      const { run } = yield* copied(kind, { PAYMENTS_PERSONAL: "omit" })
      const said = "leaves customer_document_number out"
      for (const at of [[], ["--at", "0"]]) {
        const found = yield* run("query", "SELECT id, customer_document_number FROM invoices", ...at)
        assert.strictEqual(found.code, 0, found.err)
        assert.include(found.err, said)
        for (
          const asked of [
            ["invoices-by-customer"],
            ["invoices-by-status", "--where", "customerDocumentNumber=null"],
            ["invoices-by-status", "--where", "customer_document_number=1"]
          ]
        ) {
          const refused = yield* run("query", ...asked, ...at)
          assert.deepStrictEqual([refused.code, refused.out], [2, ""])
          assert.include(refused.err, `${asked[0]} needs customerDocumentNumber, which the copy leaves out`)
        }
        assert.notInclude((yield* run("query", "SELECT id FROM invoices", ...at)).err, "leaves")
      }
    }).pipe(Effect.scoped))
})

describe("--at", () => {
  it("means the last millisecond of a day, also of one with another length", () => {
    for (const day of ["2024-05-31", "2024-12-31", "2024-02-29", "2024-03-31", "2024-10-27", "0050-01-01"]) {
      const end = endOfDayMs(day)
      assert.isDefined(end)
      const next = new Date((end ?? 0) + 1)
      assert.deepStrictEqual([next.getHours(), next.getMinutes(), next.getMilliseconds()], [0, 0, 0], day)
      assert.isAbove(end ?? 0, momentMs(day) ?? 0)
      assert.isBelow((end ?? 0) - (momentMs(day) ?? 0), 25 * 3_600_000)
    }
    assert.isUndefined(endOfDayMs("2024-02-30"))
    assert.isUndefined(endOfDayMs("2024-05-31T10:00Z"))
  })

  it.live("needs a copy", () =>
    Effect.gen(function*() {
      const found = yield* payments(["find", "x", "--at", "0"])
      assert.strictEqual(found.code, 2)
      assert.include(found.stderr, "--at needs a copy")
    }))

  it.live("is refused if this machine's time zone does not say which moment it is", () =>
    Effect.gen(function*() {
      for (
        const [TZ, at, problem] of [
          ["Europe/Berlin", "2024-03-31T02:30", "--at: this time does not exist in the time zone"],
          ["Europe/Berlin", "2024-10-27T02:30", "--at: this time occurs twice in the time zone"],
          ["Nowhere/None", "2024-05-31", "--at: TZ does not name a known time zone"]
        ] as const
      ) {
        const found = yield* payments(["query", "invoices-by-status", "--from", "sqlite:absent.db", "--at", at], {
          env: { TZ }
        })
        assert.strictEqual(found.code, 2)
        assert.include(found.stderr.replaceAll(/\s+/g, " "), problem)
      }
      const since = yield* payments(["changes", "--from", "sqlite:absent.db", "--since", "2024-10-27T02:30"], {
        env: { TZ: "Europe/Berlin" }
      })
      assert.include(since.stderr.replaceAll(/\s+/g, " "), "--since: this time occurs twice")
    }))
})
