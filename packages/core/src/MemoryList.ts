/**
 * A list served from memory by the rules of §4: what `layerTest` and the sandbox answer with. Pure: a request in, an
 * answer out.
 */
import { Hash, Option, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import { type ListName, PageLimit, pageLimit } from "./Lists.ts"

/** The records of a list, by index. A record is JSON text, so that it can hold what parsing would lose. */
export interface MemoryRecords {
  readonly length: number
  readonly textAt: (index: number) => string
}

/** How the list behaves where the document leaves it open. */
export interface MemoryListOptions {
  /** Records per page when a request names no limit: 20 where the document says so (§8). */
  readonly defaultLimit?: number | undefined
  /** Cursors end in characters that break when they are not percent-encoded. */
  readonly reservedCursors?: boolean | undefined
  /** Every n-th page is empty and has a cursor. */
  readonly emptyPageEvery?: number | undefined
}

/** A request as the list understands it: parameters by field name, undefined where not sent. */
export interface MemoryRequest {
  readonly list: ListName
  readonly filters: Readonly<Record<string, string | undefined>>
  readonly limit: string | undefined
  readonly cursor: string | undefined
}

/** A page, or what is wrong with the request. */
export type MemoryAnswer =
  | { readonly _tag: "Page"; readonly body: string; readonly records: number }
  | { readonly _tag: "Refused"; readonly code: "INVALID_LIMIT" | "INVALID_CURSOR" }

/** In-memory lists, each as records (objects, or JSON text where exact spelling matters) and options. */
export interface MemoryLists extends MemoryListOptions {
  readonly payoutRequests?: ReadonlyArray<object | string> | undefined
  readonly payinSources?: ReadonlyArray<object | string> | undefined
  readonly invoices?: ReadonlyArray<object | string> | undefined
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

/** Answers one request. The records are filtered as they are read; a cursor holds only with its filters and limit. */
export const answer = (
  records: MemoryRecords,
  request: MemoryRequest,
  options: MemoryListOptions = {}
): MemoryAnswer => {
  const limit = Number(request.limit ?? options.defaultLimit ?? pageLimit.default)
  if (request.limit === "" || !Schema.is(PageLimit)(limit)) return { _tag: "Refused", code: "INVALID_LIMIT" }
  const wanted = Object.entries(request.filters).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const binding = Hash.string(JSON.stringify([request.list, limit, wanted.toSorted()]))
  const start = request.cursor === undefined ? [0, 1, binding] as const : readCursor(request.cursor)
  if (start === undefined || start[2] !== binding) return { _tag: "Refused", code: "INVALID_CURSOR" }
  const [from, pageNumber] = start
  const cursorAt = (index: number) =>
    Base64Url.encode(JSON.stringify([index, pageNumber + 1, binding])) + (options.reservedCursors ? reserved : "")
  if (options.emptyPageEvery !== undefined && pageNumber % options.emptyPageEvery === 0) return page([], cursorAt(from))
  const items: Array<string> = []
  let index = from
  for (; index < records.length && items.length < limit; index++) {
    const text = records.textAt(index)
    if (wanted.length === 0 || matches(text, wanted)) items.push(text)
  }
  const more = nextMatch(records, index, wanted)
  return page(items, more === undefined ? null : cursorAt(more))
}

const page = (items: ReadonlyArray<string>, cursor: string | null): MemoryAnswer => ({
  _tag: "Page",
  // `count` is read as the number of items on this page (§2.5 leaves it open).
  body: `{"items":[${items.join(",")}],"cursor":${JSON.stringify(cursor)},"count":${items.length}}`,
  records: items.length
})

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
