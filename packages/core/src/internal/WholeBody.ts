/**
 * A body taken whole, past the stream: what the client of `@payments/core/node` offers in its responses beside all that
 * any `HttpClient` offers. It travels as the web `Response` behind an `HttpClientResponse`, which whoever puts another
 * body in the place of this one replaces; then, as over any other client, the stream is read.
 */
import { type Effect, Option } from "effect"
import { HttpClientResponse } from "effect/http"
import { MalformedResponse, type Reason } from "../PaymentsError.ts"

/** The key under which a `Response` offers it. */
export const wholeBody: unique symbol = Symbol.for("@payments/core/WholeBody")

/** A `Response` that can hand its body over whole. */
export interface WholeBody {
  /**
   * The decoded body. More than `cap` bytes, as sent or decoded, end it; an interruption closes the connection.
   * `onBytes` is told of every arrival, so that a stall can be seen from outside.
   */
  readonly [wholeBody]: (cap: number, onBytes: () => void) => Effect.Effect<Uint8Array, Reason>
}

/** What the response's client offers, if it is ours and nobody has changed the body since. */
export const wholeBodyOf = (response: HttpClientResponse.HttpClientResponse): WholeBody | undefined => {
  const source = Option.getOrUndefined(HttpClientResponse.toWeb(response))
  return source !== undefined && wholeBody in source ? source as Response & WholeBody : undefined // by its key
}

/** A body beyond the cap. */
export const tooLarge = (cap: number): Reason =>
  new MalformedResponse({ kind: "tooLarge", path: "(root)", expected: `${cap / 2 ** 20} MiB` })

/** A body whose `content-encoding` nobody here can undo. */
export const notDecoded: Reason = new MalformedResponse({
  kind: "notJson",
  path: "(root)",
  expected: "a content-encoding that is not decoded here"
})
