/**
 * Plans what a batch changes in the table of a list: which rows are new, which differ, and which changes are emitted. A plan also
 * has the scan's totals after the batch. Pure, except that it adds row numbers to the set of seen rows. The stores only execute
 * the plan.
 */
import { membersOf, parseText } from "@payments/core"
import * as crypto from "node:crypto"
import type { BatchRecord, Places } from "../port/Sink.ts"
import { amountsOf, type Cell, cellsOf, type Layout, recordIn, withoutRoundedAmounts } from "./Columns.ts"
import { ContentCounts } from "./Contents.ts"
import type { RowSet } from "./RowSet.ts"
import { RunningTotals, type ScanTotals } from "./ScanTotals.ts"

export interface RowLookup {
  readonly id: string
  readonly hash: string
}

export interface StoredRow {
  readonly row: number
  readonly hash: string
  readonly missing: boolean
}

export interface RowWrite {
  readonly row: number
  readonly id: string
  /** In the order of the list's columns; then the text, its hash and the number of the row. */
  readonly cells: ReadonlyArray<Cell>
  readonly raw: string
  readonly hash: string
  readonly isNew: boolean
}

export interface Change {
  readonly kind: "insert" | "update" | "returned"
  readonly id: string
  /** Of an update: the members whose text differs. */
  readonly fields: ReadonlyArray<string>
  readonly before: string | undefined
  readonly after: string
}

export interface Quarantined {
  readonly id: string | undefined
  /** The path of the problem in the record. */
  readonly path: string
  readonly expected: string
  readonly raw: string
}

export interface Plan {
  readonly writes: ReadonlyArray<RowWrite>
  /** The numbers of rows that are no longer missing. */
  readonly reappeared: ReadonlyArray<number>
  readonly changes: ReadonlyArray<Change>
  readonly quarantined: ReadonlyArray<Quarantined>
  readonly totals: ScanTotals
}

export interface PlanInput {
  readonly layout: Layout
  /** Members that are ignored when records are compared. */
  readonly ignored: ReadonlySet<string>
  /** The first load of a list emits none, and `insert` needs an earlier complete scan. */
  readonly emitChanges: { readonly inserts: boolean; readonly updates: boolean }
  readonly totals: ScanTotals
  /** Planning adds the rows of the batch. */
  readonly seen: RowSet
  /** The rows below this number were known before the scan. Undefined: places are not counted. */
  readonly knownRows?: number | undefined
  /** When the last complete scan of the list began. Undefined: late records are not counted. */
  readonly since?: string | undefined
  /** Whether unchanged records are counted in the contents too. */
  readonly countsAll?: boolean
  /** The first unused row number. */
  readonly nextRow: number
  readonly records: ReadonlyArray<HashedRecord>
  /** How many of the last records are not of the list's pages, so that they have no place in the list. Default 0. */
  readonly unplaced?: number
  /** By id. */
  readonly stored: ReadonlyMap<string, StoredRow>
  /** The texts of the {@link differingRows}, by row number. */
  readonly texts: ReadonlyMap<number, string>
}

export interface HashedRecord extends BatchRecord {
  readonly hash: string
}

export const hashed = ({ amounts, id, problem, text }: BatchRecord): HashedRecord => ({
  id,
  text,
  amounts,
  problem,
  hash: contentHash(text)
})

/** SHA-256 of the record's exact text, in hex. */
export const contentHash = (text: string): string => crypto.hash("sha256", text)

/** One for each id. */
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

interface Changed extends StoredRow {
  readonly text: string | undefined
}

interface PlanState {
  readonly input: PlanInput
  readonly counts: { -readonly [Name in keyof ScanTotals["counts"]]: ScanTotals["counts"][Name] }
  readonly running: RunningTotals
  /** By id. */
  readonly changed: Map<string, Changed>
  readonly writes: Map<number, RowWrite>
  readonly reappeared: Set<number>
  readonly changes: Array<Change>
  readonly quarantined: Array<Quarantined>
  readonly contents: ContentCounts
  readonly places: { -readonly [Name in keyof Places]: Places[Name] }
  /** 0 if places are not counted. */
  knownRows: number
  nextRow: number
  replaced: number
}

export const plan = (input: PlanInput): Plan => {
  const { totals } = input
  const state: PlanState = {
    input,
    counts: { ...totals.counts },
    running: new RunningTotals(input.layout.amounts, totals),
    changed: new Map(),
    writes: new Map(),
    reappeared: new Set(),
    changes: [],
    quarantined: [],
    contents: new ContentCounts(input.layout, input.since),
    places: { ...totals.places },
    knownRows: input.knownRows ?? 0,
    nextRow: input.nextRow,
    replaced: totals.replaced
  }
  const placed = input.records.length - (input.unplaced ?? 0)
  for (const [index, record] of input.records.entries()) {
    if (index >= placed) state.knownRows = 0
    planRecord(state, record)
  }
  const { changes, counts, places, quarantined, replaced, running: { digest, sums } } = state
  return {
    writes: [...state.writes.values()],
    reappeared: [...state.reappeared],
    changes,
    quarantined,
    totals: { ...totals, counts, sums, digest, replaced, places, contents: state.contents.into(totals.contents) }
  }
}

interface RecordWithId extends HashedRecord {
  readonly id: string
}

const hasId = (record: HashedRecord): record is RecordWithId => record.id !== undefined

const planRecord = (state: PlanState, record: HashedRecord): void => {
  const { changed, counts, input: { stored, texts } } = state
  const { problem } = record
  counts.records++
  if (problem !== undefined) {
    counts.quarantined++
    state.quarantined.push({ id: record.id, path: problem.path, expected: problem.expected, raw: record.text })
  }
  if (!hasId(record)) {
    counts.withoutId++
    return
  }
  const before = changed.get(record.id)
  const row = before ?? stored.get(record.id)
  if (row !== undefined) planRow(state, record, row, before === undefined ? texts.get(row.row) : before.text)
  // No row has the record's id, so no unseen row can be this record.
  else if (problem?.isUnstorable !== true) planInsert(state, record)
}

const planInsert = (state: PlanState, record: RecordWithId): void => {
  const { changed, changes, counts, input, running } = state
  const { amounts, hash, id, text } = record
  const row = state.nextRow++
  changed.set(id, { row, hash, text, missing: false })
  state.contents.addInsert(planWrite(state, record, row))
  counts.inserted++
  countPlace(state)
  input.seen.add(row)
  running.add(hash, amounts)
  if (input.emitChanges.inserts) changes.push({ kind: "insert", id, fields: [], before: undefined, after: text })
}

const countPlace = ({ knownRows, places }: PlanState): void => {
  if (knownRows === 0) return
  places.fresh++
  places.freshAtEnd++
  if (places.known === 0) places.freshAtStart++
}

/** `text` is that of the row. It is undefined only if it equals the record's text. */
const planRow = (state: PlanState, record: RecordWithId, row: StoredRow, text: string | undefined): void => {
  const { changed, changes, counts, input: { emitChanges, ignored, layout, seen }, running } = state
  const { id } = record
  const isSame = row.hash === record.hash
  const fields = isSame || record.problem?.isUnstorable === true
    ? []
    : differingMembers(text ?? "", record.text, ignored)
  const isFirst = seen.add(row.row)
  if (!isFirst) counts.repeats++
  else if (row.row < state.knownRows) {
    state.places.known++
    state.places.freshAtEnd = 0
  }
  if (row.missing) {
    counts.returned++
    state.reappeared.add(row.row)
  }
  if (fields.length > 0) {
    counts.updated++
    if (!isFirst) running.remove(row.hash, amountsOfText(layout, text))
    running.add(record.hash, record.amounts)
    if (emitChanges.updates) {
      changes.push({ kind: row.missing ? "returned" : "update", id, fields, before: text, after: record.text })
    }
    planWrite(state, record, row.row)
    state.contents.addUpdate(fields, text, record.text)
    changed.set(id, { row: row.row, hash: record.hash, text: record.text, missing: false })
    return
  }
  counts.unchanged++
  if (isFirst && state.input.countsAll === true) {
    state.contents.addRow(cellsOf(layout, recordIn(layout, text ?? record.text), []).cells)
  }
  // If only ignored members differ, or the text cannot be stored, the row stays and its stored text is certified.
  if (isFirst) running.add(row.hash, isSame ? record.amounts : amountsOfText(layout, text))
  if (!row.missing) return
  changed.set(id, { row: row.row, hash: row.hash, text, missing: false })
  if (!emitChanges.updates) return
  changes.push({ kind: "returned", id, fields, before: text ?? record.text, after: text ?? record.text })
}

/** Only rows that are written are parsed. Parsing the text again costs less than passing the cells between threads. */
const planWrite = (
  state: PlanState,
  { hash, id, problem, text }: RecordWithId,
  row: number
): ReadonlyArray<Cell> => {
  const { input: { layout, stored }, writes } = state
  const value = problem === undefined ? parseText(text) : withoutRoundedAmounts(layout, parseText(text), text)
  const { cells, replaced } = cellsOf(layout, value, [text, hash, row])
  state.replaced += replaced
  state.contents.addRow(cells)
  writes.set(row, { row, id, cells, raw: text, hash, isNew: !stored.has(id) })
  return cells
}

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
