/**
 * What the worker knows about its sources at one moment. Health checks, metrics and the status page show it. It is
 * plain JSON and contains no key, cursor, filter value or record.
 */
import type { Certificate, ConsumerState, Generation, ListFreshness, OpenRecords, Overview } from "@payments/copy"
import type { HandoffReason } from "@payments/copy/handoff"
import { type Halted, type ObservedList, shellWord } from "@payments/program"

export interface Problem {
  /** The error's tag, such as `Unavailable`. */
  readonly reason: string
  readonly message: string
  /** When the problem began, ISO 8601 UTC. */
  readonly since: string
}

/** All times are ISO 8601 UTC. */
export interface Snapshot {
  readonly version: string
  readonly startedAt: string
  readonly at: string
  /** It is null without a cluster. */
  readonly cluster: ClusterSnapshot | null
  readonly sources: ReadonlyArray<SourceSnapshot>
}

export interface ClusterSnapshot {
  /** The name of this worker. */
  readonly runner: string
  /** Whether this worker can take sources, and the database of the cluster has answered within the last seconds. */
  readonly isHealthy: boolean
}

/**
 * `starting`: the destination is not open yet. `standby`: another worker has the lock of every list. `running`: this
 * worker has the lock of a list. `elsewhere`: in a cluster, another runner has the source, or none yet. `stopped`: no
 * later attempt would succeed, so a person has to act.
 */
export interface SourceSnapshot {
  readonly name: string
  /** The location of the destination, without a password. */
  readonly destination: string
  readonly state: "starting" | "standby" | "running" | "elsewhere" | "stopped"
  /** The runner that has the source. Null without a cluster, and if no live runner is known to have it. */
  readonly runner: string | null
  /**
   * Whether the last request shared the request rate of its key through the rate limit store. False: the store could
   * not be used, so this process keeps to its share. Null without a store, and before the first request.
   */
  readonly isRateShared: boolean | null
  /** Why the destination cannot be used, or why the source was stopped. */
  readonly problem: Problem | null
  /** Empty for a source elsewhere: only the runner that has it knows its lists. */
  readonly lists: ReadonlyArray<ListSnapshot>
  /** Empty unless this worker runs the source. */
  readonly handoffs: ReadonlyArray<HandoffState>
}

/** The hand-off of a source's changes to a consumer. It has no data of a change but its number. */
export interface HandoffState {
  readonly consumer: string
  /** The address without its path and query. Null: the settings no longer name the consumer. */
  readonly origin: string | null
  /**
   * `inactive`: this worker does not send yet. `waiting`: the receiver refuses one change, which waits for a decision.
   * `stopped`: until a person resumes it. `removed`: the settings no longer name the consumer, which still keeps its
   * changes from being removed.
   */
  readonly state: "inactive" | "running" | "waiting" | "stopped" | "removed"
  /** Why it is stopped or waits. */
  readonly reason: HandoffReason | null
  /** The number of the refused change. */
  readonly seq: number | null
  /** The number of the last change that was accepted; null before the destination was read. */
  readonly position: number | null
  readonly lagChanges: number | null
  /** The age of the oldest change that was not accepted; 0 without one. */
  readonly lagSeconds: number | null
  /** With `order = "per-record"`, how many changes are set aside. Else null. */
  readonly setAside: number | null
  /** How many of them wait for a decision, with the later ones of the same records. The others are sent again. */
  readonly undecided: number | null
  /** When the first of them is sent again; null: at once, or none is. */
  readonly resentAt: string | null
  /** How often the batch in flight was sent. */
  readonly attempts: number
  readonly nextAttemptAt: string | null
  /** The status of the last answer, or why there was none. */
  readonly answer: string | null
  /** Why nothing can be sent, such as keys that cannot be read. */
  readonly problem: Problem | null
}

/** Returns the hand-off if nothing is sent until a person acts, else undefined. */
export const haltedOf = ({ consumer, reason, seq, state }: HandoffState): Halted | undefined =>
  state === "stopped" || state === "waiting" ? { consumer, reason, seq, state } : undefined

/** The flag of commands that names a source. */
export const placeOf = ({ name }: Pick<SourceSnapshot, "name">): string => `--source ${shellWord(name)}`

/** Whether no live runner of the cluster is known to have the source. */
export const isWithoutRunner = ({ runner, state }: SourceSnapshot): boolean => state === "elsewhere" && runner === null

/** The kinds of runs, in words. */
export const kindWords = { full: "full scan", window: "window pass", head: "head pass" }

export type RunKind = keyof typeof kindWords

export interface ListSnapshot extends ListState, Pick<ObservedList, "open"> {
  /** The time since the start of the last complete full scan; null before the first. */
  readonly ageSeconds: number | null
  /** Whether the list is younger than its `max_age`. A list without `max_age` is always fresh. */
  readonly isFresh: boolean
}

/** The state of a list, without what depends on the moment. */
export interface ListState {
  /** The list's name on the command line, such as `payout-requests`. */
  readonly list: string
  /** The rows of the destination; null before the destination was read. */
  readonly rows: number | null
  readonly missing: number
  readonly quarantined: number
  readonly completeScan: CompleteScan | null
  /** The process that has the lock, if it is another one. */
  readonly holder: string | null
  readonly holdsLock: boolean
  /** Why head passes of this list were stopped. */
  readonly headProblem: string | null
  /** What the last full scan, and the passes since, have found that is new or has changed, each as a line. */
  readonly drift: ReadonlyArray<string>
  readonly maxAgeSeconds: number | null
  readonly maxOpenSeconds: number | null
  /** The run of this process over the list. */
  readonly progress: Progress | null
  /** Why the last run of this kind did not succeed. A failed full scan counts more than a failed pass. */
  readonly failure: Failure | null
  /** Why a full scan committed no page for so long that it was ended twice. */
  readonly stall: Problem | null
  /** When the next runs begin; null for a kind that is not scheduled or is running. */
  readonly next: { readonly [kind in RunKind]: string | null }
  /** The full scan that the destination has as running or interrupted. */
  readonly running: ListFreshness["running"] | null
  /** The current generation of the destination's changes; null before the destination was read. */
  readonly generation: Generation | null
  /** The number of the last change of any list; null before the destination was read. */
  readonly lastChange: number | null
  /** A consumer without a lag is refused until it has said where it stands in this generation. */
  readonly consumers: ReadonlyArray<ConsumerState>
  /** The open records, some minutes old; null if they are not read. */
  readonly openRecords: OpenRecords | null
  /** Figures for charts, some minutes old. */
  readonly overview: Overview | null
}

export interface Failure extends Problem {
  readonly kind: RunKind
}

/** A full scan that reached the end of its list. */
export interface CompleteScan {
  readonly scan: number
  readonly startedAt: string
  readonly endedAt: string
  readonly certificate: Certificate | null
}

export interface Progress {
  readonly kind: RunKind
  readonly startedAt: string
  readonly pages: number
  readonly records: number
  /** The records of the last complete full scan; null for a pass and before the first full scan. */
  readonly expected: number | null
  /** Why the run waits before it requests a page again. */
  readonly waiting: Problem | null
}
