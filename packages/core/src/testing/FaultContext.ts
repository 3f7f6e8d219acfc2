/** What the behaviour of a fault may depend on: the request, and the history of its listing. */
import type { ListRequest } from "../ListServer.ts"
import type { BoundedMap } from "./BoundedMap.ts"

/** The history of a listing, which is identified by its key, list, filters and limit. */
export interface ListingHistory {
  /** The cursors requested, in order; undefined begins the listing. An immediate repetition counts once. */
  readonly requested: Array<string | undefined>
  /** When each cursor was issued. */
  readonly issued: BoundedMap<string, number>
  /** By cursor, the record that replaces the first one of its page. */
  readonly displaced: BoundedMap<string, string>
  /** Pages since the listing began. */
  pages: number
  /** The records of the page before, and of this one. */
  before: ReadonlyArray<string>
  current: ReadonlyArray<string>
}

/** One request that a fault applies to. */
export interface FaultContext {
  readonly request: ListRequest
  readonly now: number
  /** As sent, without the question mark. */
  readonly query: string
  readonly key: string
  readonly history: ListingHistory
  /** The fault's token buckets, by a hash of the key: the key itself is not kept. */
  readonly buckets: BoundedMap<number, { readonly tokens: number; readonly at: number }>
  /** A uniform draw from [0, 1), the same for the n-th repetition of a request in every run. */
  readonly chance: (index: number) => number
}
