/**
 * Decides whether a failed attempt is retried and how long to wait before it. The decision depends only on the reason,
 * the number of the attempt, the server's `Retry-After` and the tokens left in the client's retry budget. `Retry.ts`
 * waits.
 */
import { Duration } from "effect"
import type { Reason } from "../model/PaymentsError.ts"

/**
 * The retry budget of a client, shared by all its listings: a token bucket, as in the AWS SDKs. It prevents retries
 * from multiplying the load on a service that is down. Each retry costs tokens. A page that succeeds after retries
 * returns their cost; a page that succeeds at the first attempt adds `reward`.
 */
export interface RetryBudget {
  /** Tokens of a full bucket. The bucket starts full. */
  readonly capacity: number
  /** Tokens that a retry after a transient failure costs. */
  readonly transientCost: number
  /** Tokens that a retry after a 429 costs. It is cheaper, because the rate limiter already spaces these requests. */
  readonly throttledCost: number
  /** Tokens that a page adds when its first attempt succeeds. */
  readonly reward: number
}

/** The parameters of the retry decision. */
export interface RetryPolicy {
  /** The most attempts, the first one included. */
  readonly attempts: number
  /** The upper bound of the first wait after a transient failure. It doubles with each attempt. */
  readonly transientBase: Duration.Duration
  /** The upper bound of the first wait after a 429. It doubles with each attempt. */
  readonly throttledBase: Duration.Duration
  /** The upper bound of every wait, except where `Retry-After` requires a longer one. */
  readonly cap: Duration.Duration
  /** The longest `Retry-After` that the client waits for. A longer one is returned to the caller in the error. */
  readonly longestRetryAfter: Duration.Duration
  /** The retry budget that all listings of a client share. */
  readonly budget: RetryBudget
}

/**
 * 3 attempts. The first wait is up to 50 ms after a transient failure and up to 1 s after a 429. No wait exceeds 20 s,
 * except a `Retry-After` of up to 30 s. The budget has 500 tokens. A retry costs 14 after a transient failure and 5
 * after a 429. A success at the first attempt adds 1.
 */
export const defaultRetryPolicy: RetryPolicy = {
  attempts: 3,
  transientBase: Duration.millis(50),
  throttledBase: Duration.seconds(1),
  cap: Duration.seconds(20),
  longestRetryAfter: Duration.seconds(30),
  budget: { capacity: 500, transientCost: 14, throttledCost: 5, reward: 1 }
}

/**
 * The error statuses that are retried. 408 is a timeout, 429 limits the request rate, and the others report a temporary
 * fault or an overload (RFC 9110 §15.6). Others, such as 501 and 505, report a lasting one.
 */
export const retriedStatuses: ReadonlyArray<number> = [408, 429, 500, 502, 503, 504]

/** The decision. The wait is chosen at random, evenly between `floor` and `floor + spread` (full jitter). */
export type RetryDecision =
  | { readonly retry: false }
  | {
    readonly retry: true
    readonly floor: Duration.Duration
    readonly spread: Duration.Duration
    /** Tokens that the retry costs. */
    readonly cost: number
  }

const stop: RetryDecision = { retry: false }

/**
 * Classifies a reason: `permanent` repeats at every attempt, `transient` may pass, `throttled` means too many requests.
 */
const classify = (reason: Reason): "permanent" | "transient" | "throttled" => {
  switch (reason._tag) {
    // The service limits the request rate.
    case "RateLimited":
      return "throttled"
    // The service gave no answer, so the same request can succeed later. A 408 is a timeout too.
    case "Timeout":
      return "transient"
    // A retry does not make a certificate valid. Any other connection failure may pass.
    case "Transport":
      return reason.kind === "tls" ? "permanent" : "transient"
    case "InvalidRequest":
    case "ServerFailure":
      return reason.status !== undefined && retriedStatuses.includes(reason.status) ? "transient" : "permanent"
    // Refusals, redirects, and complete but malformed answers repeat at every attempt.
    default:
      return "permanent"
  }
}

/** Whether the same request can succeed later. */
export const isRetryable = (reason: Reason): boolean => classify(reason) !== "permanent"

/**
 * Decides whether to retry after attempt number `attempt` (from 1) failed for `reason`, with `tokens` left in the
 * budget.
 */
export const decide = (
  policy: RetryPolicy,
  reason: Reason,
  attempt: number,
  tokens: number = policy.budget.capacity
): RetryDecision => {
  const kind = classify(reason)
  if (kind === "permanent" || attempt >= policy.attempts) return stop
  const throttled = kind === "throttled"
  const cost = throttled ? policy.budget.throttledCost : policy.budget.transientCost
  // The budget is spent: many requests failed recently, and retries would add load to a failing service.
  if (tokens < cost) return stop
  const base = throttled ? policy.throttledBase : policy.transientBase
  const spread = Duration.min(Duration.times(base, 2 ** (attempt - 1)), policy.cap)
  const floor = ("retryAfter" in reason ? reason.retryAfter : undefined) ?? Duration.zero
  // Return a long wait to the caller in the error, instead of sleeping here.
  return Duration.isGreaterThan(floor, policy.longestRetryAfter) ? stop : { retry: true, floor, spread, cost }
}
