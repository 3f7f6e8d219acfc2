/**
 * Whether a failed attempt is worth another, and how long to wait: a pure function of the reason, the attempt, the
 * server's wish and what the client has left to spend on retries. The waiting is in `internal/Retry.ts`.
 */
import { Duration } from "effect"
import type { Reason } from "./PaymentsError.ts"

/**
 * What a client may spend on retries, all its listings together, so that a service that is down is not asked twice as
 * often: a token bucket, as in the AWS SDKs. A retry costs, one that succeeds gives its cost back, and so does, a little,
 * every first try that succeeds.
 */
export interface RetryBudget {
  /** Tokens of a full bucket; it begins full. */
  readonly capacity: number
  /** Tokens of a retry after a transient failure. */
  readonly transientCost: number
  /** Tokens of a retry after a 429, which the service itself spaces out. */
  readonly throttledCost: number
  /** Tokens that a first try gives back when it succeeds. */
  readonly reward: number
}

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
  /** What all listings of a client may spend on retries. */
  readonly budget: RetryBudget
}

/**
 * 3 attempts, 50 ms after transient failures, 1 s after 429, at most 20 s; waits asked for up to 30 s. 500 tokens, of
 * which a transient retry takes 14 and a throttled one 5; a first try that succeeds gives 1 back.
 */
export const defaultRetryPolicy: RetryPolicy = {
  attempts: 3,
  transientBase: Duration.millis(50),
  throttledBase: Duration.seconds(1),
  cap: Duration.seconds(20),
  longestHint: Duration.seconds(30),
  budget: { capacity: 500, transientCost: 14, throttledCost: 5, reward: 1 }
}

/** The wait before the next attempt lies between `floor` and `floor + spread`, drawn evenly (full jitter). */
export type RetryDecision =
  | { readonly retry: false }
  | {
    readonly retry: true
    readonly floor: Duration.Duration
    readonly spread: Duration.Duration
    /** Tokens it takes. */
    readonly cost: number
  }

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

/** What to do after attempt number `attempt` (from 1) failed for `reason`, with `tokens` left in the budget. */
export const decide = (
  policy: RetryPolicy,
  reason: Reason,
  attempt: number,
  tokens: number = policy.budget.capacity
): RetryDecision => {
  const kind = nature(reason)
  if (kind === "permanent" || attempt >= policy.attempts) return stop
  const throttled = kind === "throttled"
  const cost = throttled ? policy.budget.throttledCost : policy.budget.transientCost
  // Too much has failed lately: asking again would only add to it.
  if (tokens < cost) return stop
  const base = throttled ? policy.throttledBase : policy.transientBase
  const spread = Duration.min(Duration.times(base, 2 ** (attempt - 1)), policy.cap)
  const floor = ("retryAfter" in reason ? reason.retryAfter : undefined) ?? Duration.zero
  // The caller can plan a long wait better than a request that sleeps through it.
  return Duration.isGreaterThan(floor, policy.longestHint) ? stop : { retry: true, floor, spread, cost }
}
