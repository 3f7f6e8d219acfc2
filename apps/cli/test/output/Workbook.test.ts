/** `--format xlsx`, read back by another program's reader: the built program over real copies. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { payments, rowsOf, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { smallFileSystem } from "@payments/testkit/SmallFileSystem"
import { ConfigProvider, Effect } from "effect"
import { type Cell, readXlsx } from "hucre/xlsx"
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { runInProcess } from "../program/InProcess.ts"

const invoices = [
  `{"id":"=1+1","amount":5,"reference":"@a","customerDocumentNumber":"0012345678","settlementDate":"2024-01-10"}`,
  `{"id":"-2","amount":9007199254740991,"reference":"\\u0007 b\\r\\n_x0041_ _x00e9_ <&>","customerDocumentNumber":"90071992547409931"}`,
  `{"id":"+3","amount":-7,"reference":"","customerDocumentNumber":null}`
]

const copied = Effect.fnUntraced(function*(env: Record<string, string> = {}) {
  const folder = yield* temporaryFolder
  const from = `sqlite:${folder}/p.db`
  yield* runInProcess(layerTest({ invoices }), ["export", "invoices", "--to", from]).pipe(
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord(env)))
  )
  return { folder, from, file: join(folder, "report.xlsx") }
})

/** Reads a workbook. A formula would be in a cell. */
const read = Effect.fnUntraced(function*(file: string) {
  const { sheets } = yield* Effect.promise(() => readXlsx(readFileSync(file)))
  const cells = sheets.flatMap((sheet) => Array.from(sheet.cells?.values() ?? []))
  assert.deepStrictEqual(cells.filter((cell: Partial<Cell>) => cell.formula !== undefined), [])
  const control = new Map((sheets.at(-1)?.rows ?? []).map(([name, ...values]) => [String(name), values]))
  return { names: sheets.map(({ name }) => name), rows: sheets[0]?.rows ?? [], control, sheets }
})

describe("a workbook", () => {
  it.live("has texts as texts, numbers as numbers, and no formula", () =>
    Effect.gen(function*() {
      const { file, folder, from } = yield* copied()
      const sql = "SELECT id, amount, reference, customer_document_number AS doc FROM invoices ORDER BY id DESC"
      const { code, stderr, stdout } = yield* payments(["query", "--from", from, "--output", file, sql])
      assert.deepStrictEqual({ code, stdout }, { code: 0, stdout: "" })
      assert.strictEqual(
        stderr.replaceAll(/\s+/g, " ").replace(folder, "."),
        "The workbook is written to ./report.xlsx: 3 rows. 1 number is text, because a spreadsheet shows only 15 digits of a number. 1 text has control characters. A workbook cannot have them, so they are written as \\u0007. "
      )
      const { control, names, rows } = yield* read(file)
      assert.deepStrictEqual(names, ["Rows", "Control"])
      assert.deepStrictEqual(rows, [
        ["id", "amount", "reference", "doc"],
        ["=1+1", 5, "@a", "0012345678"],
        ["-2", "9007199254740991", "\\u0007 b\n_x0041_ _x00e9_ <&>", "90071992547409931"],
        ["+3", -7, "", null]
      ])
      assert.deepStrictEqual(control.get("rows")?.[0], 3)
      assert.deepStrictEqual(control.get("sum of amount"), ["9007199254740989", 3, 0])
      assert.deepStrictEqual(control.get("statement")?.[0], sql)
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
    }).pipe(Effect.scoped))

  it.live("says in its control sheet what was asked, and what is known about the copy", () =>
    Effect.gen(function*() {
      const { file, folder, from } = yield* copied()
      yield* payments(["query", "invoices-by-customer", "--where", "amount<10", "--from", from, "--output", file])
      const { control, rows } = yield* read(file)
      assert.deepStrictEqual(rows[0]?.slice(0, 3), ["customer_document_number", "records", "amount"])
      const valueOf = (name: string) => control.get(name)?.[0]
      assert.strictEqual(valueOf("question"), "invoices-by-customer: invoices by customer document number")
      assert.strictEqual(valueOf("condition"), "amount < 10")
      assert.strictEqual(valueOf("read from"), from)
      assert.strictEqual(valueOf("sum of records"), 2)
      assert.strictEqual(valueOf("rule for personal data"), "keep every field (keep)")
      const [scan] = rowsOf(join(folder, "p.db"), "SELECT certificate FROM scans")
      assert.include(String(scan?.["certificate"]), `"digest":"${String(valueOf("invoices: digest"))}"`)
      assert.strictEqual(valueOf("invoices: certified records"), 3)
      assert.strictEqual(valueOf("invoices: certified sum of amount"), "9007199254740989")
      assert.match(String(valueOf("invoices: age")), /^\d+s$/)
      // A point has no certificate.
      yield* payments(["query", "SELECT id FROM invoices", "--at", "0", "--from", from, "--output", file])
      const at = yield* read(file)
      assert.isUndefined(at.control.get("invoices: digest"))
      assert.include(JSON.stringify(at.sheets.at(-1)?.rows), "The rows are those after change 0.")
    }).pipe(Effect.scoped))

  it.live("says in its control sheet how many records do not match the document", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [from, file] = [`sqlite:${folder}/p.db`, join(folder, "report.xlsx")]
      const lists = {
        invoices: [`{"id":"a","amount":"5"}`, `{"id":"b","amount":5}`, `{"id":7,"amount":5}`],
        payoutRequests: [`{"id":"p","amount":5}`],
        payinSources: [`{"id":"s","status":1}`]
      }
      assert.strictEqual((yield* runInProcess(layerTest(lists), ["export", "--to", from])).code, 10)
      yield* payments(["find", "a", "--from", from, "--output", file])
      const { control } = yield* read(file)
      const of = (list: string) => control.get(`${list}: do not match the document`)?.[0]
      assert.strictEqual(of("invoices"), "2; their columns may be null, and those without an id (1) have no row")
      assert.strictEqual(of("payin-sources"), "1; their columns may be null")
      assert.strictEqual(of("payout-requests"), 0)
    }).pipe(Effect.scoped))

  it.live("says which of the fields that were asked for the copy leaves out", () =>
    Effect.gen(function*() {
      const { file, folder, from } = yield* copied({ PAYMENTS_PERSONAL: "omit" })
      const statements = [
        "SELECT id, customer_document_number FROM invoices",
        "SELECT * FROM invoices",
        "SELECT raw FROM invoices",
        "SELECT count(*) FROM invoices NATURAL JOIN invoices AS other",
        "SELECT after FROM changes WHERE list = 'invoices'"
      ]
      for (const args of [...statements.map((sql) => ["query", sql]), ["find", "0012345678"]]) {
        const { stderr } = yield* payments([...args, "--from", from, "--output", file])
        const omitted = /The copy leaves [^.:]*\bcustomer_document_number\b[^.:]* out, by its rule for personal data/
        assert.match(stderr.replaceAll(/\s+/g, " "), omitted)
        const { control, sheets } = yield* read(file)
        assert.match(JSON.stringify(sheets.at(-1)?.rows), omitted)
        assert.match(String(control.get("rule for personal data")?.[0]), /^omit personal data \(omit-/)
      }
      const drawn = "SELECT customer_document_number, count(*) FROM invoices GROUP BY customer_document_number"
      const [page, chart] = [join(folder, "page.html"), join(folder, "chart.svg")]
      const { code } = yield* payments(["query", drawn, "--from", from, "--html", page, "--svg", chart])
      assert.strictEqual(code, 0)
      for (const written of [page, chart]) {
        const text = readFileSync(written, "utf8").replaceAll(/<[^>]*>|\s+/g, " ").replaceAll(/ +/g, " ")
        assert.include(text, "The copy leaves customer_document_number out, by its rule for personal data", written)
      }
      const others = "SELECT count(*), sum(amount) FROM invoices WHERE status <> 'withdrawn'"
      assert.notInclude((yield* payments(["query", others, "--from", from])).stderr, "The copy leaves")
    }).pipe(Effect.scoped))

  it.live("has no searched or compared value that came from a file, or that may be personal data", () =>
    Effect.gen(function*() {
      const { file, folder, from } = yield* copied()
      const [reference, document, page] = [join(folder, "reference"), "0012345678", join(folder, "page.html")]
      writeFileSync(reference, "@a\n")
      const control = Effect.fnUntraced(function*(copy: string, ...args: ReadonlyArray<string>) {
        const { code, stderr } = yield* payments([...args, "--from", copy, "--output", file])
        assert.strictEqual(code, 0, stderr)
        const written = yield* read(file)
        return { ...written, text: JSON.stringify(written.sheets.at(-1)?.rows) }
      })
      const question = ["query", "settled-by-day", "--where"]
      for (
        const [condition, shown, value] of [
          [`reference=@${reference}`, "reference = a text (not shown)", "@a"],
          [`customerDocumentNumber=${document}`, "customerDocumentNumber = a text (not shown)", document],
          [`customer_document_number~${document}`, "customer_document_number ~ a text (not shown)", document]
        ] as const
      ) {
        const asked = yield* control(from, ...question, condition)
        assert.strictEqual(asked.rows.length, 2)
        assert.strictEqual(asked.control.get("condition")?.[0], shown)
        assert.include(String(asked.control.get("statement")?.[0]), "$1")
        assert.notInclude(asked.text, value)
        assert.strictEqual((yield* payments([...question, condition, "--from", from, "--html", page])).code, 0)
        const html = readFileSync(page, "utf8")
        assert.deepStrictEqual([html.includes(shown), html.includes("$1"), html.includes(value)], [true, true, false])
      }
      const typed = yield* control(from, ...question, "reference=@@a")
      assert.include(String(typed.control.get("statement")?.[0]), "'@a'")
      const bank = join(folder, "bank.csv")
      writeFileSync(bank, "reference,amount\n@a,5\n")
      const reconciled = yield* control(from, "reconcile", "--with", bank, "--where", `reference=@${reference}`)
      assert.strictEqual(reconciled.control.get("condition")?.[0], "reference = a text (not shown)")
      assert.strictEqual((yield* control(from, "find", document)).control.get("search")?.[0], `equals ${document}`)
      const found = yield* control(from, "find", `@${reference}`)
      assert.deepStrictEqual([found.rows.length, found.control.get("search")?.[0]], [2, "equals a text (not shown)"])
      for (const rule of ["omit", "pseudonymize"]) {
        const env = { PAYMENTS_PERSONAL: rule, ...rule === "omit" ? {} : { PAYMENTS_PERSONAL_KEY: "k".repeat(32) } }
        const searched = yield* control((yield* copied(env)).from, "find", document)
        assert.strictEqual(searched.control.get("search")?.[0], "equals a text (not shown)")
        assert.notInclude(searched.text, document)
      }
    }).pipe(Effect.scoped))

  it.live("has the matches of find, and the lines and records of reconcile with their totals", () =>
    Effect.gen(function*() {
      const { file, folder, from } = yield* copied()
      yield* payments(["find", "@@a", "--from", from, "--output", file])
      const found = yield* read(file)
      // A record without a status has an empty cell. Amounts of several lists have no sum.
      assert.deepStrictEqual(found.rows[1]?.slice(0, 6), ["invoices", "=1+1", "reference", null, 5, null])
      assert.isUndefined(found.control.get("sum of amount"))
      assert.deepStrictEqual(found.control.get("search")?.[0], "equals @a")
      const statement = join(folder, "bank.csv")
      writeFileSync(statement, "reference,amount\n@a,6\n")
      const args = ["reconcile", "--from", from, "--with", statement]
      assert.strictEqual((yield* payments([...args, "--output", file])).code, 11)
      const { control, rows } = yield* read(file)
      const [columns = [], ...entries] = rows
      assert.deepStrictEqual(
        entries.map((
          row
        ) => [row[columns.indexOf("class")], row[columns.indexOf("id")], row[columns.indexOf("difference")]])
          .find(([name]) => name === "different"),
        ["different", "=1+1", 1]
      )
      assert.strictEqual(control.get("class different")?.[0], "lines 1, records 1, statement 6, copy 5, difference +1")
      assert.isUndefined(control.get("sum of line"))
      assert.include(readFileSync(statement, "utf8"), "@a,6")
      const own = yield* payments([...args, "--format", "xlsx", "--output", statement])
      assert.deepStrictEqual([own.code, own.stderr.includes("--output names the statement.")], [2, true])
    }).pipe(Effect.scoped))

  it.live("is not written if a value is longer than a cell may be, and nothing is cut", () =>
    Effect.gen(function*() {
      const { file, from } = yield* copied()
      writeFileSync(file, "before")
      const run = (length: number) =>
        payments(["query", "--from", from, "--output", file, `SELECT 1 AS n, printf('%.*c', ${length}, 'x') AS text`])
      const refused = yield* run(32_768)
      assert.strictEqual(refused.code, 2)
      assert.include(
        refused.stderr.replaceAll(/\s+/g, " "),
        "Row 1 has a value of 32,768 characters in the column text, and a cell of a spreadsheet has room for 32,767."
      )
      assert.strictEqual(readFileSync(file, "utf8"), "before")
      assert.strictEqual((yield* run(32_767)).code, 0)
      assert.strictEqual(String((yield* read(file)).rows[1]?.[1]).length, 32_767)
    }).pipe(Effect.scoped))

  it.live("goes on in another sheet if one has no room", () =>
    Effect.gen(function*() {
      const { file, from } = yield* copied()
      const sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1048577) SELECT i FROM n"
      const { code, stderr } = yield* payments(["query", "--from", from, "--output", file, sql])
      assert.strictEqual(code, 0)
      assert.include(
        stderr.replaceAll(/\s+/g, " "),
        "A sheet has room for 1,048,576 rows, so the others are in Rows 2."
      )
      assert.notInclude(stderr, "Warning")
      const { control, rows, sheets } = yield* read(file)
      assert.strictEqual(rows.length, 1_048_576)
      // The name of the column, then the two rows that had no room.
      assert.deepStrictEqual(sheets[1]?.rows, [["i"], [1_048_576], [1_048_577]])
      assert.deepStrictEqual(control.get("sum of i"), [1_048_577 * 1_048_578 / 2, 1_048_577, 0])
    }).pipe(Effect.scoped), 600_000)

  it.live("leaves the file as it was if the disk is full", () =>
    Effect.gen(function*() {
      const { from } = yield* copied()
      const small = yield* smallFileSystem(64)
      if (small === undefined) return
      const sql =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) SELECT i, hex(i) FROM n"
      for (const name of ["report.xlsx", "report.csv"]) {
        const file = join(small.folder, name)
        writeFileSync(file, "before")
        const { code, stderr } = yield* payments(["query", "--from", from, "--output", file, sql])
        assert.deepStrictEqual([code, stderr.includes("ENOSPC")], [9, true])
        assert.strictEqual(readFileSync(file, "utf8"), "before")
        assert.deepStrictEqual(readdirSync(small.folder).filter((one) => one.endsWith(".new")), [])
      }
    }).pipe(Effect.scoped))

  it.live("is the old or the new file after a kill at any moment", () =>
    Effect.gen(function*() {
      const { file, folder, from } = yield* copied()
      const sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) SELECT i FROM n"
      /** The rows of a file, with that of the names. */
      const lengthOf = (target: string) =>
        target === file
          ? Effect.map(read(file), ({ rows }) => rows.length)
          : Effect.sync(() => readFileSync(target, "utf8").trimEnd().split("\r\n").length)
      for (const name of ["report.xlsx", "report.csv"]) {
        const target = join(folder, name)
        writeFileSync(target, "before")
        for (let killAfterMs = 200;; killAfterMs *= 1.4) {
          const { code } = yield* payments(["query", "--from", from, "--output", target, sql], { killAfterMs })
          if (code === 0) break
          // A kill after the file was replaced, and before the program has ended, leaves the whole new one.
          if (readFileSync(target, "utf8") !== "before") assert.strictEqual(yield* lengthOf(target), 30_001)
        }
      }
      for (const target of [file, join(folder, "report.csv")]) assert.strictEqual(yield* lengthOf(target), 30_001)
    }).pipe(Effect.scoped), 600_000)

  it.live.each(
    [
      [["--format", "xlsx"], "--format xlsx needs a file: --output report.xlsx."],
      [["--output", "report.pdf"], "--output: the ending of report.pdf names no format. Choose one with --format."],
      [["--output", "-"], "--output: name a file."],
      [["--output", "a.xlsx", "--bom"], "--bom needs --format csv."],
      [["--output", "a.csv", "--html", "b.html"], "--html and --output exclude each other."]
    ] as const
  )("is refused with %s", ([flags, problem]) =>
    Effect.gen(function*() {
      const { folder, from } = yield* copied()
      const { code, stderr } = yield* payments(["query", "--from", from, "SELECT 1", ...flags], { cwd: folder })
      assert.deepStrictEqual([code, stderr.includes(problem)], [2, true])
      const own = yield* payments(["query", "--from", from, "SELECT 1", "--format", "xlsx", "--output", from.slice(7)])
      assert.deepStrictEqual([own.code, own.stderr.includes("--output names a file of the copy")], [2, true])
    }).pipe(Effect.scoped))
})
