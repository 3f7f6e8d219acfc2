import { assert, describe, it } from "@effect/vitest"
import {
  binary,
  labels,
  node,
  payments,
  rowsOf,
  runProgram,
  sandboxEnv,
  temporaryFolder
} from "@payments/testkit/programs/RunProgram"
import { pageOf, type Script, scriptedServer } from "@payments/testkit/ScriptedServer"
import { execFileSync } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"

const key = "canary-key-5ecret"

/** A fault of the service, the exit code of the programs, and words of their message. */
const faults: ReadonlyArray<readonly [string, Script, number, string]> = [
  ["a wrong key", (_, response) => response.writeHead(401).end(`{"detail":"${key}"}`), 4, "not authorized"],
  [
    "a refused parameter",
    (_, response) => response.writeHead(400).end(`{"code":"BAD_FILTER"}`),
    5,
    "refused the request (400)"
  ],
  ["an address without such a list", (_, response) => response.writeHead(404).end(), 5, "not found (404)"],
  [
    "a limit on requests",
    (_, response) => response.writeHead(429, { "retry-after": "3600" }).end(),
    6,
    "requests a wait of 1h"
  ],
  ["a service that fails", (_, response) => response.writeHead(500).end(), 7, "the service failed (500)"],
  ["truncated JSON", (_, response) => response.writeHead(200).end(`{"items":[{"id":"a"},{"i`), 7, "ended early"],
  [
    "HTML instead of JSON",
    (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>"),
    8,
    "not JSON (text/html)"
  ],
  [
    "a redirect",
    (_, response) => response.writeHead(302, { location: "http://127.0.0.1:1/" }).end(),
    8,
    "redirect (302)"
  ],
  ["a page without a cursor", (_, response) => response.writeHead(200).end(`{"items":[]}`), 8, "without a cursor"]
]

const lines = (text: string) => text.split("\n").filter((line) => line !== "")

describe("an error", () => {
  it.live.each(faults)(
    "%s: prints one line, exits with its code, and does not change stored rows",
    ([, script, code, words]) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const database = join(folder, "payments.db")
        let broken = false
        const server = yield* scriptedServer((request, response, count) =>
          broken ? script(request, response, count) : pageOf(response, [`{"id":"a","amount":1}`, `{"id":"b"}`], null)
        )
        const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: key }
        const args = ["export", "invoices", "--to", `sqlite:${database}`]
        assert.strictEqual((yield* payments(args, { env })).code, 0)
        const before = rowsOf(database, "SELECT * FROM invoices")
        broken = true
        const listed = yield* payments(["invoices", "list"], { env })
        const exported = yield* payments(args, { env })
        for (const ended of [listed, exported]) {
          assert.deepStrictEqual([ended.code, lines(ended.stderr).length], [code, 1], ended.stderr)
          assert.include(ended.stderr, words)
          assert.notInclude(ended.stderr + ended.stdout, key)
        }
        assert.strictEqual(listed.stdout, "")
        assert.deepStrictEqual(rowsOf(database, "SELECT * FROM invoices"), before)
        broken = false
        assert.strictEqual((yield* payments(args, { env })).code, 0)
        assert.deepStrictEqual(rowsOf(database, "SELECT * FROM invoices"), before)
      }).pipe(Effect.scoped)
  )

  it.live("an unreachable host: prints one line and exits with code 7", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_, response) => response.end())
      server.close()
      for (const url of [server.url, "https://nowhere.invalid"]) {
        const { code, stderr } = yield* payments(["invoices", "list"], {
          env: { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: key }
        })
        assert.deepStrictEqual([code, lines(stderr).length], [7, 1], stderr)
        assert.match(stderr, /^payments: invoices: the service could not be reached: /)
      }
    }).pipe(Effect.scoped))

  it.live("missing and invalid settings: lists all of them by name and exits with code 3", () =>
    Effect.gen(function*() {
      const none = yield* payments(["invoices", "list"])
      assert.deepStrictEqual([none.code, none.stdout], [3, ""])
      assert.strictEqual(
        none.stderr,
        "payments: PAYMENTS_BASE_URL is not set; PAYMENTS_API_KEY is not set, nor is PAYMENTS_API_KEY_FILE, which names a file that contains the key\npayments: check the settings with: payments doctor\n"
      )
      const wrong = yield* payments(["export", "--to", "sqlite:never.db"], {
        env: { PAYMENTS_BASE_URL: `https://user:${key}@api.example.com`, PAYMENTS_INVOICE_PARAMS: "x" }
      })
      assert.strictEqual(wrong.code, 3)
      for (const name of ["PAYMENTS_BASE_URL", "PAYMENTS_API_KEY", "PAYMENTS_INVOICE_PARAMS"]) {
        assert.include(wrong.stderr, name)
      }
      assert.notInclude(wrong.stderr, key)
      assert.isFalse(existsSync("never.db"))
    }))

  it.live("an empty variable of the rule for personal data: is refused with code 3, because without it data would be kept", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const service = yield* sandboxEnv({ records: 1 })
      const args = ["export", "invoices", "--to", `sqlite:${join(folder, "p.db")}`]
      for (const name of ["PERSONAL", "OMIT", "PSEUDONYMIZE", "KEEP", "UNDOCUMENTED"]) {
        const { code, stderr } = yield* payments(args, { env: { ...service, [`PAYMENTS_${name}`]: "" } })
        assert.strictEqual(code, 3, stderr)
        assert.include(stderr, `payments: PAYMENTS_${name} is empty. Unset it, or give `)
      }
      assert.deepStrictEqual(readdirSync(folder), [])
      // All other variables count as not set.
      const others = {
        PAYMENTS_PATIENCE: "",
        PAYMENTS_PERSONAL_KEY: "",
        PAYMENTS_IGNORE_FIELD: "",
        PAYMENTS_CONFIG: ""
      }
      assert.strictEqual((yield* payments(args, { env: { ...service, ...others } })).code, 0)
    }).pipe(Effect.scoped))

  it.live("a working folder that was removed, or too few files that may be opened: says what to do, with code 9", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = { ...(yield* sandboxEnv({ records: 1 })), PATH: process.env["PATH"] ?? "" }
      const inShell = (script: string, ...args: ReadonlyArray<string>) =>
        runProgram("/bin/sh", ["-c", `${script}; exec "$@"`, "sh", node, binary, ...args], { env, cwd: folder })
      const removed = "mkdir gone; cd gone; rmdir ../gone"
      const words = "the working folder does not exist any more. Change to a folder that exists (cd), and run again.\n"
      for (
        const [script, args, expected] of [
          [
            removed,
            ["export", "invoices", "--to", `sqlite:${folder}/p.db`],
            `payments: sqlite:${folder}/p.db: ${words}`
          ],
          [removed, ["config", "--config", "own.toml"], `payments: ${words}`],
          [
            "ulimit -n 24",
            ["export", "invoices", "--to", `sqlite:${folder}/p.db`],
            `payments: sqlite:${folder}/p.db: the process may not open more files. Raise the limit (ulimit -n 1024), and run again.\n`
          ]
        ] as const
      ) {
        const { code, stderr } = yield* inShell(script, ...args)
        assert.deepStrictEqual([code, stderr], [9, expected])
      }
      assert.deepStrictEqual(readdirSync(folder), [])
    }).pipe(Effect.scoped))

  it.live("too few files for the process of a query: says what to do, with code 9", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = { ...(yield* sandboxEnv({ records: 1 })), PATH: process.env["PATH"] ?? "" }
      const file = `sqlite:${folder}/p.db`
      assert.strictEqual((yield* payments(["export", "invoices", "--to", file], { env })).code, 0)
      for (
        const [answer, ...args] of [
          ["{\"one\":1}\n", "query", "SELECT 1 AS one", "--from", file],
          ["1\n", "invoices", "list", "--all", "--query", "length(@)"]
        ]
      ) {
        // The process does not start, or cannot start its second thread. A command that is never short of files answers.
        for (const files of [23, 24, 25, 26]) {
          const shell = ["-c", `ulimit -n ${files}; exec "$@"`, "sh", node, binary, ...args]
          const { code, stderr, stdout } = yield* runProgram("/bin/sh", shell, { env })
          if (code === 0 && files > 24) {
            assert.deepStrictEqual([stdout, stderr], [answer, ""])
            continue
          }
          assert.strictEqual(code, 9, stderr)
          assert.match(stderr, /^payments: [^\n]*the process may (?:not )?open more files[^\n]*\n$/)
        }
      }
    }).pipe(Effect.scoped))

  it.live("a setting or flag that names a pipe, a device or a folder: exits with code 3 or 2", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const pipe = join(folder, "pipe")
      execFileSync("mkfifo", [pipe])
      const service = { PAYMENTS_BASE_URL: "http://127.0.0.1:1", PAYMENTS_API_KEY: key }
      const { PAYMENTS_BASE_URL } = service
      const postgres = ["export", "--to", "postgres://x@127.0.0.1:1/x"]
      for (
        const [path, kind] of [[pipe, "a pipe"], ["/dev/zero", "a device"], [folder, "a folder"]] as const
      ) {
        const runs = [
          [3, ["invoices", "list"], { PAYMENTS_BASE_URL, PAYMENTS_API_KEY_FILE: path }],
          [2, ["invoices", "list", "--cursor-file", path], service],
          [2, ["export", "payin-sources", "--to", `sqlite:${folder}/p.db`, "--customer-ids", path], service],
          [3, postgres, { ...service, PGPASSFILE: path }],
          [3, [...postgres.slice(0, 2), `postgres://x@127.0.0.1:1/x?sslrootcert=${path}`], service]
        ] as const
        const ended = yield* Effect.forEach(runs, ([, args, env]) => payments(args, { env }), { concurrency: 2 })
        for (const [index, { code, stderr }] of ended.entries()) {
          const [expected, args] = runs[index] ?? []
          // An error in the settings has a second line, with the command that checks them.
          assert.deepStrictEqual(
            [code, lines(stderr).length],
            [expected, expected === 3 ? 2 : 1],
            `${args?.join(" ")}\n${stderr}`
          )
          assert.include(stderr, `is ${kind}, not a plain file`)
        }
      }
      assert.deepStrictEqual(readdirSync(folder), ["pipe"])
    }).pipe(Effect.scoped))

  it.live("a key file that other users may read: warns in one line and continues", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "key")
      const { PAYMENTS_API_KEY, PAYMENTS_BASE_URL } = yield* sandboxEnv({ records: 3 })
      writeFileSync(file, PAYMENTS_API_KEY)
      chmodSync(file, 0o644)
      const env = { PAYMENTS_BASE_URL, PAYMENTS_API_KEY_FILE: file }
      const { code, stderr } = yield* payments(["invoices", "list", "--all"], { env })
      assert.deepStrictEqual([code, stderr], [
        0,
        `payments: PAYMENTS_API_KEY_FILE: other users may read ${file} (mode 644). Make it readable by its owner alone: chmod 600.\n`
      ])
    }).pipe(Effect.scoped))

  it.live.each(["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"])(
    "%s without a scheme: says what is wrong and exits with code 3",
    (name) =>
      Effect.gen(function*() {
        const env = { PAYMENTS_BASE_URL: "https://api.example.com", PAYMENTS_API_KEY: key, [name]: "canary.corp:3128" }
        const { code, stderr } = yield* payments(["invoices", "list"], { env })
        assert.deepStrictEqual([code, lines(stderr).length], [3, 2], stderr)
        assert.include(stderr, `payments: ${name} is not the address of a proxy, such as http://proxy.example.com:3128`)
        assert.notInclude(stderr, "canary")
      })
  )

  it.live("an export into the destination of another source: exits with code 9", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [one, other] = [yield* sandboxEnv({ records: 5 }), yield* sandboxEnv({ records: 9 })]
      for (const to of [`sqlite:${folder}/payments.db`, `file:${folder}/files`]) {
        assert.strictEqual((yield* payments(["export", "--to", to], { env: one })).code, 0)
        for (const env of [other, { ...one, PAYMENTS_ACCOUNT: "south" }]) {
          const { code, stderr } = yield* payments(["export", "--to", to], { env })
          assert.strictEqual(code, 9)
          assert.include(stderr, "another source")
        }
      }
      assert.deepStrictEqual(rowsOf(join(folder, "payments.db"), "SELECT count(*) AS n FROM invoices"), [{ n: 5 }])
    }).pipe(Effect.scoped))

  it.live("a list that fails: the other lists are completed, and the exit code is the lowest one", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const database = join(folder, "payments.db")
      const server = yield* scriptedServer((request, response) =>
        request.url?.startsWith("/v0/payinSources")
          ? response.writeHead(200).end("<html>")
          : request.url?.startsWith("/v1/")
          ? response.writeHead(403).end()
          : pageOf(response, [`{"id":"a"}`], null)
      )
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: key }
      const { code, stderr, stdout } = yield* payments(["export", "--to", `sqlite:${database}`], { env })
      assert.deepStrictEqual([code, lines(stderr).length], [4, 2])
      assert.include(stdout, "payout-requests")
      assert.deepStrictEqual(rowsOf(database, "SELECT id FROM payout_requests"), [{ id: "a" }])
    }).pipe(Effect.scoped))

  it.live("a list that never responds: the other lists are completed", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "payments.db")
      const server = yield* scriptedServer((request, response) => {
        if (!request.url?.startsWith("/v0/payoutRequests")) pageOf(response, [`{"id":"a"}`], null)
      })
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: key }
      const complete = () => {
        try {
          return rowsOf(file, "SELECT list FROM scans WHERE state = 'complete'").length === 2
        } catch {
          // The database does not exist yet.
          return false
        }
      }
      const { code } = yield* payments(["export", "--to", `sqlite:${file}`], { env, interruptWhen: complete })
      assert.strictEqual(code, 130)
      assert.isTrue(complete())
    }).pipe(Effect.scoped))

  it.live("records that do not match the document: stores them and exits with code 10", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const database = join(folder, "payments.db")
      const env = yield* sandboxEnv({ lists: { invoices: [`{"id":"a","amount":"1,50"}`, `{"id":"b"}`] } })
      const { code, stderr } = yield* payments(["export", "invoices", "--to", `sqlite:${database}`], { env })
      assert.strictEqual(code, 10)
      assert.include(
        stderr,
        `payments: invoices: records that do not match the document: 1; list them with: payments quarantine --from sqlite:${database}\n`
      )
      assert.deepStrictEqual(rowsOf(database, "SELECT id, path FROM quarantine"), [{ id: "a", path: "amount" }])
      assert.deepStrictEqual(rowsOf(database, "SELECT id, raw FROM invoices WHERE id = 'a'"), [{
        id: "a",
        raw: `{"id":"a","amount":"1,50"}`
      }])
    }).pipe(Effect.scoped))

  it.live("three concurrent exports into one new destination: all succeed", () =>
    Effect.gen(function*() {
      const env = yield* sandboxEnv({ records: 30 })
      for (let round = 0; round < 3; round++) {
        const folder = yield* temporaryFolder
        for (const to of [`sqlite:${folder}/payments.db`, `file:${folder}/files`]) {
          const ended = yield* Effect.forEach(labels, (label) => payments(["export", label, "--to", to], { env }), {
            concurrency: "unbounded"
          })
          assert.deepStrictEqual(ended.map(({ code, stderr }) => [code, stderr]), [[0, ""], [0, ""], [0, ""]])
        }
      }
    }).pipe(Effect.scoped))

  it.live("a destination in the notation of another program: refuses it in one line and creates nothing", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 5 })
      const texts = [
        "sqlite://x.db",
        "sqlite::memory:",
        "sqlite:file:z.db?mode=ro",
        "sqlite:a\nb.db",
        "SQLITE:x.db",
        "file://x"
      ]
      for (const text of texts) {
        const { code, stderr, stdout } = yield* payments(["export", "invoices", "--to", text], { env, cwd })
        assert.deepStrictEqual([code, stdout, lines(stderr).length], [2, "", 1], text)
        const { code: reading } = yield* payments(["verify"], { env: { ...env, PAYMENTS_TO: text }, cwd })
        assert.strictEqual(reading, 2, text)
      }
      assert.deepStrictEqual(readdirSync(cwd), [])
      assert.isFalse(existsSync("/x.db"))
      const device = yield* payments(["export", "invoices", "--to", "sqlite:/dev/null"], { env, cwd })
      assert.deepStrictEqual([device.code, lines(device.stderr).length], [9, 1])
      assert.include(device.stderr, "it is a device, not a plain file")
      assert.isFalse(existsSync("/dev/null-journal"))
      const name = "a b 'ñ' %20#.db"
      assert.strictEqual((yield* payments(["export", "invoices", "--to", `sqlite:${name}`], { env, cwd })).code, 0)
      assert.deepStrictEqual(rowsOf(join(cwd, name), "SELECT count(*) AS n FROM invoices"), [{ n: 5 }])
    }).pipe(Effect.scoped))

  it.live("a damaged database: reports the damage, the readable lists and the way out, without a stack trace", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "x.db")
      const env = yield* sandboxEnv({ records: 300 })
      const to = ["--to", `sqlite:${file}`]
      const from = ["--from", `sqlite:${file}`]
      const fresh = Effect.gen(function*() {
        for (const companion of ["", "-wal", "-shm"]) rmSync(file + companion, { force: true })
        assert.strictEqual((yield* payments(["export", ...to], { env })).code, 0)
      })
      const execute = (sql: string) => {
        const db = new DatabaseSync(file)
        db.exec(sql)
        db.close()
      }

      yield* fresh
      execute("UPDATE invoices SET amount = 9007199254740993 WHERE row = 3")
      const large = yield* payments(["verify", ...from])
      assert.deepStrictEqual([large.code, large.stderr], [11, ""])
      assert.match(large.stdout, /^invoices: differs\n {2}\S+: amount differs from raw$/m)

      yield* fresh
      execute("UPDATE scans SET totals = '{' WHERE list = 'invoices'")
      const totals = yield* payments(["verify", ...from])
      assert.deepStrictEqual([totals.code, totals.stderr], [11, ""])
      assert.include(totals.stdout, "invoices: differs\n  the totals of scan")

      yield* fresh
      const bytes = readFileSync(file)
      // The second page.
      bytes.fill(0xff, 16_384, 32_768)
      writeFileSync(file, bytes)
      const page = yield* payments(["verify", ...from])
      assert.deepStrictEqual([page.code, page.stderr], [11, ""])
      assert.include(page.stdout, "the database is damaged. Export into a new one")

      yield* fresh
      const whole = readFileSync(file)
      writeFileSync(file, whole.subarray(0, whole.length / 2))
      for (const args of [["verify", ...from], ["changes", ...from], ["export", ...to]]) {
        const { code, stderr } = yield* payments(args, { env })
        assert.deepStrictEqual([code, lines(stderr).length > 0], [9, true], args[0])
        assert.include(stderr, "it is damaged: pages of it cannot be read (SQLite 11).")
        assert.include(stderr, "Export into a new destination (another --to)")
        assert.notInclude(stderr, "What was committed is kept")
        assert.notMatch(stderr, /\n\s+at /)
      }

      yield* fresh
      execute("DROP TABLE payin_sources")
      const table = yield* payments(["export", ...to], { env })
      assert.deepStrictEqual([table.code, lines(table.stderr).length], [9, 1])
      assert.include(table.stderr, "the table payin_sources is missing")
      assert.include(
        table.stderr,
        "can still be read of payout-requests (300), invoices (300), but not of payin-sources."
      )
    }).pipe(Effect.scoped))

  it.live("a port in use or an unknown kind of destination: is a usage error", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_, response) => response.end())
      const { port } = new URL(server.url)
      for (
        const [args, flag] of [[["--port", port], "--port"], [
          ["--port", "0", "--control-port", port],
          "--control-port"
        ]] as const
      ) {
        const taken = yield* payments(["sandbox", ...args])
        assert.deepStrictEqual([taken.code, taken.stdout], [2, ""])
        assert.strictEqual(
          taken.stderr,
          `payments: 127.0.0.1 port ${port} is in use: another program listens there (EADDRINUSE). Stop it, or choose another port (${flag}; 0 selects a free port).\n`
        )
      }
      const elsewhere = yield* payments(["sandbox", "--host", "192.0.2.1"])
      assert.deepStrictEqual([elsewhere.code, elsewhere.stderr], [
        2,
        "payments: 192.0.2.1 port 8787 cannot be listened on: this machine has no such address (EADDRNOTAVAIL). Choose another one (--host).\n"
      ])
      const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: key }
      const unknown = yield* payments(["export", "--to", "mysql://x"], { env })
      assert.deepStrictEqual([unknown.code, lines(unknown.stderr).length], [2, 1])
      const first = yield* payments(["export", "--to", "nowhere"])
      assert.strictEqual(first.code, 2, "flags are checked before the environment")
      const missing = yield* payments(["export"], { env })
      assert.strictEqual(missing.code, 2)
    }).pipe(Effect.scoped))
})
