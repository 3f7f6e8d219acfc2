import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Layer, Logger, Redacted, Tracer } from "effect"
import { HttpClient } from "effect/http"
import { Metrics } from "../src/index.ts"
import * as Otlp from "../src/Otlp.ts"
import type { SignalSettings } from "../src/OtlpSettings.ts"

const signal: SignalSettings = {
  url: "http://127.0.0.1:9/v1/traces",
  protocol: "http/json",
  headers: Redacted.make({}),
  compression: "none",
  timeout: Duration.seconds(10)
}

describe("the export of traces", () => {
  it.live("keeps a few batches in memory at most while the collector does not answer, and ends in 2 s", () =>
    Effect.gen(function*() {
      const warnings: Array<unknown> = []
      let requests = 0
      const hanging = HttpClient.make(() => Effect.suspend(() => (requests++, Effect.never)))
      const exporting = Otlp.layer({
        signals: { TRACES: signal },
        serviceName: undefined,
        attributes: {},
        metricInterval: Duration.minutes(1),
        temporality: "cumulative",
        problems: []
      }, { name: "test", version: "1.0.0", refresh: Effect.void }).pipe(
        Layer.provide(Layer.succeed(HttpClient.HttpClient, hanging)),
        Layer.provide(Metrics.layer("1.0.0")),
        Layer.provide(Logger.layer([Logger.make(({ message }) => void warnings.push(message))]))
      )
      let endsAt = 0
      yield* Effect.gen(function*() {
        const tracer = yield* Tracer.Tracer
        assert.notStrictEqual(tracer, Tracer.Tracer.defaultValue())
        for (let batch = 0; batch < 20; batch++) {
          for (let span = 0; span < 1000; span++) yield* Effect.withSpan(Effect.void, "span")
          yield* Effect.sleep("1 millis")
        }
        endsAt = performance.now()
      }).pipe(Effect.provide(exporting))
      assert.strictEqual(requests, 4)
      assert.isBelow(performance.now() - endsAt, 4000)
      assert.deepStrictEqual(warnings, [["telemetry was not delivered: traces, the collector is too slow"]])
    }))
})
