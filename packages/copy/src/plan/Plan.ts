/**
 * Plans what a batch changes in the table of a list: which rows are new, which differ, and which changes are emitted. A plan also
 * has the scan's totals after the batch. Pure, except that it adds row numbers to the set of seen rows. The stores only execute
 * the plan.
 */
import { membersOf, parseText } from "@payments/core"
import * as crypto from "node:crypto"
import type { BatchRecord } from "../port/Sink.ts"
import { amountsOf, type Cell, cellsOf, type Layout, withoutRoundedAmounts } from "./Columns.ts"
import type { RowSet } from "./RowSet.ts"
import { RunningTotals, type ScanTotals } from "./ScanTotals.ts"

/** A record whose row is looked up, and the content hash of its text. */
export interface RowLookup {
  readonly id: string
  readonly hash: string
}

/** A stored row. */
export interface StoredRow {
  readonly row: number
  readonly hash: string
  readonly missing: boolean
}

/** A row to write, with all columns. */
export interface RowWrite {
  readonly row: number
  readonly id: string
  /** In the order of the list's columns. */
  readonly cells: ReadonlyArray<Cell>
  readonly raw: string
  readonly hash: string
  readonly isNew: boolean
}

/** An entry for `changes`. */
export interface Change {
  readonly kind: "insert" | "update" | "returned"
  readonly id: string
  /** Of an update: the members whose text differs. */
  readonly fields: ReadonlyArray<string>
  readonly before: string | undefined
  readonly after: string
}

/** A record that did not decode. */
export interface Quarantined {
  readonly id: string | undefined
  readonly path: string
  readonly expected: string
  readonly raw: string
}

/** The writes of a batch, for a store. */
export interface Plan {
  readonly writes: ReadonlyArray<RowWrite>
  /** The numbers of rows that are no longer missing. */
  readonly reappeared: ReadonlyArray<number>
  readonly changes: ReadonlyArray<Change>
  readonly quarantined: ReadonlyArray<Quarantined>
  readonly totals: ScanTotals
}

/** The input of a plan. */
export interface PlanInput {
  readonly layout: Layout
  /** Members that are ignored when records are compared. */
  readonly ignored: ReadonlySet<string>
  /** The kinds of changes to emit. The first load of a list emits none, and `insert` needs an earlier complete scan. */
  readonly emitChanges: { readonly inserts: boolean; readonly updates: boolean }
  readonly totals: ScanTotals
  /** The rows that the scan has seen. Planning adds the rows of the batch. */
  readonly seen: RowSet
  /** The first unused row number. */
  readonly nextRow: number
  readonly records: ReadonlyArray<HashedRecord>
  /** The stored rows of the records, by id. */
  readonly stored: ReadonlyMap<string, StoredRow>
  /** The texts of the {@link differingRows}, by row number. */
  readonly texts: ReadonlyMap<number, string>
}

/** A record of a batch, and the content hash of its text. */
export interface HashedRecord extends BatchRecord {
  readonly hash: string
}

/** Returns the record with its content hash. */
export const hashed = ({ amounts, id, problem, text }: BatchRecord): HashedRecord => ({
  id,
  text,
  amounts,
  problem,
  hash: contentHash(text)
})

/** Returns the content hash of a record's exact text: SHA-256, in hex. */
export const contentHash = (text: string): string => crypto.hash("sha256", text)

/** Returns the rows to look up for records, one for each id. */
export const lookupsOf = (records: ReadonlyArray<HashedRecord>): ReadonlyArray<RowLookup> => {
  const lookups = new Map<string, RowLookup>()
  for (const { hash, id } of records) if (id !== undefined) lookups.set(id, { id, hash })
  return [...lookups.values()]
}

/** Returns the numbers of the stored rows whose hash differs from that of a record in the batch. */
export const differingRows = (
  records: ReadonlyArray<HashedRecord>,
  stored: ReadonlyMap<string, StoredRow>
): ReadonlyArray<number> => {
  const rows = new Set<number>()
  for (const { hash, id } of records) {
    const row = id === undefined ? undefined : stored.get(id)
    if (row !== undefined && row.hash !== hash) rows.add(row.row)
  }
  return [...rows]
}

/** A row that this batch has changed. */
interface Changed extends StoredRow {
  readonly text: string | undefined
}

/** Plans a batch. */
export const plan = (input: PlanInput): Plan => {
  const { ignored, layout, records, seen, stored, emitChanges, texts } = input
  const counts = { ...input.totals.counts }
  const running = new RunningTotals(layout.amounts, input.totals)
  let { replaced } = input.totals
  let nextRow = input.nextRow
  const changed = new Map<string, Changed>()
  const writes = new Map<number, RowWrite>()
  const reappeared = new Set<number>()
  const changes: Array<Change> = []
  const quarantined: Array<Quarantined> = []

  // Only rows that are written are parsed. Parsing the text again costs less than passing the cells between threads.
  const write = (row: number, id: string, { hash, problem, text }: HashedRecord, isNew: boolean): void => {
    const value = problem === undefined ? parseText(text) : withoutRoundedAmounts(layout, parseText(text), text)
    const made = cellsOf(layout, value)
    replaced += made.replaced
    writes.set(row, { row, id, cells: made.cells, raw: text, hash, isNew })
  }
  const amountsIn = (text?: string) => amountsOfText(layout, text)
  for (const record of records) {
    counts.records++
    if (record.problem !== undefined) {
      counts.quarantined++
      const { expected, path } = record.problem
      quarantined.push({ id: record.id, path, expected, raw: record.text })
    }
    if (record.id === undefined) {
      counts.withoutId++
      continue
    }
    const { id } = record
    const before = changed.get(id)
    const row = before ?? stored.get(id)
    const isUnstorable = record.problem?.isUnstorable === true
    if (row === undefined) {
      // No row has the record's id, so no unseen row can be this record.
      if (isUnstorable) continue
      const newRow = { row: nextRow++, hash: record.hash, text: record.text, missing: false }
      changed.set(id, newRow)
      write(newRow.row, id, record, true)
      counts.inserted++
      seen.add(newRow.row)
      running.add(record.hash, record.amounts)
      if (emitChanges.inserts) changes.push({ kind: "insert", id, fields: [], before: undefined, after: record.text })
      continue
    }
    const isSame = row.hash === record.hash
    // The text of the row; undefined only if it equals the record's text.
    const text = before === undefined ? texts.get(row.row) : before.text
    const fields = isSame || isUnstorable ? [] : differingMembers(text ?? "", record.text, ignored)
    const isFirst = seen.add(row.row)
    if (!isFirst) counts.repeats++
    if (row.missing) {
      counts.returned++
      reappeared.add(row.row)
    }
    if (fields.length === 0) {
      counts.unchanged++
      // If only ignored members differ, or the text cannot be stored, the row stays and its stored text is certified.
      if (isFirst) running.add(row.hash, isSame ? record.amounts : amountsIn(text))
      if (row.missing) {
        changed.set(id, { row: row.row, hash: row.hash, text, missing: false })
        if (emitChanges.updates) {
          changes.push({ kind: "returned", id, fields, before: text ?? record.text, after: text ?? record.text })
        }
      }
    } else {
      counts.updated++
      if (!isFirst) running.remove(row.hash, amountsIn(text))
      running.add(record.hash, record.amounts)
      if (emitChanges.updates) {
        changes.push({ kind: row.missing ? "returned" : "update", id, fields, before: text, after: record.text })
      }
      write(row.row, id, record, writes.get(row.row)?.isNew ?? false)
      changed.set(id, { row: row.row, hash: record.hash, text: record.text, missing: false })
    }
  }
  const { digest, sums } = running
  return {
    writes: [...writes.values()],
    reappeared: [...reappeared],
    changes,
    quarantined,
    totals: { ...input.totals, counts, sums, digest, replaced }
  }
}

/** Returns the amounts of a stored text. */
export const amountsOfText = (layout: Layout, text = "null"): ReadonlyArray<number> =>
  amountsOf(layout, withoutRoundedAmounts(layout, parseText(text), text))

/** Returns the members whose texts differ, except ignored ones, in the order of the later text. */
export const differingMembers = (
  before: string,
  after: string,
  ignored: ReadonlySet<string>
): ReadonlyArray<string> => {
  const [old, latest] = [membersOf(before), membersOf(after)]
  const names = new Set([...latest.keys(), ...old.keys()])
  const fields = [...names].filter((name) => !ignored.has(name) && old.get(name) !== latest.get(name))
  // If the texts differ only in spelling, order or duplicates of members, report the text as a whole.
  return fields.length === 0 && [...names].every((name) => !ignored.has(name)) ? ["(text)"] : fields
}
