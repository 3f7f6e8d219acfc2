import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { Schema } from "effect"
import { make, type WorldOptions } from "../../src/serve/World.ts"
import {
  cursorKinds,
  fieldsOf,
  idOf,
  listNames,
  orders,
  random,
  randomWorld,
  readAll,
  testSeed
} from "./WorldFixtures.ts"

const hourMs = 3_600_000
const start = Date.UTC(2024, 0, 1)

/** A live world with a clock that the test sets. */
const makeLive = (
  options: WorldOptions & { readonly rates?: readonly [appear: number, change: number, vanish: number] }
) => {
  const clock = { ms: 0 }
  const [appearPerHour, changePerHour, vanishPerHour] = options.rates ?? [300, 600, 300]
  return {
    clock,
    world: make({ ...options, live: { now: () => clock.ms, appearPerHour, changePerHour, vanishPerHour } })
  }
}

describe(`a live world (WORLD_SEED=${testSeed})`, () => {
  it("has the same records at a given time, even if the times are queried in another order", () => {
    const times = [0, 1, 999, hourMs, 5.5 * hourMs, 200 * hourMs]
    for (const list of listNames) {
      const first = makeLive({ records: 1200, seed: testSeed }).world
      const second = makeLive({ records: 1200, seed: testSeed }).world
      const forwards = times.map((time) => first.snapshot(list, time))
      const backwards = times.toReversed().map((time) => second.snapshot(list, time)).toReversed()
      assert.deepStrictEqual(forwards, backwards)
      assert.strictEqual(new Set(forwards.map((texts) => texts.join("\n"))).size > 3, true)
      assert.notDeepEqual(makeLive({ records: 1200, seed: testSeed + 1 }).world.snapshot(list, hourMs), forwards[3])
    }
  })

  it("puts a share of new records at the end of a list that is otherwise newest first", () => {
    const { clock, world } = makeLive({ records: 200, order: "newest", misplaced: 0.4, rates: [100, 0, 0] })
    const read = () => readAll(world, "invoices", { limit: 30 }).map((text) => String(fieldsOf(text)["createdAt"]))
    const atStart = read()
    assert.deepStrictEqual(atStart, atStart.toSorted().toReversed())
    const counts = (times: ReadonlyArray<string>) => {
      const first = times.indexOf(atStart[0] ?? "")
      assert.deepStrictEqual(times.slice(first, first + 200), atStart)
      return [first, times.length - first - 200] as const
    }
    clock.ms = 2 * hourMs
    const [atFront, atEnd] = counts(read())
    assert.isAbove(atFront, 80)
    assert.isAbove(atEnd, 40)
    assert.approximately(atFront + atEnd, 200, 2)
    world.misplace?.(0)
    clock.ms = 4 * hourMs
    const [laterAtFront, laterAtEnd] = counts(read())
    assert.strictEqual(laterAtEnd, atEnd)
    assert.approximately(laterAtFront - atFront, 200, 2)
    assert.isUndefined(makeLive({ records: 1, order: "oldest" }).world.misplace)
  })

  it("serves exactly the records of the current time in each list order, also after the clock goes back", () => {
    for (let run = 0; run < 25; run++) {
      const seed = testSeed + run
      const { clock, ...options } = randomWorld(seed)
      const { integerBelow } = random(seed + 0.25)
      const world = make(options)
      for (const list of listNames) {
        for (let visit = 0; visit < 4; visit++) {
          clock.ms = integerBelow(50 * hourMs)
          assert.deepStrictEqual(
            readAll(world, list, { limit: 1 + integerBelow(100) }),
            world.snapshot(list, clock.ms),
            `WORLD_SEED=${testSeed} run ${run} ${list} at ${clock.ms} ${JSON.stringify(options)}`
          )
        }
      }
    }
  })

  it("serves the remaining records when nearly all have vanished", () => {
    for (const order of orders) {
      for (const cursors of cursorKinds) {
        // A record lives six minutes on average, and at most 2.3 hours.
        const options = { records: 40, seed: testSeed, order, cursors, count: "total", rates: [300, 600, 400] } as const
        const { clock, world } = makeLive(options)
        for (const list of listNames) {
          for (const hours of [100, 2.2, 2.4, 30, 0, 1000 / 7]) {
            clock.ms = hours * hourMs
            const context = `WORLD_SEED=${testSeed} ${list} ${order} ${cursors} after ${hours} h`
            const remaining = world.snapshot(list)
            assert.isBelow(remaining.length, 150, context)
            assert.deepStrictEqual(readAll(world, list, { limit: 7 }), remaining, context)
            const answer = world.servers[list]({ filters: {}, limit: 1, cursor: undefined })
            assert(answer._tag === "Page")
            assert.strictEqual(answer.count, remaining.length, context)
          }
        }
      }
    }
  })

  it("returns each record exactly once with keyset cursors if it exists during the whole listing", () => {
    for (const order of orders) {
      for (let run = 0; run < 8; run++) {
        const { integerBelow } = random(testSeed + run)
        const { clock, world } = makeLive({ records: 700, seed: testSeed + run, order })
        const list = listNames[run % 3] ?? "invoices"
        const present = [new Set(world.snapshot(list).map(idOf))]
        const read = readAll(world, list, { limit: 20 + integerBelow(50) }, () => {
          clock.ms += integerBelow(hourMs / 15)
          present.push(new Set(world.snapshot(list).map(idOf)))
        }).map(idOf)
        const context = `WORLD_SEED=${testSeed} run ${run} ${order}`
        assert.strictEqual(new Set(read).size, read.length, context)
        const stayed = [...present[0] ?? []].filter((id) => present.every((ids) => ids.has(id)))
        assert.isAbove(stayed.length, 200, context)
        const seen = new Set(read)
        assert.deepStrictEqual(stayed.filter((id) => !seen.has(id)), [], context)
        assert.notDeepEqual(present[0], present.at(-1), context)
      }
    }
  })

  it("skips records with offset cursors when others vanish, and repeats them when others appear before them", () => {
    const listing = (order: typeof orders[number], rates: readonly [number, number, number], seed: number) => {
      const { clock, world } = makeLive({ records: 600, seed, order, cursors: "offset", rates })
      const before = world.snapshot("payoutRequests").map(idOf)
      const read = readAll(world, "payoutRequests", { limit: 20 }, () => (clock.ms += hourMs / 10)).map(idOf)
      const after = new Set(world.snapshot("payoutRequests").map(idOf))
      const seen = new Set(read)
      return {
        skipped: before.filter((id) => after.has(id) && !seen.has(id)).length,
        repeated: read.length - seen.size
      }
    }
    for (let seed = testSeed; seed < testSeed + 5; seed++) {
      for (const order of orders) {
        const vanishing = listing(order, [0, 0, 100], seed)
        assert.isAbove(vanishing.skipped, 0, `seed ${seed} ${order}`)
        assert.strictEqual(vanishing.repeated, 0, `seed ${seed} ${order}`)
      }
      for (const order of ["newest", "shuffled"] as const) {
        const appearing = listing(order, [100, 0, 0], seed)
        assert.isAbove(appearing.repeated, 0, `seed ${seed} ${order}`)
        assert.strictEqual(appearing.skipped, 0, `seed ${seed} ${order}`)
      }
      // Oldest first, new records come after those already read, so no record is skipped or repeated.
      assert.deepStrictEqual(listing("oldest", [100, 0, 0], seed), { skipped: 0, repeated: 0 })
    }
  })

  it("returns the records of the first page's time with snapshot cursors, whatever happens meanwhile", () => {
    for (const order of orders) {
      for (const filters of [{}, { customerId: "cus_0" }]) {
        const { clock, world } = makeLive({ records: 600, seed: testSeed, order, cursors: "snapshot" })
        clock.ms = hourMs + 0.5
        const before = readAll(world, "payoutRequests", { filters })
        const read = readAll(world, "payoutRequests", { filters, limit: 20 }, () => (clock.ms += hourMs / 10))
        assert.deepStrictEqual(read, before, `WORLD_SEED=${testSeed} ${order}`)
        assert.notDeepEqual(readAll(world, "payoutRequests", { filters }), before)
      }
    }
  })

  it("changes at the given rates", () => {
    for (const list of listNames) {
      const hours = 20
      const { world } = makeLive({ records: 5000, seed: testSeed, rates: [100, 60, 40] })
      const byId = (time: number) => new Map(world.snapshot(list, time).map((text) => [idOf(text), text]))
      const [before, after] = [byId(0), byId(hours * hourMs)]
      const stayed = [...before].filter(([id]) => after.has(id))
      const appeared = [...after.keys()].filter((id) => !before.has(id)).length
      const about = (count: number, expected: number) =>
        assert.approximately(count, expected, expected * 0.25, `${list} seed ${testSeed}`)
      about(appeared, 100 * hours)
      about(before.size - stayed.length, 40 * hours)
      // A change that keeps the settlement day and cycle of an invoice does not alter the record.
      const changed = stayed.filter(([id, text]) => after.get(id) !== text).length
      assert.isAtMost(changed, 60 * hours * 1.1)
      assert.isAbove(changed, 60 * hours * 0.6)
    }
  })

  it("contains valid records that were created, changed and paid in the past", () => {
    for (const list of listNames) {
      const { world } = makeLive({ records: 800, seed: testSeed })
      const isRecord = Schema.is(Lists.byName[list].record)
      const [first] = world.snapshot(list, 0).map((text) => String(fieldsOf(text)["createdAt"])).toSorted()
      assert.isAtLeast(Date.parse(first ?? ""), start)
      const newestMs = Math.max(
        ...world.snapshot(list, 0).map((text) => Date.parse(String(fieldsOf(text)["createdAt"])))
      )
      for (const time of [0, 3 * hourMs, 100 * hourMs]) {
        for (const text of world.snapshot(list, time)) {
          const fields = fieldsOf(text)
          assert.isTrue(isRecord(fields))
          // Virtual time starts a few minutes after the newest initial record was created.
          const latest = newestMs + time + hourMs
          for (const field of ["createdAt", "updatedAt", "paymentDate"]) {
            if (typeof fields[field] !== "string") continue
            assert.isAtMost(Date.parse(fields[field]), latest, `${field} ${testSeed}`)
            assert.isAtLeast(Date.parse(fields[field]), Date.parse(String(fields["createdAt"])), `${field} ${testSeed}`)
          }
        }
      }
    }
  })

  it("starts a new payout as processing and a new invoice as pending, until it changes or is paid", () => {
    const { world } = makeLive({ records: 50, seed: 11, rates: [20, 10, 0] })
    /** Returns the states, every half hour, of some records that appeared after the start. */
    const histories = (list: Lists.ListName) => {
      const moments = Array.from({ length: 100 }, (_, step) => world.snapshot(list, step * hourMs / 2).map(fieldsOf))
      const initial = new Set(moments[0]?.map(({ id }) => id))
      const appeared = moments[4]?.filter(({ id }) => !initial.has(id)).slice(0, 10) ?? []
      return appeared.map(({ id }) => moments.flatMap((records) => records.filter((record) => record["id"] === id)))
    }
    let processing = 0
    for (const states of histories("payoutRequests")) {
      const updates = states.map((fields) => String(fields["updatedAt"]))
      assert.deepStrictEqual(updates, updates.toSorted())
      assert.isAbove(new Set(updates).size, 1)
      for (const { amount, amountSent, createdAt, status, updatedAt } of states) {
        assert.strictEqual(amountSent, status === "completed" ? Number(amount) - 900 : 0)
        if (updatedAt !== createdAt) continue
        assert.strictEqual(status, "processing")
        processing++
      }
    }
    assert.isAbove(processing, 0)
    for (const states of histories("invoices")) {
      const unpaid = states.filter((fields) => fields["paymentDate"] === null)
      assert.isTrue(unpaid.every(({ status }) => status === "pending"))
      const paid = states.slice(unpaid.length)
      assert.strictEqual(new Set(paid.map((fields) => fields["paymentDate"])).size, 1)
      assert.isAbove(new Set(paid.map((fields) => fields["settlementDate"])).size, 1)
    }
  })

  it("serves millions of records, with each kind of cursor", () => {
    for (const cursors of cursorKinds) {
      for (const order of orders) {
        const { clock, world } = makeLive({ records: 2_000_000, seed: testSeed, order, cursors })
        const seen = new Set<string>()
        let cursor: string | undefined
        for (let page = 0; page < 20; page++) {
          clock.ms += 1000
          const answer = world.servers.invoices({ filters: {}, limit: 100, cursor })
          assert(answer._tag === "Page")
          assert.strictEqual(answer.items.length, 100)
          for (const item of answer.items) seen.add(idOf(item))
          cursor = answer.next ?? undefined
        }
        assert.isAbove(seen.size, cursors === "keyset" ? 1999 : 1900)
      }
    }
  })
})
