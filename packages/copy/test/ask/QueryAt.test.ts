import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query as runSql, schemaOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { type Dice, diceOf, seed } from "@payments/testkit/Seed"
import { Duration, Effect, Fiber, Layer, Redacted, Result, Stream } from "effect"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterAll, beforeAll } from "vitest"
import { asOfIn } from "../../src/ask/Query.ts"
import { prune } from "../../src/ask/Retention.ts"
import {
  type Cell,
  Destination,
  erase,
  type NamedPoint,
  query,
  queryAt,
  QueryError,
  type QueryResult,
  Questions,
  rewrite,
  scan,
  type ScanOptions
} from "../../src/index.ts"
import { layoutOf, tableOf } from "../../src/plan/Columns.ts"
import { keepAll } from "../../src/rule/Rule.ts"
import { openAsOf } from "../../src/sqlite/SqliteAsOf.ts"
import { functionOptions } from "../../src/sqlite/SqliteClient.ts"
import { begin } from "../../src/sqlite/SqliteQuery.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const kinds = ["sqlite", "files", "postgres"] as const

const opened = (kind: typeof kinds[number]) =>
  Effect.map(temporaryFolder, (folder): Destination.StoredDestination =>
    kind === "sqlite"
      ? { _tag: "Sqlite", file: join(folder, "payments.db") }
      : kind === "files"
      ? {
        _tag: "Files",
        folder: join(folder, "files"),
        format: { format: "ndjson", compress: "none", formulas: "escape" }
      }
      : { _tag: "Postgres", url: urlOf(server, schemaOf(folder)) })

type Texts = { readonly [name in Lists.ListName]: ReadonlyArray<string> }

const key = Redacted.make(new TextEncoder().encode("0123456789abcdef0123456789abcdef"))

const fill = (destination: Destination.StoredDestination, texts: Partial<Texts>, options: ScanOptions = {}) =>
  Effect.forEach(Lists.all.filter(({ name }) => texts[name] !== undefined), ({ name }) =>
    scan(name, { missingLimit: 1, personal: { ...keepAll, key }, ...options })).pipe(
      Effect.provide(Layer.merge(Destination.layerInThisThread(destination), layerTest(texts))),
      Effect.provide(NodeServices.layer)
    )

interface Statement {
  readonly sql: string
  readonly parameters?: ReadonlyArray<string>
}

interface Answer {
  readonly columns: ReadonlyArray<string>
  readonly rows: ReadonlyArray<ReadonlyArray<Cell>>
}

/** Returns the answer of a statement, as `QueryProcess.ts` computes it: without a process, because one takes a second. */
const answerIn = (db: DatabaseSync, { parameters, sql }: Statement): Answer => {
  const { columns, next } = begin(
    {
      run: (text) => db.exec(text),
      prepare: (text) => db.prepare(text),
      aggregate: (name, options) => db.aggregate(name, options),
      function: (name, call) => db.function(name, functionOptions, call)
    },
    sql,
    parameters
  )
  const rows: Array<ReadonlyArray<Cell>> = []
  for (let chunk = next(); chunk.length > 0; chunk = next()) rows.push(...chunk)
  db.close()
  return { columns, rows }
}

const collected = <E, R>(result: Effect.Effect<QueryResult, E, R>) =>
  Effect.flatMap(result, ({ columns, rows }) =>
    Effect.map(Stream.runCollect(rows), (chunks): Answer => ({ columns, rows: chunks.flat() })))

const answerNow = (destination: Destination.StoredDestination, statement: Statement) =>
  Effect.suspend(() => {
    const { sqliteFile } = Destination.operations(destination)
    return sqliteFile === undefined
      ? Effect.scoped(collected(query(destination, statement.sql, statement.parameters)))
      : Effect.succeed(answerIn(new DatabaseSync(sqliteFile, { readOnly: true }), statement))
  })

const answerAt = (destination: Destination.StoredDestination, statement: Statement, point: NamedPoint) =>
  Effect.scoped(Effect.gen(function*() {
    const { sqliteFile } = Destination.operations(destination)
    if (sqliteFile === undefined) return yield* collected(queryAt(destination, statement, point))
    const { asOf } = yield* asOfIn(yield* Destination.snapshot(destination), statement.sql, point)
    return answerIn(openAsOf(sqliteFile, statement.sql, asOf), statement)
  }))

const lastChange = (destination: Destination.StoredDestination) =>
  Effect.scoped(
    Effect.flatMap(Destination.reader(destination), ({ changeRange }) => Effect.map(changeRange, ({ last }) => last))
  )

const maintained = <A, E>(
  destination: Destination.StoredDestination,
  use: (opened: Effect.Success<ReturnType<typeof Destination.maintenance>>) => Effect.Effect<A, E>
) => Effect.scoped(Effect.flatMap(Destination.maintenance(destination), use))

/** Numbers as services may spell them: exact, too large, in other forms. */
const numbers = [
  "0", "-0", "7", "-12", "12.0", "12.5", "1e3", "25e-1", "1500e-2", "9007199254740991", "9007199254740993", "1e400",
  "-9007199254740991", "9007199254740990.6", "123456789012345678901234567890", "0e1000", "1.000000000000000000000001",
  "null", `"12"`, "true", "[1]"
]

/** Texts with escapes, in JSON. */
const strings = [
  `"paid"`, `"void"`, `""`, `"caf\\u00e9"`, `"\\u0000 nul"`, `"half \\ud83d"`, `"\\udc00\\ud83d\\ude00"`, `"\\\\u0000"`,
  `"\\ud83d\\ud83d\\ude00\\ude00"`, `"\u{1f600} \\"quoted\\" \\\\"`, `"10"`, "12", "null", "false", `{"a":1}`, `["x"]`
]

const members = (dice: Dice, entries: ReadonlyArray<readonly [string, ReadonlyArray<string>]>) =>
  entries.filter(() => dice.chance(0.8)).map(([name, values]) => `"${name}":${dice.pick(values)}`).join(",")

const days = [`"2024-05-01"`, `"2024-05-02T10:00:00.000Z"`, "null"]

const recordOf = (dice: Dice, list: Lists.ListName, id: string): string => {
  const customer = `cust-${dice.below(3)}-x`
  const details = `{"name":${dice.pick([...strings, `"Name ${customer}"`])},"documentNumber":"doc-${customer}"}`
  const fields = {
    invoices: () =>
      members(dice, [
        ["amount", numbers], ["paymentAmount", numbers], ["status", strings], ["description", strings],
        ["settlementDate", days], ["settlementTime", strings], ["customerDocumentNumber", [`"doc-${customer}"`]],
        ["paymentMethod", strings], ["\\u0061mount", numbers], ["undocumented", strings]
      ]),
    payoutRequests: () =>
      members(dice, [
        ["amount", numbers], ["fee", numbers], ["status", strings], ["createdAt", days],
        ["customerId", [`"${customer}"`]], ["customerDetails", [details, details, details, "null", `"text"`, "[1]"]]
      ]),
    payinSources: () =>
      members(dice, [
        ["partialPayinsEnabled", ["true", "false", "null", `"true"`, "1"]], ["status", strings],
        ["status", strings], ["createdAt", days], ["customerId", [`"${customer}"`]]
      ])
  }[list]()
  return `{"id":"${id}"${fields === "" ? "" : `,${fields}`}}`
}

/** One statement with the answers to all questions: each statement over an SQLite file is a process. */
const questionsStatement = Effect.fnUntraced(function*(destination: Destination.StoredDestination) {
  const { dialect } = Destination.operations(destination)
  const answers = yield* Effect.forEach(Questions.questions, (question) =>
    Effect.map(Questions.statementOf(dialect, question), ({ sql }) => {
      const columns = question.by.length + 1 + 2 * layoutOf(question.list).amounts.length
      const names = Array.from({ length: columns }, (_, index) => `c${index}`)
      const [array, group] = destination._tag === "Postgres"
        ? ["json_build_array", "json_agg"] as const
        : ["json_array", "json_group_array"] as const
      return `(SELECT ${group}(${array}(${names.join(", ")})) FROM (WITH q (${names.join(", ")}) AS (${sql}) SELECT * FROM q) AS q)`
    }))
  return { sql: `SELECT ${answers.join(", ")}` }
})

const rowStatements: ReadonlyArray<Statement> = Lists.all.map((list) => ({
  sql: `SELECT * FROM ${tableOf(list)} ORDER BY "row"`
}))

const statementsOf = (destination: Destination.StoredDestination): ReadonlyArray<Statement> => [
  {
    sql: `SELECT (SELECT count(*) FROM changes WHERE changes.id = i.id AND list = 'invoices'), changed_at, raw, hash
      FROM Invoices AS i WHERE EXISTS (SELECT 1 FROM "payin_sources") AND customer_document_number <> $1
      ORDER BY i.id -- the end;`,
    parameters: ["doc-cust-1-x"]
  },
  ...destination._tag === "Postgres"
    ? [
      // A row can be used without the names of its columns.
      { sql: "SELECT row_to_json(i), i IS NULL FROM invoices AS i ORDER BY id" },
      { sql: "WITH every AS (TABLE payout_requests) SELECT every::text FROM every ORDER BY id;" },
      {
        sql: `WITH invoices AS (SELECT id, status, amount FROM invoices WHERE missing_since IS NULL)
          SELECT i.id, p.* FROM invoices AS i LEFT JOIN payout_requests AS p ON p.status = i.status ORDER BY i.id, p.id`
      }
    ]
    : [
      // Comparisons convert values to the types of columns.
      { sql: "SELECT id, status > 5, typeof(amount), typeof(status) FROM invoices WHERE amount = '12' OR status = 12" },
      // Without an order, the rows come in the order of their numbers.
      { sql: "SELECT i.amount, p.status, i.id FROM invoices AS i LEFT JOIN payout_requests AS p ON p.status = i.status" }
    ]
]

interface KnownPoint {
  readonly at: number
  readonly time: string
  readonly answers: ReadonlyArray<Answer>
}

/** Exports a random history, and keeps the answers of each point when it was the newest. */
const history = Effect.fnUntraced(function*(
  destination: Destination.StoredDestination,
  statements: ReadonlyArray<Statement>,
  dice: Dice,
  between: (times: number, scanned: Texts) => Effect.Effect<unknown, unknown> = () => Effect.void
) {
  const texts = new Map(Lists.all.map(({ name }) => [name, new Map<string, string>()]))
  const points: Array<KnownPoint> = []
  for (let times = 0; times < 8; times++) {
    for (const { name } of Lists.all) {
      const records = texts.get(name) ?? new Map<string, string>()
      for (const id of records.keys()) if (times > 1 && dice.chance(0.15)) records.delete(id)
      for (let count = 0; count < 12; count++) {
        const id = `${name}-${dice.below(20)}`
        records.set(id, recordOf(dice, name, id))
      }
    }
    const scanned: Texts = {
      invoices: [...texts.get("invoices")?.values() ?? []],
      payoutRequests: [...texts.get("payoutRequests")?.values() ?? []],
      payinSources: [...texts.get("payinSources")?.values() ?? []]
    }
    // A second scan marks rows missing.
    for (let again = 0; again < 1 + dice.below(2); again++) yield* fill(destination, scanned)
    yield* between(times, scanned)
    const time = new Date().toISOString()
    yield* Effect.sleep("2 millis")
    const answers = yield* Effect.forEach(statements, (statement) => answerNow(destination, statement))
    points.push({ at: yield* lastChange(destination), time, answers })
  }
  return points
})

const assertSame = Effect.fnUntraced(function*(
  destination: Destination.StoredDestination,
  statements: ReadonlyArray<Statement>,
  { answers, at, time }: KnownPoint
) {
  for (const [index, statement] of statements.entries()) {
    const point = index % 2 === 0 ? at : { time }
    const found = yield* answerAt(destination, statement, point)
    assert.deepStrictEqual(found, answers[index], `after change ${at}: ${statement.sql}`)
  }
})

describe.each(kinds)("a query as of a point: %s", (kind) => {
  it.live("gives byte for byte what the same query gave when the point was the newest", () =>
    Effect.gen(function*() {
      const destination = yield* opened(kind)
      const statements = [
        ...kind === "files" ? [] : rowStatements,
        ...statementsOf(destination),
        yield* questionsStatement(destination),
        { sql: "SELECT * FROM changes ORDER BY seq" }
      ]
      const points = yield* history(destination, statements, diceOf(seed, "points", kind))
      for (const point of points) yield* assertSame(destination, statements, point)
    }).pipe(Effect.scoped), 120_000)
})
