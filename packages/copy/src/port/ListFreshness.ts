/** The figures that `Freshness.ts` reads from a destination: plain data, without personal data. */
import type { Certificate } from "./Certificate.ts"
import type { Generation } from "./Generations.ts"

/** The state of a list in a destination. */
export interface ListFreshness {
  /** The list's name, as on the command line. */
  readonly list: string
  /** All rows, missing ones included. Exact unless another program has removed rows, which `verify` detects. */
  readonly rows: number
  /** Rows that are marked missing. Exact. */
  readonly missing: number
  /**
   * The records that the last complete full scan has quarantined, or a later one that has quarantined more. Before the first
   * complete full scan: those of complete parts, if they are more.
   */
  readonly quarantined: number
  /** The last complete full scan. Undefined before the first. */
  readonly completeScan: {
    readonly scan: number
    /** The age of the list counts from here. */
    readonly startedAt: string
    readonly endedAt: string
    /** Undefined if another program has altered its text. */
    readonly certificate: Certificate | undefined
  } | undefined
  /** The full scan that is running or was interrupted, or else such a scan of a part. It is interrupted without a `holder`. */
  readonly running: {
    readonly scan: number
    /** `full` or `part`. */
    readonly kind: string
    readonly startedAt: string
    readonly pages: number
    readonly records: number
  } | undefined
  /** The process that has the list's lock, its machine and the start of its lock. Undefined if no process has it. */
  readonly holder: string | undefined
  /** Why head passes of the list are stopped. Undefined if they are not. */
  readonly headProblem: string | undefined
  /** The current one. Undefined in a destination of a version without generations. */
  readonly generation: Generation | undefined
  /** The number of the last change of any list. */
  readonly lastChange: number
  /** Each reads the changes of all lists. */
  readonly consumers: ReadonlyArray<ConsumerState>
}

/** A named reader of changes, as the destination knows it. */
export interface ConsumerState {
  readonly name: string
  /** The generation of its position. Undefined in a destination of a version without generations. */
  readonly generation: string | undefined
  /** The number of the last change that it has acknowledged. */
  readonly position: number
  /**
   * The number of changes after its position, of all lists. Undefined if the destination is in a later generation: the consumer
   * reads nothing until it has said where it stands.
   */
  readonly lag: number | undefined
  readonly movedAt: string
}

/** The number of changes of one kind on one UTC day. */
export interface ChangeCount {
  /** The day as `YYYY-MM-DD`. */
  readonly day: string
  readonly kind: "insert" | "update" | "missing" | "returned"
  readonly changes: number
}

export interface StatusTotal {
  /** The first {@link longestStatus} characters of the status. Null if a row has none. */
  readonly status: string | null
  readonly rows: number
  /** The exact sums of the amount columns, as digits. */
  readonly sums: { readonly [column: string]: string }
}

export interface StatusTotals {
  /** The most frequent statuses first, at most {@link mostStatuses}. */
  readonly statuses: ReadonlyArray<StatusTotal>
  /** The rows with any other status. */
  readonly other: Omit<StatusTotal, "status">
}

/** Characters at which a status is cut. Statuses with the same beginning count as one. */
export const longestStatus = 100
export const mostStatuses = 20

/** Figures of a list for charts. */
export interface Overview {
  readonly at: string
  /** The changes of the last 30 days in UTC, today included, the oldest day first. */
  readonly days: ReadonlyArray<{ readonly day: string } & { readonly [Kind in ChangeCount["kind"]]: number }>
  /** The rows that are not missing, by status, with the exact sums of the amount columns. */
  readonly statuses: StatusTotals["statuses"]
  /** The rows with any other status than the 20 most frequent ones. */
  readonly otherStatuses: StatusTotals["other"]
}

/** Which states of a list are final: no record leaves them. */
export interface FinalStates {
  readonly states: ReadonlyArray<string>
  /** `unknown`: nothing is known, so that records of every status count as open. */
  readonly from: "configured" | "learned" | "unknown"
  /** Those of the configured states that no record is known to have had: perhaps they are misspelled. */
  readonly unseen?: ReadonlyArray<string>
}

/** The open records with one status. */
export interface OpenStatus {
  /** The first {@link longestStatus} characters of the status. Null if a record has none. */
  readonly status: string | null
  readonly records: number
  /** Those whose date of creation is no instant, so that their age is not known. */
  readonly undated: number
  /** When the oldest of the others was created (ISO 8601 in UTC with milliseconds); undefined if there are no others. */
  readonly oldestAt: string | undefined
}

/** What is asked of the open records of a list. */
export interface OpenQuestion {
  /** The final states that the source names. */
  readonly configured: ReadonlyArray<string> | undefined
  /** Whether a limit says how long a record may be open. */
  readonly isLimited: boolean
}

/** The open records of a list, which are not missing. */
export interface OpenRecords {
  readonly finalStates: FinalStates
  /** By status. The status of the oldest record comes first, those without a date last. */
  readonly statuses: ReadonlyArray<OpenStatus>
  /** Fields that the copy leaves out or replaces, so that it knows no open records. */
  readonly lacking: ReadonlyArray<string>
}
