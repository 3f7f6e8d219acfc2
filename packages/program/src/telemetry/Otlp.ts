/**
 * The export of traces, metrics and logs over OTLP. `telemetry.ts` loads this module only if the environment names a
 * collector. A collector that fails or does not answer never delays or fails the work. Requests have deadlines, and the
 * end of the program waits for all of them together for 2 s at most.
 */
import {
  ConfigProvider,
  Context,
  Duration,
  Effect,
  Layer,
  Metric,
  Option,
  Redacted,
  Schedule,
  Scope,
  Tracer
} from "effect"
import { HttpClient, HttpClientError } from "effect/http"
import { type OtlpExporter, OtlpLogger, OtlpMetrics, OtlpSerialization, OtlpTracer } from "effect/observability"
import { hostname } from "node:os"
import { type OtlpSettings, type Signal, signals, type SignalSettings } from "../settings/OtlpVariables.ts"
import { type Definition, definitions } from "./MetricDefinitions.ts"
import { Metrics } from "./Metrics.ts"

/** The end of the program waits for the collector for this time at most. */
const flushTimeout = Duration.seconds(2)

export interface Exporting<R> {
  /** The program, and the default name of the service. */
  readonly name: string
  readonly version: string
  /** Distinguishes this process from the others that export at the same time. Default: the name of the host. */
  readonly instance?: string | undefined
  /** Sets the gauges. It runs twice per export of metrics, and before the last one. */
  readonly refresh: Effect.Effect<void, never, R>
}

/** Exports what happens in its context, until the scope closes. */
export const layer = <R>(
  settings: OtlpSettings,
  { instance = hostname(), name, version, ...exporting }: Exporting<R>
): Layer.Layer<never, never, HttpClient.HttpClient | Metrics | R> =>
  Layer.effectContext(Effect.gen(function*() {
    const { registry } = yield* Metrics
    const client = yield* HttpClient.HttpClient
    const refresh = Effect.provideContext(exporting.refresh, yield* Effect.context<R>())
    const resource = {
      serviceName: settings.serviceName ?? name,
      serviceVersion: version,
      // Two replicas must not send the same series.
      attributes: { "service.instance.id": instance, ...settings.attributes }
    }
    const layers = {
      TRACES: (own: Own) => sampled(settings.traceRatio, OtlpTracer.layer({ ...own, resource })),
      METRICS: (own: Own) =>
        OtlpMetrics.layer({
          ...own,
          resource,
          exportInterval: settings.metricInterval,
          temporality: settings.temporality
        }),
      LOGS: (own: Own) => OtlpLogger.layer({ ...own, resource, mergeWithExisting: true })
    }
    const scope = yield* Effect.scope
    const scopes: Array<Scope.Closeable> = []
    const contexts: Array<Context.Context<OtlpExporter.Flusher>> = []
    for (const signal of signals) {
      const own = settings.signals[signal]
      if (own === undefined) continue
      const ownScope = yield* Scope.make()
      scopes.push(ownScope)
      const exporter = layers[signal]({
        url: own.url,
        headers: Redacted.value(own.headers),
        compression: own.compression,
        shutdownTimeout: flushTimeout
      }).pipe(
        Layer.provide(serializations[own.protocol]),
        Layer.provide(Layer.succeed(HttpClient.HttpClient, withDeadline(client, signal, own))),
        // The settings are complete: Effect must not read the variables again, and fail if one is invalid.
        Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({}))),
        Layer.provide(Layer.succeed(Metric.MetricRegistry, registry))
      )
      contexts.push(yield* Layer.buildWithScope(exporter, ownScope))
    }
    // All signals are flushed at the same time, so that they share the time limit.
    yield* Scope.addFinalizerExit(scope, (exit) =>
      Effect.andThen(
        refresh,
        Effect.forEach(scopes, (own) => Scope.close(own, exit), { concurrency: "unbounded", discard: true })
      ))
    const interval = Duration.times(settings.metricInterval, 0.5)
    yield* Effect.forkScoped(Effect.repeat(refresh, Schedule.spaced(interval)))
    return contexts.reduce<Context.Context<never>>((all, context) => Context.merge(all, context), Context.empty())
  }))

/**
 * Exports a share of the traces, each with all of its spans. The trace id decides, as in OpenTelemetry's
 * `TraceIdRatioBased`. Its last 56 bits are random, and a double is exact for 52 of them.
 */
const sampled = <Out, R>(ratio: number, exporter: Layer.Layer<Out, never, R>): Layer.Layer<Out, never, R> =>
  ratio === 1 ? exporter : Layer.provideMerge(
    Layer.effect(
      Tracer.Tracer,
      Effect.map(Tracer.Tracer, (tracer) =>
        Tracer.make({
          ...tracer,
          span: (options) => {
            const span = tracer.span(options)
            if (Option.isSome(options.parent)) return span
            const isSampled = Number.parseInt(span.traceId.slice(-14, -1), 16) >= (1 - ratio) * 2 ** 52
            // Effect makes spans inside a span that is not sampled unsampled too.
            return isSampled ? span : Object.assign(span, { sampled: false })
          }
        }))
    ),
    exporter
  )

interface Own {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly compression: "gzip" | "none"
  readonly shutdownTimeout: Duration.Duration
}

/** The limit is per signal. More would keep too much in memory while the collector is slow. */
const maxRequests = 4

/**
 * Ends a request at its deadline, and refuses requests beyond {@link maxRequests}. Effect's exporter then drops what it
 * has and pauses for a minute. Logs failures, at most once a minute.
 */
const withDeadline = (client: HttpClient.HttpClient, signal: Signal, { timeout }: SignalSettings) => {
  let warnAt = 0
  let active = 0
  const warn = (problem: string) =>
    Effect.clockWith((clock) => {
      const now = Number(clock.monotonicTimeNanosUnsafe()) / 1e9
      if (now < warnAt) return Effect.void
      warnAt = now + 60
      return Effect.logWarning(`telemetry was not delivered: ${signal.toLowerCase()}, ${problem}`)
    })
  return HttpClient.transform(client, (response, request) =>
    Effect.suspend(() => {
      // Effect's exporter does not repeat a request after this kind of error.
      const busy = new HttpClientError.EncodeError({ request, description: "the collector is slow" })
      if (active >= maxRequests) {
        return Effect.andThen(
          warn("the collector is too slow"),
          Effect.fail(new HttpClientError.HttpClientError({ reason: busy }))
        )
      }
      active++
      return Effect.ensuring(response, Effect.sync(() => active--))
    }).pipe(
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () =>
          Effect.fail(
            new HttpClientError.HttpClientError({
              reason: new HttpClientError.TransportError({ request, description: "timeout" })
            })
          )
      }),
      Effect.tap(({ status }) => status >= 300 ? warn(`the collector answered ${status}`) : Effect.void),
      Effect.tapError(() => warn("the collector cannot be reached")),
      Effect.onInterrupt(() => warn("the collector did not answer in time"))
    ))
}

/** Takes the units from the registry: Effect would expect the unit among the labels. */
const withUnits = (plain: Layer.Layer<OtlpSerialization.OtlpSerialization>) =>
  Layer.effect(
    OtlpSerialization.OtlpSerialization,
    Effect.map(OtlpSerialization.OtlpSerialization, (serialization) => ({
      ...serialization,
      metrics: (data) => {
        for (const { scopeMetrics } of data.resourceMetrics) {
          for (const { metrics } of scopeMetrics) {
            for (const metric of metrics) metric.unit = unitOf(metric.name)
          }
        }
        return serialization.metrics(data)
      }
    }))
  ).pipe(Layer.provide(plain))

const unitOf = (name: string): string => {
  const known: { readonly [metric: string]: Definition } = definitions
  return known[name]?.unit ?? "1"
}

const serializations = {
  "http/json": withUnits(OtlpSerialization.layerJson),
  "http/protobuf": withUnits(OtlpSerialization.layerProtobuf)
}
