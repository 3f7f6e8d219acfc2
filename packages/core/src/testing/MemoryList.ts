/** Serves a list in memory as the API's document describes (§4). */
import type { AnyList, Filter } from "../model/Lists.ts"
import * as ListCursor from "./ListCursor.ts"
import type { ListServer } from "./ListServer.ts"

/**
 * The records of a list, by index. Each is JSON text, so that it can contain numbers and spellings that parsing would
 * change.
 */
export interface MemoryRecords {
  /** The number of records. */
  readonly length: number
  /** Returns the record at `index`, from 0. */
  readonly textAt: (index: number) => string
}

/** Behaviour that the document does not specify. */
export interface MemoryListOptions {
  /** Whether cursors end in characters that a client must percent-encode. */
  readonly reservedCursors?: boolean | undefined
  /** Whether a cursor is valid with any limit. */
  readonly anyLimit?: boolean | undefined
  /** What `count` gives, from the number of records of the page and of the list. Default: that of the page. */
  readonly countOf?: ((page: number, list: number) => number) | undefined
}

/** Returns the records of a list, from objects or JSON texts. */
export const recordsOf = (records: ReadonlyArray<object | string> = []): MemoryRecords => ({
  length: records.length,
  textAt: (index) => {
    const record = records[index]
    return typeof record === "string" ? record : JSON.stringify(record)
  }
})

/**
 * Serves the records, which must not change. The first request that filters by a field builds an index of that field. A
 * cursor is valid only with its list, filters and limit.
 */
export const serve = (list: AnyList, records: MemoryRecords, options: MemoryListOptions = {}): ListServer => {
  const cursors = ListCursor.make(list.name, {
    reserved: options.reservedCursors === true,
    anyLimit: options.anyLimit === true
  })
  const filters: { readonly [field: string]: Filter | undefined } = list.filters
  const indexes = new Map<string, FieldIndex>()
  const indexOf = (field: string): FieldIndex => {
    const index = indexes.get(field) ?? indexField(records, field, filters[field]?.type === "dateTime")
    indexes.set(field, index)
    return index
  }
  return (request) => {
    const numbers = request.cursor === undefined ? [0] : cursors.decode(request, request.cursor)
    if (numbers === undefined) return { _tag: "CursorRefused" }
    const [from = 0] = numbers
    const found = select(Object.entries(request.filters), indexOf)
    const length = found?.length ?? records.length
    const end = Math.min(from + request.limit, length)
    const items: Array<string> = []
    for (let at = from; at < end; at++) items.push(records.textAt(found?.[at] ?? at))
    // §2.5 does not say what `count` counts.
    const count = options.countOf?.(items.length, length) ?? items.length
    return { _tag: "Page", items, next: end < length ? cursors.encode(request, [end]) : null, count }
  }
}

/** For each value of a field, the indexes of the records with that value, in order. */
type FieldIndex = ReadonlyMap<string, ReadonlyArray<number>>

const indexField = (records: MemoryRecords, field: string, isDateTime: boolean): FieldIndex => {
  const index = new Map<string, Array<number>>()
  const add = (value: string, record: number) => {
    const found = index.get(value)
    if (found === undefined) index.set(value, [record])
    else found.push(record)
  }
  for (let at = 0; at < records.length; at++) {
    const record: unknown = JSON.parse(records.textAt(at))
    if (typeof record !== "object" || record === null) continue
    const value = (record as Record<string, unknown>)[field] // an object parsed from JSON has string keys
    if (typeof value !== "string") continue
    add(value, at)
    // A filter by date also matches a date-time on that day.
    const time = isDateTime ? value.indexOf("T") : -1
    if (time !== -1) add(value.slice(0, time), at)
  }
  return index
}

/** Returns the indexes of the records that match all filters, in order. Returns undefined if there is no filter. */
const select = (
  filters: ReadonlyArray<readonly [field: string, value: string]>,
  indexOf: (field: string) => FieldIndex
): ReadonlyArray<number> | undefined => {
  const found = filters.map(([field, value]) => indexOf(field).get(value) ?? []).toSorted((a, b) => a.length - b.length)
  const [fewest, ...others] = found
  const sets = others.map((records) => new Set(records))
  return sets.length === 0 ? fewest : fewest?.filter((record) => sets.every((set) => set.has(record)))
}
