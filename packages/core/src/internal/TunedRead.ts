/**
 * The short way of the client of `@payments/core/node`: a read that hands over the whole body, past the requests,
 * responses and streams of `HttpClient`. It is a property of that very client, so that a client made of it (with other
 * headers, retries, logging) has it no longer and is asked as any other.
 */
import type { Effect } from "effect"
import type { HttpClient } from "effect/http"
import type { Deadlines } from "../PaymentsConfig.ts"
import { MalformedResponse, type Reason } from "../PaymentsError.ts"

/** A GET, and the limits it must keep. */
export interface TunedReadRequest {
  readonly origin: string
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly deadlines: Deadlines
  /** Bytes, as sent and as decoded. */
  readonly cap: number
}

/** An answer, its body decoded. */
export interface TunedReadAnswer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | undefined>>
  /** The receiver owns them and may free their memory. */
  readonly bytes: Uint8Array
}

/** Reads once. An interruption closes the connection. */
export type TunedRead = (request: TunedReadRequest) => Effect.Effect<TunedReadAnswer, Reason>

const tunedRead: unique symbol = Symbol.for("@payments/core/TunedRead")

/** The client, which can also be asked the short way. */
export const withTunedRead = (client: HttpClient.HttpClient, read: TunedRead): HttpClient.HttpClient =>
  Object.assign(client, { [tunedRead]: read })

/** The short way of this client, if it has one. */
export const tunedReadOf = (client: HttpClient.HttpClient): TunedRead | undefined =>
  tunedRead in client ? client[tunedRead] as TunedRead : undefined // only put there above

/** A body beyond the cap. */
export const tooLarge = (cap: number): Reason =>
  new MalformedResponse({ kind: "tooLarge", path: "(root)", expected: `${cap / 2 ** 20} MiB` })

/** A body whose `content-encoding` nobody here can undo. */
export const notDecoded: Reason = new MalformedResponse({
  kind: "notJson",
  path: "(root)",
  expected: "a content-encoding that is not decoded here"
})
