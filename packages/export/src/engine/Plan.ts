/**
 * What a batch means for the rows of a list: which are new, which differ, what to tell of it, and what it adds to the
 * scan's tally. Pure but for the row numbers that it adds to the set of seen ones; the stores only carry it out.
 */
import { membersOf, parseText } from "@payments/core"
import * as crypto from "node:crypto"
import type { ReadRecord } from "../Sink.ts"
import { type Cell, type Layout, readable, replacedIn, valueOf } from "./Columns.ts"
import type { RowSet } from "./RowSet.ts"
import type { Sought } from "./Store.ts"
import { type Tally, Totals } from "./Tally.ts"

/** A row as the destination has it. */
export interface StoredRow {
  readonly row: number
  readonly hash: string
  readonly missing: boolean
}

/** A row to be written whole. */
export interface RowWrite {
  readonly row: number
  readonly id: string
  /** In the order of the list's columns. */
  readonly cells: ReadonlyArray<Cell>
  readonly raw: string
  readonly hash: string
  readonly isNew: boolean
}

/** What became of a record. */
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

/** What a store has to write. */
export interface Plan {
  readonly writes: ReadonlyArray<RowWrite>
  /** Rows that are no longer missing. */
  readonly found: ReadonlyArray<number>
  readonly changes: ReadonlyArray<Change>
  readonly quarantined: ReadonlyArray<Quarantined>
  readonly tally: Tally
}

/** What a plan is made from. */
export interface PlanInput {
  readonly layout: Layout
  /** Members whose difference alone changes nothing. */
  readonly ignored: ReadonlySet<string>
  /** Which changes are told: none of a list's first load; what is new only where all of it was read before. */
  readonly tells: { readonly inserts: boolean; readonly updates: boolean }
  readonly tally: Tally
  /** Grows by the rows of the batch. */
  readonly seen: RowSet
  /** The first row number that is free. */
  readonly nextRow: number
  readonly reads: ReadonlyArray<HashedRead>
  readonly stored: ReadonlyMap<string, StoredRow>
  /** The texts of the stored rows that {@link differing} names. */
  readonly texts: ReadonlyMap<number, string>
}

/** A record that was read, and its content hash. */
export interface HashedRead extends ReadRecord {
  readonly hash: string
}

/** SHA-256 of the exact text, in hex. */
export const hashed = (read: ReadRecord): HashedRead => ({ ...read, hash: contentHash(read.text) })

/** The content hash of a record's exact text. */
export const contentHash = (text: string): string => crypto.hash("sha256", text)

/** The records that have a row to be looked for: of those with one id any. */
export const soughtIn = (reads: ReadonlyArray<HashedRead>): ReadonlyArray<Sought> => {
  const sought = new Map<string, Sought>()
  for (const { hash, id } of reads) if (id !== undefined) sought.set(id, { id, hash })
  return [...sought.values()]
}

/** The stored rows that some record of the batch differs from. */
export const differing = (
  reads: ReadonlyArray<HashedRead>,
  stored: ReadonlyMap<string, StoredRow>
): ReadonlyArray<number> => {
  const rows = new Set<number>()
  for (const { hash, id } of reads) {
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
  const { ignored, layout, reads, seen, stored, tells, texts } = input
  const counts = { ...input.tally.counts }
  const totals = new Totals(layout.amounts, input.tally)
  const undocumented = new Map(Object.entries(input.tally.undocumented))
  let { replaced } = input.tally
  let nextRow = input.nextRow
  const changed = new Map<string, Changed>()
  const writes = new Map<number, RowWrite>()
  const found = new Set<number>()
  const changes: Array<Change> = []
  const quarantined: Array<Quarantined> = []

  const write = (row: number, id: string, read: HashedRead, value: unknown, isNew: boolean): void => {
    const cells = layout.columns.map((column) => valueOf(column, value))
    replaced += replacedIn(layout, value, read.text)
    writes.set(row, { row, id, cells, raw: read.text, hash: read.hash, isNew })
  }
  const parsed = (text = "null"): unknown => readable(layout, parseText(text), text)
  for (const read of reads) {
    counts.records++
    const whole = parseText(read.text)
    countPaths(undocumented, layout.undocumentedIn(whole))
    if (read.problem !== undefined) {
      counts.quarantined++
      const { expected, path } = read.problem
      quarantined.push({ id: read.id, path, expected, raw: read.text })
    }
    if (read.id === undefined) {
      counts.nameless++
      continue
    }
    const { id } = read
    const value = read.problem === undefined ? whole : readable(layout, whole, read.text)
    const before = changed.get(id)
    const row = before ?? stored.get(id)
    const isUnstorable = read.problem?.isUnstorable === true
    if (row === undefined) {
      // Its id is known: it is none of the rows that were not read.
      if (isUnstorable) continue
      const fresh = { row: nextRow++, hash: read.hash, text: read.text, missing: false }
      changed.set(id, fresh)
      write(fresh.row, id, read, value, true)
      counts.inserted++
      seen.add(fresh.row)
      totals.add(read.hash, value)
      if (tells.inserts) changes.push({ kind: "insert", id, fields: [], before: undefined, after: read.text })
      continue
    }
    const isSame = row.hash === read.hash
    // Known wherever it is not the text that was read.
    const text = before === undefined ? texts.get(row.row) : before.text
    const fields = isSame || isUnstorable ? [] : differingMembers(text ?? "", read.text, ignored)
    const isFirst = seen.add(row.row)
    if (!isFirst) counts.repeats++
    if (row.missing) {
      counts.returned++
      found.add(row.row)
    }
    if (fields.length === 0) {
      counts.unchanged++
      // With ignored members, and for a text that no row may hold, the row stays unchanged, and so does what is certified of it.
      if (isFirst) totals.add(row.hash, isSame ? value : parsed(text))
      if (row.missing) {
        changed.set(id, { row: row.row, hash: row.hash, text, missing: false })
        if (tells.updates) {
          changes.push({ kind: "returned", id, fields, before: text ?? read.text, after: text ?? read.text })
        }
      }
    } else {
      counts.updated++
      if (!isFirst) totals.remove(row.hash, parsed(text))
      totals.add(read.hash, value)
      if (tells.updates) {
        changes.push({ kind: row.missing ? "returned" : "update", id, fields, before: text, after: read.text })
      }
      write(row.row, id, read, value, writes.get(row.row)?.isNew ?? false)
      changed.set(id, { row: row.row, hash: read.hash, text: read.text, missing: false })
    }
  }
  const { digest, sums } = totals
  return {
    writes: [...writes.values()],
    found: [...found],
    changes,
    quarantined,
    tally: { ...input.tally, counts, sums, undocumented: Object.fromEntries(undocumented), digest, replaced }
  }
}

/** A service that names fields at random is not followed without end. */
const mostPaths = 100
const otherPaths = "(other)"

/** Counts one more record that has these. */
export const countPaths = (counts: Map<string, number>, paths: ReadonlyArray<string>): void => {
  for (const path of paths) {
    const name = counts.has(path) || counts.size < mostPaths ? path : otherPaths
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
}

/** The members whose texts differ, in the order of the later one, but for ignored ones. */
export const differingMembers = (
  before: string,
  after: string,
  ignored: ReadonlySet<string>
): ReadonlyArray<string> => {
  const [old, fresh] = [membersOf(before), membersOf(after)]
  const names = new Set([...fresh.keys(), ...old.keys()])
  const fields = [...names].filter((name) => !ignored.has(name) && old.get(name) !== fresh.get(name))
  // The same members otherwise spelled, in another order or doubled: another text all the same.
  return fields.length === 0 && [...names].every((name) => !ignored.has(name)) ? ["(text)"] : fields
}
