import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { schemaOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Effect, Redacted } from "effect"
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import type { Destination, PersonalRule, ReconcileOptions } from "../../src/index.ts"
import { fill, reconciled, sqliteIn, written } from "./reconciling.ts"

interface Case {
  /** The id, the reference, the amount and the settlement date of each invoice. */
  readonly invoices: ReadonlyArray<
    readonly [id: string, reference: string | null, amount: number | string | null, day: string | null]
  >
  /** The rows of the statement, without its names of columns. */
  readonly lines: ReadonlyArray<string>
  readonly options?: Partial<ReconcileOptions>
}

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const run = ({ invoices, lines, options }: Case) =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const from: Destination.StoredDestination = { _tag: "Postgres", url: urlOf(server, schemaOf(folder)) }
    yield* fill(
      from,
      invoices.map(([id, reference, amount, day]) =>
        `{"id":"${id}","reference":${JSON.stringify(reference)},"amount":${amount},"settlementDate":${
          JSON.stringify(day)
        },"contract":"c"}`
      )
    )
    const file = written(folder, `reference,amount,settlementDate,fee\n${lines.join("\n")}\n`)
    return yield* reconciled({ from, file, ...options })
  })

/** Returns each entry as its class, its lines, the number of its records, the difference and why. */
const entriesOf = (given: Case) =>
  Effect.map(
    run(given),
    ({ entries }) =>
      entries.map(({ class: name, difference, firstLines, id, why }) =>
        [name, firstLines.join("+") || "-", id ?? "-", difference === null ? "" : String(difference), why ?? ""].join(
          " "
        ).trim()
      )
  )

const day = "2024-05-02"
const dated = { on: ["reference", "amount", "settlementDate"] }

const cases: ReadonlyArray<readonly [string, Case, ReadonlyArray<string>]> = [
  [
    "a record and a line with the same reference and another amount differ, with the sign of what the statement has more",
    {
      invoices: [["a", "A", 100, day], ["b", "B", 100, day]],
      lines: [`A,130,${day},`, `B,60,${day},`]
    },
    ["different 2 a 30 amount", "different 3 b -40 amount"]
  ],
  ["a line of two records is their sum", {
    invoices: [["a", "A", 100, day], ["b", "A", 50, day]],
    lines: [`A,150,${day},`]
  }, ["matched 2 a"]],
  ["two lines of a record are its parts", {
    invoices: [["a", "A", 100, day]],
    lines: [`A,60,${day},`, `A,40,${day},`]
  }, ["matched 2+3 a"]],
  ["a line is the sum of its records minus its fee", {
    invoices: [["a", "A", 100, day], ["b", "A", 50, day]],
    lines: [`A,147,${day},3`],
    options: { map: { fee: { column: "fee", isNegated: false } } }
  }, ["matched 2 a"]],
  ["a fee that the file has as a negative number", {
    invoices: [["a", "A", 100, day]],
    lines: [`A,97,${day},-3`],
    options: { map: { fee: { column: "fee", isNegated: true } } }
  }, ["matched 2 a"]],
  ["lines that are there twice are not paired by a guess", {
    invoices: [["a", "A", 100, day]],
    lines: [`A,100,${day},`, `A,100,${day},`]
  }, ["different 2+3 a 100 2 lines, 1 record"]],
  ["equal lines and equal records are paired", {
    invoices: [["a", "A", 100, day], ["b", "A", 100, day]],
    lines: [`A,100,${day},`, `A,100,${day},`]
  }, ["matched 2 a", "matched 3 b"]],
  ["several lines and records whose sums are equal stay different", {
    invoices: [["a", "A", 100, day], ["b", "A", 50, day]],
    lines: [`A,90,${day},`, `A,60,${day},`]
  }, ["different 2+3 a 0 2 lines, 2 records"]],
  ["a payment and its reversal are paired by their amounts", {
    invoices: [["a", "A", 100, day], ["b", "A", -100, day]],
    lines: [`A,-100,${day},`, `A,100,${day},`]
  }, ["matched 2 b", "matched 3 a"]],
  ["a record after the last day is expected, and one that is not settled", {
    invoices: [["a", "A", 100, "2024-05-03"], ["b", "B", 100, null], ["c", "C", 100, day]],
    lines: [`D,1,${day},`]
  }, ["missing there - c -100", "missing here 2 - 1", "expected - a -100", "expected - b -100"]],
  ["a record whose day cannot be read is not expected", {
    invoices: [["a", "A", 100, "03.05.2024"], ["b", "B", 100, null], ["c", "C", 100, ""], [
      "d",
      "D",
      100,
      "2024-05-32"
    ]],
    lines: [`X,1,${day},`]
  }, [
    "missing there - a -100",
    "missing there - d -100",
    "missing here 2 - 1",
    "expected - b -100",
    "expected - c -100"
  ]],
  ["a group with a day that cannot be read is not expected", {
    invoices: [["a", "A", 100, "03.05.2024"], ["b", "A", 50, "2024-06-01"], ["c", "B", 7, "2024-06-01"], [
      "d",
      "C",
      8,
      null
    ]],
    lines: [`X,1,${day},`],
    options: { on: ["amount"], group: "reference" }
  }, ["missing there - a -150", "missing here 2 - 1", "expected - c -7", "expected - d -8"]],
  ["a record whose last day with the tolerance is after the statement is expected", {
    invoices: [["a", "A", 100, "2024-05-01"], ["b", "B", 100, "2024-04-30"]],
    lines: [`D,1,${day},`],
    options: { ...dated, withinDays: 2 }
  }, ["missing there - b -100", "missing here 2 - 1", "expected - a -100"]],
  ["a record that is not due does not compete with one that is", {
    invoices: [["a", "A", 100, day], ["b", "A", 100, "2024-06-02"]],
    lines: [`A,100,${day},`]
  }, ["expected - b -100", "matched 2 a"]],
  ["the statement's last day can be given", {
    invoices: [["a", "A", 100, "2024-05-03"]],
    lines: [`D,1,${day},`],
    options: { through: 19_846 }
  }, ["missing there - a -100", "missing here 2 - 1"]],
  ["a date may be near", {
    invoices: [["a", "A", 100, "2024-05-01"], ["b", "B", 100, "2024-05-01"]],
    lines: [`A,100,2024-05-03,`, `B,100,2024-05-04,`],
    options: { ...dated, withinDays: 2 }
  }, ["different 3 b 0 date", "matched 2 a"]],
  ["amount and date differ", {
    invoices: [["a", "A", 100, "2024-05-01"]],
    lines: [`A,101,2024-05-03,`],
    options: dated
  }, ["different 2 a 1 amount, date"]],
  ["without a reference, amounts are paired by their dates, and what is ambiguous is named", {
    invoices: [["a", null, 100, "2024-05-01"], ["b", null, 100, "2024-05-05"], ["c", null, 7, "2024-05-01"], [
      "d",
      null,
      7,
      "2024-05-02"
    ]],
    lines: [`,100,2024-05-02,`, `,100,2024-05-06,`, `,7,2024-05-03,`],
    options: { on: ["amount", "settlementDate"], withinDays: 2 }
  }, ["different 4 c -7 1 line, 2 records with this amount", "matched 2 a", "matched 3 b"]],
  ["empty references are never joined", {
    invoices: [["a", null, 100, day], ["b", " ", 100, day]],
    lines: [`,100,${day},`, `  ,100,${day},`]
  }, [
    "missing there - a -100 nothing to compare it by",
    "missing there - b -100 nothing to compare it by",
    "missing here 2 - 100 nothing to compare it by",
    "missing here 3 - 100 nothing to compare it by"
  ]],
  ["amounts beyond 2^53 are compared exactly", {
    invoices: [["a", "A", "9007199254740993", day], ["b", "B", "9223372036854775807", day]],
    lines: [`A,9007199254740992,${day},`, `B,9223372036854775807,${day},`]
  }, ["different 2 a -1 amount", "matched 3 b"]],
  ["an amount that is missing or is no integer is not zero", {
    invoices: [["a", "A", null, day], ["b", "B", 1.5, day]],
    lines: [`A,0,${day},`, `B,2,${day},`]
  }, ["different 2 a 0 the record has no amount", "different 3 b 2 the record has no amount"]],
  ["a payout is the sum of the records of its day, or of a day near it", {
    invoices: [["a", "A", 100, "2024-05-01"], ["b", "B", 50, "2024-05-01"], ["c", "C", 70, "2024-05-02"], [
      "d",
      "D",
      9,
      "2024-05-04"
    ]],
    lines: [`payout,150,2024-05-02,`, `payout,71,2024-05-02,`, `payout,9,2024-05-04,`],
    options: { on: ["amount"], group: "settlementDate", withinDays: 1 }
  }, ["different 3 c 1 amount", "matched 4 d", "matched 2 a"]],
  ["a payout of a day near it, with another amount, differs if no other is near", {
    invoices: [["a", "A", 100, "2024-05-01"], ["b", "B", 50, "2024-05-01"], ["c", "C", 70, "2024-05-20"]],
    lines: [`payout,149,2024-05-02,`, `payout,70,2024-05-22,`],
    options: { on: ["amount"], group: "settlementDate", withinDays: 1 }
  }, ["different 2 a -1 amount", "missing there - c -70", "missing here 3 - 70"]],
  ["a day's payouts may be several lines", {
    invoices: [["a", "A", 100, day], ["b", "B", 50, day]],
    lines: [`one,120,${day},`, `two,30,${day},`],
    options: { on: ["amount"], group: "settlement_date" }
  }, ["matched 2+3 a"]],
  ["records that a condition leaves out are on no side", {
    invoices: [["a", "A", 100, day], ["b", "B", 50, day]],
    lines: [`A,100,${day},`],
    options: {
      where: [{ path: { names: ["reference"], header: "reference" }, operator: "=", value: "A", isText: false }]
    }
  }, ["matched 2 a"]]
]

describe("a reconciliation", () => {
  it.live.each(cases)("%s", ([, given, expected]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* entriesOf(given), expected)
    }))

  it.live("leaves out rows that the service no longer returns", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const from = sqliteIn(folder)
      const [kept, gone] = [`{"id":"a","reference":"A","amount":1}`, `{"id":"b","reference":"B","amount":2}`]
      yield* fill(from, [kept, gone])
      yield* fill(from, [kept])
      yield* fill(from, [kept])
      const { totals } = yield* reconciled({ from, file: written(folder, "reference;amount\nA;1\n") })
      assert.deepStrictEqual([totals.matched.records, totals["missing there"].records], [1, 0])
    }))

  it.live("counts no record whose day cannot be read as due before the statement", () =>
    Effect.gen(function*() {
      for (const options of [{}, { on: ["amount"], group: "reference" }]) {
        const { dueBefore } = yield* run({
          invoices: [["a", "A", 100, "yesterday"], ["b", "B", 100, "2024-04-01"]],
          lines: [`X,1,${day},`],
          options
        })
        assert.strictEqual(dueBefore, 1)
      }
    }))

  it.live("changes nothing in the copy and leaves no file", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const from = sqliteIn(folder)
      yield* fill(from, [`{"id":"a","reference":"A","amount":1}`])
      const file = written(folder, "reference;amount\nA;1\n")
      const state = () => [
        readFileSync(join(folder, "payments.db")),
        statSync(join(folder, "payments.db")).mtimeMs,
        // SQLite's own files of readers.
        readdirSync(folder).filter((name) => !/-(?:wal|shm)$/.test(name)).toSorted()
      ]
      const before = state()
      yield* reconciled({ from, file })
      assert.deepStrictEqual(state(), before)
      assert.isTrue(existsSync(file))
    }))
})

const key = Redacted.make(new TextEncoder().encode("0123456789abcdef0123456789abcdef"))
const rule = (settings: Partial<PersonalRule>): PersonalRule => ({
  preset: "omit",
  fields: {},
  undocumented: "omit",
  key: undefined,
  ...settings
})

describe("a reconciliation of a copy without personal data", () => {
  const copyWith = (personal: PersonalRule) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const from = sqliteIn(folder)
      yield* fill(
        from,
        [`{"id":"a","reference":"A","customerDocumentNumber":"77","amount":100}`],
        { personal }
      )
      const file = written(folder, "reference;customerDocumentNumber;amount\nA;77;100\n")
      return (
        on: ReadonlyArray<string>,
        personalKey?: ReconcileOptions["personalKey"],
        where: ReconcileOptions["where"] = []
      ) => reconciled({ from, file, on, personalKey, where })
    })

  it.live("says that a field is omitted, and joins it with nothing", () =>
    Effect.gen(function*() {
      const compare = yield* copyWith(rule({}))
      const error = yield* Effect.flip(compare(["customerDocumentNumber", "amount"]))
      assert.match(error.message, /customerDocumentNumber is omitted from this copy by its rule for personal data/)
      assert.strictEqual((yield* compare(["reference", "amount"])).totals.matched.records, 1)
    }))

  it.live("compares pseudonyms with the key of the copy only", () =>
    Effect.gen(function*() {
      const compare = yield* copyWith(rule({ preset: "pseudonymize", key }))
      const on = ["customerDocumentNumber", "amount"]
      assert.strictEqual((yield* compare(on, key)).totals.matched.records, 1)
      assert.match(
        (yield* Effect.flip(compare(on))).message,
        /pseudonyms of customerDocumentNumber.*the personal key, which is not set/
      )
      const other = Redacted.make(new TextEncoder().encode("x".repeat(32)))
      assert.match((yield* Effect.flip(compare(on, other))).message, /another one is set/)
    }))

  it.live("says that a field is omitted next to pseudonyms of others", () =>
    Effect.gen(function*() {
      const compare = yield* copyWith(rule({ preset: "pseudonymize", fields: { customerDocumentNumber: "omit" }, key }))
      const error = yield* Effect.flip(compare(["customerDocumentNumber", "amount"], key))
      assert.match(error.message, /customerDocumentNumber is omitted from this copy/)
    }))

  it.live("has no condition on a field that is omitted or pseudonymized", () =>
    Effect.gen(function*() {
      const on = ["reference", "amount"]
      for (
        const [personal, problem] of [
          [rule({}), /customerDocumentNumber is omitted from this copy by its rule for personal data/],
          [rule({ preset: "pseudonymize", key }), /customerDocumentNumber is pseudonymized in this copy by its rule/]
        ] as const
      ) {
        const compare = yield* copyWith(personal)
        for (const header of ["customerDocumentNumber", "customer_document_number"]) {
          const path = { names: [header], header }
          for (
            const condition of [
              { path, operator: "=", value: "77", isText: false },
              { path, operator: "!=", value: "77", isText: false },
              { path, operator: "absent" }
            ] as const
          ) {
            const { message } = yield* Effect.flip(compare(on, key, [condition]))
            assert.match(message, problem)
            assert.notInclude(message, "77")
          }
        }
        const kept = {
          path: { names: ["reference"], header: "reference" },
          operator: "=",
          value: "A",
          isText: false
        } as const
        assert.strictEqual((yield* compare(on, key, [kept])).totals.matched.records, 1)
      }
    }))
})
