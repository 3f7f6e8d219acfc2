import { assert, describe, it } from "@effect/vitest"
import { pseudonym as pseudonymOf, Questions } from "@payments/copy"
import { layerTest } from "@payments/core/testing"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query as queryServer } from "@payments/testkit/postgres/PostgresTest"
import { binary, node, payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { execFileSync, spawn } from "@payments/testkit/TestProcess"
import { ConfigProvider, Effect, Fiber, Redacted, Schedule } from "effect"
import { once } from "node:events"
import { readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { stripVTControlCharacters } from "node:util"
import { afterAll, beforeAll } from "vitest"
import { runInProcess } from "../program/InProcess.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const emptyApi = layerTest()
const canary = "4433221100"
const max = 9_007_199_254_740_991
const invoices = [
  `{"id":"=1+1","amount":${max},"reference":"a,\\u001b[31m\\"b\\""}`,
  `{"id":"b","amount":${max},"reference":null}`,
  `{"id":"c","amount":-5,"reference":""}`,
  `{"id":"d","reference":"NULL","contract":"${canary}"}`
]

const kinds = ["sqlite:p.db", "file:files?format=csv", "postgres:"] as const

/** Fills a destination of this kind with the invoices. */
const filled = Effect.fnUntraced(function*(kind: typeof kinds[number]) {
  const folder = yield* temporaryFolder
  const to = kind === "postgres:"
    ? `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=${folder.slice(-6).toLowerCase()}`
    : kind.replace(":", `:${folder}/`)
  yield* runInProcess(layerTest({ invoices }), ["export", "invoices", "--to", to])
  // Runs the built program, because the process of a query starts more slowly from sources.
  const run = (sql: string, ...args: ReadonlyArray<string>) =>
    Effect.map(
      payments(["query", "--from", to, ...args, sql]),
      ({ code, stderr, stdout }) => ({ code, out: stdout, err: stderr })
    )
  return { folder, to, run }
})

describe("payments query", () => {
  it.live.each(kinds)("sums amounts beyond 2^53 exactly, from %s", (kind) =>
    Effect.gen(function*() {
      const { run, to } = yield* filled(kind)
      const sql = "SELECT sum(amount) AS s, count(*) AS n FROM invoices"
      const sum = String(2n * BigInt(max) - 5n)
      assert.deepInclude(yield* run(sql), { code: 0, out: `{"s":${sum},"n":4}\n`, err: "" })
      assert.strictEqual((yield* run(sql, "--format", "json")).out, `[\n{"s":${sum},"n":4}\n]\n`)
      assert.strictEqual((yield* run(sql, "--format", "csv")).out, `s,n\r\n${sum},4\r\n`)
      const table = yield* runInProcess(emptyApi, ["query", "--from", to, sql], true, 40)
      assert.strictEqual(table.out, `${"s".padStart(sum.length)}  n\n${sum}  4\n`)
    }).pipe(Effect.scoped))

  it.live.each(["sqlite:p.db", "postgres:"] as const)(
    "distinguishes null from text, and escapes text for spreadsheets and terminals, from %s",
    (kind) =>
      Effect.gen(function*() {
        const { run, to } = yield* filled(kind)
        const sql = "SELECT id, reference, amount FROM invoices ORDER BY id -- by id;\n;"
        assert.strictEqual(
          (yield* run(sql)).out,
          [
            String.raw`{"id":"=1+1","reference":"a,\u001b[31m\"b\"","amount":${max}}`,
            `{"id":"b","reference":null,"amount":${max}}`,
            `{"id":"c","reference":"","amount":-5}`,
            `{"id":"d","reference":"NULL","amount":null}\n`
          ].join("\n")
        )
        assert.strictEqual(
          (yield* run(sql, "--format", "csv")).out,
          `id,reference,amount\r\n'=1+1,"a,\u001b[31m""b""",${max}\r\nb,,${max}\r\nc,"",-5\r\nd,NULL,\r\n`
        )
        const { out } = yield* runInProcess(emptyApi, ["query", "--from", to, sql], true, 80)
        assert.deepStrictEqual(out.split("\n").map((line) => line.trim().split(/ {2,}/)), [
          ["id", "reference", "amount"],
          ["=1+1", String.raw`a,\u001b[31m"b"`, String(max)],
          ["b", "NULL", String(max)],
          ["c", "-5"],
          ["d", `"NULL"`, "NULL"],
          [""]
        ])
        assert.deepInclude(yield* run("SELECT 1 AS a, 2 AS a WHERE 1 = 0", "--format", "csv"), {
          code: 0,
          out: "a,a\r\n",
          err: "No rows.\n"
        })
        for (const flag of ["--format=csv", "--chart"]) {
          assert.strictEqual(
            (yield* run("settled-by-day", "--month", "1999-01", flag)).err.split("\n")[0],
            "No rows in 1999-01. Without --month, the rows of all months are shown."
          )
        }
        assert.strictEqual((yield* run("SELECT 1 AS a, 2 AS a")).out, `{"a":1,"a_2":2}\n`)
      }).pipe(Effect.scoped)
  )

  it.live.each(["sqlite:p.db", "postgres:"] as const)(
    "prints more rows than one message of the query process contains, each once and in order, from %s",
    (kind) =>
      Effect.gen(function*() {
        const { run } = yield* filled(kind)
        const { out } = yield* run(
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) SELECT i FROM n ORDER BY i"
        )
        assert.strictEqual(out, Array.from({ length: 2500 }, (_, index) => `{"i":${index + 1}}\n`).join(""))
      }).pipe(Effect.scoped)
  )

  it.live.each(["sqlite:p.db", "postgres:"] as const)(
    "refuses writing and invalid statements with code 2, and prints no value, in %s",
    (kind) =>
      Effect.gen(function*() {
        const { folder, run, to } = yield* filled(kind)
        const isPostgres = kind === "postgres:"
        const state = (): string =>
          readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => !/-(shm|wal)$/.test(name))
            .toSorted()
            .join(" ")
        const before = state()
        const onlyRead = "A query only reads the destination. Use SELECT, WITH or VALUES."
        for (
          const [sql, problem] of [
            ["DELETE FROM invoices", onlyRead],
            ["PRAGMA user_version = 9", onlyRead],
            [`ATTACH '${folder}/new.db' AS x`, onlyRead],
            [`VACUUM INTO '${folder}/new.db'`, onlyRead],
            ["/* SELECT */ DROP TABLE invoices", onlyRead],
            ["SELECT 1; SELECT 2", "There is more than one statement. Give one."],
            ["SELECT 1; DELETE FROM invoices", "There is more than one statement. Give one."],
            ["/* SELECT 1 */ ;", "There is no statement."],
            ["WITH gone AS (SELECT 1) DELETE FROM invoices", undefined],
            [isPostgres ? "SELECT 1 INTO more" : "SELECT load_extension('x')", undefined],
            ["SELECT nope FROM invoices", "nope"],
            ["SELECT nope FROM payout_requests", "payments query --tables prints the tables and columns."],
            ["SELECT 1 FROM invoices WHERE status = paid", "Did you mean 'paid' or id?"],
            ["SELECT amout FROM invoices", "Did you mean amount? payments query --tables"],
            ["SELECT FROM WHERE", "syntax error"],
            [`SELECT * FROM invoices WHERE id = "${canary}"`, undefined],
            [`SELECT '${canary}`, undefined],
            [`SELECT 1 ${canary} 2`, "syntax error"],
            [
              isPostgres
                ? "SELECT (contract || 'x')::date FROM invoices"
                : "SELECT json('x' || contract) FROM invoices",
              undefined
            ],
            // What a database says about a value that it has read.
            ...isPostgres
              ? [
                ["SELECT ('x' || contract)::regclass FROM invoices", "relation \"…\" does not exist (42P01)"],
                ["SELECT current_setting('x' || contract) FROM invoices", "parameter \"…\""],
                ["SELECT lo_get((contract::bigint % 4000000000)::oid) FROM invoices", "large object … does not exist"],
                ["SELECT (SELECT contract FROM invoices)", "more than one row returned by a subquery"],
                // Errors of the statement, and not of the destination.
                ["SELECT nope.f(1)", "schema \"nope\" does not exist"],
                // A cursor accepts a function that writes.
                ["SELECT lo_creat(-1)", "cannot execute lo_creat() in a read-only transaction"]
              ] as const
              : [
                ["SELECT json_extract('{}', contract) FROM invoices", "bad JSON path: '…'"],
                ["SELECT * FROM invoices, pragma_integrity_check('x' || contract)", "no such table: …"],
                ["SELECT exact_sum('12')", "exact_sum adds integers only."],
                ["SELECT exact_sum(contract) FROM invoices", "exact_sum adds integers only."]
              ] as const,
            [isPostgres ? "SELECT 9223372036854775807 + 1" : "SELECT sum(9223372036854775807) FROM invoices", undefined]
          ] as const
        ) {
          const { code, err, out } = yield* run(sql)
          assert.strictEqual(code, 2, `${sql}: ${err}`)
          assert.notInclude(out, canary, sql)
          assert.match(err, /^payments: [^\n]+\n$/, sql)
          assert.notInclude(err, canary, sql)
          if (problem !== undefined) assert.include(err, problem, sql)
        }
        assert.strictEqual(state(), before)
        assert.strictEqual((yield* runInProcess(emptyApi, ["verify", "--from", to])).code, 0)
      }).pipe(Effect.scoped)
  )

  it.live(
    "answers questions by name, as rows and as a chart, and says when the list was never read to its end",
    () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const from = `sqlite:${folder}/p.db`
        const lists = { invoices: [`{"id":"a","status":"paid","settlementDate":"2024-05-01","amount":1234567}`] }
        yield* runInProcess(layerTest(lists), ["export", "invoices", "--to", from])
        const run = (...args: ReadonlyArray<string>) =>
          runInProcess(emptyApi, ["query", "--from", from, ...args], true, 60)
        const settled = yield* run("settled-by-day", "--month", "2024-05", "--format", "csv")
        assert.deepStrictEqual([settled.code, settled.err], [0, ""])
        assert.strictEqual(
          settled.out,
          "settlement_date,records,amount,amount_null,payment_amount,payment_amount_null\r\n2024-05-01,1,1234567,0,,1\r\n"
        )
        const chart = yield* run("settled-by-day", "--chart")
        assert.strictEqual(
          stripVTControlCharacters(chart.out),
          `settlement_date     amount\n2024-05-01       1,234,567  ${
            "█".repeat(32)
          }\namount is null in 0 of 1 records.\n`
        )
        const partial = yield* run("payouts-by-status", "--chart")
        assert.strictEqual(
          partial.err,
          "No rows.\npayout-requests: no export has read the whole list yet, so\nthese figures may be incomplete.\n"
        )
        const printed = yield* run("--questions")
        for (const { name } of Questions.questions) assert.include(printed.out, name)
        // On a busy machine the values may take too long.
        const described = yield* Effect.repeat(run("--tables", "--format", "csv"), {
          until: ({ err }) => !err.includes("took more than")
        })
        assert.include(
          described.out,
          `invoices,status,text,state; observed: paid,paid\r\n`
        )
        for (
          const [args, problem] of [
            [[], "The questions are settled-by-day, "],
            [["settled-by-dya"], "There is no question settled-by-dya. Did you mean settled-by-day?"],
            [["settled-by-day", "--month", "May"], "--month"],
            [["SELECT 1", "--month", "2024-05"], "--month is for questions"],
            [["settled-by-day", "--chart", "--format", "csv"], "--chart and --format exclude each other"],
            [["SELECT 'a' AS x", "--chart"], "A chart needs a column of numbers"]
          ] as const
        ) {
          const { code, err, out } = yield* run(...args)
          assert.deepStrictEqual([code, out], [2, ""], args.join(" "))
          assert.include(err, problem)
        }
      }).pipe(Effect.scoped)
  )

  it.live(
    "shows the largest groups first on a terminal, and the exact sums of the others and of all",
    () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const from = `sqlite:${folder}/p.db`
        const payoutRequests = Array.from({ length: 1_675 }, (_, index) =>
          JSON.stringify({
            id: `p${index}`,
            customerId: `cus_${index}`,
            status: index % 2 === 0 ? "failed" : "completed",
            statusMessage: index % 2 === 0 ? "AUTHENTICATION_FAILED" : null,
            amount: max - index,
            createdAt: `2024-05-${String(index % 28 + 1).padStart(2, "0")}T10:00:00Z`
          }))
        yield* runInProcess(layerTest({ payoutRequests }), ["export", "payout-requests", "--to", from])
        const run = (args: ReadonlyArray<string>, terminal = true) =>
          runInProcess(emptyApi, ["query", "--from", from, ...args], terminal, 200)
        const cells = (out: string) => out.split("\n").map((line) => line.trim().split(/ {2,}/).slice(0, 3).join(" "))
        const sum = (count: number, first = 0, step = 1) =>
          Array.from({ length: count }, (_, index) => BigInt(max - first - index * step)).reduce((a, b) => a + b, 0n)
        const grouped = (value: bigint) => value.toLocaleString("en-US")

        const short = yield* run(["payouts-by-customer"])
        const lines = cells(short.out)
        assert.deepStrictEqual(lines.slice(0, 2), ["customer_id records amount", `cus_0 1 ${grouped(BigInt(max))}`])
        assert.deepStrictEqual(lines.slice(20), [
          `cus_19 1 ${grouped(BigInt(max - 19))}`,
          `(1,655 others) 1,655 ${grouped(sum(1_655, 20))}`,
          `(total) 1,675 ${grouped(sum(1_675))}`,
          ""
        ])
        assert.strictEqual(
          short.err,
          "These are the 20 largest groups. --top shows more, and --format csv all of them.\n"
        )
        // Some terminals report no width.
        const unsized = yield* runInProcess(emptyApi, ["query", "--from", from, "payouts-by-customer"], true)
        assert.strictEqual(unsized.out.split("\n").length, lines.length)
        // A program gets every group and no sum, because it would add them.
        const all = (yield* run(["payouts-by-customer"], false)).out
        assert.strictEqual(all.split("\n").length - 1, 1_675)
        assert.notInclude(all, "total")
        const top = yield* run(["payouts-by-customer", "--top", "2"], false)
        assert.deepStrictEqual(top.out.split("\n").map((line) => line.slice(0, 23)), [
          `{"customer_id":"cus_0",`,
          `{"customer_id":"cus_1",`,
          ""
        ])
        // Time orders the days, but not the largest of them.
        const day = yield* run(["payouts-by-day", "--top", "1"])
        assert.deepStrictEqual(cells(day.out).slice(1, 4), [
          `2024-05-01 60 ${grouped(sum(60, 0, 28))}`,
          `(27 others) 1,615 ${grouped(sum(1_675) - sum(60, 0, 28))}`,
          `(total) 1,675 ${grouped(sum(1_675))}`
        ])
        const failed = yield* run([
          "failed-payouts-by-customer",
          "--where",
          "amount<=9007199254740980",
          "--where",
          "id~p",
          "--top=1"
        ])
        assert.deepStrictEqual(cells(failed.out).slice(1, 3), [
          `cus_12 AUTHENTICATION_FAILED 1`,
          `(831 others) 831 ${grouped(sum(831, 14, 2))}`
        ])
        assert.include((yield* run(["failed-payouts-by-customer", "--month", "2023-01"])).err, "status failed")
        for (
          const [args, problem] of [
            [["payouts-by-customer", "--where", "amout>1"], "Did you mean amount?"],
            [["payouts-by-customer", "--where", "customer_id=x"], "No rows."],
            [["payouts-by-customer", "--where", "amount>1.5"], "amount is a whole number"],
            [["payouts-by-customer", "--top", "0"], "--top"],
            [["SELECT 1", "--top", "1", "--where", "a=1"], "--top, --where are for questions"]
          ] as const
        ) assert.include((yield* run(args)).err, problem)
      }).pipe(Effect.scoped)
  )

  it.live("runs a statement that begins with a comment, or that a file has", () =>
    Effect.gen(function*() {
      const { folder, run } = yield* filled("sqlite:p.db")
      const sql = "-- two = 2\n--more\nSELECT 2 AS two"
      writeFileSync(join(folder, "q.sql"), `${sql}\n`)
      for (const given of [sql, `@${join(folder, "q.sql")}`]) {
        assert.deepInclude(yield* run(given), { code: 0, out: `{"two":2}\n`, err: "" })
      }
      assert.include((yield* run("-- SELECT 1")).err, "There is no statement.")
    }).pipe(Effect.scoped))

  it.live("refuses to compare a pseudonym with a value", () =>
    Effect.gen(function*() {
      const from = `sqlite:${yield* temporaryFolder}/p.db`
      const env = { PAYMENTS_PERSONAL: "pseudonymize", PAYMENTS_PERSONAL_KEY: "k".repeat(32) }
      yield* runInProcess(layerTest({ invoices }), ["export", "invoices", "--to", from]).pipe(
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord(env)))
      )
      const pseudonym = pseudonymOf(Redacted.make(Buffer.from("k".repeat(32))), canary)
      const run = (condition: string, ...args: ReadonlyArray<string>) =>
        payments(
          ["query", "invoices-by-status", "--from", from, "--format", "json", "--where", condition].concat(args)
        )
      for (const condition of [`contract=${canary}`, `contract!=${canary}`, `contract~${canary}`, "contract<ps1_"]) {
        for (const at of [[], ["--at", "0"]]) {
          const { code, stderr, stdout } = yield* run(condition, ...at)
          assert.deepStrictEqual([code, stdout, stderr.includes(canary)], [2, "", false], condition)
          assert.include(stderr.replaceAll(/\s+/g, " "), "The copy has pseudonyms of contract, by its rule")
        }
      }
      const recordsOf = (stdout: string) =>
        (JSON.parse(stdout) as ReadonlyArray<{ readonly records: number }>).map(({ records }) => records)
      for (
        const [condition, records] of [
          [`contract=${pseudonym}`, 1],
          [`contract!=${pseudonym}`, 3],
          ["contract", 1],
          ["contract=null", 3],
          ["reference=NULL", 1]
        ] as const
      ) {
        const { code, stderr, stdout } = yield* run(condition)
        assert.strictEqual(code, 0, stderr)
        assert.deepStrictEqual(recordsOf(stdout), [records], condition)
      }
    }).pipe(Effect.scoped))

  it.live("reports an absent destination, and creates nothing", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const absent = `sqlite:${folder}/x.db`
      const { code, err, out } = yield* runInProcess(emptyApi, ["query", "--from", absent, "SELECT 1"])
      assert.deepStrictEqual([code, out, err], [
        9,
        "",
        `payments: ${absent}: there is nothing there. Export into it first.\n`
      ])
      assert.deepStrictEqual(readdirSync(folder), [])
      const schema = `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=absent`
      assert.strictEqual((yield* runInProcess(emptyApi, ["query", "--from", schema, "SELECT 1"])).code, 9)
      const unreachable = yield* runInProcess(emptyApi, [
        "query",
        "--from",
        `postgres://${user}@127.0.0.1:1/x`,
        "SELECT 1"
      ])
      assert.strictEqual(unreachable.code, 9)
    }).pipe(Effect.scoped))

  it.live("prints real numbers of SQLite as numbers, and blobs and infinity as text", () =>
    Effect.gen(function*() {
      const { run } = yield* filled("sqlite:p.db")
      const sql = "SELECT 1.0 AS a, 0.1 AS b, -0.0 AS c, 1e300 AS d, 9e999 AS e, x'01ff' AS f, 9223372036854775807 AS g"
      assert.strictEqual(
        (yield* run(sql)).out,
        String.raw`{"a":1.0,"b":0.1,"c":-0.0,"d":1e+300,"e":"Infinity","f":"\\x01ff","g":9223372036854775807}` + "\n"
      )
    }).pipe(Effect.scoped))

  it.live("prints PostgreSQL's values as the server writes them", () =>
    Effect.gen(function*() {
      const { run } = yield* filled("postgres:")
      const sql = `SELECT true AS a, 1.10::numeric AS b, 'NaN'::float8 AS c, '{"x":1e400,"x":1.0}'::json AS d,
        '2024-05-01 10:00:00.123456+02'::timestamptz AS e, '\\x01ff'::bytea AS f, ARRAY['a', NULL] AS g,
        12345678901234567890.12345678901234567890 AS h, 0.1::float8 AS i, '1 day'::interval AS j, 'x' AS k`
      assert.strictEqual(
        (yield* run(sql)).out,
        String.raw`{"a":true,"b":1.10,"c":"NaN","d":"{\"x\":1e400,\"x\":1.0}","e":"2024-05-01 08:00:00.123456+00",` +
          String
            .raw`"f":"\\x01ff","g":"{a,NULL}","h":12345678901234567890.12345678901234567890,"i":0.1,"j":"P1D","k":"x"}` +
          "\n"
      )
      for (const end of ["", ";", " ; -- x", "/* a /* b */ ; */;\n"]) {
        assert.strictEqual(
          (yield* run(`SELECT $$;--$$ AS a, 'it''s' AS b, E'\\';' AS c${end}`)).out,
          `{"a":";--","b":"it's","c":"';"}\n`
        )
      }
    }).pipe(Effect.scoped))

  it.live("ends a query of SQLite that needs too much memory", () =>
    Effect.gen(function*() {
      const { run } = yield* filled("sqlite:p.db")
      // Without a limit, this succeeds with 4 GB.
      const large = "SELECT count(DISTINCT hex(zeroblob(400000000 - value))) AS n FROM json_each('[1,2,3,4]')"
      const { code, err, out } = yield* run(large)
      assert.deepStrictEqual([code, out], [2, ""])
      assert.include(err, "The query needs more than 1024 MiB of memory.")
      // The largest record has 32 MiB.
      const row = yield* run("SELECT hex(zeroblob(16777216)) AS before, hex(zeroblob(16777216)) AS after")
      assert.deepStrictEqual([row.code, row.out.length], [0, 2 * 2 ** 25 + `{"before":"","after":""}\n`.length])
    }).pipe(Effect.scoped))

  it.live("can be interrupted while SQLite computes", () =>
    Effect.gen(function*() {
      const { to } = yield* filled("sqlite:p.db")
      // The first row fills a message. The second row takes forever.
      const endless = `SELECT hex(zeroblob(600000)) UNION ALL
        SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n)`
      const code = yield* Effect.callback<number | null>((resume) => {
        const child = spawn(node, [binary, "query", "--from", to, endless], {
          stdio: ["ignore", "pipe", "inherit"]
        })
        child.stdout.once("data", () => child.kill("SIGINT"))
        child.stdout.resume()
        child.on("close", (ended) => resume(Effect.succeed(ended)))
        return Effect.sync(() => child.kill("SIGKILL"))
      })
      assert.strictEqual(code, 130)
    }).pipe(Effect.scoped))

  it.live("leaves no process if it is killed while SQLite computes", () =>
    Effect.gen(function*() {
      const { to } = yield* filled("sqlite:p.db")
      const endless = `SELECT hex(zeroblob(600000)) UNION ALL
        SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n)`
      const processes = () =>
        execFileSync("ps", ["-A", "-o", "pid=,ppid=,stat="], { encoding: "utf8" }).split("\n")
          .map((line) => line.trim().split(/ +/)).filter(([, , state = "Z"]) => !state.startsWith("Z"))
      const child = spawn(node, [binary, "query", "--from", to, endless], { stdio: ["ignore", "pipe", "inherit"] })
      yield* Effect.promise(() => once(child.stdout, "data"))
      child.stdout.resume()
      const queries = processes().flatMap(([pid, parent]) => Number(parent) === child.pid ? [pid] : [])
      assert.lengthOf(queries, 1)
      child.kill("SIGKILL")
      yield* Effect.repeat(Effect.sync(() => processes().some(([pid]) => queries.includes(pid))), {
        while: (isRunning) => isRunning,
        schedule: Schedule.spaced("30 millis")
      })
    }).pipe(Effect.scoped))

  it.live("cancels a query that is interrupted while PostgreSQL computes", () =>
    Effect.gen(function*() {
      const { to } = yield* filled("postgres:")
      const active = Effect.promise(() =>
        queryServer(server, "SELECT count(*) AS n FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'FETCH%'")
      )
      const until = (n: bigint) =>
        Effect.repeat(active, { until: ([row]) => row?.["n"] === n, schedule: Schedule.spaced("20 millis") })
      const running = yield* Effect.forkChild(
        runInProcess(emptyApi, ["query", "--from", to, "SELECT pg_sleep(600)::text AS slept"])
      )
      yield* until(1n)
      yield* Fiber.interrupt(running)
      yield* until(0n)
    }).pipe(Effect.scoped))
})
