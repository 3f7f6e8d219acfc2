/** A list in memory, served by the rules of §4. */
import { Hash, Option, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import type { ListServer } from "./ListServer.ts"

/** The records of a list, by index. A record is JSON text, so that it can hold what parsing would lose. */
export interface MemoryRecords {
  readonly length: number
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

/** Where a cursor points: the next record, the page's number, and the request it belongs to. */
const Cursor = Schema.fromJsonString(Schema.Tuple([Schema.Int, Schema.Int, Schema.Int]))
const reserved = "+/=&?#%~ ñ漢"

/** Serves the records. They are filtered as they are read; a cursor holds only with its list, filters and limit. */
export const serve = (list: string, records: MemoryRecords, options: MemoryListOptions = {}): ListServer =>
(
  { cursor, filters, limit }
) => {
  const wanted = Object.entries(filters)
  const binding = Hash.string(JSON.stringify([list, limit, wanted.toSorted()]))
  const start = cursor === undefined ? [0, 1, binding] as const : readCursor(cursor)
  if (start === undefined || start[2] !== binding) return { _tag: "CursorRefused" }
  const [from, pageNumber] = start
  const cursorAt = (index: number) =>
    Base64Url.encode(JSON.stringify([index, pageNumber + 1, binding])) + (options.reservedCursors ? reserved : "")
  const items: Array<string> = []
  let index = from
  for (; index < records.length && items.length < limit; index++) {
    const text = records.textAt(index)
    if (wanted.length === 0 || matches(text, wanted)) items.push(text)
  }
  const more = nextMatch(records, index, wanted)
  // `count` is read as the number of items on this page (§2.5 leaves it open).
  return { _tag: "Page", items, next: more === undefined ? null : cursorAt(more), count: items.length }
}

const readCursor = (cursor: string): readonly [number, number, number] | undefined => {
  const plain = cursor.endsWith(reserved) ? cursor.slice(0, -reserved.length) : cursor
  const text = Base64Url.decodeString(plain)
  return Result.isFailure(text) ? undefined : Option.getOrUndefined(Schema.decodeOption(Cursor)(text.success))
}

const nextMatch = (
  records: MemoryRecords,
  from: number,
  wanted: ReadonlyArray<[string, string]>
): number | undefined => {
  for (let index = from; index < records.length; index++) {
    if (wanted.length === 0 || matches(records.textAt(index), wanted)) return index
  }
  return undefined
}

/** Whether the record carries each value asked for; a date-time also answers to its date. */
const matches = (text: string, wanted: ReadonlyArray<[string, string]>): boolean => {
  // Most records do not even hold the letters; a value that JSON may spell in two ways is looked for by parsing.
  if (wanted.some(([, value]) => /^[\w .:-]*$/.test(value) && !text.includes(value) && !text.includes("\\u"))) {
    return false
  }
  const record: unknown = JSON.parse(text)
  if (typeof record !== "object" || record === null) return false
  return wanted.every(([field, value]) => {
    const held = (record as Record<string, unknown>)[field] // an object parsed from JSON has string keys
    return held === value || (field === "paymentDate" && typeof held === "string" && held.startsWith(`${value}T`))
  })
}
