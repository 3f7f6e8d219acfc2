/** What complete scans observe of the service, and what they say if it contradicts an earlier answer. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest, type TestLists } from "@payments/core/testing"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { type Dice, diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import { firstSight, type ListSight, sightings, sightOf, withPage } from "../../src/plan/PageSight.ts"
import { driftLine } from "../../src/port/Drift.ts"
import { add, type Evidence, judge, noEvidence } from "../../src/port/Judgement.ts"
import { type Sighting, Sink } from "../../src/port/Sink.ts"
import { scan } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"

interface Invoice {
  readonly id: string
  readonly createdAt: string
}

const invoice = (index: number): Invoice => ({
  id: `inv_${index}`,
  createdAt: new Date(Date.UTC(2026, 0, 1) + index * 60_000).toISOString()
})

/** Invoices with these numbers, oldest first. */
const invoices = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => invoice(from + index))

const newest = (to: number) => invoices(0, to).toReversed()

/** Scans the list into the file. Returns the drift, and the answers that are certain then. */
const scanInto = (file: string, list: ReadonlyArray<Invoice>, options: Omit<TestLists, "invoices"> = {}, limit = 10) =>
  Effect.gen(function*() {
    const { drift } = yield* scan("invoices", { limit })
    const { facts } = yield* Sink
    return { drift, certain: yield* facts?.certain(Lists.invoices, "memory") ?? Effect.succeed({}) }
  }).pipe(Effect.provide(Layer.merge(SqliteSink.layer(file), layerTest({ ...options, invoices: list }))))

const newFile = Effect.map(temporaryFolder, (folder) => join(folder, "payments.db"))

describe("complete scans", () => {
  it.live.each<readonly [name: string, lists: (scan: number) => ReadonlyArray<Invoice>, places: string | undefined]>([
    ["createdAt, newest first", (round) => newest(60 + 5 * round), "first"],
    ["createdAt, oldest first", (round) => invoices(0, 60 + 5 * round), "last"],
    // A single new record is at the start by chance.
    ["createdAt, newest first", (round) => newest(60 + round), undefined]
  ])("observe the order %s and the place of new records", ([order, listOf, places]) =>
    Effect.gen(function*() {
      const file = yield* newFile
      for (const round of [0, 1]) yield* scanInto(file, listOf(round))
      const { certain, drift } = yield* scanInto(file, listOf(2))
      assert.deepStrictEqual(drift, [])
      assert.deepStrictEqual(certain, {
        "list-order": order,
        ...(places === undefined ? {} : { places }),
        "page-records": "as many as the limit",
        count: "the page"
      })
    }).pipe(Effect.scoped))

  it.live("name another order and another place of new records, until three scans have shown them", () =>
    Effect.gen(function*() {
      const file = yield* newFile
      for (const round of [0, 1, 2]) yield* scanInto(file, newest(60 + 5 * round))
      const expected = [
        "changed: order of the list: createdAt, oldest first (before: createdAt, newest first)",
        "changed: place of new records: last (before: first)"
      ]
      for (const round of [3, 4]) {
        const { certain, drift } = yield* scanInto(file, invoices(0, 60 + 5 * round))
        assert.deepStrictEqual(drift.map((one) => driftLine(one).replace(/ \(\d+ records\)$/, "")), expected)
        assert.doesNotHaveAnyKeys(certain, ["list-order", "places"])
      }
      yield* scanInto(file, invoices(0, 85))
      const { certain, drift } = yield* scanInto(file, invoices(0, 90))
      assert.deepStrictEqual(drift, [])
      assert.deepInclude(certain, { "list-order": "createdAt, oldest first", places: "last" })
    }).pipe(Effect.scoped))

  it.live("name a list that gives fewer records than it counts, until a person accepts it", () =>
    Effect.gen(function*() {
      const file = yield* newFile
      const counting = (count: (list: number) => number) => ({ countOf: (_: number, list: number) => count(list) })
      for (let round = 0; round < 2; round++) yield* scanInto(file, newest(100), counting((list) => list))
      for (let round = 0; round < 4; round++) {
        const { certain, drift } = yield* scanInto(file, newest(80), counting(() => 100))
        assert.deepStrictEqual(drift, [
          {
            fact: "count",
            what: "more records than the list has (before: the list)",
            records: 80,
            mayLackRecords: true
          }
        ])
        assert.doesNotHaveAnyKeys(certain, ["count"])
      }
    }).pipe(Effect.scoped))

  it.live("name another meaning of count, which three scans replace, and do not call records missing", () =>
    Effect.gen(function*() {
      const file = yield* newFile
      const ofList = { countOf: (_: number, list: number) => list }
      for (let round = 0; round < 2; round++) yield* scanInto(file, newest(100))
      for (let round = 0; round < 3; round++) {
        const { drift } = yield* scanInto(file, newest(100), ofList)
        assert.deepStrictEqual(drift, [{ fact: "count", what: "the list (before: the page)", records: 100 }])
      }
      assert.deepInclude(yield* scanInto(file, newest(100), ofList), { drift: [] })
    }).pipe(Effect.scoped))

  it.live("are never certain that a list has fewer records than it counts, and do not miss records that repeat", () =>
    Effect.gen(function*() {
      const file = yield* newFile
      const twice = [...newest(100).slice(0, 10), ...newest(100)]
      for (let round = 0; round < 3; round++) {
        const { certain, drift } = yield* scanInto(file, newest(80), { countOf: () => 100 })
        assert.deepStrictEqual([drift, "count" in certain], [[], false])
      }
      for (let round = 0; round < 5; round++) yield* scanInto(file, newest(100), { countOf: () => 100 })
      const { drift } = yield* scanInto(file, twice, { countOf: () => 110 })
      assert.deepStrictEqual(drift, [])
    }).pipe(Effect.scoped))

  it.live("name a list that is no longer sorted, although another date is missing in some records", () =>
    Effect.gen(function*() {
      const file = yield* newFile
      const list = newest(100).map((one, index) => ({ ...one, paymentDate: index % 3 === 0 ? null : one.createdAt }))
      const mixed = list.map((_, index) => list[(index * 37) % list.length] ?? invoice(0))
      for (let round = 0; round < 2; round++) yield* scanInto(file, list)
      const { drift } = yield* scanInto(file, mixed)
      assert.deepStrictEqual(drift.map(driftLine), [
        "changed: order of the list: not by createdAt (before: createdAt, newest first) (100 records)"
      ])
    }).pipe(Effect.scoped))

  it.live("are complete although the facts cannot be read, and leave those as they are", () =>
    Effect.gen(function*() {
      const file = yield* newFile
      yield* scanInto(file, newest(60))
      execute(file, "UPDATE facts SET evidence = '{}'")
      const again = scan("invoices", { limit: 10 }).pipe(
        Effect.provide(Layer.merge(SqliteSink.layer(file), layerTest({ invoices: newest(65) })))
      )
      assert.deepInclude(yield* again, { records: 65, inserted: 5, drift: [] })
      assert.deepStrictEqual(rowsOf(file, "SELECT DISTINCT evidence FROM facts").map(({ evidence }) => evidence), [
        "{}"
      ])
    }).pipe(Effect.scoped))

  it.live("observe nothing of what only a part of a list, or a list of few records, shows", () =>
    Effect.gen(function*() {
      const file = yield* newFile
      for (let round = 0; round < 3; round++) {
        const { certain } = yield* scanInto(file, newest(10 + 4 * round), {}, 20)
        assert.deepStrictEqual(certain, {})
      }
    }).pipe(Effect.scoped))
})

/** A service whose list changes between two pages. Its cursors are positions. */
class Service {
  readonly #dice: Dice
  #order: "newest" | "oldest" | "shuffled"
  readonly #count: "page" | "list" | "rest"
  readonly #busy: number
  readonly #shortRate: number
  #records: Array<Invoice> = []
  #created = 0
  misplaces = false
  truncates = false
  isSmall = false

  constructor(dice: Dice) {
    this.#dice = dice
    this.#order = dice.pick(["newest", "oldest", "shuffled"])
    this.#count = dice.pick(["page", "list", "rest"])
    this.#busy = dice.pick([0, 0.2, 2])
    this.#shortRate = dice.pick([0, 0, 0.1])
    for (let index = 0; index < 150 + dice.below(400); index++) this.appear()
  }

  get order() {
    return this.#order
  }

  get isEven() {
    return this.#shortRate === 0
  }

  get count() {
    return this.#count
  }

  appear(): void {
    const place = this.misplaces ? Math.floor(this.#records.length / 2) : this.#placeOfNew()
    this.#records.splice(place, 0, invoice(this.#created++))
  }

  #placeOfNew(): number {
    if (this.#order === "newest") return 0
    return this.#order === "oldest" ? this.#records.length : this.#dice.below(this.#records.length + 1)
  }

  turn(): void {
    this.#order = this.#order === "newest" ? "oldest" : "newest"
    this.#records = this.#records.toReversed()
  }

  #move(): void {
    for (let events = this.#dice.below(1 + 2 * this.#busy); events > 0; events--) {
      if (this.#dice.chance(0.7)) this.appear()
      else this.#records.splice(this.#dice.below(this.#records.length), 1)
    }
  }

  /** Reads the whole list. Returns the records of each page, and `count`. */
  read(limit: number): ReadonlyArray<{ readonly records: ReadonlyArray<Invoice>; readonly count: number }> {
    const pages: Array<{ readonly records: ReadonlyArray<Invoice>; readonly count: number }> = []
    for (let from = 0, isLast = false; !isLast;) {
      const most = (this.isSmall ? limit - 2 : limit) - (this.#dice.chance(this.#shortRate) ? 1 : 0)
      const records = this.#records.slice(from, Math.min(from + most, this.#end))
      from += records.length
      isLast = from >= this.#end
      const rest = this.#records.length - from
      pages.push({ records, count: { page: records.length, list: this.#records.length, rest }[this.#count] })
      this.#move()
    }
    return pages
  }

  get #end(): number {
    return this.truncates ? Math.floor(this.#records.length * 0.5) : this.#records.length
  }
}

/** Scans without a database: what a scan observes, and what contradicts an earlier answer. */
class Scans {
  readonly #known = new Set<string>()
  readonly evidence = new Map<Sighting["fact"], Evidence>()

  scan(service: Service, limit: number): ReadonlyArray<Sighting["fact"]> {
    const fresh = new Set<string>()
    const seen = new Set<string>()
    const places = { known: 0, fresh: 0, freshAtStart: 0, freshAtEnd: 0 }
    let [records, repeats] = [0, 0]
    let sight: ListSight = firstSight(true)
    for (const page of service.read(limit)) {
      sight = withPage(sight, sightOf(["createdAt"], page.count, page.records.map((value) => ({ value }))))
      for (const { id } of page.records) {
        records++
        if (seen.has(id)) repeats++
        else if (this.#known.has(id)) [places.known, places.freshAtEnd] = [places.known + 1, 0]
        else if (this.#known.size > 0) {
          fresh.add(id)
          places.fresh++
          places.freshAtEnd++
          if (places.known === 0) places.freshAtStart++
        }
        seen.add(id)
      }
    }
    for (const id of seen) this.#known.add(id)
    const found = sightings(sight, limit, { records, repeats, inserted: fresh.size, behindHead: 0, places })
    return found.flatMap(({ answer, fact }) => {
      const before = this.evidence.get(fact) ?? noEvidence
      this.evidence.set(fact, add(before, { answer, seen: "", at: "" }))
      return before.accepted === undefined || before.accepted === answer || fact === "short-pages" ? [] : [fact]
    })
  }
}

const history = (dice: Dice, scans: number) => {
  const [service, copy, limit] = [new Service(dice), new Scans(), 10 + dice.below(40)]
  const named: Array<Sighting["fact"]> = []
  for (let round = 0; round < scans; round++) {
    named.push(...copy.scan(service, limit))
    for (let added = dice.below(12); added > 0; added--) service.appear()
  }
  return { copy, limit, named, service }
}

describe("histories", () => {
  it(`of 30 scans of a list that keeps its rules name nothing (PAYMENTS_SEED=${seed})`, () => {
    let certain = 0
    const runs = isLongRun ? 1000 : 100
    for (let run = 0; run < runs; run++) {
      const { copy, named, service } = history(diceOf(seed, "rules", run), 30)
      assert.deepStrictEqual(named, [], `history ${run} ${JSON.stringify(Object.fromEntries(copy.evidence))}`)
      const answerOf = (fact: Sighting["fact"]) => {
        const { answer, degree } = judge(copy.evidence.get(fact) ?? noEvidence)
        return degree === "certain" ? answer : undefined
      }
      const order = service.order === "shuffled" ? "no date" : `createdAt, ${service.order} first`
      assert.include([order, undefined], answerOf("list-order"), `history ${run}`)
      const place = { newest: "first", oldest: "last", shuffled: "in several places" }[service.order]
      assert.include([place, undefined], answerOf("places"), `history ${run}`)
      const count = { page: "the page", list: "the list", rest: "what follows the page" }[service.count]
      assert.include([count, undefined], answerOf("count"), `history ${run}`)
      assert.include(["as many as the limit", undefined], answerOf("page-records"), `history ${run}`)
      assert.include(["yes", undefined], answerOf("short-pages"), `history ${run}`)
      if (answerOf("list-order") !== undefined && answerOf("places") !== undefined) certain++
    }
    assert.isAbove(certain / runs, 0.6)
  })

  it.each<readonly [Sighting["fact"], change: (service: Service) => void, applies: (service: Service) => boolean]>([
    ["list-order", (service) => service.turn(), ({ order }) => order !== "shuffled"],
    ["places", (service) => {
      service.misplaces = true
      for (let added = 0; added < 40; added++) service.appear()
    }, ({ order }) => order !== "shuffled"],
    ["page-records", (service) => void (service.isSmall = true), ({ isEven }) => isEven],
    ["count", (service) => void (service.truncates = true), ({ count }) => count === "list"]
  ])(`with another answer to %s name it in the first scan (PAYMENTS_SEED=${seed})`, (fact, change, applies) => {
    const runs = isLongRun ? 100 : 20
    let [named, tried] = [0, 0]
    for (let run = 0; tried < runs; run++) {
      const { copy, limit, service } = history(diceOf(seed, fact, run), 10)
      if (!applies(service) || copy.evidence.get(fact)?.accepted === undefined) continue
      tried++
      change(service)
      if (copy.scan(service, limit).includes(fact)) named++
    }
    assert.isAtLeast(named / runs, 0.99)
  })
})
