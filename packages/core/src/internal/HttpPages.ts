/**
 * Pages over any `HttpClient`. Holds over each of them: no redirect is followed, an attempt ends within its deadlines, a
 * body larger than the cap is refused, and nothing of a request's query reaches a span or an error.
 */
import { type Clock, Context, Duration, Effect, Redacted, Result, Stream, Tracer } from "effect"
import {
  FetchHttpClient,
  HttpClient,
  type HttpClientError,
  HttpClientRequest,
  type HttpClientResponse,
  HttpTraceContext
} from "effect/http"
import type { Deadlines, PaymentsConfig } from "../PaymentsConfig.ts"
import { MalformedResponse, type Reason, Timeout, Transport } from "../PaymentsError.ts"
import { addressOf } from "./Observed.ts"
import type { PageRequest, PageSource, RawAnswer } from "./PageSource.ts"
import { systemCode } from "./SystemCode.ts"
import { notDecoded, tooLarge, wholeBody, wholeBodyOf } from "./WholeBody.ts"

/** Asks the configured service. */
export const makeHttpPages =
  (config: PaymentsConfig["Service"], client: HttpClient.HttpClient): PageSource => (request, key) => {
    const plain = toHttpRequest(config, request, key)
    return config.traceHeaders
      ? Effect.flatMap(traced(plain), (known) => exchange(config, client, known))
      : exchange(config, client, plain)
  }

const exchange = (
  config: PaymentsConfig["Service"],
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest
): Effect.Effect<RawAnswer, Reason> =>
  withinDeadlines(config.deadlines, (progress, clock) =>
    client.execute(request).pipe(
      Effect.mapError(toReason),
      Effect.flatMap((response) => {
        const { headers, status } = response
        const onBytes = () => {
          progress.movedAt = clock.currentTimeMillisUnsafe()
        }
        progress.phase = "body"
        onBytes()
        return Effect.flatMap(readBody(response, config.largestBodyBytes, onBytes), (bytes) =>
          Effect.fromResult(
            Result.map(
              decodeUtf8(bytes, headers["content-encoding"]),
              (text): RawAnswer => ({ status, headers, text })
            )
          ))
      })
    )).pipe(Effect.updateContext(quieted))

/**
 * No span of the client's own, no trace headers, no redirect followed. The caller's span is left out too: a request is
 * remembered by the runtime for a while, and through its span all that the page holds would be.
 */
const quieted = (context: Context.Context<never>): Context.Context<never> =>
  Context.merge(Context.omit(Tracer.ParentSpan)(context), quiet)

const quiet = Context.empty().pipe(
  Context.add(HttpClient.TracerDisabledWhen, () => true),
  Context.add(HttpClient.TracerPropagationEnabled, false),
  Context.add(FetchHttpClient.RequestInit, { redirect: "manual" })
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

/** With the current span's `traceparent`, for a service that may know of it (W3C Trace Context). */
const traced = (request: HttpClientRequest.HttpClientRequest) =>
  Effect.matchEager(Effect.currentSpan, {
    onFailure: () => request,
    onSuccess: (span) =>
      HttpClientRequest.setHeader(request, "traceparent", HttpTraceContext.toHeaders(span)["traceparent"] ?? "")
  })

/** How far an attempt has come. */
interface Progress {
  readonly startedAt: number
  phase: "headers" | "body"
  /** When bytes last came. */
  movedAt: number
}

/** Ends an attempt when a deadline passes. One fiber sleeps from deadline to deadline, however many parts a body has. */
const withinDeadlines = <A, R>(
  deadlines: Deadlines,
  attempt: (progress: Progress, clock: Clock.Clock) => Effect.Effect<A, Reason, R>
): Effect.Effect<A, Reason, R> =>
  Effect.clockWith((clock) => {
    const startedAt = clock.currentTimeMillisUnsafe()
    const progress: Progress = { startedAt, phase: "headers", movedAt: startedAt }
    const watch = Effect.gen(function*() {
      for (;;) {
        const next = nextDeadline(deadlines, progress)
        const left = next.at - clock.currentTimeMillisUnsafe()
        if (left <= 0) return yield* new Timeout({ phase: next.phase })
        yield* Effect.sleep(left)
      }
    })
    let outcome: A | undefined
    const kept = Effect.map(attempt(progress, clock), (value) => {
      outcome = value
    })
    return Effect.map(Effect.raceFirst(kept, watch), () => {
      const value = outcome as A // the watch never succeeds
      outcome = undefined
      return value
    })
  })

const nextDeadline = (
  deadlines: Deadlines,
  { movedAt, phase, startedAt }: Progress
): { readonly at: number; readonly phase: Timeout["phase"] } => {
  const whole = startedAt + Duration.toMillis(deadlines.attempt)
  const step = phase === "headers"
    ? startedAt + Duration.toMillis(deadlines.headers)
    : movedAt + Duration.toMillis(deadlines.stalled)
  return step < whole ? { at: step, phase } : { at: whole, phase: "attempt" }
}

const readBody = (
  response: HttpClientResponse.HttpClientResponse,
  largestBody: number,
  onBytes: () => void
): Effect.Effect<Uint8Array, Reason> => {
  const whole = wholeBodyOf(response)
  if (whole !== undefined) return whole[wholeBody](largestBody, onBytes)
  const chunks: Array<Uint8Array> = []
  let size = 0
  return response.stream.pipe(
    Stream.mapError((error): Reason =>
      error.reason._tag === "EmptyBodyError" ? empty : new Transport({ kind: "truncated", code: systemCode(error) })
    ),
    Stream.runForEachArray((some) => {
      onBytes()
      for (const chunk of some) {
        chunks.push(chunk)
        size += chunk.length
      }
      return size > largestBody ? Effect.fail(tooLarge(largestBody)) : Effect.void
    }),
    Effect.catchIf((reason) => reason === empty, () => Effect.void),
    Effect.map(() => concat(chunks, size))
  )
}

const empty: Reason = new Transport({ kind: "other" })

const concat = (chunks: ReadonlyArray<Uint8Array>, size: number): Uint8Array => {
  const [only] = chunks
  if (chunks.length === 1 && only !== undefined) return only
  const all = new Uint8Array(size)
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** Fails on bytes that are not UTF-8 (RFC 8259 §8.1) rather than put other characters in their place. */
const decodeUtf8 = (bytes: Uint8Array, coding: string | undefined): Result.Result<string, Reason> => {
  try {
    return Result.succeed(utf8.decode(bytes))
  } catch {
    // What only lacks the rest of its last character was cut; the rest did not come.
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true })
      return Result.fail(new Transport({ kind: "truncated" }))
    } catch {
      return Result.fail(coding === undefined || coding === "identity" ? notUtf8 : notDecoded)
    }
  }
}

const notUtf8: Reason = new MalformedResponse({
  kind: "notJson",
  path: "(root)",
  expected: "bytes that are not UTF-8"
})

/** Why no answer came, from the codes that Node and undici put on their errors. Their messages may hold the address. */
const toReason = (error: HttpClientError.HttpClientError): Reason => {
  const code = systemCode(error)
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
