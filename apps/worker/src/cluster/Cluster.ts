/**
 * Shares the sources with other workers through Effect Cluster: each source is one of its singletons. A shard is the
 * cluster's unit of ownership. Each source belongs to one of 300 shards by the hash of its name, and each shard to one
 * of the live runners. A runner holds its shards by advisory locks of PostgreSQL, and the server ends the session of a
 * runner that hangs. The runners exchange no messages.
 *
 * The cluster only spreads the work. While a source moves, two runners may run it for a moment. The leases of its
 * destination ensure that only one of them commits.
 */
import { SinkError, SinkReason } from "@payments/copy"
import { layerSqlClient, type PostgresSettings, reasonOf, timeoutDetached } from "@payments/copy/postgres"
import type { CommandExit } from "@payments/program"
import type { ClusterSettings, Source } from "@payments/program/sources"
import {
  Cause,
  Context,
  Deferred,
  Duration,
  Effect,
  Exit,
  Layer,
  Logger,
  Option,
  References,
  Result,
  Scope
} from "effect"
import {
  MessageStorage,
  RunnerAddress,
  RunnerHealth,
  Runners,
  Sharding,
  ShardingConfig,
  SqlRunnerStorage
} from "effect/cluster"
import { SqlError } from "effect/sql"
import type { Placement } from "../loop/Placement.ts"
import { isTransient, locationOf } from "../loop/SourceLoop.ts"
import { problemAnnotations } from "../state/Log.ts"
import { initialState, Status } from "../state/Status.ts"
import { checkDatabase } from "./ClusterDatabase.ts"
import { clusterLogger } from "./ClusterLog.ts"
import { RunnerLeases } from "./RunnerLeases.ts"

export interface Times {
  /**
   * A runner that hangs, or cannot reach the database, loses its sources after this time. If an operation on the locks
   * takes more than a third of it, the runner stops its sources.
   */
  readonly lockExpiration: Duration.Duration
  /** The time between two looks at which runners are alive, and between two attempts to take sources. */
  readonly refreshInterval: Duration.Duration
}

/**
 * All runners of a cluster need the same times. On a busy machine an operation can take more than 5 s. A shorter
 * expiration would not save time, because the lease of a source lasts for 30 s as well.
 */
export const times: Times = { lockExpiration: Duration.seconds(30), refreshInterval: Duration.seconds(1) }

/** How long a runner that ends waits for the cluster's database. */
const closeTimeout = Duration.seconds(8)
/** The wait before the database is tried again. It doubles up to the maximum. */
const firstWait = Duration.seconds(1)
const longestWait = Duration.seconds(30)

/**
 * Joins the cluster, without waiting for its database: until that answers, only pinned sources run. The placement fails
 * if the database cannot be used, and no later attempt would change that.
 */
export const join = Effect.fnUntraced(function*(settings: ClusterSettings, durations: Times = times) {
  const status = yield* Status
  const leases = Context.get(yield* Layer.build(RunnerLeases.layer(settings)), RunnerLeases)
  const scope = yield* Scope.make()
  const joined = yield* Deferred.make<Sharding.Sharding["Service"], SinkError | CommandExit>()
  let isClosing = false
  const fork = Effect.runForkWith(yield* Effect.context<never>())
  const logger = clusterLogger((message) => isClosing ? undefined : void fork(message))
  yield* joinWithRetries({ settings, durations, leases, logger }).pipe(
    Scope.provide(scope),
    Deferred.into(joined),
    Effect.forkIn(scope)
  )

  const { runner } = settings
  const noteElsewhere = (source: Source) =>
    status.set({ ...initialState(source, locationOf(source)), state: "elsewhere" })
  const whileTaken = <R>(source: Source, loop: Effect.Effect<void, never, R>) =>
    leases.noteTaken(source.name).pipe(
      Effect.flatMap((from) =>
        from === undefined
          ? Effect.logInfo("source taken")
          : Effect.annotateLogs(Effect.logInfo("source taken over"), { from })
      ),
      Effect.forkChild,
      Effect.andThen(loop),
      Effect.onInterrupt(() =>
        Effect.all([leases.noteReleased(source.name), noteElsewhere(source), Effect.logInfo("source released")])
      ),
      Effect.annotateLogs({ source: source.name, runner })
    )
  const placement: Placement = {
    run: Effect.fnUntraced(function*<R>(source: Source, loop: Effect.Effect<void, never, R>) {
      if (source.runner === runner) return yield* whileTaken(source, loop)
      yield* noteElsewhere(source)
      if (source.runner !== undefined) return yield* Effect.never
      const sharding = yield* Effect.catch(Deferred.await(joined), () => Effect.never)
      const ended = yield* Deferred.make<void>()
      // Effect Cluster would run the loop with its own logger, and without traces.
      const context = yield* Effect.context<R>()
      const running: Effect.Effect<void> = Effect.updateContext(whileTaken(source, loop), () => context)
      yield* sharding.registerSingleton(source.name, Effect.andThen(running, Deferred.succeed(ended, undefined)))
      // The loop ends by itself only if a person has to act. Then the source is not registered any more.
      return yield* Deferred.await(ended)
    }, Effect.scoped),
    failed: Effect.andThen(Deferred.await(joined), Effect.never),
    close: Effect.suspend(() => {
      isClosing = true
      return Effect.asVoid(timeoutDetached(closeTimeout)(Scope.close(scope, Exit.void)))
    })
  }
  return placement
})

interface Joining {
  readonly settings: ClusterSettings
  readonly durations: Times
  readonly leases: RunnerLeases["Service"]
  /** Gets the messages of Effect Cluster. */
  readonly logger: Logger.Logger<unknown, void>
}

const joinWithRetries = Effect.fnUntraced(function*(joining: Joining) {
  let wait = firstWait
  while (true) {
    const database = yield* Effect.result(
      Effect.tap(checkDatabase(joining.settings), (checked) => joining.leases.register(checked.settings))
    )
    let error: SinkError
    if (Result.isFailure(database)) {
      if (database.failure._tag === "CommandExit" || !isTransient(database.failure)) return yield* database.failure
      error = database.failure
    } else {
      if (database.success.warning !== undefined) yield* Effect.logWarning(database.success.warning)
      const sharding = yield* Effect.exit(startSharding(joining, database.success.settings))
      if (Exit.isSuccess(sharding)) {
        yield* joining.leases.noteJoined
        return sharding.value
      }
      if (Cause.hasInterrupts(sharding.cause)) return yield* Effect.interrupt
      error = new SinkError({ location: database.success.settings.location, reason: reasonIn(sharding.cause) })
    }
    yield* Effect.annotateLogs(Effect.logWarning("cluster waits: its database cannot be used yet"), {
      ...problemAnnotations(error),
      waitMs: Duration.toMillis(wait)
    })
    yield* Effect.sleep(wait)
    wait = Duration.min(Duration.times(wait, 2), longestWait)
  }
})

/** Joins the cluster until the scope closes. */
const startSharding = Effect.fnUntraced(function*(joining: Joining, database: PostgresSettings) {
  const scope = yield* Scope.fork(yield* Effect.scope)
  return yield* Layer.buildWithScope(Layer.fresh(layerSharding(joining, database)), scope).pipe(
    Effect.map(Context.get(Sharding.Sharding)),
    // The cluster asks its database every second.
    Effect.withTracerEnabled(false),
    Effect.provideService(Logger.CurrentLoggers, new Set([joining.logger])),
    Effect.provideService(References.MinimumLogLevel, "Info"),
    Effect.onError(() => timeoutDetached(closeTimeout)(Scope.close(scope, Exit.void)))
  )
})

const layerSharding = (
  { durations: { lockExpiration, refreshInterval }, settings: { prefix, runner } }: Joining,
  database: PostgresSettings
) =>
  Sharding.layer.pipe(
    Layer.provide([Runners.layerNoop, RunnerHealth.layerNoop, SqlRunnerStorage.layerWith({ prefix })]),
    Layer.provide([
      MessageStorage.layerNoop,
      layerSqlClient(database),
      ShardingConfig.layer({
        // The runners only compare their addresses. Nothing listens there.
        runnerAddress: Option.some(RunnerAddress.make(runner, 1)),
        shardsPerGroup: 300,
        shardLockExpiration: lockExpiration,
        // The locks are checked, and the runner notes that it is alive, three times within the expiration.
        refreshAssignmentsInterval: refreshInterval,
        // There are no messages. But shards whose locks were lost are taken again after this interval.
        entityMessagePollInterval: refreshInterval
      })
    ])
  )

/** Effect Cluster reports errors of the database as defects. */
const reasonIn = (cause: Cause.Cause<unknown>): SinkReason.SinkReason => {
  let error = Cause.squash(cause)
  while (typeof error === "object" && error !== null) {
    if (SqlError.isSqlError(error)) return reasonOf(error)
    error = "cause" in error ? error.cause : undefined
  }
  return new SinkReason.DestinationFailed({ code: "cluster" })
}
