/** Derives the reason of a connection failure from the error code of the system. */
import { MalformedResponse, type Reason, Timeout, Transport } from "../model/PaymentsError.ts"

/**
 * Returns the first system code in the error's chain of causes, such as `ECONNRESET`. The error's message is not
 * used, because it may contain the URL with its query.
 */
export const systemCode = (error: unknown): string | undefined => {
  for (const cause of causesOf(error)) {
    if ("code" in cause && typeof cause.code === "string" && /^[A-Z0-9_]{1,64}$/.test(cause.code)) return cause.code
  }
  return undefined
}

/** Yields an error and its causes, at most 8. */
function* causesOf(error: unknown): Iterable<object> {
  let current = error
  for (let depth = 0; depth < 8 && typeof current === "object" && current !== null; depth++) {
    yield current
    current = causeOf(current)
  }
}

const causeOf = (error: object): unknown => {
  if ("errors" in error && Array.isArray(error.errors) && error.errors.length > 0) return error.errors[0]
  if ("reason" in error) return error.reason
  return "cause" in error ? error.cause : undefined
}

/** Returns the reason if undici refused an answer as malformed HTTP; otherwise undefined. */
const notHttp = (error: unknown): Reason | undefined => {
  if (systemCode(error) === "UND_ERR_HEADERS_OVERFLOW") return headersTooLong
  for (const cause of causesOf(error)) {
    // Errors of undici's parser have no code. EOF means that the connection ended early, which is not malformed HTTP.
    if ("name" in cause && cause.name === "HTTPParserError") {
      return "message" in cause && /\bEOF\b/.test(String(cause.message)) ? undefined : unparsable
    }
  }
  return undefined
}

const headersTooLong: Reason = new MalformedResponse({
  kind: "notHttp",
  path: "",
  detail: "its headers are longer than 16 KiB"
})

const unparsable: Reason = new MalformedResponse({ kind: "notHttp", path: "", detail: "it is not HTTP" })

/** Returns the reason why the body of an answer ended early. */
export const bodyReason = (error: unknown): Reason =>
  notHttp(error) ?? new Transport({ kind: "truncated", code: systemCode(error) })

/** Returns the reason why there was no answer, from the error codes of Node and undici. */
export const connectionReason = (error: unknown): Reason => {
  const malformed = notHttp(error)
  if (malformed !== undefined) return malformed
  const code = systemCode(error)
  if (code === undefined) return new Transport({ kind: "other" })
  // Before the body, this code means that the headers contain two different lengths.
  if (code === "UND_ERR_RES_CONTENT_LENGTH_MISMATCH") return unparsable
  if (code === "UND_ERR_CONNECT_TIMEOUT" || code === "ETIMEDOUT") return new Timeout({ phase: "connect" })
  if (code === "ECONNREFUSED") return new Transport({ kind: "refused", code })
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return new Transport({ kind: "nameNotFound", code })
  if (code === "ECONNRESET" || code === "EPIPE" || code === "UND_ERR_SOCKET") {
    return new Transport({ kind: "reset", code })
  }
  if (code === "EPROTO" || /CERT|TLS|SSL|VERIFY|SIGNATURE/.test(code)) return new Transport({ kind: "tls", code })
  return new Transport({ kind: "other", code })
}
