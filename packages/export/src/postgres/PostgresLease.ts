/**
 * One writer per list, by a lease: a row that names its holder for 30 s and is renewed every 10 s while it is held. Every
 * taking counts up its epoch, and every transaction of a writer checks first, under a lock on that row, that the epoch is
 * still its own. A writer that was stopped for longer, so that another one took the lease over, commits nothing more. A lease
 * expires by the server's clock and is renewed by a timer, which does not depend on this machine's clock.
 */
import { Duration, Effect, Fiber, Option, Schedule, type Scope } from "effect"
import { randomUUID } from "node:crypto"
import { hostname } from "node:os"
import { atMost, awaitAtMost } from "../engine/AtMost.ts"
import { LeaseLost, Locked, SinkError } from "../Sink.ts"
import type { PostgresClient, Query } from "./PostgresClient.ts"

/** How long a lease goes on by itself, and what keeps it. */
export interface Times {
  readonly lasts: Duration.Duration
  readonly renewed: Duration.Duration
  /** A program that says nothing for so long within a transaction is cut off by the server, and its locks end. */
  readonly silence: Duration.Duration
  /** How long a commit may go on in a program that was told to end. */
  readonly ending: Duration.Duration
  /** How long a taker waits for a lock on the lease's row: a commit of the holder has it, most likely. */
  readonly lockTimeout: Duration.Duration
}

/** The usual ones. */
export const times: Times = {
  lasts: Duration.seconds(30),
  renewed: Duration.seconds(10),
  silence: Duration.seconds(10),
  ending: Duration.seconds(6),
  lockTimeout: Duration.millis(500)
}

/** In an SQL list: the server ends this transaction when nothing is said in it for so long. */
export const endedAfter = (silence: Duration.Duration): string =>
  `set_config('idle_in_transaction_session_timeout', '${Duration.toMillis(silence)}', true)`

/** The table of the leases. */
export interface Leases {
  readonly client: PostgresClient
  /** The schema, as SQL writes it. */
  readonly schema: string
  readonly times: Times
}

/** A lease that is held. */
export interface Lease {
  readonly label: string
  readonly owner: string
  readonly epoch: bigint
  /** Counts the transactions begun under it, so that each can tell whether an earlier run of it was committed. */
  begun: number
}

/**
 * Owners of leases that this process no longer uses but could not release, because the server could not be reached. The next
 * take of the same lease has the same owner, so that it need not wait until the lease expires.
 */
const unreleased = new Map<string, string>()

const keyOf = ({ client, schema }: Leases, label: string): string => JSON.stringify([client.location, schema, label])

/** Takes the lease and keeps it until the scope closes. */
export const take = (
  leases: Leases,
  label: string,
  onLocked: "refuse" | "wait"
): Effect.Effect<Lease, SinkError, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.suspend(() => {
      const key = keyOf(leases, label)
      const owner = unreleased.get(key) ?? randomUUID()
      unreleased.delete(key)
      // A take whose answer was lost may have succeeded.
      return Effect.tapError(tryTake(leases, label, owner), ({ reason }) =>
        Effect.sync(() => void (reason._tag === "Locked" || unreleased.set(key, owner))))
    }),
    (lease) =>
      release(leases, lease)
  ).pipe(
    onLocked === "refuse"
      ? (taking) => taking
      : Effect.retry({
        while: ({ reason }) => reason._tag === "Locked",
        schedule: Schedule.jittered(Schedule.spaced("500 millis"))
      }),
    Effect.tap((lease) =>
      // What goes wrong with it the next commit will see.
      Effect.forkScoped(
        Effect.forever(
          Effect.delay(Effect.ignore(atMost(leases.times.lasts)(renew(leases, lease))), leases.times.renewed)
        )
      )
    )
  )

const tryTake = Effect.fnUntraced(function*(
  { client, schema, times: { lasts, lockTimeout, silence } }: Leases,
  label: string,
  owner: string
): Effect.fn.Return<Lease, SinkError> {
  const locked = (holder: string | undefined) =>
    new SinkError({ location: client.location, reason: new Locked({ label, holder }) })
  const holder = client.query(
    `SELECT holder FROM ${schema}.leases WHERE label = $1 AND owner <> $2
      AND expires > clock_timestamp() AND expires <= clock_timestamp() + ${longest(lasts)}`,
    [label, owner]
  ).pipe(Effect.map(([row]) => row === undefined ? undefined : String(row["holder"])))
  // Asked without waiting for a commit of theirs: whoever is refused is refused at once.
  const held = yield* holder
  if (held !== undefined) return yield* locked(held)
  const taken = yield* client.transaction((query) =>
    Effect.andThen(
      // Before there is a row to be locked: a taker that is stopped for good blocks nobody for longer.
      query(`SELECT set_config('lock_timeout', $1, true), ${endedAfter(silence)}`, [
        `${Duration.toMillis(lockTimeout)}`
      ]),
      query(
        `INSERT INTO ${schema}.leases AS l (label, epoch, commit, owner, holder, expires)
        VALUES ($1, 1, 0, $2, $3, clock_timestamp() + ${interval(lasts)})
        ON CONFLICT (label) DO UPDATE SET epoch = l.epoch + 1, commit = 0, owner = excluded.owner,
          holder = excluded.holder, expires = excluded.expires
        WHERE l.expires <= clock_timestamp() OR l.expires > clock_timestamp() + ${longest(lasts)}
          OR l.owner = excluded.owner RETURNING epoch`,
        [label, owner, `process ${process.pid} on ${hostname()} since ${new Date().toISOString()}`]
      )
    )
  ).pipe(Effect.catchIf(isLockTimeout, () => Effect.succeed([])))
  const epoch = taken[0]?.["epoch"]
  return typeof epoch === "bigint" ? { label, owner, epoch, begun: 0 } : yield* locked(yield* holder)
})

/** A lease that expires later than this from now was taken before the server's clock was set back, and holds nothing. */
const longest = (lasts: Duration.Duration): string =>
  interval(Duration.max(Duration.minutes(5), Duration.times(lasts, 2)))

const interval = (duration: Duration.Duration): string => `interval '${Duration.toMillis(duration)} milliseconds'`

const isLockTimeout = ({ reason }: SinkError): boolean => reason._tag === "Failed" && reason.code === "55P03"

const renew = ({ client, schema, times: { lasts } }: Leases, { epoch, label }: Lease) =>
  client.query(
    `UPDATE ${schema}.leases SET expires = clock_timestamp() + ${
      interval(lasts)
    } WHERE label = $1 AND epoch = $2::bigint`,
    [label, String(epoch)]
  )

/** Nothing is committed under it from now on. Where the server cannot be reached, the lease expires by itself. */
const release = (leases: Leases, { epoch, label, owner }: Lease) =>
  leases.client.once(
    `UPDATE ${leases.schema}.leases SET epoch = epoch + 1, expires = '-infinity'
    WHERE label = $1 AND epoch = $2::bigint`,
    [label, String(epoch)]
  ).pipe(
    atMost("3 seconds"),
    Effect.orElseSucceed(() => Option.none()),
    Effect.map((released) => void (Option.isSome(released) || unreleased.set(keyOf(leases, label), owner)))
  )

/**
 * Runs a transaction under the lease, once: one whose COMMIT was never answered is run again by the client, and finds here
 * whether it had been committed. Then `done` is what it comes to. The body is told whose data the destination holds. An
 * interruption lets it finish.
 */
export const commit = <A>(
  { client, schema, times: { ending, lasts, silence } }: Leases,
  lease: Lease,
  body: (query: Query, source: string | undefined) => Effect.Effect<A, SinkError>,
  done: (query: Query) => Effect.Effect<A, SinkError>
): Effect.Effect<A, SinkError> =>
  Effect.suspend(() => {
    const number = ++lease.begun
    const own = [lease.label, String(lease.epoch), String(number)]
    return client.transaction(Effect.fnUntraced(function*(query) {
      // Waits for an earlier run that still is on its way to be committed, and for whoever takes the lease over. An
      // administrator may have switched waiting for the disk off; a change that was told must stay told.
      const [mine] = yield* query(
        `UPDATE ${schema}.leases SET commit = $3::bigint, expires = clock_timestamp() + ${interval(lasts)}
        WHERE label = $1 AND epoch = $2::bigint AND commit < $3::bigint
        RETURNING (SELECT source FROM ${schema}.destination) AS source,
          ${endedAfter(silence)},
          CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END`,
        own
      )
      if (mine !== undefined) {
        const { source } = mine
        return yield* body(query, typeof source === "string" ? source : undefined)
      }
      const [committed] = yield* query(
        `SELECT FROM ${schema}.leases WHERE label = $1 AND epoch = $2::bigint AND commit = $3::bigint`,
        own
      )
      if (committed !== undefined) return yield* done(query)
      return yield* new SinkError({
        location: client.location,
        reason: new LeaseLost({ label: lease.label, why: "silence" })
      })
    })).pipe(finishing(ending))
  })

/** An interruption waits for the effect to end, but not for longer than this. */
const finishing = (most: Duration.Duration) => <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(effect), (fiber) =>
      restore(Fiber.join(fiber)).pipe(
        Effect.onInterrupt(() => Effect.ignore(awaitAtMost(fiber, most)))
      ))
  )
