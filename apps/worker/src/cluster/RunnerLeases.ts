/**
 * What a runner notes for people: that it is alive, and which sources it runs. It also shows which runner has the
 * others.
 */
import { type SinkError } from "@payments/copy"
import { connect, type PostgresSettings, timeoutDetached } from "@payments/copy/postgres"
import { type CommandExit, Metrics, usage } from "@payments/program"
import type { ClusterSettings } from "@payments/program/sources"
import { Context, Deferred, Duration, Effect, Layer, Option, Schedule, Scope, Semaphore } from "effect"
import { randomUUID } from "node:crypto"
import { hostname } from "node:os"
import { problemAnnotations } from "../state/Log.ts"
import { Status } from "../state/Status.ts"
import * as Runners from "./Runners.ts"

/** The time between two attempts to get the name of a runner, which may belong to a process that was killed. */
const claimInterval = Duration.millis(500)
/** How long one statement may take before the database counts as away. */
const statementTimeout = Duration.seconds(10)
/** How long the end of this program waits for the database. */
const endTimeout = Duration.seconds(1)

export class RunnerLeases extends Context.Service<RunnerLeases, {
  /**
   * Registers this process under the name of its runner. Fails if another live process has the name. Waits while that
   * is not known: a process that was killed keeps its name for 30 s.
   */
  readonly register: (database: PostgresSettings) => Effect.Effect<void, SinkError | CommandExit>
  /** Notes that this runner can take sources. Until then its cluster does not count as healthy. */
  readonly noteJoined: Effect.Effect<void>
  /**
   * Notes that this runner runs the source, as soon as it is registered and the database answers. Returns the other
   * runner that ran it before, if any.
   */
  readonly noteTaken: (source: string) => Effect.Effect<string | undefined>
  /** Notes that this runner does not run the source any more. It does not wait for the database. */
  readonly noteReleased: (source: string) => Effect.Effect<void>
}>()("@payments/worker/RunnerLeases") {
  static readonly layer = (settings: Pick<ClusterSettings, "prefix" | "runner">) =>
    Layer.effect(RunnerLeases, make(settings))
}

interface Known {
  readonly isJoined: boolean
  /** The live runners by source; undefined while the database does not answer. */
  readonly runners: ReadonlyMap<string, string> | undefined
}

const none: ReadonlyMap<string, string> = new Map()

const make = Effect.fnUntraced(function*({ prefix, runner }: Pick<ClusterSettings, "prefix" | "runner">) {
  const status = yield* Status
  const metrics = yield* Metrics
  const scope = yield* Effect.scope
  const { version } = yield* status.current
  const own: Runners.RunnerProcess = {
    runner,
    instance: randomUUID(),
    process: `process ${process.pid} on ${hostname()}`,
    version
  }
  const registered = yield* Deferred.make<Runners.Registration>()
  let current: Runners.Registration | undefined
  let known: Known = { isJoined: false, runners: undefined }
  const learn = (news: Partial<Known>) =>
    Effect.suspend(() => {
      known = { ...known, ...news }
      const isHealthy = known.isJoined && known.runners !== undefined
      return status.setCluster({ runner, isHealthy, runners: known.runners ?? none })
    })
  yield* learn({})

  /**
   * A source can leave this runner and come back at once. Statements on several connections could change their order.
   */
  const inOrder = Semaphore.makeUnsafe(1).withPermits(1)
  return RunnerLeases.of({
    register: Effect.fnUntraced(function*(database) {
      if (current !== undefined) return
      const client = yield* Scope.provide(connect(database), scope)
      yield* Runners.createTables(client, prefix)
      yield* claimName({ query: client.query, prefix, own })
      const registration = { query: client.once, prefix, own }
      yield* Scope.addFinalizer(scope, Effect.ignore(timeoutDetached(endTimeout)(Runners.unregister(registration))))
      current = registration
      yield* Deferred.succeed(registered, registration)
      yield* Effect.forkIn(beats(registration, (runners) => learn({ runners })), scope)
    }),
    noteJoined: learn({ isJoined: true }),
    noteTaken: Effect.fnUntraced(function*(source) {
      const registration = yield* Deferred.await(registered)
      const before = yield* inOrder(Runners.noteTaken(registration, source)).pipe(
        Effect.retry(Schedule.spaced(Runners.beatInterval)),
        // The schedule never ends.
        Effect.orDie
      )
      if (before !== undefined) yield* metrics.onTakeover(source)
      return before
    }),
    noteReleased: (source) =>
      Effect.suspend(() =>
        current === undefined
          ? Effect.void
          : Effect.asVoid(
            Effect.forkDetach(Effect.ignore(inOrder(Runners.noteReleased(current, source))), { startImmediately: true })
          )
      )
  })
})

/** Notes repeatedly that this runner is alive. `onRunners` gets the live runners of all sources, if they are known. */
const beats = (
  registration: Runners.Registration,
  onRunners: (runners: ReadonlyMap<string, string> | undefined) => Effect.Effect<void>
) => {
  let isNameTaken = false
  const beat = Effect.gen(function*() {
    const isRegistered = (yield* Runners.beat(registration)) || (yield* Runners.register(registration))
    // Two runners got the same name while one of them could not reach the database. The leases keep their data right.
    if (!isRegistered && !isNameTaken) yield* Effect.logError("another live runner has the name of this one")
    isNameTaken = !isRegistered
    const sources = yield* Runners.readSources(registration.query, registration.prefix)
    yield* onRunners(new Map(sources.flatMap(({ runner, source }) => runner === null ? [] : [[source, runner]])))
  })
  const away = onRunners(undefined)
  return Effect.forever(
    timeoutDetached(statementTimeout)(beat).pipe(
      Effect.flatMap((done) => Option.isSome(done) ? Effect.void : away),
      Effect.catch((error) =>
        Effect.andThen(Effect.annotateLogs(Effect.logDebug("runner not noted"), problemAnnotations(error)), away)
      ),
      Effect.andThen(Effect.sleep(Runners.beatInterval))
    )
  ).pipe(Effect.withTracerEnabled(false))
}

/** Waits until the name is free. Fails if the process that has it notes that it is alive. */
const claimName = Effect.fnUntraced(function*(
  registration: Runners.Registration
): Effect.fn.Return<void, SinkError | CommandExit> {
  const { own } = registration
  let first: string | undefined
  while (!(yield* Runners.register(registration))) {
    const other = yield* Runners.processOf(registration)
    if (other === undefined) continue
    if (first !== undefined && other.seenAt !== first) {
      return yield* usage(
        `--runner: another live runner of this cluster has the name ${own.runner}: ${other.process}. Give each runner a name of its own.`
      )
    }
    if (first === undefined) {
      yield* Effect.annotateLogs(Effect.logInfo("waits for the name of the runner"), {
        runner: own.runner,
        holder: other.process
      })
    }
    first = other.seenAt
    yield* Effect.sleep(claimInterval)
  }
})
