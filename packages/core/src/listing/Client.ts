/**
 * The client of a service: requests a page, and retries according to the retry policy. All listings share the client's
 * pace, retry budget, keys and secrets.
 */
import { DateTime, Duration, Effect, Record, Redacted, Result, Semaphore } from "effect"
import { type Deadlines, PaymentsConfig } from "../config/PaymentsConfig.ts"
import { makeTimeLimit } from "../http/Deadline.ts"
import type { PageRequest, RawAnswer, SendRequest } from "../http/PageRequest.ts"
import type { Failure } from "../model/Failure.ts"
import * as Lists from "../model/Lists.ts"
import * as Monotonic from "../model/Monotonic.ts"
import { PaymentsError, type Reason, Unauthorized } from "../model/PaymentsError.ts"
import * as Position from "../model/Position.ts"
import { makeLimitReset, msUntil } from "../pace/LimitHeaders.ts"
import type { Pace } from "../pace/Pace.ts"
import * as Retry from "../pace/Retry.ts"
import { describeBody, type Envelope, openEnvelope, reasonOfStatus, requestIdOf } from "../page/PageDecoder.ts"
import { makeSecrets, type Secrets } from "../page/SafeText.ts"
import type { Paces } from "./Paces.ts"
import { instrument } from "./RequestTelemetry.ts"

/** A page whose records are not checked yet. */
export interface Fetched {
  readonly request: PageRequest
  readonly answer: RawAnswer
  readonly envelope: Envelope
  /** The key that the page was requested with. */
  readonly key: Redacted.Redacted<string>
  /** The number of requests that were sent for this page. */
  readonly attempts: number
  /** The time from sending the last request to the end of its answer. */
  readonly elapsed: Duration.Duration
  /** The rest of the attempt's deadline. The records must be decoded within it. */
  readonly remainingMs: number
}

export interface Client {
  /** Requests a page, with retries. */
  readonly fetch: (request: PageRequest) => Effect.Effect<Fetched, PaymentsError>
  /** Requests a page, without retries. */
  readonly fetchOnce: (request: PageRequest) => Effect.Effect<Fetched, PaymentsError>
  /** The keys, cursors and filter values that no message may show. */
  readonly secrets: Secrets
}

/** Returns a client that sends its requests with `send`, at these paces. */
export const makeClient = (config: PaymentsConfig["Service"], send: SendRequest, paces: Paces): Client => {
  const secrets = makeSecrets(Object.values(PaymentsConfig.keysOf(config)).map(Redacted.value))
  const keys = makeKeys(config, secrets)
  const limits = makeLimits(config, paces)

  const instrumented = Lists.map((list) =>
    instrument(
      PaymentsConfig.addressOf(config, list),
      list,
      () => paces.of(list, keys.keyOf(list)),
      config.traceHeaders
    )
  )

  const addressOf = (list: Lists.AnyList): string => {
    const { origin, pathname } = PaymentsConfig.addressOf(config, list)
    return `${origin}${pathname}`
  }

  const exchange = (request: PageRequest, key: Redacted.Redacted<string>, count: Attempts) => {
    const pace = paces.of(request.list, key)
    const sending = Effect.suspend(() => {
      for (const value of [...Object.values(request.filters), request.cursor ?? ""]) secrets.add(value)
      const sent = Effect.tapError(
        tryOnce({ list: request.list, sending: send(request, key), deadlines: config.deadlines, secrets }),
        ({ reason }) => reason._tag === "RateLimited" ? paces.onRateLimited(pace, reason.retryAfter) : Effect.void
      )
      return instrumented[request.list.name](count.made++, sent)
    })
    return Effect.map(Effect.andThen(limits.acquire(pace), sending), ({ receivedAt, ...arrived }) => {
      limits.note(pace, arrived.answer, receivedAt)
      return { ...arrived, key }
    })
  }

  /**
   * Makes one attempt. If the service refuses the key and the key file has another one, sends the request once more.
   */
  const attempt = (
    request: PageRequest,
    count: Attempts
  ): Effect.Effect<Fetched, PaymentsError> =>
    Effect.suspend(() => {
      const key = keys.keyOf(request.list)
      return Effect.mapBoth(
        Effect.catchIf(exchange(request, key, count), ({ reason }) =>
          reason._tag === "Unauthorized", (failure) =>
          keys.freshKey(request.list, key).pipe(
            Effect.mapError((unauthorized): Failure => ({ ...failure, reason: unauthorized })),
            Effect.flatMap((fresh) =>
              fresh === undefined ? Effect.fail(failure) : exchange(request, fresh, count)
            )
          )),
        {
          onFailure: (failure) =>
            paymentsErrorOf(request, { ...failure, address: addressOf(request.list) }, count.made),
          onSuccess: (arrived): Fetched => ({ ...arrived, request, attempts: count.made })
        }
      )
    })

  return {
    fetch: withRetries(config.retry, attempt),
    fetchOnce: (request) => attempt(request, { made: 0 }),
    secrets
  }
}

interface Attempts {
  made: number
}

/** Returns the function that makes attempts at a page as the policy says. All pages share one retry budget. */
const withRetries = (
  policy: PaymentsConfig["Service"]["retry"],
  attempt: (request: PageRequest, count: Attempts) => Effect.Effect<Fetched, PaymentsError>
): Client["fetch"] => {
  const tokens: Retry.RetryTokens = { left: policy.budget.capacity }
  return (request) =>
    Effect.suspend(() => {
      const spending: Retry.RetrySpending = { spent: 0 }
      const once = attempt(request, { made: 0 })
      // Most pages need no retry, so the schedule of retries is created only after a failure.
      return Effect.catch(once, (error) => Retry.retryFailed(error, once, Retry.schedule(policy, tokens, spending)))
        .pipe(
          Effect.map((fetched) => {
            Retry.refund(policy, tokens, spending)
            return fetched
          })
        )
    })
}

/**
 * Makes a pace slower after an answer that says that no request is left: the next one would get 429. Each request passes here, so
 * usual ones take no further step.
 */
const makeLimits = ({ retry: { longestRetryAfter } }: PaymentsConfig["Service"], { onRateLimited }: Paces) => {
  const resetIn = makeLimitReset()
  const resets = new Map<Pace, { readonly reset: number; readonly receivedAt: number }>()
  const slowDown = Effect.fnUntraced(
    function*(pace: Pace, { receivedAt, reset }: { reset: number; receivedAt: number }) {
      resets.delete(pace)
      const now = DateTime.toEpochMillis(yield* DateTime.now)
      const wait = msUntil(reset, { now, elapsed: (yield* Monotonic.millis) - receivedAt })
      if (wait > 0 && wait <= Duration.toMillis(longestRetryAfter)) yield* onRateLimited(pace, Duration.millis(wait))
    }
  )
  return {
    acquire: (pace: Pace): Effect.Effect<void> => {
      const reset = resets.get(pace)
      return reset === undefined ? pace.acquire : Effect.andThen(slowDown(pace, reset), pace.acquire)
    },
    note: (pace: Pace, { headers }: RawAnswer, receivedAt: number): void => {
      const reset = resetIn(headers)
      if (reset !== undefined) resets.set(pace, { reset, receivedAt })
    }
  }
}

/** Keeps the current key of each base address. */
const makeKeys = (config: PaymentsConfig["Service"], secrets: Secrets) => {
  const keys = { ...PaymentsConfig.keysOf(config) }
  const keyReading = Semaphore.makeUnsafe(1)

  /**
   * Returns the key to use after the service refused a key, or undefined if there is no other one. If another request
   * has already replaced the refused key, returns the replacement. Otherwise reads the key again. Only one request does
   * so at a time, because reading the key can start a command.
   */
  const freshKey = Effect.fnUntraced(function*({ baseAddress }: Lists.AnyList, refused: Redacted.Redacted<string>) {
    const known = keys[baseAddress]
    const read = known === refused ? yield* config.freshKey[baseAddress] ?? Effect.undefined : { value: known }
    if (read !== undefined && "problem" in read) {
      return yield* new Unauthorized({ problem: `${read.problem}.` })
    }
    const fresh = read?.value
    if (fresh === undefined || Redacted.value(fresh) === Redacted.value(refused)) return undefined
    secrets.addKey(Redacted.value(fresh))
    // Several base addresses may have the same key.
    for (const address of Record.keys(keys)) if (keys[address] === known) keys[address] = fresh
    return fresh
  }, keyReading.withPermits(1))

  return { keyOf: ({ baseAddress }: Lists.AnyList) => keys[baseAddress], freshKey }
}

/** Sends one request and reads the envelope of its answer. The attempt's deadline includes decoding the answer. */
const tryOnce = ({ deadlines, list, secrets, sending }: {
  readonly list: Lists.AnyList
  readonly sending: Effect.Effect<RawAnswer, Reason>
  readonly deadlines: Deadlines
  readonly secrets: Secrets
}) =>
  Effect.clockWith((clock) => {
    const sentAt = Monotonic.millisUnsafe(clock)
    const limit = makeTimeLimit(clock, Duration.toMillis(deadlines.attempt))
    return Effect.matchEffect(sending, {
      onFailure: (reason) => Effect.fail<Failure>({ reason }),
      onSuccess: (answer) => {
        // oxlint-disable-next-line no-restricted-properties -- Retry-After may be a date (RFC 9110 §10.2.3)
        const refusal = reasonOfStatus(answer, clock.currentTimeMillisUnsafe())
        if (refusal !== undefined) {
          const { status } = answer
          return Effect.fail<Failure>({
            reason: refusal,
            status,
            requestId: requestIdOf(answer, secrets),
            body: describeBody(answer, secrets)
          })
        }
        const receivedAt = Monotonic.millisUnsafe(clock)
        const elapsed = Duration.millis(receivedAt - sentAt)
        const envelope = openEnvelope(answer, list.page, limit)
        if (Result.isFailure(envelope)) {
          const { failure: reason } = envelope
          return Effect.fail<Failure>({ reason, status: answer.status, requestId: requestIdOf(answer, secrets) })
        }
        secrets.add(envelope.success.cursor ?? "")
        return Effect.succeed({
          answer,
          envelope: envelope.success,
          elapsed,
          receivedAt,
          remainingMs: limit.remainingMs()
        })
      }
    })
  })

/**
 * Returns the error of a failed request. It contains the position of the request, from which a listing can continue.
 */
export const paymentsErrorOf = (request: PageRequest, failure: Failure, attempts: number): PaymentsError =>
  new PaymentsError({
    list: request.list.name,
    reason: failure.reason,
    attempts,
    status: failure.status,
    requestId: failure.requestId,
    address: failure.address,
    body: failure.body,
    position: request.cursor === undefined ? undefined : positionOf(request, request.cursor)
  })

/** Returns the position of a cursor in the listing of a request. */
export const positionOf = (request: PageRequest, cursor: string): Position.Position =>
  Position.make({ list: request.list.name, cursor, limit: request.limit, filters: request.filters })
