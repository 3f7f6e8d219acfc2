/** Cursors of our own servers: numbers in opaque text that holds only with the list, filters and limit it was given for. */
import { Hash, Option, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import type { ListRequest } from "./ListServer.ts"

/** Writes and reads the cursors of one list. */
export interface ListCursors {
  /** The cursor that leads from this request to that place. */
  readonly write: (request: ListRequest, place: ReadonlyArray<number>) => string
  /** The place, whole numbers from 0, or undefined where the cursor was given for another request or not by us. */
  readonly read: (request: ListRequest, cursor: string) => ReadonlyArray<number> | undefined
}

const Numbers = Schema.fromJsonString(Schema.Array(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))))
const decode = Schema.decodeOption(Numbers)
const reserved = "+/=&?#%~ ñ漢"

/**
 * Cursors of the list of that name. `kind` names what their numbers mean, where a list has cursors of several kinds.
 * Reserved ones end in characters that break when they are not percent-encoded.
 */
export const make = (
  list: string,
  options: { readonly kind?: string; readonly reserved?: boolean } = {}
): ListCursors => {
  const end = options.reserved === true ? reserved : ""
  const bindingOf = ({ filters, limit }: ListRequest) =>
    Hash.string(JSON.stringify([list, options.kind, limit, Object.entries(filters).toSorted()])) >>> 0
  return {
    write: (request, place) => Base64Url.encode(JSON.stringify([bindingOf(request), ...place])) + end,
    read: (request, cursor) => {
      const text = Base64Url.decodeString(cursor.endsWith(end) ? cursor.slice(0, cursor.length - end.length) : cursor)
      if (Result.isFailure(text)) return undefined
      const [binding, ...place] = Option.getOrElse(decode(text.success), () => [])
      return binding === bindingOf(request) ? place : undefined
    }
  }
}
