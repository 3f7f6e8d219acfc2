/** The entries of a reconciliation, for people and for programs. */
import type { SQLOutputValue } from "node:sqlite"
import { dayText } from "./Dates.ts"
import { amountIn, entriesIn, type EntryClass, keyValues, type Ledger, numberIn } from "./Ledger.ts"

/** The classes that are exceptions. */
export const openClasses: ReadonlyArray<EntryClass> = ["different", "missing there", "missing here"]

interface Common {
  readonly class: EntryClass
  /** The number of the entry. */
  readonly entry: number
  /** The values of the compared texts. */
  readonly keys: ReadonlyArray<string | null>
  readonly dayThere: string | null
  readonly dayHere: string | null
  readonly amountThere: bigint | null
  readonly fee: bigint | null
  readonly amountHere: bigint | null
  /** By how much the statement has more than the copy: without the fee. Null where nothing is wrong. */
  readonly difference: bigint | null
  /** Why, if the amounts alone do not say it. */
  readonly why: string | null
}

/** A line, a record, or a pair of them. An entry of several has several rows, and its difference is in the first. */
export interface EntryRow extends Common {
  readonly line: number | null
  readonly id: string | null
}

/** An entry. The id is that of its first record. */
export interface Entry extends Common {
  /** Its first lines, at most {@link mostLines}. */
  readonly firstLines: ReadonlyArray<number>
  readonly id: string | null
  readonly lines: number
  readonly records: number
}

interface Shown {
  /** The number of compared texts. */
  readonly keys: number
  readonly isGrouped: boolean
}

/** An entry as it is stored. One with a single line and record at most has the amounts of these two. */
interface StoredEntry {
  readonly class: EntryClass
  readonly entry: number
  readonly why: string | null
  readonly lines: number
  readonly records: number
  readonly there: bigint
  readonly fee: bigint
  readonly here: bigint
  /** Undefined: it has several lines or records, which are read by its number. */
  readonly single: { readonly line: Part; readonly record: Part; readonly unit: SQLOutputValue } | undefined
}

/** The columns of a line: its number, key, day, amount and fee. Of a record: its id, key, day and amount. */
type Part = ReadonlyArray<SQLOutputValue | undefined>

/** The classes whose entries lack one side. */
const withoutUnits: ReadonlySet<EntryClass> = new Set<EntryClass>(["missing here"])
const withoutLines: ReadonlySet<EntryClass> = new Set<EntryClass>(["missing there", "expected"])

/** Returns SQL for the entries of a class, each with its line and its record or sum, which have the same key. */
const entriesSql = (found: EntryClass, isGrouped: boolean): string => {
  const units = isGrouped
    ? { columns: "u.day, u.amount, u.known, u.records, NULL", table: "sums u ON u.unit" }
    : { columns: "u.day, u.amount, u.amount, 1, u.id", table: "sorted_records u ON u.at" }
  const [hasLines, hasUnits] = [!withoutLines.has(found), !withoutUnits.has(found)]
  return `SELECT e.entry, e.why, e.line, e.unit, ${hasLines ? "l" : "u"}.key, ${
    hasLines ? "l.line, l.day, l.amount, l.fee" : "NULL, NULL, NULL, NULL"
  }, ${hasUnits ? units.columns : "NULL, NULL, NULL, NULL, NULL"} FROM ${entriesIn(found)} e ${
    hasLines ? "LEFT JOIN sorted_lines l ON l.at = e.line" : ""
  }
    ${hasUnits ? `LEFT JOIN ${units.table} = e.unit` : ""} WHERE e.entry > ? ORDER BY e.entry`
}

/** The entries in the order of the classes. */
function* storedEntries(
  ledger: Ledger,
  classes: ReadonlyArray<EntryClass>,
  { isGrouped }: Shown
): Generator<StoredEntry, void> {
  for (const one of classes) {
    for (const row of ledger.ordered(entriesSql(one, isGrouped))) {
      const [entry, why, line, unit = null, key, number, day, gross, fee, unitDay, amount, known, records, id] = row
      const found = { class: one, entry: Number(entry), why: textIn(why) }
      if (line === null && unit === null) {
        const [lines, ofUnits, there, deducted, here] = ledger.get(
          "SELECT lines, records, there, fee, here FROM several WHERE entry = ?",
          found.entry
        )
        const amounts = { there: amountIn(there) ?? 0n, fee: amountIn(deducted) ?? 0n, here: amountIn(here) ?? 0n }
        yield { ...found, ...amounts, lines: Number(lines), records: Number(ofUnits), single: undefined }
        continue
      }
      const deducted = amountIn(fee) ?? 0n
      yield {
        ...found,
        lines: line === null ? 0 : 1,
        records: unit === null ? 0 : Number(records),
        there: (amountIn(gross) ?? 0n) - deducted,
        fee: deducted,
        here: amountIn(known) ?? 0n,
        single: {
          line: line === null ? [] : [number, key, day, gross, fee],
          record: unit === null ? [] : [id, key, unitDay, amount],
          unit
        }
      }
    }
  }
}

const differenceOf = ({ class: found, fee, here, there }: StoredEntry): bigint | null =>
  found === "matched" ? null : there + fee - here

/** Returns a function for the texts of days, which repeat. */
const makeDayIn = () => {
  const known = new Map<number, string>()
  return (value: SQLOutputValue | undefined): string | null => {
    const day = numberIn(value)
    if (day === null) return null
    const found = known.get(day) ?? dayText(day)
    if (known.size < mostDays) known.set(day, found)
    return found
  }
}

const mostDays = 10_000

const textIn = (value: SQLOutputValue | undefined): string | null => typeof value === "string" ? value : null

/** Returns the words for why lines and records are an entry. */
const whyOf = ({ lines, records, why }: StoredEntry, keys: number): string | null => {
  switch (why) {
    case "several":
      return `${lines} ${lines === 1 ? "line" : "lines"}, ${records} ${records === 1 ? "record" : "records"}${
        keys === 0 ? " with this amount" : ""
      }`
    case "no amount":
      return "the record has no amount"
    case "no key":
      return "nothing to compare it by"
    default:
      return why
  }
}

/** The most lines that an entry names. */
const mostLines = 5

/** The first lines and the first record of an entry of several. */
const firstOf = (
  ledger: Ledger,
  entry: number,
  isGrouped: boolean
): readonly [lines: ReadonlyArray<Part>, record: Part] => [
  [...ledger.rows(`${linesOf} LIMIT ${mostLines}`, entry)],
  ledger.get(isGrouped ? groupedRecords : recordsOf, entry)
]

const linesOf = `SELECT l.line, l.key, l.day, l.amount, l.fee FROM entry_lines m JOIN sorted_lines l ON l.at = m.line
  WHERE m.entry = ? ORDER BY l.line`
const recordsOf = `SELECT u.id, u.key, u.day, u.amount FROM entry_units m JOIN sorted_records u ON u.at = m.unit
  WHERE m.entry = ? ORDER BY u.id`
const groupedRecords = `SELECT r.id, r.key, r.day, r.amount FROM entry_units m JOIN sum_records s ON s.unit = m.unit
  JOIN sorted_records r ON r.at = s.record WHERE m.entry = ? ORDER BY m.place, s.place`
const recordsOfSum = `SELECT r.id, r.key, r.day, r.amount FROM sum_records s JOIN sorted_records r ON r.at = s.record
  WHERE s.unit = ? ORDER BY s.place`

export function* entriesOf(ledger: Ledger, classes: ReadonlyArray<EntryClass>, shown: Shown): Generator<Entry, void> {
  const { isGrouped, keys } = shown
  const dayIn = makeDayIn()
  for (const stored of storedEntries(ledger, classes, shown)) {
    const { class: found, entry, fee, here, lines, records, single, there, why } = stored
    const [firstLines, record] = single === undefined
      ? firstOf(ledger, entry, isGrouped)
      : [
        lines === 0 ? [] : [single.line],
        isGrouped && records > 0 ? ledger.get(recordsOfSum, single.unit) : single.record
      ]
    const [line = []] = firstLines
    yield {
      class: found,
      entry,
      keys: keyValues(textIn(line[1]) ?? textIn(record[1]), keys),
      dayThere: dayIn(line[2]),
      dayHere: dayIn(record[2]),
      amountThere: lines === 0 ? null : there,
      fee: fee === 0n ? null : fee,
      amountHere: records === 0 || why === "no amount" ? null : here,
      difference: differenceOf(stored),
      why: whyOf(stored, keys),
      firstLines: firstLines.map(([number]) => Number(number)),
      id: textIn(record[0]),
      lines,
      records
    }
  }
}

export function* rowsOfEntries(
  ledger: Ledger,
  classes: ReadonlyArray<EntryClass>,
  shown: Shown
): Generator<EntryRow, void> {
  const dayIn = makeDayIn()
  for (const stored of storedEntries(ledger, classes, shown)) {
    const { entry, single } = stored
    if (single !== undefined && !shown.isGrouped) {
      yield rowOf(stored, shown, dayIn, single)
      continue
    }
    const lines = single === undefined
      ? ledger.rows(linesOf, entry)
      : (stored.lines === 0 ? [] : [single.line]).values()
    const records = single === undefined
      ? ledger.rows(shown.isGrouped ? groupedRecords : recordsOf, entry)
      : ledger.rows(recordsOfSum, single.unit)
    // Of an entry with several rows, only the first one has the difference.
    for (let isFirst = true;; isFirst = false) {
      const [line, record] = [lines.next(), records.next()]
      if (line.done === true && record.done === true) break
      yield {
        ...rowOf(stored, shown, dayIn, {
          line: line.done === true ? [] : line.value,
          record: record.done === true ? [] : record.value
        }),
        ...isFirst ? {} : { difference: null, why: null }
      }
    }
  }
}

/** Returns the row of a line, a record, or both. */
const rowOf = (
  stored: StoredEntry,
  { keys }: Shown,
  dayIn: ReturnType<typeof makeDayIn>,
  { line, record }: { readonly line: Part; readonly record: Part }
): EntryRow => {
  const gross = amountIn(line[3])
  const fee = amountIn(line[4])
  return {
    class: stored.class,
    entry: stored.entry,
    line: numberIn(line[0]),
    id: textIn(record[0]),
    keys: keyValues(textIn(line[1]) ?? textIn(record[1]), keys),
    dayThere: dayIn(line[2]),
    dayHere: dayIn(record[2]),
    amountThere: gross === null ? null : gross - (fee ?? 0n),
    fee,
    amountHere: amountIn(record[3]),
    difference: differenceOf(stored),
    why: whyOf(stored, keys)
  }
}
