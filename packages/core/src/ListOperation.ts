/** What can be asked of a list, whatever answers it. */
import type { Effect, Stream } from "effect"
import type { byName, FiltersOf, ItemOf } from "./Lists.ts"
import type { Page } from "./Page.ts"
import type { PaymentsError } from "./PaymentsError.ts"
import type { Position } from "./Position.ts"

/** How to list, beside the filters. */
export interface ListOptions {
  /** Records per page, 1 to 100 (§8); 100 unless given. Anything else is refused before a request. */
  readonly limit?: number | undefined
  /** Where to go on. It brings its own filters and limit; those given beside it must be the same. */
  readonly position?: Position | undefined
  /**
   * Pages that are asked for before they are wanted; 1 unless given, and then the next one is under way as soon as its
   * cursor is known. 0 asks only for what is wanted. None is requested ahead while pages of more than 4 Mi characters are in
   * memory.
   */
  readonly prefetch?: number | undefined
}

/** What becomes of a record that does not decode. */
export interface BadRecordOption {
  /** It fails its page (`fail`, the default) or is a record with a problem (`quarantine`). */
  readonly onBadRecord?: "fail" | "quarantine" | undefined
}

/** What to list, by pages: the list's filters by their field names, and how. */
export type ListQuery<Filters> = Filters & ListOptions & BadRecordOption

/** What to list, by records. One that does not decode fails the stream: only a page can set it aside. */
export type StreamQuery<Filters> = Filters & ListOptions & {
  /** The stream ends after so many records, 0 or more; no page beyond them is asked for. */
  readonly maxRecords?: number | undefined
}

/** Reads one list. */
export interface ListOperation<Record, Filters> {
  /** One page: one request, and its retries. */
  readonly page: (query?: ListQuery<Filters>) => Effect.Effect<Page<Record>, PaymentsError>
  /** All pages from the query's position, or the start, to the null cursor. */
  readonly pages: (query?: ListQuery<Filters>) => Stream.Stream<Page<Record>, PaymentsError>
  /** The records of those pages, chunked by page. */
  readonly stream: (query?: StreamQuery<Filters>) => Stream.Stream<Record, PaymentsError>
  /** The names of the query parameters, by field, where the document does not show them (§4.3); otherwise empty. */
  readonly parameters: { readonly [field: string]: string }
}

/** One operation for each list, by the list's name. */
export type EachList = {
  readonly [Name in keyof typeof byName]: ListOperation<ItemOf<Name>, FiltersOf<Name>>
}

/** All lists of one service. */
export interface ListOperations extends EachList {
  /** Whose data this is; a destination of an export belongs to one source. No secret. */
  readonly source: string
  /**
   * Whether a text equals, contains or is a part of a key of this client or of one of its latest 256 cursors and filter
   * values; or whether it, or a part of it between dots, equals one of the 100,000 before. Such text should not be shown, even
   * where a service uses it as the name of a field.
   */
  readonly isSecret: (text: string) => boolean
}
