/** The telemetry of an export. */
import { Metrics, observeSink } from "@payments/program"
import * as Telemetry from "@payments/program/telemetry"
import { Layer } from "effect"
import type { HttpClient } from "effect/http"

/** Makes the layer that reports what an export does, over `http`, while the export runs. */
export const exportTelemetry =
  (http: Layer.Layer<HttpClient.HttpClient>, version: string) => (source: Parameters<typeof observeSink>[0]) =>
    Telemetry.layer(http, { name: "payments", version, refresh: observeSink(source) }).pipe(
      Layer.provideMerge(Metrics.layer(version))
    )
