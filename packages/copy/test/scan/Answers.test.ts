/** Bound parameters, searches and ready-made questions, over every kind of destination. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query as queryServer, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Effect, Layer, Stream } from "effect"
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import * as Destination from "../../src/destination/Destination.ts"
import {
  type Cell,
  columnValues,
  type FieldCondition,
  findInApi,
  findInCopy,
  type Found,
  query,
  Questions,
  scan,
  tables
} from "../../src/index.ts"
import { columnsOf, tableOf } from "../../src/plan/Columns.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const max = 9_007_199_254_740_991
/** So many of the largest amounts that their sum needs more than 64 bits. */
const many = 1_100
const hostile = `x' OR '1' = '1`

const data = {
  invoices: [
    ...Array.from(
      { length: many },
      (_, index) =>
        `{"id":"inv_${index}","amount":${max},"status":"paid","settlementDate":"2024-05-01","settlementTime":"1"}`
    ),
    ...Array.from(
      { length: many },
      (_, index) => `{"id":"neg_${index}","amount":${-max},"status":"paid","settlementDate":"2024-05-02"}`
    ),
    `{"id":"a","reference":"${hostile}","contract":"shared","status":"paid","settlementDate":"2024-06-01","amount":-7}`,
    `{"id":"b","reference":"other","status":null,"settlementDate":null,"amount":null}`,
    `{"id":"c","customerDocumentNumber":"shared","status":"open","settlementDate":"2024-05-01","paymentAmount":5}`
  ],
  payoutRequests: [
    `{"id":"shared","reference":"shared","amount":1.0,"customerDetails":{"name":"Ana SHARED Lima"}}`,
    `{"id":"p","customerId":"cus_1","amount":10,"fee":1,"customerDetails":{"name":"Zoë NÚÑEZ"}}`
  ],
  payinSources: [`{"id":"s","customerDetails":{"documentNumber":"shared"}}`]
}

type List = keyof typeof data
const fill = (destination: Destination.StoredDestination) =>
  Effect.forEach(Object.keys(data) as ReadonlyArray<List>, (list) => scan(list)).pipe(
    Effect.provide(Layer.merge(Destination.layerInThisThread(destination), layerTest(data))),
    Effect.provide(NodeServices.layer)
  )

const kinds = {
  sqlite: Effect.map(temporaryFolder, (folder) => {
    const file = join(folder, "payments.db")
    return {
      destination: { _tag: "Sqlite", file } as const,
      run: (statement: string) => Effect.sync(() => execute(file, statement))
    }
  }),
  postgres: Effect.sync(() => {
    const schema = `t${randomUUID()}`
    return {
      destination: { _tag: "Postgres", url: urlOf(server, schema) } as const,
      run: (statement: string) =>
        Effect.asVoid(Effect.promise(() => queryServer(server, statement.replace("invoices", `"${schema}".invoices`))))
    }
  })
}

const rowsOf = (result: ReturnType<typeof query>) =>
  Effect.scoped(Effect.gen(function*() {
    const { columns, rows } = yield* result
    const text = (cell: Cell) => cell === null ? null : typeof cell === "string" ? cell : `#${cell.json}`
    return [columns, ...(yield* Stream.runCollect(Stream.flattenIterable(rows))).map((row) => row.map(text))]
  }))

const summary = (found: ReadonlyArray<Found>) =>
  found.filter(({ list }) => Object.hasOwn(data, list.name)).map(({ complete, list, matches }) => [
    list.label,
    complete,
    ...matches.map(({ fields, id, isMissing }) => `${id}: ${fields.join(", ")}${isMissing ? " (missing)" : ""}`)
      .toSorted()
  ])

describe.each(["sqlite", "postgres"] as const)("answers from %s", (kind) => {
  it.live(
    "binds parameters, finds exact and partial texts in every column, and sums exactly",
    () =>
      Effect.gen(function*() {
        const { destination, run } = yield* kinds[kind]
        yield* fill(destination)

        // A text that would be SQL selects only itself.
        const bound = "SELECT id, $2 AS also FROM invoices WHERE reference = $1"
        assert.deepStrictEqual(yield* rowsOf(query(destination, bound, [hostile, "'"])), [["id", "also"], ["a", "'"]])

        assert.deepStrictEqual(summary(yield* findInCopy(destination, { text: "shared", limit: 10 })), [
          ["payout-requests", true, "shared: id, reference"],
          ["payin-sources", true, "s: customerDetails.documentNumber"],
          ["invoices", true, "a: contract", "c: customerDocumentNumber"]
        ])
        assert.deepStrictEqual(summary(yield* findInCopy(destination, { text: hostile, limit: 10 })).at(-1), [
          "invoices",
          true,
          "a: reference"
        ])
        yield* run("UPDATE invoices SET missing_since = '2024-06-02T00:00:00.000Z' WHERE id = 'a'")
        const partial = yield* findInCopy(destination, { text: "hareD", limit: 1, comparison: "contains" })
        assert.deepStrictEqual(summary(partial).slice(0, 2), [
          ["payout-requests", true, "shared: id, reference, customerDetails.name"],
          ["payin-sources", true, "s: customerDetails.documentNumber"]
        ])
        assert.deepInclude(partial[2], { complete: false })
        assert.strictEqual(partial[0]?.matches[0]?.raw, data.payoutRequests[0])
        // PostgreSQL folds letters by the locale of the database, here C, which has the letters of ASCII only.
        const wanted = kind === "sqlite" ? "zOE\u0308 núñez" : "zOë NÚÑez"
        const named = yield* findInCopy(destination, { text: wanted, limit: 1, comparison: "contains" })
        assert.deepStrictEqual(summary(named)[0], ["payout-requests", true, "p: customerDetails.name"])
        const [, , missing] = summary(
          yield* findInCopy(destination, { text: `OR '1`, limit: 5, comparison: "contains" })
        )
        assert.deepStrictEqual(missing, ["invoices", true, "a: reference (missing)"])
        // No database stores NUL, and the characters of SQL's patterns have no meaning.
        for (const text of kind === "sqlite" ? ["_hared"] : ["\0", "%", "_hared", "\ud800"]) {
          assert.deepStrictEqual(
            (yield* findInCopy(destination, { text, limit: 5, comparison: "contains" })).map(({ matches }) =>
              matches.length
            ),
            Lists.all.map(() => 0),
            JSON.stringify(text)
          )
        }

        const ask = (name: string, parameters?: Questions.QuestionParameters) => {
          const question = Questions.questions.find((candidate) => candidate.name === name)
          assert.isDefined(question, name)
          return rowsOf(Questions.answer(destination, question, parameters))
        }
        const total = String(BigInt(max) * BigInt(many))
        // The missing invoice of June does not count.
        assert.deepStrictEqual(yield* ask("settled-by-day"), [
          ["settlement_date", "records", "amount", "amount_null", "payment_amount", "payment_amount_null"],
          ["2024-05-01", `#${many + 1}`, `#${total}`, "#1", "#5", `#${many}`],
          ["2024-05-02", `#${many}`, `#-${total}`, "#0", null, `#${many}`],
          [null, "#1", null, "#1", null, "#1"]
        ])
        assert.deepStrictEqual((yield* ask("settled-by-month", { month: "2024-05" })).slice(1), [
          ["2024-05", `#${2 * many + 1}`, "#0", "#1", "#5", `#${2 * many}`]
        ])
        assert.deepStrictEqual((yield* ask("payouts-by-customer")).slice(1).map((row) => row.slice(0, 4)), [
          ["cus_1", "#1", "#10", "#0"],
          [null, "#1", "#1", "#0"]
        ])
        // Conditions select the records that the same conditions of a listing select. One statement has them all.
        const cases: ReadonlyArray<readonly [string, string, FieldCondition["operator"], string, number]> = [
          ["invoices-by-status", "amount", ">=", "0", many],
          ["invoices-by-status", "amount", "=", String(max), many],
          ["invoices-by-status", "amount", "!=", String(max), many + 2],
          ["invoices-by-status", "amount", "~", "9007", 2 * many],
          ["invoices-by-status", "status", "!=", "paid", 2],
          ["invoices-by-status", "settlementDate", ">=", "2024-05-02", many],
          ["invoices-by-status", "settlement_date", "<", "2024-05-02", many + 1],
          ["invoices-by-status", "settlementTime", "=", "1", many],
          ["invoices-by-status", "id", "~", "INV_", many],
          ["invoices-by-status", "reference", "present", "", 1],
          ["invoices-by-status", "reference", "absent", "", 2 * many + 1],
          ["invoices-by-status", "reference", "!=", hostile, 2 * many + 2],
          ["invoices-by-status", "reference", "=", "null", 2 * many + 1],
          ["invoices-by-status", "reference", "!=", "null", 1],
          ["invoices-by-status", "amount", "!=", "null", 2 * many],
          ["invoices-by-status", "amount", ">=", "9.007199254740991e15", many],
          ["payouts-by-status", "customerDetails.name", "~", "ana shared", 1],
          ["sources-by-status", "partialPayinsEnabled", "!=", "true", 1],
          ["sources-by-status", "partialPayinsEnabled", "=", "true", 0]
        ]
        const statementFor = (name: string, field: string, operator: FieldCondition["operator"], value: string) => {
          const path = { names: field.split("."), header: field }
          const where = operator === "present" || operator === "absent"
            ? [{ path, operator }]
            : [{ path, operator, value, isText: false }]
          const question = Questions.questions.find((candidate) => candidate.name === name)
          assert.isDefined(question, name)
          return Questions.statementOf(Destination.operations(destination).dialect, question, { where })
        }
        const parameters: Array<string> = []
        const counts = yield* Effect.forEach(cases, ([name, field, operator, value], index) =>
          Effect.map(statementFor(name, field, operator, value), (statement) => {
            const before = parameters.length
            parameters.push(...statement.parameters)
            const sql = statement.sql.replaceAll(/\$(\d+)/g, (_, number: string) =>
              `$${before + Number(number)}`)
            return `SELECT ${index} AS n, coalesce(sum(records), 0) FROM (${sql}) AS answer`
          }))
        assert.deepStrictEqual(
          (yield* rowsOf(query(destination, `${counts.join(" UNION ALL ")} ORDER BY n`, parameters))).slice(1),
          cases.map(([, , , , expected], index) => [`#${index}`, `#${expected}`])
        )
        for (const [field, value] of [["risk", "1"], ["amount", "1.5"], ["amount", "9".repeat(20)]] as const) {
          const refused = yield* Effect.flip(statementFor("invoices-by-status", field, "=", value))
          assert.include(refused.message, field)
        }
        // The values of columns that identify nobody, the most frequent first, and of no other column.
        const values = (yield* columnValues(destination)).filter((column) =>
          column.values.length > 0
        )
        assert.deepStrictEqual(
          values.map(({ column, hasMore, table, values: found }) => [table, column, hasMore, ...found]),
          [
            ["invoices", "status", false, "paid", "open"],
            ["invoices", "settlement_time", false, "1"]
          ]
        )
        // Every documented table and column exists. One statement reads them all, and runs all questions, because SQLite needs a process for each statement.
        const sum = Destination.operations(destination).dialect.exactSum
        const described = tables.map(({ columns, name }) =>
          `SELECT '${name}' AS name, count(*) AS n FROM (SELECT ${
            columns.map((column) => column.name).join(", ")
          } FROM ${name} LIMIT 1) AS read`
        )
        const all = Questions.questions.map(({ chart, columns, name, sql }) =>
          `SELECT '${name}' AS name, count(*) AS n FROM (
          SELECT ${[...columns, ...chart.x, chart.y].join(" || ")} FROM (${
            sql(sum, { nowMs: 0, day: "1970-01-01", hasMonth: true })
          }) AS answer
        ) AS read`
        )
        assert.deepStrictEqual(
          (yield* rowsOf(query(destination, [...described, ...all].join(" UNION ALL "), ["2024-05"]))).slice(1).map((
            row
          ) => row[0]),
          [...tables, ...Questions.questions].map(({ name }) => name)
        )
      }).pipe(Effect.scoped)
  )
})

it.effect("finds a text through every filter of the service, and says when more remains", () =>
  Effect.gen(function*() {
    const find = (text: string, limit: number) => Effect.map(Stream.runCollect(findInApi(text, limit)), summary)
    assert.deepStrictEqual(yield* find("shared", 10), [
      ["payout-requests", true, "shared: reference"],
      ["payin-sources", true],
      ["invoices", true, "a: contract", "c: customerDocumentNumber"]
    ])
    assert.deepStrictEqual(yield* find("1", 2), [
      ["payout-requests", true],
      ["payin-sources", true],
      ["invoices", false, "inv_0: settlementTime", "inv_1: settlementTime"]
    ])
  }).pipe(Effect.provide(layerTest(data))))

it("names existing fields and unique names in every question", () => {
  const names = Questions.questions.map(({ name }) => name)
  assert.deepStrictEqual(names, [...new Set(names)])
  for (const { columns, fields, labels, list, monthOf } of Questions.questions) {
    assert.includeMembers([...columns], [...labels])
    for (const field of [...fields, monthOf]) assert.property(list.record.fields, field)
    assert.property(Lists.dateFields(list), monthOf)
  }
})

it("says of every column of a list what its field means, in the words of the records", () => {
  const source = readFileSync(join(import.meta.dirname, "../../../core/src/model/Records.ts"), "utf8")
  const words = new Map<string, Array<string>>()
  for (const [, text = "", field = ""] of source.matchAll(/\/\*\* (.*?) \*\/\s+(\w+):/g)) {
    const sentence = text.replaceAll("`", "").replace(". Can be filtered by", "").replace(/\.$/, "").toLowerCase()
    words.set(field, [...words.get(field) ?? [], sentence])
  }
  for (const list of Lists.all) {
    const table = tables.find(({ name }) => name === tableOf(list))
    for (const { name, path } of columnsOf(list)) {
      const { description } = table?.columns.find((column) => column.name === name) ?? { description: "" }
      assert.isTrue(
        words.get(path.at(-1) ?? "")?.some((sentence) => description.toLowerCase().endsWith(sentence)),
        `${name}: ${description}`
      )
    }
  }
})
