/** Schemas of members that several outputs have. */
import { Schema } from "effect"

/**
 * An exact integer of any size. A reader that parses numbers as floating point numbers rounds those beyond 2^53, so the
 * schema names no bounds.
 */
export const integer = Schema.Finite.check(
  Schema.makeFilter((value: number) => Number.isInteger(value), {
    expected: "an integer",
    toJsonSchema: () => ({ type: "integer" })
  })
)

export const text = Schema.String
export const texts = Schema.Array(Schema.String)
export const flag = Schema.Boolean
export const nullable = <S extends Schema.Top>(schema: S) => Schema.NullOr(schema)
export const optional = <S extends Schema.Top>(schema: S) => Schema.optionalKey(schema)

/** A command that continues, or one that lacks arguments: `nextMembers`. */
export const next = {
  next: optional(nullable(text)),
  nextNeeds: optional(Schema.Struct({ command: text, arguments: texts }))
}

/** A value of a database or of the service. */
export const cell = nullable(Schema.Union([text, Schema.Finite]))

export const generation = Schema.Struct({
  generation: text,
  beganAfter: integer,
  beganAt: text,
  reason: Schema.Literals(["first", "restored", "writer", "consumer", "server"])
})

/** The last complete scan of a list. The sums of amounts are digits. */
export const completeScan = Schema.Struct({
  scan: integer,
  startedAt: text,
  endedAt: text,
  certificate: optional(nullable(Schema.Struct({
    scan: integer,
    startedAt: text,
    completedAt: text,
    end: text,
    pages: integer,
    records: integer,
    distinct: integer,
    repeats: integer,
    quarantined: integer,
    withoutId: integer,
    sums: Schema.Record(Schema.String, text),
    digest: text,
    heldBack: optional(integer),
    heldBackBy: optional(text),
    unchecked: optional(integer),
    skipped: optional(integer),
    rule: optional(text)
  })))
})

export const runningScan = Schema.Struct({
  scan: integer,
  kind: text,
  startedAt: text,
  pages: integer,
  records: integer
})

export const consumer = Schema.Struct({
  name: text,
  generation: optional(nullable(text)),
  position: integer,
  lag: optional(nullable(integer)),
  movedAt: text
})

/** The records of a list whose status is not final, by status. */
export const openRecords = Schema.Struct({
  finalStates: Schema.Struct({
    states: texts,
    from: Schema.Literals(["configured", "learned", "unknown"]),
    unseen: optional(texts)
  }),
  statuses: Schema.Array(Schema.Struct({
    status: nullable(text),
    records: integer,
    undated: integer,
    oldestAt: optional(text)
  })),
  lacking: texts
})
