/**
 * Pairs the lines of a statement with the records of a copy. Both sides are sorted, and merged twice: first, lines and
 * records whose compared fields are all equal are paired. Then what is left is compared by its key alone. Nothing is
 * paired by a guess: if several lines and records could belong together in different ways, they stay in one entry.
 */
import type { SQLOutputValue } from "node:sqlite"
import { compareBytes } from "../ask/SortedRows.ts"
import { amountIn, type EntryClass, type Ledger, numberIn, type Row, stored, unreadDay } from "./Ledger.ts"

export interface MatchRules {
  /** Whether lines are compared with the sums of groups. */
  readonly isGrouped: boolean
  /** Whether texts identify a record, such as its reference. Otherwise only its amount and its day do. */
  readonly hasKey: boolean
  /** Whether days are compared, and whether the day is that of a group, so that it identifies the group. */
  readonly day: "none" | "compared" | "group"
  /** By how many days the days of a pair may differ. */
  readonly within: number
  /** Whether the records have a day on which the statement should have them. */
  readonly hasDue: boolean
  /** The last day of the statement; undefined if its lines have no days. */
  readonly lastDay: number | undefined
  /** Whether pairs are kept, because they will be shown. */
  readonly keepsMatched: boolean
}

/** The lines, records and sums of a class. */
export interface ClassTotal {
  entries: number
  lines: number
  records: number
  there: bigint
  fee: bigint
  here: bigint
}

export type Totals = { readonly [Class in EntryClass]: ClassTotal }

/** Why lines and records differ. */
export type Why = "amount" | "date" | "amount, date" | "several" | "no amount" | "no key" | "no date"

/** The number of rows after which other work of the program gets its turn. */
const rowsPerTurn = 20_000

/** Compares both sides. Writes the entries into the ledger. Yields now and then. */
export function* match(ledger: Ledger, rules: MatchRules): Generator<void, Totals> {
  const matcher = new Matcher(ledger, rules)
  if (rules.isGrouped) yield* makeSums(ledger, rules)
  yield* matcher.pairEqual()
  yield* matcher.compareLeft()
  return matcher.totals
}

/** Adds the records of each group. Records without the group's fields are groups of their own, which match nothing. */
function* makeSums(ledger: Ledger, { day }: MatchRules): Generator<void> {
  let group: {
    key: unknown
    day: unknown
    unit: number
    records: number
    sum: bigint
    hasAll: boolean
    due: number | null
  } | undefined
  let units = 0
  let rows = 0
  const end = () => {
    if (group === undefined) return
    const { due, hasAll, records, sum, unit } = group
    const [key, of] = [group.key, group.day] as readonly [string | null, bigint | null] // from the columns
    // If a record has no amount, the sum is not known, but the amounts of the others still count.
    const known = stored(sum)
    ledger.insert("sums", unit, key, of, hasAll ? known : null, due, records, known)
  }
  for (
    const [record, key, on, value, dueOn] of ledger.rows(
      "SELECT at, key, day, amount, due FROM sorted_records ORDER BY at"
    )
  ) {
    const isNew = group === undefined || key === null || (day !== "none" && on === null) || group.key !== key ||
      (day !== "none" && group.day !== on)
    if (isNew) {
      end()
      group = { key, day: on, unit: ++units, records: 0, sum: 0n, hasAll: true, due: numberIn(dueOn) }
    }
    if (group === undefined) continue
    const amount = amountIn(value)
    ledger.insert("sum_records", group.unit, group.records++, Number(record))
    group.sum += amount ?? 0n
    group.hasAll &&= amount !== null
    group.due = laterDue(group.due, numberIn(dueOn))
    if (++rows % rowsPerTurn === 0) yield
  }
  end()
}

/** A group is due when its last record is. If the day of one of them cannot be read, the group is never expected. */
const laterDue = (one: number | null, other: number | null): number | null =>
  one === unreadDay || other === unreadDay
    ? unreadDay
    : one === null || other === null
    ? null
    : Math.max(one, other)

/** A line or a unit. `extra` is the fee of a line, and the day on which a unit is due. */
interface Item {
  /** Its place in the ledger. */
  readonly at: number
  readonly amount: bigint | null
  readonly day: number | null
  readonly extra: bigint | null
  readonly records: number
  /** The amount, or of a group the sum of the amounts that are known. */
  readonly known: bigint
}

type Side = ReadonlyArray<Item>

class Matcher {
  readonly totals: Totals = {
    matched: zero(),
    different: zero(),
    "missing there": zero(),
    "missing here": zero(),
    expected: zero()
  }
  readonly #ledger: Ledger
  readonly #rules: MatchRules
  /** What is left of the current key, until all of its amounts are read. */
  #leftLines: Array<Item> = []
  #leftUnits: Array<Item> = []

  constructor(ledger: Ledger, rules: MatchRules) {
    this.#ledger = ledger
    this.#rules = rules
  }

  #units(): Generator<Row, void> {
    return this.#rules.isGrouped
      ? this.#ledger.rows(
        "SELECT unit, key, amount, day, due, records, known FROM sums WHERE key IS NOT NULL ORDER BY key, amount, day, unit"
      )
      : this.#ledger.ordered(
        "SELECT at, key, amount, day, due FROM sorted_records WHERE key IS NOT NULL AND at > ? ORDER BY at"
      )
  }

  /** Pairs lines and units with the same key and amount, and days that are near enough. */
  *pairEqual(): Generator<void> {
    yield* this.#withoutKey()
    const lines = new Cursor(
      this.#ledger.ordered(
        "SELECT at, key, amount, day, fee FROM sorted_lines WHERE key IS NOT NULL AND at > ? ORDER BY at"
      )
    )
    const units = new Cursor(this.#units())
    let lastKey: SQLOutputValue | undefined
    for (let turn = rowsPerTurn; lines.row !== undefined || units.row !== undefined;) {
      const compared = compareRows(lines.row, units.row)
      const [, key, amount] = (compared <= 0 ? lines.row : units.row) ?? []
      if (key !== lastKey) this.#endKey()
      lastKey = key
      const left = compared <= 0 ? lines.take(key, amount) : []
      const right = compared >= 0 ? units.take(key, amount) : []
      this.#pair(left, right)
      turn -= left.length + right.length
      if (turn < 0) {
        turn = rowsPerTurn
        yield
      }
    }
    this.#endKey()
  }

  /** What has no key belongs to nothing else. */
  *#withoutKey(): Generator<void> {
    const { isGrouped } = this.#rules
    const lines = "SELECT at, key, amount, day, fee FROM sorted_lines WHERE key IS NULL ORDER BY at"
    const units = isGrouped
      ? "SELECT unit, key, amount, day, due, records, known FROM sums WHERE key IS NULL ORDER BY unit"
      : "SELECT at, key, amount, day, due FROM sorted_records WHERE key IS NULL ORDER BY at"
    let count = 0
    for (const row of this.#ledger.rows(units)) {
      this.#compareBucket([], [itemOf(row)], true)
      if (++count % rowsPerTurn === 0) yield
    }
    for (const row of this.#ledger.rows(lines)) {
      this.#compareBucket([itemOf(row)], [], true)
      if (++count % rowsPerTurn === 0) yield
    }
  }

  #endKey(): void {
    if (this.#leftLines.length > 0 || this.#leftUnits.length > 0) {
      this.#compareBucket(this.#leftLines, this.#leftUnits, false)
      this.#leftLines = []
      this.#leftUnits = []
    }
  }

  #pair(lines: Side, units: Side): void {
    if (lines.length === 0 || units.length === 0) return this.#leave(lines, units)
    if (this.#rules.day === "none") return this.#pairComponent(lines, units, false)
    const [isDated, isUndated] = [(item: Item) => item.day !== null, (item: Item) => item.day === null]
    this.#leave(lines.filter(isUndated), [])
    this.#leave([], units.filter(isUndated))
    for (const [left, right] of componentsOf(lines.filter(isDated), units.filter(isDated), this.#rules.within)) {
      this.#pairComponent(left, right, false)
    }
  }

  /** A unit that is not due yet does not compete with those that are. */
  #pairComponent(lines: Side, units: Side, isRest: boolean): void {
    if (lines.length === 0 || units.length === 0) return this.#leave(lines, units)
    if (this.#isPaired(lines, units)) return this.#addPairs(lines, units)
    const due = units.filter((unit) => !this.#isExpected(unit))
    if (due.length < units.length && this.#isPaired(lines, due)) {
      this.#addPairs(lines, due)
      return this.#leave([], units.filter((unit) => this.#isExpected(unit)))
    }
    if (isRest || this.#rules.day === "none") return this.#leave(lines, units)
    const [sameLines, sameUnits] = sameDays(lines, units)
    this.#addPairs(lines.filter((line) => sameLines.has(line)), units.filter((unit) => sameUnits.has(unit)))
    const [leftLines, leftUnits] = [
      lines.filter((line) => !sameLines.has(line)),
      units.filter((unit) => !sameUnits.has(unit))
    ]
    for (const [left, right] of componentsOf(leftLines, leftUnits, this.#rules.within)) {
      this.#pairComponent(left, right, true)
    }
  }

  /** An amount that is missing equals none. */
  #isPaired(lines: Side, units: Side): boolean {
    return lines.length > 0 && lines.length === units.length && lines[0]?.amount !== null &&
      (this.#rules.day === "none" ||
        lines.every(({ day }, at) => Math.abs((day ?? 0) - (units[at]?.day ?? 0)) <= this.#rules.within))
  }

  #addPairs(lines: Side, units: Side): void {
    for (const [at, line] of lines.entries()) {
      const unit = units[at]
      if (unit !== undefined) this.#addEntryOf("matched", null, [line], [unit])
    }
  }

  /** Leaves what is not paired for a comparison by its key. Without a key, it is compared at once. */
  #leave(lines: Side, units: Side): void {
    const { day, hasKey } = this.#rules
    if (day === "group") {
      for (const { at } of lines) this.#ledger.insert("left_lines", at)
      for (const { at } of units) this.#ledger.insert("left_units", at)
    } else if (hasKey) {
      for (const line of lines) this.#leftLines.push(line)
      for (const unit of units) this.#leftUnits.push(unit)
    } else if (lines.length > 0 || units.length > 0) this.#compareBucket(lines, units, false)
  }

  /** Compares what is left of groups of days, by their other keys. */
  *compareLeft(): Generator<void> {
    const lines = new Cursor(
      this.#ledger.rows(
        `SELECT at, key, amount, day, fee FROM left_lines l JOIN sorted_lines ON at = l.line ORDER BY key, day, at`
      )
    )
    const units = new Cursor(
      this.#ledger.rows(
        `SELECT unit, key, amount, day, due, records, known FROM left_units JOIN sums USING (unit) ORDER BY key, day, unit`
      )
    )
    while (lines.row !== undefined || units.row !== undefined) {
      const compared = compareKeys(lines.row, units.row)
      const key = (compared <= 0 ? lines.row : units.row)?.[1]
      this.#compareDays(
        compared <= 0 ? lines.takeKey(key) : [],
        compared >= 0 ? units.takeKey(key) : []
      )
      yield
    }
  }

  /** Lines and groups of the same day are compared, and then a line and a group whose days are near, if no other is. */
  #compareDays(lines: Side, units: Side): void {
    const [linesByDay, unitsByDay] = [lines, units].map((side) => Map.groupBy(side, ({ day }) => day))
    const isShared = ({ day }: Item) => day !== null && linesByDay?.has(day) === true && unitsByDay?.has(day) === true
    for (const [day, own] of linesByDay ?? []) {
      const others = unitsByDay?.get(day)
      if (day !== null && others !== undefined) this.#compareBucket(own, others, false)
    }
    const isLeft = (item: Item) => item.day !== null && !isShared(item)
    for (const [left, right] of componentsOf(lines.filter(isLeft), units.filter(isLeft), this.#rules.within)) {
      if (left.length === 1 && right.length === 1) this.#compareBucket(left, right, false)
      else {
        this.#compareBucket(left, [], false)
        this.#compareBucket([], right, false)
      }
    }
    this.#compareBucket(lines.filter(({ day }) => day === null), [], true)
    this.#compareBucket([], units.filter(({ day }) => day === null), true)
  }

  #compareBucket(lines: Side, units: Side, isAlone: boolean): void {
    const why = isAlone ? "no key" : null
    if (lines.length === 0 || units.length === 0) {
      for (const line of lines) this.#addEntryOf("missing here", why, [line], [])
      for (const unit of units) this.#addEntryOf(this.#isExpected(unit) ? "expected" : "missing there", why, [], [unit])
      return
    }
    const due = units.filter((unit) => !this.#isExpected(unit))
    if (units.length > lines.length && due.length > 0 && due.length < units.length) {
      this.#compareBucket([], units.filter((unit) => this.#isExpected(unit)), isAlone)
      return this.#compareBucket(lines, due, isAlone)
    }
    const difference = this.#difference(lines, units)
    this.#addEntryOf(difference === null ? "matched" : "different", difference, lines, units)
  }

  /** Returns why lines and units differ, or null if they are one payment in several parts. */
  #difference(lines: Side, units: Side): Why | null {
    if ([...lines, ...units].some(({ amount }) => amount === null)) return "no amount"
    const isDated = this.#rules.day !== "none"
    if (isDated && [...lines, ...units].some(({ day }) => day === null)) return "no date"
    if (lines.length > 1 && units.length > 1) return "several"
    const isSame = sumOf(lines) === sumOf(units)
    const [ofLines, ofUnits] = [extentOf(lines), extentOf(units)]
    const isNear = !isDated ||
      Math.max(ofLines.last - ofUnits.first, ofUnits.last - ofLines.first) <= this.#rules.within
    if (lines.length === 1 && units.length === 1) {
      return isSame ? isNear ? null : "date" : isNear ? "amount" : "amount, date"
    }
    return isSame && isNear ? null : "several"
  }

  #addEntryOf(found: EntryClass, why: Why | null, lines: Side, units: Side): void {
    const fee = lines.reduce((sum, { extra }) => sum + (extra ?? 0n), 0n)
    const there = sumOf(lines) - fee
    const here = sumOf(units)
    const records = units.reduce((sum, unit) => sum + unit.records, 0)
    const total = this.totals[found]
    total.entries++
    total.lines += lines.length
    total.records += records
    total.there += there
    total.fee += fee
    total.here += here
    if (found === "matched" && !this.#rules.keepsMatched) return
    const numbers = { lines: lines.map(({ at }) => at), units: units.map(({ at }) => at) }
    this.#ledger.addEntry({ class: found, why, ...numbers, records, there, fee, here })
  }

  /** Whether the statement need not have a unit yet. Without a day, it is not settled. */
  #isExpected({ extra }: Item): boolean {
    const { hasDue, lastDay, within } = this.#rules
    return hasDue && (extra === null || (lastDay !== undefined && Number(extra) + within > lastDay))
  }
}

const zero = (): ClassTotal => ({ entries: 0, lines: 0, records: 0, there: 0n, fee: 0n, here: 0n })

/** Only the sum of a group has a number of records, and a known part. */
const itemOf = ([at, , value, day, extra, records = 1n, part = value]: Row): Item => ({
  at: Number(at),
  amount: amountIn(value),
  day: numberIn(day),
  extra: amountIn(extra),
  records: Number(records),
  known: amountIn(part) ?? 0n
})

const sumOf = (side: Side): bigint => side.reduce((sum, { known }) => sum + known, 0n)

const extentOf = (side: Side) =>
  side.reduce(
    ({ first, last }, { day }) => ({ first: Math.min(first, day ?? first), last: Math.max(last, day ?? last) }),
    { first: Infinity, last: -Infinity }
  )

/** The next row of a sorted sequence. */
class Cursor {
  row: Row | undefined
  readonly #rows: Generator<Row, void>

  constructor(rows: Generator<Row, void>) {
    this.#rows = rows
    this.#advance()
  }

  #advance(): void {
    const { done, value } = this.#rows.next()
    this.row = done === true ? undefined : value
  }

  /** Takes the rows with this key and amount. */
  take(key: SQLOutputValue | undefined, amount: SQLOutputValue | undefined): Side {
    const side: Array<Item> = []
    for (; this.row !== undefined && this.row[1] === key && this.row[2] === amount; this.#advance()) {
      side.push(itemOf(this.row))
    }
    return side
  }

  /** Takes the rows with this key. */
  takeKey(key: SQLOutputValue | undefined): Side {
    const side: Array<Item> = []
    for (; this.row !== undefined && this.row[1] === key; this.#advance()) side.push(itemOf(this.row))
    return side
  }
}

/** Divides lines and units into sets between which no line is near a unit. Both are sorted by day. */
const componentsOf = (lines: Side, units: Side, within: number): ReadonlyArray<readonly [Side, Side]> => {
  if (lines.length === 1 && units.length === 1 && isNear(lines[0], units[0], within)) return [[lines, units]]
  const found: Array<readonly [Side, Side]> = []
  let [line, unit, firstLine, firstUnit] = [0, 0, 0, 0]
  while (line < lines.length || unit < units.length) {
    const isLine = unit >= units.length || (line < lines.length && (lines[line]?.day ?? 0) <= (units[unit]?.day ?? 0))
    if (isLine) line++
    else unit++
    if (!isNear(units[unit], lines[line - 1], within) && !isNear(lines[line], units[unit - 1], within)) {
      found.push([lines.slice(firstLine, line), units.slice(firstUnit, unit)])
      firstLine = line
      firstUnit = unit
    }
  }
  return found
}

const isNear = (one: Item | undefined, other: Item | undefined, within: number): boolean =>
  one !== undefined && other !== undefined && Math.abs((one.day ?? 0) - (other.day ?? 0)) <= within

/** Returns the lines and units on days that have as many lines as units. */
const sameDays = (lines: Side, units: Side): readonly [ReadonlySet<Item>, ReadonlySet<Item>] => {
  const ofUnits = Map.groupBy(units, ({ day }) => day)
  const [sameLines, sameUnits] = [new Set<Item>(), new Set<Item>()]
  for (const [day, own] of Map.groupBy(lines, (line) => line.day)) {
    const others = ofUnits.get(day)
    if (others?.length !== own.length) continue
    for (const line of own) sameLines.add(line)
    for (const other of others) sameUnits.add(other)
  }
  return [sameLines, sameUnits]
}

/** Compares the keys and amounts of two rows as SQLite sorts them: null, integers, texts. The end comes last. */
const compareRows = (line: Row | undefined, unit: Row | undefined): number => {
  const keys = compareKeys(line, unit)
  if (keys !== 0 || line === undefined || unit === undefined) return keys
  const [one, other] = [line[2] ?? null, unit[2] ?? null]
  if (one === other) return 0
  if (one === null || other === null) return one === null ? -1 : 1
  if (typeof one === "bigint" && typeof other === "bigint") return one < other ? -1 : 1
  if (typeof one === "bigint" || typeof other === "bigint") return typeof one === "bigint" ? -1 : 1
  return compareBytes(String(one), String(other))
}

/** Compares the keys of two rows. The end comes last. */
const compareKeys = (line: Row | undefined, unit: Row | undefined): number =>
  line === undefined || unit === undefined
    ? line === undefined ? 1 : -1
    : compareBytes(String(line[1]), String(unit[1]))
