/** Why a request for a page failed. */
import type { ErrorBody, Reason } from "../PaymentsError.ts"

/** The reason, and what is known of the answer if one came. */
export interface Failure {
  readonly reason: Reason
  readonly status?: number | undefined
  readonly requestId?: string | undefined
  readonly body?: ErrorBody | undefined
}
