/**
 * Requests pages over any `HttpClient`. With every client, no redirect is followed, an attempt ends within its
 * deadlines, and a body larger than the limit is refused. No part of the query appears in a span or an error.
 */
import { type Clock, Context, Effect, Redacted, Result, Stream, Tracer } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, type HttpClientResponse, HttpTraceContext } from "effect/http"
import { announcedLength, BodyBytes } from "../config/BodyBytes.ts"
import { type Deadlines, PaymentsConfig } from "../config/PaymentsConfig.ts"
import { bodyReason, connectionReason } from "../config/SystemCode.ts"
import * as Lists from "../model/Lists.ts"
import * as Monotonic from "../model/Monotonic.ts"
import { MalformedResponse, type Reason, Timeout, Transport } from "../model/PaymentsError.ts"
import { type AttemptProgress, nextCheckAt, nextDeadline } from "./Deadline.ts"
import type { PageRequest, RawAnswer, SendRequest } from "./PageRequest.ts"
import { notDecoded, tooLarge, type TunedReadAnswer, tunedReadOf } from "./TunedRead.ts"

/** Returns the function that sends requests to the configured service. */
export const makeHttpPages = (config: PaymentsConfig["Service"], client: HttpClient.HttpClient): SendRequest => {
  const send = makeSend(config, client)
  return config.traceHeaders
    ? (request, key) => Effect.flatMap(traceparent, (trace) => send(request, key, trace))
    : send
}

type Send = (request: PageRequest, key: Redacted.Redacted<string>, trace?: Header) => Effect.Effect<RawAnswer, Reason>

type Header = Readonly<Record<string, string>>

const makeSend = (config: PaymentsConfig["Service"], client: HttpClient.HttpClient): Send => {
  const addresses = Lists.map((list) => PaymentsConfig.addressOf(config, list))
  const read = tunedReadOf(client)
  const { deadlines, largestBodyBytes } = config
  if (read === undefined) {
    return (request, key, trace) => {
      const get = HttpClientRequest.get(addresses[request.list.name].href, {
        // Redacted parameters are sent unchanged, and stay out of spans and error messages.
        urlParams: parametersOf(config, request).map(([name, value]) => [name, Redacted.make(value)] as const),
        acceptJson: true,
        ...(trace === undefined ? {} : { headers: trace })
      })
      return exchange(config, client, HttpClientRequest.bearerToken(get, key))
    }
  }
  return (request, key, trace) => {
    const { origin, pathname } = addresses[request.list.name]
    return Effect.flatMap(
      read({
        origin,
        path: `${pathname}?${new URLSearchParams(parametersOf(config, request))}`,
        headers: { accept: "application/json", authorization: `Bearer ${Redacted.value(key)}`, ...trace },
        deadlines,
        maxBytes: largestBodyBytes
      }),
      (answer) =>
        Effect.map(toAnswer(answer), (decoded) => {
          freeLarge(answer.bytes)
          return decoded
        })
    )
  }
}

const largeBody = 1024 * 1024

/** Frees the memory of a large body at once. Otherwise several of them could wait for the garbage collector. */
const freeLarge = ({ buffer }: Uint8Array): void => {
  if (buffer.byteLength >= largeBody && buffer instanceof ArrayBuffer) buffer.transfer(0)
}

const toAnswer = ({ bytes, headers, status }: TunedReadAnswer): Effect.Effect<RawAnswer, Reason> =>
  Effect.fromResult(Result.map(decodeUtf8(bytes, headers["content-encoding"]), (text) => ({ status, headers, text })))

const parametersOf = (
  config: PaymentsConfig["Service"],
  { cursor, filters, limit, list }: PageRequest
): Array<[name: string, value: string]> => {
  const values = { ...filters, limit: String(limit), ...(cursor === undefined ? {} : { cursor }) }
  return Object.entries(values).map(([field, value]) => [
    Lists.parameterName(list, field, config.invoiceParameters),
    value
  ])
}

/** The `traceparent` header of the current span (W3C Trace Context). */
const traceparent: Effect.Effect<Header> = Effect.matchEager(Effect.currentSpan, {
  onFailure: () => ({}),
  onSuccess: (span) => ({ traceparent: HttpTraceContext.toHeaders(span)["traceparent"] ?? "" })
})

const exchange = (
  config: PaymentsConfig["Service"],
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest
): Effect.Effect<RawAnswer, Reason> =>
  withinDeadlines(config.deadlines, (progress, clock) =>
    client.execute(request).pipe(
      Effect.mapError(connectionReason),
      Effect.flatMap((response) => {
        const { headers, status } = response
        const onBytes = () => {
          progress.lastBytesAt = Monotonic.millisUnsafe(clock)
        }
        progress.phase = "body"
        onBytes()
        return Effect.flatMap(
          readBody(response, config.largestBodyBytes, onBytes),
          (bytes) => toAnswer({ status, headers, bytes })
        )
      })
    )).pipe(Effect.updateContext(withClientOptions))

/**
 * Disables the spans, the trace headers and the redirects of the HTTP client. Removes the caller's span too: the
 * runtime can keep a finished request in memory for a while, and with its span the whole page.
 */
const withClientOptions = (context: Context.Context<never>): Context.Context<never> =>
  Context.merge(Context.omit(Tracer.ParentSpan)(context), clientOptions)

const clientOptions = Context.empty().pipe(
  Context.add(HttpClient.TracerDisabledWhen, () => true),
  Context.add(HttpClient.TracerPropagationEnabled, false),
  Context.add(FetchHttpClient.RequestInit, { redirect: "manual" })
)

/** Ends an attempt when a deadline passes. One fiber waits for all deadlines; chunks of the body do not restart it. */
const withinDeadlines = <A, R>(
  deadlines: Deadlines,
  attempt: (progress: AttemptProgress, clock: Clock.Clock) => Effect.Effect<A, Reason, R>
): Effect.Effect<A, Reason, R> =>
  Effect.clockWith((clock) => {
    const startedAt = Monotonic.millisUnsafe(clock)
    const progress: AttemptProgress = { startedAt, phase: "headers", lastBytesAt: startedAt }
    const watch = Effect.gen(function*() {
      for (;;) {
        const now = Monotonic.millisUnsafe(clock)
        const next = nextDeadline(deadlines, progress)
        if (next.at <= now) return yield* new Timeout({ phase: next.phase })
        yield* Effect.sleep(nextCheckAt(deadlines, progress, now) - now)
      }
    })
    // Pass the value in a variable and clear it: the runtime can keep the finished race and its result in memory for a
    // while.
    let outcome: A | undefined
    const stored = Effect.map(attempt(progress, clock), (value) => {
      outcome = value
    })
    return Effect.map(Effect.raceFirst(stored, watch), () => {
      const value = outcome as A // `watch` never succeeds
      outcome = undefined
      return value
    })
  })

const readBody = (
  response: HttpClientResponse.HttpClientResponse,
  largestBody: number,
  onBytes: () => void
): Effect.Effect<Uint8Array, Reason> => {
  const body = new BodyBytes(largestBody)
  const announced = announcedLength(response.headers)
  return response.stream.pipe(
    Stream.mapError((error): Reason => error.reason._tag === "EmptyBodyError" ? emptyBody : bodyReason(error)),
    Stream.runForEachArray((chunks) => {
      onBytes()
      for (const chunk of chunks) body.add(chunk, announced)
      return body.size > largestBody ? Effect.fail(tooLarge(largestBody)) : Effect.void
    }),
    Effect.catchIf((reason) => reason === emptyBody, () => Effect.void),
    Effect.map(() => body.finish())
  )
}

/** Stands for an empty body in the stream. Not an error: {@link readBody} returns no bytes for it. */
const emptyBody: Reason = new Transport({ kind: "other" })

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** Decodes UTF-8. Fails on other bytes (RFC 8259 §8.1) instead of replacing them. */
const decodeUtf8 = (bytes: Uint8Array, coding: string | undefined): Result.Result<string, Reason> => {
  try {
    return Result.succeed(utf8.decode(bytes))
  } catch {
    // If only the rest of the last character is missing, the body ended early.
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
  detail: "bytes that are not UTF-8"
})
