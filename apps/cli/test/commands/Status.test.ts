import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { execute } from "@payments/testkit/Folder"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { connect } from "@payments/testkit/programs/McpClient"
import { payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { randomUUID } from "node:crypto"
import { existsSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { Client } from "pg"
import { afterAll, beforeAll } from "vitest"
import { runInProcess } from "../program/InProcess.ts"

const emptyApi = layerTest()
const api = layerTest({
  payoutRequests: [`{"id":"a"}`, `{"id":"b"}`, `{"id":"bad","amount":"1"}`],
  payinSources: [],
  invoices: [`{"id":"c"}`]
})

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const destinations = {
  sqlite: Effect.map(temporaryFolder, (folder) => `sqlite:${folder}/p.db`),
  file: Effect.map(temporaryFolder, (folder) => `file:${folder}/files`),
  postgres: Effect.sync(() => `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=t_${randomUUID()}`)
}

const exportInto = (to: string, ...args: ReadonlyArray<string>) => runInProcess(api, ["export", ...args, "--to", to])

const status = (from: string, ...args: ReadonlyArray<string>) =>
  runInProcess(emptyApi, ["status", "--from", from, ...args])

/** Binds a copy to a source, as an export from the source does. */
const bind = (to: string, source: string) =>
  Effect.promise(async () => {
    const statement = (schema = "") => `UPDATE ${schema}destination SET source = '${source}'`
    if (!to.startsWith("postgres:")) {
      return execute(to.startsWith("file:") ? `${to.slice(5)}/copy.db` : to.slice(7), statement())
    }
    const client = new Client({ host: "127.0.0.1", port: server.port, user, database: "postgres" })
    await client.connect()
    await client.query(statement(`"${new URL(to).searchParams.get("schema")}".`))
    await client.end()
  })

const rowsIn = (out: string): ReadonlyArray<Record<string, unknown>> =>
  out.trimEnd().split("\n").map((line) => JSON.parse(line))

/** Locks a list as another program does, and names its holder, until the scope closes. */
const lockedBy = (file: string, holder: string) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const lock = new DatabaseSync(`${file}.invoices.lock`)
      lock.exec("BEGIN EXCLUSIVE")
      writeFileSync(`${file}.invoices.holder`, holder)
      return lock
    }),
    (lock) => Effect.sync(() => lock.close())
  )

describe("rows that the last full scan held back", () => {
  it.live(
    "show in status, verify, query, find and the answers for agents, until a scan returns them",
    () =>
      Effect.gen(function*() {
        const from = yield* destinations.sqlite
        const invoices = Array.from({ length: 9 }, (_, index) => `{"id":"inv_${index}","amount":1,"status":"paid"}`)
        const exporting = (count: number) =>
          runInProcess(layerTest({ invoices: invoices.slice(0, count) }), ["export", "invoices", "--to", from])
        const run = (...args: ReadonlyArray<string>) =>
          Effect.map(runInProcess(emptyApi, args), ({ code, err, out }) => ({
            code,
            err: err.replaceAll(/\s+/g, " "),
            out: out.replaceAll(/\s+/g, " ")
          }))
        const asked = Effect.scoped(Effect.gen(function*() {
          const { call } = yield* connect(["--from", from])
          return yield* Effect.promise(() =>
            Promise.all([
              call("query", { sql: "SELECT count(*) FROM invoices" }),
              call("changes", { list: "invoices" }),
              call("status", {}),
              call("query", { sql: "SELECT count(*) FROM payout_requests" })
            ])
          )
        }))
        yield* exporting(9)
        const held = "invoices: the last full scan returned 2 of 9 rows; the others were held back"
        const checks = [
          ["status", "--from", from, "--max-age", "1h", "--format", "table"],
          ["verify", "--from", from, "--format", "text"],
          ["query", "--from", from, "SELECT count(*) FROM invoices"],
          ["find", "--from", from, "inv_8"]
        ]
        for (const isHeldBack of [true, false]) {
          assert.strictEqual((yield* exporting(isHeldBack ? 2 : 9)).code, isHeldBack ? 10 : 0)
          for (const args of checks.map((each) => each[0] === "status" ? [...each, "--resource", "invoices"] : each)) {
            const { code, err, out } = yield* run(...args)
            assert.strictEqual(code, 0, err)
            assert.strictEqual(`${out}${err}`.includes(held), isHeldBack, args.join(" "))
          }
          const [row] = rowsIn((yield* status(from, "--resource", "invoices")).out)
          assert.strictEqual(row?.["heldBack"], isHeldBack ? 7 : 0)
          const verified = JSON.parse((yield* run("verify", "--from", from, "--format", "json")).out)
          assert.deepInclude(verified, { matches: true })
          assert.strictEqual(verified.lists[0].heldBack, isHeldBack ? 7 : 0)
          const found = JSON.parse((yield* run("find", "--from", from, "inv_8", "--format", "json")).out)
          assert.deepInclude(found.lists[2], { list: "invoices", complete: !isHeldBack, count: 1 })
          const required = yield* run("status", "--from", from, "--resource", "invoices", "--fail-on-held-back")
          assert.strictEqual(required.code, isHeldBack ? 10 : 0)
          assert.strictEqual(required.err.includes(held), isHeldBack)
          if (!isHeldBack) continue
          const question = yield* run("query", "--from", from, "invoices-by-status")
          assert.include(question.err, held)
          const other = yield* run("query", "--from", from, "SELECT count(*) FROM payout_requests")
          assert.notInclude(other.err, "held back")
          const answers = yield* asked
          for (const { complete, notes } of answers.slice(0, 3)) {
            assert.isFalse(complete)
            assert.include(notes.join(), held)
          }
          assert.notInclude(answers[3].notes.join(), "held back")
        }
        // A held-back list counts before an old one: the lower code wins.
        yield* exporting(2)
        const both = yield* run("status", "--from", from, "--max-age", "1h", "--fail-on-held-back")
        assert.strictEqual(both.code, 10)
        assert.include(both.err, "payout-requests was never read completely")
      }).pipe(Effect.scoped)
  )
})

describe("payments status", () => {
  it.live.each(Object.keys(destinations) as ReadonlyArray<keyof typeof destinations>)(
    "shows the age and the last certificate of each list in %s, and fails with code 12 if one is older than allowed",
    (kind) =>
      Effect.gen(function*() {
        const from = yield* destinations[kind]
        yield* exportInto(from, "payout-requests", "payin-sources")
        const { code, err, out } = yield* status(from)
        assert.deepStrictEqual([code, err], [0, ""])
        const rows = rowsIn(out)
        assert.deepStrictEqual(
          rows.map(({ ageSeconds, isFresh, list, missing, quarantined, rows: all }) => [
            list,
            typeof ageSeconds,
            isFresh,
            all,
            missing,
            quarantined
          ]),
          [
            ["payout-requests", "number", null, 3, 0, 1],
            ["payin-sources", "number", null, 0, 0, 0],
            ["invoices", "object", null, 0, 0, 0]
          ]
        )
        assert.deepStrictEqual(JSON.parse((yield* status(from, "--format", "json")).out).length, 3)
        const certificates = JSON.stringify(rows.map(({ completeScan }) => completeScan))
        assert.match(certificates, /"certificate":\{"scan":\d,.*"records":3,"distinct":3,/)

        const some = yield* status(from, "--max-age", "1h", "--resource", "payout-requests")
        assert.deepStrictEqual([some.code, some.err, rowsIn(some.out)[0]?.["isFresh"]], [0, "", true])
        const all = yield* status(from, "--max-age", "1h")
        assert.deepStrictEqual(
          [all.code, all.err],
          [12, "payments: invoices was never read completely, so it counts as older than 1h\n"]
        )
        assert.deepStrictEqual(rowsIn(all.out).map(({ isFresh }) => isFresh), [true, true, false])
        yield* Effect.sleep("20 millis")
        const old = yield* status(from, "--max-age", "10ms", "--resource", "payin-sources")
        assert.strictEqual(old.code, 12)
        assert.match(
          old.err,
          /^payments: payin-sources is [\d.]+s old, but 0\.01s is allowed: its last complete full scan began at \S+Z\n$/
        )
      }).pipe(Effect.scoped)
  )

  it.live("prints a table that fits the terminal, with notes and consumers, and escapes control characters", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "p.db")
      const from = `sqlite:${file}`
      yield* exportInto(from)
      execute(
        file,
        `UPDATE scans SET started_at = '2026-01-01T00:00:00.000Z', ended_at = '2026-01-01T00:00:01.000Z';
        INSERT INTO scans (list, kind, part, request, state, first_row, totals, started_at, pages, records)
        SELECT list, kind, part, request, 'running', first_row, totals, started_at, 1200, 1
        FROM scans WHERE list <> 'payin-sources';
        INSERT INTO head_passes VALUES ('payin-sources', '', 'oh' || char(27) || '[2J');
        INSERT INTO consumers (name, position, created_at, moved_at) VALUES ('warehouse', 0, '', '2026-01-02T00:00:00.000Z')`
      )
      yield* lockedBy(file, "process 7 on h\u001b[2J")
      for (const width of [20, 40, 60, 80, 200]) {
        const { code, out } = yield* runInProcess(emptyApi, ["status", "--from", from], true, width)
        assert.strictEqual(code, 0)
        assert.notInclude(out, "\u001b")
        for (const line of out.split("\n")) assert.isAtMost(line.length, width, line)
      }
      const wide = yield* runInProcess(emptyApi, ["status", "--from", from], true, 200)
      assert.match(wide.out, /^list +age +rows +missing +quarantined +scan +records +ended at\n/)
      assert.match(wide.out, /\npayout-requests +\d+d(?: \d+h)? +3 +0 +1 +\d +3 +2026-01-01T00:00:01\.000Z\n/)
      const began = "that began at 2026-01-01T00:00:00.000Z"
      for (
        const note of [
          `payout-requests: a full scan (4) ${began} was interrupted after 1,200 pages and 1 record; the next export`,
          `invoices: a full scan (5) ${began} is running after 1,200 pages and 1 record\n`,
          String.raw`invoices: locked by process 7 on h\u001b[2J`,
          String.raw`payin-sources: head passes are stopped: oh\u001b[2J`
        ]
      ) assert.include(wide.out, note)
      assert.match(wide.out, /\n\nconsumer +changes behind +position +moved at\nwarehouse +0 +0 +2026-01-02T00/)
      const narrow = yield* runInProcess(emptyApi, ["status", "--from", from], true, 60)
      assert.include(narrow.err, "The terminal has no room for: records, ended at")
      const forPrograms = yield* runInProcess(emptyApi, ["status", "--from", from, "--format", "json"], true, 80)
      assert.notInclude(forPrograms.out, "\u001b")
    }).pipe(Effect.scoped))

  it.live("says that a clock was set back, and counts the list as older than allowed", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "p.db")
      yield* exportInto(`sqlite:${file}`)
      execute(file, "UPDATE scans SET started_at = '2999-01-01T00:00:00.000Z' WHERE list = 'invoices'")
      const { code, err, out } = yield* status(`sqlite:${file}`, "--max-age", "24h", "--format", "table")
      assert.strictEqual(code, 12)
      assert.match(out, /\ninvoices +unknown +1 /)
      assert.include(
        err,
        "its last complete full scan began in the future (2999-01-01T00:00:00.000Z). Check the clocks."
      )
    }).pipe(Effect.scoped))

  it.live("fails with code 9 if nothing can be read, and with code 2 for invalid flags", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const old = join(folder, "old.db")
      yield* exportInto(`sqlite:${old}`)
      execute(old, "PRAGMA user_version = 4")
      for (
        const [from, message] of [
          [`sqlite:${folder}/absent.db`, "there is nothing there. Export into it first."],
          [`file:${folder}/absent`, "its folder does not exist."],
          [
            `sqlite:${old}`,
            "it was written by an earlier version of this program. Export into it first, or run payments migrate."
          ],
          ["postgres://127.0.0.1:1/payments", "no server listens there. Check host and port (ECONNREFUSED)."],
          [`postgres://${user}@127.0.0.1:${server.port}/postgres?schema=none`, "nothing has been exported into it."]
        ] as const
      ) {
        const { code, err, out } = yield* status(from, "--max-age", "24h")
        assert.deepStrictEqual([code, out, err.split("\n").length], [9, "", 2], from)
        assert.include(err, message)
      }
      const wrong = yield* status("-", "--max-age", "24")
      assert.strictEqual(wrong.code, 2)
      assert.include(wrong.err, "Invalid value for --max-age. Expected: a duration such as 90s, 5m or 2h")
      assert.include(wrong.err, "stores nothing")
    }).pipe(Effect.scoped))

  it.live("needs no address and reads no key", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      yield* exportInto(to)
      const env = { PAYMENTS_TO: to, PAYMENTS_API_KEY_FILE: "/does/not/exist" }
      const { code, stderr, stdout } = yield* payments(["status", "--max-age", "1h"], { env })
      assert.deepStrictEqual([code, stderr, rowsIn(stdout).length], [0, "", 3])
    }).pipe(Effect.scoped))

  it.live("takes the destination, the lists and the allowed age from a source, and neither reads nor makes its key", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      yield* exportInto(`sqlite:${folder}/p.db`, "payout-requests", "payin-sources")
      yield* exportInto(`file:${folder}/q`, "payout-requests", "payin-sources")
      for (const file of ["p.db", "q/copy.db"]) {
        execute(join(folder, file), `UPDATE destination SET source = 'https://api.example.com/'`)
      }
      const config = join(folder, "payments.toml")
      writeFileSync(
        config,
        `[defaults]
        base_url = "https://api.example.com"
        [sources.north]
        to = "sqlite:p.db"
        api_key_file = "absent"
        lists = ["payout-requests", "payin-sources"]
        max_age = "1h"
        [sources.south]
        to = "file:q"
        api_key_command = ["touch", "${folder}/made"]
        max_age = "10ms"
        `
      )
      const run = (...args: ReadonlyArray<string>) => payments(["status", "--config", config, ...args], { env: {} })
      const north = yield* run("--source", "north")
      assert.deepStrictEqual([north.code, north.stderr], [0, ""])
      assert.deepStrictEqual(
        rowsIn(north.stdout).map(({ isFresh, list, maxAgeSeconds }) => [list, maxAgeSeconds, isFresh]),
        [["payout-requests", 3600, true], ["payin-sources", 3600, true]]
      )
      const south = yield* run("--source", "south")
      assert.deepStrictEqual([south.code, rowsIn(south.stdout).length, south.stderr.split("\n").length], [12, 3, 4])
      assert.strictEqual((yield* run("--source", "south", "--max-age", "1h", "--resource", "payin-sources")).code, 0)
      // Without a name, all sources of the file in one answer. A destination that cannot be read does not hide the others.
      const all = yield* run("--resource", "payin-sources")
      assert.deepStrictEqual(
        rowsIn(all.stdout).map(({ isFresh, list, source }) => [source, list, isFresh]),
        [["north", "payin-sources", true], ["south", "payin-sources", false]]
      )
      assert.deepStrictEqual([all.code, all.stderr.split("\n").length], [12, 2])
      assert.match(all.stderr, /^payments: south\/payin-sources is /)
      const table = yield* run("--format", "table")
      assert.include(table.stdout, "north/payout-requests")
      rmSync(join(folder, "q"), { recursive: true })
      const gone = yield* run()
      assert.deepStrictEqual([gone.code, rowsIn(gone.stdout).length], [9, 2])
      assert.isFalse(existsSync(join(folder, "made")))
    }).pipe(Effect.scoped))

  it.live("refuses a destination that has the copy of another source, and says nothing about its age", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const config = join(folder, "payments.toml")
      const sources = (south: string) =>
        writeFileSync(
          config,
          `[defaults]\napi_key_env = "KEY"\n[sources.north]\nbase_url = "https://north.example.com"\nto = "sqlite:n.db"\nmax_age = "1h"\n
          [sources.south]\nbase_url = "https://south.example.com"\nto = "${south}"\nmax_age = "1h"\n`
        )
      const run = (...args: ReadonlyArray<string>) =>
        payments(["status", "--config", config, ...args], { env: {}, cwd: folder })
      yield* exportInto(`sqlite:${folder}/n.db`)
      const bindTo = (url: string) => execute(`${folder}/n.db`, `UPDATE destination SET source = '${url}/'`)
      bindTo("https://north.example.com")
      sources("sqlite:s.db")
      assert.strictEqual((yield* run("--source", "north")).code, 0)
      // The copy of north at the place of south, as after a mistake in the file, or by another spelling of one server.
      renameSync(join(folder, "n.db"), join(folder, "s.db"))
      const { code, stderr, stdout } = yield* run("--source", "south", "--max-age", "1h")
      assert.deepStrictEqual([code, stdout], [9, ""])
      assert.include(stderr, "it has the data of another source (https://north.example.com/)")
      // The environment describes a source, too. A command that reads needs no valid address.
      const to = `sqlite:${folder}/s.db`
      for (
        const [PAYMENTS_BASE_URL, args, expected] of [
          ["https://south.example.com", [], 9],
          ["https://north.example.com", [], 0],
          ["no address", [], 0],
          ["https://south.example.com", ["--from", to], 0]
        ] as const
      ) {
        const env = { PAYMENTS_BASE_URL, PAYMENTS_TO: to }
        const read = yield* payments(["status", ...args], { env, cwd: folder })
        assert.strictEqual(read.code, expected, `${PAYMENTS_BASE_URL}: ${read.stderr}`)
      }
    }).pipe(Effect.scoped))

  it.live("like every command that reads the copy of a source", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const kinds = ["sqlite", "file", "postgres"] as const
      const copies = yield* Effect.forEach(kinds, (kind) => destinations[kind])
      const settingsOf = (name: string) => [`--config=${folder}/${name}.toml`, "--source"]
      for (const name of ["own", "other"]) {
        const tables = copies.map((to, index) => `[sources.${kinds[index]}]\nto = "${to}"\n`).join("")
        writeFileSync(
          `${folder}/${name}.toml`,
          `[defaults]\napi_key_env = "KEY"\nbase_url = "https://${name}.example.com"\n${tables}`
        )
      }
      yield* Effect.forEach(copies, (to) => exportInto(to))
      yield* Effect.forEach(copies, (to) => bind(to, "https://own.example.com/"))
      // How commands open a destination.
      const eachKind = [
        ["query", "SELECT id FROM invoices"],
        ["changes"],
        ["changes", "--consumer", "warehouse", "--ack"],
        ["diff", "--at", "0"]
      ]
      const others = [
        ["query", "invoices-by-status"],
        ["find", "c", "--copy"],
        ["verify"],
        ["quarantine"],
        ["changes", "consumers"],
        ["erasures"],
        ["restored"],
        ["prune", "--keep-scans", "1h"]
      ]
      for (const kind of kinds) {
        for (const args of kind === "sqlite" ? [...eachKind, ...others] : eachKind) {
          const of = (name: string) => runInProcess(emptyApi, [...args, ...settingsOf(name), kind])
          const other = yield* of("other")
          assert.deepStrictEqual([other.code, other.out], [9, ""], `${kind}: ${args.join(" ")}: ${other.err}`)
          assert.include(other.err, "it has the data of another source (https://own.example.com/)")
          const own = yield* of("own")
          assert.notInclude([2, 9], own.code, `${kind}: ${args.join(" ")}: ${own.err}`)
        }
      }
      const tables = yield* runInProcess(emptyApi, ["query", "--tables", ...settingsOf("other"), "sqlite"])
      assert.include(tables.err.replaceAll(/\s+/g, " "), "it has the data of another source")
      const { textOf } = yield* connect([...settingsOf("other"), "sqlite"])
      for (
        const [tool, given] of [
          ["query", { sql: "SELECT id FROM invoices" }],
          ["changes", { list: "invoices" }],
          ["status", {}]
        ] as const
      ) {
        const { isError, text } = yield* Effect.promise(() => textOf(tool, given))
        assert.isTrue(isError, tool)
        assert.include(text, "it has the data of another source")
      }
    }).pipe(Effect.scoped))
})
