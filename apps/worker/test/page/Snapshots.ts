/** Snapshots of workers in several states, with the same numbers in every run. */
import type { Overview } from "@payments/copy"
import { Lists } from "@payments/core"
import type { HandoffState, ListSnapshot, Snapshot, SourceSnapshot } from "../../src/state/StatusSnapshot.ts"

/** The time of all snapshots. */
export const at = "2026-11-22T14:05:09.120Z"
const before = (seconds: number) => new Date(Date.parse(at) - seconds * 1000).toISOString()
const after = (seconds: number) => before(-seconds)

const certificateOf = (records: number, sums: { readonly [column: string]: string }, startedAt: string) => ({
  scan: 212,
  startedAt,
  completedAt: startedAt,
  end: "null cursor" as const,
  pages: Math.ceil(records / 100),
  records,
  distinct: records,
  repeats: 0,
  quarantined: 0,
  withoutId: 0,
  sums,
  digest: "9f2c4be81a07d35e6b1290c4fd8873aa"
})

/** Changes of 30 days that look like those of a real list. */
const overviewOf = (rows: number, columns: ReadonlyArray<string>): Overview => {
  const days = Array.from({ length: 30 }, (_, index) => {
    const wave = 1 + Math.sin(index * 0.9) * 0.45 + (index % 7 < 2 ? -0.5 : 0)
    return {
      day: new Date(Date.parse(at) - (29 - index) * 86_400_000).toISOString().slice(0, 10),
      insert: Math.max(0, Math.round(rows * 0.002 * wave)),
      update: Math.max(0, Math.round(rows * 0.0011 * (2 - wave))),
      missing: index % 11 === 4 ? Math.round(rows * 0.0003) : 0,
      returned: index % 11 === 6 ? Math.round(rows * 0.0002) : 0
    }
  })
  const shares = [["paid", 0.71], ["processing", 0.19], ["failed", 0.07], ["expired", 0.03]] as const
  return {
    at,
    days,
    statuses: shares.map(([status, share], index) => ({
      status,
      rows: Math.round(rows * share),
      sums: Object.fromEntries(
        columns.map((
          column,
          place
        ) => [
          column,
          String(BigInt(Math.round(rows * share)) * BigInt(150_431 + 1_013 * index) / BigInt(place * 97 + 1))
        ])
      )
    })),
    otherStatuses: { rows: 0, sums: {} }
  }
}

const amountColumns: { readonly [list: string]: ReadonlyArray<string> } = {
  "payout-requests": ["amount", "amount_sent", "fee"],
  "payin-sources": [],
  invoices: ["amount", "payment_amount"]
}

const generation = "1f0e8a2c44d1"

/** A list with a complete full scan that began so many seconds ago. */
export const list = (
  name: string,
  rows: number,
  ageSeconds: number,
  change: Partial<ListSnapshot> = {}
): ListSnapshot => {
  const startedAt = before(ageSeconds)
  const columns = amountColumns[name] ?? []
  const overview = overviewOf(rows, columns)
  const sums = Object.fromEntries(columns.map((column) => [
    column,
    String(overview.statuses.reduce((sum, status) => sum + BigInt(status.sums[column] ?? "0"), 0n))
  ]))
  const maxAgeSeconds = change.maxAgeSeconds === undefined ? 900 : change.maxAgeSeconds
  return {
    list: name,
    rows,
    missing: Math.round(rows * 0.0004),
    quarantined: 0,
    completeScan: {
      scan: 212,
      startedAt,
      endedAt: before(Math.max(1, ageSeconds - 42)),
      certificate: certificateOf(rows, sums, startedAt)
    },
    running: null,
    holder: null,
    holdsLock: true,
    headProblem: null,
    drift: [],
    generation: { generation, beganAfter: 0, beganAt: before(86_400), reason: "first" },
    lastChange: 482_113,
    consumers: [
      { name: "ledger", generation, position: 482_113, lag: 0, movedAt: before(12) },
      { name: "search-index", generation, position: 481_702, lag: 411, movedAt: before(340) }
    ],
    overview,
    openRecords: null,
    open: null,
    maxOpenSeconds: null,
    ageSeconds,
    maxAgeSeconds,
    isFresh: maxAgeSeconds === null || ageSeconds < maxAgeSeconds,
    progress: null,
    failure: null,
    stall: null,
    next: { full: after(300 - ageSeconds % 300), window: null, head: after(9) },
    ...change
  }
}

export const source = (name: string, change: Partial<SourceSnapshot> = {}): SourceSnapshot => ({
  name,
  destination: `sqlite:/var/lib/payments/${name}.db`,
  state: "running",
  runner: null,
  isRateShared: null,
  problem: null,
  handoffs: [],
  lists: [list("payout-requests", 184_220, 130), list("payin-sources", 9_314, 131), list("invoices", 1_204_577, 132)],
  ...change
})

const snapshot = (sources: ReadonlyArray<SourceSnapshot>): Snapshot => ({
  version: "0.1.0",
  startedAt: before(93_600),
  at,
  cluster: null,
  sources
})

const unscanned: Partial<ListSnapshot> = {
  rows: 0,
  missing: 0,
  completeScan: null,
  ageSeconds: null,
  isFresh: true,
  maxAgeSeconds: null,
  overview: null,
  consumers: []
}

const running = (records: number, expected: number | null, seconds: number): Partial<ListSnapshot> => ({
  progress: { kind: "full", startedAt: before(seconds), pages: records / 100, records, expected, waiting: null },
  next: { full: null, window: null, head: null }
})

const refused = {
  reason: "Transport",
  message: "payout-requests: the connection was refused (3 attempts)",
  since: before(1_300)
}

/** A hand-off that has sent everything. */
export const handoff: HandoffState = {
  consumer: "ledger",
  origin: "https://ledger.example",
  state: "running",
  reason: null,
  seq: null,
  position: 482_113,
  lagChanges: 0,
  lagSeconds: 0,
  setAside: null,
  undecided: null,
  resentAt: null,
  attempts: 0,
  nextAttemptAt: null,
  answer: "200",
  problem: null
}

const behind = { lagChanges: 1_411, lagSeconds: 340 }

/** States that the screenshots show and the tests check. */
export const snapshots = {
  /** The first second on an empty destination. */
  empty: snapshot([
    source("default", {
      state: "starting",
      lists: Lists.all.map(({ label }) => label).map((name) =>
        list(name, 0, 0, { ...unscanned, rows: null, holdsLock: false, next: { full: null, window: null, head: null } })
      )
    })
  ]),
  /** The first full scans. */
  filling: snapshot([
    source("default", {
      lists: [
        list("payout-requests", 0, 0, { ...unscanned, rows: 88_400, ...running(88_400, null, 31) }),
        list("payin-sources", 9_314, 12, { maxAgeSeconds: null, isFresh: true, consumers: [] }),
        list("invoices", 0, 0, { ...unscanned, rows: 61_200, ...running(61_200, null, 31) })
      ]
    })
  ]),
  fresh: snapshot([
    source("acme", {
      lists: [
        list("payout-requests", 184_220, 130, running(120_400, 184_220, 18)),
        list("payin-sources", 9_314, 131),
        list("invoices", 1_204_577, 132)
      ]
    }),
    source("nordic", { destination: "postgres://payments@db.example.com/finance?schema=nordic" })
  ]),
  stale: snapshot([
    source("acme"),
    source("nordic", {
      destination: "postgres://payments@db.example.com/finance?schema=nordic",
      lists: [
        list("payout-requests", 184_220, 1_620, {
          progress: {
            kind: "full",
            startedAt: before(1_310),
            pages: 412,
            records: 41_200,
            expected: 184_220,
            waiting: refused
          },
          failure: { ...refused, kind: "full", since: before(1_320) },
          next: { full: null, window: null, head: null }
        }),
        list("payin-sources", 9_314, 131, { quarantined: 12 }),
        list("invoices", 1_204_577, 1_790, {
          stall: {
            reason: "Stalled",
            message: "no page was committed for 10 minutes, twice in a row",
            since: before(700)
          },
          next: { full: null, window: null, head: null }
        })
      ]
    })
  ]),
  /** Hand-offs that send, that are sent again, and that need a person. */
  handoffs: snapshot([
    source("acme", {
      handoffs: [
        handoff,
        { ...handoff, ...behind, consumer: "billing", attempts: 4, answer: "401", nextAttemptAt: after(500) },
        { ...handoff, ...behind, consumer: "fraud", state: "waiting", reason: "refused", seq: 480_702, answer: "422" },
        { ...handoff, ...behind, consumer: "mail", state: "stopped", reason: "gone", answer: "410" },
        { ...handoff, ...behind, consumer: "old-books", state: "removed", origin: null, answer: null },
        { ...handoff, consumer: "search-index", state: "stopped", reason: "restored", answer: null, lagChanges: null },
        { ...handoff, consumer: "search", setAside: 2, undecided: 0, resentAt: after(500), answer: "503" },
        { ...handoff, consumer: "tax", setAside: 3, undecided: 1 }
      ]
    })
  ]),
  /** A runner of a cluster. No live runner has the third source. */
  cluster: {
    ...snapshot([
      source("acme", { runner: "worker-1" }),
      source("nordic", {
        destination: "postgres://payments@db.example.com/finance?schema=nordic",
        state: "elsewhere",
        runner: "worker-2",
        lists: []
      }),
      source("south", {
        destination: "postgres://payments@db.example.com/finance?schema=south",
        state: "elsewhere",
        lists: []
      })
    ]),
    cluster: { runner: "worker-1", isHealthy: true }
  },
  many: snapshot(Array.from({ length: 100 }, (_, index) => {
    const name = `merchant-${String(index + 1).padStart(3, "0")}`
    if (index === 41) {
      return source(name, {
        state: "stopped",
        problem: {
          reason: "OtherSource",
          message: `The destination sqlite:/var/lib/payments/${name}.db belongs to another source`,
          since: before(5_000)
        },
        lists: source(name).lists.map((each) => ({
          ...each,
          holdsLock: false,
          next: { full: null, window: null, head: null }
        }))
      })
    }
    if (index === 67) {
      return source(name, {
        lists: [
          list("payout-requests", 52_100, 2_400),
          list("payin-sources", 3_100, 140),
          list("invoices", 80_233, 150, { quarantined: 3 })
        ]
      })
    }
    if (index % 9 === 3) {
      return source(name, {
        lists: [
          list("payout-requests", 52_100, 260, running(31_000 + index * 100, 52_100, 12)),
          list("payin-sources", 3_100, 140),
          list("invoices", 80_233, 150)
        ]
      })
    }
    return source(name)
  }))
} as const
