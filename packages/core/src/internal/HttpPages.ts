/**
 * Pages over any `HttpClient`. Holds over each of them: no redirect is followed, an attempt ends within its deadlines, a
 * body larger than the cap is refused, and nothing of a request's query reaches a span or an error.
 */
import { ByteSize, Effect, Redacted, Stream } from "effect"
import {
  FetchHttpClient,
  HttpClient,
  type HttpClientError,
  HttpClientRequest,
  type HttpClientResponse,
  HttpTraceContext
} from "effect/http"
import type { PaymentsConfig } from "../PaymentsConfig.ts"
import { MalformedResponse, type Reason, Timeout, Transport } from "../PaymentsError.ts"
import { addressOf } from "./Observed.ts"
import type { PageRequest, PageSource, RawAnswer } from "./PageSource.ts"

/** Asks the configured service. */
export const makeHttpPages =
  (config: PaymentsConfig["Service"], client: HttpClient.HttpClient): PageSource => (request, key) =>
    Effect.flatMap(traced(config, toHttpRequest(config, request, key)), client.execute).pipe(
      Effect.mapError(toReason),
      Effect.timeoutOrElse({
        duration: config.deadlines.headers,
        orElse: () => Effect.fail(new Timeout({ phase: "headers" }))
      }),
      Effect.flatMap((response) => readBody(config, response)),
      Effect.timeoutOrElse({
        duration: config.deadlines.attempt,
        orElse: () => Effect.fail(new Timeout({ phase: "attempt" }))
      }),
      Effect.provideService(HttpClient.TracerDisabledWhen, () => true),
      Effect.provideService(HttpClient.TracerPropagationEnabled, false),
      Effect.provideService(FetchHttpClient.RequestInit, { redirect: "manual" })
    )

const toHttpRequest = (
  config: PaymentsConfig["Service"],
  request: PageRequest,
  key: Redacted.Redacted<string>
): HttpClientRequest.HttpClientRequest => {
  const ofInvoices = request.list.service === "invoices"
  const names: Readonly<Record<string, string>> = ofInvoices ? config.invoiceParameters : {}
  const pairs = Object.entries({
    ...request.filters,
    limit: String(request.limit),
    ...(request.cursor === undefined ? {} : { cursor: request.cursor })
  })
  return HttpClientRequest.get(addressOf(config, request.list) + request.list.path, {
    // Redacted parameters are sent as they are and stay out of spans and error messages.
    urlParams: pairs.map(([field, value]) => [names[field] ?? field, Redacted.make(value)] as const),
    acceptJson: true
  }).pipe(HttpClientRequest.bearerToken(key))
}

/** With the current span's `traceparent`, where the service may know of it (W3C Trace Context). */
const traced = (config: PaymentsConfig["Service"], request: HttpClientRequest.HttpClientRequest) =>
  config.traceHeaders
    ? Effect.matchEager(Effect.currentSpan, {
      onFailure: () => request,
      onSuccess: (span) =>
        HttpClientRequest.setHeader(request, "traceparent", HttpTraceContext.toHeaders(span)["traceparent"] ?? "")
    })
    : Effect.succeed(request)

const readBody = Effect.fnUntraced(function*(
  { deadlines, largestBodyBytes }: PaymentsConfig["Service"],
  response: HttpClientResponse.HttpClientResponse
) {
  const largest = ByteSize.bytes(largestBodyBytes)
  const tooLarge = new MalformedResponse({ kind: "tooLarge", path: "(root)", expected: ByteSize.format(largest) })
  const chunks = yield* response.stream.pipe(
    Stream.mapError((error): Reason =>
      error.reason._tag === "EmptyBodyError" ? empty : new Transport({ kind: "truncated", code: codeOf(error) })
    ),
    Stream.limitBytes<Reason, never>(largest, () => Stream.fail(tooLarge)),
    Stream.timeoutOrElse({ duration: deadlines.stalled, orElse: () => Stream.fail(new Timeout({ phase: "body" })) }),
    Stream.runCollect,
    Effect.catchIf((reason) => reason === empty, () => Effect.succeed([]))
  )
  const answer: RawAnswer = { status: response.status, headers: response.headers, text: yield* decodeUtf8(chunks) }
  return answer
})

const empty: Reason = new Transport({ kind: "other" })

/** Fails on bytes that are not UTF-8 (RFC 8259 §8.1) rather than put other characters in their place. */
const decodeUtf8 = (chunks: ReadonlyArray<Uint8Array>): Effect.Effect<string, Reason> => {
  const decoder = new TextDecoder("utf-8", { fatal: true })
  return Effect.try({
    try: () => chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join(""),
    catch: () => new MalformedResponse({ kind: "notJson", path: "(root)", expected: "bytes that are not UTF-8" })
  }).pipe(
    Effect.tap(Effect.try({
      try: () => decoder.decode(),
      // The last character is not whole: its rest did not come.
      catch: () => new Transport({ kind: "truncated" })
    }))
  )
}

/** Why no answer came, from the codes that Node and undici put on their errors. Their messages may hold the address. */
const toReason = (error: HttpClientError.HttpClientError): Reason => {
  const code = codeOf(error)
  if (code === undefined) return new Transport({ kind: "other" })
  if (code === "UND_ERR_CONNECT_TIMEOUT" || code === "ETIMEDOUT") return new Timeout({ phase: "connect" })
  if (code === "ECONNREFUSED") return new Transport({ kind: "refused", code })
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return new Transport({ kind: "nameNotFound", code })
  if (code === "ECONNRESET" || code === "EPIPE" || code === "UND_ERR_SOCKET") {
    return new Transport({ kind: "reset", code })
  }
  if (/CERT|TLS|SSL|VERIFY|SIGNATURE/.test(code)) return new Transport({ kind: "tls", code })
  return new Transport({ kind: "other", code })
}

/** The first system code along the chain of causes. */
const codeOf = (error: unknown): string | undefined => {
  let current = error
  for (let depth = 0; depth < 8 && typeof current === "object" && current !== null; depth++) {
    if ("code" in current && typeof current.code === "string" && /^[A-Z0-9_]{1,64}$/.test(current.code)) {
      return current.code
    }
    current = "errors" in current && Array.isArray(current.errors) && current.errors.length > 0
      ? current.errors[0]
      : "reason" in current
      ? current.reason
      : "cause" in current
      ? current.cause
      : undefined
  }
  return undefined
}
