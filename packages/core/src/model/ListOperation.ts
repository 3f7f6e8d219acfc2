/** The operations of a list, for every implementation. */
import type { Effect, Stream } from "effect"
import type { byName, FiltersOf, ItemOf } from "./Lists.ts"
import type { Page } from "./Page.ts"
import type { PaymentsError } from "./PaymentsError.ts"
import type { Position } from "./Position.ts"

/** The options of a listing, in addition to its filters. */
export interface ListOptions {
  /** Records per page, 1 to 100 (§8); default 100. Other values are refused before any request. */
  readonly limit?: number | undefined
  /** The position to continue from. It contains filters and a limit. If the query has them too, they must be equal. */
  readonly position?: Position | undefined
  /**
   * The number of pages that are requested ahead of the consumer; default 1. With 0, each page is requested when the
   * consumer needs it. While pages of more than 4 Mi characters are in memory, no page is requested ahead.
   */
  readonly prefetch?: number | undefined
}

/** How a listing treats records that do not decode. */
export interface BadRecordOption {
  /** `fail`, the default: the record fails its page. `quarantine`: the page contains it, with its problem. */
  readonly onBadRecord?: "fail" | "quarantine" | undefined
}

/** A query for pages: the list's filters by field name, and options. */
export type ListQuery<Filters> = Filters & ListOptions & BadRecordOption

/** A query for records. A record that does not decode fails the stream. Only pages can contain such records. */
export type StreamQuery<Filters> = Filters & ListOptions & {
  /** The stream ends after this many records, 0 or more. No page after them is requested. */
  readonly maxRecords?: number | undefined
}

/** Reads one list. */
export interface ListOperation<Record, Filters> {
  /** Reads one page, with retries. */
  readonly page: (query?: ListQuery<Filters>) => Effect.Effect<Page<Record>, PaymentsError>
  /** Reads all pages from the query's position, or from the start, to the null cursor. */
  readonly pages: (query?: ListQuery<Filters>) => Stream.Stream<Page<Record>, PaymentsError>
  /** Reads the records of these pages. Each chunk of the stream is one page. */
  readonly stream: (query?: StreamQuery<Filters>) => Stream.Stream<Record, PaymentsError>
  /** The names of the query parameters by field, if the document does not specify them (§4.3); otherwise empty. */
  readonly parameters: { readonly [field: string]: string }
}

/** One operation for each list, by the list's name. */
export type EachList = {
  readonly [Name in keyof typeof byName]: ListOperation<ItemOf<Name>, FiltersOf<Name>>
}

/** All lists of one service. */
export interface ListOperations extends EachList {
  /**
   * The source of the data: addresses and account. A destination of an export belongs to one source. It is not secret.
   */
  readonly source: string
  /** The most requests per second of this client, or of all clients that share its rate. */
  readonly maxRequestsPerSecond: number | undefined
  /**
   * Whether a text shows a secret of this client. It does if it equals, contains or is part of a key, or of one of the
   * latest 256 cursors and filter values. It also does if the text, or a segment between its dots, equals one of the
   * 100,000 before. Do not show such text, even if a service uses it as the name of a field.
   */
  readonly isSecret: (text: string) => boolean
}
