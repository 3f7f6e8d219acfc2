/** The metrics of a process. Events of runs and requests increment counters; the state of the sources sets gauges. */
import {
  ageOf,
  ageSince,
  type ListFreshness,
  type OpenQuestion,
  type OpenRecords,
  type ScanEvent,
  Sink
} from "@payments/copy"
import { Lists, type ObservedRequest } from "@payments/core"
import { Context, DateTime, Duration, Effect, Layer, Metric } from "effect"
import type { Source } from "../sources/Source.ts"
import type { Facts, ObservedCluster, ObservedList, ObservedSource } from "./MetricFacts.ts"
import { Series } from "./MetricSeries.ts"

/** The settings of a source that its metrics need. */
export type ObservedSettings = Pick<Source, "name" | "lists" | "maxAge" | "maxOpen" | "finalStates">

/** Sets the gauges of a source from the current destination. If the destination cannot be read, they stay. */
export const observeSink = (source: ObservedSettings): Effect.Effect<void, never, Metrics | Sink> => {
  const openOf = openAfterScans(source)
  return Effect.gen(function*() {
    const metrics = yield* Metrics
    const { inspect } = yield* Sink
    if (inspect === undefined) return
    const lists = yield* inspect.freshness(source.lists.map((list) => Lists.byName[list]))
    const open = yield* Effect.forEach(lists, (list) => openOf(inspect, list))
    const now = yield* DateTime.now
    metrics.observe(
      [{
        name: source.name,
        state: "running",
        problem: null,
        lists: lists.map((list, index) => ({
          ...observedList(list, source.maxAge, now),
          open: observedOpen(open[index], now),
          maxOpenSeconds: limitSeconds(source.maxOpen?.[list.list])
        }))
      }],
      DateTime.toEpochMillis(now)
    )
  }).pipe(Effect.ignore)
}

/** Returns a function that reads the open records of a list once after each complete scan, because that reads every row. */
const openAfterScans = (source: ObservedSettings) => {
  const known = new Map<string, { readonly scan: number; readonly open: OpenRecords | undefined }>()
  return Effect.fnUntraced(function*(
    { openRecords }: NonNullable<Sink["Service"]["inspect"]>,
    { completeScan, list: label }: ListFreshness
  ) {
    const list = Lists.all.find((one) => one.label === label)
    if (completeScan === undefined || list === undefined) return undefined
    const before = known.get(label)
    if (before?.scan === completeScan.scan) return before.open
    const open = yield* openRecords(list, openQuestion(source, list))
    known.set(label, { scan: completeScan.scan, open })
    return open
  })
}

/** What is asked of the open records of a list of a source. */
export const openQuestion = (
  { finalStates, maxOpen }: Pick<Source, "maxOpen" | "finalStates">,
  { label }: Lists.AnyList
): OpenQuestion => ({ configured: finalStates?.[label], isLimited: maxOpen?.[label] !== undefined })

/** How long the oldest open record with each status has been open, and how many have no date. */
export const observedOpen = (
  open: OpenRecords | null | undefined,
  now: DateTime.DateTime
): ObservedList["open"] =>
  open?.statuses.map(({ oldestAt, status, undated }) => ({
    status,
    seconds: oldestAt === undefined ? null : Duration.toSeconds(ageSince(oldestAt, now)),
    undated
  })) ?? null

/** The seconds of a limit; null if there is none. */
export const limitSeconds = (limit: Duration.Duration | undefined): number | null =>
  limit === undefined ? null : Duration.toSeconds(limit)

const observedList = (
  { completeScan, consumers, headProblem, list, missing, quarantined, rows }: ListFreshness,
  maxAge: Duration.Duration | undefined,
  now: DateTime.DateTime
): Omit<ObservedList, "open" | "maxOpenSeconds"> => {
  const age = ageOf({ completeScan }, now)
  return {
    list,
    rows,
    missing,
    quarantined,
    ageSeconds: age === undefined ? null : Duration.toSeconds(age),
    maxAgeSeconds: limitSeconds(maxAge),
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
  readonly onDestinationWait: (source: string, list: Lists.ListName) => Effect.Effect<void>
  /** Counts a full scan that was ended because it committed no page for long. */
  readonly onStall: (source: string, list: Lists.ListName) => Effect.Effect<void>
  /** Counts that this process has taken over a source from another runner of its cluster. */
  readonly onTakeover: (source: string) => Effect.Effect<void>
  /** Counts a request of the hand-off of this source to a consumer. */
  readonly onHandoffAttempt: (
    source: string,
    consumer: string,
    attempted: Facts["HandoffAttempt"]
  ) => Effect.Effect<void>
  /** Sets the gauges of these sources, of the cluster and of the process. `now` is in milliseconds since 1970. */
  readonly observe: (
    sources: ReadonlyArray<ObservedSource>,
    now: number,
    cluster?: ObservedCluster
  ) => void
  /** Removes the series of all other sources, lists and hand-offs. */
  readonly retain: (sources: ReadonlyArray<ObservedSource>) => void
}>()("@payments/program/Metrics") {
  static readonly layer = (version: string): Layer.Layer<Metrics> => Layer.sync(Metrics, () => make(version))
}

const make = (version: string): Metrics["Service"] => {
  const registry: Metric.MetricRegistry = new Map()
  const context = Context.make(Metric.MetricRegistry, registry)
  const ofProcess = new Series(context, "process")
  ofProcess.note("Start", { version })
  let cpuSeconds = 0
  const { handoffOf, listOf, observeSource, sourceOf, sources } = makeSources(context)
  const ofList = (source: string, list: Lists.ListName): Series => listOf(source, Lists.byName[list].label)

  return {
    registry,
    onEvent: (source, event) =>
      Effect.sync(() => {
        const series = ofList(source, event.list)
        if (event._tag === "Committed") series.note("Committed", event)
        else if (event._tag === "Waiting") series.note("Waiting", event)
        else if (event._tag === "Ended") series.note("Ended", event)
      }),
    requestsOf: (source) => (request) => {
      ofList(source, request.list).note("Request", request)
      sourceOf(source).series.note("Request", request)
    },
    onDestinationWait: (source, list) => Effect.sync(() => ofList(source, list).note("DestinationWait", null)),
    onStall: (source, list) => Effect.sync(() => ofList(source, list).note("Stall", null)),
    onTakeover: (source) => Effect.sync(() => sourceOf(source).series.note("Takeover", null)),
    onHandoffAttempt: (source, consumer, attempted) =>
      Effect.sync(() => handoffOf(source, consumer).note("HandoffAttempt", attempted)),
    observe: (observed, now, cluster = null) => {
      const { system, user } = process.cpuUsage()
      const before = cpuSeconds
      cpuSeconds = (system + user) / 1e6
      ofProcess.note("Process", { cluster, cpuSeconds: Math.max(0, cpuSeconds - before) })
      for (const source of observed) observeSource(source, now, cluster)
    },
    retain: (observed) => {
      for (const { lists, name } of observed) {
        removeOthers(sourceOf(name).lists, lists.map(({ list }) => list), (series) => series.clear())
      }
      removeOthers(sources, observed.map(({ name }) => name), ({ handoffs, lists, series }) => {
        series.clear()
        for (const own of [...lists.values(), ...handoffs.values()]) own.clear()
      })
    }
  }
}

/** The series of all sources. */
const makeSources = (context: Context.Context<never>) => {
  const sources = new Map<string, SourceSeries>()
  const sourceOf = (source: string): SourceSeries =>
    getOrAdd(sources, source, () => ({
      series: new Series(context, "source", { source }),
      lists: new Map(),
      handoffs: new Map()
    }))
  const listOf = (source: string, list: string): Series =>
    getOrAdd(sourceOf(source).lists, list, () => new Series(context, "list", { source, list }))
  const handoffOf = (source: string, consumer: string): Series =>
    getOrAdd(sourceOf(source).handoffs, consumer, () => new Series(context, "handoff", { source, consumer }))
  const observeSource = (source: ObservedSource, now: number, cluster: ObservedCluster) => {
    const { handoffs, lists, series } = sourceOf(source.name)
    const configured = source.handoffs?.filter(({ state }) => state !== "removed") ?? []
    for (const handoff of configured) {
      const own = handoffOf(source.name, handoff.consumer)
      if (handoff.state === "inactive") own.removeGaugesExcept("HandoffAttempt")
      else own.note("Handoff", handoff)
    }
    removeOthers(handoffs, configured.map(({ consumer }) => consumer), (own) => own.clear())
    const isHere = source.state !== "elsewhere"
    series.note("Placement", { isHere, cluster })
    if (isHere) {
      series.note("Source", { source, now })
      for (const list of source.lists) {
        listOf(source.name, list.list).note("List", { ...list, failure: list.failure ?? source.problem })
      }
    } else {
      // Only the runner that has the source knows more about it. What this process knew before does not hold.
      series.removeGaugesExcept("Placement")
      removeOthers(lists, [], (own) => own.clear())
    }
  }
  return { sources, sourceOf, listOf, handoffOf, observeSource }
}

interface SourceSeries {
  readonly series: Series
  /** By label. */
  readonly lists: Map<string, Series>
  /** By consumer. */
  readonly handoffs: Map<string, Series>
}

const getOrAdd = <A>(map: Map<string, A>, name: string, add: () => A): A => {
  const value = map.get(name) ?? add()
  map.set(name, value)
  return value
}

const removeOthers = <A>(map: Map<string, A>, names: ReadonlyArray<string>, onRemove: (value: A) => void): void => {
  for (const [name, value] of map) {
    if (names.includes(name)) continue
    map.delete(name)
    onRemove(value)
  }
}
