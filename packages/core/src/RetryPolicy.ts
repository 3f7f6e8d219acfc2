/**
 * Whether a failed attempt is worth another, and how long to wait: a pure function of the reason, the attempt and the
 * server's wish. The waiting is a `Schedule` made from it.
 */
import { Duration, Effect, Random, Schedule } from "effect"
import type { PaymentsError, Reason } from "./PaymentsError.ts"

/** The numbers of the retry decision. */
export interface RetryPolicy {
  /** Attempts in all, the first one included. */
  readonly attempts: number
  /** The upper bound of the first wait after a transient failure; it doubles with each attempt. */
  readonly transientBase: Duration.Duration
  /** The upper bound of the first wait after a 429; it doubles with each attempt. */
  readonly throttledBase: Duration.Duration
  /** No wait of our own is longer. */
  readonly cap: Duration.Duration
  /** The longest wait asked for by the server (`Retry-After`) that is waited here; a longer one is handed back in the error. */
  readonly longestHint: Duration.Duration
}

/** 3 attempts, 50 ms after transient failures, 1 s after 429, at most 20 s; waits asked for up to 30 s. */
export const defaultRetryPolicy: RetryPolicy = {
  attempts: 3,
  transientBase: Duration.millis(50),
  throttledBase: Duration.seconds(1),
  cap: Duration.seconds(20),
  longestHint: Duration.seconds(30)
}

/** The wait before the next attempt lies between `floor` and `floor + spread`, drawn evenly (full jitter). */
export type RetryDecision =
  | { readonly retry: false }
  | { readonly retry: true; readonly floor: Duration.Duration; readonly spread: Duration.Duration }

const stop: RetryDecision = { retry: false }

/** A reason that may pass by itself, and whether it says that we ask too much. */
const nature = (reason: Reason): "permanent" | "transient" | "throttled" => {
  switch (reason._tag) {
    // The service asks to come back later.
    case "RateLimited":
      return "throttled"
    // Nothing was decided: the same request can still succeed. 408 is among the timeouts.
    case "Timeout":
      return "transient"
    // A certificate does not become valid by asking again; any other broken connection may mend.
    case "Transport":
      return reason.kind === "tls" ? "permanent" : "transient"
    // A fault or an overload on the way (RFC 9110 §15.6). 501 and 505 say the service cannot do it at all.
    case "ServerFailure":
      return [500, 502, 503, 504].includes(reason.status) ? "transient" : "permanent"
    // Refusals, redirects and complete but malformed answers come out the same again.
    default:
      return "permanent"
  }
}

/** Whether the same request can succeed later, with nothing changed. */
export const isRetryable = (reason: Reason): boolean => nature(reason) !== "permanent"

/** What to do after attempt number `attempt` (from 1) failed for `reason`. */
export const decide = (policy: RetryPolicy, reason: Reason, attempt: number): RetryDecision => {
  const kind = nature(reason)
  if (kind === "permanent" || attempt >= policy.attempts) return stop
  const base = kind === "throttled" ? policy.throttledBase : policy.transientBase
  const spread = Duration.min(Duration.times(base, 2 ** (attempt - 1)), policy.cap)
  const floor = ("retryAfter" in reason ? reason.retryAfter : undefined) ?? Duration.zero
  // The caller can plan a long wait better than a request that sleeps through it.
  return Duration.isGreaterThan(floor, policy.longestHint) ? stop : { retry: true, floor, spread }
}

/** Waits as {@link decide} says, and stops when it says so. */
export const schedule = (policy: RetryPolicy): Schedule.Schedule<number, PaymentsError> =>
  Schedule.spaced(Duration.zero).pipe(
    Schedule.setInputType<PaymentsError>(),
    Schedule.while(({ attempt, input }) => decide(policy, input.reason, attempt).retry),
    Schedule.modifyDelay(({ attempt, input }) => {
      const decision = decide(policy, input.reason, attempt)
      return decision.retry
        ? Effect.map(Random.next, (draw) => Duration.sum(decision.floor, Duration.times(decision.spread, draw)))
        : Effect.succeed(Duration.zero)
    })
  )
