import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Deferred, Duration, Effect, Fiber, Layer, Logger, Redacted, Tracer } from "effect"
import { HttpClient, HttpClientResponse } from "effect/http"
import { TestClock } from "effect/testing"
import { readOtlpSettings, type SignalSettings } from "../../src/settings/OtlpVariables.ts"
import { Metrics } from "../../src/telemetry/Metrics.ts"
import * as Otlp from "../../src/telemetry/Otlp.ts"

const signal: SignalSettings = {
  url: "http://127.0.0.1:9/v1/traces",
  protocol: "http/json",
  headers: Redacted.make({}),
  compression: "none",
  timeout: Duration.seconds(10)
}

/** Exports traces over a client. */
const exportingOver = (client: HttpClient.HttpClient, traceRatio: number) =>
  Otlp.layer({
    signals: { TRACES: signal },
    serviceName: undefined,
    attributes: {},
    metricInterval: Duration.minutes(1),
    temporality: "cumulative",
    traceRatio,
    problems: []
  }, { name: "test", version: "1.0.0", refresh: Effect.void }).pipe(
    Layer.provide(Layer.succeed(HttpClient.HttpClient, client)),
    Layer.provide(Metrics.layer("1.0.0"))
  )

describe("the export of traces", () => {
  it.effect("keeps a few batches in memory at most while the collector does not answer, and ends in 2 s", () =>
    Effect.gen(function*() {
      const warnings: Array<unknown> = []
      let requests = 0
      const hanging = HttpClient.make(() => Effect.suspend(() => (requests++, Effect.never)))
      const exporting = exportingOver(hanging, 1).pipe(
        Layer.provide(Logger.layer([Logger.make(({ message }) => void warnings.push(message))]))
      )
      const ends = yield* Deferred.make<void>()
      const program = yield* Effect.forkChild(
        Effect.gen(function*() {
          const tracer = yield* Tracer.Tracer
          assert.notStrictEqual(tracer, Tracer.Tracer.defaultValue())
          for (let batch = 0; batch < 20; batch++) {
            for (let span = 0; span < 1000; span++) yield* Effect.withSpan(Effect.void, "span")
            yield* Effect.sleep("1 millis")
          }
          yield* Deferred.succeed(ends, undefined)
        }).pipe(Effect.provide(exporting))
      )
      while (!(yield* Deferred.isDone(ends)) && program.pollUnsafe() === undefined) yield* TestClock.adjust("1 millis")
      yield* TestClock.adjust("2 seconds")
      assert.isDefined(program.pollUnsafe(), "it has not ended")
      yield* Fiber.join(program)
      assert.strictEqual(requests, 4)
      assert.deepStrictEqual(warnings, [["telemetry was not delivered: traces, the collector is too slow"]])
    }))

  it.live.each([0, 0.25, 1])(
    "exports the share %s of the traces, each with all of its spans",
    (ratio) =>
      Effect.gen(function*() {
        const bodies: Array<string> = []
        const collector = HttpClient.make((request) =>
          Effect.sync(() => {
            const { body } = request
            bodies.push(body._tag === "Uint8Array" ? Buffer.from(body.body).toString() : "")
            return HttpClientResponse.fromWeb(request, new Response("{}"))
          })
        )
        const made: Array<string> = []
        const trace = Effect.flatMap(Effect.currentSpan, ({ traceId }) => {
          made.push(traceId)
          return Effect.withSpan(Effect.void, "child")
        })
        yield* Effect.forEach(Array.from({ length: 800 }), () => Effect.withSpan(trace, "root"), { discard: true })
          .pipe(
            Effect.provide(exportingOver(collector, ratio))
          )
        const exported = bodies.flatMap((body) => [...body.matchAll(/"traceId":"(\w+)"/g)].map(([, id]) => id))
        // The collector of another service chooses by the same digits.
        const chosen = made.filter((id) => BigInt(`0x${id.slice(-14)}`) >= BigInt((1 - ratio) * 2 ** 56))
        assert.deepStrictEqual(exported.toSorted(), [...chosen, ...chosen].toSorted())
        // Six standard deviations.
        assert.isBelow(Math.abs(chosen.length - 800 * ratio), 6 * Math.sqrt(800 * ratio * (1 - ratio)) + 1)
      })
  )
})

describe("the share of traces that is exported", () => {
  it.effect.each(
    [
      [{}, 1],
      [{ OTEL_TRACES_SAMPLER: "always_off" }, 0],
      [{ OTEL_TRACES_SAMPLER: "parentbased_always_on" }, 1],
      [{ OTEL_TRACES_SAMPLER: "traceidratio" }, 1],
      [{ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: ".25" }, 0.25],
      [{ OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "1e-3" }, 0.001],
      [{ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "1e1" }, undefined],
      [{ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "a half" }, undefined]
    ] as const
  )("of %j is %s", ([variables, share]) =>
    Effect.gen(function*() {
      const env = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318", ...variables }
      const { problems, traceRatio } = yield* Effect.provideService(
        readOtlpSettings,
        ConfigProvider.ConfigProvider,
        ConfigProvider.fromEnvRecord(env)
      )
      const ignored = "OTEL_TRACES_SAMPLER_ARG is ignored. Expected: a number from 0 to 1."
      assert.deepStrictEqual([traceRatio, problems], [share ?? 1, share === undefined ? [ignored] : []])
    }))
})
