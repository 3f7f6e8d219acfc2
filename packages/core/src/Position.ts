/**
 * Where a listing stands: a cursor together with the list, limit and filters it belongs to (§4.4: a cursor goes back
 * "with the same limit"). A position is always `Redacted`, since a cursor may say anything about the data behind it.
 */
import { type Option, Redacted, Schema } from "effect"
import { ListName, PageLimit } from "./Lists.ts"

/** What a position holds. */
export const PositionData = Schema.Struct({
  /** The list it is a place in. */
  list: ListName,
  /** The server's cursor, unchanged. */
  cursor: Schema.String,
  /** Records per page, which must stay the same (§4.4). */
  limit: PageLimit,
  /** The filters, by their field names. */
  filters: Schema.Record(Schema.String, Schema.String)
})
/** {@inheritDoc PositionData} */
export interface PositionData extends Schema.Schema.Type<typeof PositionData> {}

/** A place in a listing from which it can go on. It prints as `<redacted>`. */
export type Position = Redacted.Redacted<PositionData>

/** A position from its parts, say a cursor that a person kept. */
export const make = (data: PositionData): Position => Redacted.make(data)

const Json = Schema.fromJsonString(PositionData)

/** The position as one line of JSON, to be kept where its filter values may be kept. */
export const toJson = (position: Position): string => Schema.encodeSync(Json)(Redacted.value(position))

/** The position that {@link toJson} wrote, or none if the text is anything else. */
export const fromJson = (text: string): Option.Option<Position> => Schema.decodeOption(PositionFromJson)(text)

const PositionFromJson = Json.pipe(Schema.decodeTo(Schema.RedactedFromValue(Schema.toType(PositionData))))
