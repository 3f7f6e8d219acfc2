/** What the commands print that write, check or clean a copy. */
import { contract } from "@payments/program"
import { Schema } from "effect"

const { completeScan, consumer, flag, generation, integer, jsonOutput, next, nullable, openRecords } = contract
const { optional, runningScan, text, texts } = contract

const exported = {
  complete: flag,
  destination: nullable(text),
  lists: Schema.Array(Schema.Struct({
    list: text,
    complete: flag,
    error: optional(Schema.Struct({
      reason: text,
      message: text,
      retryable: optional(nullable(flag)),
      retryAfterMs: optional(nullable(integer))
    })),
    records: optional(integer),
    scan: optional(integer),
    start: optional(text),
    parts: optional(integer),
    new: optional(integer),
    changed: optional(integer),
    unchanged: optional(integer),
    missing: optional(integer),
    heldBack: optional(integer),
    accepted: optional(integer),
    skipped: optional(integer),
    unchecked: optional(integer),
    reappeared: optional(integer),
    repeated: optional(integer),
    quarantined: optional(integer),
    pages: optional(integer),
    retries: optional(integer),
    seconds: optional(Schema.Finite),
    drift: optional(Schema.Array(Schema.Struct({
      fact: text,
      what: text,
      records: integer,
      mayLackRecords: optional(flag)
    }))),
    undocumented: optional(Schema.Record(Schema.String, integer))
  })),
  ...next
}

export const exportResult = jsonOutput({
  name: "export",
  version: 1,
  description: "what an export has done in each list; seconds is a duration",
  commands: ["export", "start"],
  document: exported
})

export const exportSummary = jsonOutput({
  name: "export-summary",
  version: 1,
  description: "the same on stderr, for an export to stdout, whose lines are records",
  commands: ["export"],
  document: { summary: Schema.Struct(exported) },
  hasForeignLines: true
})

export const status = jsonOutput({
  name: "status",
  version: 1,
  description: "how fresh the lists of a destination are, one row for each",
  commands: ["status"],
  row: {
    source: optional(nullable(text)),
    list: text,
    ageSeconds: nullable(Schema.Finite),
    maxAgeSeconds: nullable(Schema.Finite),
    isFresh: nullable(flag),
    rows: integer,
    missing: integer,
    quarantined: integer,
    heldBack: integer,
    completeScan: nullable(completeScan),
    running: nullable(runningScan),
    holder: nullable(text),
    headProblem: nullable(text),
    generation: nullable(generation),
    lastChange: integer,
    consumers: Schema.Array(consumer),
    isRewriting: flag,
    oldestOpenSeconds: nullable(Schema.Finite),
    maxOpenSeconds: nullable(Schema.Finite),
    isOpenTooLong: nullable(flag),
    open: nullable(openRecords)
  }
})

const comparison = {
  list: text,
  matches: flag,
  differences: Schema.Array(Schema.Struct({ id: nullable(text), problem: text }))
}

export const verify = jsonOutput({
  name: "verify",
  version: 1,
  description: "whether a destination matches its certificates, its files and, with --against-api, the service",
  commands: ["verify"],
  document: {
    matches: flag,
    damage: texts,
    lists: Schema.Array(Schema.Struct({
      ...comparison,
      scan: nullable(integer),
      certifiedRecords: nullable(integer),
      heldBack: integer,
      notCompared: texts
    })),
    files: Schema.Array(Schema.Struct({ file: text, kind: text, problem: nullable(text) })),
    api: nullable(Schema.Array(Schema.Struct(comparison)))
  }
})

export const changes = jsonOutput({
  name: "changes",
  version: 1,
  description: "the changes that exports found, in order; before and after are the exact records",
  commands: ["changes"],
  row: {
    seq: integer,
    generation: nullable(text),
    list: text,
    scan: integer,
    at: text,
    change: text,
    id: text,
    fields: texts,
    before: Schema.Unknown,
    after: Schema.Unknown,
    rechecked: nullable(Schema.Struct({ filters: texts, requests: integer, at: text }))
  }
})

export const acknowledged = jsonOutput({
  name: "changes-ack",
  version: 1,
  description: "the stored position of a consumer",
  commands: ["changes ack"],
  document: { consumer: text, generation: nullable(text), position: integer }
})

export const consumers = jsonOutput({
  name: "changes-consumers",
  version: 1,
  description: "the consumers of changes, one row for each",
  commands: ["changes consumers"],
  row: {
    consumer: text,
    generation: nullable(text),
    position: integer,
    lag: nullable(integer),
    moved_at: text,
    handoff: nullable(Schema.Literals(["running", "stopped", "waiting"]))
  }
})

export const consumerRemoved = jsonOutput({
  name: "changes-consumers-remove",
  version: 1,
  description: "the consumer that --remove has removed",
  commands: ["changes consumers"],
  document: { consumer: text, removed: flag }
})

const keeper = Schema.Struct({
  by: Schema.Literals(["consumer", "scan"]),
  name: optional(text),
  position: optional(integer),
  list: optional(text),
  scan: optional(integer)
})

export const prune = jsonOutput({
  name: "prune",
  version: 1,
  description: "what was removed, or with --dry-run would be; null for what is kept",
  commands: ["prune"],
  document: {
    dryRun: flag,
    changes: nullable(Schema.Struct({
      generation: nullable(text),
      removed: integer,
      through: integer,
      heldBack: Schema.Array(keeper)
    })),
    scans: nullable(Schema.Struct({ removed: integer })),
    rows: nullable(Schema.Struct({ removed: integer, heldBack: Schema.Array(keeper) })),
    snapshots: nullable(Schema.Struct({ removedFiles: integer }))
  }
})

export const migrate = jsonOutput({
  name: "migrate",
  version: 1,
  description: "the versions of a destination's tables before and after, and what was added",
  commands: ["migrate"],
  document: { dryRun: flag, from: integer, to: integer, additions: texts }
})

export const restored = jsonOutput({
  name: "restored",
  version: 1,
  description: "the generation that has begun, and where the consumers stand",
  commands: ["restored"],
  document: {
    ...generation.fields,
    consumers: Schema.Array(Schema.Struct({ consumer: text, generation: nullable(text), position: integer }))
  }
})

export const quarantine = jsonOutput({
  name: "quarantine",
  version: 1,
  description: "the records that do not match the document; raw is the exact record",
  commands: ["quarantine"],
  row: { list: text, id: nullable(text), path: text, expected: text, scan: integer, raw: Schema.Unknown }
})

/** Where personal data can still be. */
const left = {
  consumers: optional(Schema.Array(Schema.Struct({ consumer: text, lag: nullable(integer) }))),
  vacuum: optional(nullable(text)),
  rendered: optional(flag)
}

export const rewrite = jsonOutput({
  name: "rewrite",
  version: 1,
  description: "the fields that a rewrite changes with --dry-run, else what it has rewritten",
  commands: ["rewrite"],
  document: {
    dryRun: flag,
    same: flag,
    from: optional(text),
    to: optional(text),
    unfinished: optional(flag),
    fields: optional(Schema.Array(Schema.Struct({ field: text, from: text, to: text }))),
    erasedFields: optional(texts),
    rows: optional(integer),
    changes: optional(integer),
    quarantined: optional(integer),
    ...left
  }
})

export const erase = jsonOutput({
  name: "erase",
  version: 1,
  description: "the records that would be erased with --dry-run, else what each value has erased",
  commands: ["erase"],
  document: {
    dryRun: flag,
    lists: optional(Schema.Array(Schema.Struct({ list: text, records: integer }))),
    erasures: optional(Schema.Array(Schema.Struct({
      erasure: integer,
      kind: text,
      by: text,
      startedAt: text,
      completedAt: nullable(text),
      rows: integer,
      changes: integer,
      quarantined: integer
    }))),
    ...left
  }
})

export const erasures = jsonOutput({
  name: "erasures",
  version: 1,
  description: "the protocol of erasures, one row for each",
  commands: ["erasures"],
  row: {
    erasure: integer,
    kind: text,
    by: text,
    started_at: text,
    rows: integer,
    changes: integer,
    quarantined: integer,
    completed_at: nullable(text)
  }
})
