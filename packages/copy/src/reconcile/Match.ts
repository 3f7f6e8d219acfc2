/**
 * Pairs the lines of a statement with the records of a copy. Both sides are sorted, and merged twice: first, lines and
 * records whose compared fields are all equal are paired. Then what is left is compared by its key alone. Nothing is
 * paired by a guess: if several lines and records could belong together in different ways, they stay in one entry.
 */
import type { SQLOutputValue } from "node:sqlite"
import { compareBytes } from "../ask/SortedRows.ts"
import { amountIn, type EntryClass, type Ledger, type LedgerEntry, numberIn, type Row, stored } from "./Ledger.ts"

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
    ledger.run(
      "INSERT INTO sums VALUES (?, ?, ?, ?, ?, ?, ?)",
      unit,
      key,
      of,
      hasAll ? known : null,
      due,
      records,
      known
    )
  }
  for (
    const [record, key, on, value] of ledger.rows("SELECT unit, key, day, amount FROM records ORDER BY key, day, unit")
  ) {
    const isNew = group === undefined || key === null || (day !== "none" && on === null) || group.key !== key ||
      (day !== "none" && group.day !== on)
    if (isNew) {
      end()
      group = { key, day: on, unit: ++units, records: 0, sum: 0n, hasAll: true, due: numberIn(on) }
    }
    if (group === undefined) continue
    const amount = amountIn(value)
    ledger.run("INSERT INTO sum_records VALUES (?, ?, ?)", group.unit, group.records++, Number(record))
    group.sum += amount ?? 0n
    group.hasAll &&= amount !== null
    // A group is due when its last record is.
    const dueDay = numberIn(on)
    group.due = group.due === null || dueDay === null ? null : Math.max(group.due, dueDay)
    if (++rows % rowsPerTurn === 0) yield
  }
  end()
}

/** A side of one key and amount: the numbers of its lines or units, and their days, sorted by day. */
interface Side {
  readonly numbers: Array<number>
  readonly days: Array<number>
  /** Of lines: their fees. Of units: the days on which they are due. */
  readonly extras: Array<number>
}

/** What lines and units have in common. */
interface Equal {
  readonly key: string
  readonly amount: bigint
  /** Whether those that are on the same days are paired already. */
  readonly isRest: boolean
}

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
  /** The number of ambiguous sets of lines and units without a key. */
  #components = 0
  readonly #units: "sums" | "records"
  readonly #due: "due" | "day"

  constructor(ledger: Ledger, rules: MatchRules) {
    this.#ledger = ledger
    this.#rules = rules
    this.#units = rules.isGrouped ? "sums" : "records"
    this.#due = rules.isGrouped ? "due" : "day"
  }

  /** Pairs lines and units with the same key and amount, and days that are near enough. */
  *pairEqual(): Generator<void> {
    const condition = `key IS NOT NULL AND amount IS NOT NULL${
      this.#rules.day === "none" ? "" : " AND day IS NOT NULL"
    }`
    this.#leaveOthers(condition)
    const order = this.#rules.day === "none" ? "" : ", day"
    const lines = new Cursor(
      this.#ledger.rows(
        `SELECT line, key, amount, day, fee FROM lines WHERE ${condition} ORDER BY key, amount${order}, line`
      )
    )
    const units = new Cursor(
      this.#ledger.rows(
        `SELECT unit, key, amount, day, ${this.#due} FROM ${this.#units} WHERE ${condition} ORDER BY key, amount${order}, unit`
      )
    )
    for (let turn = rowsPerTurn; lines.row !== undefined || units.row !== undefined;) {
      const compared = compareRows(lines.row, units.row)
      const [, key, amount] = (compared <= 0 ? lines.row : units.row) ?? []
      const left = compared <= 0 ? lines.take(key, amount, this.#rules.day) : noSide
      const right = compared >= 0 ? units.take(key, amount, this.#rules.day) : noSide
      this.#pair(left, right, { key: String(key), amount: amountIn(amount) ?? 0n, isRest: false })
      turn -= left.numbers.length + right.numbers.length
      if (turn < 0) {
        turn = rowsPerTurn
        yield
      }
    }
  }

  /** Leaves lines and units that cannot be paired for the second merge. Without a key or a day, they stay alone. */
  #leaveOthers(condition: string): void {
    const bucket = !this.#rules.hasKey
      ? "NULL"
      : this.#rules.day === "group"
      ? "CASE WHEN day IS NOT NULL THEN day || ' ' || key END"
      : "key"
    this.#ledger.run(`INSERT INTO left_lines SELECT ${bucket}, line FROM lines WHERE NOT (${condition})`)
    this.#ledger.run(`INSERT INTO left_units SELECT ${bucket}, unit FROM ${this.#units} WHERE NOT (${condition})`)
  }

  #pair(lines: Side, units: Side, of: Equal): void {
    if (lines.numbers.length === 0 || units.numbers.length === 0) return this.#leave(lines, units, of.key)
    for (const [left, right] of componentsOf(lines, units, this.#rules.within)) {
      this.#pairComponent(left, right, of)
    }
  }

  /** A unit that is not due yet does not compete with those that are. */
  #pairComponent(lines: Side, units: Side, { amount, isRest, key }: Equal): void {
    if (this.#isPaired(lines, units)) return this.#addPairs(lines, units, amount)
    if (lines.numbers.length === 0 || units.numbers.length === 0) return this.#leave(lines, units, key)
    const isDue = (at: number) => !this.#isExpected(units.extras[at] ?? none)
    const due = pick(units, isDue)
    if (due.numbers.length < units.numbers.length && this.#isPaired(lines, due)) {
      this.#addPairs(lines, due, amount)
      return this.#leave(noSide, pick(units, (at) => !isDue(at)), key)
    }
    if (isRest) return this.#leave(lines, units, key)
    const [sameLines, sameUnits] = sameDays(lines, units)
    const [leftLines, leftUnits] = [pick(lines, (at) => !sameLines.has(at)), pick(units, (at) => !sameUnits.has(at))]
    this.#addPairs(pick(lines, (at) => sameLines.has(at)), pick(units, (at) => sameUnits.has(at)), amount)
    for (const [left, right] of componentsOf(leftLines, leftUnits, this.#rules.within)) {
      this.#pairComponent(left, right, { key, amount, isRest: true })
    }
  }

  #isPaired({ days, numbers }: Side, units: Side): boolean {
    return numbers.length > 0 && numbers.length === units.numbers.length &&
      days.every((day, at) => Math.abs(day - (units.days[at] ?? 0)) <= this.#rules.within)
  }

  #addPairs(lines: Side, units: Side, amount: bigint): void {
    for (const [at, line] of lines.numbers.entries()) {
      const unit = units.numbers[at] ?? 0
      const fee = lines.extras[at] !== none
        ? amountIn(this.#ledger.get("SELECT fee FROM lines WHERE line = ?", line)[0]) ?? 0n
        : 0n
      const records = this.#recordsOf(unit)
      this.#addEntry({
        class: "matched",
        why: null,
        lines: [line],
        units: [unit],
        records,
        there: amount - fee,
        fee,
        here: amount
      })
    }
  }

  #recordsOf(unit: number): number {
    return this.#rules.isGrouped ? Number(this.#ledger.get("SELECT records FROM sums WHERE unit = ?", unit)[0] ?? 0) : 1
  }

  #leave(lines: Side, units: Side, key: string): void {
    const { day, hasKey } = this.#rules
    const component = !hasKey && day !== "group" ? `component ${++this.#components}` : undefined
    const bucketOf = (of: number | undefined) => component ?? (day === "group" ? `${of} ${key}` : key)
    for (const [at, line] of lines.numbers.entries()) {
      this.#ledger.run("INSERT INTO left_lines VALUES (?, ?)", bucketOf(lines.days[at]), line)
    }
    for (const [at, unit] of units.numbers.entries()) {
      this.#ledger.run("INSERT INTO left_units VALUES (?, ?)", bucketOf(units.days[at]), unit)
    }
  }

  /** Compares what is left, by its key. */
  *compareLeft(): Generator<void> {
    const lines = new Cursor(
      this.#ledger.rows(
        "SELECT l.line, bucket, amount, day, fee FROM left_lines l JOIN lines ON lines.line = l.line ORDER BY bucket, l.line"
      )
    )
    const records = this.#rules.isGrouped ? "records, known" : "1, amount"
    const units = new Cursor(
      this.#ledger.rows(
        `SELECT l.unit, bucket, amount, day, ${this.#due}, ${records} FROM left_units l JOIN ${this.#units} u ON u.unit = l.unit ORDER BY bucket, l.unit`
      )
    )
    for (let turn = rowsPerTurn; lines.row !== undefined || units.row !== undefined;) {
      const compared = compareBuckets(lines.row, units.row)
      const bucket = (compared <= 0 ? lines.row : units.row)?.[1] ?? null
      const left: Array<Left> = []
      const right: Array<Left> = []
      while (compared <= 0 && lines.row !== undefined && lines.row[1] === bucket) {
        left.push(leftOf(lines.row))
        lines.advance()
        // What has no key belongs to nothing else.
        if (bucket === null) break
      }
      while (
        compared >= 0 && units.row !== undefined && units.row[1] === bucket && !(bucket === null && left.length > 0)
      ) {
        right.push(leftOf(units.row))
        units.advance()
        if (bucket === null) break
      }
      this.#compareBucket(left, right, bucket === null)
      turn -= left.length + right.length
      if (turn < 0) {
        turn = rowsPerTurn
        yield
      }
    }
  }

  #compareBucket(lines: ReadonlyArray<Left>, units: ReadonlyArray<Left>, isAlone: boolean): void {
    if (lines.length === 0 || units.length === 0) {
      for (const line of lines) this.#addLeft("missing here", isAlone ? "no key" : null, [line], [])
      for (const unit of units) {
        const isExpected = this.#isExpected(unit.extra === null ? none : Number(unit.extra))
        this.#addLeft(isExpected ? "expected" : "missing there", isAlone ? "no key" : null, [], [unit])
      }
      return
    }
    const due = units.filter(({ extra }) => !this.#isExpected(extra === null ? none : Number(extra)))
    if (units.length > lines.length && due.length > 0 && due.length < units.length) {
      this.#compareBucket([], units.filter((unit) => !due.includes(unit)), isAlone)
      return this.#compareBucket(lines, due, isAlone)
    }
    const why = this.#difference(lines, units)
    this.#addLeft(why === null ? "matched" : "different", why, lines, units)
  }

  /** Returns why lines and units differ, or null if they are one payment in several parts. */
  #difference(lines: ReadonlyArray<Left>, units: ReadonlyArray<Left>): Why | null {
    if ([...lines, ...units].some(({ amount }) => amount === null)) return "no amount"
    if (this.#rules.day !== "none" && [...lines, ...units].some(({ day }) => day === null)) return "no date"
    const isSame = sumOf(lines) === sumOf(units)
    const days = [lines, units].map((side) => side.map(({ day }) => day ?? 0).toSorted((one, other) => one - other))
    const [ofLines = [], ofUnits = []] = days
    const isNear = this.#rules.day === "none" || (
      Math.abs((ofLines[0] ?? 0) - (ofUnits.at(-1) ?? 0)) <= this.#rules.within &&
      Math.abs((ofLines.at(-1) ?? 0) - (ofUnits[0] ?? 0)) <= this.#rules.within
    )
    if (lines.length > 1 && units.length > 1) return "several"
    if (lines.length === 1 && units.length === 1) {
      return isSame ? isNear ? null : "date" : isNear ? "amount" : "amount, date"
    }
    return isSame && isNear ? null : "several"
  }

  #addLeft(found: EntryClass, why: Why | null, lines: ReadonlyArray<Left>, units: ReadonlyArray<Left>): void {
    const fee = lines.reduce((sum, { extra }) => sum + (extra ?? 0n), 0n)
    this.#addEntry({
      class: found,
      why,
      lines: lines.map(({ number }) => number),
      units: units.map(({ number }) => number),
      records: units.reduce((sum, { records }) => sum + records, 0),
      there: sumOf(lines) - fee,
      fee,
      here: sumOf(units)
    })
  }

  #addEntry(entry: LedgerEntry): void {
    const total = this.totals[entry.class]
    total.entries++
    total.lines += entry.lines.length
    total.records += entry.records
    total.there += entry.there
    total.fee += entry.fee
    total.here += entry.here
    if (entry.class !== "matched" || this.#rules.keepsMatched) this.#ledger.addEntry(entry)
  }

  /** Whether the statement need not have a unit yet. Without a day it is not settled. */
  #isExpected(due: number): boolean {
    const { hasDue, lastDay, within } = this.#rules
    return hasDue && (due === none || (lastDay !== undefined && due + within > lastDay))
  }
}

const zero = (): ClassTotal => ({ entries: 0, lines: 0, records: 0, there: 0n, fee: 0n, here: 0n })

/** A line or a unit that was not paired. `extra` is the fee of a line, and the day on which a unit is due. */
interface Left {
  readonly number: number
  readonly amount: bigint | null
  readonly day: number | null
  readonly extra: bigint | null
  readonly records: number
  /** The amount, or of a group the sum of the amounts that are known. */
  readonly known: bigint
}

const leftOf = ([number, , amount, day, extra, records, known]: Row): Left => ({
  number: Number(number),
  amount: amountIn(amount),
  known: amountIn(known ?? amount) ?? 0n,
  day: numberIn(day),
  extra: amountIn(extra),
  records: Number(records ?? 0)
})

const sumOf = (side: ReadonlyArray<Left>): bigint => side.reduce((sum, { known }) => sum + known, 0n)

/** The next row of a sorted sequence. */
class Cursor {
  row: Row | undefined
  readonly #rows: Generator<Row, void>

  constructor(rows: Generator<Row, void>) {
    this.#rows = rows
    this.advance()
  }

  advance(): void {
    const { done, value } = this.#rows.next()
    this.row = done === true ? undefined : value
  }

  /** Takes the rows with this key and amount. */
  take(key: SQLOutputValue | undefined, amount: SQLOutputValue | undefined, day: MatchRules["day"]): Side {
    const side = { numbers: new Array<number>(), days: new Array<number>(), extras: new Array<number>() }
    for (; this.row !== undefined && this.row[1] === key && this.row[2] === amount; this.advance()) {
      const [number, , , on, extra] = this.row
      side.numbers.push(Number(number))
      side.days.push(day === "none" ? 0 : Number(on))
      side.extras.push(extra === null ? none : Number(extra))
    }
    return side
  }
}

/** In place of a fee or a day that there is not. Days and rounded fees are never infinite. */
const none = -Infinity

const noSide: Side = { numbers: [], days: [], extras: [] }

const pick = ({ days, extras, numbers }: Side, isPicked: (at: number) => boolean): Side => ({
  numbers: numbers.filter((_, at) => isPicked(at)),
  days: days.filter((_, at) => isPicked(at)),
  extras: extras.filter((_, at) => isPicked(at))
})

const slice = ({ days, extras, numbers }: Side, from: number, to: number): Side => ({
  numbers: numbers.slice(from, to),
  days: days.slice(from, to),
  extras: extras.slice(from, to)
})

/** Divides lines and units into sets between which no line is near a unit. Both are sorted by day. */
const componentsOf = (lines: Side, units: Side, within: number): ReadonlyArray<readonly [Side, Side]> => {
  const found: Array<readonly [Side, Side]> = []
  const [lineCount, unitCount] = [lines.numbers.length, units.numbers.length]
  const isFar = (later: number | undefined, earlier: number | undefined) =>
    later === undefined || earlier === undefined || later - earlier > within
  let [line, unit, firstLine, firstUnit] = [0, 0, 0, 0]
  while (line < lineCount || unit < unitCount) {
    const isLine = unit >= unitCount || (line < lineCount && (lines.days[line] ?? 0) <= (units.days[unit] ?? 0))
    if (isLine) line++
    else unit++
    const isCut = isFar(units.days[unit], lines.days[line - 1]) && isFar(lines.days[line], units.days[unit - 1])
    if (isCut) {
      found.push([slice(lines, firstLine, line), slice(units, firstUnit, unit)])
      firstLine = line
      firstUnit = unit
    }
  }
  return found
}

/** Returns the places of the lines and units on days that have as many lines as units. */
const sameDays = (lines: Side, units: Side): readonly [ReadonlySet<number>, ReadonlySet<number>] => {
  const [ofLines, ofUnits] = [lines, units].map(({ days }) => Map.groupBy(days.keys(), (at) => days[at] ?? 0)) as [
    Map<number, Array<number>>,
    Map<number, Array<number>>
  ] // of two sides
  const [sameLines, sameUnits] = [new Set<number>(), new Set<number>()]
  for (const [day, at] of ofLines) {
    const others = ofUnits.get(day)
    if (others?.length !== at.length) continue
    for (const place of at) sameLines.add(place)
    for (const place of others) sameUnits.add(place)
  }
  return [sameLines, sameUnits]
}

/** Compares the keys and amounts of two rows as SQLite sorts them: integers precede texts. The end comes last. */
const compareRows = (line: Row | undefined, unit: Row | undefined): number => {
  if (line === undefined || unit === undefined) return line === undefined ? 1 : -1
  const keys = compareBytes(String(line[1]), String(unit[1]))
  if (keys !== 0) return keys
  const [one, other] = [line[2] ?? null, unit[2] ?? null]
  if (one === other) return 0
  if (typeof one === "bigint" && typeof other === "bigint") return one < other ? -1 : 1
  if (typeof one === "bigint" || typeof other === "bigint") return typeof one === "bigint" ? -1 : 1
  return compareBytes(String(one), String(other))
}

/** Compares buckets as SQLite sorts them: null comes first. The end comes last. */
const compareBuckets = (line: Row | undefined, unit: Row | undefined): number => {
  if (line === undefined || unit === undefined) return line === undefined ? 1 : -1
  const [one, other] = [line[1] ?? null, unit[1] ?? null]
  if (one === null || other === null) return one === other ? 0 : one === null ? -1 : 1
  return compareBytes(String(one), String(other))
}
