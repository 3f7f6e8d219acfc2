import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { OtlpSerialization, type OtlpTracer } from "effect/observability"
import { encodeTraces } from "../src/TraceBytes.ts"

/** The sizes at which a length needs another byte, and a text that takes three bytes per character. */
const Text = Schema.Union([
  Schema.String,
  Schema.Literals(["", "a".repeat(127), "a".repeat(128), "é".repeat(9000), "€".repeat(30_000), "\ud800 alone"])
])
const Digits = Schema.Literals(["0", "1795370400000000000", "18446744073709551615"])
const Count = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 300 }))
const Id = Schema.Literals(["0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"])

const Scalar = Schema.Union([
  Schema.Struct({ stringValue: Text }),
  Schema.Struct({ boolValue: Schema.Boolean }),
  Schema.Struct({
    intValue: Schema.Union([Schema.Int, Schema.Literals(["-9223372036854775808", "9223372036854775807", 2 ** 40, -1])])
  }),
  Schema.Struct({ doubleValue: Schema.Number })
])
const Attributes = Schema.Array(Schema.Struct({
  key: Text,
  value: Schema.Union([Scalar, Schema.Struct({ arrayValue: Schema.Struct({ values: Schema.Array(Scalar) }) })])
})).check(Schema.isMaxLength(3))

const Span = Schema.Struct({
  traceId: Id,
  spanId: Id,
  parentSpanId: Schema.Union([Schema.Undefined, Id]),
  name: Text,
  kind: Schema.Literals([0, 1, 3, 5]),
  startTimeUnixNano: Digits,
  endTimeUnixNano: Digits,
  attributes: Attributes,
  droppedAttributesCount: Count,
  events: Schema.Array(Schema.Struct({
    timeUnixNano: Digits,
    name: Text,
    attributes: Attributes,
    droppedAttributesCount: Count
  })).check(Schema.isMaxLength(2)),
  droppedEventsCount: Count,
  links: Schema.Array(Schema.Struct({
    traceId: Id,
    spanId: Id,
    attributes: Attributes,
    droppedAttributesCount: Count
  })).check(Schema.isMaxLength(2)),
  droppedLinksCount: Count,
  status: Schema.Struct({ code: Schema.Literals([0, 1, 2]), message: Schema.Union([Schema.Undefined, Text]) })
})

describe("the bytes of traces", () => {
  it.effect.prop(
    "equal those of Effect's encoder",
    { spans: Schema.Array(Span).check(Schema.isMaxLength(3)), attributes: Attributes, dropped: Count, version: Text },
    ({ attributes, dropped, spans, version }) =>
      Effect.gen(function*() {
        const effect = yield* OtlpSerialization.OtlpSerialization
        // The schema has the members of Effect's type, but they are read-only.
        const data = {
          resourceSpans: [{
            resource: { attributes, droppedAttributesCount: dropped },
            scopeSpans: [{ scope: { name: "effect", version }, spans }]
          }]
        } as unknown as OtlpTracer.TraceData
        const body = effect.traces(data)
        assert.strictEqual(body._tag, "Uint8Array")
        if (body._tag !== "Uint8Array") return
        assert.isTrue(Buffer.from(encodeTraces(data)).equals(body.body))
      }).pipe(Effect.provide(OtlpSerialization.layerProtobuf)),
    { arbitrary: { runs: 200 } }
  )
})
