/** CSV for spreadsheets of other countries: an independent parser reads exactly what was written, in every dialect. */
import { assert, describe, it } from "@effect/vitest"
import { csvText, type Delimiter } from "@payments/copy/csv"
import { layerTest } from "@payments/core/testing"
import { payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { diceOf, seed } from "@payments/testkit/Seed"
import { parse } from "csv-parse/sync"
import { Effect } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { runInProcess } from "../program/InProcess.ts"

const hostile = [
  ",",
  ";",
  "\t",
  "|",
  "\"",
  "\r\n",
  "\n",
  "\r",
  " ",
  "=1+1",
  "4,5",
  "-",
  "é",
  "\u2028",
  "\u0007",
  "",
  "x"
]
const delimiters: ReadonlyArray<Delimiter> = [",", ";", "\t", "|"]

const invoices = [
  `{"id":"=1+1","amount":5,"reference":"a;b","contract":"c,\\"d\\""}`,
  `{"id":"b","amount":-8,"reference":"4,5","contract":"|"}`
]

const copied = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const from = `sqlite:${folder}/p.db`
  yield* runInProcess(layerTest({ invoices }), ["export", "invoices", "--to", from])
  return { folder, from }
})

describe("a CSV dialect", () => {
  it(`has the same rows, whether or not another row needs quotes (PAYMENTS_SEED=${seed})`, () => {
    const dice = diceOf(seed, "csv quotes")
    const fields = [
      null,
      "",
      "x",
      "é",
      "a b",
      " a",
      "a\u00a0",
      "-5",
      0,
      -7.5,
      1e21,
      12345678901234567890n,
      "=1"
    ]
    for (let run = 0; run < 500; run++) {
      const delimiter = dice.pick(delimiters)
      const rows = Array.from(
        { length: dice.below(3) },
        () => Array.from({ length: dice.below(4) }, () => dice.pick([...fields, delimiter, "4,5"]))
      )
      const formulas = dice.pick(["escape", "keep"] as const)
      const withQuotes = csvText([...rows, ["\""]], formulas, delimiter)
      assert.strictEqual(`${csvText(rows, formulas, delimiter)}""""\r\n`, withQuotes)
    }
  })

  it(`has the texts that were written, whatever they contain (PAYMENTS_SEED=${seed})`, () => {
    const dice = diceOf(seed, "csv dialects")
    for (let run = 0; run < 500; run++) {
      const delimiter = dice.pick(delimiters)
      const rows = Array.from(
        { length: 3 },
        () => Array.from({ length: 3 }, () => Array.from({ length: dice.below(4) }, () => dice.pick(hostile)).join(""))
      )
      // The parser recognizes the ends of rows, as spreadsheets do.
      const read: unknown = parse(csvText(rows, "keep", delimiter), { delimiter })
      assert.deepStrictEqual(read, rows)
    }
  })

  it.live("separates with a semicolon, writes decimals with a comma, and begins with a mark", () =>
    Effect.gen(function*() {
      const { from } = yield* copied
      const sql =
        "SELECT id, reference, contract, amount, amount / 2.0 AS half, '1.5' AS text FROM invoices ORDER BY amount"
      const args = ["query", "--from", from, "--format", "csv", sql]
      const { code, stdout } = yield* payments([...args, "--delimiter", ";", "--decimal-comma", "--bom"])
      assert.strictEqual(code, 0)
      assert.strictEqual(
        stdout,
        "\ufeffid;reference;contract;amount;half;text\r\n" +
          `b;4,5;|;-8;-4,0;1.5\r\n'=1+1;"a;b";"c,""d""";5;2,5;1.5\r\n`
      )
      // Between commas, a decimal comma needs quotes.
      const commas = yield* payments([...args, "--decimal-comma"])
      assert.include(commas.stdout, `5,"2,5",1.5\r\n`)
      const tabs = yield* payments([...args, "--delimiter", "tab"])
      assert.include(tabs.stdout, `b\t4,5\t|\t-8\t-4.0\t1.5\r\n`)
    }).pipe(Effect.scoped))

  it.live("is that of find and of reconcile too", () =>
    Effect.gen(function*() {
      const { folder, from } = yield* copied
      const found = yield* payments(["find", "b", "--from", from, "--format", "csv", "--delimiter", ";", "--bom"])
      const [head, record] = found.stdout.split("\r\n")
      assert.strictEqual(head, "\ufefflist;fields;id;missing;record")
      assert.match(record ?? "", /^invoices;id;b;false;"/)
      const statement = join(folder, "bank.csv")
      writeFileSync(statement, "reference,amount\n\"4,5\",-8\n")
      const { code, stdout } = yield* payments([
        "reconcile",
        "--from",
        from,
        "--with",
        statement,
        "--format",
        "csv",
        "--delimiter",
        "|"
      ])
      assert.strictEqual(code, 0)
      assert.match(stdout, /^class\|entry\|line\|id\|reference\|/)
      assert.match(stdout, /\r\nmatched\|\d\|2\|b\|4,5\|/)
    }).pipe(Effect.scoped))

  it.live.each(
    [
      [["--delimiter", "::", "--format", "csv"], "Invalid value for --delimiter. Expected: one of , ; | or tab"],
      [["--delimiter", ";", "--bom"], "--delimiter, --bom need --format csv."],
      [["--decimal-comma", "--format", "json"], "--decimal-comma needs --format csv."]
    ] as const
  )("refuses %s", ([flags, problem]) =>
    Effect.gen(function*() {
      const { from } = yield* copied
      const { code, stderr, stdout } = yield* payments(["query", "--from", from, "SELECT 1", ...flags])
      assert.deepStrictEqual({ code, stdout, problem: stderr.includes(problem) }, {
        code: 2,
        stdout: "",
        problem: true
      })
    }).pipe(Effect.scoped))
})
