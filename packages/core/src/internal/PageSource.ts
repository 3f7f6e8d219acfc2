/** What the client needs to know of a transport. */
import type { Effect, Redacted } from "effect"
import type { AnyList } from "../Lists.ts"
import type { Reason } from "../PaymentsError.ts"

/** One page asked for. Filter values and cursor are plain here: a source must keep them out of spans, logs and errors. */
export interface PageRequest {
  readonly list: AnyList
  readonly limit: number
  readonly filters: Readonly<Record<string, string>>
  readonly cursor: string | undefined
  /** Filters whose records are not checked. */
  readonly unchecked: ReadonlyArray<string>
}

/** An answer, whatever its status. */
export interface RawAnswer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly text: string
}

/** Answers one request, or fails for a reason that came before an answer. */
export type PageSource = (request: PageRequest, key: Redacted.Redacted<string>) => Effect.Effect<RawAnswer, Reason>
