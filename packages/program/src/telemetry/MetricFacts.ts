/** What metrics are computed from: events of runs, requests, and the state of sources, lists and the process. */
import type { ScanEvent } from "@payments/copy"
import type { Attempted, HandoffReason } from "@payments/copy/handoff"
import type { ObservedRequest } from "@payments/core"

/** What the gauges of a source show. A source of the worker's snapshot has these members. */
export interface ObservedSource {
  readonly name: string
  /** `elsewhere`: another runner of the cluster has the source, or none yet. `stopped`: until a person acts. */
  readonly state: string
  /** Why no list of the source can be scanned. */
  readonly problem: { readonly reason: string } | null
  readonly lists: ReadonlyArray<ObservedList>
  readonly handoffs?: ReadonlyArray<ObservedHandoff> | undefined
}

/** What the gauges of a hand-off show. Null: not known. */
export interface ObservedHandoff {
  readonly consumer: string
  /** `inactive`: it has no gauges. `removed`: it has no series. */
  readonly state: string
  readonly reason: HandoffReason | null
  readonly lagChanges: number | null
  readonly lagSeconds: number | null
  readonly undecided: number | null
}

/** What the gauges of a list show. Null: not known. */
export interface ObservedList {
  /** The list's name on the command line, such as `payout-requests`. */
  readonly list: string
  readonly rows: number | null
  readonly missing: number
  readonly quarantined: number
  readonly ageSeconds: number | null
  readonly maxAgeSeconds: number | null
  /** How long the oldest open record with each status has been open, the longest first, and how many have no date. */
  readonly open:
    | ReadonlyArray<{
      readonly status: string | null
      readonly seconds: number | null
      readonly undated: number
    }>
    | null
  readonly maxOpenSeconds: number | null
  readonly holdsLock: boolean
  readonly headProblem: string | null
  readonly failure: { readonly reason: string } | null
  readonly stall: { readonly reason: string } | null
  /** A consumer without a lag is refused until it has said where it stands. */
  readonly consumers: ReadonlyArray<{ readonly lag: number | undefined; readonly movedAt: string }>
}

/** It is null without a cluster. */
export type ObservedCluster = { readonly isHealthy: boolean } | null

type EventOf<Tag extends ScanEvent["_tag"]> = Extract<ScanEvent, { readonly _tag: Tag }>

/** Each fact is about a list, a hand-off, a source or the process. */
export interface Facts {
  /** A run committed a page, waits, or ended. */
  readonly Committed: EventOf<"Committed">
  readonly Waiting: EventOf<"Waiting">
  readonly Ended: EventOf<"Ended">
  readonly Request: ObservedRequest
  /** The source waits for its destination. */
  readonly DestinationWait: null
  /** A full scan was ended because it committed no page for long. */
  readonly Stall: null
  /** This process has taken the source over from another runner of its cluster. */
  readonly Takeover: null
  readonly List: ObservedList
  readonly Handoff: ObservedHandoff
  /** A batch was sent, and this came of it. */
  readonly HandoffAttempt: Pick<Attempted, "answer" | "verdict">
  /** A source that this process runs. `now` is in milliseconds since 1970. */
  readonly Source: { readonly source: ObservedSource; readonly now: number }
  readonly Placement: { readonly isHere: boolean; readonly cluster: ObservedCluster }
  /** `cpuSeconds` is the CPU time since the fact before. */
  readonly Process: { readonly cluster: ObservedCluster; readonly cpuSeconds: number }
  readonly Start: { readonly version: string }
}
