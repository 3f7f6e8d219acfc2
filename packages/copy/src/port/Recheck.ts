/** How a row that two complete scans did not return was looked for before it was marked missing. Has no value of a record. */
import { Option, Schema } from "effect"

export const Recheck = Schema.Struct({
  /** The filters whose whole answers did not have the record. None: no filter is proven to work, or the row has no value of one. */
  filters: Schema.Array(Schema.String),
  /** The pages that were requested. */
  requests: Schema.Int,
  /** When, as an ISO 8601 date-time in UTC. */
  at: Schema.String
})
export interface Recheck extends Schema.Schema.Type<typeof Recheck> {}

const Json = Schema.fromJsonString(Recheck)

export const toJson: (recheck: Recheck) => string = Schema.encodeSync(Json)
export const fromJson: (text: string) => Option.Option<Recheck> = Schema.decodeOption(Json)

/** Returns the stored text in words, or undefined if it cannot be read. */
export const recheckWords = (text: string): string | undefined =>
  Option.getOrUndefined(Option.map(fromJson(text), ({ filters, requests }) =>
    filters.length === 0
      ? "unchecked (no filter could look for it)"
      : `rechecked by ${filters.join(" and ")} (${requests} ${requests === 1 ? "request" : "requests"})`))

/** What was found out about the rows that the end of a scan would mark missing. It ends the scan. */
export interface Rechecks {
  /** The rows to mark, each with its {@link Recheck} as JSON. Rows that meanwhile exist are not marked. */
  readonly missing: ReadonlyMap<number, string>
  /** How many of the batch's last records filters have found. The others are those of the batch that waited. */
  readonly found: number
  /** The rows that a filter found, although the list did not return them. */
  readonly skipped: number
  /** The rows that could not be looked for now. They are not marked. */
  readonly unchecked: number
  /** The rows that are not marked because looking for them would take too many requests. */
  readonly heldBack: number
}
