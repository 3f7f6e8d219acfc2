/** Waits between attempts as {@link decide} says, and keeps the account of what they take from a client's tokens. */
import { Duration, Effect, Random, Schedule } from "effect"
import type { PaymentsError } from "../PaymentsError.ts"
import { decide, type RetryDecision, type RetryPolicy } from "../RetryPolicy.ts"

/** The tokens of one client. */
export interface RetryTokens {
  left: number
}

/** The attempts at one page: what they have taken from the tokens. */
export interface RetrySpending {
  spent: number
}

/** Waits as {@link decide} says, takes what a retry costs, and stops when it says so. */
export const schedule = (
  policy: RetryPolicy,
  tokens: RetryTokens,
  spending: RetrySpending
): Schedule.Schedule<number, PaymentsError> => {
  let decision: RetryDecision = { retry: false }
  return Schedule.spaced(Duration.zero).pipe(
    Schedule.setInputType<PaymentsError>(),
    Schedule.while(({ attempt, input }) => {
      decision = decide(policy, input.reason, attempt, tokens.left)
      if (decision.retry) {
        tokens.left -= decision.cost
        spending.spent += decision.cost
      }
      return decision.retry
    }),
    Schedule.modifyDelay(() =>
      decision.retry
        ? delay(decision)
        : Effect.succeed(Duration.zero)
    )
  )
}

const delay = ({ floor, spread }: Extract<RetryDecision, { readonly retry: true }>) =>
  Effect.map(Random.next, (draw) => Duration.sum(floor, Duration.times(spread, draw)))

/** What comes of more attempts after the first one has failed. */
export const again = <A>(
  error: PaymentsError,
  attempt: Effect.Effect<A, PaymentsError>,
  policy: RetryPolicy,
  tokens: RetryTokens,
  spending: RetrySpending
): Effect.Effect<A, PaymentsError> => {
  let first: PaymentsError | undefined = error
  const next = Effect.suspend(() => {
    const failed = first
    first = undefined
    return failed === undefined ? attempt : Effect.fail(failed)
  })
  return Effect.retry(next, schedule(policy, tokens, spending))
}

/** A page came: what its retries took is given back, and a first try adds a little. */
export const settle = (policy: RetryPolicy, tokens: RetryTokens, { spent }: RetrySpending): void => {
  tokens.left = Math.min(policy.budget.capacity, tokens.left + (spent === 0 ? policy.budget.reward : spent))
}
