/** Days with an unusual number of records, and references that records share. */
import { assert, describe, it } from "@effect/vitest"
import { type Dice, diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { daysIn, daysToCount, referencesIn, unusualDays } from "../../src/plan/RowSight.ts"
import type { Drift } from "../../src/port/Drift.ts"

const msPerDay = 86_400_000
const first = Date.UTC(2026, 0, 5)
const dayAt = (index: number): string => new Date(first + index * msPerDay).toISOString().slice(0, 10)

/** Days from Monday, 5 January 2026, with these numbers of records. */
const daysWith = (numbers: ReadonlyArray<number>) =>
  new Map(numbers.flatMap((records, index) => records === 0 ? [] : [[dayAt(index), records]]))

const steady = Array.from({ length: 30 }, (_, index) => index % 7 < 5 ? 100 + index : 40 + index % 3)

const quiet = steady.map((records, index) => index % 7 < 5 ? records : 0)

describe("a day is unusual", () => {
  it.each<readonly [name: string, numbers: ReadonlyArray<number>, days: ReadonlyArray<number>]>([
    ["if it has no records", steady.with(21, 0), [21]],
    ["if it has few records", steady.with(21, 5), [21]],
    [
      "if no third working day in a row has records, and none has them on weekends",
      quiet.with(22, 0).with(23, 0).with(24, 0),
      [24]
    ],
    ["not if it may be a holiday", quiet.with(22, 0).with(24, 0), []],
    ["if it has many more records", steady.with(22, 2000), [22]],
    ["not if it is like a weekend", steady.with(21, 40), []],
    ["not in the first two weeks", steady.slice(0, 14).with(13, 0), []],
    [
      "not if days differ as much",
      steady.map((records, index) => index % 3 === 0 ? records / 10 : records).with(22, 5),
      []
    ],
    ["not if the usual days have few records", steady.map((records) => records % 20).with(22, 0), []],
    ["three times in a row, then it is usual", [...steady.slice(0, 21), 0, 0, 0, 0, 0], [21, 22, 23]],
    ["not at the first end of a month", steady.with(26, 2000), []]
  ])("%s", (_, numbers, days) => {
    const found = unusualDays(daysWith(numbers), dayAt(numbers.length - 1))
    assert.deepStrictEqual(found.map(({ day }) => day), days.map(dayAt))
  })

  it("and is named in the first scan that begins a day after its end", () => {
    const created = daysWith([...steady.slice(0, 21), 0, 110])
    const endOf21 = first + 22 * msPerDay
    const named = (before: number, last: number) =>
      daysIn({ scans: { before: endOf21 + before, last: endOf21 + last }, created, references: undefined })
    const drift: Drift = { fact: "day-records", what: `${dayAt(21)}, where 100 to 118 were usual`, records: 0 }
    assert.deepStrictEqual(named(0, msPerDay), [drift])
    assert.deepStrictEqual(named(-9 * msPerDay, 2 * msPerDay), [drift])
    assert.deepStrictEqual(named(0, msPerDay - 1), [])
    assert.deepStrictEqual(named(msPerDay, msPerDay + 1), [])
    assert.deepStrictEqual(named(msPerDay, 2 * msPerDay), [])
    assert.isUndefined(daysToCount({ before: endOf21, last: endOf21 + msPerDay - 1 }))
    assert.isUndefined(daysToCount(undefined))
    assert.deepStrictEqual(daysIn({ scans: undefined, created, references: undefined }), [])
  })
})

describe("a shared reference", () => {
  it.each<readonly [name: string, rows: number, shared: number, firstShared: number | undefined, isNamed: boolean]>([
    ["after many that differ", 1010, 6, 1000, true],
    ["of few records", 1010, 4, 1000, false],
    ["among few records before", 160, 6, 100, false],
    ["that was always there", 1000, 60, 3, false]
  ])("%s", (_, rows, shared, firstShared, isNamed) => {
    const references = { rows, shared, firstShared, nextRow: rows }
    const [sighting] = referencesIn({ scans: undefined, created: new Map(), references })
    assert.deepInclude(sighting, { fact: "references", answer: "no", records: shared, mayBeChance: !isNamed })
  })

  it("is not observed in few records, and there is none without", () => {
    const of = (rows: number) =>
      referencesIn({
        scans: undefined,
        created: new Map(),
        references: { rows, shared: 0, firstShared: undefined, nextRow: rows }
      })
    assert.deepStrictEqual(of(19), [])
    assert.deepInclude(of(20)[0], { answer: "yes", records: 20 })
    assert.deepStrictEqual(referencesIn({ scans: undefined, created: new Map(), references: undefined }), [])
  })
})

/** How many records a business creates on each day. */
const volumesOf = (dice: Dice, days: number): ReadonlyArray<number> => {
  const level = dice.pick([3, 30, 300, 5000])
  const weekend = dice.pick([0, 0.05, 0.4, 1])
  const noise = dice.pick([0.05, 0.2, 0.5])
  const growth = dice.pick([0, 0.003, -0.003])
  const monthEnd = dice.pick([1, 1, 2, 10])
  const holidays = dice.pick([0, 0, 0.02])
  // A normal deviate from twelve uniform ones.
  const deviate = () => Array.from({ length: 12 }, () => dice.below(1e6) / 1e6).reduce((sum, one) => sum + one, -6)
  return Array.from({ length: days }, (_, index) => {
    const date = new Date(first + index * msPerDay)
    const isFree = date.getUTCDay() % 6 === 0 || dice.chance(holidays) && weekend > 0
    const isLast = new Date(first + (index + 1) * msPerDay).getUTCDate() === 1
    const mean = level * (isFree ? weekend : 1) * (isLast ? monthEnd : 1) * Math.exp(growth * index)
    return Math.max(0, Math.round(mean * Math.exp(noise * deviate()) + Math.sqrt(mean) * deviate()))
  })
}

const lengthOf = (dice: Dice) => 14 + dice.below(56)

/** About one of 6,000 random histories names a day. So most runs see none. */
const mostNaming = isLongRun ? 2 : 1

describe("histories", () => {
  it(`of days that follow their rules name none of them, but for ${mostNaming} at most (PAYMENTS_SEED=${seed})`, () => {
    const naming: Array<string> = []
    for (let run = 0; run < (isLongRun ? 1000 : 200); run++) {
      const dice = diceOf(seed, "days", run)
      const volumes = volumesOf(dice, lengthOf(dice))
      if (unusualDays(daysWith(volumes), dayAt(volumes.length - 1)).length > 0) naming.push(`history ${run} ${volumes}`)
    }
    assert.isAtMost(naming.length, mostNaming, naming.join("\n"))
  })

  it.each<readonly [name: string, days: number, change: (usual: number) => number]>([
    ["no records on three working days", 3, () => 0],
    ["twenty times as many", 1, (usual) => usual * 20]
  ])(`with %s name it (PAYMENTS_SEED=${seed})`, (name, count, change) => {
    const runs = isLongRun ? 100 : 20
    let [named, tried] = [0, 0]
    for (let run = 0; tried < runs; run++) {
      const dice = diceOf(seed, name, run)
      const volumes = volumesOf(dice, 28 + dice.below(42))
      const last = volumes.length - 1
      const weekdays = volumes.filter((_, day) => day % 7 < 5)
      const least = Math.min(...weekdays)
      const isNearMonthEnd = new Date(first + (last + 3) * msPerDay).getUTCDate() < 7
      // Only steady business shows that a day is unusual. At the end of a month there may be more records.
      const isSteady = least >= 25 && Math.max(...volumes) <= 3 * least
      if (last % 7 < 2 || last % 7 > 4 || !isSteady || isNearMonthEnd) continue
      tried++
      const changed = volumes.map((records, index) => index > last - count ? change(records) : records)
      if (unusualDays(daysWith(changed), dayAt(last)).some(({ day }) => day === dayAt(last))) named++
    }
    assert.isAtLeast(named / runs, 0.99)
  })
})
