/**
 * Follows one list from page to page. Promises to its callers: a listing ends only at a null cursor or with an error,
 * never goes round, and every error says from where to go on.
 */
import { Effect, Option, Result, Stream } from "effect"
import type { ListOperation, ListOptions } from "../ListOperation.ts"
import type * as Lists from "../Lists.ts"
import type { Page, PageRecord } from "../Page.ts"
import type { PaymentsConfig } from "../PaymentsConfig.ts"
import { PaginationFault, type PaymentsError } from "../PaymentsError.ts"
import { type Client, failed, type Fetched, positionOf } from "./Client.ts"
import { type WorkTime, workTime } from "./Deadline.ts"
import { keyFingerprintOf } from "./KeyFingerprint.ts"
import { decodeRecords, requestIdOf } from "./PageDecoder.ts"
import type { PageRequest } from "./PageSource.ts"
import { makePrefetch } from "./Prefetch.ts"
import { makeProgressGuard } from "./ProgressGuard.ts"
import { toRequest } from "./Query.ts"
import { inSpan } from "./Telemetry.ts"

/** Everything a query of any kind may say. */
type AnyQuery<Filters> = Filters & ListOptions & {
  readonly onBadRecord?: "fail" | "quarantine" | undefined
  readonly maxRecords?: number | undefined
}

/** Reads a list through a client. */
export const makeListOperation = <Record, Filters extends object>(
  list: Lists.ListDefinition<Record, Filters> & Lists.AnyList,
  client: Client,
  config: PaymentsConfig["Service"]
): ListOperation<Record, Filters> => {
  const span = `PaymentsApi.${list.name}.page`
  const fetch = (request: PageRequest) => inSpan(span, {}, client.fetch(request))
  const unchecked = config.uncheckedFilters[list.name] ?? []
  // No filter and no option: all of them may be absent, which TypeScript cannot see of generic filters.
  const everything = {} as Filters

  const decode = (fetched: Fetched, onBadRecord: "fail" | "quarantine"): Effect.Effect<Page<Record>, PaymentsError> =>
    Effect.clockWith((clock) => decodeWithin(workTime(clock, fetched.left), fetched, onBadRecord))

  const decodeWithin = (
    time: WorkTime,
    fetched: Fetched,
    onBadRecord: "fail" | "quarantine"
  ): Effect.Effect<Page<Record>, PaymentsError> => {
    const { answer, attempts, elapsed, envelope, key, request } = fetched
    const decoded = decodeRecords(request, envelope, onBadRecord, time)
    if (Result.isFailure(decoded)) {
      const failure = { reason: decoded.failure, status: answer.status, requestId: requestIdOf(answer, client.secrets) }
      return Effect.fail(failed(request, failure, attempts))
    }
    const { bad, items, records } = decoded.success
    const { headers } = answer
    return Effect.succeed({
      // Both casts are sound: decodeRecords has checked each record without a problem against `list.record`, whose type is Record.
      // No getter: what the getter of an object literal refers to stays in memory until the next full garbage collection.
      records: records as () => ReadonlyArray<PageRecord<Record>>,
      items: items as ReadonlyArray<Record>,
      bad,
      next: envelope.cursor === null ? null : positionOf(request, envelope.cursor),
      status: answer.status,
      headers,
      elapsed,
      // Computed on demand: comparing it with all secrets can take longer than decoding a small page.
      get requestId() {
        return requestIdOf({ headers }, client.secrets)
      },
      attempts,
      keyFingerprint: keyFingerprintOf(key)
    })
  }

  /** A request with a cursor that fails where the same one without it succeeds: it is the cursor that was refused. */
  const explainRefusal = (error: PaymentsError, request: PageRequest): Effect.Effect<never, PaymentsError> => {
    if (request.cursor === undefined || ![400, 404, 410, 422].includes(error.status ?? 0)) return Effect.fail(error)
    const { attempts, body, requestId, status } = error
    const reason = new PaginationFault({ kind: "cursorRefused" })
    return client.fetchOnce({ ...request, cursor: undefined }).pipe(
      Effect.mapError(() => error),
      // From the cursor the listing cannot go on: no position.
      Effect.flatMap(() =>
        Effect.fail(failed({ ...request, cursor: undefined }, { reason, status, requestId, body }, attempts))
      )
    )
  }

  const fetchNext = (request: PageRequest) =>
    fetch(request).pipe(Effect.catch((error) => explainRefusal(error, request)))

  /** A listing. `project` gives what the stream emits for a page of which at most `left` records are wanted. */
  const walk = <A>(
    query: AnyQuery<Filters>,
    kind: "pages" | "records",
    project: (page: Page<Record>, left: number) => ReadonlyArray<A>
  ): Stream.Stream<A, PaymentsError> =>
    Stream.unwrap(Effect.gen(function*() {
      const first = yield* toRequest(list, query, unchecked, kind)
      const scope = yield* Effect.scope
      const wanted = query.maxRecords ?? Number.POSITIVE_INFINITY
      if (wanted === 0) return Stream.empty
      const ahead = query.prefetch ?? 1
      const guard = makeProgressGuard(first, config.progress)
      const take = makePrefetch({ first, fetch: fetchNext, guard, ahead, records: wanted }, scope)
      return Stream.paginate(
        { left: wanted, fault: undefined },
        Effect.fnUntraced(
          function*({ fault, left }: { readonly left: number; readonly fault: PaymentsError | undefined }) {
            if (fault !== undefined) return yield* fault
            const { fetched, following } = yield* take
            const current = yield* decode(fetched, query.onBadRecord ?? "fail")
            return [
              project(current, left),
              following === "end" ? Option.none() : Option.some({
                left: left - current.items.length,
                fault: following === "page" ? undefined : following
              })
            ]
          }
        )
      )
    }))

  const page = (query: AnyQuery<Filters>) =>
    toRequest(list, query, unchecked, "pages").pipe(
      Effect.flatMap(fetchNext),
      Effect.flatMap((fetched) => decode(fetched, query.onBadRecord ?? "fail"))
    )

  return {
    page: (query = everything) => page(query),
    pages: (query = everything) => walk(query, "pages", (current) => [current]),
    stream: (query = everything) =>
      walk(query, "records", ({ items }, left) => items.length > left ? items.slice(0, left) : items),
    parameters: list.parameterNames === "assumed" ? config.invoiceParameters : {}
  }
}
