/**
 * The error of reading a page, with a tagged reason.
 *
 * `message` is one line that says what is wrong and what to do. Neither `message` nor any plain field contains a key, a
 * cursor, a filter value or free text from the server. The position and the body ({@link ErrorBody.text}) are
 * `Redacted`.
 *
 * | reason | when | retried | exit code |
 * |---|---|---|---|
 * | `Unauthorized` | 401 | once, if the key file contains a new key | 4 |
 * | `Forbidden` | 403 | no | 4 |
 * | `NotFound` | 404 | no | 5 |
 * | `InvalidRequest` | any other 4xx, or a query refused before any request | no | 5 |
 * | `RateLimited` | 429 | yes | 6 |
 * | `ServerFailure` | 5xx | 500, 502, 503, 504 | 7 |
 * | `Transport` | connection refused or reset, name not found, TLS, a body that ends early | all except TLS | 7 |
 * | `Timeout` | no connection, no headers, a stalled body, an attempt that takes too long, 408 | yes | 7 |
 * | `MalformedResponse` | an answer that is not HTTP, only part of a page, or complete but not a page | no | 8 |
 * | `PaginationFault` | a cursor that repeats, is missing or is refused; too many pages without new records | no | 8 |
 * | `FilterNotApplied` | a record that does not match the filter | no | 8 |
 * | `RedirectRefused` | any 3xx | no | 8 |
 * | `UnexpectedStatus` | any other status | no | 8 |
 */
import { Data, Duration, type Redacted } from "effect"
import { byName, type ListName } from "./Lists.ts"
import type { Position } from "./Position.ts"

const inBrackets = (address: string | undefined): string => address === undefined ? "" : ` (${address})`

/** The server did not accept the key: 401. */
export class Unauthorized extends Data.TaggedError("Unauthorized")<{
  /** Why the key file could not be read again; absent if the key does not come from a file or the file was read. */
  readonly problem?: string | undefined
}> {
  /** Creates the reason. `problem` is optional. */
  constructor(facts: { readonly problem?: string | undefined } = {}) {
    super(facts)
  }

  /** Returns the message, with the address that the request was sent to. */
  messageAt(address: string | undefined): string {
    return `not authorized: the service did not accept the key (401). ${
      this.problem ?? `Check the key, and that it belongs to this address${inBrackets(address)}.`
    }`
  }

  override get message() {
    return this.messageAt(undefined)
  }
}

/** The service accepts the key, but the key may not read this list: 403. */
export class Forbidden extends Data.TaggedError("Forbidden")<{}> {
  override get message() {
    return "forbidden: the key may not read this list (403)."
  }
}

/** The service has no list at this address: 404. */
export class NotFound extends Data.TaggedError("NotFound")<{}> {
  /** Returns the message, with the address that the request was sent to. */
  messageAt(address: string | undefined): string {
    const sentTo = address === undefined ? "" : `. The request was sent to ${address}`
    return `not found (404)${sentTo}. Check the base address: the client adds the version (/v0, /v1) to it.`
  }

  override get message() {
    return this.messageAt(undefined)
  }
}

/**
 * The request is invalid. Either the service refused it (`status`), or the client refused it before sending
 * (`problem`).
 */
export class InvalidRequest extends Data.TaggedError("InvalidRequest")<{
  /** The status of the answer; absent if the client refused the query. */
  readonly status?: number | undefined
  /** What is wrong. It names fields but never their values. */
  readonly problem?: string | undefined
}> {
  override get message() {
    return this.problem ?? `the service refused the request (${this.status}). Check the filters and parameter names.`
  }
}

const millisOf = (wait: Duration.Duration | undefined): number | undefined =>
  wait === undefined ? undefined : Duration.toMillis(wait)

/** Too many requests: 429. */
export class RateLimited extends Data.TaggedError("RateLimited")<{
  /** The wait that the server requested in `Retry-After`; absent if the header is invalid. At most 100 years. */
  readonly retryAfter: Duration.Duration | undefined
}> {
  /** {@link retryAfter} in milliseconds, for code without Effect. */
  get retryAfterMs(): number | undefined {
    return millisOf(this.retryAfter)
  }

  override get message() {
    return this.retryAfter === undefined
      ? "rate limited (429)."
      : `rate limited (429): the service requests a wait of ${Duration.format(this.retryAfter)}.`
  }
}

/** The service failed: 5xx. */
export class ServerFailure extends Data.TaggedError("ServerFailure")<{
  /** 500 to 599. */
  readonly status: number
  /** The wait that the server requested in `Retry-After`; absent if the header is invalid. At most 100 years. */
  readonly retryAfter: Duration.Duration | undefined
}> {
  /** {@link retryAfter} in milliseconds, for code without Effect. */
  get retryAfterMs(): number | undefined {
    return millisOf(this.retryAfter)
  }

  override get message() {
    return `the service failed (${this.status}).`
  }
}

/** The connection failed, or ended before the answer was complete. */
export class Transport extends Data.TaggedError("Transport")<{
  /** What failed. `other` if the system reported no known code. */
  readonly kind: "refused" | "reset" | "nameNotFound" | "tls" | "truncated" | "other"
  /** The system's error code, such as `ECONNREFUSED`, if it reported one. */
  readonly code?: string | undefined
  /** Whether the environment names a proxy, so that the failed connection may be that to the proxy. Not by default. */
  readonly hasProxy?: boolean | undefined
}> {
  /** Returns the message, with the address that the request was sent to. */
  messageAt(sentTo: string | undefined): string {
    const code = this.code === undefined ? "" : ` (${this.code})`
    const proxy = this.hasProxy === true ? ", or that of the proxy (HTTPS_PROXY, HTTP_PROXY)" : ""
    const address = `the address${inBrackets(sentTo)}${proxy}`
    return {
      refused: `the service could not be reached: connection refused${code}. Check ${address}, and that it is up.`,
      reset: `the connection ended before the answer was complete${code}.`,
      nameNotFound: `the service could not be reached: its name was not found${code}. Check ${address}.`,
      tls: `no secure connection could be made${code}${
        speaksNoTls.test(this.code ?? "")
          ? `: the port does not speak TLS. Check ${address}: its port, or http:// to this machine.`
          : ". Check the certificate and its authority."
      }`,
      truncated: `the answer ended early${code}.`,
      other: `the service could not be reached${code}.${
        this.code === "EMFILE" ? " The process may not open more files. Raise the limit (ulimit -n 1024)." : ""
      }`
    }[this.kind]
  }

  override get message() {
    return this.messageAt(undefined)
  }
}

/** Error codes of TLS that mean that the port does not speak TLS. */
const speaksNoTls = /^EPROTO$|WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|UNKNOWN_PROTOCOL|HTTP_REQUEST/

/** A deadline passed. */
export class Timeout extends Data.TaggedError("Timeout")<{
  /** What the client waited for. `server`: the service waited for the request, and answered 408. */
  readonly phase: "connect" | "headers" | "body" | "attempt" | "server"
}> {
  override get message() {
    return {
      connect: "timed out: no connection was made in time.",
      headers: "timed out: the service did not begin to answer in time.",
      body: "timed out: the answer stalled.",
      attempt: "timed out: the answer took too long.",
      server: "timed out: the service gave up waiting for the request (408)."
    }[this.phase]
  }
}

/** The answer is not a page. */
export class MalformedResponse extends Data.TaggedError("MalformedResponse")<{
  /** Not HTTP, only part of a page, not JSON, JSON of another shape, or larger than the limits. */
  readonly kind: "notHttp" | "partial" | "notJson" | "wrongShape" | "tooLarge"
  /** Where the answer is wrong, such as `items[3].amount`. */
  readonly path: string
  /** For `wrongShape`, what was expected there. For `tooLarge`, the limit. Otherwise what was found. */
  readonly detail: string
}> {
  override get message() {
    return {
      notHttp: `malformed answer: ${this.detail}. Is this the API's address?`,
      partial: "malformed answer: only part of a page (content-range), but the whole page was requested.",
      notJson: `malformed answer: not JSON (${this.detail}). Is this the API's address?`,
      wrongShape: `malformed answer: ${this.path}: ${this.detail}.`,
      tooLarge: `malformed answer: larger than ${this.detail}.`
    }[this.kind]
  }
}

/** The listing cannot continue, and has not reached the end of the list. */
export class PaginationFault extends Data.TaggedError("PaginationFault")<{
  /** What is wrong with the cursors. `limitReached`: too many pages without new records (`PaymentsConfig.progress`). */
  readonly kind: "repeatedCursor" | "missingCursor" | "cursorRefused" | "limitReached"
}> {
  override get message() {
    return {
      repeatedCursor: "pagination fault: the service repeated a cursor, so the list would never end.",
      missingCursor:
        "pagination fault: the service returned a page without a cursor, so it is unknown whether the list continues.",
      cursorRefused: "pagination fault: the service no longer accepts the cursor. Start again without it.",
      limitReached: "pagination fault: too many pages in a row brought no new records, so the list may never end."
    }[this.kind]
  }
}

/** A record does not match the filter `field`: the service ignores the filter, or expects another parameter name. */
export class FilterNotApplied extends Data.TaggedError("FilterNotApplied")<{
  /** The field of the filter. */
  readonly field: string
}> {
  override get message() {
    return `the service did not apply the filter ${this.field}: it returned a record that does not match. ` +
      "For invoices, check the parameter's name (PAYMENTS_INVOICE_PARAMS)."
  }
}

/**
 * The answer is a redirect: 3xx. Redirects are never followed, so that the key is sent to the configured address only.
 */
export class RedirectRefused extends Data.TaggedError("RedirectRefused")<{
  /** 300 to 399. */
  readonly status: number
}> {
  override get message() {
    return `the service answered with a redirect (${this.status}), which is not followed. Set the final address.`
  }
}

/** The status is not a success, a redirect or an error. */
export class UnexpectedStatus extends Data.TaggedError("UnexpectedStatus")<{
  /** The status. */
  readonly status: number
}> {
  override get message() {
    return `unexpected status ${this.status}.`
  }
}

/** Why a page could not be read. */
export type Reason =
  | Unauthorized
  | Forbidden
  | NotFound
  | InvalidRequest
  | RateLimited
  | ServerFailure
  | Transport
  | Timeout
  | MalformedResponse
  | PaginationFault
  | FilterNotApplied
  | RedirectRefused
  | UnexpectedStatus

/** The body of an error answer. The document does not specify its shape (§7). */
export interface ErrorBody {
  /** The media type, without parameters, if it is a common one; `an unknown type` for any other. */
  readonly contentType: string | undefined
  /** The length in characters. */
  readonly length: number
  /**
   * The error code, if a common key such as `code` contains text that looks like one. That is capital words joined by
   * `_`, such as `BAD_FILTER`, or a well-known single word. A code that contains a key, a cursor or a filter value is
   * left out.
   */
  readonly code: string | undefined
  /** The whole body. It may contain personal data or parts of the request: unwrap it only where those may be shown. */
  readonly text: Redacted.Redacted<string>
}

/** The error of reading a page. */
export class PaymentsError extends Data.TaggedError("PaymentsError")<{
  /** The list. */
  readonly list: ListName
  /** What went wrong. */
  readonly reason: Reason
  /**
   * The number of requests that were sent for this page. 0 if no request failed: the client refused the query or a
   * cursor.
   */
  readonly attempts: number
  /** The status of the last answer, if there was one. */
  readonly status: number | undefined
  /** The id that the server gave the last request. Absent if it does not look like an id or could be a secret. */
  readonly requestId: string | undefined
  /** The address that the request was sent to, without its query. Absent if no request failed. */
  readonly address?: string | undefined
  /** The body of the last answer, if its status was an error. */
  readonly body: ErrorBody | undefined
  /**
   * The position from which the listing can continue. Absent if it must start from the first page, for example because
   * the service refused the cursor.
   */
  readonly position: Position | undefined
}> {
  override get message() {
    const facts = [
      ...(this.attempts > 1 ? [`${this.attempts} attempts`] : []),
      ...(this.body?.code === undefined ? [] : [`code ${this.body.code}`]),
      ...(this.requestId === undefined ? [] : [`request ${this.requestId}`])
    ]
    const { reason } = this
    const message = "messageAt" in reason ? reason.messageAt(this.address) : reason.message
    return `${byName[this.list].label}: ${message}${facts.length === 0 ? "" : ` [${facts.join(", ")}]`}`
  }
}
