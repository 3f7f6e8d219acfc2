/**
 * The cursors of the test servers: numbers in opaque text, valid only with the list, filters and limit they were issued
 * for.
 */
import { Hash, Option, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import type { ListRequest } from "./ListServer.ts"

/** Encodes and decodes the cursors of one list. */
export interface ListCursors {
  /** Returns the cursor that continues this request at `place`. */
  readonly encode: (request: ListRequest, place: ReadonlyArray<number>) => string
  /**
   * Returns the place, as whole numbers from 0. Returns undefined for a cursor of another request or of another server.
   */
  readonly decode: (request: ListRequest, cursor: string) => ReadonlyArray<number> | undefined
}

const Numbers = Schema.fromJsonString(Schema.Array(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))))
const decodeNumbers = Schema.decodeOption(Numbers)
const reservedCharacters = "+/=&?#%~ ñ漢"

/**
 * Returns the cursors of the list `list`. If a list has several kinds of cursors, `kind` names the meaning of their
 * numbers. With `reserved`, cursors end in characters that a client must percent-encode.
 */
export const make = (
  list: string,
  options: { readonly kind?: string; readonly reserved?: boolean } = {}
): ListCursors => {
  const end = options.reserved === true ? reservedCharacters : ""
  const bindingOf = ({ filters, limit }: ListRequest) =>
    Hash.string(JSON.stringify([list, options.kind, limit, Object.entries(filters).toSorted()])) >>> 0
  return {
    encode: (request, place) => Base64Url.encode(JSON.stringify([bindingOf(request), ...place])) + end,
    decode: (request, cursor) => {
      const text = Base64Url.decodeString(cursor.endsWith(end) ? cursor.slice(0, cursor.length - end.length) : cursor)
      if (Result.isFailure(text)) return undefined
      const [binding, ...place] = Option.getOrElse(decodeNumbers(text.success), () => [])
      return binding === bindingOf(request) ? place : undefined
    }
  }
}
