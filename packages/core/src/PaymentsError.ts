/**
 * What can go wrong when a page is read: one error, with a tagged reason.
 *
 * `message` is one line that a person can act on. Neither it nor any plain field holds a key, a cursor, a filter value
 * or free text from the server: the position is `Redacted`, and so is the body, which only {@link ErrorBody.text} opens.
 *
 * | reason | when | retried | exit code |
 * |---|---|---|---|
 * | `Unauthorized` | 401 | once, with the key file read again | 4 |
 * | `Forbidden` | 403 | no | 4 |
 * | `NotFound` | 404 | no | 5 |
 * | `InvalidRequest` | any other 4xx, or a query refused before any request | no | 5 |
 * | `RateLimited` | 429 | yes | 6 |
 * | `ServerFailure` | 5xx | 500, 502, 503, 504 | 7 |
 * | `Transport` | refused, reset, name not found, TLS, a body that ends early | all but TLS | 7 |
 * | `Timeout` | no headers, a stalled body, an attempt too long, 408 | yes | 7 |
 * | `MalformedResponse` | an answer that is not HTTP, a part of a page, or complete and not a page | no | 8 |
 * | `PaginationFault` | a cursor that repeats, is missing or is refused; pages that bring nothing new | no | 8 |
 * | `FilterNotApplied` | a record without the value that was asked for | no | 8 |
 * | `RedirectRefused` | any 3xx | no | 8 |
 * | `UnexpectedStatus` | any other status | no | 8 |
 */
import { Data, Duration, type Redacted } from "effect"
import { byName, type ListName } from "./Lists.ts"
import type { Position } from "./Position.ts"

/** The server did not accept the key: 401. */
export class Unauthorized extends Data.TaggedError("Unauthorized")<{
  /** Why the key could not be read again, where it comes from a file. */
  readonly problem?: string | undefined
}> {
  /** Without facts unless given. */
  constructor(facts: { readonly problem?: string | undefined } = {}) {
    super(facts)
  }

  override get message() {
    return `not authorized: the service did not accept the key (401). ${
      this.problem ?? "Check the key, and that it belongs to this address."
    }`
  }
}

/** The key is known but may not read this list: 403. */
export class Forbidden extends Data.TaggedError("Forbidden")<{}> {
  override get message() {
    return "forbidden: the key may not read this list (403)."
  }
}

/** The address has no such list: 404. */
export class NotFound extends Data.TaggedError("NotFound")<{}> {
  override get message() {
    return "not found (404). Check the base address: the version (/v0, /v1) is added to it."
  }
}

/** The request was refused, by the service (`status`) or, before any request, here (`problem`). */
export class InvalidRequest extends Data.TaggedError("InvalidRequest")<{
  /** The service's answer; absent where the query was refused here. */
  readonly status?: number | undefined
  /** What is wrong, naming fields but never their values. */
  readonly problem?: string | undefined
}> {
  override get message() {
    return this.problem ?? `the service refused the request (${this.status}). Check the filters and parameter names.`
  }
}

/** Too many requests: 429. `retryAfter` is the wait the server asked for, where it gave a usable one. */
export class RateLimited extends Data.TaggedError("RateLimited")<{
  /** The wait the server asked for, if it gave a usable one. */
  readonly retryAfter: Duration.Duration | undefined
}> {
  override get message() {
    return this.retryAfter === undefined
      ? "rate limited (429)."
      : `rate limited (429): the service asks to wait ${Duration.format(this.retryAfter)}.`
  }
}

/** The service failed: 5xx. `retryAfter` is the wait it asked for, where it gave a usable one. */
export class ServerFailure extends Data.TaggedError("ServerFailure")<{
  /** 500 to 599. */
  readonly status: number
  /** The wait the server asked for, if it gave a usable one. */
  readonly retryAfter: Duration.Duration | undefined
}> {
  override get message() {
    return `the service failed (${this.status}).`
  }
}

/** No complete answer came. `code` is the system's own, such as `ECONNREFUSED`, where it gave one. */
export class Transport extends Data.TaggedError("Transport")<{
  /** What broke; `other` where the system did not say. */
  readonly kind: "refused" | "reset" | "nameNotFound" | "tls" | "truncated" | "other"
  /** The system's code, such as `ECONNREFUSED`. */
  readonly code?: string | undefined
}> {
  override get message() {
    const code = this.code === undefined ? "" : ` (${this.code})`
    return {
      refused: `the service could not be reached: connection refused${code}. Check the address and that it is up.`,
      reset: `the connection was cut before the answer was complete${code}.`,
      nameNotFound: `the service could not be reached: its name was not found${code}. Check the address.`,
      tls: `no secure connection could be made${code}${
        speaksNoTls.test(this.code ?? "")
          ? ": the port does not speak TLS. Check the address: its port, or http:// to this machine."
          : ". Check the certificate and its authority."
      }`,
      truncated: `the answer ended early${code}.`,
      other: `the service could not be reached${code}.`
    }[this.kind]
  }
}

/** Codes that TLS reports where the other side does not speak TLS. */
const speaksNoTls = /^EPROTO$|WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|UNKNOWN_PROTOCOL|HTTP_REQUEST/

/** It took too long: until the headers, between two parts of the body, or for the whole attempt; `server` is a 408. */
export class Timeout extends Data.TaggedError("Timeout")<{
  /** What was waited for; `server` is a 408. */
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

/** The answer is not a page: `path` says where, `expected` what should be there. */
export class MalformedResponse extends Data.TaggedError("MalformedResponse")<{
  /** Not HTTP, a part of a page, not JSON, JSON of another shape, or more than is read. */
  readonly kind: "notHttp" | "partial" | "notJson" | "wrongShape" | "tooLarge"
  /** Where, such as `items[3].amount`. */
  readonly path: string
  /** What should be there. */
  readonly expected: string
}> {
  override get message() {
    return {
      notHttp: `malformed answer: ${this.expected}. Is this the API's address?`,
      partial: "malformed answer: a part of a page (content-range), where the whole page was asked for.",
      notJson: `malformed answer: not JSON (${this.expected}). Is this the API's address?`,
      wrongShape: `malformed answer: ${this.path}: ${this.expected}.`,
      tooLarge: `malformed answer: larger than ${this.expected}.`
    }[this.kind]
  }
}

/**
 * The list cannot be followed further: its end was not reached. `limitReached` says that page after page brought nothing
 * new (`PaymentsConfig.progress`).
 */
export class PaginationFault extends Data.TaggedError("PaginationFault")<{
  /** What is wrong with the cursor. */
  readonly kind: "repeatedCursor" | "missingCursor" | "cursorRefused" | "limitReached"
}> {
  override get message() {
    return {
      repeatedCursor:
        "pagination fault: the service sent a cursor that it had sent before, so the list would never end.",
      missingCursor: "pagination fault: a page came without a cursor, so its end cannot be told from a cut.",
      cursorRefused: "pagination fault: the service no longer accepts the cursor. Start again without it.",
      limitReached: "pagination fault: page after page brings nothing new, so the list may never end."
    }[this.kind]
  }
}

/** A record came that does not carry the value asked for in `field`: the service ignores the filter or names it otherwise. */
export class FilterNotApplied extends Data.TaggedError("FilterNotApplied")<{
  /** The filter, by its field's name. */
  readonly field: string
}> {
  override get message() {
    return `the service did not apply the filter ${this.field}: a record came without the value asked for. ` +
      "For invoices, check the parameter's name (PAYMENTS_INVOICE_PARAMS)."
  }
}

/** A redirect, which is never followed: the key stays with the address it was given for. */
export class RedirectRefused extends Data.TaggedError("RedirectRefused")<{
  /** 300 to 399. */
  readonly status: number
}> {
  override get message() {
    return `the service answered with a redirect (${this.status}), which is not followed. Set the final address.`
  }
}

/** A status that is neither success, redirect nor error. */
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

/** What may be said of the body of an error answer, whose shape the document does not show (§7). */
export interface ErrorBody {
  /** Its media type, without parameters, if it is a usual one; `an unknown type` for any other. */
  readonly contentType: string | undefined
  /** Characters. */
  readonly length: number
  /**
   * A code that stands under a usual key and looks like one: words of capitals joined by `_`, such as `BAD_FILTER`, or one
   * of the usual words. None that holds a key, a cursor or a filter value of this client.
   */
  readonly code: string | undefined
  /** The body itself. It may hold personal data or an echo of the request: open it only where that may be shown. */
  readonly text: Redacted.Redacted<string>
}

/** Reading a page failed. */
export class PaymentsError extends Data.TaggedError("PaymentsError")<{
  /** The list that was read. */
  readonly list: ListName
  /** What happened. */
  readonly reason: Reason
  /** Requests made for this page. */
  readonly attempts: number
  /** The status of the last answer, if one came. */
  readonly status: number | undefined
  /** The id the server gave the last request, if it gave one that looks like an id and like no secret. */
  readonly requestId: string | undefined
  /** Of the last answer, where it was an error. */
  readonly body: ErrorBody | undefined
  /** From where the listing can go on; absent where that is its start, as when the cursor itself is the fault. */
  readonly position: Position | undefined
}> {
  override get message() {
    const facts = [
      ...(this.attempts > 1 ? [`${this.attempts} attempts`] : []),
      ...(this.body?.code === undefined ? [] : [`code ${this.body.code}`]),
      ...(this.requestId === undefined ? [] : [`request ${this.requestId}`])
    ]
    return `${byName[this.list].label}: ${this.reason.message}${facts.length === 0 ? "" : ` [${facts.join(", ")}]`}`
  }
}
