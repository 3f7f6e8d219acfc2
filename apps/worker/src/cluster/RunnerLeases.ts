/** What a runner notes for people: that it is alive, and which sources it runs. It also shows which runner has the others. */
import { type SinkError } from "@payments/copy"
import { connect, type PostgresClient, type PostgresSettings, timeoutDetached } from "@payments/copy/postgres"
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

/** The runners that have the sources. */
export class Owners extends Context.Service<Owners, {
  /**
   * Registers this process under the name of its runner. Fails if another live process has the name. Waits while that is not
   * known: a process that was killed keeps its name for 30 s.
   */
  readonly register: (database: PostgresSettings) => Effect.Effect<void, SinkError | CommandExit>
  /** Notes that this runner can take sources. Until then its cluster does not count as healthy. */
  readonly noteJoined: Effect.Effect<void>
  /**
   * Notes that this runner runs the source now, as soon as it is registered and the database answers. Returns the runner that
   * ran it before, if there was another one.
   */
  readonly noteOwner: (source: string) => Effect.Effect<string | undefined>
  /** Notes that this runner does not run the source any more. It does not wait for the database. */
  readonly noteEnd: (source: string) => Effect.Effect<void>
}>()("@payments/worker/Owners") {
  static readonly layer = (settings: Pick<ClusterSettings, "prefix" | "runner">) => Layer.effect(Owners, make(settings))
}

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
  const registered = yield* Deferred.make<PostgresClient>()
  let current: PostgresClient | undefined
  const none: ReadonlyMap<string, string> = new Map()
  let isJoined = false
  /** The live runners of all sources; undefined while the database does not answer. */
  let known: ReadonlyMap<string, string> | undefined
  const show = Effect.suspend(() =>
    status.setCluster({ runner, isHealthy: isJoined && known !== undefined, owners: known ?? none })
  )
  yield* show

  const register = Effect.fnUntraced(function*(database: PostgresSettings) {
    if (current !== undefined) return
    const client = yield* Scope.provide(connect(database), scope)
    yield* Runners.createTables(client, prefix)
    yield* claimName(client, prefix, own)
    yield* Scope.addFinalizer(
      scope,
      Effect.ignore(timeoutDetached(endTimeout)(Runners.unregister(client.once, prefix, own)))
    )
    current = client
    yield* Deferred.succeed(registered, client)
    yield* Effect.forkIn(beats(client), scope)
  })

  /** A source can leave this runner and come back at once. Statements on several connections could change their order. */
  const inOrder = Semaphore.makeUnsafe(1).withPermits(1)

  let isNameTaken = false
  /** Notes that this runner is alive, and shows who has the sources. */
  const beat = Effect.fnUntraced(function*({ once }: PostgresClient) {
    const isRegistered = (yield* Runners.beat(once, prefix, own)) || (yield* Runners.register(once, prefix, own))
    // Two runners got the same name while one of them could not reach the database. The leases keep their data right.
    if (!isRegistered && !isNameTaken) yield* Effect.logError("another live runner has the name of this one")
    isNameTaken = !isRegistered
    const owners = new Map<string, string>()
    for (const owner of yield* Runners.readOwners(once, prefix)) {
      if (owner.runner !== null) owners.set(owner.source, owner.runner)
    }
    known = owners
    yield* show
  })
  const away = Effect.suspend(() => {
    known = undefined
    return show
  })
  const beats = (client: PostgresClient) =>
    Effect.forever(
      timeoutDetached(statementTimeout)(beat(client)).pipe(
        Effect.flatMap((done) => Option.isSome(done) ? Effect.void : away),
        Effect.catch((error) =>
          Effect.andThen(Effect.annotateLogs(Effect.logDebug("runner not noted"), problemAnnotations(error)), away)
        ),
        Effect.andThen(Effect.sleep(Runners.beatInterval))
      )
    ).pipe(Effect.withTracerEnabled(false))

  return Owners.of({
    register,
    noteJoined: Effect.suspend(() => {
      isJoined = true
      return show
    }),
    noteOwner: Effect.fnUntraced(function*(source) {
      const client = yield* Deferred.await(registered)
      const before = yield* inOrder(Runners.noteOwner(client.once, prefix, own, source)).pipe(
        Effect.retry(Schedule.spaced(Runners.beatInterval)),
        // The schedule never ends.
        Effect.orDie
      )
      if (before !== undefined) yield* metrics.onTakeover(source)
      return before
    }),
    noteEnd: (source) =>
      Effect.suspend(() =>
        current === undefined
          ? Effect.void
          : Effect.asVoid(
            Effect.forkDetach(Effect.ignore(inOrder(Runners.noteEnd(current.once, prefix, own, source))), {
              startImmediately: true
            })
          )
      )
  })
})

/** Registers the process as soon as its name is free. Fails if the process that has the name notes that it is alive. */
const claimName = Effect.fnUntraced(function*(
  { query }: PostgresClient,
  prefix: string,
  own: Runners.RunnerProcess
): Effect.fn.Return<void, SinkError | CommandExit> {
  let first: string | undefined
  while (!(yield* Runners.register(query, prefix, own))) {
    const other = yield* Runners.processOf(query, prefix, own.runner)
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
