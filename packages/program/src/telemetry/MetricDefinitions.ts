/**
 * All metrics of the programs. `/metrics`, the OTLP export and the table in the docs derive from {@link definitions}. Names
 * and labels are a promise: dashboards and alert rules of other teams use them, so a test fixes them.
 *
 * Labels have the source, the list and values from closed sets, never text from a service or a record. A source with one
 * list has at most 60 series, in a cluster 62, with a rate limit store one more, each further list less than that, and a process at most 100 of its own.
 */

/** A metric. */
export interface Definition {
  readonly type: "counter" | "gauge" | "histogram"
  /** Whether each list of each source has its own series, or each source, or only the process. */
  readonly per: "list" | "source" | "process"
  /** The unit in UCUM, for OTLP. Prometheus has it in the name. */
  readonly unit: string
  readonly help: string
  /** The values of each further label. */
  readonly labels?: { readonly [label: string]: ReadonlyArray<string> }
  /** The number of series with these labels that exist at the same time, if not every combination does. */
  readonly atOnce?: number
  /** The upper bounds of a histogram's buckets. */
  readonly buckets?: ReadonlyArray<number>
}

const kinds = ["full", "window", "head"] as const

/** The values of a label that is the same for the whole process. */
const ofThisProcess: ReadonlyArray<string> = []

/** All metrics, by name. */
export const definitions = {
  payments_list_age_seconds: {
    type: "gauge",
    per: "list",
    unit: "s",
    help: "Time since the start of the list's last complete full scan. No series before the first."
  },
  payments_list_max_age_seconds: {
    type: "gauge",
    per: "list",
    unit: "s",
    help: "The age that the list may have (max_age). No series for a list without this setting."
  },
  payments_list_rows: { type: "gauge", per: "list", unit: "{row}", help: "Rows of the list in the destination." },
  payments_list_missing_rows: {
    type: "gauge",
    per: "list",
    unit: "{row}",
    help: "Those of payments_list_rows that two complete scans in a row did not return."
  },
  payments_list_quarantined_records: {
    type: "gauge",
    per: "list",
    unit: "{record}",
    help:
      "Records of the list that its last complete full scan has quarantined, or a later one that has quarantined more."
  },
  payments_list_held_back_rows: {
    type: "gauge",
    per: "list",
    unit: "{row}",
    help: "Rows that the last full scan of this process did not mark missing, because they are too many at once."
  },
  payments_list_lock_held: {
    type: "gauge",
    per: "list",
    unit: "1",
    help: "1 if this process holds the list's lock, 0 if it is a standby."
  },
  payments_list_failure: {
    type: "gauge",
    per: "list",
    unit: "1",
    labels: { reason: ["unauthorized", "service", "destination", "held_back", "stalled", "other"] },
    atOnce: 1,
    help: "1 while the last run of the list has not succeeded, with the reason. No series after a success."
  },
  payments_list_head_passes_stopped: {
    type: "gauge",
    per: "list",
    unit: "1",
    help: "1 if the head passes of the list were stopped, because its order is not newest first."
  },
  payments_consumer_lag_changes: {
    type: "gauge",
    per: "source",
    unit: "{change}",
    help:
      "Changes that the slowest consumer of the source's destination has not acknowledged. No series without consumers."
  },
  payments_consumer_idle_seconds: {
    type: "gauge",
    per: "source",
    unit: "s",
    help:
      "Time since the last acknowledgement of the consumer that has been unused for longest, of those with changes to read; 0 if there is none. No series without consumers."
  },
  payments_scan_duration_seconds: {
    type: "gauge",
    per: "list",
    unit: "s",
    labels: { kind: kinds },
    help: "Duration of the last run that succeeded: full scan, window pass or head pass."
  },
  payments_rate_limit_requests_per_second: {
    type: "gauge",
    per: "source",
    unit: "{request}/s",
    help:
      "Requests per second that the client may send now; while payments_rate_limit_shared is 1, those of all clients of the key together. No series without a limit."
  },
  payments_rate_limit_shared: {
    type: "gauge",
    per: "source",
    unit: "1",
    help:
      "1 if the last request of the source shared the request rate of its key through rate_limit_store, 0 if the store could not be used. No series without a store."
  },
  payments_source_stopped: {
    type: "gauge",
    per: "source",
    unit: "1",
    help:
      "1 if the source was stopped until a person acts, for example because its destination belongs to another source."
  },
  payments_source_held: {
    type: "gauge",
    per: "source",
    unit: "1",
    help:
      "1 if this process runs the source, 0 if another runner of the cluster has it or none. No series without a cluster."
  },
  payments_takeovers_total: {
    type: "counter",
    per: "source",
    unit: "{takeover}",
    help: "How many times this process has taken the source over from another runner. No series without a cluster."
  },
  payments_scans_total: {
    type: "counter",
    per: "list",
    unit: "{scan}",
    labels: { kind: kinds, result: ["complete", "incomplete", "unauthorized", "failed"] },
    help:
      "Runs that ended, without scans of parts. incomplete: the end of the list was reached, but records are quarantined or rows held back."
  },
  payments_records_total: {
    type: "counter",
    per: "list",
    unit: "{record}",
    labels: { outcome: ["inserted", "updated", "unchanged", "missing", "returned", "quarantined"] },
    help:
      "Records that were read, by what they did to the destination, and rows that became missing. Returned rows and quarantined records count as inserted, updated or unchanged too."
  },
  payments_requests_total: {
    type: "counter",
    per: "list",
    unit: "{request}",
    labels: {
      result: ["ok", "unauthorized", "refused", "rate_limited", "server_error", "no_answer", "malformed"]
    },
    help:
      "Requests to the service. refused: 404 and other 4xx. no_answer: no connection, or a timeout. malformed: not a page."
  },
  payments_waits_total: {
    type: "counter",
    per: "list",
    unit: "{wait}",
    labels: { reason: ["rate_limited", "service", "destination"] },
    help: "Waits before a page is requested again, or before the destination is opened again."
  },
  payments_stalls_total: {
    type: "counter",
    per: "list",
    unit: "{stall}",
    help: "Full scans that were ended because they committed no page for 10 minutes."
  },
  payments_request_duration_seconds: {
    type: "histogram",
    per: "list",
    unit: "s",
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 10],
    help: "Duration of requests to the service, with reading the answer."
  },
  payments_commit_duration_seconds: {
    type: "histogram",
    per: "list",
    unit: "s",
    buckets: [0.01, 0.1, 1],
    help: "Duration of commits of pages into the destination."
  },
  payments_cluster_healthy: {
    type: "gauge",
    per: "process",
    unit: "1",
    help:
      "1 if this process has joined the cluster and its database has answered within the last seconds, else 0. No series without a cluster."
  },
  payments_build_info: {
    type: "gauge",
    per: "process",
    unit: "1",
    labels: { version: ofThisProcess, node: ofThisProcess },
    help: "1, with the version of the program and of Node."
  },
  process_start_time_seconds: {
    type: "gauge",
    per: "process",
    unit: "s",
    help: "When the process started, in seconds since 1970."
  },
  process_cpu_seconds_total: { type: "counter", per: "process", unit: "s", help: "CPU time of the process." },
  process_resident_memory_bytes: { type: "gauge", per: "process", unit: "By", help: "Resident memory of the process." }
} as const satisfies { readonly [name: string]: Definition }

type Definitions = typeof definitions
/** The name of a metric. */
export type MetricName = keyof Definitions
/** The names of the metrics of a type. */
export type NameOf<Type extends Definition["type"]> = {
  [Name in MetricName]: Definitions[Name]["type"] extends Type ? Name : never
}[MetricName]
/** The labels of a metric, without the source and the list. */
export type LabelsOf<Name extends MetricName> = Definitions[Name] extends
  { readonly labels: infer Values extends { readonly [label: string]: ReadonlyArray<string> } }
  ? { readonly [Label in keyof Values]: Values[Label][number] }
  : undefined
/** The labels as arguments of a function: none for a metric without labels. */
export type LabelArguments<Name extends MetricName> = LabelsOf<Name> extends undefined ? [] : [labels: LabelsOf<Name>]
