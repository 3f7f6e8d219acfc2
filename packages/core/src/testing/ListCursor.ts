/**
 * The cursors of the test servers: opaque text that contains numbers. A cursor is valid only with the list, filters and
 * limit that it was issued for, and with the key if the request has one.
 */
import { Hash, Option, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import type { ListRequest } from "./ListServer.ts"

/** Encodes and decodes the cursors of one list. */
export interface ListCursors {
  /** Returns the cursor of the next page of this request. The numbers tell the server where that page starts. */
  readonly encode: (request: ListRequest, numbers: ReadonlyArray<number>) => string
  /**
   * Returns the numbers of a cursor. Returns undefined for a cursor of another list, other filters or another limit.
   */
  readonly decode: (request: ListRequest, cursor: string) => ReadonlyArray<number> | undefined
}

const WholeNumbers = Schema.fromJsonString(Schema.Array(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))))
const decodeNumbers = Schema.decodeOption(WholeNumbers)
const reservedCharacters = "+/=&?#%~ ñ漢"

/**
 * Returns the cursors of a list. Servers that give the numbers different meanings use different `kind`s: a cursor of
 * one kind is not valid for another. With `reserved`, cursors end in characters that a client must percent-encode. With
 * `anyLimit`, a cursor is valid with any limit.
 */
export const make = (
  list: string,
  options: { readonly kind?: string; readonly reserved?: boolean; readonly anyLimit?: boolean } = {}
): ListCursors => {
  const end = options.reserved === true ? reservedCharacters : ""
  const bindingOf = ({ filters, key, limit }: ListRequest) => {
    const bound = [list, options.kind, options.anyLimit === true ? 0 : limit, Object.entries(filters).toSorted()]
    return Hash.string(JSON.stringify(key === undefined ? bound : [...bound, key])) >>> 0
  }
  return {
    encode: (request, numbers) => Base64Url.encode(JSON.stringify([bindingOf(request), ...numbers])) + end,
    decode: (request, cursor) => {
      const text = Base64Url.decodeString(cursor.endsWith(end) ? cursor.slice(0, cursor.length - end.length) : cursor)
      if (Result.isFailure(text)) return undefined
      const [binding, ...numbers] = Option.getOrElse(decodeNumbers(text.success), () => [])
      return binding === bindingOf(request) ? numbers : undefined
    }
  }
}
