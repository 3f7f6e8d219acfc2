/** A list in memory, served by the rules of §4. */
import * as ListCursor from "./ListCursor.ts"
import type { AnyList, Filter } from "./Lists.ts"
import type { ListServer } from "./ListServer.ts"

/** The records of a list, by index. A record is JSON text, so that it can hold what parsing would lose. */
export interface MemoryRecords {
  /** How many there are. */
  readonly length: number
  /** The record of that index, from 0. */
  readonly textAt: (index: number) => string
}

/** How the list behaves where the document leaves it open. */
export interface MemoryListOptions {
  /** Cursors end in characters that break when they are not percent-encoded. */
  readonly reservedCursors?: boolean | undefined
}

/** Records given as objects or as JSON text. */
export const recordsOf = (records: ReadonlyArray<object | string> = []): MemoryRecords => ({
  length: records.length,
  textAt: (index) => {
    const record = records[index]
    return typeof record === "string" ? record : JSON.stringify(record)
  }
})

/**
 * Serves the records, which must not change. A field that is filtered by is indexed once, when it is first asked for. A
 * cursor holds only with its list, filters and limit.
 */
export const serve = (list: AnyList, records: MemoryRecords, options: MemoryListOptions = {}): ListServer => {
  const cursors = ListCursor.make(list.name, { reserved: options.reservedCursors === true })
  const filters: { readonly [field: string]: Filter | undefined } = list.filters
  const indexes = new Map<string, FieldIndex>()
  const indexOf = (field: string): FieldIndex => {
    const index = indexes.get(field) ?? indexField(records, field, filters[field]?.type === "dateTime")
    indexes.set(field, index)
    return index
  }
  return (request) => {
    const place = request.cursor === undefined ? [0, 1] : cursors.read(request, request.cursor)
    if (place === undefined) return { _tag: "CursorRefused" }
    const [from = 0, page = 1] = place
    const cursorAt = (position: number) => cursors.write(request, [position, page + 1])
    const found = select(Object.entries(request.filters), indexOf)
    const length = found?.length ?? records.length
    const end = Math.min(from + request.limit, length)
    const items: Array<string> = []
    for (let position = from; position < end; position++) items.push(records.textAt(found?.[position] ?? position))
    // `count` is read as the number of items on this page (§2.5 leaves it open).
    return { _tag: "Page", items, next: end < length ? cursorAt(end) : null, count: items.length }
  }
}

/** For each value of a field the records that carry it, in order. */
type FieldIndex = ReadonlyMap<string, ReadonlyArray<number>>

const indexField = (records: MemoryRecords, field: string, isDateTime: boolean): FieldIndex => {
  const index = new Map<string, Array<number>>()
  const add = (value: string, record: number) => {
    const held = index.get(value)
    if (held === undefined) index.set(value, [record])
    else held.push(record)
  }
  for (let at = 0; at < records.length; at++) {
    const record: unknown = JSON.parse(records.textAt(at))
    if (typeof record !== "object" || record === null) continue
    const value = (record as Record<string, unknown>)[field] // an object parsed from JSON has string keys
    if (typeof value !== "string") continue
    add(value, at)
    // A date-time also answers to its date.
    const time = isDateTime ? value.indexOf("T") : -1
    if (time !== -1) add(value.slice(0, time), at)
  }
  return index
}

/** The records that carry every value asked for, in order; undefined where nothing is asked for. */
const select = (
  wanted: ReadonlyArray<readonly [field: string, value: string]>,
  indexOf: (field: string) => FieldIndex
): ReadonlyArray<number> | undefined => {
  const found = wanted.map(([field, value]) => indexOf(field).get(value) ?? []).toSorted((a, b) => a.length - b.length)
  const [fewest, ...others] = found
  const sets = others.map((records) => new Set(records))
  return sets.length === 0 ? fewest : fewest?.filter((record) => sets.every((set) => set.has(record)))
}
