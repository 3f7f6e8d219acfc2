/**
 * Prefetches the pages of one listing. At most `ahead` pages are requested but not yet consumed. As soon as the cursor
 * of a page is known, the next page is requested, before the records of this page are decoded. While the pages in
 * memory are large, no further page is requested.
 */
import { Deferred, Effect, type Scope } from "effect"
import type { PageRequest } from "../http/PageRequest.ts"
import type { PaymentsError } from "../model/PaymentsError.ts"
import type { Fetched } from "./Client.ts"
import type { ProgressGuard } from "./ProgressGuard.ts"

/** What follows a page: the end of the listing, another page, or the error that stops the listing. */
type Following = "end" | "page" | PaymentsError

/** A page, and whether the listing continues after it. */
export interface PrefetchedPage {
  readonly fetched: Fetched
  readonly following: Following
}

/** Characters of the pages in memory above which no page is requested ahead. */
const mostInMemory = 4 * 1024 * 1024

interface PrefetchOptions {
  readonly first: PageRequest
  readonly fetch: (request: PageRequest) => Effect.Effect<Fetched, PaymentsError>
  readonly guard: ProgressGuard
  readonly ahead: number
  /** No page is requested after this many records. */
  readonly maxRecords: number
}

/** Returns an effect that yields the pages in order, one per run. Closing the scope cancels all requests. */
export const makePrefetch = (
  options: PrefetchOptions,
  scope: Scope.Scope
): Effect.Effect<PrefetchedPage, PaymentsError> => {
  /** The pages that are requested but not consumed, in order. */
  const requested: Array<Deferred.Deferred<PrefetchedPage, PaymentsError>> = []
  /** The next request, while the limits do not allow it yet. */
  let pending: PageRequest | undefined = options.first
  /** Whether a consumer is waiting for the first of `requested`, which then does not count against `ahead`. */
  let isConsumerWaiting = false
  let records = 0
  /** Characters of the pages that have arrived but are not consumed. */
  let arrivedSize = 0
  /** Characters of the page that the consumer works on. */
  let consumedSize = 0

  const mayRequest = () =>
    requested.length - (isConsumerWaiting ? 1 : 0) < options.ahead && arrivedSize + consumedSize <= mostInMemory

  const send = (request: PageRequest): Effect.Effect<void> =>
    Effect.suspend(() => {
      pending = undefined
      const arrival = Deferred.makeUnsafe<PrefetchedPage, PaymentsError>()
      requested.push(arrival)
      return options.fetch(request).pipe(
        Effect.flatMap(onArrival),
        Deferred.into(arrival),
        Effect.forkIn(scope, { startImmediately: true })
      )
    })

  const onArrival = (fetched: Fetched): Effect.Effect<PrefetchedPage> => {
    const { envelope, request } = fetched
    records += envelope.records.length
    arrivedSize += envelope.text.length
    if (envelope.cursor === null || records >= options.maxRecords) {
      return Effect.succeed({ fetched, following: "end" })
    }
    const next = { ...request, cursor: envelope.cursor }
    const fault = options.guard.check(next, envelope.records)
    if (fault !== undefined) return Effect.succeed({ fetched, following: fault })
    pending = next
    const page: PrefetchedPage = { fetched, following: "page" }
    return mayRequest() ? Effect.as(send(next), page) : Effect.succeed(page)
  }

  return Effect.gen(function*() {
    isConsumerWaiting = true
    // The consumer has finished with the previous page.
    consumedSize = 0
    if (requested.length === 0 && pending !== undefined) yield* send(pending)
    const [next] = requested
    if (next === undefined) return yield* Effect.die(new Error("a page was requested after the last one"))
    const page = yield* Deferred.await(next)
    isConsumerWaiting = false
    requested.shift()
    consumedSize = page.fetched.envelope.text.length
    arrivedSize -= consumedSize
    if (pending !== undefined && mayRequest()) yield* send(pending)
    // On a kept-alive connection, Node sends the request in the next iteration of its event loop. Yield, so that the
    // service receives the request before this page is decoded.
    if (requested.length > 0) yield* Effect.yieldNow
    return page
  })
}
