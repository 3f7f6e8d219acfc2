/** Runs the retries that {@link decide} allows, and keeps the retry budget of a client. */
import { Cause, Duration, Effect, Random, Schedule } from "effect"
import type { PaymentsError } from "../model/PaymentsError.ts"
import { decide, type RetryDecision, type RetryPolicy } from "./RetryPolicy.ts"

export interface RetryTokens {
  left: number
}

/** The tokens that the retries of one page have cost. */
export interface RetrySpending {
  spent: number
}

/** Returns a schedule that takes the cost of each retry from the budget, waits, and ends when {@link decide} stops. */
export const schedule = (
  policy: RetryPolicy,
  tokens: RetryTokens,
  spending: RetrySpending
): Schedule.Schedule<number, PaymentsError> =>
  Schedule.fromStepWithMetadata(Effect.succeed(({ attempt, input }: Schedule.InputMetadata<PaymentsError>) => {
    const decision = decide(policy, input.reason, attempt, tokens.left)
    if (!decision.retry) return Cause.done(attempt)
    tokens.left -= decision.cost
    spending.spent += decision.cost
    return Effect.map(Effect.tap(randomDelay(decision), logWait), (wait) => [attempt, wait] as const)
  }))

const randomDelay = ({ floor, spread }: Extract<RetryDecision, { readonly retry: true }>) =>
  Effect.map(Random.next, (fraction) => Duration.sum(floor, Duration.times(spread, fraction)))

const logWait = (wait: Duration.Duration) =>
  Effect.logDebug(`the request is sent again in ${Math.round(Duration.toMillis(wait))} ms`)

/** Retries on a {@link schedule} after the first attempt failed with `error`. Fails with the last error if no retry succeeds. */
export const retryFailed = <A>(
  error: PaymentsError,
  attempt: Effect.Effect<A, PaymentsError>,
  retries: Schedule.Schedule<number, PaymentsError>
): Effect.Effect<A, PaymentsError> => {
  // `Effect.retry` must see the first failure too, so the first run only fails with it again.
  let first: PaymentsError | undefined = error
  const attemptOrFirst = Effect.suspend(() => {
    const failed = first
    first = undefined
    return failed === undefined ? attempt : Effect.fail(failed)
  })
  return Effect.retry(attemptOrFirst, retries)
}

/**
 * Adds the cost of a page's retries to the budget again after the page succeeded. If there were none, adds the reward.
 */
export const refund = (policy: RetryPolicy, tokens: RetryTokens, { spent }: RetrySpending): void => {
  tokens.left = Math.min(policy.budget.capacity, tokens.left + (spent === 0 ? policy.budget.reward : spent))
}
