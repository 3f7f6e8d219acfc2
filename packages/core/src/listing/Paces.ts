/** The paces of all requests to a service: one per base address and key, or one of the process. */
import { Duration, Effect, Option, Redacted } from "effect"
import { RateLimiterStore } from "effect/persistence/RateLimiter"
import type { PaymentsConfig } from "../config/PaymentsConfig.ts"
import type * as Lists from "../model/Lists.ts"
import { keyFingerprintOf } from "../pace/KeyFingerprint.ts"
import { makeOwnPace, type Pace } from "../pace/Pace.ts"
import { makeSharedPace } from "../pace/SharedPace.ts"

/** The request rate of a client, by list and key. */
export interface Paces {
  /** Returns the pace of a list that is read with this key. */
  readonly of: (list: Lists.AnyList, key: Redacted.Redacted<string>) => Pace
  /** Slows a pace down after a 429. */
  readonly onRateLimited: (pace: Pace, retryAfter: Duration.Duration | undefined) => Effect.Effect<void>
}

/**
 * Returns the paces of a client. Without a `RateLimiterStore` in the context, all lists have the same pace. With a
 * store, the lists of a base address share it with all clients that read this address with the same key.
 */
export const makePaces = (config: PaymentsConfig["Service"]): Effect.Effect<Paces> =>
  Effect.map(Effect.serviceOption(RateLimiterStore), (store): Paces => ({
    of: makePaceOf(config, Option.getOrUndefined(store)),
    onRateLimited: (pace, retryAfter) => {
      // A request whose `Retry-After` is longer than the retry policy accepts fails, and its error contains the wait.
      // Such a wait does not delay other requests.
      const ignored = retryAfter === undefined || Duration.isGreaterThan(retryAfter, config.retry.longestRetryAfter)
      return pace.onRateLimited(ignored ? 0 : Duration.toMillis(retryAfter))
    }
  }))

const makePaceOf = (
  config: PaymentsConfig["Service"],
  store: RateLimiterStore["Service"] | undefined
): Paces["of"] => {
  const { maxRequestsPerSecond: ceiling, slowDown } = config
  if (store === undefined) {
    const own = makeOwnPace(ceiling, slowDown)
    return () => own
  }
  const paces = new Map<string, Pace>()
  return ({ baseAddress }, key) => {
    const { href } = baseAddress === "invoices" ? config.invoicesBaseUrl : config.baseUrl
    const id = `${href} ${Redacted.value(key)}`
    const known = paces.get(id)
    if (known !== undefined) return known
    const name = Effect.map(
      Effect.promise(() => keyFingerprintOf(key)(`rate limit of ${href}`)),
      (fingerprint = "") => `${href} ${fingerprint}`
    )
    const pace = makeSharedPace({ store, name, ceiling, slowDown })
    paces.set(id, pace)
    return pace
  }
}
