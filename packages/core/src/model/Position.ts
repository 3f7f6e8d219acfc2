/**
 * A position in a list: a cursor, and the list, limit and filters that it belongs to. A cursor is sent back "with the
 * same limit" (§4.4). A position is always `Redacted`, because a cursor may contain data of the records.
 */
import { type Option, Redacted, Schema } from "effect"
import { ListName, PageLimit } from "./Lists.ts"

/** The content of a position. */
export const PositionData = Schema.Struct({
  /** The list. */
  list: ListName,
  /** The server's cursor, unchanged. */
  cursor: Schema.String,
  /** The limit: records per page. It must be the same for all pages of a listing (§4.4). */
  limit: PageLimit,
  /** The filters, by field name. */
  filters: Schema.Record(Schema.String, Schema.String)
})
/** {@inheritDoc PositionData} */
export interface PositionData extends Schema.Schema.Type<typeof PositionData> {}

/** A position from which a listing can continue. It prints as `<redacted>`. */
export type Position = Redacted.Redacted<PositionData>

/** Returns a position, for example from a cursor that an operator has saved. */
export const make = (data: PositionData): Position => Redacted.make(data)

const Json = Schema.fromJsonString(PositionData)

/**
 * Encodes the position as one line of JSON. The line contains the cursor and the filter values in plain text, so it
 * needs the same protection.
 */
export const toJson = (position: Position): string => Schema.encodeSync(Json)(Redacted.value(position))

/** Decodes a position that {@link toJson} encoded. Returns none for any other text. */
export const fromJson = (text: string): Option.Option<Position> => Schema.decodeOption(PositionFromJson)(text)

const PositionFromJson = Json.pipe(Schema.decodeTo(Schema.RedactedFromValue(Schema.toType(PositionData))))
