/** The metrics of the worker: over HTTP in Prometheus' text format, and over OTLP with its traces and logs. */
import { Metrics } from "@payments/program"
import * as Telemetry from "@payments/program/telemetry"
import { Context, Effect, type Layer, Metric } from "effect"
import { type HttpClient, HttpRouter, HttpServerResponse } from "effect/http"
import { PrometheusMetrics } from "effect/observability"
import { hostname } from "node:os"
import { Status } from "./Status.ts"

/** A worker that scans only once has no state of sources. */
const observe = Effect.gen(function*() {
  const metrics = yield* Metrics
  const { at, cluster, sources } = yield* (yield* Status).current
  metrics.observe(sources, Date.parse(at), cluster)
  if (sources.length > 0) metrics.retain(sources)
})

/** `/metrics`. */
export const routes = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const status = yield* Status
    const metrics = yield* Metrics
    const context = Context.make(Metric.MetricRegistry, metrics.registry)
    yield* router.add(
      "GET",
      "/metrics",
      observe.pipe(
        Effect.provideService(Status, status),
        Effect.provideService(Metrics, metrics),
        Effect.map(() =>
          HttpServerResponse.text(PrometheusMetrics.formatUnsafe(context), {
            contentType: "text/plain; version=0.0.4; charset=utf-8"
          })
        )
      )
    )
  })
)

/** Whether traces are exported, so that a line of the log can name its trace. */
export const isTraced: Effect.Effect<boolean> = Effect.map(
  Telemetry.readOtlpSettings,
  ({ signals }) => signals.TRACES !== undefined
)

/**
 * Exports over OTLP if the environment names a collector. `http` reaches it. Several workers can run on one host. A
 * worker that scans only once is named after its host, because each of its runs would otherwise add new series.
 */
export const layerOtlp = (
  http: Layer.Layer<HttpClient.HttpClient>,
  version: string,
  isSingle: boolean
): Layer.Layer<never, never, Metrics | Status> =>
  Telemetry.layer(http, {
    name: "payments-worker",
    version,
    instance: isSingle ? undefined : `${hostname()}-${process.pid}`,
    refresh: observe
  })
