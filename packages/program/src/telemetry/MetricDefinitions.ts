/**
 * All metrics of the programs: what each is, and where its values come from. `/metrics`, the OTLP export and the table
 * in the docs derive from {@link definitions}. Names and labels are a promise: dashboards and alert rules of other
 * teams use them, so a test fixes them.
 *
 * Labels have the source, the list and values from closed sets, never text from a service or a record, except
 * the status of open records: a few words that look like codes. A source with one list has at most 79 series, in a cluster 81, with a rate limit store one more. Each further list has less than
 * that, a hand-off at most 9, and a process at most 100 of its own.
 */
import { type DriftName, otherCode, storedCode } from "@payments/copy"
import type { ObservedRequest } from "@payments/core"
import { Duration, Result } from "effect"
import { outcomeExitCode, requestRows, sinkRows } from "../outcome/ErrorTable.ts"
import { ExitCode } from "../outcome/ExitCode.ts"
import type { Facts, ObservedList, ObservedSource } from "./MetricFacts.ts"

type LabelValues = { readonly [label: string]: ReadonlyArray<string> }

type LabelsOf<Values extends LabelValues> = { readonly [Label in keyof Values]: Values[Label][number] }

/**
 * What a fact says about a metric: the value of its only series, or those of several series. A gauge is set to them, a
 * counter incremented by them. Null removes all series; an empty array changes nothing.
 */
export type Samples<Values extends LabelValues = LabelValues> =
  | number
  | null
  | ReadonlyArray<readonly [value: number, labels: LabelsOf<Values>]>

/** A metric. */
export interface Definition<Values extends LabelValues = LabelValues> {
  readonly type: "counter" | "gauge" | "histogram"
  /** What has series of its own: each list and each hand-off of each source, each source, or only the process. */
  readonly per: "list" | "handoff" | "source" | "process"
  /** The unit in UCUM, for OTLP. Prometheus has it in the name. */
  readonly unit: string
  readonly help: string
  readonly labels?: Values
  /**
   * The number of series with these labels that exist at the same time, if not every combination does. The series of a fact then
   * replace those of the fact before.
   */
  readonly atOnce?: number
  /** The upper bounds of a histogram's buckets. */
  readonly buckets?: ReadonlyArray<number>
  /** The values that each kind of fact gives. */
  readonly from: { readonly [Name in keyof Facts]?: (fact: Facts[Name]) => Samples<Values> }
}

/** Checks the labels of a metric's values. */
const metric = <const Values extends LabelValues = Record<never, never>>(definition: Definition<Values>): Definition =>
  // Only its own values have its labels.
  definition as unknown as Definition

const kinds = ["full", "window", "head"] as const
const recordOutcomes = ["inserted", "updated", "unchanged", "missing", "returned", "quarantined"] as const
const driftNames = [
  "new-value",
  "new-step",
  "new-gap",
  "new-change",
  "new-delay",
  "day-records",
  "list-order",
  "places",
  "page-records",
  "count",
  "references"
] as const satisfies ReadonlyArray<DriftName>
const requestOutcomes = [
  "ok",
  "unauthorized",
  "refused",
  "rate_limited",
  "server_error",
  "no_answer",
  "malformed"
] as const
const failureReasons = ["unauthorized", "service", "destination", "held_back", "stalled", "other"] as const

const handoffResults = ["accepted", "refused", "failed", "no_answer"] as const

const handoffResult = ({ answer, verdict }: Facts["HandoffAttempt"]): typeof handoffResults[number] => {
  if (answer._tag === "NoAnswer") return "no_answer"
  if (verdict._tag === "Accept") return "accepted"
  const isRefused = verdict._tag === "Halve" || (verdict._tag === "Halt" && verdict.reason !== "gaveUp")
  return isRefused ? "refused" : "failed"
}

/** Why a hand-off stands still. */
const haltReasons = ["gone", "gave_up", "restored", "removed", "refused", "full"] as const

/** The label is the same for the whole process. */
const ofThisProcess: ReadonlyArray<string> = []

/** The label has words of the service: at most {@link mostOpenStatuses}, and only words that look like codes. */
const ofTheService: ReadonlyArray<string> = []

/** So many statuses of open records have a series of their own. */
const mostOpenStatuses = 5

/** `open` has the longest open records first. */
const openSamples = (open: NonNullable<ObservedList["open"]>) => {
  const seconds = new Map<string, number>()
  for (const one of open) {
    if (one.seconds === null) continue
    const code = one.status === null ? "none" : storedCode(one.status)
    const isNamed = code !== otherCode && (seconds.has(code) || seconds.size < mostOpenStatuses)
    const status = isNamed ? code : "other"
    seconds.set(status, Math.max(seconds.get(status) ?? 0, one.seconds))
  }
  return [...seconds].map(([status, value]) => [value, { status }] as const)
}

const most = (values: ReadonlyArray<number>): number | null => values.length === 0 ? null : Math.max(0, ...values)

/** Each list names the consumers of the whole destination. */
const consumersOf = ({ lists }: ObservedSource) => lists.flatMap(({ consumers }) => consumers)

/** Scans of parts do not read the whole list. */
const wholeRuns = ({ outcome: { result } }: Facts["Ended"]) =>
  Result.isFailure<unknown, unknown>(result)
    ? []
    : "kind" in result.success
    ? [result.success]
    : result.success.filter(({ part }) => part === undefined)

/** A full scan says for each kind of drift how much it has found. A pass says only what it has found. */
const driftOf = (
  event: Facts["Ended"],
  fact: DriftName
): ReadonlyArray<readonly [number, { readonly fact: DriftName }]> =>
  wholeRuns(event).flatMap(({ drift }) => {
    const found = drift.filter((one) => one.fact === fact).length
    return event.kind === "full" || found > 0 ? [[found, { fact }]] : []
  })

const resultsOf = (event: Facts["Ended"]) => {
  const exitCode = outcomeExitCode(event.outcome)
  if (Result.isFailure<unknown, unknown>(event.outcome.result)) {
    return [exitCode === ExitCode.notAuthorized ? "unauthorized" : "failed"] as const
  }
  return wholeRuns(event).map(() => exitCode === ExitCode.done ? "complete" : "incomplete")
}

const requestResult = (result: ObservedRequest["result"]): typeof requestOutcomes[number] =>
  result === "Succeeded" ? "ok" : requestRows[result].label

type FailureReason = typeof failureReasons[number]

const isKey = <Key extends string>(key: string, object: { readonly [name in Key]: unknown }): key is Key =>
  Object.hasOwn(object, key)

/** `tag` is that of the error. */
const failureReason = (tag: string): FailureReason => {
  if (tag === "HeldBack") return "held_back"
  if (isKey(tag, sinkRows)) return "destination"
  if (!isKey(tag, requestRows)) return "other"
  return requestRows[tag].label === "unauthorized" ? "unauthorized" : "service"
}

/** All metrics, by name. */
export const definitions = {
  payments_list_age_seconds: metric({
    type: "gauge",
    per: "list",
    unit: "s",
    help: "Time since the start of the list's last complete full scan. No series before the first.",
    from: { List: ({ ageSeconds }) => ageSeconds }
  }),
  payments_list_max_age_seconds: metric({
    type: "gauge",
    per: "list",
    unit: "s",
    help: "The age that the list may have (max_age). No series for a list without this setting.",
    from: { List: ({ maxAgeSeconds }) => maxAgeSeconds }
  }),
  payments_oldest_open_seconds: metric({
    type: "gauge",
    per: "list",
    unit: "s",
    labels: { status: ofTheService },
    atOnce: mostOpenStatuses + 1,
    help:
      "Time since the creation of the oldest record of the list that is open, by its status. other: statuses with younger records, and names that are no codes. none: no status. No series if no final status is known and the list has no max_open.",
    from: { List: ({ open }) => open === null ? null : openSamples(open) }
  }),
  payments_open_undated_records: metric({
    type: "gauge",
    per: "list",
    unit: "{record}",
    help:
      "Open records whose date of creation cannot be read, so that nobody knows how long they have been open. No series for a list without max_open.",
    from: {
      List: ({ maxOpenSeconds, open }) =>
        open === null || maxOpenSeconds === null ? null : open.reduce((sum, { undated }) => sum + undated, 0)
    }
  }),
  payments_list_max_open_seconds: metric({
    type: "gauge",
    per: "list",
    unit: "s",
    help: "How long a record of the list may be open (max_open). No series for a list without this setting.",
    from: { List: ({ maxOpenSeconds }) => maxOpenSeconds }
  }),
  payments_list_rows: metric({
    type: "gauge",
    per: "list",
    unit: "{row}",
    help: "Rows of the list in the destination.",
    from: { List: ({ rows }) => rows }
  }),
  payments_list_missing_rows: metric({
    type: "gauge",
    per: "list",
    unit: "{row}",
    help: "Those of payments_list_rows that two complete scans in a row did not return.",
    from: { List: ({ missing, rows }) => rows === null ? null : missing }
  }),
  payments_list_quarantined_records: metric({
    type: "gauge",
    per: "list",
    unit: "{record}",
    help:
      "Records of the list that its last complete full scan has quarantined, or a later one that has quarantined more.",
    from: { List: ({ quarantined, rows }) => rows === null ? null : quarantined }
  }),
  payments_list_held_back_rows: metric({
    type: "gauge",
    per: "list",
    unit: "{row}",
    help: "Rows that the last full scan of this process did not mark missing, because they are too many at once.",
    from: {
      Ended: (event) => wholeRuns(event).flatMap((run) => "heldBack" in run ? [[run.heldBack, {}]] : []),
      // The rows that a standby held back before say nothing about the scans of the worker that has the lock now.
      List: ({ holdsLock }) => holdsLock ? [] : null
    }
  }),
  payments_behaviour_changed: metric({
    type: "gauge",
    per: "list",
    unit: "{change}",
    labels: { fact: driftNames },
    help:
      "What the last full scan of this process, or a pass since, has found that no earlier record had, that contradicts a certain fact, or that is unusual.",
    from: { Ended: (event) => driftNames.flatMap((fact) => driftOf(event, fact)) }
  }),
  payments_list_lock_held: metric({
    type: "gauge",
    per: "list",
    unit: "1",
    help: "1 if this process holds the list's lock, 0 if it is a standby.",
    from: { List: ({ holdsLock }) => Number(holdsLock) }
  }),
  payments_list_failure: metric({
    type: "gauge",
    per: "list",
    unit: "1",
    labels: { reason: failureReasons },
    atOnce: 1,
    help: "1 while the last run of the list has not succeeded, with the reason. No series after a success.",
    from: {
      List: ({ failure, stall }) =>
        stall === null && failure === null
          ? null
          : [[1, { reason: stall === null ? failureReason(failure?.reason ?? "") : "stalled" }]]
    }
  }),
  payments_list_head_passes_stopped: metric({
    type: "gauge",
    per: "list",
    unit: "1",
    help: "1 if the head passes of the list were stopped, because its order is not newest first.",
    from: { List: ({ headProblem }) => Number(headProblem !== null) }
  }),
  payments_consumer_lag_changes: metric({
    type: "gauge",
    per: "source",
    unit: "{change}",
    help:
      "Changes that the slowest consumer of the source's destination has not acknowledged. No series without consumers.",
    from: {
      // A refused consumer reads nothing, so it counts as behind.
      Source: ({ source }) => most(consumersOf(source).map(({ lag = 1 }) => lag))
    }
  }),
  payments_consumer_idle_seconds: metric({
    type: "gauge",
    per: "source",
    unit: "s",
    help:
      "Time since the last acknowledgement of the consumer that has been unused for longest, of those with changes to read; 0 if there is none. No series without consumers.",
    from: {
      Source: ({ now, source }) =>
        most(consumersOf(source).map(({ lag, movedAt }) => lag === 0 ? 0 : (now - Date.parse(movedAt)) / 1000))
    }
  }),
  payments_scan_duration_seconds: metric({
    type: "gauge",
    per: "list",
    unit: "s",
    labels: { kind: kinds },
    help: "Duration of the last run that succeeded: full scan, window pass or head pass.",
    from: {
      Ended: (event) => wholeRuns(event).map(({ elapsed }) => [Duration.toSeconds(elapsed), { kind: event.kind }])
    }
  }),
  payments_rate_limit_requests_per_second: metric({
    type: "gauge",
    per: "source",
    unit: "{request}/s",
    help:
      "Requests per second that the client may send now; while payments_rate_limit_shared is 1, those of all clients of the key together. No series without a limit.",
    from: { Request: ({ maxPerSecond }) => maxPerSecond ?? null }
  }),
  payments_rate_limit_shared: metric({
    type: "gauge",
    per: "source",
    unit: "1",
    help:
      "1 if the last request of the source shared the request rate of its key through rate_limit_store, 0 if the store could not be used. No series without a store.",
    from: { Request: ({ isRateShared }) => isRateShared === undefined ? null : Number(isRateShared) }
  }),
  payments_source_stopped: metric({
    type: "gauge",
    per: "source",
    unit: "1",
    help:
      "1 if the source was stopped until a person acts, for example because its destination belongs to another source.",
    from: { Source: ({ source }) => Number(source.state === "stopped") }
  }),
  payments_source_held: metric({
    type: "gauge",
    per: "source",
    unit: "1",
    help:
      "1 if this process runs the source, 0 if another runner of the cluster has it or none. No series without a cluster.",
    from: { Placement: ({ cluster, isHere }) => cluster ? Number(isHere) : null }
  }),
  payments_takeovers_total: metric({
    type: "counter",
    per: "source",
    unit: "{takeover}",
    help: "How many times this process has taken the source over from another runner. No series without a cluster.",
    from: { Placement: ({ cluster }) => cluster ? 0 : [], Takeover: () => 1 }
  }),
  payments_handoff_lag_changes: metric({
    type: "gauge",
    per: "handoff",
    unit: "{change}",
    help: "Changes that the consumer's receiver has not accepted yet. No series on a process that does not send.",
    from: { Handoff: ({ lagChanges }) => lagChanges }
  }),
  payments_handoff_lag_seconds: metric({
    type: "gauge",
    per: "handoff",
    unit: "s",
    help: "Age of the oldest change that the consumer's receiver has not accepted yet; 0 if there is none.",
    from: { Handoff: ({ lagSeconds }) => lagSeconds }
  }),
  payments_handoff_attempts_total: metric({
    type: "counter",
    per: "handoff",
    unit: "{attempt}",
    labels: { result: handoffResults },
    help:
      "Requests to the consumer's receiver. refused: a 4xx that is not tried again as it is. failed: any other status but 2xx. no_answer: no connection, or a timeout.",
    from: { HandoffAttempt: (attempted) => [[1, { result: handoffResult(attempted) }]] }
  }),
  payments_handoff_refusals_total: metric({
    type: "counter",
    per: "handoff",
    unit: "{change}",
    help: "Single changes that the consumer's receiver has refused. Each waits for a decision.",
    from: {
      HandoffAttempt: ({ verdict }) => Number(verdict._tag === "Halt" && verdict.reason === "refused")
    }
  }),
  payments_handoff_set_aside_changes: metric({
    type: "gauge",
    per: "handoff",
    unit: "{change}",
    help:
      "Changes that wait for a decision, with those of the same records behind them, while other changes are sent. No series unless order is per-record.",
    from: { Handoff: ({ undecided }) => undecided }
  }),
  payments_handoff_stopped: metric({
    type: "gauge",
    per: "handoff",
    unit: "1",
    labels: { reason: haltReasons },
    atOnce: 1,
    help:
      "1 while nothing is sent until a person acts, with the reason. refused: one change waits for a decision. full: so many changes are set aside. No series while changes are sent.",
    from: {
      Handoff: ({ reason }) => reason === null ? null : [[1, { reason: reason === "gaveUp" ? "gave_up" : reason }]]
    }
  }),
  payments_scans_total: metric({
    type: "counter",
    per: "list",
    unit: "{scan}",
    labels: { kind: kinds, result: ["complete", "incomplete", "unauthorized", "failed"] },
    help:
      "Runs that ended, without scans of parts. incomplete: the end of the list was reached, but records are quarantined, rows held back, or the service counts more records than it returned.",
    from: { Ended: (event) => resultsOf(event).map((result) => [1, { kind: event.kind, result }]) }
  }),
  payments_records_total: metric({
    type: "counter",
    per: "list",
    unit: "{record}",
    labels: { outcome: recordOutcomes },
    help:
      "Records that were read, by what they did to the destination, and rows that became missing. Returned rows and quarantined records count as inserted, updated or unchanged too.",
    from: {
      Committed: ({ before, progress }) =>
        recordOutcomes.map((outcome) => [progress[outcome] - before[outcome], { outcome }])
    }
  }),
  payments_requests_total: metric({
    type: "counter",
    per: "list",
    unit: "{request}",
    labels: { result: requestOutcomes },
    help:
      "Requests to the service. refused: 404 and other 4xx. no_answer: no connection, or a timeout. malformed: not a page.",
    from: { Request: ({ result }) => [[1, { result: requestResult(result) }]] }
  }),
  payments_waits_total: metric({
    type: "counter",
    per: "list",
    unit: "{wait}",
    labels: { reason: ["rate_limited", "service", "destination"] },
    help: "Waits before a page is requested again, or before the destination is opened again.",
    from: {
      Waiting: ({ error }) => [[1, { reason: error.reason._tag === "RateLimited" ? "rate_limited" : "service" }]],
      DestinationWait: () => [[1, { reason: "destination" }]]
    }
  }),
  payments_stalls_total: metric({
    type: "counter",
    per: "list",
    unit: "{stall}",
    help: "Full scans that were ended because they committed no page for 10 minutes.",
    from: { Stall: () => 1 }
  }),
  payments_request_duration_seconds: metric({
    type: "histogram",
    per: "list",
    unit: "s",
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 10],
    help: "Duration of requests to the service, with reading the answer.",
    from: { Request: ({ seconds }) => seconds }
  }),
  payments_commit_duration_seconds: metric({
    type: "histogram",
    per: "list",
    unit: "s",
    buckets: [0.01, 0.1, 1],
    help: "Duration of commits of pages into the destination.",
    from: { Committed: ({ elapsed }) => Duration.toSeconds(elapsed) }
  }),
  payments_cluster_healthy: metric({
    type: "gauge",
    per: "process",
    unit: "1",
    help:
      "1 if this process has joined the cluster and its database has answered within the last seconds, else 0. No series without a cluster.",
    from: { Process: ({ cluster }) => cluster ? Number(cluster.isHealthy) : null }
  }),
  payments_build_info: metric({
    type: "gauge",
    per: "process",
    unit: "1",
    labels: { version: ofThisProcess, node: ofThisProcess },
    help: "1, with the version of the program and of Node.",
    from: { Start: ({ version }) => [[1, { version, node: process.versions.node }]] }
  }),
  process_start_time_seconds: metric({
    type: "gauge",
    per: "process",
    unit: "s",
    help: "When the process started, in seconds since 1970.",
    from: { Start: () => performance.timeOrigin / 1000 }
  }),
  process_cpu_seconds_total: metric({
    type: "counter",
    per: "process",
    unit: "s",
    help: "CPU time of the process.",
    from: { Process: ({ cpuSeconds }) => cpuSeconds }
  }),
  process_resident_memory_bytes: metric({
    type: "gauge",
    per: "process",
    unit: "By",
    help: "Resident memory of the process.",
    from: { Process: () => process.memoryUsage.rss() }
  })
}

/** The name of a metric. */
export type MetricName = keyof typeof definitions
