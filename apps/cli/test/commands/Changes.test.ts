import { assert, describe, it } from "@effect/vitest"
import { PaymentsApi } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { rowsOf, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { readCsv } from "@payments/testkit/RenderedFiles"
import { Effect, Layer } from "effect"
import { appendFileSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { runInProcess } from "../program/InProcess.ts"

const invoice = (id: string, amount: number | string, more = "") => `{"id":"${id}","amount":${amount}${more}}`

const serving = (...invoices: ReadonlyArray<string>) => layerTest({ invoices })

const inFolder = <A, E>(use: (destination: string, file: string, folder: string) => Effect.Effect<A, E>) =>
  Effect.scoped(Effect.flatMap(temporaryFolder, (folder) => {
    const file = join(folder, "payments.db")
    return use(`sqlite:${file}`, file, folder)
  }))

const exporting = (to: string, api: Layer.Layer<PaymentsApi>, ...flags: ReadonlyArray<string>) =>
  runInProcess(api, ["export", "invoices", "--to", to, ...flags])

const emptyApi = serving()

/** Runs five exports: a and b; b changed and c new; twice without a; a again, with another amount. */
const history = Effect.fnUntraced(function*(to: string) {
  yield* exporting(to, serving(invoice("a", 1), invoice("b", "2.0")))
  yield* exporting(to, serving(invoice("a", 1), invoice("b", 3), invoice("c", 4)))
  for (let times = 0; times < 2; times++) {
    yield* exporting(to, serving(invoice("b", 3), invoice("c", 4)), "--missing-limit", "50%")
  }
  yield* exporting(to, serving(invoice("a", 9), invoice("b", 3), invoice("c", 4)))
})

describe("payments changes", () => {
  it.live("prints inserts, updates, missing and returned rows in order, but not the first load", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        yield* history(to)
        const { code, out } = yield* runInProcess(emptyApi, ["changes", "--from", to])
        assert.strictEqual(code, 0)
        const changes = out.trimEnd().split("\n").map((line) => JSON.parse(line))
        assert.deepStrictEqual(
          changes.map(({ after, before, change, fields, id, list, seq }) => [
            seq,
            list,
            change,
            id,
            fields,
            before?.amount,
            after?.amount
          ]),
          [
            [1, "invoices", "update", "b", ["amount"], 2, 3],
            [2, "invoices", "insert", "c", [], undefined, 4],
            [3, "invoices", "missing", "a", [], undefined, undefined],
            [4, "invoices", "returned", "a", ["amount"], 1, 9]
          ]
        )
        assert.include(out, `"before":{"id":"b","amount":2.0}`)
        const later = yield* runInProcess(emptyApi, ["changes", "--from", to, "--after", "3"])
        assert.strictEqual(later.out.split("\n").length, 2)
        const other = yield* runInProcess(emptyApi, ["changes", "--from", to, "--resource", "payin-sources"])
        assert.deepStrictEqual([other.code, other.out], [0, ""])
      })
    ))

  it.live("escapes control characters in a table, and formulas in CSV", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        yield* exporting(to, serving(invoice("a", 1)))
        yield* exporting(to, serving(invoice("a", 1), `{"id":"=1+1\\u001b[31m","amount":5}`))
        const table = yield* runInProcess(emptyApi, ["changes", "--from", to], true)
        assert.match(
          table.out,
          /^ {4}seq {2}list +at .*id {14}fields\n {6}1 {2}invoices {9}\S+ +insert {4}=1\+1\\u001b\[31m\n$/
        )
        const csv = yield* runInProcess(emptyApi, ["changes", "--from", to, "--format", "csv"])
        const [head, row] = csv.out.split("\r\n")
        assert.strictEqual(head, "seq,generation,list,scan,at,change,id,fields,before,after,rechecked")
        assert.include(row, `,insert,"'=1+1\u001b[31m",,,"{""id"":""=1+1\\u001b[31m"",""amount"":5}"`)
      })
    ))

  it.live("prints CSV in which a line break in an id neither splits a row nor starts a formula", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        const ids = ["y\n=1+1", "y\r@SUM(A1)", "\r\n-1", " a ", "b,\"c\"", "plain"]
        yield* exporting(to, serving(invoice("a", 1)))
        yield* exporting(to, serving(invoice("a", 1), ...ids.map((id) => JSON.stringify({ id }))))
        const { out } = yield* runInProcess(emptyApi, ["changes", "--from", to, "--format", "csv"])
        assert.deepStrictEqual(
          readCsv(out).map(({ after, change, id }) => [change, id, after]),
          ["y\n'=1+1", "y\r'@SUM(A1)", "'\r\n'-1", " a ", "b,\"c\"", "plain"].map((
            id,
            index
          ) => ["insert", id, JSON.stringify({ id: ids[index] })])
        )
      })
    ))

  it.live("prints no line that is wider than the terminal, for any names and ids", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        const members = [
          "status",
          "contract",
          "settlementDate",
          "settlementTime",
          "paymentMethod",
          "\\u001b]0;x\\u0007"
        ]
        const changed = (value: string) =>
          invoice("inv_000001c1snak", 1, members.map((name) => `,"${name}":"${value}"`).join(""))
        yield* exporting(to, serving(changed("a")))
        const strange = ["发票".repeat(4), "e\\u0301\\u202e", "x".repeat(2000)].map((id) => `{"id":"${id}","amount":5}`)
        yield* exporting(to, serving(changed("b"), ...strange))
        const lines = Effect.fnUntraced(function*(columns: number) {
          const { out } = yield* runInProcess(emptyApi, ["changes", "--from", to], true, columns)
          // oxlint-disable-next-line no-control-regex -- control characters of a terminal
          assert.notMatch(out, /[\u0000-\u0009\u000b-\u001f\u202e]/)
          return out.trimEnd().split("\n")
        })
        const narrow = yield* lines(80)
        const [head, update, ...rest] = narrow
        const inserts = rest.slice(members.length)
        assert.strictEqual(head, "    seq  list             change    id                fields")
        assert.strictEqual(update, "      1  invoices         update    inv_000001c1snak  status, contract, +4")
        // The values of fields that do not fit in the row are on the lines after it.
        assert.deepStrictEqual(
          rest.slice(0, members.length),
          members.map((name) => `         ${name} a → b`)
        )
        const [wideId, joined, ...long] = inserts.map((line) => line.slice(36))
        assert.deepStrictEqual([wideId, joined], ["发票".repeat(4), "e\u0301\\u202e"])
        // An id that is longer than its column continues on the next lines, to the last character.
        assert.strictEqual(long.join(""), "x".repeat(2000))
        assert.isTrue(long.every((line) => line.length <= 80 - 36))
        const { err } = yield* runInProcess(emptyApi, ["changes", "--from", to], true, 40)
        assert.strictEqual(err, "The terminal has no room for: id,\nfields. Widen it, or use --format json.\n")
        // A wider terminal also shows the time, and as many names as fit.
        const wide = (yield* lines(140))[1] ?? ""
        assert.match(
          wide,
          /^ {6}1 {2}invoices +\d{4}-\S+Z .* {2}status, contract, settlementDate, settlementTime, \+2$/
        )
        assert.isAtMost(wide.length, 140)
        const unlimited = (yield* lines(0))[1] ?? ""
        assert.isTrue(unlimited.endsWith(members.map((name) => `${name} a → b`).join(", ")))
      })
    ))

  it.live("shows on a terminal each changed field with its exact values before and after", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        const before = String
          .raw`,"amount":2.0,"status":"pending","note":"a, b → c","flag":"true","when":null,"big":9007199254740993`
        const after = String
          .raw`,"amount":3,"status":"\u001b[31mpaid","note":"Doe","flag":true,"big":9007199254740995,"more":{"a":1}`
        yield* exporting(to, serving(`{"id":"b"${before}}`))
        yield* exporting(to, serving(`{"id":"b"${after}}`))
        const shown = Effect.fnUntraced(function*(columns: number) {
          const { out } = yield* runInProcess(emptyApi, ["changes", "--from", to], true, columns)
          return out.trimEnd().split("\n").at(-1)?.trim() ?? ""
        })
        const whole = yield* shown(0)
        assert.isTrue(
          whole.endsWith(
            [
              "  amount 2.0 → 3",
              String.raw`status pending → "\u001b[31mpaid"`,
              `note "a, b → c" → Doe`,
              `flag "true" → true`,
              "big 9007199254740993 → 9007199254740995",
              `more (absent) → {"a":1}`,
              "when null → (absent)"
            ].join(", ")
          ),
          whole
        )
        const { out } = yield* runInProcess(emptyApi, ["changes", "--from", to], true, 60)
        const lines = out.trimEnd().split("\n")
        assert.match(lines[1] ?? "", / b +amount, status, \+5$/)
        assert.deepStrictEqual(
          lines.slice(2).map((line) => line.trim()),
          whole.split(/ {2,}/).at(-1)?.split(/, (?!b )/)
        )
        for (const line of lines) assert.isAtMost(line.length, 60)
      })
    ))

  it.live("with --since, prints only the changes since that moment", () =>
    inFolder((to, file) =>
      Effect.gen(function*() {
        yield* history(to)
        const db = new DatabaseSync(file)
        db.exec("UPDATE changes SET at = '2024-05-01T10:00:00.000Z' WHERE seq <= 2")
        db.close()
        const seqs = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
          const { code, out } = yield* runInProcess(emptyApi, ["changes", "--from", to, "--format", "json", ...args])
          return [code, ...JSON.parse(out).map(({ seq }: { readonly seq: number }) => seq)]
        })
        assert.deepStrictEqual(yield* seqs(), [0, 1, 2, 3, 4])
        for (const since of ["yesterday", "24h", "2024-05-01T10:00:00.001Z", "2024-05-02T10:00+05:00"]) {
          assert.deepStrictEqual(yield* seqs("--since", since), [0, 3, 4], since)
        }
        assert.deepStrictEqual(yield* seqs("--since", "2024-05-01T10:00Z"), [0, 1, 2, 3, 4])
        assert.deepStrictEqual(yield* seqs("--since", "yesterday", "--after", "3"), [0, 4])
        const refused = yield* runInProcess(emptyApi, ["changes", "--from", to, "--since", "the 4433221100th"])
        assert.deepStrictEqual([refused.code, refused.out], [2, ""])
        assert.match(refused.err, /^payments: Invalid value for --since\. Expected: a duration such as 24h/)
        assert.notInclude(refused.err, "4433221100")
      })
    ))

  it.live("reports on stderr that there are no changes, on a terminal and in a pipe", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        yield* exporting(to, serving(invoice("a", 1)))
        for (const [args, terminal] of [[[], true], [[], false], [["--format", "csv"], false]] as const) {
          const { code, err, out } = yield* runInProcess(emptyApi, ["changes", "--from", to, ...args], terminal)
          assert.deepStrictEqual([code, err, out.split("\n").length], [0, "No changes.\n", args.length === 0 ? 1 : 2])
        }
      })
    ))

  it.live("fails if nothing was exported, and creates nothing", () =>
    inFolder((to, file) =>
      Effect.gen(function*() {
        const { code, err, out } = yield* runInProcess(emptyApi, ["changes", "--from", to, "--format", "csv"])
        assert.deepStrictEqual([code, out], [9, ""])
        assert.include(err, "there is nothing there. Export into it first.")
        assert.throws(() => rowsOf(file, "SELECT 1"))
      })
    ))
})

describe("payments verify", () => {
  it.live("confirms a complete export, also after an incomplete scan has changed some rows", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        yield* history(to)
        const agreed = yield* runInProcess(emptyApi, ["verify", "--from", to])
        assert.deepStrictEqual([agreed.code, agreed.out], [
          0,
          "invoices: matches the certificate of scan 5: 3 records\n"
        ])
        // An incomplete scan: its first page changes a, then the service fails.
        const interrupted = layerTest({
          invoices: [invoice("a", 10), ...Array.from({ length: 150 }, (_, index) => invoice(`n${index}`, index))],
          faults: [{ fault: "status", status: 403, nth: 2 }]
        })
        assert.strictEqual((yield* exporting(to, interrupted)).code, 4)
        assert.deepStrictEqual((yield* runInProcess(emptyApi, ["verify", "--from", to])).code, 0)
      })
    ))

  it.live.each(
    [
      ["a text", `UPDATE invoices SET raw = replace(raw, '"amount":3', '"amount":8') WHERE id = 'b'`, "b: raw differs"],
      ["a column", "UPDATE invoices SET amount = 7 WHERE id = 'b'", "b: amount differs from raw"],
      ["a deleted row", "DELETE FROM invoices WHERE id = 'b'", "the number of records differs"],
      [
        "a certificate",
        "UPDATE scans SET certificate = replace(certificate, '\"sums\":{\"amount\":\"', '\"sums\":{\"amount\":\"1')",
        "the sum of amount differs"
      ],
      ["an unreadable certificate", "UPDATE scans SET certificate = '{}'", "the certificate cannot be read"]
    ] as const
  )("detects a change of the database: %s", ([, sql, problem]) =>
    inFolder((to, file) =>
      Effect.gen(function*() {
        yield* history(to)
        const db = new DatabaseSync(file)
        db.exec(sql)
        db.close()
        const { code, out } = yield* runInProcess(emptyApi, ["verify", "--from", to])
        assert.strictEqual(code, 11)
        assert.include(out, problem)
      })
    ))

  it.live("detects a file of a folder that was changed after it was rendered", () =>
    inFolder((_, __, folder) =>
      Effect.gen(function*() {
        const to = `file:${folder}?format=csv`
        yield* exporting(to, serving(invoice("a", 1)))
        assert.strictEqual((yield* runInProcess(emptyApi, ["verify", "--from", to])).code, 0)
        const file = readdirSync(folder).find((name) => name.endsWith(".csv")) ?? ""
        appendFileSync(join(folder, file), "b,2\r\n")
        const { code, out } = yield* runInProcess(emptyApi, ["verify", "--from", `file:${folder}`])
        assert.strictEqual(code, 11)
        assert.include(out, `${file} differs from the file that was rendered`)
      })
    ))

  it.live("compares the rows with the API, by id", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        yield* history(to)
        const same = serving(invoice("a", 9), invoice("b", 3), invoice("c", 4))
        assert.strictEqual((yield* runInProcess(same, ["verify", "--from", to, "--against-api"])).code, 0)
        const moved = serving(invoice("a", 9), invoice("b", 33), invoice("d", 4))
        const { code, out } = yield* runInProcess(moved, ["verify", "--from", to, "--against-api"])
        assert.strictEqual(code, 11)
        for (const line of ["b: has another text", "d: is not in the destination", "c: is not in the API's list"]) {
          assert.include(out, line)
        }
        const foreign = Layer.effect(
          PaymentsApi,
          Effect.map(PaymentsApi, (api) => ({ ...api, source: "another merchant" }))
        ).pipe(Layer.provide(same))
        assert.strictEqual((yield* runInProcess(foreign, ["verify", "--from", to, "--against-api"])).code, 9)
      })
    ))
})

describe("payments export, in parts", () => {
  const settled = (id: string, day: string) => invoice(id, 1, `,"settlementDate":"${day}"`)
  const invoices = [settled("a", "2024-05-01"), settled("b", "2024-05-03"), settled("c", "2024-06-01"), invoice("d", 1)]

  it.live("reads the given days, and marks no record of another day missing", () =>
    inFolder((to, file) =>
      Effect.gen(function*() {
        yield* exporting(to, serving(...invoices))
        for (let times = 0; times < 2; times++) {
          const { code, out } = yield* exporting(
            to,
            serving(settled("a", "2024-05-01"), settled("e", "2024-05-03")),
            "--settlement-dates",
            "2024-05-01..2024-05-03",
            "--concurrency",
            "2"
          )
          assert.strictEqual(code, 0)
          assert.match(out, new RegExp(`^invoices +2 +${1 - times} +0 +${1 + times} +0 +3 `, "m"))
          assert.include(out, "3 parts; records outside these parts were not read")
        }
        assert.deepStrictEqual(rowsOf(file, "SELECT id FROM invoices WHERE missing_since IS NULL ORDER BY id"), [
          { id: "a" },
          { id: "b" },
          { id: "c" },
          { id: "d" },
          { id: "e" }
        ])
        assert.deepStrictEqual(
          rowsOf(file, "SELECT count(*) AS n FROM scans WHERE part <> '' AND certificate IS NOT NULL"),
          [{ n: 6 }]
        )
      })
    ))

  it.live("reads the payout requests of the customers that a file names", () =>
    inFolder((to, file, folder) =>
      Effect.gen(function*() {
        const api = layerTest({
          payoutRequests: ["cus_1", "cus_2", "cus_3"].map((customerId) => ({ id: `por_${customerId}`, customerId }))
        })
        const ids = join(folder, "customers.txt")
        const args = ["export", "payout-requests", "--to", to, "--customer-ids", ids]
        for (const text of ["\ufeffcus_1\r\n\ncus_2\ncus_1\n", "cus_1\rcus_2\r", "cus_1\ncus_2"]) {
          rmSync(file, { force: true })
          writeFileSync(ids, text)
          assert.strictEqual((yield* runInProcess(api, args)).code, 0)
          assert.deepStrictEqual(rowsOf(file, "SELECT customer_id FROM payout_requests ORDER BY 1"), [
            { customer_id: "cus_1" },
            { customer_id: "cus_2" }
          ])
        }
        for (
          const [bytes, problem] of [
            [Buffer.from("cus_1\rcus_\u00e9", "latin1"), `the file ${ids} is not UTF-8 text (line 2).`],
            [Buffer.from("cus_1\n\ncus\u0000_2"), `line 3 of the file ${ids} contains a control character.`],
            [Buffer.from("\r\r\n"), `the file ${ids} contains no customer id.`]
          ] as const
        ) {
          writeFileSync(ids, bytes)
          const { code, err } = yield* runInProcess(api, args)
          assert.deepStrictEqual([code, err], [2, `payments: --customer-ids: ${problem}\n`])
        }
      })
    ))

  it.live.each(
    [
      [["--settlement-dates", "2024-05-03..2024-05-01"], "two days such as"],
      [["--settlement-dates", "2024-02-30..2024-03-01"], "two days such as"],
      [["--settlement-dates", "2000-01-01..2024-03-01"], "ten years at most"],
      [["--customer-ids", "/does/not/exist"], "payout-requests or payin-sources"],
      [["--concurrency", "3"], "parts of a list"],
      [["--missing-limit", "110%"], "a percentage"],
      [["--on-locked", "maybe"], "refuse or wait"],
      [["--ignore-field", "a,,b"], "names of fields"]
    ] as const
  )("refuses %s", ([flags, problem]) =>
    inFolder((to, file) =>
      Effect.gen(function*() {
        const { code, err } = yield* exporting(to, emptyApi, ...flags)
        assert.strictEqual(code, 2)
        assert.include(err, problem)
        assert.throws(() => rowsOf(file, "SELECT 1"))
      })
    ))
})

describe("payments export", () => {
  it.live("does not change a row if only ignored fields differ", () =>
    inFolder((to, file) =>
      Effect.gen(function*() {
        const exportWithUrl = (url: string, ...flags: ReadonlyArray<string>) =>
          runInProcess(layerTest({ payinSources: [{ id: "a", authUrl: url }] }), [
            "export",
            "payin-sources",
            "--to",
            to,
            ...flags
          ])
        for (const url of ["one", "two"]) yield* exportWithUrl(url, "--ignore-field", "authUrl")
        assert.deepStrictEqual(rowsOf(file, "SELECT auth_url FROM payin_sources"), [{ auth_url: "one" }])
        assert.deepStrictEqual((yield* runInProcess(emptyApi, ["verify", "--from", to])).code, 0)
        yield* exportWithUrl("three")
        assert.deepStrictEqual(rowsOf(file, "SELECT auth_url FROM payin_sources"), [{ auth_url: "three" }])
      })
    ))

  it.live("holds back rows if many are missing at once, until --missing-limit is raised", () =>
    inFolder((to, file) =>
      Effect.gen(function*() {
        const missing = () => rowsOf(file, "SELECT id FROM invoices WHERE missing_since IS NOT NULL ORDER BY id")
        const all = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
        const of = (ids: ReadonlyArray<string>) => serving(...ids.map((id) => invoice(id, 1)))
        yield* exporting(to, of(all))
        // Up to 3 rows are never held back, although 1 of 9 is more than 10%, except if no row may be marked.
        for (let times = 0; times < 2; times++) {
          const none = yield* exporting(to, of(all.slice(1)), "--missing-limit", "0%")
          assert.strictEqual(none.code, 10)
          assert.include(none.err, "1 record held back: too many")
        }
        assert.strictEqual((yield* exporting(to, of(all.slice(1)))).code, 0)
        assert.deepStrictEqual(missing(), [{ id: "a" }])
        const heldBack = yield* exporting(to, of(all.slice(5)))
        assert.strictEqual(heldBack.code, 10)
        assert.include(heldBack.err, "4 records held back: too many")
        assert.deepStrictEqual(missing(), [{ id: "a" }])
        const raised = yield* exporting(to, of(all.slice(5)), "--missing-limit", "50%")
        assert.strictEqual(raised.code, 0)
        assert.deepStrictEqual(missing(), ["a", "b", "c", "d", "e"].map((id) => ({ id })))
      })
    ))

  it.live("prints the command that accepts rows that are held back, which marks at most as many", () =>
    inFolder((to, file) =>
      Effect.gen(function*() {
        const all = Array.from({ length: 20 }, (_, index) => `i${index}`)
        const of = (from: number) => serving(...all.slice(from).map((id) => invoice(id, 1)))
        yield* exporting(to, of(0))
        const early = yield* exporting(to, of(0), "--accept-missing", "5")
        assert.include(early.out, "invoices: the last full scan held nothing back, so --accept-missing has no effect\n")
        const asJson = yield* exporting(to, of(0), "--accept-missing", "5", "--format", "json")
        assert.include(asJson.out, `"heldBack":0,"accepted":0,`)
        const heldBack = yield* exporting(to, of(5), "--patience", "1m")
        const command = `payments export invoices --to ${to} --patience 1m --accept-missing 5`
        assert.deepStrictEqual([heldBack.code, heldBack.err.includes(`if they are really gone, run: ${command}\n`)], [
          10,
          true
        ])
        const more = yield* exporting(to, of(6), "--accept-missing", "5")
        assert.strictEqual(more.code, 10)
        assert.include(more.err, "6 records held back: too many would be marked missing at once.")
        assert.include(more.err, " --accept-missing 6\n")
        const missing = () => rowsOf(file, "SELECT count(*) AS missing FROM invoices WHERE missing_since IS NOT NULL")
        assert.deepStrictEqual(missing(), [{ missing: 0 }])
        assert.strictEqual((yield* exporting(to, of(6), "--accept-missing", "6")).code, 0)
        assert.deepStrictEqual(missing(), [{ missing: 6 }])
        const table = yield* runInProcess(emptyApi, ["changes", "--from", to, "--format", "table"])
        assert.match(table.out, / missing {3}i0 +unchecked \(no filter could look for it\)\n/)
        const json = yield* runInProcess(emptyApi, ["changes", "--from", to, "--format", "ndjson"])
        assert.match(json.out.split("\n")[0] ?? "", /"rechecked":\{"filters":\[\],"requests":0,"at":"[^"]+"\}/)
      })
    ))

  it.live("refuses --accept-missing without one whole list", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        const cases = [
          [
            ["invoices", "--accept-missing", "0"],
            "Invalid value for --accept-missing. Expected: a whole number, 1 or more"
          ],
          [["--accept-missing", "5"], "--accept-missing needs exactly one list, because it counts its records."],
          [
            ["invoices", "--accept-missing", "5", "--settlement-dates", "2024-05-01..2024-05-02"],
            "--accept-missing needs a scan of the whole list. Remove --settlement-dates or --customer-ids."
          ]
        ] as const
        for (const [flags, problem] of cases) {
          const refused = yield* runInProcess(emptyApi, ["export", ...flags, "--to", to])
          assert.strictEqual(refused.code, 2)
          assert.include(refused.err, problem)
        }
        const stdout = yield* runInProcess(emptyApi, ["export", "invoices", "--to", "-", "--accept-missing", "5"])
        assert.deepStrictEqual([stdout.code, stdout.err.includes("--accept-missing do not apply to stdout")], [2, true])
      })
    ))

  it.live("with --rebind, binds a destination to a service that has moved", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        const named = (source: string) =>
          Layer.effect(PaymentsApi, Effect.map(PaymentsApi, (api) => ({ ...api, source }))).pipe(
            Layer.provide(serving(invoice("a", 1)))
          )
        yield* exporting(to, named("old"))
        assert.strictEqual((yield* exporting(to, named("new"))).code, 9)
        assert.strictEqual((yield* exporting(to, named("new"), "--rebind")).code, 0)
        assert.strictEqual((yield* exporting(to, named("new"))).code, 0)
      })
    ))

  it.live("prints a summary table, with a column of retries only if there were any", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        const many = Array.from({ length: 1200 }, (_, index) => ({ id: `x${index}` }))
        const service = { payoutRequests: many, payinSources: many, invoices: many }
        const summary = Effect.fnUntraced(function*(api: Layer.Layer<PaymentsApi>) {
          const { out } = yield* runInProcess(api, ["export", "--to", to], true, 100)
          return out.split("\n").map((line) => line.trimEnd())
        })
        const first = yield* summary(layerTest(service))
        assert.deepStrictEqual(first.slice(0, 2).map((line) => line.replace(/\d\.\d$/, "0.1")), [
          "                 records    new  changed  unchanged  missing  pages  seconds",
          "payout-requests    1,200  1,200        0          0        0     12      0.1"
        ])
        const again = yield* summary(
          layerTest({ ...service, faults: [{ fault: "status", status: 503, list: "invoices", nth: 2 }] })
        )
        assert.strictEqual(
          again[0],
          "                 records  new  changed  unchanged  missing  pages  retries  seconds"
        )
        assert.match(again[3] ?? "", /^invoices +1,200 +0 +0 +1,200 +0 +12 +1 +\d+\.\d$/)
      })
    ))

  it.live("prints an error once if all lists fail with it", () =>
    inFolder((to) =>
      Effect.gen(function*() {
        yield* runInProcess(emptyApi, ["export", "--to", to])
        const moved = Layer.effect(PaymentsApi, Effect.map(PaymentsApi, (api) => ({ ...api, source: "another" })))
        const { code, err } = yield* runInProcess(Layer.provide(moved, emptyApi), ["export", "--to", to])
        assert.strictEqual(code, 9)
        assert.match(
          err,
          /^payments: .* it has the data of another source .* if the service has moved, run payments export --rebind once\.\n$/
        )
      })
    ))
})
