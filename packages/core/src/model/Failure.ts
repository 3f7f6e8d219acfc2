/** The failure of a request for a page. */
import type { ErrorBody, Reason } from "./PaymentsError.ts"

/** The reason, and facts of the answer if there was one. */
export interface Failure {
  readonly reason: Reason
  readonly status?: number | undefined
  readonly requestId?: string | undefined
  /** The address that the request was sent to, without its query. */
  readonly address?: string | undefined
  readonly body?: ErrorBody | undefined
}
