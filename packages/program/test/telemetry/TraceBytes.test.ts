import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { OtlpSerialization, type OtlpTracer } from "effect/observability"
import { encodeTraces } from "../../src/telemetry/TraceBytes.ts"

const Text = Schema.Union([Schema.String, Schema.Literals(["", "abc".repeat(100), "aé".repeat(6000), "\ud800 alone"])])
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

/** Compares the bytes with those of Effect's encoder. The data has the members of Effect's type, but they are read-only. */
const compare = (resource: object, scope: object, spans: ReadonlyArray<typeof Span.Type>) =>
  Effect.gen(function*() {
    const effect = yield* OtlpSerialization.OtlpSerialization
    const data = { resourceSpans: [{ resource, scopeSpans: [{ scope, spans }] }] } as unknown as OtlpTracer.TraceData
    const body = effect.traces(data)
    if (body._tag !== "Uint8Array") return assert.fail(body._tag)
    assert.isTrue(Buffer.from(encodeTraces(data)).equals(body.body))
  }).pipe(Effect.provide(OtlpSerialization.layerProtobuf))

describe("the bytes of traces", () => {
  it.effect.prop(
    "equal those of Effect's encoder",
    { spans: Schema.Array(Span).check(Schema.isMaxLength(3)), attributes: Attributes, dropped: Count, version: Text },
    ({ attributes, dropped, spans, version }) =>
      compare({ attributes, droppedAttributesCount: dropped }, { name: "effect", version }, spans),
    { arbitrary: { runs: 200 } }
  )

  it.effect.each([7, 14, 21].flatMap((bits) => [2 ** bits - 1, 2 ** bits]))(
    "have the length of a text of %s bytes, where a length needs another byte",
    (length) =>
      compare({ attributes: [], droppedAttributesCount: 0 }, {
        name: "0123456789".repeat(Math.ceil(length / 10)).slice(0, length),
        version: ""
      }, [])
  )
})
