/**
 * A faster way to read an answer than `HttpClient.execute`. The client of `@payments/core/node` has a function, the
 * tuned read, that sends a request and returns the whole body at once. It creates no requests, responses and streams of
 * `HttpClient`. The function is a property of the client object. A client that is derived from it, with other headers,
 * retries or logging, does not have the property; its requests are sent with `execute`.
 */
import type { Effect } from "effect"
import type { HttpClient } from "effect/http"
import type { Deadlines } from "../config/PaymentsConfig.ts"
import { MalformedResponse, type Reason } from "../model/PaymentsError.ts"

export interface TunedReadRequest {
  readonly origin: string
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly deadlines: Deadlines
  /** The most bytes of the body, both compressed and decoded. */
  readonly maxBytes: number
}

/** An answer with its decoded body. */
export interface TunedReadAnswer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The receiver owns the bytes and may free their memory. */
  readonly bytes: Uint8Array
}

/** Sends one request and reads its answer. An interruption closes the connection. */
export type TunedRead = (request: TunedReadRequest) => Effect.Effect<TunedReadAnswer, Reason>

const tunedRead: unique symbol = Symbol.for("@payments/core/TunedRead")

/** Adds a tuned read to a client. */
export const withTunedRead = (client: HttpClient.HttpClient, read: TunedRead): HttpClient.HttpClient =>
  Object.assign(client, { [tunedRead]: read })

/** Returns the tuned read of a client, if it has one. */
export const tunedReadOf = (client: HttpClient.HttpClient): TunedRead | undefined =>
  tunedRead in client ? client[tunedRead] as TunedRead : undefined // only `withTunedRead` sets it

/** The reason for a body that is larger than the limit. */
export const tooLarge = (maxBytes: number): Reason =>
  new MalformedResponse({ kind: "tooLarge", path: "(root)", detail: `${maxBytes / 2 ** 20} MiB` })

/** The reason for a body whose `content-encoding` is not supported. */
export const notDecoded: Reason = new MalformedResponse({
  kind: "notJson",
  path: "(root)",
  detail: "a content-encoding that is not decoded here"
})
