/** Journals: every transaction balances, whatever its texts contain, and hledger and Beancount read them where they are installed. */
import { assert, describe, it } from "@effect/vitest"
import { type Cell, Questions } from "@payments/copy"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import type { JournalSettings } from "@payments/program"
import { payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { diceOf, seed } from "@payments/testkit/Seed"
import { spawnSync } from "@payments/testkit/TestProcess"
import { ConfigProvider, Effect } from "effect"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type JournalFormat, journalFormats, makeJournal } from "../../src/output/Journal.ts"
import { runInProcess } from "../program/InProcess.ts"

const settings: JournalSettings = {
  unit: "cents",
  commodity: "EUR",
  clearing_account: "Assets:Clearing",
  accounts: { invoices: "Income:Invoices", "payout-requests": "Liabilities:Müller-2" }
}

interface Read {
  readonly day: string
  readonly texts: string
  readonly postings: ReadonlyArray<
    { readonly account: string; readonly thousandths: bigint; readonly commodity: string }
  >
}

/** Reads the transactions of either format, and fails at a line that neither has. */
const transactionsIn = (text: string): ReadonlyArray<Read> => {
  const found: Array<Read> = []
  for (const line of text.split("\n")) {
    if (/^(?:|;.*|decimal-mark \.|commodity 1000\.0* \S+|account \S+|1900-01-01 open \S+ \S+|  id: ".*")$/.test(line)) {
      continue
    }
    const [, day, texts = ""] = /^(\d{4}-\d\d-\d\d) \* (.*)$/.exec(line) ?? []
    if (day !== undefined) {
      found.push({ day, texts, postings: [] })
      continue
    }
    const [, account = "", sign, whole = "", fraction = "", commodity = ""] =
      /^ {2}(\S+) {2}(-?)(\d+)(?:\.(\d+))? (\S+)$/.exec(line) ?? assert.fail(`not a line of a journal: ${line}`)
    const last = found.at(-1) ?? assert.fail("a posting before a transaction")
    const thousandths = BigInt(`${sign}${whole}${fraction.padEnd(3, "0")}`)
    found[found.length - 1] = { ...last, postings: [...last.postings, { account, thousandths, commodity }] }
  }
  return found
}

const assertBalanced = (transactions: ReadonlyArray<Read>) => {
  for (const { postings } of transactions) {
    assert.lengthOf(postings, 2)
    assert.strictEqual(postings.reduce((sum, { thousandths }) => sum + thousandths, 0n), 0n)
  }
}

const programs: { readonly [format in JournalFormat]: (file: string) => readonly [string, ReadonlyArray<string>] } = {
  hledger: (file) => ["hledger", ["-f", file, "check", "--strict"]],
  beancount: (file) => ["bean-check", [file]]
}

/** Runs the real program over a journal, if it is installed. */
const assertAccepted = (format: JournalFormat, file: string) => {
  const [name, args] = programs[format](file)
  const folders = (process.env["PATH"] ?? "").split(":")
  if (!folders.some((folder) => existsSync(join(folder, name)))) return
  const { status, stderr } = spawnSync(name, [...args], {
    encoding: "utf8",
    env: { ...process.env, LC_ALL: "C.UTF-8" }
  })
  assert.deepStrictEqual({ status, stderr }, { status: 0, stderr: "" })
}

const columns = ["id", "payee", "date", "amount", "description"]
const options = { columns, settings, list: Lists.invoices, toOutput: (line: string) => line }

const journalOf = Effect.fnUntraced(function*(
  format: JournalFormat,
  rows: ReadonlyArray<ReadonlyArray<Cell>>,
  changed: Partial<Parameters<typeof makeJournal>[0]> = {}
) {
  const journal = yield* makeJournal({ ...options, format, ...changed })
  return { text: journal.rows(rows) + journal.end(), leftOut: journal.leftOut() }
})

const hostile = [
  "\n",
  "\r\n",
  "\t",
  ";",
  "|",
  "\"",
  "\\",
  "(",
  ")",
  "*",
  "!",
  "=",
  "  ",
  "x",
  "é",
  "\u0085",
  "\u2028",
  "#",
  ":",
  "@",
  "{",
  "😀",
  "comment",
  "2024-01-01",
  "12 EUR"
]

describe("a journal", () => {
  it.effect.each(journalFormats)(
    `of %s balances, whatever the texts contain (PAYMENTS_SEED=${seed})`,
    (format) =>
      Effect.gen(function*() {
        const dice = diceOf(seed, "journals", format)
        const text = () =>
          dice.chance(0.1) ? null : Array.from({ length: dice.below(6) }, () => dice.pick(hostile)).join("")
        const rows = Array.from({ length: 400 }, (): ReadonlyArray<Cell> => {
          const amount = BigInt(dice.below(2_000_000_000)) * BigInt(dice.below(2_000_000_000)) * BigInt(dice.below(9)) -
            10n ** 17n
          return [text(), text(), `2024-02-${10 + dice.below(20)}`, { json: String(amount) }, text()]
        })
        const expected = rows.reduce((sum, row) => sum + BigInt((row[3] as { readonly json: string }).json), 0n)
        const journal = yield* journalOf(format, rows)
        assert.isUndefined(journal.leftOut)
        const transactions = transactionsIn(journal.text)
        assert.lengthOf(transactions, rows.length)
        assertBalanced(transactions)
        const clearing = transactions.flatMap(({ postings }) => postings).filter(({ account }) =>
          account === "Assets:Clearing"
        )
        assert.strictEqual(clearing.reduce((sum, { thousandths }) => sum + thousandths, 0n), expected * 10n)
        const file = join(yield* temporaryFolder, "books")
        writeFileSync(file, journal.text)
        assertAccepted(format, file)
      })
  )

  it.effect.each(
    [
      ["cents", "5", "0.05 EUR", "-0.05 EUR"],
      ["cents", "-123456", "-1234.56 EUR", "1234.56 EUR"],
      ["units", "9007199254740993", "9007199254740993 EUR", "-9007199254740993 EUR"],
      ["mills", "1", "0.001 EUR", "-0.001 EUR"],
      ["18", "1", "0.000000000000000001 EUR", "-0.000000000000000001 EUR"]
    ] as const
  )("writes an amount in %s exactly: %s is %s", ([unit, amount, clearing, other]) =>
    Effect.gen(function*() {
      for (const format of journalFormats) {
        const row = ["a", null, "2024-01-10T23:30:00-02:00", { json: amount }, "b"]
        const { text } = yield* journalOf(format, [row], { settings: { ...settings, unit } })
        assert.include(text, `2024-01-11 * ${format === "hledger" ? "(a) b" : "\"b\""}\n`)
        assert.include(text, `  Assets:Clearing  ${clearing}\n  Income:Invoices  ${other}\n`)
        const payout = yield* journalOf(format, [row], { settings: { ...settings, unit }, list: Lists.payoutRequests })
        assert.include(payout.text, `  Assets:Clearing  ${other}\n  Liabilities:Müller-2  ${clearing}\n`)
        const file = join(yield* temporaryFolder, "books")
        writeFileSync(file, text + payout.text.replaceAll(/^(?:commodity|.* open Assets|decimal-mark).*\n/gm, ""))
        assertAccepted(format, file)
      }
    }))

  it.effect("says which rows it leaves out, and drops none in silence", () =>
    Effect.gen(function*() {
      const rows = [
        ["a", null, "2024-01-10", { json: "1" }, null],
        ["b", null, null, { json: "2" }, null],
        ["c", null, "2024-01-10", null, null],
        ["d", null, "2024-01-10", { json: "1.5" }, null],
        ["e", null, "2024-02-30", { json: "4" }, null],
        ["f", null, "1066-10-14", { json: "4" }, null],
        ["g", null, "2024-01-10", "5", null]
      ]
      for (const format of journalFormats) {
        const { leftOut, text } = yield* journalOf(format, rows)
        const said =
          "6 rows are not in the journal: 3 without a day of 1900 to 2099 and 3 without a whole amount. The first one is row 2."
        assert.strictEqual(leftOut, said)
        assert.isTrue(text.endsWith(`; 1 transaction, Assets:Clearing gets 0.01 EUR.\n; ${said}\n`))
        assert.lengthOf(transactionsIn(text), 1)
      }
      const groups = yield* journalOf("hledger", [["2024-01-10", { json: "7" }, { json: "3" }]], {
        columns: ["settlement_date", "amount", "amount_null"]
      })
      assert.strictEqual(groups.leftOut, "Records without an amount in the groups of the transactions: 3.")
    }))

  it.effect("of a question books the amount that the question names, or is refused without advice for statements", () =>
    Effect.gen(function*() {
      const booked = Questions.questions.flatMap(({ journal, name }) => journal === undefined ? [] : [[name, journal]])
      assert.deepStrictEqual(booked, [
        ["settled-by-day", { date: "settlement_date", amount: "amount" }],
        ["settled-by-time", { date: "settlement_date", amount: "amount" }],
        ["paid-by-day", { date: "payment_date_day", amount: "payment_amount" }],
        ["payouts-by-day", { date: "created_at_day", amount: "amount" }],
        ["settlement-calendar", { date: "payment_day", amount: "payment_amount" }]
      ])
      for (const question of Questions.questions) {
        const { columns: named, journal, list } = question
        const made = makeJournal({ ...options, format: "hledger", columns: named, list, question })
        if (journal === undefined) {
          const { message } = yield* Effect.flip(made)
          assert.match(
            message,
            /^The answer to [a-z-]+ has no day, so it cannot be a journal\. Those of settled-by-day, /
          )
          assert.notInclude(message, "SELECT")
          continue
        }
        const row = named.map((name): Cell =>
          name === journal.date ? "2024-01-10" : { json: name === journal.amount ? "7" : "5" }
        )
        const text = (yield* made).rows([row])
        assert.match(text, /^2024-01-10 [^]*^ {2}Assets:Clearing {2}-?0\.07 EUR$/m)
      }
    }))

  it.effect.each(
    [
      [{ columns: ["id", "amount"] }, "A journal needs a column with the day. Name it: SELECT"],
      [{ columns: ["created_at", "settlement_date", "amount"] }, "A journal needs a column with the day."],
      [{ columns: ["date", "id"] }, "A journal needs a column with the amount."],
      [{ columns: ["date", "amount", "payment_amount"] }, "the statement has amount and payment_amount. Select only"],
      [{ columns: ["date", "amount", "amount"] }, "A journal books one amount"],
      [{ list: Lists.payinSources }, "A journal needs amounts, and payin sources have none."],
      [{ settings: { ...settings, accounts: {} } }, "set accounts.invoices of the source's journal"],
      [{ settings: { ...settings, clearing_account: "assets:clearing" } }, "Beancount has no account assets:clearing."]
    ] as const
  )("is refused with %o", ([changed, problem]) =>
    Effect.gen(function*() {
      const { message } = yield* Effect.flip(makeJournal({ ...options, format: "beancount", ...changed }))
      assert.include(message, problem)
    }))
})

const invoices = [
  `{"id":"a","amount":1234,"paymentAmount":1200,"reference":"one","paymentDate":"2024-01-09T10:00:00Z","settlementDate":"2024-01-10","status":"paid"}`,
  `{"id":"b","amount":66,"reference":"two; \\"x\\"","settlementDate":"2024-01-11","status":"paid"}`,
  `{"id":"c","amount":7,"status":"pending"}`
]

describe("payments query", () => {
  it.live("writes a journal with the accounts of the sources file", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const to = `sqlite:${folder}/p.db`
      yield* runInProcess(layerTest({ invoices }), ["export", "invoices", "--to", to])
      writeFileSync(
        join(folder, "payments.toml"),
        `[sources.shop]
base_url = "https://pay.example"
api_key_env = "KEY"
to = "sqlite:p.db"
[sources.shop.journal]
unit = "cents"
commodity = "EUR"
clearing_account = "Assets:Clearing"
accounts.invoices = "Income:Invoices"
`
      )
      const run = (...args: ReadonlyArray<string>) =>
        payments(["query", "--config", "payments.toml", "--from", to, ...args], { cwd: folder })
      const sql = "SELECT id, settlement_date, amount, reference AS description FROM invoices ORDER BY id"
      for (const [format, ending] of [["hledger", "journal"], ["beancount", "beancount"]] as const) {
        const all = yield* run(sql, "--output", `all.${ending}`)
        assert.strictEqual(all.code, 10)
        assert.include(
          all.stderr,
          "1 row is not in the journal: 1 without a day of 1900 to 2099. The first one is row 3."
        )
        const text = readFileSync(join(folder, `all.${ending}`), "utf8")
        assert.include(text, "1 row is not in the journal")
        assertBalanced(transactionsIn(text))
        assertAccepted(format, join(folder, `all.${ending}`))
        const days = yield* run("settled-by-day", "--where", "status=paid", "--format", format)
        assert.deepStrictEqual([days.code, transactionsIn(days.stdout).map(({ day, texts }) => [day, texts])], [0, [
          ["2024-01-10", format === "hledger" ? "() invoices" : "\"invoices\""],
          ["2024-01-11", format === "hledger" ? "() invoices" : "\"invoices\""]
        ]])
        assert.include(days.stderr, "The journal has no place for the columns records, ")
        // Its last lines are comments that say where it comes from.
        const end = days.stdout.trimEnd().split("\n").slice(-2)
        assert.strictEqual(end[0], `; Read from ${to}.`)
        assert.match(end[1] ?? "", /^; invoices: the last complete export ended at \d{4}-\d\d-\d\dT[\d:.]+Z\.$/)
        const then = yield* run(sql, "--at", "0", "--format", format)
        assert.include(then.stdout, "\n; The rows are those after change 0.")
        assert.notInclude(then.stdout, "the last complete export ended")
        // What was paid, and not what was to be paid.
        const [paid, calendar] = [
          yield* run("paid-by-day", "--format", format, "--month", "2024-01"),
          yield* run("settlement-calendar", "--format", format, "--month", "2024-01")
        ]
        for (const { stdout } of [paid, calendar]) {
          assert.deepStrictEqual(transactionsIn(stdout).map(({ day, postings }) => [day, postings[0]?.thousandths]), [
            ["2024-01-09", 12_000n]
          ])
        }
        const refused = yield* run("paid-by-method", "--format", format)
        assert.deepStrictEqual([refused.code, refused.stderr.includes("SELECT")], [2, false])
        const some = yield* run("settled-by-day", "--top", "1", "--output", `some.${ending}`)
        assert.deepStrictEqual([some.code, existsSync(join(folder, `some.${ending}`))], [2, false])
        assert.include(some.stderr, "A journal has every day of the answer. Leave --top out.")
      }
      const both = yield* run("SELECT id, settlement_date, amount, payment_amount FROM invoices", "--format", "hledger")
      assert.deepStrictEqual([both.code, both.stderr.includes("payment_amount AS amount")], [2, true])
      const omitting = `sqlite:${folder}/omitting.db`
      yield* runInProcess(layerTest({ invoices }), ["export", "invoices", "--to", omitting]).pipe(
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({ PAYMENTS_PERSONAL: "omit" })))
      )
      const named = yield* payments(
        ["query", "--config", "payments.toml", "--from", omitting, "--format", "hledger"].concat(
          "SELECT id, settlement_date, amount, description FROM invoices"
        ),
        { cwd: folder }
      )
      assert.include(named.stdout, "\n; The copy leaves description out, by its rule for personal data")
      const two = yield* run("SELECT 1 AS amount, '2024-01-10' AS date", "--format", "hledger")
      assert.deepStrictEqual([two.code, two.stderr.includes("A journal is of one list.")], [2, true])
      const unset = yield* payments(["query", sql, "--from", to, "--format", "hledger"])
      assert.strictEqual(unset.code, 2)
      assert.include(unset.stderr.replaceAll(/\s+/g, " "), "set unit, commodity, clearing_account and accounts in")
    }).pipe(Effect.scoped))
})
