/** What all requests of a probe share: why they show nothing, and how an answer is read. */
import { Data, Duration, Effect, Stream } from "effect"
import type { HttpClientResponse } from "effect/http"

/** Why a fact could not be observed. It says nothing about the fact. */
export class NotObserved extends Data.TaggedError("NotObserved")<{
  readonly reason: string
  /** After how long another attempt may succeed. */
  readonly retryAfter?: Duration.Duration
  /** Whether the service wants no further requests for now. */
  readonly mustStop?: boolean
}> {}

export const notObserved = (reason: string): NotObserved => new NotObserved({ reason })

/** If the service asks for a longer pause, the run ends. */
export const longestWait = Duration.minutes(1)

/** Reads seconds or a date (RFC 9110 §10.2.3). */
export const retryAfterIn = (text: string, now: number): Duration.Duration => {
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Duration.millis(Number.isFinite(ms) ? Math.max(0, ms) : 0)
}

/** Reads the body as text. Fails if it has more than `maxBytes`. */
export const textOf = (response: HttpClientResponse.HttpClientResponse, maxBytes: number) =>
  Effect.suspend(() => {
    let size = 0
    return response.stream.pipe(
      Stream.tap((chunk) => {
        size += chunk.length
        return size > maxBytes
          ? Effect.fail(new NotObserved({ reason: `the answer has more than ${maxBytes} bytes` }))
          : Effect.void
      }),
      Stream.decodeText(),
      Stream.mkString,
      Effect.catchReason("HttpClientError", "EmptyBodyError", () => Effect.succeed(""))
    )
  })
