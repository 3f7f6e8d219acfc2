import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { schemaOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { type Dice, diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Effect } from "effect"
import { afterAll, beforeAll } from "vitest"
import type { Destination, ReconcileOptions } from "../../src/index.ts"
import { dayText } from "../../src/reconcile/Dates.ts"
import { fill, reconciled, sqliteIn, written } from "./reconciling.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

interface Invoice {
  readonly id: string
  readonly reference: string | null
  readonly amount: string | null
  readonly settlementDate: string | null
  readonly contract: string
}

interface Line {
  readonly reference: string
  /** In hundredths. */
  readonly amount: bigint
  readonly fee: bigint
  readonly day: string
  readonly contract: string
}

const firstDay = 19_700

const invoicesOf = (dice: Dice): ReadonlyArray<Invoice> =>
  Array.from({ length: dice.below(60) }, (_, index) => ({
    id: `inv_${index}`,
    reference: dice.chance(0.05) ? null : `R${dice.below(40)}${dice.pick(["", "é", "\u{1f600}", "\ue000", " x"])}`,
    amount: dice.chance(0.03)
      ? null
      : dice.pick([
        "100",
        "200",
        "300",
        "-100",
        "0",
        "9007199254740993",
        "9223372036854775807",
        String(dice.below(1000))
      ]),
    settlementDate: dice.chance(0.1) ? null : dayText(firstDay + dice.below(8)),
    contract: `c${dice.below(3)}`
  }))

/** Most lines are those of invoices. Some are altered, doubled, of another day, or of no invoice. */
const linesOf = (dice: Dice, invoices: ReadonlyArray<Invoice>): ReadonlyArray<Line> => {
  const lines = invoices.flatMap((invoice): ReadonlyArray<Line> => {
    if (dice.chance(0.2)) return []
    const fee = dice.chance(0.2) ? BigInt(dice.below(20)) : 0n
    const large = BigInt(invoice.amount ?? 7)
    const amount = (large > 2n ** 62n ? 2n ** 62n : large) - fee + (dice.chance(0.1) ? BigInt(dice.below(50)) : 0n)
    const day = invoice.settlementDate ?? dayText(firstDay + dice.below(8))
    const line = {
      reference: invoice.reference ?? (dice.chance(0.5) ? "" : "R1"),
      amount,
      fee,
      day: dice.chance(0.2) ? dayText(firstDay + dice.below(8)) : day,
      contract: invoice.contract
    }
    return dice.chance(0.1) ? [line, line] : [line]
  })
  const strange = { reference: "of no invoice", amount: 5n, fee: 0n, day: dayText(firstDay + 1), contract: "c9" }
  return [...lines, strange]
}

const decimalText = (amount: bigint, mark: string, group: string): string => {
  const digits = String(amount < 0n ? -amount : amount).padStart(3, "0")
  const whole = digits.slice(0, -2).replaceAll(/\B(?=(\d{3})+$)/g, group)
  return `${amount < 0n ? "-" : ""}${whole}${mark}${digits.slice(-2)}`
}

/** Writes a statement in some notation. */
const textOf = (dice: Dice, lines: ReadonlyArray<Line>): string => {
  const [mark, group] = dice.pick([[".", ""], [",", "."], [".", "'"], [",", ""], [".", ","]] as const)
  const separator = dice.pick([";", "\t", "|", ","])
  const toDay = dice.pick([
    (day: string) => day,
    (day: string) => day.split("-").toReversed().join("."),
    (day: string) => day.replaceAll("-", "")
  ])
  const cell = (text: string) => /[",;|\t]/.test(text) || dice.chance(0.1) ? `"${text}"` : text
  const rows = [
    ["Verwendungszweck", "Betrag", "Gebühr", "Valuta", "Vertrag"],
    ...lines.map(({ amount, contract, day, fee, reference }) => [
      reference,
      decimalText(amount, mark, group),
      fee === 0n ? "" : decimalText(fee, mark, ""),
      toDay(day),
      contract
    ])
  ]
  const end = dice.pick(["\n", "\r\n"])
  return `${dice.pick(["", "\ufeff"])}${rows.map((row) => row.map(cell).join(separator)).join(end)}${
    dice.pick(["", end])
  }`
}

const shuffled = <A>(dice: Dice, from: ReadonlyArray<A>): ReadonlyArray<A> =>
  from.map((value) => ({ value, place: dice.below(1_000_000_000) })).toSorted((a, b) => a.place - b.place).map((
    { value }
  ) => value)

const optionsOf = (dice: Dice): Pick<ReconcileOptions, "on" | "group" | "withinDays" | "map" | "decimals"> => {
  const on = dice.pick([
    ["reference", "amount"],
    ["reference", "amount"],
    ["reference", "amount", "settlementDate"],
    ["amount", "settlement_date"],
    ["amount"],
    ["contract", "amount"]
  ])
  const column = (name: string) => ({ column: name, isNegated: false })
  const group = dice.chance(0.5) ? undefined : dice.pick(["settlement_date", "contract"])
  const isUsed = (field: string) => on.includes(field) || group === field
  return {
    on,
    group,
    withinDays: dice.below(4),
    decimals: 2,
    map: {
      amount: column("Betrag"),
      fee: column("Gebühr"),
      settlementDate: column("Valuta"),
      ...isUsed("reference") ? { reference: column("Verwendungszweck") } : {},
      ...isUsed("contract") ? { contract: column("Vertrag") } : {}
    }
  }
}

const json = ({ amount, contract, id, reference, settlementDate }: Invoice): string =>
  `{"id":"${id}","reference":${JSON.stringify(reference)},"amount":${amount},"settlementDate":${
    JSON.stringify(settlementDate)
  },"contract":"${contract}","status":"paid"}`

const sorted = (values: ReadonlyArray<unknown>): ReadonlyArray<string> =>
  values.map((value) => JSON.stringify(value, (_, part: unknown) => typeof part === "bigint" ? `${part}` : part))
    .toSorted()

type Result = Effect.Success<ReturnType<typeof reconciled>>

/** What must not depend on the order of the file: everything but the numbers of lines and of entries. */
const withoutOrder = ({ entries, rows, totals }: Result) => ({
  totals: sorted([totals]),
  entries: sorted(
    entries.map(({ amountHere, amountThere, class: found, difference, fee, keys, lines, records, why }) => ({
      amountHere,
      amountThere,
      found,
      difference,
      fee,
      keys,
      lines,
      records,
      why
    }))
  ),
  lines: sorted(
    rows.filter(({ line }) => line !== null).map(({ amountThere, class: found, dayThere, fee, keys }) => ({
      amountThere,
      found,
      dayThere,
      fee,
      keys
    }))
  ),
  // Of equal records, any may be the first one of its entry, but each is in the same class.
  records: sorted(
    rows.filter(({ id }) => id !== null).map(({ amountHere, class: found, dayHere, id, keys }) => ({
      amountHere,
      found,
      dayHere,
      id,
      keys
    }))
  )
})

const sum = (values: ReadonlyArray<bigint | null>): bigint =>
  values.reduce<bigint>((total, value) => total + (value ?? 0n), 0n)

/** Every line and record is in one row, and the sums of the rows are those of the totals and of both sides. */
const assertPartition = ({ rows, totals }: Result, lines: ReadonlyArray<Line>, invoices: ReadonlyArray<Invoice>) => {
  const numbers = rows.flatMap(({ line }) => line === null ? [] : [line]).toSorted((a, b) => a - b)
  assert.deepStrictEqual(numbers, lines.map((_, index) => index + 2))
  assert.deepStrictEqual(
    sorted(rows.flatMap(({ id }) => id === null ? [] : [id])),
    sorted(invoices.map(({ id }) => id))
  )
  assert.strictEqual(sum(rows.map(({ amountThere }) => amountThere)), sum(lines.map(({ amount }) => amount)))
  assert.strictEqual(sum(rows.map(({ fee }) => fee)), sum(lines.map(({ fee }) => fee)))
  assert.strictEqual(
    sum(rows.map(({ amountHere }) => amountHere)),
    sum(invoices.map(({ amount }) => BigInt(amount ?? 0)))
  )
  for (const [name, total] of Object.entries(totals)) {
    const own = rows.filter((row) => row.class === name)
    assert.strictEqual(total.lines, own.filter(({ line }) => line !== null).length, name)
    assert.strictEqual(total.records, own.filter(({ id }) => id !== null).length, name)
    assert.strictEqual(total.there, sum(own.map(({ amountThere }) => amountThere)), name)
    assert.strictEqual(total.here, sum(own.map(({ amountHere }) => amountHere)), name)
    assert.strictEqual(total.fee, sum(own.map(({ fee }) => fee)), name)
    if (name !== "matched" && name !== "expected") {
      assert.strictEqual(sum(own.map(({ difference }) => difference)), total.there + total.fee - total.here, name)
    }
  }
  // A matched entry has no difference.
  for (const entry of Map.groupBy(rows.filter((row) => row.class === "matched"), (row) => row.entry).values()) {
    const [there, fee, here] = [
      entry.map((row) => row.amountThere),
      entry.map((row) => row.fee),
      entry.map((row) => row.amountHere)
    ]
    assert.strictEqual(sum(there) + sum(fee), sum(here))
    assert.strictEqual(new Set(entry.map(({ keys }) => JSON.stringify(keys))).size, 1)
  }
}

/** The classes of lines and records by reference and amount, as a person would find them. */
const expectedClasses = (lines: ReadonlyArray<Line>, invoices: ReadonlyArray<Invoice>, within: number) => {
  const lastDay = lines.map(({ day }) => day).toSorted().at(-1) ?? ""
  const isExpected = ({ settlementDate }: Invoice) =>
    settlementDate === null || dayText(Date.parse(`${settlementDate}T00:00:00Z`) / 86_400_000 + within) > lastDay
  const classes: Array<string> = []
  const add = (name: string, of: number) => void classes.push(...Array.from({ length: of }, () => name))
  const alone = (some: ReadonlyArray<Invoice>) => {
    add("expected record", some.filter(isExpected).length)
    add("missing there record", some.filter((one) => !isExpected(one)).length)
  }
  const references = new Set([
    ...lines.map(({ reference }) => reference.trim()),
    ...invoices.map(({ reference }) => (reference ?? "").trim())
  ])
  for (const reference of references) {
    let left = lines.filter((line) => line.reference.trim() === reference)
    let right = invoices.filter((invoice) => (invoice.reference ?? "").trim() === reference)
    if (reference === "") {
      add("missing here line", left.length)
      alone(right)
      continue
    }
    const pair = (of: number) => {
      add("matched line", of)
      add("matched record", of)
    }
    for (const gross of new Set(left.map(({ amount, fee }) => amount + fee))) {
      const own = left.filter(({ amount, fee }) => amount + fee === gross)
      const others = right.filter(({ amount }) => amount !== null && BigInt(amount) === gross)
      const due = others.filter((one) => !isExpected(one))
      const paired = own.length === others.length ? others : own.length === due.length ? due : []
      if (paired.length === 0) continue
      pair(paired.length)
      left = left.filter((line) => !own.includes(line))
      right = right.filter((invoice) => !paired.includes(invoice))
    }
    const due = right.filter((one) => !isExpected(one))
    if (left.length > 0 && right.length > left.length && due.length > 0) {
      alone(right.filter(isExpected))
      right = due
    }
    if (left.length === 0) alone(right)
    else if (right.length === 0) add("missing here line", left.length)
    else {
      const isSame = right.every(({ amount }) => amount !== null) && (left.length === 1 || right.length === 1) &&
        sum(left.map(({ amount, fee }) => amount + fee)) === sum(right.map(({ amount }) => BigInt(amount ?? 0)))
      const name = isSame ? "matched" : "different"
      add(`${name} line`, left.length)
      add(`${name} record`, right.length)
    }
  }
  return classes.toSorted()
}

const classesOf = ({ rows }: Result) =>
  rows.flatMap((
    { class: name, id, line }
  ) => [...line === null ? [] : [`${name} line`], ...id === null ? [] : [`${name} record`]])
    .toSorted()

const check = (destination: (folder: string) => Destination.StoredDestination, dice: Dice, rounds: number) =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const from = destination(folder)
    const invoices = invoicesOf(dice)
    yield* fill(from, shuffled(dice, invoices).map(json))
    for (let round = 0; round < rounds; round++) {
      const lines = linesOf(dice, invoices)
      const options = optionsOf(dice)
      const result = yield* reconciled({ from, file: written(folder, textOf(dice, lines)), ...options })
      assertPartition(result, lines, invoices)
      const again = yield* reconciled({ from, file: written(folder, textOf(dice, shuffled(dice, lines))), ...options })
      assert.deepStrictEqual(withoutOrder(again), withoutOrder(result))
      if (options.group === undefined && options.on.join() === "reference,amount") {
        assert.deepStrictEqual(classesOf(result), expectedClasses(lines, invoices, options.withinDays))
      }
    }
  })

describe("a reconciliation of any copy with any statement", () => {
  it.live.each(Array.from({ length: isLongRun ? 200 : 10 }, (_, index) => index))(
    "divides both sides into classes with their sums, whatever the order of the file: PostgreSQL, copy %i",
    (index) =>
      check(
        (folder) => ({ _tag: "Postgres", url: urlOf(server, schemaOf(folder)) }),
        diceOf(seed, "postgres", index),
        10
      )
  )

  it.live(
    "divides both sides into classes with their sums, whatever the order of the file: SQLite",
    () => check(sqliteIn, diceOf(seed, "sqlite"), 3)
  )

  // The ledger is read 100 rows at once.
  it.live.each([100, 101, 450])("has every line and every record of %i in one row", (count) =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const from = sqliteIn(folder)
      const day = dayText(firstDay)
      const invoices = Array.from({ length: count }, (_, index): Invoice => ({
        id: `inv_${index}`,
        reference: `R${index}`,
        amount: "100",
        settlementDate: day,
        contract: `c${index}`
      }))
      // Of each four: one matches, in two parts, one differs, one has another reference, and one is missing there.
      const lines = Array.from({ length: count }, (_, index) => {
        const line = { reference: `R${index}`, amount: 100n, fee: 0n, day, contract: `c${index}` }
        const parts = [{ ...line, amount: 30n }, { ...line, amount: 70n }]
        return [parts, [{ ...line, amount: 90n }], [{ ...line, reference: `X${index}`, contract: `x${index}` }], []]
      }).flatMap((each, index) => each[index % 4] ?? [])
      yield* fill(from, invoices.map(json))
      const file = written(folder, textOf(diceOf(0), lines))
      const map = { amount: { column: "Betrag", isNegated: false }, fee: { column: "Gebühr", isNegated: false } }
      const column = (name: string) => ({ column: name, isNegated: false })
      for (
        const options of [
          { on: ["reference", "amount"], map: { ...map, reference: column("Verwendungszweck") } },
          { on: ["amount"], group: "contract", map: { ...map, contract: column("Vertrag") } }
        ]
      ) {
        const result = yield* reconciled({ from, file, decimals: 2, ...options })
        assertPartition(result, lines, invoices)
        const classes = Map.groupBy(result.entries, (entry) => entry.class)
        const of = (rest: number) => Math.ceil((count - rest) / 4)
        assert.deepStrictEqual(
          (["matched", "different", "missing here", "missing there"] as const).map((name) => classes.get(name)?.length),
          [of(0), of(1), of(2), of(2) + of(3)]
        )
      }
    }).pipe(Effect.scoped))
})
