/** Traces, metrics and logs for a collector, if the usual variables of OpenTelemetry name one. */
import { Effect, Layer } from "effect"
import type { HttpClient } from "effect/http"
import { readOtlpSettings } from "./settings/OtlpVariables.ts"
import type { Metrics } from "./telemetry/Metrics.ts"
import type { Exporting } from "./telemetry/Otlp.ts"

export { readOtlpSettings }

/**
 * Exports what happens in its context to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT`, or a signal's variable,
 * names. Without a collector, or with `OTEL_SDK_DISABLED=true`, it does nothing, and loads neither the exporter nor the
 * client. Logs a warning about each variable that is invalid. When the scope closes, it sends the rest, for 2 s at
 * most.
 */
export const layer = <R, R2 = never>(
  client: Layer.Layer<HttpClient.HttpClient, never, R>,
  exporting: Exporting<R2>
): Layer.Layer<never, never, Metrics | R | R2> =>
  Layer.unwrap(Effect.gen(function*() {
    const settings = yield* readOtlpSettings
    for (const problem of settings.problems) yield* Effect.logWarning(problem)
    if (Object.keys(settings.signals).length === 0) return Layer.empty
    const otlp = yield* Effect.promise(() => import("./telemetry/Otlp.ts"))
    return Layer.provide(otlp.layer(settings, exporting), client)
  }))
