/**
 * Reads one list page by page. A listing ends only at a null cursor, after `maxRecords` records or with an error. It
 * fails if the service repeats cursors or pages, so that it cannot run forever. An error contains the position to
 * continue from, if there is one.
 */
import { Effect, Option, Result, Stream } from "effect"
import type { PaymentsConfig } from "../config/PaymentsConfig.ts"
import { makeTimeLimit, type TimeLimit } from "../http/Deadline.ts"
import type { PageRequest } from "../http/PageRequest.ts"
import { BeforePage } from "../model/BeforePage.ts"
import type { BadRecordOption, ListOperation, StreamQuery } from "../model/ListOperation.ts"
import type * as Lists from "../model/Lists.ts"
import type { Page, PageRecord } from "../model/Page.ts"
import { PaginationFault, type PaymentsError } from "../model/PaymentsError.ts"
import { keyFingerprintOf } from "../pace/KeyFingerprint.ts"
import { decodeRecords, requestIdOf } from "../page/PageDecoder.ts"
import { type Client, type Fetched, paymentsErrorOf, positionOf } from "./Client.ts"
import { makePrefetch } from "./Prefetch.ts"
import { makeProgressGuard } from "./ProgressGuard.ts"
import { toRequest } from "./RequestQuery.ts"
import { inSpan } from "./RequestTelemetry.ts"

/** All fields of queries for pages and for records. */
type AnyQuery<Filters> = StreamQuery<Filters> & BadRecordOption

/** What the operation of a list uses. */
interface Reading<Record, Filters> {
  readonly list: Lists.ListDefinition<Record, Filters> & Lists.AnyList
  readonly client: Client
  readonly config: PaymentsConfig["Service"]
}

/** Returns the operation that reads a list through a client. */
export const makeListOperation = <Record, Filters extends object>(
  list: Lists.ListDefinition<Record, Filters> & Lists.AnyList,
  client: Client,
  config: PaymentsConfig["Service"]
): ListOperation<Record, Filters> => {
  const reading: Reading<Record, Filters> = { list, client, config }
  const fetch = makeFetch(reading)
  // The cast is sound: all filters are optional. TypeScript cannot know that of a generic type.
  const noFilters = {} as Filters
  return {
    page: (query: AnyQuery<Filters> = noFilters) =>
      toRequest(list, query, config.uncheckedFilters[list.name] ?? [], "pages").pipe(
        Effect.flatMap(fetch),
        Effect.flatMap((fetched) => decode(reading, fetched, query.onBadRecord ?? "fail"))
      ),
    pages: (query = noFilters) => readPages(reading, fetch, query, { kind: "pages", project: (current) => [current] }),
    stream: (query = noFilters) =>
      readPages(reading, fetch, query, {
        kind: "records",
        project: ({ items }, remaining) => items.length > remaining ? items.slice(0, remaining) : items
      }),
    parameters: list.parameterNames === "assumed" ? config.invoiceParameters : {}
  }
}

/** Returns the function that requests a page in a span. It explains why a cursor was refused. */
const makeFetch = <Record, Filters>({ client, config, list }: Reading<Record, Filters>) => {
  const span = `PaymentsApi.${list.name}.page`
  return (request: PageRequest): Effect.Effect<Fetched, PaymentsError> =>
    inSpan(span, { isNeeded: config.traceHeaders }, client.fetch(request)).pipe(
      Effect.catch((error) => explainRefusal(client, error, request))
    )
}

/**
 * If a request with a cursor was refused, sends it without the cursor. If that succeeds, the service refused the
 * cursor.
 */
const explainRefusal = (
  client: Client,
  error: PaymentsError,
  request: PageRequest
): Effect.Effect<never, PaymentsError> => {
  if (request.cursor === undefined || ![400, 404, 410, 422].includes(error.status ?? 0)) return Effect.fail(error)
  const { attempts, body, requestId, status } = error
  const reason = new PaginationFault({ kind: "cursorRefused" })
  return client.fetchOnce({ ...request, cursor: undefined }).pipe(
    Effect.mapError(() => error),
    // The listing cannot continue from the refused cursor, so the error has no position.
    Effect.flatMap(() =>
      Effect.fail(paymentsErrorOf({ ...request, cursor: undefined }, { reason, status, requestId, body }, attempts))
    )
  )
}

const decode = <Record, Filters>(
  reading: Reading<Record, Filters>,
  fetched: Fetched,
  onBadRecord: "fail" | "quarantine"
): Effect.Effect<Page<Record>, PaymentsError> =>
  Effect.clockWith((clock) => decodeWithin(reading, makeTimeLimit(clock, fetched.remainingMs), fetched, onBadRecord))

const decodeWithin = <Record, Filters>(
  { client: { secrets }, list }: Reading<Record, Filters>,
  limit: TimeLimit,
  fetched: Fetched,
  onBadRecord: "fail" | "quarantine"
): Effect.Effect<Page<Record>, PaymentsError> => {
  const { answer, attempts, elapsed, envelope, key, request } = fetched
  const decoded = decodeRecords(request, envelope, onBadRecord, limit)
  if (Result.isFailure(decoded)) {
    const failure = { reason: decoded.failure, status: answer.status, requestId: requestIdOf(answer, secrets) }
    return Effect.fail(paymentsErrorOf(request, failure, attempts))
  }
  const { bad, items, records } = decoded.success
  const headers = withoutCursor(list.page, answer.headers)
  return Effect.succeed({
    // Both casts are sound: each record that `decodeRecords` returns without a problem matches `list.record`. `records`
    // is a function, not a getter. With a second getter next to `requestId`, reading 1,000 pages took 8 to 10 full
    // garbage collections instead of 1 (Node 24).
    records: records as () => ReadonlyArray<PageRecord<Record>>,
    items: items as ReadonlyArray<Record>,
    bad,
    count: envelope.count,
    next: envelope.cursor === null ? null : positionOf(request, envelope.cursor),
    status: answer.status,
    headers,
    elapsed,
    // Computed on demand: comparing it with all secrets can take longer than decoding a small page.
    get requestId() {
      return requestIdOf({ headers }, secrets)
    },
    attempts,
    keyFingerprint: keyFingerprintOf(key)
  })
}

/** A cursor is a secret, and `next` has it. */
const withoutCursor = ({ cursor }: Lists.PageLayout, headers: Fetched["answer"]["headers"]) => {
  if (cursor.in === "body") return headers
  const { [cursor.name]: _, ...others } = headers
  return others
}

/** Runs a listing. `project` returns the elements that the stream emits for a page: at most `remaining` records. */
const readPages = <Record, Filters, A>(
  reading: Reading<Record, Filters>,
  fetch: (request: PageRequest) => Effect.Effect<Fetched, PaymentsError>,
  query: AnyQuery<Filters>,
  { kind, project }: {
    readonly kind: "pages" | "records"
    readonly project: (page: Page<Record>, remaining: number) => ReadonlyArray<A>
  }
): Stream.Stream<A, PaymentsError> =>
  Stream.unwrap(Effect.gen(function*() {
    const { config, list } = reading
    const first = yield* toRequest(list, query, config.uncheckedFilters[list.name] ?? [], kind)
    const scope = yield* Effect.scope
    const maxRecords = query.maxRecords ?? Number.POSITIVE_INFINITY
    if (maxRecords === 0) return Stream.empty
    const ahead = query.prefetch ?? 1
    const guard = makeProgressGuard(first, config.progress)
    const before = yield* BeforePage
    const fetchPage = (request: PageRequest) => Effect.andThen(before, fetch(request))
    const nextPage = makePrefetch({ first, fetch: fetchPage, guard, ahead, maxRecords }, scope)
    return Stream.paginate(
      { remaining: maxRecords, fault: undefined },
      Effect.fnUntraced(
        function*({ fault, remaining }: { readonly remaining: number; readonly fault: PaymentsError | undefined }) {
          if (fault !== undefined) return yield* fault
          const { fetched, following } = yield* nextPage
          const current = yield* decode(reading, fetched, query.onBadRecord ?? "fail")
          return [
            project(current, remaining),
            following === "end" ? Option.none() : Option.some({
              remaining: remaining - current.items.length,
              fault: following === "page" ? undefined : following
            })
          ]
        }
      )
    )
  }))
