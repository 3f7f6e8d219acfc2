/** What a hand-off sends to a consumer: the body of its requests, which `handoff/Body.ts` of `@payments/copy` writes. */
import { Schema } from "effect"
import { jsonOutput } from "./JsonOutput.ts"
import { integer, nullable, optional, text, texts } from "./Members.ts"

export const handoffOutput = jsonOutput({
  name: "handoff",
  version: 1,
  description: "the changes that a hand-off sends, in order; before and after are the exact records",
  commands: [],
  document: {
    type: Schema.Literal("payments.changes"),
    timestamp: text,
    source: text,
    list: text,
    generation: text,
    first: integer,
    last: integer,
    copy: Schema.Struct({ scannedAt: nullable(text), ageSeconds: nullable(integer) }),
    changes: Schema.Array(Schema.Struct({
      seq: integer,
      at: optional(text),
      change: Schema.Literals(["insert", "update", "missing", "returned", "erased"]),
      id: text,
      fields: optional(texts),
      before: optional(Schema.Unknown),
      after: optional(Schema.Unknown)
    }))
  }
})
