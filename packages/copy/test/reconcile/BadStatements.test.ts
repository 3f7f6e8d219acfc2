import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { temporaryFolder } from "@payments/testkit/Folder"
import { Effect, Exit, Scope } from "effect"
import { createHash } from "node:crypto"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { afterAll, beforeAll } from "vitest"
import type { Destination, ReconcileOptions } from "../../src/index.ts"
import { fill, reconciled, sqliteIn, written } from "./reconciling.ts"

let from: Destination.StoredDestination
const scope = Scope.makeUnsafe()
beforeAll(() =>
  Effect.runPromise(Scope.provide(
    Effect.gen(function*() {
      from = sqliteIn(yield* temporaryFolder)
      yield* fill(from, [`{"id":"inv_1","reference":"A","amount":1200,"settlementDate":"2024-05-01"}`])
    }),
    scope
  ))
)
afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

const head = "reference;amount;settlementDate\n"
const dated = { on: ["reference", "amount", "settlementDate"] }
const cents = { decimals: 2 }

/** Returns bytes that look random, and are the same in every run. */
const randomBytes = (length: number, seed: string): Uint8Array =>
  createHash("shake256", { outputLength: length }).update(seed).digest()

/** The content of a file, the options, and what the error says. */
const cases: ReadonlyArray<readonly [string, string | Uint8Array, Partial<ReconcileOptions>, RegExp]> = [
  ["an empty file", "", {}, /The file is empty/],
  ["only names of columns", head, {}, /no lines after the names/],
  [
    "no column for the amount",
    "reference;Betrag\nA;1\n",
    {},
    /no column for amount\. No line .* Line 1 comes nearest, with 2 columns\. .*--map amount=COLUMN\.$/
  ],
  [
    "a name that is nearly that of the amount",
    "reference;Amuont;Name\nA;1;B\n",
    {},
    /no column for amount\. No line .* Line 1 comes nearest, with 3 columns\. .*--map amount=Amuont\.$/
  ],
  [
    "a column of a mapping",
    head + "A;1;\n",
    { map: { amount: { column: "Betrag", isNegated: false } } },
    /no column for amount \(Betrag\)/
  ],
  [
    "data without names",
    "A;12;2024-05-01\n",
    {},
    /no column for reference, amount\. No line among the first 50 has all of them/
  ],
  ["two columns of one name", "reference;amount;Amount;amount\nA;1;1;1\n", {}, /several columns for amount/],
  ["a short line", head + "A;1;\nB;2\n", {}, /line 3: it has 2 columns, but line 1 names 3/],
  ["a long line", head + "A;1;;x\n", {}, /line 2: it has 4 columns/],
  ["an open quote", head + `A;"1;\nB;2;\n`, {}, /line \d: a quote is opened here or before, and never closed/],
  ["a quote within a value", head + `A;1"2;\n`, {}, /line 2: a quote stands within a value/],
  [
    "a bad amount before a bad quote",
    head + `A;x;\nB;1"2;\n`,
    {},
    /line 2, column 2 \(amount\): the amount is no amount/
  ],
  [
    "a bad amount at the end of a file of several chunks",
    `${head}${`A;1;\n"B\nB";1;\n`.repeat(30_000)}A;x;`,
    {},
    /line 90002, column 2 \(amount\): the amount is no amount/
  ],
  [
    "a German amount without a unit",
    head + "A;1;\nB;1.234,56;\n",
    {},
    /line 3, column 2 \(amount\): the amount has decimals\. .*--unit cents/
  ],
  [
    "an amount in parentheses",
    head + "A;(12.00);\n",
    cents,
    /line 2, column 2 \(amount\): the amount is in parentheses/
  ],
  ["an exponent", head + "A;1;\nB;1e3;\n", cents, /line 3, column 2 \(amount\): the amount has an exponent/],
  ...["€ 12.00", "12,00 €", "12.00 EUR", "-EUR 12", "US$12", "1.234,56 CHF"].map((amount) =>
    [
      `a currency: ${amount}`,
      `${head}A;1;\nB;${amount};\n`,
      cents,
      /line 3, column 2 \(amount\): the amount has a currency sign or code\. Only numbers are read, .*remove it/
    ] as const
  ),
  ["a word instead of an amount", head + "A;12 abc;\n", cents, /line 2, column 2 \(amount\): the amount is no amount/],
  ["an empty amount", head + "A;;\n", {}, /line 2, column 2 \(amount\): the amount is empty/],
  [
    "two decimal marks",
    head + "A;1,50;\nB;1.50;\n",
    cents,
    /line 3, column 2 \(amount\): the amount has a decimal point, but the column has a decimal comma/
  ],
  [
    "an ambiguous amount",
    head + "A;1;\nB;1.234;\n",
    cents,
    /line 3, column 2 \(amount\): the mark may be before three decimals/
  ],
  ["too many decimals", head + "A;0.001;\n", cents, /line 2, column 2 \(amount\): the amount has more than 2 decimals/],
  [
    "an amount beyond 64 bits",
    head + "A;9223372036854775808;\n",
    {},
    /line 2, column 2 \(amount\): the amount needs more than 64 bits/
  ],
  [
    "a second notation of dates",
    head + "A;1;2024-05-01\nB;1;02.05.2024\nC;1;05/03/2024\n",
    dated,
    /line 3, column 3 \(settlementDate\): the date is another notation of dates than in line 2/
  ],
  [
    "an ambiguous date",
    head + "A;1;03/04/2024\n",
    dated,
    /line 2, column 3 \(settlementDate\): the day and the month may be in either order/
  ],
  [
    "a day that does not exist",
    head + "A;1;2024-02-30\n",
    dated,
    /line 2, column 3 \(settlementDate\): the date is no day/
  ],
  [
    "a line after a value with a line break",
    "reference;amount;note\nA;1;\"x\ny\"\n\nB;x;\n",
    {},
    /line 5, column 2 \(amount\): the amount is no amount/
  ],
  [
    "mixed encodings",
    Buffer.concat([Buffer.from(`${head}Ü;1;\n`), Buffer.from("\xdc;2;\n", "latin1")]),
    {},
    /several encodings: line 2 .* line 3/
  ],
  [
    "a ZIP archive",
    Buffer.from("PK\x03\x04 not read"),
    {},
    /is a ZIP archive, such as an xlsx workbook, and is not read/
  ],
  ...[0xff_fe_00_00, 0x0000_feff, undefined].map((mark) => {
    const text = `${head}A;1;\n`
    const bytes = Buffer.alloc((text.length + 1) * 4)
    for (const [index, letter] of [...text].entries()) bytes.writeUInt32LE(letter.charCodeAt(0), (index + 1) * 4)
    if (mark !== undefined) bytes.writeUInt32BE(mark, 0)
    return ["UTF-32", mark === undefined ? bytes.subarray(4) : bytes, {}, /: It is UTF-32, and is not read/] as const
  }),
  ["random bytes", randomBytes(5000, "a"), {}, /: It is no text file, and is not read/],
  ["a few random bytes", randomBytes(200, "b"), {}, /: It is no text file, and is not read/],
  ["gzip", gzipSync("reference;amount\nA;1\n"), {}, /compressed with gzip, and is not read/],
  ["an old workbook", Buffer.from("\xd0\xcf\x11\xe0\xa1\xb1", "latin1"), {}, /old Excel/],
  [
    "a line of 2 MiB",
    `reference;amount\n${"x".repeat(2 * 1024 * 1024)};1\n`,
    {},
    /line \d: a line is longer than 1 MiB/
  ]
]

const failure = (options: Partial<ReconcileOptions> & Pick<ReconcileOptions, "file">) =>
  Effect.map(Effect.flip(reconciled({ from, ...options })), (error) => {
    assert.strictEqual(error._tag, "StatementError")
    return error.message
  })

describe("a statement that cannot be read for certain", () => {
  it.live.each(cases)("is refused with the place: %s", ([, content, options, problem]) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const message = yield* failure({ file: written(folder, content), ...options })
      assert.match(message.replaceAll(folder, ""), problem)
    }))

  it.live("repeats no value, because it may be personal", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const secret = "Canary Person 4711"
      for (
        const content of [
          `${secret};1;2024-05-01\n`,
          "Kontoinhaber;Canary Person\nreference;Betrag\nA;1\n",
          "Kontoinhaber;Canary Person;Kunde\nreference;Betrag\nA;1\n",
          "amount Canary;reference Canary\nA;1\n",
          "Canary Person\n",
          `${head}A;${secret};\n`,
          `${head}A;"${secret};\n`,
          `${head}A;1 "${secret}";\n`,
          `${head}${secret};1;\n${secret}\n`,
          `<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"><BkToCstmrStmt><Stmt><x>${secret}</y></Stmt>`,
          `<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02">&${secret.replaceAll(" ", "")};</Document>`
        ]
      ) assert.notInclude(yield* failure({ file: written(folder, content) }), "Canary")
    }))

  it.live("names what is wrong with the fields", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = written(folder, `${head}A;1;\n`)
      assert.match(yield* failure({ file, on: ["reference"] }), /--on names no amount/)
      assert.match(yield* failure({ file, on: ["amount", "paymentAmount"] }), /--on names several amounts/)
      assert.match(yield* failure({ file, on: ["refrence", "amount"] }), /no field refrence\. Did you mean reference\?/)
      assert.match(yield* failure({ file, on: ["amount", "paymentDate"], group: "settlementDate" }), /several dates/)
      assert.match(
        yield* failure({ file, map: { contract: { column: "x", isNegated: false } } }),
        /--map contract: the field is not compared/
      )
      assert.match(
        yield* failure({ file, list: Lists.payinSources, on: ["reference", "amount"] }),
        /have no field amount/
      )
      assert.match(yield* failure({ file: join(folder, "absent.csv") }), /absent\.csv does not exist/)
      assert.match(yield* failure({ file: folder }), /is a folder/)
    }))
})
