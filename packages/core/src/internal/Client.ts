/**
 * One client of a service: asks for a page until it comes or must not be asked for again. What its listings share is
 * kept here: the limiter, the tokens for retries and the keys.
 */
import { type Clock, Duration, Effect, Record, Redacted, Result, Semaphore } from "effect"
import * as Lists from "../Lists.ts"
import * as Monotonic from "../Monotonic.ts"
import { type Deadlines, PaymentsConfig } from "../PaymentsConfig.ts"
import { PaymentsError, type Reason, Unauthorized } from "../PaymentsError.ts"
import * as Position from "../Position.ts"
import { workTime } from "./Deadline.ts"
import type { Failure } from "./Failure.ts"
import { describeBody, type Envelope, openEnvelope, reasonOfStatus, requestIdOf } from "./PageDecoder.ts"
import type { PageRequest, PageSource, RawAnswer } from "./PageSource.ts"
import * as RateLimiter from "./RateLimiter.ts"
import * as Retry from "./Retry.ts"
import { makeSecrets, type Secrets } from "./SafeText.ts"
import { instrument } from "./Telemetry.ts"

/** A page that came, its records not yet looked at. */
export interface Fetched {
  readonly request: PageRequest
  readonly answer: RawAnswer
  readonly envelope: Envelope
  /** The key that it was asked for with. */
  readonly key: Redacted.Redacted<string>
  /** Requests it took. */
  readonly attempts: number
  /** From sending the last of them to the end of its answer. */
  readonly elapsed: Duration.Duration
  /** Milliseconds of its attempt's deadline that are left for the work on its records. */
  readonly left: number
}

/** Asks for pages. */
export interface Client {
  /** With retries. */
  readonly fetch: (request: PageRequest) => Effect.Effect<Fetched, PaymentsError>
  /** Once. */
  readonly fetchOnce: (request: PageRequest) => Effect.Effect<Fetched, PaymentsError>
  /** What no message may show. */
  readonly secrets: Secrets
}

/** A client over one source of pages. */
export const makeClient = (config: PaymentsConfig["Service"], source: PageSource): Client => {
  let limiter = RateLimiter.make(config.maxRequestsPerSecond, config.slowDown)
  const tokens: Retry.RetryTokens = { left: config.retry.budget.capacity }
  const keys = { ...PaymentsConfig.keysOf(config) }
  const secrets = makeSecrets(Object.values(keys).map(Redacted.value))

  /** Those who wait for their turn, in the order they came. */
  const queue = Semaphore.makeUnsafe(1)

  const take = (clock: Clock.Clock): boolean => {
    const now = Monotonic.millisUnsafe(clock)
    if (limiter.nextRequestAt > now) return false
    limiter = RateLimiter.onRequest(limiter, now)
    return true
  }

  /** The first in the queue waits until the limiter allows a request, however often it changes meanwhile. */
  const turn = (clock: Clock.Clock): Effect.Effect<void> =>
    Effect.suspend(() =>
      take(clock)
        ? Effect.void
        : Effect.flatMap(Effect.sleep(limiter.nextRequestAt - Monotonic.millisUnsafe(clock)), () => turn(clock))
    )

  const inTurn = <A>(exchange: Effect.Effect<A, Failure>): Effect.Effect<A, Failure> =>
    Effect.clockWith((clock) => take(clock) ? exchange : Effect.andThen(queue.withPermits(1)(turn(clock)), exchange))

  const slowDown = (asked: Duration.Duration | undefined) =>
    Effect.clockWith((clock) => {
      // A longer wait is handed back to the caller; the others find out by asking.
      const long = asked === undefined || Duration.isGreaterThan(asked, config.retry.longestHint)
      limiter = RateLimiter.onRateLimited(limiter, Monotonic.millisUnsafe(clock), long ? 0 : Duration.toMillis(asked))
      return Effect.void
    })

  /** The key anew after it was refused; undefined where there is no other. */
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
  })

  const observe = Lists.map((list) => instrument(PaymentsConfig.addressOf(config, list), list))

  const exchange = (request: PageRequest, key: Redacted.Redacted<string>, count: Attempts) =>
    inTurn(Effect.suspend(() => {
      for (const value of [...Object.values(request.filters), request.cursor ?? ""]) secrets.add(value)
      return observe[request.list.name](count.made++, tryOnce(source(request, key), config.deadlines, secrets))
    })).pipe(
      Effect.map((arrived) => ({ ...arrived, key })),
      Effect.tapError(({ reason }) => reason._tag === "RateLimited" ? slowDown(reason.retryAfter) : Effect.void)
    )

  /** Once, but for a key that is no longer accepted. */
  const attempt = (
    request: PageRequest,
    count: Attempts
  ): Effect.Effect<Fetched, PaymentsError> =>
    Effect.suspend(() => {
      const key = keys[request.list.baseAddress]
      return Effect.mapBoth(
        Effect.catchIf(exchange(request, key, count), ({ reason }) =>
          reason._tag === "Unauthorized", (failure) =>
          freshKey(request.list, key).pipe(
            Effect.mapError((unauthorized): Failure => ({ ...failure, reason: unauthorized })),
            Effect.flatMap((fresh) =>
              fresh === undefined ? Effect.fail(failure) : exchange(request, fresh, count)
            )
          )),
        {
          onFailure: (failure) => failed(request, failure, count.made),
          onSuccess: (arrived): Fetched => ({ ...arrived, request, attempts: count.made })
        }
      )
    })

  const fetch = (request: PageRequest): Effect.Effect<Fetched, PaymentsError> =>
    Effect.suspend(() => {
      const count: Attempts = { made: 0 }
      const spending: Retry.RetrySpending = { spent: 0 }
      const once = attempt(request, count)
      // Most pages come at once: what decides about retries is made for the others.
      return Effect.catch(once, (error) => Retry.retryAfter(error, once, config.retry, tokens, spending)).pipe(
        Effect.map((fetched) => {
          Retry.refund(config.retry, tokens, spending)
          return fetched
        })
      )
    })

  return { fetch, fetchOnce: (request) => attempt(request, { made: 0 }), secrets }
}

interface Attempts {
  made: number
}

/** One request and what came of it. The work on the answer counts as part of the attempt. */
const tryOnce = (asked: Effect.Effect<RawAnswer, Reason>, deadlines: Deadlines, secrets: Secrets) =>
  Effect.clockWith((clock) => {
    const sentAt = Monotonic.millisUnsafe(clock)
    const time = workTime(clock, Duration.toMillis(deadlines.attempt))
    return Effect.matchEffect(asked, {
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
        const elapsed = Duration.millis(Monotonic.millisUnsafe(clock) - sentAt)
        const envelope = openEnvelope(answer, time)
        if (Result.isFailure(envelope)) {
          const { failure: reason } = envelope
          return Effect.fail<Failure>({ reason, status: answer.status, requestId: requestIdOf(answer, secrets) })
        }
        secrets.add(envelope.success.cursor ?? "")
        return Effect.succeed({ answer, envelope: envelope.success, elapsed, left: time.left() })
      }
    })
  })

/**
 * The error that a failure makes of a request. It names the position of the request, from which a listing can go on.
 */
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
