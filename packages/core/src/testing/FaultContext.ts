/** The input of a fault: the request and the history of its listing. */
import type { ListName } from "../model/Lists.ts"
import type { BoundedMap } from "./BoundedMap.ts"
import type { Fault, FaultOf } from "./Fault.ts"
import type { ListRequest } from "./ListServer.ts"

/** The history of a listing, which is identified by its key, list, filters and limit. */
export interface ListingHistory {
  /** The cursors requested, in order; undefined begins the listing. An immediate repetition counts once. */
  readonly requested: Array<string | undefined>
  /** When each cursor was issued, also those of other listings: a cursor can be sent with another limit. */
  readonly issued: BoundedMap<string, number>
  /** For each cursor, the record that replaces the first record of its page. */
  readonly displaced: BoundedMap<string, string>
  /** Pages since the listing began. */
  pages: number
  /** The records of the previous page. */
  before: ReadonlyArray<string>
  /** The records of the latest page. */
  current: ReadonlyArray<string>
}

/** A request, and when it came. */
export interface InjectedRequest {
  readonly list: ListName
  readonly request: ListRequest
  readonly now: number
  /** The query string of the request, without the question mark. */
  readonly query: string
  readonly key: string
  /** The header If-None-Match. */
  readonly ifNoneMatch?: string | undefined
}

/** One request that a fault applies to. */
export interface FaultContext extends InjectedRequest {
  readonly history: ListingHistory
  /** The token buckets of the fault, by a hash of the key. The key itself is not stored. */
  readonly buckets: BoundedMap<number, { readonly tokens: number; readonly at: number }>
  /** Returns a random number from [0, 1). For the n-th repetition of a request it is the same in every run. */
  readonly chance: (index: number) => number
}

/** What each fault does: it wraps what answers a request. */
export type Behaviours<Name extends Fault["fault"], Answering, Wrapped = Answering> = {
  readonly [Each in Name]: (fault: FaultOf<Each>, context: FaultContext) => (answering: Answering) => Wrapped
}
