/**
 * Runs all sources of a {@link LoadedSources}, each by itself: what happens to one source does not reach the others.
 */
import {
  Destination,
  freshnessOf,
  generationSince,
  type ListFreshness,
  scanAll,
  Sink,
  type SinkError
} from "@payments/copy"
import { Lists, PaymentsApi, type PaymentsConfigError, RequestObserver } from "@payments/core"
import {
  CommandExit,
  ExitCode,
  exitCodeOf,
  lowestExitCode,
  Metrics,
  observeSink,
  outcomeExitCode,
  type ProgramError
} from "@payments/program"
import {
  buildWithProvenNames,
  type LoadedSource,
  type LoadedSources,
  type Source,
  warnOfCursorLife
} from "@payments/program/sources"
import {
  Cause,
  Context,
  DateTime,
  Deferred,
  type Duration,
  Effect,
  FiberMap,
  Latch,
  Layer,
  Queue,
  Result
} from "effect"
import { logEvent, problemAnnotations } from "../state/Log.ts"
import { Status } from "../state/Status.ts"
import { here, type Placement } from "./Placement.ts"
import { makePlaces } from "./Places.ts"
import { logRestored } from "./Restores.ts"
import { runSource, type SourceStopped } from "./SourceLoop.ts"
import type { Found } from "./SourceOptions.ts"

export interface WorkerOptions<R> {
  readonly api: (source: Source) => Layer.Layer<PaymentsApi, PaymentsConfigError, R>
  readonly open: (source: Source) => Layer.Layer<Sink, SinkError, R>
  /** How long a full scan may commit no page. Default: 10 minutes. */
  readonly stallAfter?: Duration.Duration | undefined
}

export interface Reload {
  /** Each element is a request to read the sources again. */
  readonly requests: Queue.Dequeue<void>
  readonly sources: Effect.Effect<LoadedSources, ProgramError>
}

/** Fails with the lowest exit code, unless all succeed. */
export const runOnce = Effect.fnUntraced(
  function*<R>({ concurrency, file, sources }: LoadedSources, options: WorkerOptions<R>) {
    const metrics = yield* Metrics
    const scanned = (source: LoadedSource) =>
      Effect.gen(function*() {
        const api = Context.get(
          yield* buildWithProvenNames(
            Layer.fresh(options.api(source)),
            { boundTo: yield* source.boundTo, to: source.to },
            Effect.logInfo
          ),
          PaymentsApi
        )
        yield* warnOfCursorLife(api, source.to, source.lists, Effect.logWarning)
        const sink = yield* Layer.build(Layer.fresh(options.open(source)))
        const personal = yield* source.personal
        const startedAt = DateTime.formatIso(yield* DateTime.now)
        const outcomes = yield* scanAll(source.lists, {
          ...source.scan,
          personal,
          onEvent: (event) => Effect.andThen(metrics.onEvent(source.name, event), logEvent(event, api.isSecret))
        }).pipe(
          Effect.tap(() => observeSink(source)),
          Effect.provideService(PaymentsApi, api),
          Effect.provide(sink)
        )
        const begun = yield* generationSince(Context.get(sink, Sink), startedAt)
        if (begun !== undefined) yield* logRestored(begun)
        return outcomes.map(outcomeExitCode)
      }).pipe(
        Effect.scoped,
        Effect.annotateLogs({ source: source.name }),
        Effect.provideService(RequestObserver, metrics.requestsOf(source.name))
      )
    const codes = yield* Effect.forEach(
      sources,
      (source) =>
        file === undefined
          ? scanned(source)
          : Effect.catch(scanned(source), (error) =>
            Effect.as(
              Effect.annotateLogs(Effect.logError("source failed"), {
                source: source.name,
                ...problemAnnotations(error)
              }),
              [exitCodeOf(error)]
            )),
      // The lists of a source are scanned at the same time.
      { concurrency: Math.max(1, Math.floor(concurrency / Lists.all.length)) }
    )
    const exitCode = lowestExitCode(codes.flat())
    if (exitCode !== ExitCode.done) return yield* new CommandExit({ exitCode, problem: "" })
  }
)

/** How long the line at the start waits for destinations that do not answer. */
const startTimeout = "3 seconds"

/** Logs one line when every source has opened its destination or failed to. The function that it returns notes that. */
const startLine = Effect.fnUntraced(
  function*({ concurrency, file, sources }: LoadedSources) {
    const { current } = yield* Status
    const { version } = yield* current
    const found = new Map<string, Found>()
    const isComplete = Latch.makeUnsafe(false)
    const describe = (source: LoadedSource, isElsewhere: boolean) => {
      const at = found.get(source.name) ?? { error: "no answer yet" }
      return {
        ...Object.fromEntries(source.settings.map(({ name, value }) => [name, value])),
        on_locked: source.scan.onLocked ?? "wait",
        ...(isElsewhere
          ? { state: "elsewhere" }
          : "error" in at
          ? at
          : { destination: at.destination, lists: Object.fromEntries(at.lists.map(foundList)) })
      }
    }
    yield* isComplete.await.pipe(
      Effect.timeoutOption(startTimeout),
      Effect.andThen(current),
      Effect.flatMap((snapshot) => {
        const elsewhere = new Set(snapshot.sources.flatMap(({ name, state }) => state === "elsewhere" ? [name] : []))
        return Effect.annotateLogs(Effect.logInfo("started"), {
          version,
          file,
          concurrency,
          sources: Object.fromEntries(
            sources.map((source) => [source.name, describe(source, elsewhere.has(source.name))])
          )
        })
      }),
      Effect.forkScoped
    )
    return (source: Source, state: Found) =>
      Effect.sync(() => {
        if (!found.has(source.name)) found.set(source.name, state)
        if (found.size >= sources.length) isComplete.openUnsafe()
      })
  }
)

const foundList = ({ completeScan, list, rows, running }: ListFreshness) => [list, {
  rows,
  complete: completeScan?.startedAt ?? null,
  checkpoint: running === undefined ? null : { scan: running.scan, records: running.records }
}]

/** Reads what the destination of a source knows about its lists, if it is the copy of this source. */
const readLists = ({ boundTo, lists, to }: LoadedSource): Effect.Effect<ReadonlyArray<ListFreshness>, SinkError> =>
  to === undefined ? Effect.succeed([]) : Effect.scoped(Effect.gen(function*() {
    const reader = yield* Destination.reader(to)
    // Without its settings, the source is not known.
    yield* Destination.requireSource(reader, yield* Effect.orElseSucceed(boundTo, () => undefined))
    return yield* freshnessOf(reader, lists.map((name) => Lists.byName[name]))
  }))

/** The wait before a source that ended unexpectedly runs again. */
const unexpectedWait = "1 minute"

export interface ForeverOptions<R, R2> extends WorkerOptions<R> {
  readonly reload?: Reload | undefined
  /** Where the sources run. Default: here. */
  readonly joining?: Effect.Effect<Placement, never, R2> | undefined
}

/**
 * Runs all sources until it is interrupted. The only source of the environment ends the worker if its destination
 * belongs to another source or merchant. So it does if the destination cannot be opened at the start and waiting would
 * not help. A source of a file never ends the worker.
 */
export const runForever = Effect.fnUntraced(
  function*<R, R2 = never>(set: LoadedSources, options: ForeverOptions<R, R2>) {
    const status = yield* Status
    const metrics = yield* Metrics
    const places = makePlaces(set.concurrency)
    const fibers = yield* FiberMap.make<string>()
    const failed = yield* Deferred.make<never, SinkError | PaymentsConfigError>()
    const isStrict = set.file === undefined
    const placement = yield* options.joining ?? Effect.succeed(here)
    // Sources are handed over and end at the same time, because either can wait for a server that does not answer.
    yield* Effect.addFinalizer(() =>
      Effect.all([placement.close, FiberMap.clear(fibers)], { concurrency: "unbounded", discard: true })
    )
    const noteStart = yield* startLine(set)
    const run = (source: LoadedSource) => {
      const running = runSource({
        source,
        api: options.api(source),
        open: options.open(source),
        places,
        isStrict,
        stallAfter: options.stallAfter,
        onStart: (found) => noteStart(source, found),
        metrics
      })
      return Effect.andThen(
        status.setReader(source.name, readLists(source)),
        FiberMap.run(
          fibers,
          source.name,
          placement.run(source, observed(source, { status, metrics }, supervised(running, isStrict, failed)))
        )
      )
    }
    let current = set.sources
    const replace = Effect.fnUntraced(function*(next: LoadedSources) {
      places.resize(next.concurrency)
      const { added, changed, removed } = changesOf(current, next.sources, (name) => FiberMap.hasUnsafe(fibers, name))
      current = next.sources
      // A source whose destination does not answer ends only after seconds. The others do not wait for it.
      yield* Effect.all([
        ...removed.map(({ name }) => Effect.andThen(FiberMap.remove(fibers, name), status.remove(name))),
        ...changed.map((source) => Effect.andThen(FiberMap.remove(fibers, source.name), run(source))),
        ...added.map(run)
      ], { concurrency: "unbounded", discard: true })
      const names = (sources: ReadonlyArray<Source>) => sources.map(({ name }) => name)
      yield* Effect.annotateLogs(Effect.logInfo("settings read again"), {
        added: names(added),
        changed: names(changed),
        removed: names(removed)
      })
    })

    yield* Effect.forEach(current, run, { discard: true })
    const reloads = options.reload === undefined ? Effect.never : reloading(options.reload, replace)
    return yield* Effect.raceAllFirst([Deferred.await(failed), placement.failed, reloads])
  }
)

/** A source that has stopped counts as changed, so that it runs again. */
export const changesOf = <Each extends Pick<LoadedSource, "name" | "revision">>(
  before: ReadonlyArray<Each>,
  next: ReadonlyArray<Each>,
  isRunning: (name: string) => boolean
) => {
  const old = new Map(before.map((source) => [source.name, source]))
  const names = new Set(next.map(({ name }) => name))
  return {
    removed: before.filter(({ name }) => !names.has(name)),
    added: next.filter(({ name }) => !old.has(name)),
    changed: next.filter(({ name, revision }) => {
      const known = old.get(name)
      return known !== undefined && (known.revision !== revision || !isRunning(name))
    })
  }
}

/** Replaces the sources at each request. A file with a mistake changes nothing. */
const reloading = <R>({ requests, sources }: Reload, replace: (next: LoadedSources) => Effect.Effect<void, never, R>) =>
  Effect.forever(
    Effect.flatMap(
      Queue.take(requests),
      () =>
        Effect.flatMap(Effect.result(sources), (read) =>
          Result.isSuccess(read)
            ? replace(read.success)
            : Effect.annotateLogs(Effect.logError("settings not changed: the file has a mistake"), {
              error: read.failure.message
            }))
    )
  )

/** Runs a source again after it has ended unexpectedly. If it is strict, its end is that of the worker. */
const supervised = <R>(
  source: Effect.Effect<never, SourceStopped, R>,
  isStrict: boolean,
  failed: Deferred.Deferred<never, SinkError | PaymentsConfigError>
): Effect.Effect<void, never, R> =>
  source.pipe(
    Effect.catchTag("SourceStopped", ({ error }) => isStrict ? Deferred.fail(failed, error) : Effect.void),
    Effect.catchCauseIf(
      (cause) => !Cause.hasInterruptsOnly(cause),
      (cause) =>
        isStrict
          ? Deferred.failCause(failed, cause)
          : Effect.logError("source ended unexpectedly", cause).pipe(
            Effect.andThen(Effect.sleep(unexpectedWait)),
            Effect.andThen(Effect.suspend(() => supervised(source, isStrict, failed)))
          )
    )
  )

/** Names the source in logs, and notes its requests. */
const observed = <A, E, R>(
  { name }: Source,
  { metrics, status }: { readonly status: Status["Service"]; readonly metrics: Metrics["Service"] },
  running: Effect.Effect<A, E, R>
) => {
  const count = metrics.requestsOf(name)
  return running.pipe(
    Effect.annotateLogs({ source: name }),
    Effect.provideService(RequestObserver, (request) => {
      count(request)
      status.noteRateUnsafe(name, request.isRateShared ?? null)
    })
  )
}
