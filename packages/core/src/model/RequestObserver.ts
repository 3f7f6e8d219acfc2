/** A function that is called after each request, such as one that counts the requests of several services separately. */
import { Context } from "effect"
import type { ListName } from "./Lists.ts"
import type { Reason } from "./PaymentsError.ts"

/** A request that ended. It contains no key, cursor, filter value or text of the answer. */
export interface ObservedRequest {
  /** The list that was requested. */
  readonly list: ListName
  /** Whether the answer was a page, or why not. Some problems of a page are found later, when its records are decoded. */
  readonly result: Reason["_tag"] | "Succeeded"
  /** The duration of the request, with the time to read its answer. */
  readonly seconds: number
  /** The requests per second that the client may send now. Undefined: no limit. */
  readonly maxPerSecond: number | undefined
  /**
   * Whether `maxPerSecond` is the rate of all clients of the key together. False while the rate limit store cannot be used;
   * it is this client's share then. Undefined: the client has no store.
   */
  readonly isRateShared: boolean | undefined
}

/**
 * Called after each request that is sent in this context, except interrupted ones. Default: does nothing. It must not
 * throw.
 */
export const RequestObserver: Context.Reference<(request: ObservedRequest) => void> = Context.Reference<
  (request: ObservedRequest) => void
>("@payments/core/RequestObserver", { defaultValue: () => () => {} })
