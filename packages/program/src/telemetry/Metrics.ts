/** The metrics of a process: the events of runs and the requests are counted, and the state of the sources sets the gauges. */
import { ageOf, type ListFreshness, type ScanEvent, Sink, type SinkError } from "@payments/copy"
import { Lists, type ObservedRequest } from "@payments/core"
import { Context, DateTime, Duration, Effect, Layer, Metric, Result } from "effect"
import { ExitCode, outcomeExitCode } from "../outcome/ExitCode.ts"
import type { Source } from "../sources/Source.ts"
import { definitions, type LabelsOf } from "./MetricDefinitions.ts"
import { Series } from "./MetricSeries.ts"

/** What the gauges of a source show. A source of the worker's snapshot is one. */
export interface ObservedSource {
  readonly name: string
  /** `elsewhere`: another runner of the cluster has the source, or none yet. `stopped`: until a person acts. */
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
  /** A consumer without a lag is refused until it has said where it stands. */
  readonly consumers: ReadonlyArray<{ readonly lag: number | undefined; readonly movedAt: string }>
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
  /** Counts that this process has taken over a source from another runner of its cluster. */
  readonly onTakeover: (source: string) => Effect.Effect<void>
  /** Sets the gauges of these sources, of the cluster and of the process. `now` is in milliseconds since 1970. */
  readonly observe: (
    sources: ReadonlyArray<ObservedSource>,
    now: number,
    cluster?: { readonly isHealthy: boolean } | null
  ) => void
  /** Removes the series of all other sources and lists. */
  readonly retain: (sources: ReadonlyArray<ObservedSource>) => void
}>()("@payments/program/Metrics") {
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
    requestsOf: (source) => ({ isRateShared, list, maxPerSecond, result, seconds }) => {
      const series = listOf(source, Lists.byName[list].label)
      series.add("payments_requests_total", 1, { result: requestResults[result] })
      series.record("payments_request_duration_seconds", seconds)
      const ofSource = sourceOf(source).series
      ofSource.set("payments_rate_limit_requests_per_second", maxPerSecond)
      ofSource.set("payments_rate_limit_shared", isRateShared === undefined ? undefined : Number(isRateShared))
    },
    onDestinationWait: (source, list) =>
      Effect.sync(() =>
        listOf(source, Lists.byName[list].label).add("payments_waits_total", 1, { reason: "destination" })
      ),
    onStall: (source, list) =>
      Effect.sync(() => listOf(source, Lists.byName[list].label).add("payments_stalls_total", 1)),
    onTakeover: (source) => Effect.sync(() => sourceOf(source).series.add("payments_takeovers_total", 1)),
    observe: (observed, now, cluster) => {
      ofProcess.set("payments_cluster_healthy", cluster ? Number(cluster.isHealthy) : null)
      const { system, user } = process.cpuUsage()
      ofProcess.add("process_cpu_seconds_total", Math.max(0, (system + user) / 1e6 - cpuSeconds))
      cpuSeconds = (system + user) / 1e6
      ofProcess.set("process_resident_memory_bytes", process.memoryUsage.rss())
      for (const { lists, name, problem, state } of observed) {
        const source = sourceOf(name)
        source.series.set("payments_source_held", cluster ? Number(state !== "elsewhere") : null)
        if (cluster) source.series.add("payments_takeovers_total", 0)
        // Only the runner that has the source knows more about it. What this process knew before is no longer true.
        if (state === "elsewhere") {
          for (const gauge of gaugesOfOwner) source.series.set(gauge, null)
          for (const series of source.lists.values()) series.clear()
          source.lists.clear()
          continue
        }
        source.series.set("payments_source_stopped", state === "stopped" ? 1 : 0)
        // Each list names the consumers of the whole destination.
        setConsumers(source.series, lists.flatMap(({ consumers }) => consumers), now)
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

const sinkFailures: { readonly [tag in SinkError["reason"]["_tag"] | "HeldBack"]: FailureReason } = {
  HeldBack: "held_back",
  Locked: "destination",
  LeaseLost: "destination",
  Moved: "destination",
  RowsRemoved: "destination",
  OtherSource: "destination",
  OtherRule: "destination",
  PersonalDataChanged: "destination",
  LogInUse: "destination",
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

/** The gauges of a source that only the process that runs it has. */
const gaugesOfOwner = [
  "payments_source_stopped",
  "payments_consumer_lag_changes",
  "payments_consumer_idle_seconds",
  "payments_rate_limit_requests_per_second",
  "payments_rate_limit_shared"
] as const

const setConsumers = (
  series: Series,
  consumers: ObservedList["consumers"],
  now: number
): void => {
  const known = consumers.length > 0
  // A refused consumer reads nothing, so it counts as behind.
  const lag = consumers.reduce((most, consumer) => Math.max(most, consumer.lag ?? 1), 0)
  const idle = consumers.filter((consumer) => consumer.lag !== 0)
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
  // The rows that a standby has held back before say nothing about the scans of the worker that has the lock now.
  if (!holdsLock) series.set("payments_list_held_back_rows", null)
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
  const { kind, outcome } = event
  const { result } = outcome
  const exitCode = outcomeExitCode(outcome)
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
