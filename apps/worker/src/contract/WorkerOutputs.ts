/**
 * The JSON outputs of `payments-worker`. To change one: change its members, raise its version if a member was removed, may be
 * absent or has another type, and run `npm run docs`. It refuses such a change without a new version.
 */
import { contract } from "@payments/program"
import { handoffOutput } from "@payments/program/handoff"
import { Schema } from "effect"

const { completeScan, consumer, flag, generation, integer, jsonOutput, nullable, optional } = contract
const { openRecords, otherMembers, runningScan, text, texts } = contract

const problem = { reason: text, message: text, since: text }

const progress = Schema.Struct({
  kind: text,
  startedAt: text,
  pages: integer,
  records: integer,
  expected: nullable(integer),
  waiting: nullable(Schema.Struct(problem))
})

/** The rows with a status. The sums are digits. */
const statusTotal = { rows: integer, sums: Schema.Record(Schema.String, text) }

const overview = Schema.Struct({
  at: text,
  days: Schema.Array(
    Schema.Struct({ day: text, insert: integer, update: integer, missing: integer, returned: integer })
  ),
  statuses: Schema.Array(Schema.Struct({ status: nullable(text), ...statusTotal })),
  otherStatuses: Schema.Struct(statusTotal)
})

const list = Schema.Struct({
  list: text,
  rows: nullable(integer),
  missing: integer,
  quarantined: integer,
  completeScan: nullable(completeScan),
  holder: nullable(text),
  holdsLock: flag,
  headProblem: nullable(text),
  drift: texts,
  maxAgeSeconds: nullable(Schema.Finite),
  maxOpenSeconds: nullable(Schema.Finite),
  openRecords: nullable(openRecords),
  open: nullable(
    Schema.Array(Schema.Struct({ status: nullable(text), seconds: nullable(Schema.Finite), undated: integer }))
  ),
  progress: nullable(progress),
  failure: nullable(Schema.Struct({ ...problem, kind: text })),
  stall: nullable(Schema.Struct(problem)),
  next: Schema.Struct({ full: nullable(text), window: nullable(text), head: nullable(text) }),
  running: optional(nullable(runningScan)),
  generation: optional(nullable(generation)),
  lastChange: nullable(integer),
  consumers: Schema.Array(consumer),
  overview: nullable(overview),
  ageSeconds: nullable(Schema.Finite),
  isFresh: flag
})

const handoff = Schema.Struct({
  consumer: text,
  origin: nullable(text),
  state: Schema.Literals(["inactive", "running", "waiting", "stopped", "removed"]),
  reason: nullable(text),
  seq: nullable(integer),
  position: nullable(integer),
  lagChanges: nullable(integer),
  lagSeconds: nullable(Schema.Finite),
  setAside: nullable(integer),
  undecided: nullable(integer),
  resentAt: nullable(text),
  attempts: integer,
  nextAttemptAt: nullable(text),
  answer: nullable(text),
  problem: nullable(Schema.Struct(problem))
})

const stale = Schema.Array(Schema.Struct({
  source: text,
  list: text,
  ageSeconds: nullable(Schema.Finite),
  maxAgeSeconds: nullable(Schema.Finite),
  why: text
}))

export const outputs = {
  health: jsonOutput({
    name: "health",
    version: 1,
    description: "whether the worker is well: /health/live, and every check without the right to more",
    commands: [],
    document: { live: optional(flag), ready: optional(flag), fresh: optional(flag), fleet: optional(flag) }
  }),
  ready: jsonOutput({
    name: "health-ready",
    version: 1,
    description: "whether every destination can be used, and what is known of each source: /health/ready",
    commands: [],
    document: {
      ready: flag,
      version: text,
      startedAt: text,
      at: text,
      cluster: nullable(Schema.Struct({ runner: text, isHealthy: flag })),
      sources: Schema.Array(Schema.Struct({
        name: text,
        destination: text,
        state: Schema.Literals(["starting", "standby", "running", "elsewhere", "stopped"]),
        runner: nullable(text),
        isRateShared: nullable(flag),
        problem: nullable(Schema.Struct(problem)),
        lists: Schema.Array(list),
        handoffs: Schema.Array(handoff)
      }))
    }
  }),
  fresh: jsonOutput({
    name: "health-fresh",
    version: 1,
    description: "whether every list is younger than its max_age, and which are not: /health/fresh",
    commands: [],
    document: {
      fresh: flag,
      stale,
      heldBack: Schema.Array(Schema.Struct({ source: text, list: text, rows: integer, why: text }))
    }
  }),
  fleet: jsonOutput({
    name: "health-fleet",
    version: 1,
    description: "the same for all sources of a cluster, and the runner of each: /health/fleet",
    commands: [],
    document: { fleet: flag, stale, withoutRunner: texts, runners: Schema.Record(Schema.String, nullable(text)) }
  }),
  log: jsonOutput({
    name: "worker-log",
    version: 1,
    description: "a line of the log with --log-format json; its other members depend on the message",
    commands: ["run"],
    row: { timestamp: text, level: text, message: text, [otherMembers]: Schema.Unknown }
  }),
  runners: jsonOutput({
    name: "runners",
    version: 1,
    description: "the runners of a cluster and the sources of each",
    commands: ["runners"],
    document: {
      runners: Schema.Array(Schema.Struct({
        runner: text,
        process: text,
        version: text,
        alive: flag,
        startedAt: text,
        seenAt: text,
        sources: texts
      })),
      sources: Schema.Array(Schema.Struct({
        source: text,
        runner: nullable(text),
        lastRunner: nullable(text),
        since: nullable(text),
        takeovers: integer,
        pinnedTo: optional(nullable(text))
      }))
    }
  })
}

export const all: ReadonlyArray<contract.JsonOutput> = [...Object.values(outputs), handoffOutput]
