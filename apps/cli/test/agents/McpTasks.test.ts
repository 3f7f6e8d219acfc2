/**
 * Tasks as an agent carries them out: a question, the calls of tools, and the figure that it needs. The expected figures are
 * computed from the records, without the program.
 */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { records } from "@payments/sandbox"
import { type Answer, type Arguments, connect } from "@payments/testkit/programs/McpClient"
import { sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { runInProcess } from "../program/InProcess.ts"

const size = 150

const textsOf = (name: Lists.ListName): ReadonlyArray<string> => {
  const { textAt } = records(name, size, 1, 0.1)
  return Array.from({ length: size }, (_, index) => textAt(index))
}

const texts = Lists.map((list) => textsOf(list.name))
// The copy differs from the service: the last export changed three invoices, and found two new ones.
const changed = texts.invoices.map((text, index) =>
  index < 3 ? text.replace(/"status":"[^"]*"/, `"status":"refunded"`) : text
)
const copied = { ...texts, invoices: changed }
const first = { ...texts, invoices: texts.invoices.slice(0, -2) }

type Fields = Readonly<Record<string, unknown>>
const parsed = (list: ReadonlyArray<string>): ReadonlyArray<Fields> => list.map((text) => JSON.parse(text) as Fields) // objects
const api = Lists.map((list) => parsed(texts[list.name]))
const copy = Lists.map((list) => parsed(copied[list.name]))

const sum = (rows: ReadonlyArray<Fields>, field: string): number =>
  Number(rows.reduce((total, row) => total + BigInt(Number(row[field] ?? 0)), 0n))
const withStatus = (rows: ReadonlyArray<Fields>, status: string) => rows.filter((row) => row["status"] === status)
const different = (rows: ReadonlyArray<Fields>, field: string) => new Set(rows.map((row) => row[field])).size
const startsWith = (rows: ReadonlyArray<Fields>, field: string, text: string) =>
  rows.filter((row) => String(row[field]).startsWith(text))
const most = (rows: ReadonlyArray<Fields>, field: string) => Math.max(...rows.map((row) => Number(row[field] ?? 0)))

/** What a task uses: calls, and the first cell of a query. */
interface Agent {
  readonly call: (tool: string, given: Arguments) => Promise<Answer>
  /** Follows `next` until nothing follows, and returns all data. */
  readonly all: (tool: string, given: Arguments) => Promise<ReadonlyArray<Fields>>
  readonly cell: (sql: string) => Promise<unknown>
}

interface Task {
  readonly question: string
  readonly run: (agent: Agent) => Promise<unknown>
  readonly expected: unknown
}

/** A query whose first cell is the figure. */
const figure = (question: string, sql: string, expected: unknown): Task => ({
  question,
  run: ({ cell }) => cell(sql),
  expected
})

const rowOf = async ({ call }: Agent, question: string, given: Arguments, column: string, at = 0) => {
  const { columns = [], data } = await call("ask", { question, ...given })
  return (data[at] as ReadonlyArray<unknown>)[columns.indexOf(column)] // a row of an answer
}

const anInvoice = api.invoices[7] ?? {}
const aPayout = api.payoutRequests[9] ?? {}
const aSource = api.payinSources[11] ?? {}
const aDay = String(anInvoice["settlementDate"])
const settled = copy.invoices.filter((row) => row["settlementDate"] === aDay)

const tasks: ReadonlyArray<Task> = [
  figure("How many invoices are there?", "SELECT count(*) FROM invoices", size),
  figure("How many payout requests are there?", "SELECT count(*) FROM payout_requests", size),
  figure("How many payin sources are there?", "SELECT count(*) FROM payin_sources", size),
  figure("What do the invoices add up to?", "SELECT sum(amount) FROM invoices", sum(copy.invoices, "amount")),
  figure("How much was paid?", "SELECT sum(payment_amount) FROM invoices", sum(copy.invoices, "paymentAmount")),
  figure(
    "What do the payouts add up to?",
    "SELECT sum(amount) FROM payout_requests",
    sum(copy.payoutRequests, "amount")
  ),
  figure("How much was sent?", "SELECT sum(amount_sent) FROM payout_requests", sum(copy.payoutRequests, "amountSent")),
  figure("What were the fees?", "SELECT sum(fee) FROM payout_requests", sum(copy.payoutRequests, "fee")),
  figure(
    "How many invoices are paid?",
    "SELECT count(*) FROM invoices WHERE status = 'paid'",
    withStatus(copy.invoices, "paid").length
  ),
  figure(
    "How many payouts failed?",
    "SELECT count(*) FROM payout_requests WHERE status = 'failed'",
    withStatus(copy.payoutRequests, "failed").length
  ),
  figure(
    "How many sources are authorized?",
    "SELECT count(*) FROM payin_sources WHERE status = 'authorized'",
    withStatus(copy.payinSources, "authorized").length
  ),
  figure(
    "How many different statuses do payouts have?",
    "SELECT count(DISTINCT status) FROM payout_requests",
    different(copy.payoutRequests, "status")
  ),
  figure("What is the largest invoice?", "SELECT max(amount) FROM invoices", most(copy.invoices, "amount")),
  figure("What is the largest payout?", "SELECT max(amount) FROM payout_requests", most(copy.payoutRequests, "amount")),
  figure(
    "What was settled on one day?",
    `SELECT sum(amount) FROM invoices WHERE settlement_date = '${aDay}'`,
    sum(settled, "amount")
  ),
  figure(
    "How many invoices were settled on one day?",
    `SELECT count(*) FROM invoices WHERE settlement_date = '${aDay}'`,
    settled.length
  ),
  figure(
    "On how many days was money settled?",
    "SELECT count(DISTINCT settlement_date) FROM invoices",
    different(copy.invoices.filter((row) => typeof row["settlementDate"] === "string"), "settlementDate")
  ),
  figure(
    "How many invoices were paid in January?",
    "SELECT count(*) FROM invoices WHERE payment_date LIKE '2024-01-%'",
    startsWith(copy.invoices, "paymentDate", "2024-01-").length
  ),
  figure(
    "How many invoices were refunded?",
    "SELECT count(*) FROM invoices WHERE status = 'refunded'",
    withStatus(copy.invoices, "refunded").length
  ),
  figure("How many rows are missing?", "SELECT count(*) FROM invoices WHERE missing_since IS NOT NULL", 0),
  figure("How many changes are there?", "SELECT count(*) FROM changes", 5),
  figure("How many changes are updates?", "SELECT count(*) FROM changes WHERE kind = 'update'", 3),
  figure(
    "How many invoices does each payment method have at least?",
    "SELECT min(n) FROM (SELECT count(*) AS n FROM invoices GROUP BY payment_method)",
    Math.min(
      ...[...Map.groupBy(copy.invoices, (row) => row["paymentMethod"] ?? null).values()].map((rows) => rows.length)
    )
  ),
  figure(
    "How many sources allow partial payins?",
    "SELECT count(*) FROM payin_sources WHERE partial_payins_enabled",
    copy.payinSources.filter((row) => row["partialPayinsEnabled"] === true).length
  ),
  figure(
    "Which invoice has this reference?",
    `SELECT id FROM invoices WHERE reference = '${String(anInvoice["reference"])}'`,
    anInvoice["id"]
  ),
  figure(
    "What is the amount of this payout?",
    `SELECT amount FROM payout_requests WHERE id = '${String(aPayout["id"])}'`,
    aPayout["amount"]
  ),
  figure(
    "What is four times the sum beyond 64 bits?",
    "SELECT exact_sum(9223372036854775807) FROM (VALUES (1), (2), (3), (4))",
    "36893488147419103228"
  ),
  {
    question: "What was settled on the first day?",
    run: (agent) => rowOf(agent, "settled-by-day", {}, "amount"),
    expected: sum(copy.invoices.filter((row) => row["settlementDate"] === "2024-01-02"), "amount")
  },
  {
    question: "How many days have settlements in January?",
    run: async ({ call }) => (await call("ask", { question: "settled-by-day", month: "2024-01" })).total,
    expected: different(startsWith(copy.invoices, "settlementDate", "2024-01"), "settlementDate")
  },
  {
    question: "What was settled in January?",
    run: (agent) => rowOf(agent, "settled-by-month", { month: "2024-01" }, "amount"),
    expected: sum(startsWith(copy.invoices, "settlementDate", "2024-01"), "amount")
  },
  {
    question: "How many invoices were settled in another year?",
    run: async ({ call }) => (await call("ask", { question: "settled-by-month", month: "1999-01" })).total,
    expected: 0
  },
  {
    question: "How many statuses do invoices have?",
    run: async ({ call }) => (await call("ask", { question: "invoices-by-status" })).total,
    expected: different(copy.invoices, "status")
  },
  {
    question: "How many groups of payouts by status are there, one row at a time?",
    run: async ({ call }) => {
      let answer = await call("ask", { question: "payouts-by-status", limit: 1 })
      let rows = answer.returned
      while (answer.next !== null) {
        // oxlint-disable-next-line no-await-in-loop -- each call needs the answer before it
        answer = await call(answer.next.tool, answer.next.arguments)
        rows += answer.returned
      }
      return rows === answer.total
    },
    expected: true
  },
  {
    question: "How many sources are there by status, in all?",
    run: async ({ call }) => {
      const { columns = [], data } = await call("ask", { question: "sources-by-status" })
      return data.reduce<number>(
        (all, row) => all + Number((row as ReadonlyArray<unknown>)[columns.indexOf("records")]),
        0
      )
    },
    expected: size
  },
  {
    question: "Is one page of invoices all of them?",
    run: async ({ call }) => (await call("list", { list: "invoices", limit: 100 })).complete,
    expected: false
  },
  {
    question: "How many invoices does the service have now?",
    run: async ({ all }) => (await all("list", { list: "invoices", limit: 100 })).length,
    expected: size
  },
  {
    question: "How many payouts does the service have now, 20 at a time?",
    run: async ({ all }) => (await all("list", { list: "payout-requests" })).length,
    expected: size
  },
  {
    question: "What do the service's payin sources look like: how many are pending?",
    run: async ({ all }) => withStatus(await all("list", { list: "payin-sources", limit: 100 }), "pending").length,
    expected: withStatus(api.payinSources, "pending").length
  },
  {
    question: "What do the service's invoices of one day add up to?",
    run: async ({ all }) =>
      sum(await all("list", { list: "invoices", filters: { settlementDate: aDay }, limit: 100 }), "amount"),
    expected: sum(api.invoices.filter((row) => row["settlementDate"] === aDay), "amount")
  },
  {
    question: "How many invoices of one settlement time does the service have?",
    run: async ({ all }) =>
      (await all("list", { list: "invoices", filters: { settlementTime: "2" }, limit: 100 })).length,
    expected: api.invoices.filter((row) => row["settlementTime"] === "2").length
  },
  {
    question: "What is the status of the invoice with this reference now?",
    run: async ({ call }) => {
      const { data } = await call("list", { list: "invoices", filters: { reference: anInvoice["reference"] } })
      return (data[0] as Fields)["status"]
    },
    expected: anInvoice["status"]
  },
  {
    question: "In which list is this reference, in the copy?",
    run: async ({ call }) => ((await call("find", { text: aPayout["reference"] })).data[0] as Fields)["list"],
    expected: "payout-requests"
  },
  {
    question: "In which list is this reference, in the service?",
    run: async ({ call }) =>
      ((await call("find", { text: aSource["reference"], where: "api" })).data[0] as Fields)["list"],
    expected: "payin-sources"
  },
  {
    question: "How many records have this id?",
    run: async ({ call }) => (await call("find", { text: anInvoice["id"] })).total,
    expected: 1
  },
  {
    question: "How many records have a text that is nowhere?",
    run: async ({ call }) => (await call("find", { text: "nowhere at all" })).total,
    expected: 0
  },
  {
    question: "Is one match of a common status all of them?",
    run: async ({ call }) => {
      const { complete, next, total } = await call("find", { text: "paid", limit: 1 })
      return [complete, total, next?.tool]
    },
    expected: [false, null, "find"]
  },
  {
    question: "How many changes are there, two at a time?",
    run: async ({ all }) => (await all("changes", { limit: 2 })).length,
    expected: 5
  },
  {
    question: "Which status did the first updated invoice get?",
    run: async ({ all }) => {
      const update = (await all("changes", { list: "invoices" })).find((change) => change["change"] === "update")
      return (update?.["after"] as Fields | undefined)?.["status"]
    },
    expected: "refunded"
  },
  {
    question: "How many changes do payouts have?",
    run: async ({ call }) => (await call("changes", { list: "payout-requests" })).total,
    expected: 0
  },
  {
    question: "How many changes came after the third?",
    run: async ({ call }) => (await call("changes", { after: 3 })).total,
    expected: 2
  },
  {
    question: "How old is the copy?",
    run: async ({ call }) => {
      const { ageSeconds } = await call("status", {})
      return ageSeconds !== null && ageSeconds < 600
    },
    expected: true
  },
  {
    question: "How many rows does the copy have in all?",
    run: async ({ call }) =>
      (await call("status", {})).data.reduce<number>((rows, list) => rows + Number((list as Fields)["rows"]), 0),
    expected: 3 * size
  },
  {
    question: "Is a page of rows of the copy all of them?",
    run: async ({ call }) => {
      const { complete, returned, total } = await call("query", {
        sql: "SELECT id FROM invoices ORDER BY id",
        limit: 10
      })
      return [complete, returned, total]
    },
    expected: [false, 10, size]
  },
  {
    question: "Which ids does the copy have, in pages?",
    run: async ({ all }) => (await all("query", { sql: "SELECT id FROM invoices ORDER BY id", limit: 60 })).flat(),
    expected: copy.invoices.map((row) => row["id"]).toSorted()
  }
]

describe("an agent", () => {
  it.live(
    `gets the right figure in ${tasks.length} tasks, and no partial answer without a mark`,
    () =>
      Effect.gen(function*() {
        assert.isAtLeast(tasks.length, 50)
        const folder = yield* temporaryFolder
        const to = `sqlite:${folder}/p.db`
        for (const data of [first, copied]) {
          const { code, err } = yield* runInProcess(layerTest(data), ["export", "--to", to])
          assert.strictEqual(code, 0, err)
        }
        const env = yield* sandboxEnv({ records: size, hostileText: 0.1 })
        const { call, stderr } = yield* connect(["--from", to], env)
        const all = async (tool: string, given: Arguments): Promise<ReadonlyArray<Fields>> => {
          const answer = await call(tool, given)
          const rows = answer.data as ReadonlyArray<Fields> // of a tool whose rows are objects
          if (answer.next === null) return rows
          assert.isFalse(answer.complete)
          return [...rows, ...await all(answer.next.tool, answer.next.arguments)]
        }
        const cell = async (sql: string) => {
          const { complete, data } = await call("query", { sql })
          assert.isTrue(complete)
          return (data[0] as ReadonlyArray<unknown>)[0] // rows of a query are arrays
        }
        yield* Effect.forEach(
          tasks,
          ({ expected, question, run }) =>
            Effect.map(
              Effect.promise(() => run({ call, all, cell })),
              (found) => assert.deepStrictEqual(found, expected, question)
            ),
          { concurrency: 4 }
        )
        assert.strictEqual(stderr(), "")
      }).pipe(Effect.scoped)
  )
})
