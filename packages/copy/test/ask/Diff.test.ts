import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { execute, temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query, schemaOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { diceOf, seed } from "@payments/testkit/Seed"
import { Effect, Layer, Result, Stream } from "effect"
import { cpSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { differingMembers } from "../../src/ask/Diff.ts"
import { compareBytes } from "../../src/ask/SortedRows.ts"
import {
  current,
  Destination,
  pointAt,
  type PointInTime,
  recordDifferences,
  scan,
  type ScanOptions,
  totalDifferences
} from "../../src/index.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const kinds = ["sqlite", "files", "postgres"] as const

const destinationIn = (kind: typeof kinds[number], folder: string): Destination.StoredDestination =>
  kind === "sqlite"
    ? { _tag: "Sqlite", file: join(folder, "payments.db") }
    : kind === "files"
    ? {
      _tag: "Files",
      folder: join(folder, "files"),
      format: { format: "ndjson", compress: "none", formulas: "escape" }
    }
    : { _tag: "Postgres", url: urlOf(server, schemaOf(folder)) }

const opened = (kind: typeof kinds[number]) =>
  Effect.map(temporaryFolder, (folder) => ({ folder, destination: destinationIn(kind, folder) }))

const fill = (
  destination: Destination.StoredDestination,
  invoices: ReadonlyArray<string>,
  options: ScanOptions = {}
) =>
  scan("invoices", { missingLimit: 1, ...options }).pipe(
    Effect.provide(Layer.merge(Destination.layerInThisThread(destination), layerTest({ invoices }))),
    Effect.provide(NodeServices.layer)
  )

const now = (destination: Destination.StoredDestination) => Effect.map(Destination.snapshot(destination), current)

/** Returns the differences as lines. */
const linesOf = Effect.fnUntraced(function*(a: PointInTime, b: PointInTime) {
  const counted = { a: 0, b: 0, onlyA: 0, onlyB: 0, differing: 0 }
  const { differences: totals } = yield* totalDifferences(a, b, Lists.invoices)
  const records = yield* Stream.runCollect(recordDifferences(a, b, Lists.invoices, counted))
  return {
    totals: totals.map(({ day, figure, status, ...sides }) => `${day} ${status} ${figure}: ${sides.a} ${sides.b}`),
    records: records.flat().flatMap(({ change, id, members }) =>
      members.map((member) => `${id} ${change} ${member.member}: ${member.a} ${member.b}`)
    ),
    counted
  }
})

/** Ids whose order differs between UTF-16 units, bytes and languages. */
const ids = ["Z", "a", "é", "B", "b\u{1f600}", "b\u{fffd}", "b\ue000", "b", "aa", "-", "_"]

const invoice = (id: string, members: string) => `{"id":${JSON.stringify(id)}${members}}`

describe("the comparison of two destinations", () => {
  it("orders ids as databases order the bytes of their UTF-8 text", () => {
    const dice = diceOf(seed, "ids")
    const text = () =>
      Array.from({ length: dice.below(4) }, () => dice.pick([..."aZ-é", "\u{1f600}", "\u{10ffff}", "\ue000", "\ufffd"]))
        .join("")
    for (let times = 0; times < 2000; times++) {
      const [a, b] = [text(), text()]
      assert.strictEqual(Math.sign(compareBytes(a, b)), Buffer.compare(Buffer.from(a), Buffer.from(b)), `${a} ${b}`)
    }
  })

  const pairs = [["sqlite", "postgres"], ["files", "sqlite"], ["postgres", "files"]] as const
  it.live.each(pairs)(
    "names every record that differs, with its members and exact texts: %s and %s",
    ([one, other]) =>
      Effect.gen(function*() {
        const [left, right] = [yield* opened(one), yield* opened(other)]
        const common = ids.map((id) => invoice(id, `,"amount":1,"status":"paid","settlementDate":"2024-05-01"`))
        yield* fill(left.destination, [
          ...common,
          invoice("only a", ""),
          invoice("nested", `,"amount":9007199254740991,"paymentSource":{"x":{"y":1.10}},"n":1,"gone":null`),
          invoice("order", `,"amount":1,"status":"paid"`),
          invoice("sum", `,"amount":9007199254740991`)
        ])
        yield* fill(right.destination, [
          ...common.toReversed(),
          invoice("order", `,"status":"paid","amount":1`),
          invoice("nested", `,"amount":9007199254740990,"paymentSource":{"x":{"y":1.1}},"n":1,"a.b":[1]`),
          invoice("only b", `,"amount":3`),
          invoice("sum", `,"amount":9007199254740991`)
        ])
        const [a, b] = [yield* now(left.destination), yield* now(right.destination)]
        assert.deepStrictEqual(yield* linesOf(a, b), {
          totals: [
            "null null amount: 18014398509481982 18014398509481984",
            "null null amount null: 1 0"
          ],
          records: [
            "nested differs amount: 9007199254740991 9007199254740990",
            "nested differs paymentSource.x.y: 1.10 1.1",
            "nested differs gone: null undefined",
            `nested differs "a.b": undefined [1]`,
            `only a only in A (record): {"id":"only a"} undefined`,
            `only b only in B (record): undefined {"id":"only b","amount":3}`,
            `order differs (text): {"id":"order","amount":1,"status":"paid"} {"id":"order","status":"paid","amount":1}`
          ],
          counted: { a: ids.length + 4, b: ids.length + 4, onlyA: 1, onlyB: 1, differing: 2 }
        })
        assert.deepStrictEqual((yield* linesOf(b, b)).records, [])
      }).pipe(Effect.scoped)
  )

  it.live("names each of 10,000 mutated records, in the order of their ids", () =>
    Effect.gen(function*() {
      const size = 20_000
      const [left, right] = [yield* opened("sqlite"), yield* opened("postgres")]
      const dice = diceOf(seed, "mutations")
      const texts = Array.from({ length: size }, (_, index) =>
        invoice(`inv_${(index * 7919) % size}`, `,"amount":${index},"status":"paid","settlementDate":"2024-05-01"`))
      const mutated = texts.map((text, index) =>
        index % 2 === 0
          ? text
          : dice.pick([
            () =>
              text.replace(`"paid"`, `"void"`),
            () =>
              text.replace(`"amount":`, `"amount":1`),
            () => text.replace(`"settlementDate"`, `"contract":"x","settlementDate"`)
          ])()
      )
      yield* fill(left.destination, texts)
      yield* fill(right.destination, mutated)
      const { counted, records } = yield* linesOf(yield* now(left.destination), yield* now(right.destination))
      const expected = texts.flatMap((text, index) => index % 2 === 0 ? [] : [String(JSON.parse(text).id)])
      assert.deepStrictEqual(records.map((line) => line.split(" ")[0]), expected.toSorted())
      assert.deepStrictEqual(counted, { a: size, b: size, onlyA: 0, onlyB: 0, differing: size / 2 })
    }).pipe(Effect.scoped))

  it.live.each(kinds)(
    "compares rows as they were when it began, while an export writes: %s",
    (kind) =>
      Effect.gen(function*() {
        const [left, right] = [yield* opened(kind), yield* opened("sqlite")]
        const before = [invoice("a", `,"amount":1`), invoice("b", `,"amount":2`)]
        yield* fill(left.destination, before)
        yield* fill(right.destination, before)
        const a = yield* now(left.destination)
        // A transaction of PostgreSQL begins with its first statement.
        yield* a.columns(Lists.invoices)
        yield* fill(left.destination, [invoice("a", `,"amount":5`), invoice("c", `,"amount":6`)])
        const found = yield* linesOf(a, yield* now(right.destination))
        assert.deepStrictEqual([found.totals, found.records], [[], []])
      }).pipe(Effect.scoped)
  )

  it.live("says that a record is marked missing in one of them", () =>
    Effect.gen(function*() {
      const [left, right] = [yield* opened("sqlite"), yield* opened("postgres")]
      const texts = [invoice("a", `,"amount":1`), invoice("b", `,"amount":2`)]
      for (const rest of [texts, texts.slice(1), texts.slice(1)]) yield* fill(left.destination, rest)
      yield* fill(right.destination, texts)
      assert.deepInclude(yield* linesOf(yield* now(left.destination), yield* now(right.destination)), {
        totals: ["null null records: 1 2", "null null amount: 2 3", "null null paymentAmount null: 1 2"],
        records: ["a differs (missing): true false"]
      })
    }).pipe(Effect.scoped))

  it("reads deeply nested records in bounded time", () => {
    const deep = (end: string) => `${`{"a":`.repeat(100_000)}${end}${"}".repeat(100_000)}`
    const [found] = differingMembers(deep("1"), deep("2"))
    assert.strictEqual(found?.member, Array.from({ length: 9 }, () => "a").join("."))
  })
})

describe("the comparison of two points of a destination", () => {
  it.live.each(kinds)("reconstructs the rows after any change exactly: %s", (kind) =>
    Effect.gen(function*() {
      const { destination, folder } = yield* opened(kind)
      const dice = diceOf(seed, "points", kind)
      let texts = new Map<string, string>()
      const copies: Array<{ readonly at: number; readonly copy: Destination.StoredDestination }> = []
      // The copies of a PostgreSQL destination are those of an SQLite file with the same exports.
      const copied = yield* kind === "postgres" ? opened("sqlite") : Effect.succeed({ destination, folder })
      const fillBoth = Effect.suspend(() =>
        Effect.forEach(new Set([destination, copied.destination]), (one) => fill(one, [...texts.values()]))
      )
      for (let times = 0; times < 6; times++) {
        texts = new Map([...texts].filter(() => times < 2 || !dice.chance(0.2)))
        for (let records = 0; records < 30; records++) {
          const id = dice.pick(ids) + dice.below(4)
          const day = dice.pick(["2024-05-01", "2024-05-02"])
          const members = `,"amount":${dice.below(3)},"status":"${dice.pick(["x", "y"])}","settlementDate":"${day}"`
          texts.set(id, invoice(id, members))
        }
        yield* fillBoth
        // A second scan marks rows missing.
        if (times > 1) yield* fillBoth
        const { last } = yield* Effect.scoped(
          Effect.flatMap(Destination.reader(destination), ({ changeRange }) => changeRange)
        )
        const place = yield* temporaryFolder
        cpSync(copied.folder, place, { recursive: true })
        copies.push({ at: last, copy: destinationIn(kind === "files" ? kind : "sqlite", place) })
      }
      const snapshot = yield* Destination.snapshot(destination)
      for (const { at, copy } of copies) {
        const point = yield* pointAt(snapshot, at, [Lists.invoices])
        const { counted, records, totals } = yield* linesOf(point, yield* now(copy))
        assert.deepStrictEqual([records, totals], [[], []], `after change ${at}`)
        assert.isAbove(counted.a, 0)
      }
      const [one, , other] = copies
      const between = yield* linesOf(
        yield* pointAt(snapshot, one?.at ?? 0, []),
        yield* pointAt(snapshot, other?.at ?? 0, [])
      )
      assert.isNotEmpty(between.records)
      const sides = [yield* now(one?.copy ?? destination), yield* now(other?.copy ?? destination)] as const
      assert.deepStrictEqual(between, yield* linesOf(...sides))
    }).pipe(Effect.scoped))

  it.live.each(["sqlite", "postgres"] as const)(
    "refuses points that the changes do not reach, and says why: %s",
    (kind) =>
      Effect.gen(function*() {
        const { destination, folder } = yield* opened(kind)
        for (const amount of [1, 2, 3]) yield* fill(destination, [invoice("a", `,"amount":${amount}`)])
        // Another list is loaded after these changes.
        yield* scan("payoutRequests").pipe(
          Effect.provide(
            Layer.merge(Destination.layerInThisThread(destination), layerTest({ payoutRequests: [`{"id":"p"}`] }))
          ),
          Effect.provide(NodeServices.layer)
        )
        yield* fill(destination, [invoice("a", `,"amount":4`)])
        const refusal = (at: number, list: Lists.AnyList = Lists.invoices) =>
          Effect.scoped(Effect.flatMap(Destination.snapshot(destination), (snapshot) => pointAt(snapshot, at, [list])))
            .pipe(
              Effect.result,
              Effect.map((result) => Result.isFailure(result) ? result.failure.message : undefined)
            )
        assert.strictEqual(yield* refusal(0), undefined)
        assert.strictEqual(yield* refusal(4), "there is no change 4 yet: the last one is 3.")
        assert.match(
          (yield* refusal(1, Lists.payoutRequests)) ?? "",
          /^payout-requests was loaded for the first time after change 1, and a first load writes no changes\. The first point that can be reconstructed is \d{4}-\d{2}-\d{2}T[\d:.]{12}Z, which is change 2\.$/
        )
        assert.strictEqual(yield* refusal(2, Lists.payoutRequests), undefined)
        const prune = "DELETE FROM changes WHERE seq = 1"
        const marked = "INSERT INTO changes_pruned"
        if (destination._tag === "Sqlite") {
          execute(destination.file, `${prune}; ${marked} (only, seq, pruned_at) VALUES (1, 1, '')`)
        } else {
          const s = `"${schemaOf(folder)}".`
          yield* Effect.promise(() => query(server, prune.replace("changes", `${s}changes`)))
          yield* Effect.promise(() =>
            query(server, `${marked.replace("changes", `${s}changes`)} (seq, pruned_at) VALUES (1, now())`)
          )
        }
        assert.strictEqual(yield* refusal(0), "changes 1 to 1 were removed and cannot be read any more.")
        assert.strictEqual(yield* refusal(1), undefined)
      }).pipe(Effect.scoped)
  )
})
