/**
 * Reads one list over any source: checks the query, retries, decodes, follows cursors. Promises to its callers: a
 * listing ends only at a null cursor or with an error, never goes round, and every error says from where to go on.
 */
import { Array as Arr, Clock, Effect, Option, Redacted, Result, Schema, Stream } from "effect"
import type { ListOperation, ListOperations, ListQuery } from "../ListOperation.ts"
import * as Lists from "../Lists.ts"
import type { Page } from "../Page.ts"
import { type ErrorBody, InvalidRequest, PaginationFault, PaymentsError, type Reason } from "../PaymentsError.ts"
import * as Position from "../Position.ts"
import * as RetryPolicy from "../RetryPolicy.ts"
import { cursorMarks } from "./CursorMark.ts"
import {
  decodeEnvelope,
  decodeRecords,
  describeBody,
  type Envelope,
  reasonOfStatus,
  requestIdOf
} from "./PageDecoder.ts"
import type { PageRequest, PageSource, RawAnswer } from "./PageSource.ts"

/** The service over one source of pages. */
export const makeListOperations = (options: {
  readonly source: string
  readonly pages: PageSource
  readonly retry: RetryPolicy.RetryPolicy
  readonly invoiceParameters: Lists.InvoiceParameters
}): ListOperations => ({
  source: options.source,
  payoutRequests: { ...makeListOperation(Lists.payoutRequests, options.pages, options.retry), parameters: {} },
  payinSources: { ...makeListOperation(Lists.payinSources, options.pages, options.retry), parameters: {} },
  invoices: {
    ...makeListOperation(Lists.invoices, options.pages, options.retry),
    parameters: options.invoiceParameters
  }
})

const makeListOperation = <Record, Filters extends object>(
  list: Lists.ListDefinition<Record, Filters>,
  source: PageSource,
  retry: RetryPolicy.RetryPolicy
): Omit<ListOperation<Record, Filters>, "parameters"> => {
  const read = Effect.fn(`PaymentsApi.${list.name}.page`)(function*(request: PageRequest) {
    let attempts = 0
    const attempt = Effect.suspend(() => {
      attempts++
      return tryPage(source, request)
    })
    const { answer, envelope } = yield* attempt.pipe(
      Effect.mapError((failure) => failed(request, failure, attempts)),
      Effect.retry(RetryPolicy.schedule(retry))
    )
    const arrived: Arrived = { request, answer, envelope, attempts }
    return arrived
  })

  /** A page that does not decode would not decode the next time either: no attempt is made for it. */
  const decode = (
    { answer, attempts, envelope, request }: Arrived,
    onBadRecord: "fail" | "quarantine" = "fail"
  ): Effect.Effect<Page<Record>, PaymentsError> => {
    const decoded = decodeRecords(request, answer, envelope, onBadRecord)
    const { status } = answer
    const requestId = requestIdOf(answer)
    if (Result.isFailure(decoded)) {
      return Effect.fail(failed(request, { reason: decoded.failure, status, requestId }, attempts))
    }
    const { bad, cursor, items, texts } = decoded.success
    return Effect.succeed({
      // Sound because decodeRecords has checked each item against `list.record`, whose type is Record.
      items: items as ReadonlyArray<Record>,
      texts,
      bad,
      next: cursor === null ? null : Position.make(positionData(request, cursor)),
      status,
      requestId,
      attempts
    })
  }

  const page = (query?: ListQuery<Filters>) =>
    toRequest(list, query).pipe(
      Effect.flatMap(read),
      Effect.flatMap((arrived) => decode(arrived, query?.onBadRecord))
    )

  const pages = (query?: ListQuery<Filters>) =>
    Stream.unwrap(Effect.map(toRequest(list, query), (first) => {
      const seen = new Set<string>()
      const markOf = cursorMarks()
      const remember = (request: PageRequest): Effect.Effect<void, PaymentsError> => {
        if (request.cursor === undefined) return Effect.void
        const mark = markOf(request.cursor)
        if (seen.has(mark)) {
          return Effect.fail(unfollowable(request, { reason: new PaginationFault({ kind: "repeatedCursor" }) }, 0))
        }
        seen.add(mark)
        return Effect.void
      }
      return Stream.paginate(
        first,
        Effect.fnUntraced(function*(request: PageRequest) {
          yield* remember(request)
          const arrived = yield* read(request).pipe(Effect.catch((error) => explainRefusal(error, request)))
          const { cursor } = arrived.envelope
          return [
            [arrived],
            cursor === null ? Option.none<PageRequest>() : Option.some({ ...request, cursor })
          ] as const
        })
      )
    })).pipe(
      (arriving) =>
        query?.prefetch === false
          ? Stream.mapEffect(arriving, (arrived) => decode(arrived, query?.onBadRecord))
          : Stream.buffer(arriving, { capacity: 0 }).pipe(
            // Gives way, so that the next page is asked for before the records of this one are looked at.
            Stream.mapEffect((arrived) => Effect.andThen(Effect.yieldNow, decode(arrived, query?.onBadRecord)))
          )
    )

  /** A request with a cursor that fails where the same one without it succeeds: it is the cursor that was refused. */
  const explainRefusal = (error: PaymentsError, request: PageRequest): Effect.Effect<never, PaymentsError> => {
    if (request.cursor === undefined || ![400, 404, 410, 422].includes(error.status ?? 0)) return Effect.fail(error)
    return tryPage(source, { ...request, cursor: undefined }).pipe(
      Effect.mapError(() => error),
      Effect.flatMap(() =>
        Effect.fail(
          unfollowable(
            request,
            { reason: new PaginationFault({ kind: "cursorRefused" }), status: error.status },
            error.attempts
          )
        )
      )
    )
  }

  const stream = (query?: Omit<ListQuery<Filters>, "onBadRecord">) =>
    // Without `onBadRecord` the query is still one, which TypeScript cannot see through the generic filters.
    pages(query as ListQuery<Filters> | undefined).pipe(
      Stream.map(({ items }) => items),
      Stream.filter(Arr.isReadonlyArrayNonEmpty),
      Stream.flattenArray
    )

  return { page, pages, stream }
}

/** A page whose envelope is known and whose records are not. */
interface Arrived {
  readonly request: PageRequest
  readonly answer: RawAnswer
  readonly envelope: Envelope
  /** Requests it took. */
  readonly attempts: number
}

interface Failure {
  readonly reason: Reason
  readonly status?: number | undefined
  readonly requestId?: string | undefined
  readonly body?: ErrorBody | undefined
}

/** One request and what came of it. */
const tryPage = Effect.fnUntraced(
  function*(source: PageSource, request: PageRequest) {
    const answer: RawAnswer = yield* Effect.mapError(source(request), (reason): Failure => ({ reason }))
    const facts = { status: answer.status, requestId: requestIdOf(answer) }
    const refusal = reasonOfStatus(answer, yield* Clock.currentTimeMillis)
    if (refusal !== undefined) {
      return yield* Effect.fail<Failure>({ reason: refusal, ...facts, body: describeBody(answer) })
    }
    const envelope = decodeEnvelope(answer)
    if (Result.isFailure(envelope)) return yield* Effect.fail<Failure>({ reason: envelope.failure, ...facts })
    return { answer, envelope: envelope.success }
  }
)

const failed = (request: PageRequest, failure: Failure, attempts: number): PaymentsError =>
  new PaymentsError({
    list: request.list.name,
    reason: failure.reason,
    attempts,
    status: failure.status,
    requestId: failure.requestId,
    body: failure.body,
    position: request.cursor === undefined ? undefined : Position.make(positionData(request, request.cursor))
  })

/** The cursor itself is the fault: the listing can go on only from its start. */
const unfollowable = (request: PageRequest, failure: Failure, attempts: number): PaymentsError =>
  failed({ ...request, cursor: undefined }, failure, attempts)

const positionData = (request: PageRequest, cursor: string): Position.PositionData => ({
  list: request.list.name,
  cursor,
  limit: request.limit,
  filters: request.filters
})

/** The request that a query means, or what is wrong with the query, before anything is sent. */
const toRequest = (
  list: { readonly name: Lists.ListName; readonly label: string; readonly filters: object },
  query: ListQuery<object> = {}
): Effect.Effect<PageRequest, PaymentsError> => {
  const refuse = (problem: string) => Effect.fail(refused(list.name, problem))
  const { limit, position, onBadRecord: _onBadRecord, prefetch: _prefetch, ...rest } = query
  const filters: { [field: string]: string } = {}
  for (const [field, value] of Object.entries(rest)) {
    if (value === undefined) continue
    if (!Object.hasOwn(list.filters, field)) {
      return refuse(
        `there is no filter of that name; ${list.label} can be filtered by ${Object.keys(list.filters).join(", ")}.`
      )
    }
    if (typeof value !== "string" || value === "") return refuse(`the filter ${field} must be text that is not empty.`)
    filters[field] = value
  }
  if (limit !== undefined && !Schema.is(Lists.PageLimit)(limit)) {
    return refuse(`limit must be an integer from ${Lists.pageLimit.minimum} to ${Lists.pageLimit.maximum} (§8).`)
  }
  const definition = Lists.byName[list.name]
  if (position === undefined) {
    return Effect.succeed({ list: definition, limit: limit ?? Lists.pageLimit.default, filters, cursor: undefined })
  }
  const saved = Redacted.value(position)
  if (saved.list !== list.name) return refuse(`the position belongs to ${Lists.byName[saved.list].label}.`)
  if (limit !== undefined && limit !== saved.limit) return refuse("the position belongs to another limit (§4.4).")
  const other = Object.entries(filters).find(([field, value]) => saved.filters[field] !== value)
  if (other !== undefined) return refuse(`the position belongs to another value of the filter ${other[0]}.`)
  return Effect.succeed({ list: definition, limit: saved.limit, filters: saved.filters, cursor: saved.cursor })
}

const refused = (list: Lists.ListName, problem: string): PaymentsError =>
  new PaymentsError({
    list,
    reason: new InvalidRequest({ problem }),
    attempts: 0,
    status: undefined,
    requestId: undefined,
    body: undefined,
    position: undefined
  })
