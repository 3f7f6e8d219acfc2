/** What can be asked of a list, whatever answers it. */
import type { Effect, Stream } from "effect"
import type { InvoiceFilters, PayinSourceFilters, PayoutRequestFilters } from "./Lists.ts"
import type { Page } from "./Page.ts"
import type { PaymentsError } from "./PaymentsError.ts"
import type { Position } from "./Position.ts"
import type { Invoice, PayinSource, PayoutRequest } from "./Records.ts"

/** What to list: the list's filters by their field names, and how. */
export type ListQuery<Filters> = Filters & {
  /** Records per page, 1 to 100 (§8); 100 unless given. Anything else is refused before a request. */
  readonly limit?: number | undefined
  /** Where to go on. It brings its own filters and limit; those given beside it must be the same. */
  readonly position?: Position | undefined
  /** A record that does not decode fails its page (`fail`, the default) or is set aside in `Page.bad`. */
  readonly onBadRecord?: "fail" | "quarantine" | undefined
  /** The next page is asked for while this one is used; `false` asks only when it is wanted. */
  readonly prefetch?: boolean | undefined
}

/** Reads one list. */
export interface ListOperation<Record, Filters> {
  /** One page: one request, and its retries. */
  readonly page: (query?: ListQuery<Filters>) => Effect.Effect<Page<Record>, PaymentsError>
  /** All pages from the query's position, or the start, to the null cursor. */
  readonly pages: (query?: ListQuery<Filters>) => Stream.Stream<Page<Record>, PaymentsError>
  /** The records of those pages, chunked by page. One that does not decode fails it: only a page can set one aside. */
  readonly stream: (query?: Omit<ListQuery<Filters>, "onBadRecord">) => Stream.Stream<Record, PaymentsError>
  /** The query parameters that are not named as their field is, or may not be: for invoices all of them (§4.3). */
  readonly parameters: { readonly [field: string]: string }
}

/** The three lists of one service. */
export interface ListOperations {
  /** Whose data this is; a destination of an export belongs to one source. No secret. */
  readonly source: string
  readonly payoutRequests: ListOperation<PayoutRequest, PayoutRequestFilters>
  readonly payinSources: ListOperation<PayinSource, PayinSourceFilters>
  readonly invoices: ListOperation<Invoice, InvoiceFilters>
}
