/** The interface between the client, which decides about retries, and the module that sends a request over HTTP. */
import type { Effect, Redacted } from "effect"
import type { AnyList } from "../model/Lists.ts"
import type { Reason } from "../model/PaymentsError.ts"

/**
 * A request for one page. Filter values and cursor are plain text here: the sender must keep them out of spans, logs
 * and errors.
 */
export interface PageRequest {
  readonly list: AnyList
  readonly limit: number
  readonly filters: Readonly<Record<string, string>>
  readonly cursor: string | undefined
  /** The fields of the filters whose effect is not checked: records that do not match them are accepted. */
  readonly unchecked: ReadonlyArray<string>
}

export interface RawAnswer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
}

/** Sends one request and returns its answer. Fails with a reason if there is no complete answer. */
export type SendRequest = (request: PageRequest, key: Redacted.Redacted<string>) => Effect.Effect<RawAnswer, Reason>
