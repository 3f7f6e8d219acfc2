/**
 * The tuned read that the client of `@payments/core/node` carries: it returns the whole body, without the requests,
 * responses and streams of `HttpClient`. It is a property of the client object. A client derived from it, with other
 * headers, retries or logging, does not have the property, and is used through `HttpClient` as any other.
 */
import type { Effect } from "effect"
import type { HttpClient } from "effect/http"
import type { Deadlines } from "../PaymentsConfig.ts"
import { MalformedResponse, type Reason } from "../PaymentsError.ts"

/** A GET request and its limits. */
export interface TunedReadRequest {
  readonly origin: string
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly deadlines: Deadlines
  /** The most bytes of the body, both compressed and decoded. */
  readonly cap: number
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
export const tooLarge = (cap: number): Reason =>
  new MalformedResponse({ kind: "tooLarge", path: "(root)", expected: `${cap / 2 ** 20} MiB` })

/** The reason for a body whose `content-encoding` is not supported. */
export const notDecoded: Reason = new MalformedResponse({
  kind: "notJson",
  path: "(root)",
  expected: "a content-encoding that is not decoded here"
})
