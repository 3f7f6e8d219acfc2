import { assert, describe, layer } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Chromium, show } from "@payments/testkit/programs/Browser"
import { payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { smallFileSystem } from "@payments/testkit/SmallFileSystem"
import { parse } from "csv-parse/sync"
import { Effect } from "effect"
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { stripVTControlCharacters } from "node:util"
import { runInProcess } from "../program/InProcess.ts"

const require = createRequire(join(import.meta.dirname, "../../../worker/package.json"))
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8")
const axeRun =
  "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, nodes }) =>" +
  " id + ': ' + nodes.map(({ failureSummary, html }) => html + ' ' + failureSummary).join('; ')))"

const hostile = `</style><script>document.title = "hacked"</script>\u202e`

const invoices = [
  ["a", "R-1", 1_234_56],
  ["b", "R-2", 50_00],
  ["c", "R-3", 10_00],
  ["d", "=HYPERLINK(1)", 9_007_199_254_740_991],
  ["e", hostile, 1],
  ["f", "R-9", 700]
].map(([id, reference, amount]) =>
  JSON.stringify({ id, reference, amount, settlementDate: id === "f" ? "2024-06-01" : "2024-05-01" })
)

const lines = [
  "Verwendungszweck;Betrag;Valuta",
  "R-1;1.234,56;02.05.2024",
  "R-2;49,00;01.05.2024",
  "R-4;-3,50;01.05.2024",
  "=HYPERLINK(1);90071992547409,90;01.05.2024",
  ""
]

const map = ["--map", "reference=Verwendungszweck,amount=Betrag,settlement_date=Valuta", "--unit", "cents"]

/** Exports the invoices, and returns the folder and a function that reconciles the copy with the statement. */
const exported = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const from = `sqlite:${join(folder, "payments.db")}`
  const api = layerTest({ invoices })
  yield* runInProcess(api, ["export", "invoices", "--to", from])
  const file = join(folder, "bank.csv")
  writeFileSync(file, lines.join("\r\n"))
  const given = ["reconcile", "--from", from, "--with", file]
  return {
    folder,
    file,
    reconcile: (...args: ReadonlyArray<string>) => runInProcess(api, [...given, ...map, ...args]),
    plain: (...args: ReadonlyArray<string>) => runInProcess(api, [...given, ...args]),
    onTerminal: (columns: number) => runInProcess(api, [...given, ...map], true, columns)
  }
})

const totals = "1 matched, 1 expected, 1 missing here, 2 missing there, 2 different."

const camt = (entries: string, period = "") =>
  `<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt>${period}${entries}</Stmt></BkToCstmrStmt></Document>`

layer(Chromium.layer, { excludeTestServices: true })("payments reconcile", (it) => {
  it.effect("says what the lines of a statement lack", () =>
    Effect.gen(function*() {
      const { file, plain } = yield* exported
      const notes = (content: string, ...args: ReadonlyArray<string>) => {
        writeFileSync(file, content)
        return Effect.map(
          plain("--unit", "cents", "--format", "csv", ...args),
          ({ err }) => err.replaceAll(/\s+/g, " ")
        )
      }
      const pending =
        `<Ntry><Amt Ccy="EUR">1</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>PDNG</Sts><BookgDt><Dt>2024-05-01</Dt></BookgDt></Ntry>`
      const none = yield* notes(camt(pending))
      assert.include(none, "camt.053, UTF-8, 0 entries. 1 entry is not booked, and left out.")
      assert.include(none, "The statement has no booked entries and names no last day, so records count")
      assert.notInclude(none, "have no dates")
      const period = "<FrToDt><ToDtTm>2024-05-31T23:59:59</ToDtTm></FrToDt>"
      const ofPeriod = yield* notes(camt(pending + pending, period))
      assert.include(ofPeriod, "2 entries are not booked, and left out.")
      assert.include(ofPeriod, "The statement has no booked entries. ")
      const booked = pending.replace("PDNG", "BOOK")
      const undatedEntry = yield* notes(camt(booked))
      assert.include(undatedEntry, "1 entry has nothing to compare it by")
      assert.include(undatedEntry, "The statement's entries have no dates, so records count")
      const valued = booked.replace("<BookgDt>", "<ValDt><Dt>2024-05-01</Dt></ValDt><BookgDt>")
      assert.include(
        yield* notes(camt(valued + booked)),
        "1 entry has no date, so the statement's last day may be later than 2024-05-01."
      )
      const dated = "reference,amount,settlementDate\n,5,2024-05-01\nR-1,5,\n,6,\n"
      const undated = yield* notes(dated)
      assert.include(undated, "2 lines have nothing to compare them by, the first one is line 2.")
      assert.include(undated, "2 lines have no date, so the statement's last day may be later than 2024-05-01.")
      assert.notInclude(yield* notes(dated, "--through", "2024-05-31"), "have no date")
      const late = "reference,amount,settlementDate\nX,5,2024-05-02\n"
      const due = "of the records that are missing there"
      assert.include(yield* notes(late, "--where", "id=a"), `1 ${due} has a settlementDate before`)
      assert.include(yield* notes(late, "--where", "id!=f"), `5 ${due} have a settlementDate before`)
    }).pipe(Effect.scoped))

  it.effect("has a column of its own for the id that is compared", () =>
    Effect.gen(function*() {
      const { file, plain } = yield* exported
      writeFileSync(file, "id,amount\na,123456\nx,5\n")
      const compared = ["--on", "id,amount", "--show", "matched,missing"]
      const { out } = yield* plain(...compared, "--format", "csv")
      const rows: ReadonlyArray<Readonly<Record<string, string>>> = parse(out, { columns: true })
      assert.strictEqual(out.split("\n")[0]?.slice(0, 25), "class,entry,line,id,keyId")
      assert.deepStrictEqual(
        rows.filter(({ line }) => line !== "").map(({ id, keyId }) => [id, keyId]).toSorted(),
        [["", "x"], ["a", "a"]]
      )
      assert.match((yield* plain(...compared, "--format", "table")).out, /class +line +id +keyId /)
    }).pipe(Effect.scoped))

  it.effect("prints totals and what does not match as a table, says how the file was read, and ends with 11", () =>
    Effect.gen(function*() {
      const { file, reconcile } = yield* exported
      const { code, err, out } = yield* reconcile("--format", "table")
      assert.strictEqual(code, 11)
      assert.include(
        err,
        `${file}: CSV, UTF-8, separator semicolon, decimal comma, dates DD.MM.YYYY, 4 lines of 2024-05-01 to 2024-05-02.`
      )
      assert.include(err, totals)
      const [summary = "", entries = ""] = out.split("\n\n")
      assert.deepStrictEqual(summary.split("\n").map((line) => line.trim().split(/\s{2,}/)), [
        ["class", "lines", "records", "statement", "copy", "difference"],
        ["matched", "1", "1", "123456", "123456", "0"],
        ["expected", "0", "1", "0", "700", "-700"],
        ["missing here", "1", "0", "-350", "0", "-350"],
        ["missing there", "0", "2", "0", "1001", "-1001"],
        ["different", "2", "2", "9007199254745890", "9007199254745991", "-101"],
        ["total", "4", "6", "9007199254868996", "9007199254871148", "-2152"]
      ])
      assert.match(entries, /different +3 +b +R-2 +2024-05-01 +4900 +5000 +-100 +amount/)
      assert.match(entries, /missing here +4 +R-4 +2024-05-01 +-350 +-350/)
      assert.notInclude(entries, "R-1")
    }))

  it.effect("has each line and each record once in CSV, JSON and lines of JSON, with exact amounts", () =>
    Effect.gen(function*() {
      const { reconcile } = yield* exported
      const csv = yield* reconcile("--format", "csv")
      assert.strictEqual(csv.code, 11)
      const rows: ReadonlyArray<Record<string, string>> = parse(csv.out, { columns: true })
      assert.deepStrictEqual(rows.flatMap(({ line }) => line === "" ? [] : [line]).toSorted(), ["2", "3", "4", "5"])
      assert.deepStrictEqual(rows.flatMap(({ id }) => id === "" ? [] : [id]).toSorted(), ["a", "b", "c", "d", "e", "f"])
      assert.strictEqual(rows.find(({ id }) => id === "d")?.["reference"], "'=HYPERLINK(1)")
      assert.strictEqual(rows.find(({ id }) => id === "d")?.["difference"], "-1")
      const ndjson = yield* reconcile("--format", "ndjson")
      assert.strictEqual(ndjson.out.trim().split("\n").length, rows.length)
      assert.include(
        ndjson.out,
        `"amountThere":9007199254740990,"fee":null,"amountHere":9007199254740991,"difference":-1`
      )
      const json = yield* reconcile("--format", "json")
      const document = JSON.parse(json.out)
      assert.strictEqual(document.items.length, rows.length)
      assert.deepStrictEqual([document.equal, document.through, document.statement.decimal], [
        false,
        "2024-05-02",
        "comma"
      ])
      assert.deepStrictEqual(document.totals.at(-1), {
        class: "total",
        entries: 7,
        lines: 4,
        records: 6,
        amountThere: 9007199254868996,
        fee: 0,
        amountHere: 9007199254871148,
        difference: -2152
      })
      const some = yield* reconcile("--format", "csv", "--show", "matched,expected")
      assert.deepStrictEqual(parse(some.out).slice(1).map(([name]) => name), ["expected", "matched"])
    }))

  it.effect("ends with 0 if nothing is missing and nothing differs", () =>
    Effect.gen(function*() {
      const { file, reconcile } = yield* exported
      writeFileSync(file, `${lines[0]}\n${lines[1]}\n`)
      const { code, err } = yield* reconcile("--format", "table", "--where", "reference=R-1")
      assert.strictEqual(code, 0)
      assert.include(err, "1 matched, 0 expected, 0 missing here, 0 missing there, 0 different.")
    }))

  it.effect("fits a terminal, and names what does not fit", () =>
    Effect.gen(function*() {
      const { onTerminal } = yield* exported
      for (const columns of [60, 80, 120, 200]) {
        const { code, out } = yield* onTerminal(columns)
        assert.strictEqual(code, 11)
        for (const line of out.split("\n")) assert.isAtMost(stripVTControlCharacters(line).length, columns, line)
        assert.notInclude(out, "\u202e")
      }
    }))

  it.effect("refuses what it cannot use, with code 2 and without the values of the file", () =>
    Effect.gen(function*() {
      const { file, folder, plain } = yield* exported
      const cases: ReadonlyArray<readonly [ReadonlyArray<string>, RegExp]> = [
        [
          ["--map", "reference=Verwendungszweck,amount=Betrag"],
          /line 2, column 2 \(amount\): the amount has decimals.*--unit cents/
        ],
        [["--map", "amount"], /Invalid value for --map/],
        [["--map", "amount=a", "--map", "amount=b"], /--map names two columns for amount/],
        [["--within", "36h"], /Invalid value for --within\. Expected: a number of days/],
        [["--within", "2"], /Invalid value for --within/],
        [["--unit", "euros"], /Invalid value for --unit/],
        [["--show", "some"], /Invalid value for --show/],
        [["--through", "2024-02-30"], /Invalid value for --through/],
        [["--html", file], /--html names the statement/],
        [["--html", join(folder, "payments.db")], /--html names a file of the copy/],
        [["--html", "page.html", "--format", "csv"], /--html and --format exclude each other/]
      ]
      for (const [args, problem] of cases) {
        const { code, err } = yield* plain(...args)
        assert.strictEqual(code, 2, args.join(" "))
        assert.match(err.replaceAll(/\s+/g, " "), problem)
        assert.notInclude(err, "R-1")
      }
    }))

  it.effect("uses what the sources file saves, and flags override it", () =>
    Effect.gen(function*() {
      const { folder, plain } = yield* exported
      const config = join(folder, "payments.toml")
      writeFileSync(
        config,
        `[statements.bank]\nmap = { amount = "Betrag", reference = "Verwendungszweck", settlement_date = "Valuta" }\nunit = "cents"\non = ["reference", "amount", "settlementDate"]\nwithin = "1d"\n`
      )
      const saved = yield* plain("--config", config, "--statement", "bank", "--format", "csv")
      assert.include(saved.err, totals)
      const strict = yield* plain("--config", config, "--statement", "bank", "--within", "0d", "--format", "csv")
      assert.include(strict.err, "0 matched, 1 expected, 1 missing here, 2 missing there, 3 different.")
      const grouped = yield* plain(
        "--config",
        config,
        "--statement",
        "bank",
        "--on",
        "amount",
        "--group",
        "settlement_date",
        "--format",
        "csv"
      )
      assert.strictEqual(grouped.code, 11)
      const unknown = yield* plain("--config", config, "--statement", "other")
      assert.strictEqual(unknown.code, 2)
      assert.include(unknown.err, "has no [statements.other]. It has bank.")
      writeFileSync(
        config,
        `[statements.bank]\nmap = { amount = "Betrag", settlementdate = "Valuta" }\nunit = "cents"\n`
      )
      const misspelt = yield* plain("--config", config, "--statement", "bank")
      assert.deepStrictEqual([misspelt.code, /settlementdate: there is no such field/.test(misspelt.err)], [2, true])
      writeFileSync(config, `[statements.bank]\nunit = "euros"\nseperator = "comma"\n`)
      const wrong = yield* plain("--config", config, "--statement", "bank")
      assert.strictEqual(wrong.code, 3)
      assert.match(wrong.err, /:2: statements\.bank\.unit must be cents, units, mills/)
      assert.match(wrong.err, /:3: statements\.bank\.seperator is not a setting\. The nearest one is separator/)
    }))

  it.effect("says that the disk is full, prints no row and leaves no file", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const small = yield* smallFileSystem(4096)
      if (small === undefined) return
      // More than the memory of the comparison.
      const rows = Array.from({ length: 2000 }, (_, index) => ({
        id: `i${index}`,
        reference: `${index}${"r".repeat(20_000)}`,
        amount: index
      }))
      const from = `sqlite:${join(folder, "payments.db")}`
      const file = join(folder, "bank.csv")
      writeFileSync(
        file,
        ["reference,amount", ...rows.map(({ amount, reference }) => `${reference},${amount}`)].join("\n")
      )
      const api = layerTest({ invoices: rows.map((row) => JSON.stringify(row)) })
      yield* runInProcess(api, ["export", "invoices", "--to", from])
      const args = ["reconcile", "--from", from, "--with", file, "--format", "csv"]
      const { code, stderr, stdout } = yield* payments(args, { env: { TMPDIR: small.folder } })
      assert.deepStrictEqual([code, stdout], [9, ""])
      assert.include(stderr, "the folder for temporary files (TMPDIR): there is no space left.")
      assert.deepStrictEqual(readdirSync(small.folder), [])
    }), 300_000)

  describe("in a browser", () => {
    it.effect("writes a page that shows hostile text as text, loads nothing, and fits screens and paper", () =>
      Effect.gen(function*() {
        const { folder, reconcile } = yield* exported
        const html = join(folder, "page.html")
        const written = yield* reconcile("--html", html)
        assert.deepStrictEqual([written.code, written.out], [11, ""])
        assert.strictEqual(statSync(html).mode & 0o777, 0o600)
        const chromium = yield* Chromium
        const page = yield* Effect.promise(() => chromium.newPage())
        const requests: Array<string> = []
        page.on("request", (request) => requests.push(request.url()))
        const evaluate = (expression: string) => Effect.promise(() => page.evaluate(expression))
        yield* Effect.promise(() => page.goto(pathToFileURL(html).href))
        for (const scheme of ["light", "dark"] as const) {
          for (const width of [390, 1280]) {
            yield* Effect.promise(() => show(page, { width, scheme }))
            assert.isAtMost(Number(yield* evaluate("document.documentElement.scrollWidth")), width)
          }
        }
        const text = String(yield* evaluate("document.body.innerText"))
        for (
          const shown of [
            "Reconciliation of invoices",
            "-101",
            `<script>document.title = "hacked"</script>`,
            "missing there"
          ]
        ) {
          assert.include(text, shown)
        }
        assert.notInclude(text, "\u202e")
        assert.strictEqual(yield* evaluate("document.querySelectorAll('table').length"), 2)
        assert.strictEqual(yield* evaluate("document.querySelectorAll('script,img,a').length"), 0)
        assert.deepStrictEqual(requests, [pathToFileURL(html).href])
        yield* Effect.promise(() => page.setBypassCSP(true))
        yield* Effect.promise(() => page.reload())
        yield* evaluate(axe)
        assert.deepStrictEqual(yield* evaluate(axeRun), [])
        yield* Effect.promise(() => page.close())
      }))
  })
})
