/**
 * What a batch means for the rows of a list: which are new, which differ, what to tell of it, and what it adds to the
 * scan's tally. Pure but for the row numbers that it adds to the set of seen ones; the stores only carry it out.
 */
import { membersOf } from "@payments/core"
import * as crypto from "node:crypto"
import { type Cell, type Layout, readable, replacedIn, valueOf } from "./Columns.ts"
import type { RowSet } from "./RowSet.ts"
import type { ReadRecord } from "./Sink.ts"
import { digestWith, type Tally } from "./Tally.ts"

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
  /** Whether changes are told: not of a list's first load. */
  readonly telling: boolean
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

/** A row while a batch passes over it. */
interface Current {
  readonly row: number
  hash: string
  /** Known where it differs from what was read, or was written by this batch. */
  text: string | undefined
  missing: boolean
}

/** Plans a batch. */
export const plan = (input: PlanInput): Plan => {
  const { ignored, layout, reads, seen, stored, telling, texts } = input
  const counts = { ...input.tally.counts }
  const sums: Record<string, bigint> = { ...input.tally.sums }
  const undocumented = new Map(Object.entries(input.tally.undocumented))
  let { digest, replaced } = input.tally
  let nextRow = input.nextRow
  const current = new Map<string, Current>()
  const writes = new Map<number, RowWrite>()
  const found = new Set<number>()
  const changes: Array<Change> = []
  const quarantined: Array<Quarantined> = []

  /** What is not in {@link sums} yet, by column: numbers for as long as they are exact. */
  const amounts = layout.amounts.map((column) => ({ column, pending: 0 }))
  const settle = (entry: typeof amounts[number]): void => {
    sums[entry.column.name] = (sums[entry.column.name] ?? 0n) + BigInt(entry.pending)
    entry.pending = 0
  }
  const add = (value: unknown, sign: 1 | -1): void => {
    for (const entry of amounts) {
      const amount = valueOf(entry.column, value)
      if (typeof amount !== "number") continue
      if (!Number.isSafeInteger(entry.pending + sign * amount)) settle(entry)
      entry.pending += sign * amount
    }
  }
  const write = (row: number, id: string, read: HashedRead, value: unknown, isNew: boolean): void => {
    const cells = layout.columns.map((column) => valueOf(column, value))
    replaced += replacedIn(layout, value, read.text)
    writes.set(row, { row, id, cells, raw: read.text, hash: read.hash, isNew })
  }
  const parsed = (text = "null"): unknown => readable(layout, JSON.parse(text), text)
  const known = (id: string): Current | undefined => {
    const held = current.get(id)
    if (held !== undefined) return held
    const row = stored.get(id)
    if (row === undefined) return undefined
    const entry = { row: row.row, hash: row.hash, text: texts.get(row.row), missing: row.missing }
    current.set(id, entry)
    return entry
  }

  for (const read of reads) {
    counts.records++
    for (const path of layout.undocumentedIn(read.value)) {
      const name = undocumented.has(path) || undocumented.size < mostPaths ? path : otherPaths
      undocumented.set(name, (undocumented.get(name) ?? 0) + 1)
    }
    if (read.problem !== undefined) {
      counts.quarantined++
      quarantined.push({ id: read.id, ...read.problem, raw: read.text })
    }
    if (read.id === undefined) {
      counts.nameless++
      continue
    }
    const { id } = read
    const value = read.problem === undefined ? read.value : readable(layout, read.value, read.text)
    const row = known(id)
    if (row === undefined) {
      const entry: Current = { row: nextRow++, hash: read.hash, text: read.text, missing: false }
      current.set(id, entry)
      write(entry.row, id, read, value, true)
      counts.inserted++
      seen.add(entry.row)
      digest = digestWith(digest, entry.hash)
      add(value, 1)
      if (telling) changes.push({ kind: "insert", id, fields: [], before: undefined, after: read.text })
      continue
    }
    const fields = row.hash === read.hash ? [] : differingMembers(row.text ?? "", read.text, ignored)
    const isFirst = seen.add(row.row)
    if (!isFirst) counts.repeats++
    if (row.missing) {
      counts.returned++
      found.add(row.row)
    }
    if (fields.length === 0) {
      counts.unchanged++
      if (isFirst) {
        digest = digestWith(digest, row.hash)
        // With ignored members the row stays as it was, and so does what is certified of it.
        add(row.hash === read.hash ? value : parsed(row.text), 1)
      }
      if (row.missing && telling) {
        changes.push({ kind: "returned", id, fields, before: row.text ?? read.text, after: row.text ?? read.text })
      }
    } else {
      counts.updated++
      digest = digestWith(digest, read.hash, isFirst ? undefined : row.hash)
      if (!isFirst) add(parsed(row.text), -1)
      add(value, 1)
      if (telling) {
        changes.push({ kind: row.missing ? "returned" : "update", id, fields, before: row.text, after: read.text })
      }
      write(row.row, id, read, value, writes.get(row.row)?.isNew ?? false)
      row.hash = read.hash
      row.text = read.text
    }
    row.missing = false
  }
  for (const entry of amounts) settle(entry)
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

/** The members whose texts differ, in the order of the later one, but for ignored ones. */
const differingMembers = (before: string, after: string, ignored: ReadonlySet<string>): ReadonlyArray<string> => {
  const [old, fresh] = [membersOf(before), membersOf(after)]
  const names = new Set([...fresh.keys(), ...old.keys()])
  const fields = [...names].filter((name) => !ignored.has(name) && old.get(name) !== fresh.get(name))
  // The same members otherwise spelled, in another order or doubled: another text all the same.
  return fields.length === 0 && [...names].every((name) => !ignored.has(name)) ? ["(text)"] : fields
}
