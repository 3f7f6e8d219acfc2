/**
 * One client of a service: asks for a page until it comes or must not be asked for again. What its listings share is kept
 * here: the pace, the tokens for retries and the keys.
 */
import { Clock, Duration, Effect, Redacted, Result } from "effect"
import { type AnyList, invoices, payinSources, payoutRequests } from "../Lists.ts"
import type { PaymentsConfig } from "../PaymentsConfig.ts"
import { type ErrorBody, PaymentsError, type Reason } from "../PaymentsError.ts"
import * as Position from "../Position.ts"
import { observing } from "./Observed.ts"
import * as Pace from "./Pace.ts"
import { describeBody, type Envelope, openEnvelope, reasonOfStatus, requestIdOf } from "./PageDecoder.ts"
import type { PageRequest, PageSource, RawAnswer } from "./PageSource.ts"
import * as Retry from "./Retry.ts"

/** A page that came, its records not yet looked at. */
export interface Fetched {
  readonly request: PageRequest
  readonly answer: RawAnswer
  readonly envelope: Envelope
  /** Requests it took. */
  readonly attempts: number
  /** From sending the last of them to the end of its answer. */
  readonly elapsed: Duration.Duration
}

/** Asks for pages. */
export interface Client {
  /** With retries. */
  readonly fetch: (request: PageRequest) => Effect.Effect<Fetched, PaymentsError>
  /** Once. */
  readonly fetchOnce: (request: PageRequest) => Effect.Effect<Fetched, PaymentsError>
}

/** A client over one source of pages. */
export const makeClient = (config: PaymentsConfig["Service"], source: PageSource): Client => {
  let pace = Pace.make(config.maxRequestsPerSecond)
  const tokens: Retry.RetryTokens = { left: config.retry.budget.capacity }
  const keys = { payments: config.apiKey, invoices: config.invoicesApiKey }

  const turn = Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const [at, after] = Pace.takeTurn(pace, now)
    pace = after
    return at > now ? Effect.sleep(at - now) : Effect.void
  })

  const slowDown = (reason: Reason) =>
    reason._tag === "RateLimited"
      ? Effect.map(Clock.currentTimeMillis, (now) => {
        const asked = reason.retryAfter ?? Duration.zero
        // A longer wait is handed back to the caller; the others find out by asking.
        const wait = Duration.isGreaterThan(asked, config.retry.longestHint) ? 0 : Duration.toMillis(asked)
        pace = Pace.slowedDown(pace, now, wait)
      })
      : Effect.void

  /** The key anew after it was refused, unless it is the same. */
  const freshKey = Effect.fnUntraced(function*(service: AnyList["service"], refused: Redacted.Redacted<string>) {
    const known = keys[service]
    const fresh = known === refused ? yield* config.freshKey[service] ?? Effect.undefined : known
    if (fresh === undefined || Redacted.value(fresh) === Redacted.value(refused)) return undefined
    // Both services may have been asked with it.
    for (const other of ["payments", "invoices"] as const) if (keys[other] === known) keys[other] = fresh
    return fresh
  })

  const observe = {
    payoutRequests: observing(config, payoutRequests),
    payinSources: observing(config, payinSources),
    invoices: observing(config, invoices)
  }

  const exchange = (request: PageRequest, key: Redacted.Redacted<string>, count: Attempts) =>
    turn.pipe(
      Effect.flatMap(() => observe[request.list.name](count.made++, tryOnce(source, request, key))),
      Effect.tapError(({ reason }) => slowDown(reason))
    )

  const attempt = (request: PageRequest, count: Attempts) =>
    Effect.suspend(() => {
      const key = keys[request.list.service]
      return exchange(request, key, count).pipe(
        Effect.catchIf(
          ({ reason }) => reason._tag === "Unauthorized",
          (failure) =>
            Effect.flatMap(
              freshKey(request.list.service, key),
              (fresh) => fresh === undefined ? Effect.fail(failure) : exchange(request, fresh, count)
            )
        )
      )
    }).pipe(
      Effect.mapError((failure) => failed(request, failure, count.made)),
      Effect.map((arrived): Fetched => ({ ...arrived, request, attempts: count.made }))
    )

  const fetch = Effect.fnUntraced(function*(request: PageRequest) {
    const count: Attempts = { made: 0 }
    const spending: Retry.RetrySpending = { spent: 0 }
    const fetched = yield* Effect.retry(
      attempt(request, count),
      Retry.schedule(config.retry, tokens, spending)
    )
    Retry.settle(config.retry, tokens, spending)
    return fetched
  })

  return { fetch, fetchOnce: (request) => attempt(request, { made: 0 }) }
}

interface Attempts {
  made: number
}

/** Why a page did not come, and what is known of the answer. */
export interface Failure {
  readonly reason: Reason
  readonly status?: number | undefined
  readonly requestId?: string | undefined
  readonly body?: ErrorBody | undefined
}

/** One request and what came of it. */
const tryOnce = Effect.fnUntraced(
  function*(source: PageSource, request: PageRequest, key: Redacted.Redacted<string>) {
    const sentAt = yield* Clock.currentTimeMillis
    const answer: RawAnswer = yield* Effect.mapError(source(request, key), (reason): Failure => ({ reason }))
    const now = yield* Clock.currentTimeMillis
    const facts = { status: answer.status, requestId: requestIdOf(answer) }
    const refusal = reasonOfStatus(answer, now)
    if (refusal !== undefined) {
      return yield* Effect.fail<Failure>({ reason: refusal, ...facts, body: describeBody(answer) })
    }
    const envelope = openEnvelope(answer)
    if (Result.isFailure(envelope)) return yield* Effect.fail<Failure>({ reason: envelope.failure, ...facts })
    return { answer, envelope: envelope.success, elapsed: Duration.millis(now - sentAt) }
  }
)

/** The error that a failure makes of a request. It names the position of the request, from which a listing can go on. */
export const failed = (request: PageRequest, failure: Failure, attempts: number): PaymentsError =>
  new PaymentsError({
    list: request.list.name,
    reason: failure.reason,
    attempts,
    status: failure.status,
    requestId: failure.requestId,
    body: failure.body,
    position: request.cursor === undefined ? undefined : positionOf(request, request.cursor)
  })

/** Where the listing of a request stands at a cursor. */
export const positionOf = (request: PageRequest, cursor: string): Position.Position =>
  Position.make({ list: request.list.name, cursor, limit: request.limit, filters: request.filters })
