/**
 * Reads the three lists (§4). Pages are the primitive: a listing is a stream of them, can start at a saved position, ends
 * only at a null cursor, never goes round, and fails with an error that says from where to go on.
 *
 * `layer` asks a service over any `HttpClient`, `layerConfig` takes the service from the environment, `layerTest` answers
 * from memory with the same semantics.
 */
import { Context, Effect, type FileSystem, Layer, type Stream } from "effect"
import { HttpClient } from "effect/http"
import { makeHttpPages } from "./internal/HttpPages.ts"
import { makePaymentsApi } from "./internal/ListReader.ts"
import { memoryPages } from "./internal/MemoryPages.ts"
import type { InvoiceFilters, PayinSourceFilters, PayoutRequestFilters } from "./Lists.ts"
import type { MemoryLists } from "./MemoryList.ts"
import type { Page } from "./Page.ts"
import { PaymentsConfig, type PaymentsConfigError } from "./PaymentsConfig.ts"
import type { PaymentsError } from "./PaymentsError.ts"
import type { Position } from "./Position.ts"
import type { Invoice, PayinSource, PayoutRequest } from "./Records.ts"
import { defaultRetryPolicy } from "./RetryPolicy.ts"

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
  /** The records of those pages, chunked by page. */
  readonly stream: (query?: ListQuery<Filters>) => Stream.Stream<Record, PaymentsError>
}

/** {@inheritDoc ./PaymentsApi} */
export class PaymentsApi extends Context.Service<PaymentsApi, {
  /** Whose data this is; a destination of an export belongs to one source. No secret. */
  readonly source: string
  readonly payoutRequests: ListOperation<PayoutRequest, PayoutRequestFilters>
  readonly payinSources: ListOperation<PayinSource, PayinSourceFilters>
  readonly invoices: ListOperation<Invoice, InvoiceFilters>
}>()("@payments/core/PaymentsApi") {
  /** Asks the service that `PaymentsConfig` names, over any `HttpClient`. */
  static readonly layer: Layer.Layer<PaymentsApi, never, HttpClient.HttpClient | PaymentsConfig> = Layer.effect(
    PaymentsApi,
    Effect.gen(function*() {
      const config = yield* PaymentsConfig
      const pages = makeHttpPages(config, yield* HttpClient.HttpClient)
      return makePaymentsApi({ source: config.source, pages, retry: config.retry })
    })
  )

  /** {@link PaymentsApi.layer} with the settings of the environment (`PAYMENTS_BASE_URL`, `PAYMENTS_API_KEY`, …). */
  static readonly layerConfig: Layer.Layer<
    PaymentsApi,
    PaymentsConfigError,
    HttpClient.HttpClient | FileSystem.FileSystem
  > = PaymentsApi.layer.pipe(Layer.provide(PaymentsConfig.layerConfig))

  /** Answers from memory: the same filters, limits, cursors and errors, without HTTP. */
  static readonly layerTest = (lists: MemoryLists): Layer.Layer<PaymentsApi> =>
    Layer.succeed(
      PaymentsApi,
      makePaymentsApi({ source: "memory", pages: memoryPages(lists), retry: defaultRetryPolicy })
    )
}
