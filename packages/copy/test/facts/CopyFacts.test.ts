/** The facts that a copy shows without a request: the same in every kind of destination. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { diceOf, seed } from "@payments/testkit/Seed"
import { Effect, Layer, type Scope } from "effect"
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterAll, beforeAll } from "vitest"
import * as Destination from "../../src/destination/Destination.ts"
import { copyFacts, type KnownFact } from "../../src/facts.ts"
import { defaultFormat } from "../../src/files/FileSink.ts"
import { scan, type ScanOptions } from "../../src/index.ts"
import { keepAll, type PersonalRule } from "../../src/rule/Rule.ts"
import { isAfter, microsecondsOf } from "../../src/statement/DateSql.ts"
import { key } from "../personal/RedactionTest.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

interface TestCopy {
  readonly destination: Destination.StoredDestination
  /** Runs a statement. `prefix` precedes the names of the tables. */
  readonly execute: (statement: (prefix: string) => string) => Effect.Effect<unknown>
}

const inFile = (file: string) => (statement: (prefix: string) => string) =>
  Effect.sync(() => execute(file, statement("")))

const kinds = {
  "sqlite:": Effect.map(temporaryFolder, (folder): TestCopy => {
    const file = join(folder, "payments.db")
    return { destination: { _tag: "Sqlite", file }, execute: inFile(file) }
  }),
  "file:": Effect.map(temporaryFolder, (folder): TestCopy => ({
    destination: { _tag: "Files", folder, format: defaultFormat },
    execute: inFile(join(folder, "copy.db"))
  })),
  "postgres:": Effect.sync((): TestCopy => {
    const schema = `t_${randomUUID()}`
    return {
      destination: { _tag: "Postgres", url: urlOf(server, schema) },
      execute: (statement) => Effect.promise(() => query(server, statement(`"${schema}".`)))
    }
  })
}

const run = (
  { destination }: TestCopy,
  name: Lists.ListName,
  records: ReadonlyArray<string>,
  options: ScanOptions = {}
) =>
  scan(name, { limit: 10, missingLimit: 1, ...options }).pipe(
    Effect.provide(Layer.merge(Destination.layer(destination), layerTest({ [name]: records }))),
    Effect.provide(NodeServices.layer)
  )

const factsIn = ({ destination }: TestCopy, list: Lists.AnyList) =>
  Effect.scoped(
    Effect.flatMap(
      Destination.reader(destination),
      (reader) => copyFacts(reader, list, Destination.operations(destination))
    )
  )

const shown = (facts: ReadonlyArray<KnownFact>, name: string) => {
  const fact = facts.find((one) => one.name === name)
  return fact === undefined ? undefined : [fact.answer, fact.degree, fact.seen]
}

/** Members that are given as text, because JavaScript would round some of them. */
const payout = (id: string, ...members: ReadonlyArray<string>) => `{${[`"id":"${id}"`, ...members].join(",")}}`

const times = (createdAt: string, updatedAt: string) => `"createdAt":"${createdAt}","updatedAt":"${updatedAt}"`

const hostile = [
  // The same instant in two spellings.
  payout("p1", `"reference":"R1","amount":5`, times("2024-05-01T10:00:00Z", "2024-05-01T10:00:00.000Z")),
  // One second too late in an order that the texts do not have, and the other way round.
  payout("p2", `"reference":"R1","amount":-3`, times("2024-05-01T05:00:00-05:00", "2024-05-01T09:59:59Z")),
  payout("p3", `"reference":null,"amount":0`, times("2024-05-01T12:00:00+02:00", "2024-05-01T10:00:01Z")),
  // Across a leap day.
  payout(
    "p4",
    `"reference":"","amount":9007199254740993`,
    times("2024-03-01T00:00:00.000000001Z", "2024-02-29T23:59:59.999999Z")
  ),
  payout("p5", `"amount":-900719925474099312345678901234567890`, times("yesterday, Ann O'Neil", "2024-05-01T10:00Z")),
  // Two characters, of which one is a surrogate pair; and text that no database stores exactly.
  payout("p6", `"reference":"😀é","amount":null,"customerDetails":{"name":"a\\u0000b\\ud800"}`),
  payout("p7", `"amount":"12","fee":0.5,"createdAt":5`),
  payout("p8", `"amount":[1],"fee":-0,"updatedAt":"2024-05-01"`)
]

/** For each fact its answer, its degree, and what was seen. */
const hostileFacts = {
  "unique-id": ["yes", "likely", "0 of 8 records of the last complete scan had an id that it had returned before"],
  "length-id": ["2", "likely", "0 of 8 texts are empty"],
  "length-reference": ["0 to 2", "likely", "1 of 4 texts are empty"],
  "length-customerDetails.name": ["4", "likely", "0 of 1 texts are empty"],
  "length-customerId": [undefined, "undecided", "no record has a text"],
  "length-status": undefined,
  "length-createdAt": undefined,
  "unique-reference": ["no", "likely", "1 of 3 values repeat, in 2 of 4 records; at most 2 share one"],
  "unique-customerId": undefined,
  "signs-amount": [
    "positive, zero, negative",
    "likely",
    "positive 2, zero 1, negative 2; no whole number below 2^53: 2; without a number: 3"
  ],
  "signs-fee": [
    "positive, zero",
    "likely",
    "positive 1, zero 1, negative 0; no whole number below 2^53: 1; without a number: 6"
  ],
  "signs-amountSent": [
    undefined,
    "undecided",
    "positive 0, zero 0, negative 0; no whole number below 2^53: 0; without a number: 8"
  ],
  "format-createdAt": [
    "seconds offset, seconds Z, 9 decimals Z, (other)",
    "likely",
    "seconds offset 2, seconds Z 1, 9 decimals Z 1, (other) 1"
  ],
  "format-updatedAt": [
    "seconds Z, day, minutes Z, 3 decimals Z, 6 decimals Z",
    "likely",
    "seconds Z 2, day 1, minutes Z 1, 3 decimals Z 1, 6 decimals Z 1"
  ],
  "created-before-updated": ["no", "likely", "after it in 2 of 4 records; 4 without two exact instants"],
  "first-sight": [undefined, "undecided", "no record was new since the first complete scan"]
}

const pseudonymize: PersonalRule = {
  preset: "pseudonymize",
  undocumented: "omit",
  fields: { reference: "pseudonymize", fee: "omit" },
  key
}

describe.each(Object.keys(kinds) as ReadonlyArray<keyof typeof kinds>)("the facts of a copy in %s", (kind) => {
  const inCopy = (title: string, use: (copy: TestCopy) => Effect.Effect<void, unknown, Scope.Scope>) =>
    it.live(title, () => Effect.scoped(Effect.flatMap(kinds[kind], use)))

  inCopy("count what hostile records have, and show no value of them", (copy) =>
    Effect.gen(function*() {
      yield* run(copy, "payoutRequests", hostile)
      const facts = yield* factsIn(copy, Lists.payoutRequests)
      const names = Object.keys(hostileFacts)
      assert.deepStrictEqual(Object.fromEntries(names.map((name) => [name, shown(facts, name)])), hostileFacts)
      const text = JSON.stringify(facts.map((fact) => ({ ...fact, lastAt: undefined })))
      for (const value of ["R1", "p1", "Ann", "O'Neil", "😀", "90071992", "2024"]) {
        assert.notInclude(text, value)
      }
    }))

  inCopy("leave out rows that the service no longer returns", (copy) =>
    Effect.gen(function*() {
      yield* run(copy, "payoutRequests", hostile)
      yield* copy.execute((prefix) =>
        `UPDATE ${prefix}payout_requests SET missing_since = '2026-01-01T00:00:00.000Z' WHERE id IN ('p2', 'p6')`
      )
      const facts = yield* factsIn(copy, Lists.payoutRequests)
      assert.strictEqual(shown(facts, "unique-reference")?.[0], "yes")
      assert.strictEqual(shown(facts, "length-reference")?.[2], "1 of 2 texts are empty")
      assert.match(String(shown(facts, "signs-amount")?.[2]), /negative 1;/)
      assert.match(String(shown(facts, "created-before-updated")?.[2]), /^after it in 1 of 3 records;/)
    }))

  inCopy(
    "say how late records were first seen that were new after the first complete scan",
    (copy) =>
      Effect.gen(function*() {
        const record = (id: string, createdAt: string) => payout(id, `"createdAt":"${createdAt}"`)
        yield* run(copy, "invoices", [record("old", "2020-01-01T00:00:00.000Z")])
        const before = (ms: number) => new Date(Date.parse("2024-03-01T00:00:00.000Z") - ms).toISOString()
        const createdTimes = Array.from({ length: 101 }, (_, index) => before(index * 10))
        yield* run(copy, "invoices", [
          record("old", "2020-01-01T00:00:00.000Z"),
          ...createdTimes.map((createdAt, index) => record(`new-${index}`, createdAt))
        ])
        const setTimes = (table: string, column: string, time: string, where: (prefix: string) => string) =>
          copy.execute((prefix) => `UPDATE ${prefix}${table} SET ${column} = '${time}' WHERE ${where(prefix)}`)
        const hasId = (id: string) => () => `id = '${id}'`
        yield* setTimes("invoices", "first_seen_at", "2024-03-01T00:00:00.000Z", () => "true")
        yield* setTimes("invoices", "first_seen_at", "2023-12-31T23:59:59.999Z", hasId("old"))
        yield* setTimes(
          "scans",
          "ended_at",
          "2024-01-01T00:00:00.000Z",
          (prefix) => `scan = (SELECT min(scan) FROM ${prefix}scans)`
        )
        const lag = Effect.map(factsIn(copy, Lists.invoices), (facts) => shown(facts, "first-sight"))
        assert.deepStrictEqual(yield* lag, [
          "p50 500 ms, p99 990 ms, largest 1000 ms",
          "likely",
          "101 new records since the first complete scan, 0 without an exact createdAt"
        ])
        yield* setTimes("invoices", "first_seen_at", "2024-02-29T23:59:59.995Z", hasId("new-0"))
        yield* setTimes("invoices", "created_at", "soon", hasId("new-1"))
        assert.deepStrictEqual(yield* lag, [
          "p50 500 ms, p99 990 ms, largest 1000 ms",
          "likely",
          "101 new records since the first complete scan, 1 without an exact createdAt; " +
          "1 of them seen before createdAt: a clock is ahead"
        ])
      })
  )

  inCopy("say nothing about fields that the copy has as pseudonyms, or not at all", (copy) =>
    Effect.gen(function*() {
      yield* run(copy, "payoutRequests", hostile, { personal: pseudonymize })
      const names = (yield* factsIn(copy, Lists.payoutRequests)).map(({ name }) => name)
      for (const name of ["customerId", "customerDetails.name", "reference", "fee"]) {
        for (const kindOfFact of ["length", "unique", "signs"]) assert.notInclude(names, `${kindOfFact}-${name}`)
      }
      assert.includeMembers(names, ["length-id", "signs-amount", "format-createdAt", "created-before-updated"])
      yield* copy.execute((prefix) => `UPDATE ${prefix}personal SET rewriting = '{}'`)
      assert.notInclude((yield* factsIn(copy, Lists.payoutRequests)).map(({ name }) => name), "length-id")
    }))

  inCopy("are none before the first complete scan, and undecided for an empty list", (copy) =>
    Effect.gen(function*() {
      yield* run(copy, "invoices", [], { personal: keepAll })
      assert.deepStrictEqual(yield* factsIn(copy, Lists.payinSources), [])
      const facts = yield* factsIn(copy, Lists.invoices)
      assert.deepStrictEqual([...new Set(facts.map(({ degree }) => degree))], ["undecided"])
    }))
})

/** Texts of instants, with the microseconds since 1970. */
const instants: ReadonlyArray<readonly [string, bigint]> = [
  ["1970-01-01T00:00:00Z", 0n],
  ["0001-01-01T00:00:00Z", -62135596800000000n],
  ["1900-02-28T23:59:59.5-00:00", -2203891200500000n],
  ["9999-12-31T23:59:59.9999999Z", 253402300799999999n],
  ["2024-02-29T00:30:00.000001+05:45", BigInt(Date.parse("2024-02-28T18:45:00Z")) * 1000n + 1n]
]

const noInstants = [
  "",
  "now",
  "2460000.5",
  "2024-05-01",
  "2024-05-01T10:00Z",
  "2024-05-01T10:00:00",
  "٢024-05-01T10:00:00Z"
]

describe("the microseconds of an instant", () => {
  it.live(`are exact in both databases (PAYMENTS_SEED=${seed})`, () =>
    Effect.gen(function*() {
      const dice = diceOf(seed, "instants")
      const drawn = Array.from({ length: 300 }, (_, index): readonly [string, bigint] => {
        const ms = dice.below(253402300800000)
        const text = new Date(ms).toISOString()
        return [index % 2 === 0 ? text : text.replace("Z", "+00:00"), BigInt(ms) * 1000n]
      })
      const known = [...instants, ...drawn]
      const values = [...known.map(([text]) => text), ...noInstants].map((text, place) => `(${place}, '${text}')`)
      const expected = [...known.map(([, microseconds]) => String(microseconds)), ...noInstants.map(() => "null")]
      const both = (sql: string) =>
        Effect.gen(function*() {
          const db = new DatabaseSync(":memory:")
          const rows = db.prepare(sql).all().map(({ found }) => String(found))
          db.close()
          const others = yield* Effect.promise(() => query(server, sql))
          assert.deepStrictEqual(others.map(({ found }) => String(found)), rows)
          return rows
        })
      const texts = `WITH texts (place, t) AS (VALUES ${values.join(", ")})`
      assert.deepStrictEqual(
        yield* both(`${texts} SELECT CAST(${microsecondsOf("t")} AS TEXT) AS found FROM texts ORDER BY place`),
        expected
      )
      // Each text with itself and with the two after it: many have the same form.
      const pairs = expected.flatMap((one, place) =>
        expected.slice(place, place + 3).map((other) =>
          one === "null" || other === "null" ? "null" : String(Number(BigInt(one) > BigInt(other)))
        )
      )
      assert.deepStrictEqual(
        yield* both(`${texts} SELECT CAST(CASE WHEN ${isAfter("o.t", "p.t")} THEN 1 WHEN NOT ${isAfter("o.t", "p.t")}
          THEN 0 END AS TEXT) AS found FROM texts AS o JOIN texts AS p ON p.place BETWEEN o.place AND o.place + 2
          ORDER BY o.place, p.place`),
        pairs
      )
    }))
})
