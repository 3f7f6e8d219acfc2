/**
 * Spans and metrics of requests, after OpenTelemetry's conventions for HTTP clients. The query is left out: `url.full`
 * ends before the question mark, and no cursor, filter value or header is recorded.
 */
import { Cause, Clock, Effect, Exit, Metric, Tracer } from "effect"
import type { Failure } from "../model/Failure.ts"
import type { AnyList } from "../model/Lists.ts"
import { RequestObserver } from "../model/RequestObserver.ts"
import type { Pace } from "../pace/Pace.ts"

/** The duration in seconds, with the name and buckets of the conventions. */
const duration = Metric.histogram("http.client.request.duration", {
  description: "Duration of HTTP client requests, in seconds.",
  attributes: { unit: "s" },
  boundaries: Metric.boundariesFromIterable([
    0.005,
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.25,
    0.5,
    0.75,
    1,
    2.5,
    5,
    7.5,
    10
  ])
})

/** Returns the function from an outcome to its metric. */
const makeMetrics = (attributes: { readonly [name: string]: string }) => {
  const metrics = new Map<string, typeof duration>()
  return (status: number | undefined, error: string | undefined) => {
    const outcome = `${status} ${error}`
    const known = metrics.get(outcome)
    if (known !== undefined) return known
    const metric = Metric.withAttributes(duration, {
      ...attributes,
      ...(status === undefined ? {} : { "http.response.status_code": String(status) }),
      ...(error === undefined ? {} : { "error.type": error })
    })
    metrics.set(outcome, metric)
    return metric
  }
}

/**
 * Returns a function that observes each request of one list. It records a client span and the duration, logs the
 * request at the level debug, and calls the {@link RequestObserver}. `paceOf` returns the pace of the list. The ids of
 * spans are needed for trace headers.
 */
export const instrument = (address: URL, list: AnyList, paceOf: () => Pace, isSpanNeeded: boolean) => {
  const attributes = {
    "http.request.method": "GET",
    "server.address": address.hostname,
    "server.port": address.port === "" ? address.protocol === "https:" ? 443 : 80 : Number(address.port),
    "url.template": list.path
  }
  const name = `GET ${list.path}`
  const spanAttributes = { ...attributes, "url.full": address.href, "url.scheme": address.protocol.slice(0, -1) }
  const metricOf = makeMetrics({ ...attributes, "server.port": String(attributes["server.port"]) })
  /** `resend` is the number of earlier requests for the same page. */
  return <A extends { readonly answer: { readonly status: number } }>(
    resend: number,
    exchange: Effect.Effect<A, Failure>
  ): Effect.Effect<A, Failure> =>
    inSpan(
      name,
      {
        isNeeded: isSpanNeeded,
        kind: "client",
        attributes: resend === 0 ? spanAttributes : { ...spanAttributes, "http.request.resend_count": resend }
      },
      exchange,
      (exit, span, elapsed) => {
        const failure = Exit.isFailure(exit) ? exit.cause.reasons.find(Cause.isFailReason)?.error : undefined
        const status = Exit.isSuccess(exit) ? exit.value.answer.status : failure?.status
        // An interruption comes from the caller, so it is not recorded as an error.
        const error = failure === undefined
          ? undefined
          : failure.status !== undefined && failure.status >= 400
          ? String(failure.status)
          : failure.reason._tag
        if (status !== undefined) span?.attribute("http.response.status_code", status)
        if (error !== undefined) span?.attribute("error.type", error)
        const seconds = Number(elapsed) / 1e9
        const result = Exit.isSuccess(exit) ? "Succeeded" : failure?.reason._tag
        return Effect.flatMap(RequestObserver, (observe) => {
          if (result !== undefined) {
            const { isShared, rate } = paceOf()
            const maxPerSecond = rate()
            observe({
              list: list.name,
              result,
              seconds,
              maxPerSecond: Number.isFinite(maxPerSecond) ? maxPerSecond : undefined,
              isRateShared: isShared()
            })
          }
          const outcome = result === "Succeeded" || result === undefined ? "" : `: ${result}`
          return Effect.andThen(
            Effect.logDebug(
              `${list.label}: request ${status === undefined ? "without an answer" : `answered with ${status}`} after ${
                Math.round(seconds * 1000)
              } ms${outcome}`
            ),
            Metric.update(metricOf(status, error), seconds)
          )
        })
      }
    )
}

/**
 * Runs an effect in a span. The span records whether the effect succeeded, but not its value: spans may be kept for
 * long, and a page is large. It is made only if a tracer receives it or its ids are needed.
 */
export const inSpan = <A, E>(
  name: string,
  { isNeeded, ...options }: Tracer.SpanOptionsNoTrace & {
    /** Whether the ids of the span are needed, also if no tracer receives it. */
    readonly isNeeded: boolean
  },
  effect: Effect.Effect<A, E>,
  /** Called at the end, with the nanoseconds that the effect took. */
  onEnd?: (exit: Exit.Exit<A, E>, span: Tracer.Span | undefined, elapsed: bigint) => Effect.Effect<void>
): Effect.Effect<A, E> =>
  Effect.withFiber((fiber) => {
    const isTraced = isNeeded || fiber.getRef(Tracer.Tracer) !== Tracer.nativeTracer
    if (!isTraced && onEnd === undefined) return effect
    const clock = fiber.getRef(Clock.Clock)
    const startedAt = clock.monotonicTimeNanosUnsafe()
    const end = (span: Tracer.Span | undefined) => (exit: Exit.Exit<A, E>) => {
      const elapsed = clock.monotonicTimeNanosUnsafe() - startedAt
      const recorded = onEnd?.(exit, span, elapsed)
      // Compute the end from the monotonic clock: the wall clock may have been set since the span started.
      span?.end(span.status.startTime + elapsed, Exit.asVoid(exit))
      return recorded ?? Effect.void
    }
    return isTraced
      ? Effect.flatMap(Effect.makeSpan(name, options), (span) =>
        Effect.onExit(Effect.provideService(effect, Tracer.ParentSpan, span), end(span)))
      : Effect.onExit(effect, end(undefined))
  })
