import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/Folder"
import { Effect, Exit, Scope } from "effect"
import { afterAll, beforeAll } from "vitest"
import type { Destination, ReconcileOptions } from "../../src/index.ts"
import { fill, reconciled, sqliteIn, written } from "./reconciling.ts"

let from: Destination.StoredDestination
const scope = Scope.makeUnsafe()
beforeAll(() =>
  Effect.runPromise(Scope.provide(
    Effect.gen(function*() {
      from = sqliteIn(yield* temporaryFolder)
      yield* fill(from, [
        invoice("1", 100_00, "2024-05-01"),
        invoice("2", 50_25, "2024-05-01"),
        invoice("3", 7, "2024-05-02"),
        invoice("4", -20_00, "2024-05-03"),
        invoice("5", 1_00, "2024-06-01")
      ])
    }),
    scope
  ))
)
afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

const invoice = (number: string, amount: number, day: string) =>
  `{"id":"inv_${number}","reference":"R-${number}","amount":${amount},"settlementDate":"${day}"}`

interface Entry {
  readonly amount: string
  readonly sign?: "CRDT" | "DBIT"
  readonly day: string
  readonly status?: string
  readonly charges?: string
  readonly currency?: string
  /** The reference and the amount of each transaction. */
  readonly transactions?: ReadonlyArray<readonly [reference: string, amount: string]>
}

const entryXml = (
  { amount, charges, currency = "EUR", day, sign = "CRDT", status = "BOOK", transactions = [] }: Entry
) => `
<Ntry><NtryRef>n</NtryRef><Amt Ccy="${currency}">${amount}</Amt><CdtDbtInd>${sign}</CdtDbtInd><Sts><Cd>${status}</Cd></Sts>
<BookgDt><Dt>${day}</Dt></BookgDt><ValDt><DtTm>${day}T10:00:00Z</DtTm></ValDt>${
  charges === undefined ? "" : `<Chrgs><TtlChrgsAndTaxAmt Ccy="${currency}">${charges}</TtlChrgsAndTaxAmt></Chrgs>`
}<NtryDtls>${
  transactions.map(([reference, own]) =>
    `<TxDtls><Refs><EndToEndId>${reference}</EndToEndId></Refs><Amt Ccy="${currency}">${own}</Amt>
    <RmtInf><Ustrd>one</Ustrd><Ustrd>two</Ustrd></RmtInf></TxDtls>`
  ).join("")
}</NtryDtls></Ntry>`

const namespace = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"

const statement = (entries: ReadonlyArray<Entry>, prefix = "") =>
  `<?xml version="1.0" encoding="UTF-8"?>\n${prefix}<Document xmlns="${namespace}"><BkToCstmrStmt><GrpHdr><MsgId>m</MsgId></GrpHdr>
<Stmt><Id>1</Id><FrToDt><FrDtTm>2024-05-01T00:00:00</FrDtTm><ToDtTm>2024-05-31T23:59:59</ToDtTm></FrToDt>
<Bal><Amt Ccy="EUR">999.99</Amt><CdtDbtInd>CRDT</CdtDbtInd></Bal>${
    entries.map(entryXml).join("")
  }</Stmt></BkToCstmrStmt></Document>`

const entries: ReadonlyArray<Entry> = [
  { amount: "150.25", day: "2024-05-01", transactions: [["R-1", "100.00"], ["R-2", "50.25"]] },
  { amount: "0.07", day: "2024-05-02", transactions: [["R-3", "0.07"]] },
  { amount: "20", sign: "DBIT", day: "2024-05-03", transactions: [["R-4", "20.00"]] },
  { amount: "5", day: "2024-05-04", status: "PDNG", transactions: [["R-9", "5"]] }
]

const compared = (content: string | Uint8Array, options: Partial<ReconcileOptions> = {}) =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    return yield* reconciled({ from, file: written(folder, content, "camt053.xml"), decimals: 2, ...options })
  })

const classesOf = ({ rows }: Effect.Success<ReturnType<typeof reconciled>>) =>
  rows.map(({ class: name, id, line }) => `${line ?? ""} ${id ?? ""} ${name}`).toSorted()

const problemOf = (content: string | Uint8Array, options?: Partial<ReconcileOptions>) =>
  Effect.map(Effect.flip(compared(content, options)), ({ message }) => message.replace(/^\S+camt053\.xml: /, ""))

describe("a statement in camt.053", () => {
  it.live("has a line for each transaction, with the sign of its entry, and leaves out what is not booked", () =>
    Effect.gen(function*() {
      const result = yield* compared(statement(entries), { on: ["reference", "amount", "settlementDate"] })
      assert.deepStrictEqual(classesOf(result), [
        " inv_5 expected",
        "1 inv_1 matched",
        "2 inv_2 matched",
        "3 inv_3 matched",
        "4 inv_4 matched"
      ])
      assert.deepStrictEqual({ ...result.statement.camt }, {
        through: 19_874,
        notBooked: 1,
        statements: 1,
        currency: "EUR"
      })
      assert.strictEqual(result.statement.lines, 4)
    }))

  it.live("has the day that a time with an offset writes", () =>
    Effect.gen(function*() {
      const text = statement(entries).replace(/<FrToDt>.*?<\/FrToDt>/, "").replaceAll(
        "T10:00:00Z",
        "T00:00:00+01:00"
      )
      const result = yield* compared(text, { on: ["reference", "amount", "settlementDate"] })
      assert.strictEqual(result.lastDay, 19_846)
      assert.strictEqual(result.totals.matched.records, 4)
    }))

  it.live("has the amounts of the account, also where a transaction or a charge names another currency", () =>
    Effect.gen(function*() {
      const text = statement([
        { amount: "0.07", charges: "0.02", day: "2024-05-02", transactions: [["R-3", "0.07"]] },
        { amount: "9", currency: "USD", day: "2024-05-02", status: "PDNG" }
      ])
      const foreign = text.replace(`<Amt Ccy="EUR">0.07</Amt>\n    <RmtInf>`, `<Amt Ccy="USD">0.08</Amt>\n    <RmtInf>`)
        .replace(`TtlChrgsAndTaxAmt Ccy="EUR"`, `TtlChrgsAndTaxAmt Ccy="USD"`)
      assert.notStrictEqual(foreign, text)
      const options = { on: ["reference", "amount"] }
      assert.include(classesOf(yield* compared(foreign, options)), "1 inv_3 matched")
      const fee = { map: { fee: { column: "charges", isNegated: false } } }
      assert.match(yield* problemOf(foreign, { ...options, ...fee }), /currency is another one/)
    }))

  it.live("has a line for each entry if lines are sums of groups, minus charges", () =>
    Effect.gen(function*() {
      const result = yield* compared(
        statement([
          { amount: "148.25", charges: "2.00", day: "2024-05-02", transactions: [["x", "1"], ["y", "2"]] },
          { amount: "0.06", day: "2024-05-02" },
          { amount: "20.00", sign: "DBIT", day: "2024-05-03" }
        ]),
        {
          on: ["amount"],
          group: "settlementDate",
          withinDays: 1,
          map: { fee: { column: "charges", isNegated: false } }
        }
      )
      assert.deepStrictEqual(
        result.entries.map(({ amountHere, amountThere, class: name, difference, fee, records }) => [
          name,
          amountThere,
          fee,
          amountHere,
          difference,
          records
        ]),
        [
          ["different", 6n, null, 7n, -1n, 1],
          ["expected", null, null, 100n, -100n, 1],
          ["matched", -2000n, null, -2000n, null, 1],
          ["matched", 14825n, 200n, 15025n, null, 2]
        ]
      )
    }))

  it.live("has a line for each entry that is booked, or has no status", () =>
    Effect.gen(function*() {
      const booked = ["<Sts>BOOK</Sts>", "<Sts><Cd>BOOK</Cd></Sts>", "<Sts> <Cd> BOOK </Cd> </Sts>", ""]
      const others = [
        "<Sts>PDNG</Sts>",
        "<Sts><Cd>INFO</Cd></Sts>",
        "<Sts><Prtry>PENDING</Prtry></Sts>",
        "<Sts><Prtry>BOOK</Prtry></Sts>",
        "<Sts><Cd>BOOK</Cd><Prtry>PENDING</Prtry></Sts>",
        "<Sts><Prtry>PENDING</Prtry><Cd>BOOK</Cd></Sts>",
        "<Sts><Cd/></Sts>",
        "<Sts/>"
      ]
      const all = [...booked, ...others]
      const statuses = all.values()
      const text = statement(all.map((status) => ({ amount: "1", day: "2024-05-02", transactions: [[status, "1"]] })))
        .replaceAll(/<Sts>.*?<\/Sts>(?=\n<BookgDt>)/g, () => statuses.next().value ?? "")
        .replaceAll(/(?<=<EndToEndId>).*?(?=<\/EndToEndId>)/g, (status) => `status ${all.indexOf(status)}`)
      const { rows, statement: { camt } } = yield* compared(text)
      assert.deepStrictEqual(
        rows.flatMap(({ keys, line }) => line === null ? [] : keys).toSorted(),
        booked.map((_, index) => `status ${index}`)
      )
      assert.strictEqual(camt?.notBooked, others.length)
    }))

  it.live("has the whole of a value with a comment or CDATA in it", () =>
    Effect.gen(function*() {
      const text = statement([{ amount: "1<!-- -->0<![CDATA[0]]>", day: "2024-05-01", transactions: [["R-1", "100"]] }])
      assert.strictEqual((yield* compared(text)).totals.matched.here, 10_000n)
    }))

  it.live("has no reference for an entry that details only one of its transactions", () =>
    Effect.gen(function*() {
      const text = (count: string) =>
        statement([{ amount: "100", day: "2024-05-01", transactions: [["R-1", "100"]] }]).replace(
          "<NtryDtls>",
          `<NtryDtls><Btch><NbOfTxs>${count}</NbOfTxs></Btch>`
        )
      assert.strictEqual((yield* compared(text("1"))).totals.matched.records, 1)
      const { statement: read, totals } = yield* compared(text("3"))
      assert.deepStrictEqual([read.withoutKey, totals.matched.lines, totals["missing here"].lines], [1, 0, 1])
      assert.strictEqual(totals["missing here"].there, 10_000n)
      assert.match(yield* problemOf(text("many")), /the number of transactions \(NbOfTxs\) is no whole number/)
      // A block without details counts too, whatever another block has.
      const blocks = text("3").replace("</Btch>", "</Btch></NtryDtls><NtryDtls>")
      assert.strictEqual((yield* compared(blocks)).statement.withoutKey, 1)
    }))

  const charged = { map: { fee: { column: "charges", isNegated: false } } }

  it.live("has the charges of a transaction, and not those of its entry for each transaction", () =>
    Effect.gen(function*() {
      const entry = { amount: "148.25", charges: "2.00", day: "2024-05-01" }
      const transactions = [["R-1", "98.00"], ["R-2", "50.25"]] as const
      const own = statement([{ ...entry, transactions }]).replace(
        "<RmtInf>",
        `<Chrgs><TtlChrgsAndTaxAmt Ccy="EUR">2.00</TtlChrgsAndTaxAmt></Chrgs><RmtInf>`
      )
      const { totals } = yield* compared(own, charged)
      assert.deepStrictEqual([totals.matched.records, totals.matched.fee], [2, 200n])
      assert.match(
        yield* problemOf(statement([{ ...entry, transactions }]), charged),
        /an entry has charges and several transactions, and none of them has charges/
      )
      const single = yield* compared(statement([{ ...entry, amount: "98", transactions: [["R-1", "98"]] }]), charged)
      assert.deepStrictEqual([single.totals.matched.records, single.totals.matched.fee], [1, 200n])
      const twice = own.replace(/<Chrgs><TtlChrgsAndTaxAmt Ccy="EUR">2.00.*?<\/Chrgs>(?=<RmtInf>)/, "$&$&")
      assert.match(
        yield* problemOf(twice, charged),
        /an entry or transaction has charges twice, and they are not added/
      )
      // Without a fee, the charges do not matter.
      assert.strictEqual((yield* compared(statement([{ ...entry, transactions }]))).totals.matched.records, 1)
    }))

  it.live("is read in ISO-8859-1 and in UTF-16, with other columns and the opposite sign", () =>
    Effect.gen(function*() {
      const text = statement(entries).replace("R-1", "Ü").replaceAll("EndToEndId", "TxId")
      const options: Partial<ReconcileOptions> = {
        map: { reference: { column: "transactionId", isNegated: false }, amount: { column: "amount", isNegated: true } }
      }
      for (
        const content of [
          Buffer.from(text.replace("UTF-8", "ISO-8859-1"), "latin1"),
          Buffer.from(`\ufeff${text.replace("UTF-8", "UTF-16")}`, "utf16le")
        ]
      ) {
        const result = yield* compared(content, options)
        assert.deepStrictEqual(result.totals.different, {
          entries: 3,
          lines: 3,
          records: 3,
          there: -5025n - 7n + 2000n,
          fee: 0n,
          here: 5025n + 7n - 2000n
        })
        assert.deepStrictEqual(
          result.rows.filter(({ class: name }) => name === "missing here").map(({ keys }) => keys),
          [["Ü"]]
        )
      }
    }))

  it.live("takes two references of an entry that is not booked", () =>
    Effect.gen(function*() {
      const pending = statement(entries).replace("<EndToEndId>R-9</EndToEndId>", "$&<EndToEndId>R-8</EndToEndId>")
      assert.strictEqual((yield* compared(pending)).statement.camt?.notBooked, 1)
    }))

  it.live("takes two equal references, and two that are not compared", () =>
    Effect.gen(function*() {
      const equal = statement(entries).replace("<EndToEndId>R-1</EndToEndId>", "$&$&")
      const others = statement(entries).replace("<EndToEndId>R-1</EndToEndId>", "$&<TxId>1</TxId><TxId>2</TxId>")
      for (const text of [equal, others]) assert.strictEqual((yield* compared(text)).totals.matched.records, 4)
    }))

  it.live("refuses what is said about the notation of CSV, instead of ignoring it", () =>
    Effect.gen(function*() {
      assert.strictEqual(
        yield* problemOf(statement(entries), {
          decimal: ",",
          separator: "semicolon",
          dates: "dmy",
          hasParentheses: true
        }),
        "It is camt.053, which has one notation. Leave out --separator, --decimal, --dates, --parentheses, also in the settings that --statement names."
      )
      assert.match(yield* problemOf(statement(entries), { decimal: "." }), /Leave out --decimal, also/)
    }))

  it.live("says which given column camt.053 does not have", () =>
    Effect.gen(function*() {
      const mapped = (field: string, column: string) =>
        problemOf(statement(entries), { map: { [field]: { column, isNegated: false } } })
      assert.match(
        yield* mapped("reference", "foo"),
        /^camt\.053 has no column foo, which is given for reference\. Say which one it is with --map reference=COLUMN\./
      )
      assert.match(yield* mapped("reference", "entToEndId"), /--map reference=endToEndId\./)
      assert.match(yield* mapped("amount", "Betrag"), /^The amount of camt\.053 is the column amount\./)
    }))

  const bomb = `<!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n`
  it.live.each(
    [
      [
        "an entity bomb",
        statement(entries, bomb).replace(">n<", ">&b;<"),
        /line 2: there is a document type \(DOCTYPE\)/
      ],
      [
        "an external entity",
        statement(entries, `<!DOCTYPE d SYSTEM "file:///etc/passwd">\n`),
        /document type \(DOCTYPE\)/
      ],
      ["a document type without an end", `<!DOCTYPE d [${"<!-- -->".repeat(50_000)}`, /document type \(DOCTYPE\)/],
      [
        "an unknown entity",
        statement(entries).replace(">n<", ">&x;<"),
        /line 5, column \d+: the XML is not well-formed: Invalid character entity/
      ],
      ["an open element", statement(entries).replace("</Stmt>", ""), /not well-formed: Unexpected close tag/],
      ["a second root", `${statement(entries)}<Document>`, /not well-formed: it has several roots/],
      ["a control character", statement(entries).replace("<Stmt>", "\u0001<Stmt>"), /it has a control character/],
      [
        "two amounts of an entry",
        statement(entries).replace("<CdtDbtInd>CRDT</CdtDbtInd><Sts>", `<Amt Ccy="EUR">1.00</Amt>$&`),
        /line 5, column \d+: an entry has two amounts \(Amt\)/
      ],
      [
        "two signs of an entry",
        statement(entries).replace("<CdtDbtInd>CRDT</CdtDbtInd><Sts>", "<CdtDbtInd>DBIT</CdtDbtInd>$&"),
        /line 5, column \d+: an amount has two signs \(CdtDbtInd\)/
      ],
      [
        "two references of a transaction",
        statement(entries).replace("<EndToEndId>R-1</EndToEndId>", "$&<EndToEndId>R-2</EndToEndId>"),
        /line 6, column \d+: an entry or transaction has two values of endToEndId/
      ],
      [
        "a repeated attribute",
        statement(entries).replace(`<Amt Ccy="EUR">150.25`, `<Amt Ccy="USD" Ccy="EUR">150.25`),
        /line 5, column \d+: the XML is not well-formed: an element has an attribute twice/
      ],
      [
        "an attribute that is repeated with another prefix",
        statement(entries).replace("<Stmt>", `<Stmt xmlns:a="urn:x" xmlns:b="urn:x" a:n="1" b:n="2">`),
        /an element has an attribute twice/
      ],
      ["a file that was cut", statement(entries).slice(0, -20), /not well-formed: Unclosed root tag/],
      [
        "another message",
        statement(entries).replaceAll("camt.053", "camt.054").replaceAll("BkToCstmrStmt", "BkToCstmrDbtCdtNtfctn"),
        /no statement of camt\.053, but camt\.054/
      ],
      ["other XML", "<html><body/></html>", /no statement of camt\.053/],
      ["no statement", `<Document xmlns="${namespace}"><BkToCstmrStmt/></Document>`, /has no statement of camt\.053/],
      [
        "two currencies",
        statement([...entries, { amount: "1", currency: "USD", day: "2024-05-01" }]),
        /currency is another one/
      ],
      [
        "a sum that is not that of its entry",
        statement([{ amount: "3", day: "2024-05-01", transactions: [["a", "1"], ["b", "1"]] }]),
        /do not add up/
      ],
      ["an amount in another notation", statement([{ amount: "1,50", day: "2024-05-01" }]), /no number of ISO 20022/],
      [
        "no sign",
        statement([{ amount: "1", day: "2024-05-01" }]).replaceAll(/<CdtDbtInd>CRDT<\/CdtDbtInd><Sts>/g, "<Sts>"),
        /neither CRDT nor DBIT/
      ],
      [
        "an element within an amount",
        statement([{ amount: "1<b/>20", day: "2024-05-01" }]),
        /an element stands within a value/
      ],
      [
        "an element within a reference",
        statement([{ amount: "1", day: "2024-05-01", transactions: [["A<b>1</b>", "1"]] }]),
        /an element stands within a value/
      ],
      [
        "an element within a sign",
        statement(entries).replace(">CRDT</CdtDbtInd><Sts>", ">DBIT<b/>CRDT</CdtDbtInd><Sts>"),
        /an element stands within a value/
      ],
      [
        "an element within a status",
        statement(entries).replace("<Sts><Cd>", "<Sts>PDNG<Cd>"),
        /an element stands within a value/
      ],
      ["deep elements", `<Document xmlns="${namespace}"><BkToCstmrStmt>${"<a>".repeat(100)}`, /more than 40 deep/],
      ["a long text", statement(entries).replace(">n<", `>${"x".repeat(100_000)}<`), /too long/],
      ["a long comment", `<Document xmlns="${namespace}"><!--${"x".repeat(4_000_000)}`, /too long/],
      ["an encoding that is not read", statement(entries).replace("UTF-8", "EBCDIC-CP-US"), /an encoding other than/],
      [
        "bytes that are not UTF-8",
        Buffer.from(statement(entries).replace(">n<", ">Ü<"), "latin1"),
        /line 5: there are bytes that are not UTF-8/
      ]
    ] as const
  )("is not read: %s", ([, content, problem]) =>
    Effect.gen(function*() {
      assert.match(yield* problemOf(content), problem)
    }))

  it.live("names its columns", () =>
    Effect.gen(function*() {
      const map = { reference: { column: "endtoendId", isNegated: false } }
      const near =
        /no column endtoendId, which is given for reference\. Say which one it is with --map reference=endToEndId/
      assert.match(yield* problemOf(statement(entries), { map }), near)
      assert.match(yield* problemOf(statement(entries), { on: ["contract", "amount"] }), /no column for contract/)
    }))
})
