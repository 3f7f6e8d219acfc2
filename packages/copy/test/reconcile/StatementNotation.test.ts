import { assert, describe, it } from "@effect/vitest"
import { diceOf, seed } from "@payments/testkit/Seed"
import { type AmountRules, readAmount, scaled } from "../../src/reconcile/Amounts.ts"
import { DateColumn, dayText, recordDay } from "../../src/reconcile/Dates.ts"
import { Decoder } from "../../src/reconcile/Encodings.ts"

const amountOf = (text: string, decimals: number | "unknown" = 2, rules: Partial<AmountRules> = {}) => {
  const found = readAmount(text, { decimal: undefined, hasParentheses: false, ...rules })
  if (found === "ambiguous" || "problem" in found) return typeof found === "string" ? found : found.problem
  const amount = scaled(found, decimals === "unknown" ? undefined : decimals)
  return typeof amount === "bigint" ? amount : amount.problem
}

describe("an amount of a statement", () => {
  it.each([
    ["12.34", 1234n],
    ["12,34", 1234n],
    [" 12,3 ", 1230n],
    [".5", 50n],
    ["-0,01", -1n],
    ["+7", 700n],
    ["12,34-", -1234n],
    ["−12.34", -1234n],
    ["1.234,56", 123456n],
    ["1,234.56", 123456n],
    ["1'234.56", 123456n],
    ["1 234,56", 123456n],
    ["1\u00a0234\u202f567,8".replace("\u202f", "\u00a0"), 123456780n],
    ["1.234.567", 123456700n],
    ["1234.5600", 123456n],
    ["0.10", 10n],
    ["90071992547409.93", 9007199254740993n],
    ["123456789012345678901234567890,12", 12345678901234567890123456789012n]
  ])("%j is %s cents", (text, cents) => {
    assert.strictEqual(amountOf(text), cents)
  })

  it.each([
    ["", /is empty/],
    ["1.234", /ambiguous/],
    ["123,456", /ambiguous/],
    ["(12.00)", /is in parentheses, which may mean a negative amount: add --parentheses negative/],
    ["1e3", /has an exponent/],
    ["1.5E-2", /has an exponent/],
    ["0x10", /is no amount/],
    ["12.34.56", /is no amount/],
    ["1.23.456,00", /is no amount/],
    ["1,234,56", /has the same mark/],
    ["EUR 12.00", /has a currency sign or code/],
    ["INV 1200", /is no amount/],
    ["12.00 €", /has a currency sign or code/],
    ["12.00 E", /is no amount/],
    ["NaN", /is no amount/],
    ["--5", /is no amount/],
    ["١٢", /is no amount/],
    ["12.345", /ambiguous/],
    ["0.123", /has more than 2 decimals, and nothing is rounded/],
    ["1".repeat(61), /has more than 60 characters/]
  ])("%j is refused", (text, problem) => {
    assert.match(String(amountOf(text)), problem)
  })

  it("reads parentheses as negative only on request", () => {
    assert.strictEqual(amountOf("(1,234.50)", 2, { hasParentheses: true }), -123450n)
    assert.match(String(amountOf("(-1.00)", 2, { hasParentheses: true })), /parentheses and a sign/)
  })

  it("needs a unit for decimals, and takes whole numbers as they are without one", () => {
    assert.strictEqual(amountOf("1234", "unknown"), 1234n)
    assert.strictEqual(amountOf("1234", "unknown", { decimal: "," }), 1234n)
    assert.match(String(amountOf("12.00", "unknown")), /has decimals.*add --unit cents/)
  })

  it("reads the marks by the column's decimal mark", () => {
    assert.strictEqual(amountOf("1.234", 3, { decimal: "." }), 1234n)
    assert.strictEqual(amountOf("1.234", 3, { decimal: "," }), 1234000n)
    assert.match(
      String(amountOf("1.5", 2, { decimal: "," })),
      /has a decimal point, but the column has a decimal comma/
    )
  })

  it("is exact in every notation", () => {
    const dice = diceOf(seed, "amounts")
    for (let times = 0; times < 5000; times++) {
      const digits = Array.from({ length: 1 + dice.below(24) }, () => dice.below(10)).join("")
      const amount = BigInt(digits) * (dice.chance(0.3) ? -1n : 1n)
      const padded = String(amount < 0n ? -amount : amount).padStart(3, "0")
      const [mark, group] = dice.pick([[".", ""], [",", ""], [",", "."], [".", ","], [".", "'"], [",", " "]] as const)
      const whole = padded.slice(0, -2).replaceAll(/\B(?=(\d{3})+$)/g, group)
      const sign = amount < 0n ? "-" : ""
      const text = dice.chance(0.2)
        ? `${whole}${mark}${padded.slice(-2)}${sign}`
        : `${sign}${whole}${mark}${padded.slice(-2)}`
      assert.strictEqual(amountOf(text), amount, text)
    }
  })
})

const daysOf = (texts: ReadonlyArray<string>, order?: "ymd" | "dmy" | "mdy") => {
  const column = new DateColumn(order)
  return texts.map((text, index) => {
    const found = column.read(text, index + 2)
    return typeof found === "number" ? dayText(found) : typeof found === "string" ? found : found.problem
  })
}

describe("a date of a statement", () => {
  it.each([
    ["2024-02-29", "2024-02-29"],
    ["2024-02-29T23:30:00Z", "2024-02-29"],
    ["2024-02-29T23:30:00-05:00", "2024-02-29"],
    ["2024-03-01T00:00:00+01:00", "2024-03-01"],
    ["2024-03-01T00:00:00.000+0100", "2024-03-01"],
    ["2024-03-01+01:00", "2024-03-01"],
    ["2024-02-30T00:00:00Z", "is no day of the calendar"],
    ["2024-02-29 23:30", "2024-02-29"],
    ["20240229", "2024-02-29"],
    ["2024/02/29", "2024-02-29"],
    ["29.02.2024", "2024-02-29"],
    ["1.2.2024", "2024-02-01"],
    ["29/02/2024", "2024-02-29"],
    ["02/29/2024", "2024-02-29"],
    ["03/03/2024", "2024-03-03"],
    ["03/04/2024", "ambiguous"],
    ["2023-02-29", "is no day of the calendar"],
    ["31.04.2024", "is no day of the calendar"],
    ["", "is empty"],
    ["29.02.24", "has a year of two digits"],
    ["yesterday", "is no date such as 2024-05-31, 31.05.2024, 31/05/2024 or 20240531"]
  ])("%j is %j", (text, day) => {
    assert.deepStrictEqual(daysOf([text]), [day])
  })

  it("has the order of day and month that another date of its column shows", () => {
    assert.deepStrictEqual(daysOf(["31/04/2024".replace("31", "30"), "03/04/2024"]), ["2024-04-30", "2024-04-03"])
    assert.deepStrictEqual(daysOf(["04/30/2024", "03/04/2024"]), ["2024-04-30", "2024-03-04"])
    assert.deepStrictEqual(daysOf(["03/04/2024"], "mdy"), ["2024-03-04"])
    assert.match(daysOf(["30/04/2024", "04/30/2024"])[1] ?? "", /another order/)
  })

  it("is refused in a second notation", () => {
    const [first, second, third] = daysOf(["2024-04-30", "30.04.2024", "30/04/2024"])
    assert.strictEqual(first, "2024-04-30")
    assert.strictEqual(second, "is another notation of dates than in line 2")
    assert.strictEqual(third, second)
  })

  it("is the UTC day of a record", () => {
    assert.strictEqual(recordDay("2024-02-29T23:59:59.999Z"), recordDay("2024-02-29"))
    assert.strictEqual(recordDay("2024-03-01T00:00:00+01:00"), recordDay("2024-02-29"))
    assert.isUndefined(recordDay("29.02.2024"))
  })
})

/** Decodes the bytes, cut at every place that a chunk may end. */
const decoded = (bytes: Buffer, size: number, wanted?: "utf-8" | "windows-1252") => {
  const decoder = new Decoder(wanted)
  let text = ""
  for (let at = 0; at === 0 || at < bytes.length; at += size) {
    text += decoder.decode(bytes.subarray(at, at + size), at + size >= bytes.length)
  }
  return { text, encoding: decoder.encoding, hasMark: decoder.hasMark }
}

const utf16be = (text: string) => Buffer.from(`\ufeff${text}`, "utf16le").swap16()

describe("the encoding of a statement", () => {
  const text = "Grüße;1\nÄpfel €;2\n"
  it.each([1, 2, 3, 5, 7, 1000])("is recognized, also in chunks of %i bytes", (size) => {
    assert.deepStrictEqual(decoded(Buffer.from(text), size), { text, encoding: "utf-8", hasMark: false })
    assert.deepStrictEqual(decoded(Buffer.from(`\ufeff${text}`), size), { text, encoding: "utf-8", hasMark: true })
    assert.deepStrictEqual(decoded(Buffer.from(`\ufeff${text}`, "utf16le"), size), {
      text,
      encoding: "utf-16le",
      hasMark: true
    })
    assert.deepStrictEqual(decoded(utf16be(text), size), { text, encoding: "utf-16be", hasMark: true })
    const latin = Buffer.from("Gr\xfc\xdfe;1\n\xc4pfel \x80;2\n", "latin1")
    assert.deepStrictEqual(decoded(latin, size), { text, encoding: "windows-1252", hasMark: false })
    assert.deepStrictEqual(decoded(Buffer.from("a;1\nb;2"), size), {
      text: "a;1\nb;2",
      encoding: "utf-8",
      hasMark: false
    })
  })

  it.each([1, 4, 1000])("is refused if it is mixed, with its lines, in chunks of %i bytes", (size) => {
    const mixed = Buffer.concat([Buffer.from("a\nGrüße\nb\n"), Buffer.from("Gr\xfc\xdfe\n", "latin1")])
    assert.throws(() => decoded(mixed, size), /line 2 has letters of UTF-8, but line 4 has bytes that are not UTF-8/)
    const other = Buffer.concat([Buffer.from("a\nGr\xfc\xdfe\nb\n", "latin1"), Buffer.from("Grüße\n")])
    assert.throws(() => decoded(other, size), /line 4 has letters of UTF-8, but earlier lines have/)
  })

  it("is refused if it is not what a mark or the caller says, or no text", () => {
    assert.throws(
      () => decoded(Buffer.from("a\n\xfc\n", "latin1"), 9, "utf-8"),
      /line 2: there are bytes that are not UTF-8/
    )
    assert.throws(() => decoded(Buffer.from("\xef\xbb\xbfa\n\xfc\n", "latin1"), 9), /line 2/)
    assert.throws(() => decoded(Buffer.from("\ufeffa", "utf16le"), 9, "windows-1252"), /byte order mark of utf-16le/)
    assert.throws(() => decoded(Buffer.from("a\nb", "utf16le"), 9), /line 1: there is a NUL character/)
    assert.throws(() => decoded(Buffer.from("a\nb\x81\n", "latin1"), 9), /line 2: there is a byte that neither/)
  })
})
