import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query as runSql, schemaOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { type Dice, diceOf, seed } from "@payments/testkit/Seed"
import { Clock, Duration, Effect, Fiber, Layer, Redacted, Result, Stream } from "effect"
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
  type QueryError,
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
import { plainTexts } from "../../src/statement/AsOf.ts"

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
  Effect.forEach(
    Lists.all.filter(({ name }) => texts[name] !== undefined),
    ({ name }) => scan(name, { missingLimit: 1, personal: { ...keepAll, key }, ...options })
  ).pipe(
    Effect.provide(Layer.merge(Destination.layerInThisThread(destination), layerTest(texts))),
    Effect.provide(NodeServices.layer)
  )

interface Statement {
  readonly sql: string
  readonly parameters?: ReadonlyArray<string>
  readonly isSearch?: boolean
}

interface Answer {
  readonly columns: ReadonlyArray<string>
  readonly rows: ReadonlyArray<ReadonlyArray<Cell>>
}

/** Returns the answer of a statement, as `QueryProcess.ts` computes it: without a process, because one takes a second. */
const answerIn = (open: () => DatabaseSync, statement: Statement) =>
  Effect.try({ try: () => answerOf(open(), statement), catch: (error) => error as QueryError })

const answerOf = (db: DatabaseSync, { parameters, sql }: Statement): Answer => {
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
  Effect.flatMap(
    result,
    ({ columns, rows }) => Effect.map(Stream.runCollect(rows), (chunks): Answer => ({ columns, rows: chunks.flat() }))
  )

const answerNow = (destination: Destination.StoredDestination, statement: Statement) =>
  Effect.suspend(() => {
    const { sqliteFile } = Destination.operations(destination)
    return sqliteFile === undefined
      ? Effect.scoped(collected(query(destination, statement.sql, statement.parameters)))
      : answerIn(() => new DatabaseSync(sqliteFile, { readOnly: true }), statement)
  })

const answerAt = (destination: Destination.StoredDestination, statement: Statement, point: NamedPoint) =>
  Effect.scoped(Effect.gen(function*() {
    const { sqliteFile } = Destination.operations(destination)
    if (sqliteFile === undefined) return yield* collected(queryAt(destination, statement, point))
    const { asOf } = yield* asOfIn(yield* Destination.snapshot(destination), statement.sql, point)
    const searched = statement.isSearch === true ? statement.parameters : undefined
    return yield* answerIn(() => openAsOf(sqliteFile, statement.sql, { ...asOf, searched }), statement)
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
  "0",
  "-0",
  "7",
  "-12",
  "12.0",
  "12.5",
  "1e3",
  "25e-1",
  "1500e-2",
  "9007199254740991",
  "9007199254740993",
  "1e400",
  "-9007199254740991",
  "9007199254740990.6",
  "123456789012345678901234567890",
  "0e1000",
  "1.000000000000000000000001",
  "null",
  `"12"`,
  "true",
  "[1]"
]

/** Texts with escapes, in JSON. */
const strings = [
  `"paid"`,
  `"void"`,
  `""`,
  `"caf\\u00e9"`,
  `"\\u0000 nul"`,
  `"half \\ud83d"`,
  `"\\udc00\\ud83d\\ude00"`,
  `"\\\\u0000"`,
  `"\\ud83d\\ud83d\\ude00\\ude00"`,
  `"\u{1f600} \\"quoted\\" \\\\"`,
  `"10"`,
  `"a\\/b"`,
  `"\\u0070aid"`,
  "12",
  "null",
  "false",
  `{"a":1}`,
  `["x"]`
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
        ["amount", numbers],
        ["paymentAmount", numbers],
        ["status", strings],
        ["description", strings],
        ["settlementDate", days],
        ["settlementTime", strings],
        ["customerDocumentNumber", [`"doc-${customer}"`]],
        ["paymentMethod", strings],
        ["\\u0061mount", numbers],
        ["undocumented", strings]
      ]),
    payoutRequests: () =>
      members(dice, [
        ["amount", numbers],
        ["fee", numbers],
        ["status", strings],
        ["createdAt", days],
        ["customerId", [`"${customer}"`]],
        ["customerDetails", [details, details, details, "null", `"text"`, "[1]"]]
      ]),
    payinSources: () =>
      members(dice, [
        ["partialPayinsEnabled", ["true", "false", "null", `"true"`, "1"]],
        ["status", strings],
        ["status", strings],
        ["createdAt", days],
        ["customerId", [`"${customer}"`]]
      ])
  }[list]()
  return `{"id":"${id}"${fields === "" ? "" : `,${fields}`}}`
}

/** One statement with the answers to all questions: each statement over an SQLite file is a process. */
const questionsStatement = Effect.fnUntraced(function*(destination: Destination.StoredDestination) {
  const { dialect } = Destination.operations(destination)
  const answers = yield* Effect.forEach(
    Questions.questions,
    (question) =>
      Effect.map(Questions.statementOf(dialect, question), ({ sql }) => {
        const names = question.columns.map((_, index) => `c${index}`)
        const [array, group] = destination._tag === "Postgres"
          ? ["json_build_array", "json_agg"] as const
          : ["json_array", "json_group_array"] as const
        return `(SELECT ${group}(${array}(${names.join(", ")})) FROM (WITH q (${
          names.join(", ")
        }) AS (${sql}) SELECT * FROM q) AS q)`
      })
  )
  return { sql: `SELECT ${answers.join(", ")}` }
})

const rowStatements: ReadonlyArray<Statement> = Lists.all.map((list) => ({
  sql: `SELECT * FROM ${tableOf(list)} ORDER BY "row"`
}))

/** Searches for texts that JSON may spell in several ways. */
const searches: ReadonlyArray<Statement> = [
  "paid",
  "café",
  "half \ufffd",
  "\u{1f600} \"quoted\" \\",
  "\\u0000",
  "",
  "a/b",
  "doc-cust-1-x",
  "invoices-3"
].map((text) => ({
  sql: `SELECT id, status, description, missing_since, raw FROM invoices
    WHERE id IN ($1, $2) OR status IN ($1, $2) OR description IN ($1, $2) OR customer_document_number IN ($1, $2)
    ORDER BY id`,
  parameters: [text, "void"],
  isSearch: true
}))

const statementsOf = (destination: Destination.StoredDestination): ReadonlyArray<Statement> => [
  ...searches,
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
      {
        sql: "SELECT i.amount, p.status, i.id FROM invoices AS i LEFT JOIN payout_requests AS p ON p.status = i.status"
      }
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
  const removed = new Map<string, string>()
  for (let times = 0; times < 8; times++) {
    for (const { name } of Lists.all) {
      const records = texts.get(name) ?? new Map<string, string>()
      for (const [id, text] of records) {
        if (times <= 1 || !dice.chance(0.15)) continue
        records.delete(id)
        removed.set(id, text)
      }
      for (let count = 0; count < 12; count++) {
        const id = `${name}-${dice.below(20)}`
        const [before, isUnchanged] = [removed.get(id), dice.chance(0.5)]
        records.set(id, before !== undefined && isUnchanged ? before : recordOf(dice, name, id))
        removed.delete(id)
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

/** Without the times that the destination no longer knows after changes were removed. */
const knownStatements: ReadonlyArray<Statement> = Lists.all.map((list) => ({
  sql: `SELECT "row", id, raw, hash, first_seen_at, missing_since IS NULL AS found, ${
    layoutOf(list).columns.map(({ name }) => name).join(", ")
  } FROM ${tableOf(list)} ORDER BY "row"`
}))

const failureOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.result(effect), (result) => Result.isFailure(result) ? result.failure : undefined)

describe("the texts of a search", () => {
  it("are looked for in the texts of records only if JSON spells them as they are, but for \\u", () => {
    const plain = ["paid", "café", "\u{1f600}"]
    assert.deepStrictEqual(plainTexts({ searched: plain }), plain)
    for (const other of ["a/b", "say \"x\"", "a\\b", "a\nb", "\ud83d"]) {
      assert.isUndefined(plainTexts({ searched: ["paid", other] }), JSON.stringify(other))
    }
  })
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
    }).pipe(Effect.scoped))
})

describe.each(["sqlite", "postgres"] as const)("a query as of a point: %s", (kind) => {
  it.live("does not depend on clocks, which can be set back", () =>
    Effect.gen(function*() {
      const destination = yield* opened(kind)
      const dice = diceOf(seed, "clocks", kind)
      const clock = yield* Clock.Clock
      const setAnew: Clock.Clock = Object.assign(Object.create(clock), {
        currentTimeMillis: Effect.suspend(() => Effect.sync(() => clock.currentTimeMillisUnsafe() + offset)),
        currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + offset
      })
      let offset = 0
      const points = yield* history(destination, rowStatements, dice, () =>
        Effect.sync(() =>
          void (offset = (dice.below(5) - 2) * 3_600_000)
        )).pipe(
          Effect.provideService(Clock.Clock, setAnew)
        )
      for (const { answers, at } of points) {
        for (const [index, statement] of rowStatements.entries()) {
          assert.deepStrictEqual(yield* answerAt(destination, statement, at), answers[index], `after change ${at}`)
        }
      }
    }).pipe(Effect.scoped))

  it.live("says from when on there is a history after changes were removed", () =>
    Effect.gen(function*() {
      const destination = yield* opened(kind)
      let pruned = 0
      const points = yield* history(destination, knownStatements, diceOf(seed, "pruned", kind), (times) =>
        times !== 4 ? Effect.void : maintained(destination, (found) =>
          Effect.gen(function*() {
            yield* Effect.delay(prune(found, { keepChanges: Duration.zero, keepScans: Duration.zero }), "2 millis")
            pruned = (yield* found.changeRange).pruned
          })))
      assert.isAbove(pruned, 0)
      assert.isTrue(
        points.some(({ at }) =>
          at < pruned
        ) && points.some(({ at }) =>
          at > pruned
        )
      )
      const [statement = { sql: "" }] = knownStatements
      for (const point of points) {
        if (point.at >= pruned) yield* assertSame(destination, knownStatements, point)
        else {
          const removed = yield* failureOf(answerAt(destination, statement, point.at))
          assert.deepInclude(removed, { _tag: "ChangesRemoved", through: pruned })
          const unreachable = yield* failureOf(answerAt(destination, statement, { time: point.time }))
          assert.strictEqual(unreachable?._tag, "HistoryRemoved")
          // What the message says can be read.
          if (unreachable?._tag === "HistoryRemoved") {
            assert.strictEqual(
              yield* failureOf(answerAt(destination, statement, { time: unreachable.since })),
              undefined
            )
          }
        }
      }
    }).pipe(Effect.scoped))

  it.live(
    "never shows a value that an erasure or a rewrite removed, and everything else as it was",
    () =>
      Effect.gen(function*() {
        const destination = yield* opened(kind)
        const statements: ReadonlyArray<Statement> = [
          {
            sql: `SELECT "row", id, amount, payment_amount, settlement_date, missing_since, first_seen_at, changed_at
            FROM invoices ORDER BY "row"`
          },
          { sql: `SELECT "row", id, amount, fee, created_at, missing_since FROM payout_requests ORDER BY "row"` },
          { sql: "SELECT seq, list, kind, id, at FROM changes ORDER BY seq" }
        ]
        const points = yield* history(destination, statements, diceOf(seed, "erased", kind), (times) =>
          times !== 3 ? Effect.void : maintained(destination, (found) =>
            erase(found, {
              criteria: [
                { kind: "document-number", value: Redacted.make("doc-cust-1-x") },
                { kind: "customer-id", value: Redacted.make("cust-1-x") }
              ],
              key,
              by: "tester"
            })))
        const whole: ReadonlyArray<Statement> = [
          ...rowStatements,
          { sql: "SELECT * FROM changes ORDER BY seq" }
        ]
        const textsAt = Effect.fnUntraced(function*(at: number) {
          return JSON.stringify(
            yield* Effect.forEach(whole, (statement) =>
              answerAt(destination, statement, at))
          )
        })
        for (const point of points) {
          yield* assertSame(destination, statements, point)
          const texts = yield* textsAt(point.at)
          assert.isFalse(texts.includes("cust-1-x"), `after change ${point.at}`)
          assert.isTrue(texts.includes("cust-0-x"), `after change ${point.at}`)
        }
        yield* maintained(destination, (found) =>
          rewrite(found, { rule: { ...keepAll, preset: "omit", undocumented: "omit", key } }))
        for (const point of points) {
          yield* assertSame(destination, statements, point)
          assert.isFalse((yield* textsAt(point.at)).includes("-x"), `after change ${point.at}`)
        }
      }).pipe(Effect.scoped)
  )

  it.live("refuses a point before the first scan, and one after the last change", () =>
    Effect.gen(function*() {
      const destination = yield* opened(kind)
      const before = new Date().toISOString()
      yield* Effect.sleep("2 millis")
      yield* fill(destination, { payinSources: [`{"id":"s"}`] })
      yield* fill(destination, { invoices: [`{"id":"a","amount":1}`] })
      const ended = new Date().toISOString()
      yield* Effect.sleep("2 millis")
      yield* fill(destination, { invoices: [`{"id":"a","amount":2}`, `{"id":"b"}`] })
      const sums = { sql: "SELECT count(*), max(amount) FROM invoices" }
      const refused = yield* failureOf(answerAt(destination, sums, { time: before }))
      assert.strictEqual(refused?._tag, "ChangesBeginLater")
      if (refused?._tag === "ChangesBeginLater") {
        const { first, list } = refused
        assert.deepStrictEqual([list, first.seq], ["invoices", 0])
        assert.isTrue(first.time !== undefined && first.time > before && first.time <= ended)
        const then = yield* answerAt(destination, sums, { time: first.time ?? "" })
        assert.deepStrictEqual(then.rows, [[{ json: "1" }, { json: "1" }]])
      }
      assert.deepInclude(yield* failureOf(answerAt(destination, sums, 3)), { _tag: "BeyondLastChange", last: 2 })
      assert.deepStrictEqual((yield* answerAt(destination, sums, 2)).rows, [[{ json: "2" }, { json: "2" }]])
      // A list that no export has read has no rows at any point. One that a statement does not use does not matter.
      assert.deepStrictEqual(
        (yield* answerAt(destination, { sql: "SELECT count(*) FROM payout_requests" }, { time: before })).rows,
        [[{ json: "0" }]]
      )
      assert.strictEqual(
        (yield* failureOf(answerAt(destination, { sql: "SELECT 1 FROM payin_sources" }, { time: before })))?._tag,
        "ChangesBeginLater"
      )
    }).pipe(Effect.scoped))

  it.live("refuses tables and views without a history, and lets no name reach the rows of now", () =>
    Effect.gen(function*() {
      const destination = yield* opened(kind)
      yield* fill(destination, { invoices: [`{"id":"a","amount":1}`] })
      yield* fill(destination, { invoices: [`{"id":"a","amount":2}`] })
      const schema = destination._tag === "Postgres" ? `"${destination.url.schema}"` : "main"
      const view = `CREATE VIEW ${destination._tag === "Postgres" ? `${schema}.` : ""}mine AS SELECT * FROM ${
        destination._tag === "Postgres" ? `${schema}.` : ""
      }invoices`
      if (destination._tag === "Sqlite") execute(destination.file, view)
      else yield* Effect.promise(() => runSql(server, view))
      const quotedViews = destination._tag === "Sqlite" ? [`"a""b"`, `"count(*) of invoices"`] : []
      for (const name of quotedViews) {
        execute(destination._tag === "Sqlite" ? destination.file : "", view.replace("mine", name))
      }
      for (const table of ["scans", "quarantine", "invoices_seen", "mine", ...quotedViews]) {
        for (
          const sql of [`SELECT count(*) FROM ${table}`, `WITH a AS (SELECT * FROM ${table}) SELECT 1 FROM invoices, a`]
        ) {
          const refused = yield* failureOf(answerAt(destination, { sql }, 0))
          assert.strictEqual(refused?._tag, "QueryError", sql)
          assert.include(refused?.message, table.replace(/^"(.*)"$/, "$1").replaceAll("\"\"", "\""))
          assert.include(refused?.message, "history")
          assert.strictEqual(yield* failureOf(answerNow(destination, { sql })), undefined)
        }
      }
      for (const name of [schema, "destination"]) {
        const named = yield* failureOf(answerAt(destination, { sql: `SELECT amount FROM ${name}.invoices` }, 0))
        assert.strictEqual(named?._tag, "QueryError")
        assert.include(named?.message, "invoices")
      }
      // A column of the user has no history.
      const addColumn = `ALTER TABLE ${
        destination._tag === "Postgres" ? `${schema}.` : ""
      }invoices ADD COLUMN note TEXT`
      if (destination._tag === "Sqlite") execute(destination.file, addColumn)
      else yield* Effect.promise(() => runSql(server, addColumn))
      const own = yield* failureOf(answerAt(destination, { sql: "SELECT note FROM invoices" }, 0))
      assert.strictEqual(own?._tag, "QueryError")
      assert.include(own?.message, "note")
      if (destination._tag === "Sqlite") {
        execute(destination.file, "ANALYZE")
        const reserved = yield* failureOf(answerAt(destination, { sql: "SELECT * FROM sqlite_stat1" }, 0))
        assert.include(reserved?.message, "sqlite_stat1 cannot be read as of an earlier point")
      }
      // A name in a text or of a column is no table.
      const { rows } = yield* answerAt(
        destination,
        { sql: "SELECT amount AS scans, 'mine quarantine' FROM invoices AS facts ORDER BY scans" },
        0
      )
      assert.deepStrictEqual(rows, [[{ json: "1" }, "mine quarantine"]])
    }).pipe(Effect.scoped))

  it.live("reads one point while exports write: two readers at once", () =>
    Effect.gen(function*() {
      const destination = yield* opened(kind)
      const invoices = (amount: number) =>
        Array.from({ length: 2000 }, (_, index) =>
          `{"id":"inv_${index}","amount":${amount},"status":"${"x".repeat(200)}"}`)
      yield* fill(destination, { invoices: invoices(1) })
      yield* fill(destination, { invoices: invoices(2) })
      const at = yield* lastChange(destination)
      yield* fill(destination, { invoices: invoices(3) })
      const writing = yield* Effect.forkChild(
        Effect.forEach([4, 5, 6], (amount) =>
          fill(destination, { invoices: invoices(amount).slice(amount) }))
      )
      const statement = { sql: "SELECT id, amount, missing_since, raw FROM invoices ORDER BY id" }
      // Through the process of a query, as a program reads.
      const read = Effect.scoped(collected(queryAt(destination, statement, at)))
      const answers = yield* Effect.all([read, read], { concurrency: 2 })
      const again = yield* read
      yield* Fiber.join(writing)
      const [first] = answers
      assert.strictEqual(first.rows.length, 2000)
      assert.isTrue(first.rows.every(([, amount, missing]) =>
        JSON.stringify([amount, missing]) === `[{"json":"2"},null]`
      ))
      for (const answer of [...answers, again, yield* read]) assert.deepStrictEqual(answer, first)
    }).pipe(Effect.scoped))

  it.live("refuses to answer if changes or rows were removed after the point was checked", () =>
    Effect.gen(function*() {
      const destination = yield* opened(kind)
      const invoices = (...ids: ReadonlyArray<string>) => ({ invoices: ids.map((id) => `{"id":"${id}"}`) })
      yield* fill(destination, invoices("a", "b", "c"))
      for (let times = 0; times < 2; times++) yield* fill(destination, invoices("a", "c"))
      const sql = "SELECT count(*) FROM invoices"
      const { asOf } = yield* Effect.flatMap(Destination.snapshot(destination), (found) => asOfIn(found, sql, 0))
      const { query: run } = Destination.operations(destination)
      const answer = Effect.scoped(collected(run(sql, [], asOf)))
      assert.deepStrictEqual((yield* answer).rows, [[{ json: "3" }]])
      yield* maintained(destination, (found) => Effect.delay(prune(found, { keepMissing: Duration.zero }), "2 millis"))
      assert.include((yield* failureOf(answer))?.message, "removed meanwhile")
      assert.strictEqual((yield* failureOf(answerAt(destination, { sql }, 0)))?._tag, "MissingRowsRemoved")
      assert.deepStrictEqual((yield* answerAt(destination, { sql }, 1)).rows, [[{ json: "2" }]])
    }).pipe(Effect.scoped))
})
