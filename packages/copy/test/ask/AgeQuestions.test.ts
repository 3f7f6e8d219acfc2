/** Questions about open records by age and about settlement days, over every kind of destination. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { schemaOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { type Dice, diceOf, seed } from "@payments/testkit/Seed"
import { Effect, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { ageGroups } from "../../src/ask/AgeQuestions.ts"
import {
  type Cell,
  Destination,
  type NamedPoint,
  openRecordsOf,
  type OpenStatus,
  Questions,
  scan,
  type ScanOptions
} from "../../src/index.ts"
import { noContents, subjects } from "../../src/plan/Contents.ts"
import { keepAll } from "../../src/rule/Rule.ts"
import { learnedStates } from "../../src/store/OpenRecords.ts"

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

type Texts = Partial<{ readonly [name in Lists.ListName]: ReadonlyArray<string> }>

const fill = (destination: Destination.StoredDestination, texts: Texts, options: ScanOptions = {}) =>
  Effect.forEach(
    Lists.all.filter(({ name }) => texts[name] !== undefined),
    ({ name }) => scan(name, { missingLimit: 1, personal: keepAll, ...options })
  ).pipe(
    Effect.provide(Layer.merge(Destination.layerInThisThread(destination), layerTest(texts))),
    Effect.provide(NodeServices.layer)
  )

const questionNamed = (name: string): Questions.Question => {
  const found = Questions.questions.find((question) => question.name === name)
  if (found === undefined) throw new Error(`no question ${name}`)
  return found
}

const plain = (cell: Cell): string | null =>
  cell === null ? null : typeof cell === "string" ? cell : `#${typeof cell === "object" ? cell.json : cell}`

interface Asked {
  readonly configured?: ReadonlyArray<string> | undefined
  readonly point?: NamedPoint | undefined
  readonly nowMs?: number
  readonly named?: string | undefined
}

/** Asks as the command does. `nowMs` replaces the time of the rows, and `named` is their day. */
const ask = (
  destination: Destination.StoredDestination,
  name: string,
  { configured, named, nowMs, point }: Asked = {}
) =>
  Effect.scoped(Effect.gen(function*() {
    const question = questionNamed(name)
    const basis = point === undefined
      ? yield* Questions.basisOf(destination, question, configured)
      : yield* Questions.basisAt(destination, question, point, configured)
    const parameters = { basis: basis === undefined || nowMs === undefined ? basis : { ...basis, nowMs, day: named } }
    const { columns, rows } = point === undefined
      ? yield* Questions.answer(destination, question, parameters)
      : yield* Questions.answerAt(destination, question, parameters, point)
    assert.deepStrictEqual(columns, question.columns)
    const found = (yield* Stream.runCollect(rows)).flat().map((row) => row.map(plain))
    return { found, notes: Questions.basisNotes(question, parameters.basis) }
  }))

const now = Date.parse("2024-06-15T12:00:00.000Z")
const day = 86_400_000

/** Dates as a service may spell them, with the milliseconds since 1970 if they are instants. */
const dateOf = (dice: Dice): readonly [json: string | undefined, ms: number | undefined] => {
  const ms = now - dice.pick([0, 1, 3, 7, 14, 30, 80, -1]) * day + dice.pick([-1000, -1, 0, 1, 1000, 0])
  const iso = new Date(ms).toISOString()
  return dice.pick<() => readonly [string | undefined, number | undefined]>([
    () => [JSON.stringify(iso), ms],
    () => [JSON.stringify(iso), ms],
    () => [JSON.stringify(iso.replace(/\.\d+/, "")), Math.floor(ms / 1000) * 1000],
    () => [JSON.stringify(new Date(ms + 2 * 3_600_000).toISOString().replace("Z", "+02:00")), ms],
    () => [undefined, undefined],
    () => ["null", undefined],
    () => [dice.pick([`"soon"`, `"2024-05-01"`, `"0000-00-00T00:00:00Z"`, `"2024-02-30T10:00:00Z"`, `""`]), undefined],
    () => [dice.pick([`"2023-02-29T10:00:00Z"`, `"2024-05-01T24:00:00Z"`, `"' OR 1=1"`, `"\\u0000"`]), undefined]
  ])()
}

const groupOf = (ms: number | undefined): string => {
  if (ms === undefined) return "no date"
  if (ms > now) return "in the future"
  const days = [1, 3, 7, 14, 30].find((limit) => ms >= now - limit * day)
  return days === undefined ? "older" : `up to ${days} ${days === 1 ? "day" : "days"}`
}

/** As JSON; an empty text stands for no member. */
const statuses = [`"processing"`, `"sent"`, `"o'brien"`, `"\u{1f600} x"`, "null", ""]

/** Random payout requests, and the groups that they make if `final` are the final states. */
const payoutsOf = (dice: Dice, final: ReadonlyArray<string>) => {
  const groups = new Map<string, { records: number; amount: bigint }>()
  const open = new Map<string | null, Omit<OpenStatus, "status">>()
  const texts = Array.from({ length: 120 }, (_, index) => {
    const [date, ms] = dateOf(dice)
    const status = dice.pick(statuses)
    const amount = dice.pick(["1", "-7", "9007199254740991", ""])
    if (!final.some((one) => JSON.stringify(one) === status)) {
      const group = groups.get(groupOf(ms)) ?? { records: 0, amount: 0n }
      groups.set(groupOf(ms), { records: group.records + 1, amount: group.amount + BigInt(amount) })
      const name: string | null = status === "" ? null : JSON.parse(status)
      const before = open.get(name) ?? { records: 0, undated: 0, oldestAt: undefined }
      const dates = [before.oldestAt, ...ms === undefined ? [] : [new Date(ms).toISOString()]]
      open.set(name, {
        records: before.records + 1,
        undated: before.undated + (ms === undefined ? 1 : 0),
        oldestAt: dates.filter((one) => one !== undefined).toSorted()[0]
      })
    }
    const members = [
      `"id":"p${index}"`,
      ...date === undefined ? [] : [`"createdAt":${date}`],
      ...status === "" ? [] : [`"status":${status}`],
      ...amount === "" ? [] : [`"amount":${amount}`]
    ]
    return `{${members.join(",")}}`
  })
  return { texts, groups, open }
}

const byName = ([one]: readonly [string | null, unknown], [other]: readonly [string | null, unknown]): number =>
  `${one}` < `${other}` ? -1 : 1

describe.each(kinds)("ages of open records: %s", (kind) => {
  it.live(
    `has each open record in one group, whatever its date is (PAYMENTS_SEED=${seed})`,
    () =>
      Effect.gen(function*() {
        for (const final of [[], ["sent", "o'brien"], ["\u{1f600} x", "processing", "never"]]) {
          const destination = yield* opened(kind)
          const { groups, open, texts } = payoutsOf(diceOf(seed, "ages", kind, String(final.length)), final)
          yield* fill(destination, { payoutRequests: texts })
          const read = yield* Effect.scoped(
            Effect.flatMap(Destination.reader(destination), (reader) =>
              openRecordsOf(reader, Lists.payoutRequests, { configured: final, isLimited: false }))
          )
          assert.deepStrictEqual(
            read?.statuses.map(({ status, ...counted }) =>
              [status, counted] as const
            ).toSorted(byName),
            [...open].toSorted(byName)
          )
          const { found } = yield* ask(destination, "open-payouts-by-age", { configured: final, nowMs: now })
          const expected = ageGroups.flatMap((group) => {
            const total = groups.get(group)
            return total === undefined ? [] : [[group, "createdAt", `#${total.records}`, total.amount] as const]
          })
          assert.deepStrictEqual(
            found.map(([group, field, records, amount]) => [group, field, records, BigInt((amount ?? "#0").slice(1))]),
            expected.map((row) => [...row])
          )
        }
      }).pipe(Effect.scoped)
  )

  it.live(
    "counts neither missing rows nor paid invoices, and says that nothing is known of final states",
    () =>
      Effect.gen(function*() {
        const destination = yield* opened(kind)
        const invoice = (id: string, more: string) => `{"id":"${id}","createdAt":"2024-06-02T00:00:00.000Z"${more}}`
        const all = [
          invoice("a", `,"status":"pending","amount":5`),
          invoice("b", `,"status":"paid","amount":7,"paymentDate":"2024-06-02T00:00:00.000Z"`),
          invoice("c", `,"status":"void","amount":9,"paymentDate":null`),
          invoice("d", `,"status":"pending","amount":11`)
        ]
        yield* fill(destination, { invoices: all })
        for (let times = 0; times < 2; times++) yield* fill(destination, { invoices: all.slice(0, 3) })
        const { found, notes } = yield* ask(destination, "unpaid-invoices-by-age", { nowMs: now })
        assert.deepStrictEqual(found, [["up to 14 days", "createdAt", "#2", "#14", "#0", null, "#2"]])
        assert.include(notes.join(" "), "no final status is known, so records of every status count as open")
        const closed = yield* ask(destination, "unpaid-invoices-by-age", { configured: ["void"], nowMs: now })
        assert.deepStrictEqual(closed.found, [["up to 14 days", "createdAt", "#1", "#5", "#0", null, "#1"]])
        assert.include(closed.notes.join(" "), "final, by the setting final_states: void")
        const none = yield* ask(destination, "unpaid-invoices-by-age", { configured: [], nowMs: now })
        assert.include(none.notes.join(" "), "no status is final, as the setting final_states says")
      }).pipe(Effect.scoped)
  )

  it.live(
    "learns a state that records have entered and none has left, and counts from the point",
    () =>
      Effect.gen(function*() {
        const destination = yield* opened(kind)
        const createdAt = new Date(Date.now() - 2 * day).toISOString()
        const payout = (id: string, status: string) =>
          `{"id":"${id}","status":"${status}","createdAt":"${createdAt}","amount":1}`
        const first = [payout("a", "processing"), payout("b", "processing"), payout("c", "stuck")]
        yield* fill(destination, { payoutRequests: first })
        const before = yield* ask(destination, "open-payouts-by-age")
        assert.deepStrictEqual(before.found.map((row) => row.slice(0, 3)), [["up to 3 days", "createdAt", "#3"]])
        yield* Effect.sleep("5 millis")
        const time = new Date().toISOString()
        yield* Effect.sleep("5 millis")
        yield* fill(destination, { payoutRequests: [payout("a", "sent"), ...first.slice(1)] })
        const after = yield* ask(destination, "open-payouts-by-age")
        // No record has left stuck, but none has entered it either.
        assert.deepStrictEqual(after.found.map((row) => row.slice(0, 3)), [["up to 3 days", "createdAt", "#2"]])
        assert.include(
          after.notes.join(" "),
          "final, as learned, because records have entered but none has left it: sent"
        )
        for (const point of [{ time }, 0]) {
          const then = yield* ask(destination, "open-payouts-by-age", { point })
          assert.deepStrictEqual(then.found.map((row) => row.slice(0, 3)), [["up to 3 days", "createdAt", "#3"]])
          assert.isAtMost(Date.parse(then.notes.join(" ").replace(/^.* to (\S+Z)\..*$/, "$1")), Date.parse(time))
        }
        const later = yield* ask(destination, "open-payouts-by-age", { point: 1 })
        assert.deepStrictEqual(later.found.map((row) => row.slice(0, 3)), [["up to 3 days", "createdAt", "#2"]])
        const early = yield* Effect.flip(ask(destination, "open-payouts-by-age", { point: { time: createdAt } }))
        assert.strictEqual(early._tag, "ChangesBeginLater")
        const beyond = yield* Effect.flip(ask(destination, "open-payouts-by-age", { point: 99 }))
        assert.strictEqual(beyond._tag, "BeyondLastChange")
      }).pipe(Effect.scoped)
  )

  it.live("refuses a field that the copy leaves out, instead of taking it as empty", () =>
    Effect.gen(function*() {
      const destination = yield* opened(kind)
      yield* fill(destination, { payoutRequests: [`{"id":"a","createdAt":"2024-06-01T00:00:00Z"}`] }, {
        personal: { ...keepAll, fields: { createdAt: "omit" } }
      })
      const refused = yield* Effect.flip(ask(destination, "open-payouts-by-age"))
      assert.include(refused.message, "open-payouts-by-age needs createdAt, which the copy leaves out")
      const required = (name: string, month?: string) =>
        Questions.requireFields(destination, questionNamed(name), { month })
      const byDay = yield* Effect.flip(required("payouts-by-day"))
      assert.include(byDay.message, "payouts-by-day needs createdAt, which the copy leaves out")
      const ofMonth = yield* Effect.flip(required("payouts-by-status", "2024-06"))
      assert.include(ofMonth.message, "payouts-by-status needs createdAt, which the copy leaves out")
      yield* required("payouts-by-status")
    }).pipe(Effect.scoped))

  it.live("has each payment day with what is settled and what is expected", () =>
    Effect.gen(function*() {
      const destination = yield* opened(kind)
      const invoice = (id: string, payment: string, settlement: string, amount: number | null) =>
        `{"id":"${id}","paymentDate":${payment},"settlementDate":${settlement},"paymentAmount":${amount}}`
      const friday = `"2024-06-14T09:00:00.000Z"`
      yield* fill(destination, {
        invoices: [
          invoice("a", friday, `"2024-06-15"`, 1),
          invoice("b", friday, `"2024-06-17"`, 2),
          invoice("c", friday, "null", 4),
          invoice("d", `"2024-06-07T23:59:59.999Z"`, `"2024-06-10"`, 8),
          invoice("e", `"2024-06-07T00:00:00Z"`, `"2024-06-10"`, 16),
          invoice("f", `"2024-06-07T00:00:00Z"`, `"2024-06-06"`, 9_007_199_254_740_991),
          invoice("g", `"2024-02-29T00:00:00Z"`, `"2024-03-01"`, 32),
          invoice("h", `"2024-02-30T00:00:00Z"`, `"2024-03-01"`, 64),
          invoice("i", "null", `"2024-03-01"`, 128),
          invoice("j", "null", "null", 256),
          invoice("k", `"2024-02-29T00:00:00Z"`, `"tomorrow"`, 512),
          // Nobody knows how much is expected.
          invoice("l", `"2024-06-12T00:00:00Z"`, "null", null)
        ]
      })
      const { found, notes } = yield* ask(destination, "settlement-calendar", { nowMs: now })
      assert.deepStrictEqual(found, [
        ["2024-02-29", "Thursday", "#2", "#1", "#1", "#544", "#0", "#32", "#512", "#1", "#1", "#1"],
        [
          "2024-06-07",
          "Friday",
          "#3",
          "#3",
          "#0",
          "#9007199254741015",
          "#0",
          "#9007199254741015",
          "#0",
          "#-1",
          "#3",
          "#3"
        ],
        ["2024-06-12", "Wednesday", "#1", "#0", "#1", null, "#1", "#0", null, null, null, null],
        ["2024-06-14", "Friday", "#3", "#1", "#2", "#7", "#0", "#1", "#6", "#1", "#1", "#3"],
        [null, null, "#2", "#2", "#0", "#192", "#0", "#192", "#0", null, null, null]
      ])
      assert.include(notes.join(" "), "Settled: settlementDate is not after")
      // The end of the 9th west of Greenwich is on the 10th in UTC.
      for (const [named, settled] of [[undefined, "#3"], ["2024-06-09", "#1"]] as const) {
        const { found: rows, notes: said } = yield* ask(destination, "settlement-calendar", {
          nowMs: Date.parse("2024-06-10T04:59:59.999Z"),
          named
        })
        assert.deepStrictEqual(rows[1]?.slice(0, 4), ["2024-06-07", "Friday", "#3", settled])
        assert.include(said.join(" "), `is not after ${named ?? "2024-06-10, the day of 2024-06-10T04:59:59.999Z"}.`)
      }
    }).pipe(Effect.scoped))
})

it("learns nothing from transitions that are not counted one by one", () => {
  const states = (...steps: ReadonlyArray<string>) =>
    learnedStates({ ...noContents, [subjects.steps]: Object.fromEntries(steps.map((step) => [step, 1])) })
  assert.deepStrictEqual(states(), [])
  assert.deepStrictEqual(states("a → b", "b → c", "a → d"), ["c", "d"])
  assert.deepStrictEqual(states("a → b", "b → a"), [])
  assert.deepStrictEqual(states("a → (other)", "a → b"), ["b"])
  assert.deepStrictEqual(states("a → b", "(other)"), [])
})

it.effect("counts from the time of Effect's clock", () =>
  Effect.gen(function*() {
    yield* TestClock.setTime(now)
    const { sql } = yield* Questions.statementOf(
      { exactSum: (column) => column, contains: () => "", inByteOrder: (text) => text, forExcerpt: ({ name }) => name },
      questionNamed("open-payouts-by-age")
    )
    assert.include(sql, `created_us > ${now}000`)
  }))
