/** The entries of a reconciliation, for people and for programs. */
import { dayText } from "./Dates.ts"
import { amountIn, type EntryClass, keyValues, type Ledger, numberIn, type Row } from "./Ledger.ts"

/** The most frequent questions come first: what is wrong. */
export const entryClasses: ReadonlyArray<EntryClass> = [
  "different",
  "missing there",
  "missing here",
  "expected",
  "matched"
]

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

const entryColumns = "e.entry, e.class, e.why, e.lines, e.records, e.there, e.fee, e.here, l.line, e.unit"

/** The entries in the order of the classes. */
function* entryRows(ledger: Ledger, classes: ReadonlyArray<EntryClass>, { isGrouped }: Shown): Generator<Row, void> {
  const [units, id, name] = isGrouped ? ["sums", "NULL", "unit"] : ["sorted_records", "u.id", "at"]
  for (const one of classes) {
    yield* ledger.rows(
      `SELECT ${entryColumns}, l.key, l.day, l.amount, l.fee, u.key, u.day, u.amount, ${id} FROM entries e
      LEFT JOIN sorted_lines l ON l.at = e.line LEFT JOIN ${units} u ON u.${name} = e.unit
      WHERE e.class = ? ORDER BY e.entry`,
      one
    )
  }
}

const differenceOf = (row: Row): bigint | null => {
  const found = row[1]
  return found === "matched"
    ? null
    : (amountIn(row[5]) ?? 0n) + (amountIn(row[6]) ?? 0n) - (amountIn(row[7]) ?? 0n)
}

const dayIn = (value: Row[number] | undefined): string | null => {
  const day = numberIn(value)
  return day === null ? null : dayText(day)
}

const textIn = (value: Row[number] | undefined): string | null => typeof value === "string" ? value : null

/** Returns the words for why lines and records are an entry. */
const whyOf = (row: Row, keys: number): string | null => {
  const [lines, records] = [Number(row[3]), Number(row[4])]
  switch (row[2]) {
    case "several":
      return `${lines} ${lines === 1 ? "line" : "lines"}, ${records} ${records === 1 ? "record" : "records"}${
        keys === 0 ? " with this amount" : ""
      }`
    case "no amount":
      return "the record has no amount"
    case "no key":
      return "nothing to compare it by"
    default:
      return textIn(row[2])
  }
}

/** The most lines that an entry names. */
const mostLines = 5

/** The first lines and the first record of an entry of several. */
const firstOf = (
  ledger: Ledger,
  entry: number,
  isGrouped: boolean
): readonly [lines: ReadonlyArray<Row>, record: Row] => [
  [...ledger.rows(`${linesOf} LIMIT ${mostLines}`, entry)],
  ledger.get(isGrouped ? groupedRecords : recordsOf, entry)
]

const singleRecord = (ledger: Ledger, row: Row, isGrouped: boolean): Part =>
  isGrouped && row[9] !== null ? ledger.get(recordsOfSum, row[9] ?? null) : [row[17], row[14], row[15]]

const linesOf = `SELECT l.line, l.key, l.day, l.amount, l.fee FROM entry_lines m JOIN sorted_lines l ON l.at = m.line
  WHERE m.entry = ? ORDER BY l.line`
const recordsOf = `SELECT u.id, u.key, u.day, u.amount FROM entry_units m JOIN sorted_records u ON u.at = m.unit
  WHERE m.entry = ? ORDER BY u.id`
const groupedRecords = `SELECT r.id, r.key, r.day, r.amount FROM entry_units m JOIN sum_records s ON s.unit = m.unit
  JOIN sorted_records r ON r.at = s.record WHERE m.entry = ? ORDER BY m.place, s.place`
const recordsOfSum = `SELECT r.id, r.key, r.day, r.amount FROM sum_records s JOIN sorted_records r ON r.at = s.record
  WHERE s.unit = ? ORDER BY s.place`

export function* entriesOf(ledger: Ledger, classes: ReadonlyArray<EntryClass>, shown: Shown): Generator<Entry, void> {
  for (const row of entryRows(ledger, classes, shown)) {
    const entry = Number(row[0])
    const isSingle = row[8] !== null || row[9] !== null
    const [lines, record] = isSingle
      ? [row[8] === null ? [] : [lineIn(row)], singleRecord(ledger, row, shown.isGrouped)] as const
      : firstOf(ledger, entry, shown.isGrouped)
    const [line = []] = lines
    yield {
      class: row[1] as EntryClass, // the ledger's own
      entry,
      keys: keyValues(textIn(line[1]) ?? textIn(record[1]), shown.keys),
      dayThere: dayIn(line[2]),
      dayHere: dayIn(record[2]),
      amountThere: Number(row[3]) === 0 ? null : amountIn(row[5]),
      fee: amountIn(row[6]) === 0n ? null : amountIn(row[6]),
      amountHere: Number(row[4]) === 0 || row[2] === "no amount" ? null : amountIn(row[7]),
      difference: differenceOf(row),
      why: whyOf(row, shown.keys),
      firstLines: lines.map(([number]) => Number(number)),
      id: textIn(record[0]),
      lines: Number(row[3]),
      records: Number(row[4])
    }
  }
}

export function* rowsOfEntries(
  ledger: Ledger,
  classes: ReadonlyArray<EntryClass>,
  shown: Shown
): Generator<EntryRow, void> {
  for (const row of entryRows(ledger, classes, shown)) {
    const isSingle = row[8] !== null || row[9] !== null
    if (isSingle && !shown.isGrouped) {
      yield rowOf(row, shown, { line: lineIn(row), record: [row[17], row[14], row[15], row[16]], isFirst: true })
      continue
    }
    const lines = isSingle ? (row[8] === null ? [] : [lineIn(row)]).values() : ledger.rows(linesOf, row[0] ?? null)
    const records = isSingle
      ? ledger.rows(recordsOfSum, row[9] ?? null)
      : ledger.rows(shown.isGrouped ? groupedRecords : recordsOf, row[0] ?? null)
    for (let isFirst = true;; isFirst = false) {
      const [line, record] = [lines.next(), records.next()]
      if (line.done === true && record.done === true) break
      yield rowOf(row, shown, {
        line: line.done === true ? [] : line.value,
        record: record.done === true ? [] : record.value,
        isFirst
      })
    }
  }
}

const lineIn = (row: Row): Part => [row[8], row[10], row[11], row[12], row[13]]

type Part = ReadonlyArray<Row[number] | undefined>

/** Returns the row of a line, a record, or both. Of an entry with several rows, only the first one has the difference. */
const rowOf = (
  entry: Row,
  shown: Shown,
  { isFirst, line, record }: { readonly line: Part; readonly record: Part; readonly isFirst: boolean }
): EntryRow => {
  const gross = amountIn(line[3])
  const fee = amountIn(line[4])
  return {
    class: entry[1] as EntryClass, // the ledger's own
    entry: Number(entry[0]),
    line: numberIn(line[0]),
    id: textIn(record[0]),
    keys: keyValues(textIn(line[1]) ?? textIn(record[1]), shown.keys),
    dayThere: dayIn(line[2]),
    dayHere: dayIn(record[2]),
    amountThere: gross === null ? null : gross - (fee ?? 0n),
    fee,
    amountHere: amountIn(record[3]),
    difference: isFirst ? differenceOf(entry) : null,
    why: isFirst ? whyOf(entry, shown.keys) : null
  }
}
