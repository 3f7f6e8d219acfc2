/**
 * All metrics of the programs. `/metrics`, the OTLP export and the table in the docs derive from {@link definitions}. Names
 * and labels are a promise: dashboards and alert rules of other teams use them, so a test fixes them.
 *
 * Labels have the source, the list and values from closed sets, never text from a service or a record. A source with one
 * list has at most 60 series, each further list less than that, and a process at most 100 of its own.
 */
import { Lists, type ObservedRequest } from "@payments/core"
import { Context, DateTime, Duration, Effect, Layer, Metric, Result } from "effect"
import { ExitCode } from "./ExitCode.ts"
import { ageOf } from "./Freshness.ts"
import type { ListFreshness } from "./ListFreshness.ts"
import type { ScanEvent } from "./Scan.ts"
import { Sink, type SinkReason } from "./Sink.ts"
import type { Source } from "./sources/Source.ts"

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
    help: "Requests per second that the client may send now. No series without a limit."
  },
  payments_source_stopped: {
    type: "gauge",
    per: "source",
    unit: "1",
    help:
      "1 if the source was stopped until a person acts, for example because its destination belongs to another source."
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
type NameOf<Type extends Definition["type"]> = {
  [Name in MetricName]: Definitions[Name]["type"] extends Type ? Name : never
}[MetricName]
type LabelsOf<Name extends MetricName> = Definitions[Name] extends
  { readonly labels: infer Values extends { readonly [label: string]: ReadonlyArray<string> } }
  ? { readonly [Label in keyof Values]: Values[Label][number] }
  : undefined
type LabelArguments<Name extends MetricName> = LabelsOf<Name> extends undefined ? [] : [labels: LabelsOf<Name>]

/** What the gauges of a source show. A source of the worker's snapshot is one. */
export interface ObservedSource {
  readonly name: string
  readonly state: string
  /** Why no list of the source can be scanned. */
  readonly problem: { readonly reason: string } | null
  readonly lists: ReadonlyArray<ObservedList>
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
  readonly holdsLock: boolean
  readonly headProblem: string | null
  readonly failure: { readonly reason: string } | null
  readonly stall: { readonly reason: string } | null
  readonly consumers?: ReadonlyArray<{ readonly lag: number; readonly movedAt: string }> | undefined
}

/** Sets the gauges of a source from the current destination. A destination that cannot be read leaves them as they are. */
export const observeSink = (
  { lists: names, maxAge, name }: Pick<Source, "name" | "lists" | "maxAge">
): Effect.Effect<void, never, Metrics | Sink> =>
  Effect.gen(function*() {
    const metrics = yield* Metrics
    const { inspect } = yield* Sink
    if (inspect === undefined) return
    const lists = yield* inspect.freshness(names.map((list) => Lists.byName[list]))
    const now = yield* DateTime.now
    metrics.observe(
      [{ name, state: "running", problem: null, lists: lists.map((list) => observedList(list, maxAge, now)) }],
      DateTime.toEpochMillis(now)
    )
  }).pipe(Effect.ignore)

const observedList = (
  { completeScan, consumers, headProblem, list, missing, quarantined, rows }: ListFreshness,
  maxAge: Duration.Duration | undefined,
  now: DateTime.DateTime
): ObservedList => {
  const age = ageOf({ completeScan }, now)
  return {
    list,
    rows,
    missing,
    quarantined,
    ageSeconds: age === undefined ? null : Duration.toSeconds(age),
    maxAgeSeconds: maxAge === undefined ? null : Duration.toSeconds(maxAge),
    holdsLock: true,
    headProblem: headProblem ?? null,
    failure: null,
    stall: null,
    consumers
  }
}

/** The metrics of this process. */
export class Metrics extends Context.Service<Metrics, {
  /** The registry in which Effect's formatter and exporter find the series. It has no other series. */
  readonly registry: Metric.MetricRegistry
  /** Counts an event of a run of this source. */
  readonly onEvent: (source: string, event: ScanEvent) => Effect.Effect<void>
  /** Returns the function that counts the requests of this source, for `RequestObserver`. */
  readonly requestsOf: (source: string) => (request: ObservedRequest) => void
  /** Counts a wait for the source's destination. */
  readonly onDestinationWait: (source: string, list: Lists.ListName) => Effect.Effect<void>
  /** Counts a full scan that was ended because it committed no page for long. */
  readonly onStall: (source: string, list: Lists.ListName) => Effect.Effect<void>
  /** Sets the gauges of these sources and of the process. `now` is in milliseconds since 1970. */
  readonly observe: (sources: ReadonlyArray<ObservedSource>, now: number) => void
  /** Removes the series of all other sources and lists. */
  readonly retain: (sources: ReadonlyArray<ObservedSource>) => void
}>()("@payments/export/Metrics") {
  static readonly layer = (version: string): Layer.Layer<Metrics> => Layer.sync(Metrics, () => make(version))
}

const make = (version: string): Metrics["Service"] => {
  const registry: Metric.MetricRegistry = new Map()
  const context = Context.make(Metric.MetricRegistry, registry)
  const ofProcess = new Series(context, {})
  ofProcess.set("payments_build_info", 1, { version, node: process.versions.node })
  ofProcess.set("process_start_time_seconds", performance.timeOrigin / 1000)
  let cpuSeconds = 0
  const sources = new Map<string, SourceSeries>()

  const sourceOf = (name: string): SourceSeries => {
    const known = sources.get(name)
    if (known !== undefined) return known
    const added = { series: new Series(context, { source: name }), lists: new Map<string, Series>() }
    sources.set(name, added)
    return added
  }
  const listOf = (source: string, label: string): Series => {
    const { lists } = sourceOf(source)
    const known = lists.get(label)
    if (known !== undefined) return known
    const added = new Series(context, { source, list: label })
    added.addZeros()
    lists.set(label, added)
    return added
  }

  return {
    registry,
    onEvent: (source, event) => Effect.sync(() => countEvent(listOf(source, Lists.byName[event.list].label), event)),
    requestsOf: (source) => ({ list, maxPerSecond, result, seconds }) => {
      const series = listOf(source, Lists.byName[list].label)
      series.add("payments_requests_total", 1, { result: requestResults[result] })
      series.record("payments_request_duration_seconds", seconds)
      sourceOf(source).series.set("payments_rate_limit_requests_per_second", maxPerSecond)
    },
    onDestinationWait: (source, list) =>
      Effect.sync(() =>
        listOf(source, Lists.byName[list].label).add("payments_waits_total", 1, { reason: "destination" })
      ),
    onStall: (source, list) =>
      Effect.sync(() => listOf(source, Lists.byName[list].label).add("payments_stalls_total", 1)),
    observe: (observed, now) => {
      const { system, user } = process.cpuUsage()
      ofProcess.add("process_cpu_seconds_total", Math.max(0, (system + user) / 1e6 - cpuSeconds))
      cpuSeconds = (system + user) / 1e6
      ofProcess.set("process_resident_memory_bytes", process.memoryUsage.rss())
      for (const { lists, name, problem, state } of observed) {
        const source = sourceOf(name)
        source.series.set("payments_source_stopped", state === "stopped" ? 1 : 0)
        // Each list names the consumers of the whole destination.
        setConsumers(source.series, lists.flatMap(({ consumers = [] }) => consumers), now)
        for (const list of lists) {
          setGauges(listOf(name, list.list), { ...list, failure: list.failure ?? problem })
        }
      }
    },
    retain: (observed) => {
      for (const { lists, name } of observed) {
        removeOthers(sourceOf(name).lists, lists.map(({ list }) => list), (series) => series.clear())
      }
      removeOthers(sources, observed.map(({ name }) => name), ({ lists, series }) => {
        series.clear()
        for (const list of lists.values()) list.clear()
      })
    }
  }
}

interface SourceSeries {
  readonly series: Series
  /** By label. */
  readonly lists: Map<string, Series>
}

const removeOthers = <A>(map: Map<string, A>, names: ReadonlyArray<string>, onRemove: (value: A) => void): void => {
  for (const [name, value] of map) {
    if (names.includes(name)) continue
    map.delete(name)
    onRemove(value)
  }
}

/** The series of the process, of a source or of a list. */
class Series {
  readonly #context: Context.Context<never>
  readonly #labels: Readonly<Record<string, string>>
  readonly #metrics = new Map<string, Metric.Metric<number, unknown>>()

  constructor(context: Context.Context<never>, labels: Readonly<Record<string, string>>) {
    this.#context = context
    this.#labels = labels
  }

  /** Sets a gauge. Without a value it has no series. A gauge with `atOnce: 1` keeps only this series. */
  set<Name extends NameOf<"gauge">>(
    name: Name,
    value: number | null | undefined,
    ...[labels]: LabelArguments<Name>
  ): void {
    const definition: Definition = definitions[name]
    if (value === null || value === undefined || definition.atOnce === 1) this.#removeAll(name)
    if (value !== null && value !== undefined) this.#update(name, labels, value)
  }

  /** Increments a counter. */
  add<Name extends NameOf<"counter">>(name: Name, value: number, ...[labels]: LabelArguments<Name>): void {
    this.#update(name, labels, value)
  }

  /** Adds a value to a histogram. */
  record<Name extends NameOf<"histogram">>(name: Name, value: number, ...[labels]: LabelArguments<Name>): void {
    this.#update(name, labels, value)
  }

  /** Adds all counters of a list with the value 0: Prometheus cannot compute the increase of a series that begins with 1. */
  addZeros(): void {
    for (const [name, definition] of Object.entries<Definition>(definitions)) {
      if (definition.per !== "list" || definition.type !== "counter") continue
      for (const labels of combinations(definition.labels ?? {})) this.#update(name as MetricName, labels, 0) // a key
    }
  }

  /** Removes all series. */
  clear(): void {
    for (const metric of this.#metrics.values()) Metric.removeUnsafe(metric, this.#context)
    this.#metrics.clear()
  }

  #removeAll(name: MetricName): void {
    for (const [key, metric] of this.#metrics) {
      if (metric.id !== name) continue
      Metric.removeUnsafe(metric, this.#context)
      this.#metrics.delete(key)
    }
  }

  #update(name: MetricName, labels: Readonly<Record<string, string>> | undefined, value: number): void {
    const key = labels === undefined ? name : `${name} ${Object.values(labels).join(" ")}`
    const known = this.#metrics.get(key)
    const metric = known ?? makeMetric(name, { ...this.#labels, ...labels })
    if (known === undefined) this.#metrics.set(key, metric)
    metric.updateUnsafe(value, this.#context)
  }
}

const makeMetric = (name: MetricName, attributes: Readonly<Record<string, string>>): Metric.Metric<number, unknown> => {
  const { buckets = [], help: description, type }: Definition = definitions[name]
  switch (type) {
    case "counter":
      return Metric.counter(name, { description, attributes, incremental: true })
    case "gauge":
      return Metric.gauge(name, { description, attributes })
    case "histogram":
      return Metric.histogram(name, { description, attributes, boundaries: buckets })
  }
}

/** Returns every combination of values of these labels. */
const combinations = (
  labels: { readonly [label: string]: ReadonlyArray<string> }
): ReadonlyArray<Readonly<Record<string, string>>> =>
  Object.entries(labels).reduce<ReadonlyArray<Readonly<Record<string, string>>>>(
    (all, [label, values]) => all.flatMap((known) => values.map((value) => ({ ...known, [label]: value }))),
    [{}]
  )

type RequestResult = LabelsOf<"payments_requests_total">["result"]

const requestResults: { readonly [result in ObservedRequest["result"]]: RequestResult } = {
  Succeeded: "ok",
  Unauthorized: "unauthorized",
  Forbidden: "unauthorized",
  NotFound: "refused",
  InvalidRequest: "refused",
  RateLimited: "rate_limited",
  ServerFailure: "server_error",
  Transport: "no_answer",
  Timeout: "no_answer",
  MalformedResponse: "malformed",
  PaginationFault: "malformed",
  FilterNotApplied: "malformed",
  RedirectRefused: "malformed",
  UnexpectedStatus: "malformed"
}

type FailureReason = LabelsOf<"payments_list_failure">["reason"]

const sinkFailures: { readonly [tag in SinkReason["_tag"] | "HeldBack"]: FailureReason } = {
  HeldBack: "held_back",
  Locked: "destination",
  LeaseLost: "destination",
  Moved: "destination",
  RowsRemoved: "destination",
  OtherSource: "destination",
  OtherMerchant: "destination",
  NotADestination: "destination",
  WrongSetting: "destination",
  Damaged: "destination",
  Denied: "destination",
  Full: "destination",
  Unavailable: "destination",
  Failed: "destination"
}

const isKey = <Key extends string>(key: string, object: { readonly [name in Key]: unknown }): key is Key =>
  Object.hasOwn(object, key)

/** Returns the reason of a failure by the tag of its error. */
const failureReason = (tag: string): FailureReason =>
  isKey(tag, sinkFailures)
    ? sinkFailures[tag]
    : !isKey(tag, requestResults)
    ? "other"
    : requestResults[tag] === "unauthorized"
    ? "unauthorized"
    : "service"

const setConsumers = (
  series: Series,
  consumers: ReadonlyArray<{ readonly lag: number; readonly movedAt: string }>,
  now: number
): void => {
  const known = consumers.length > 0
  const lag = consumers.reduce((most, consumer) => Math.max(most, consumer.lag), 0)
  const idle = consumers.filter((consumer) => consumer.lag > 0)
    .reduce((most, { movedAt }) => Math.max(most, (now - Date.parse(movedAt)) / 1000), 0)
  series.set("payments_consumer_lag_changes", known ? lag : null)
  series.set("payments_consumer_idle_seconds", known ? idle : null)
}

const setGauges = (series: Series, list: ObservedList): void => {
  const { ageSeconds, failure, headProblem, holdsLock, maxAgeSeconds, stall } = list
  series.set("payments_list_age_seconds", ageSeconds)
  series.set("payments_list_max_age_seconds", maxAgeSeconds)
  series.set("payments_list_rows", list.rows)
  series.set("payments_list_missing_rows", list.rows === null ? null : list.missing)
  series.set("payments_list_quarantined_records", list.rows === null ? null : list.quarantined)
  series.set("payments_list_lock_held", holdsLock ? 1 : 0)
  series.set("payments_list_head_passes_stopped", headProblem === null ? 0 : 1)
  const reason = stall !== null ? "stalled" : failure === null ? undefined : failureReason(failure.reason)
  series.set("payments_list_failure", reason === undefined ? null : 1, { reason: reason ?? "other" })
}

const countEvent = (series: Series, event: ScanEvent): void => {
  switch (event._tag) {
    case "Committed": {
      const { before, elapsed, progress } = event
      for (const outcome of definitions.payments_records_total.labels.outcome) {
        series.add("payments_records_total", progress[outcome] - before[outcome], { outcome })
      }
      series.record("payments_commit_duration_seconds", Duration.toSeconds(elapsed))
      return
    }
    case "Waiting": {
      const isRateLimit = event.error.reason._tag === "RateLimited"
      series.add("payments_waits_total", 1, { reason: isRateLimit ? "rate_limited" : "service" })
      return
    }
    case "Ended":
      countEnd(series, event)
      return
    case "Begun":
    case "Filling":
    case "Restarted":
      return
  }
}

const countEnd = (series: Series, event: Extract<ScanEvent, { readonly _tag: "Ended" }>): void => {
  const { kind, outcome: { exitCode, result } } = event
  if (Result.isFailure<unknown, unknown>(result)) {
    const isUnauthorized = exitCode === ExitCode.notAuthorized
    series.add("payments_scans_total", 1, { kind, result: isUnauthorized ? "unauthorized" : "failed" })
    return
  }
  // Scans of parts do not read the whole list.
  const runs = "kind" in result.success ? [result.success] : result.success.filter(({ part }) => part === undefined)
  for (const run of runs) {
    series.add("payments_scans_total", 1, { kind, result: exitCode === ExitCode.done ? "complete" : "incomplete" })
    series.set("payments_scan_duration_seconds", Duration.toSeconds(run.elapsed), { kind })
    if ("heldBack" in run) series.set("payments_list_held_back_rows", run.heldBack)
  }
}
