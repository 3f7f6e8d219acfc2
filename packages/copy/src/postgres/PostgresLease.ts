/**
 * Ensures one writer per list with a lease: a row that names its owner, expires after 30 s and is renewed every 10 s.
 * Each acquisition increments the row's epoch. Each transaction of a writer first locks the row and checks that the
 * epoch is still its own. If a writer pauses for so long that another one acquires the lease, it can commit nothing
 * more. The lease expires by the server's clock, and a timer renews it, so neither depends on this machine's wall
 * clock.
 */
import { Duration, Effect, Fiber, Option, Schedule, type Scope } from "effect"
import { randomUUID } from "node:crypto"
import { hostname } from "node:os"
import { LeaseLost, Locked, SinkError } from "../port/Sink.ts"
import { joinWithTimeout, timeoutDetached } from "../port/Timeouts.ts"
import { type Bound, boundColumns, toBound } from "../sql/SqlBinding.ts"
import { type Numbering, numberingColumns, toNumbering } from "../sql/SqlGenerations.ts"
import { integer, raw, schema as schemaOfTables, sql, type Statement } from "../sql/SqlStatement.ts"
import type { Memory } from "../sql/SqlWriter.ts"
import { readOptional, type Row } from "../store/StoredRows.ts"
import type { PostgresClient, Query } from "./PostgresClient.ts"
import { sqlOver, unknownOrigin } from "./PostgresSql.ts"

export interface Times {
  /** How long a lease is valid without a renewal. */
  readonly validity: Duration.Duration
  readonly renewalInterval: Duration.Duration
  /** The server closes the connection of a transaction that is idle for so long, which releases its locks. */
  readonly idleTimeout: Duration.Duration
  /** How long a commit may continue after an interrupt. */
  readonly interruptTimeout: Duration.Duration
  /** How long an acquisition waits for a lock on the lease's row, which a commit of the current owner may have. */
  readonly lockTimeout: Duration.Duration
}

export const times: Times = {
  validity: Duration.seconds(30),
  renewalInterval: Duration.seconds(10),
  idleTimeout: Duration.seconds(10),
  interruptTimeout: Duration.seconds(6),
  lockTimeout: Duration.millis(500)
}

/** Returns an SQL expression that sets the timeout after which the server ends this transaction if it is idle. */
export const setIdleTimeout = (timeout: Duration.Duration): string =>
  `set_config('idle_in_transaction_session_timeout', '${Duration.toMillis(timeout)}', true)`

export interface Leases {
  readonly client: PostgresClient
  /** The schema, as SQL writes it. */
  readonly schema: string
  readonly times: Times
  /** The name of this process in a cluster. */
  readonly runner?: string | undefined
  /** SQL for the identity of the server; by default it is unknown. */
  readonly origin?: Statement | undefined
  /** The last change that a commit under these leases has written. */
  readonly memory?: Memory | undefined
}

export interface Lease {
  readonly label: string
  /** A random id of the acquisition. The table's column `holder` describes the process for people instead. */
  readonly owner: string
  readonly epoch: bigint
  /** The number of transactions started under the lease. A retried one finds by it that it was committed. */
  transactions: number
  /** The number of the last committed transaction. The server may still commit later ones, but no earlier one. */
  committed: number
}

/**
 * Owners of leases that this process could not release, because the server was unreachable. The next acquisition of the
 * same lease uses the same owner, so that it need not wait until the lease expires.
 */
const unreleased = new Map<string, string>()

const keyOf = ({ client, schema }: Leases, label: string): string => JSON.stringify([client.location, schema, label])

/** Acquires the lease and renews it until the scope closes. */
export const acquire = (
  leases: Leases,
  label: string,
  onLocked: "refuse" | "wait"
): Effect.Effect<Lease, SinkError, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.suspend(() => {
      const key = keyOf(leases, label)
      const owner = unreleased.get(key) ?? randomUUID()
      unreleased.delete(key)
      // If the response was lost, the acquisition may have succeeded.
      return Effect.tapError(tryAcquire(leases, label, owner), ({ reason }) =>
        Effect.sync(() => void (reason._tag === "Locked" || unreleased.set(key, owner))))
    }),
    (lease) =>
      release(leases, lease)
  ).pipe(
    Effect.retry({
      while: ({ reason }) => onLocked === "wait" && reason._tag === "Locked",
      schedule: Schedule.jittered(Schedule.spaced("500 millis"))
    }),
    Effect.tap((lease) =>
      // An error of a renewal is ignored: the next commit detects a lost lease.
      Effect.forkScoped(
        Effect.forever(
          Effect.delay(
            Effect.ignore(timeoutDetached(leases.times.validity)(renew(leases, lease))),
            leases.times.renewalInterval
          )
        )
      )
    )
  )

const tryAcquire = Effect.fnUntraced(function*(
  { client, runner, schema, times: { idleTimeout, lockTimeout, validity } }: Leases,
  label: string,
  owner: string
): Effect.fn.Return<Lease, SinkError> {
  const locked = (holder: string | undefined) =>
    new SinkError({ location: client.location, reason: new Locked({ label, holder }) })
  const holder = client.query(
    `SELECT holder FROM ${schema}.leases WHERE label = $1 AND owner <> $2 AND ${isValid(validity)}`,
    [label, owner]
  ).pipe(Effect.map(([row]) => row === undefined ? undefined : String(row["holder"])))
  // Read the row without a lock first, so that a refusal need not wait for a commit of the current owner.
  const currentHolder = yield* holder
  if (currentHolder !== undefined) return yield* locked(currentHolder)
  const acquired = yield* client.transaction((query) =>
    Effect.andThen(
      // Set the timeouts first, so that a hung process cannot block others.
      query(`SELECT set_config('lock_timeout', $1, true), ${setIdleTimeout(idleTimeout)}`, [
        `${Duration.toMillis(lockTimeout)}`
      ]),
      query(
        `INSERT INTO ${schema}.leases AS l (label, epoch, commit, owner, holder, expires)
        VALUES ($1, 1, 0, $2, $3, clock_timestamp() + ${interval(validity)})
        ON CONFLICT (label) DO UPDATE SET epoch = l.epoch + 1, commit = 0, owner = excluded.owner,
          holder = excluded.holder, expires = excluded.expires
        WHERE l.expires <= clock_timestamp() OR l.expires > clock_timestamp() + ${maxValidity(validity)}
          OR l.owner = excluded.owner RETURNING epoch`,
        [label, owner, `${processText(runner)} since ${new Date().toISOString()}`]
      )
    )
  ).pipe(Effect.catchIf(isLockTimeout, () => Effect.succeed([])))
  const epoch = acquired[0]?.["epoch"]
  return typeof epoch === "bigint"
    ? { label, owner, epoch, transactions: 0, committed: 0 }
    : yield* locked(yield* holder)
})

const processText = (runner: string | undefined): string =>
  `process ${process.pid} on ${hostname()}${runner === undefined ? "" : ` (runner ${runner})`}`

/** A lease that expires later was acquired before the server's clock was set back. It is treated as expired. */
const maxValidity = (validity: Duration.Duration): string =>
  interval(Duration.max(Duration.minutes(5), Duration.times(validity, 2)))

/** SQL that is true for a lease that has not expired. */
const isValid = (validity: Duration.Duration): string =>
  `expires > clock_timestamp() AND expires <= clock_timestamp() + ${maxValidity(validity)}`

/** Returns the process that has a label's lease, or undefined if none has it. */
export const holderOf = (query: Query, schema: string, label: string): Effect.Effect<string | undefined, SinkError> =>
  Effect.map(
    query(`SELECT holder FROM ${schema}.leases WHERE label = $1 AND ${isValid(times.validity)}`, [label]),
    ([row]) => readOptional(row, "holder")
  )

const interval = (duration: Duration.Duration): string => `interval '${Duration.toMillis(duration)} milliseconds'`

const isLockTimeout = ({ reason }: SinkError): boolean => reason._tag === "Failed" && reason.code === "55P03"

const renew = ({ client, schema, times: { validity } }: Leases, { epoch, label }: Lease) =>
  client.query(
    `UPDATE ${schema}.leases SET expires = clock_timestamp() + ${
      interval(validity)
    } WHERE label = $1 AND epoch = $2::bigint`,
    [label, String(epoch)]
  )

/**
 * Releases the lease, so that nothing more can be committed under it. If the server is unreachable, the lease expires.
 * If an administrator has made transactions read-only since the lease was acquired, it is released all the same.
 */
const release = (leases: Leases, { epoch, label, owner }: Lease) =>
  leases.client.onceWriting(
    `UPDATE ${leases.schema}.leases SET epoch = epoch + 1, expires = '-infinity'
    WHERE label = $1 AND epoch = $2::bigint`,
    [label, String(epoch)]
  ).pipe(
    timeoutDetached("3 seconds"),
    Effect.orElseSucceed(() => Option.none()),
    Effect.map((released) => void (Option.isSome(released) || unreleased.set(keyOf(leases, label), owner)))
  )

/**
 * Runs a transaction under the lease and commits it once. If the response to COMMIT is lost, the client runs the
 * transaction again. If the earlier run was committed, the second run skips the body and returns the result of
 * `readResult`. The body gets the source and the personal data's state of the destination, and its numbers of changes.
 * An erasure waits for the end of the transaction. After an interrupt the transaction still completes.
 */
export const commit = <A>(
  { client, memory, origin = unknownOrigin, schema, times: { idleTimeout, interruptTimeout, validity } }: Leases,
  lease: Lease,
  body: (query: Query, bound: Bound, numbering: Numbering) => Effect.Effect<A, SinkError>,
  readResult: (query: Query) => Effect.Effect<A, SinkError>
): Effect.Effect<A, SinkError> =>
  Effect.suspend(() => {
    const number = ++lease.transactions
    const own = [lease.label, String(lease.epoch), String(number)]
    return client.transaction(Effect.fnUntraced(function*(query) {
      // Another commit of this program may be committed after the snapshot of the next statement.
      const known = memory?.known
      // The UPDATE waits for an earlier run whose COMMIT is still in progress, and for another program that acquires
      // the lease. An administrator may have turned synchronous_commit off, but a committed change must survive a
      // crash.
      const start = yield* sqlOver(query, client.location, schema).read(
        sql`${numbered(lease, number, validity)}
        RETURNING ${boundColumns}, ${numberingColumns(origin)}, ${raw(setIdleTimeout(idleTimeout))},
          CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END`,
        ([locked]) =>
          locked === undefined ? undefined : { bound: toBound(locked), numbering: toNumbering(locked, known) }
      )
      if (start !== undefined) return yield* body(query, start.bound, start.numbering)
      const [committed] = yield* query(
        `SELECT FROM ${schema}.leases WHERE label = $1 AND epoch = $2::bigint AND commit = $3::bigint`,
        own
      )
      if (committed !== undefined) return yield* readResult(query)
      return yield* new SinkError({
        location: client.location,
        reason: new LeaseLost({ label: lease.label, loss: "expired" })
      })
    })).pipe(
      Effect.tap(() => Effect.sync(() => void (lease.committed = Math.max(lease.committed, number)))),
      completing(interruptTimeout)
    )
  })

/** Marks a transaction of the lease, if the lease is still valid and the transaction was not committed before. */
const numbered = (lease: Lease, number: number, validity: Duration.Duration): Statement =>
  sql`UPDATE ${schemaOfTables}.leases SET commit = ${number}, expires = clock_timestamp() + ${raw(interval(validity))}
    WHERE label = ${lease.label} AND epoch = ${integer(String(lease.epoch))} AND commit < ${number}`

/**
 * Runs a statement under the lease as a transaction of its own. The statement may read {@link boundColumns} as `locked`,
 * which has no row if the lease was lost. It runs once or not at all. If its response is lost, it returns no row.
 */
export const commitStatement = (
  { client, schema, times: { validity } }: Leases,
  lease: Lease,
  statement: Statement
): Effect.Effect<ReadonlyArray<Row>, SinkError> =>
  Effect.suspend(() => {
    const number = ++lease.transactions
    return Effect.tap(
      sqlOver(client.query, client.location, schema).all(
        sql`WITH locked AS (${numbered(lease, number, validity)} RETURNING ${boundColumns}) ${statement}`
      ),
      ({ length }) => Effect.sync(() => length === 0 || (lease.committed = Math.max(lease.committed, number)))
    )
  })

/**
 * Waits for transactions of the lease that failed, were interrupted or still run: the server has committed them when
 * this returns, or it never will. Call it before reading data for a plan. Returns whether there were any.
 */
export const settle = (leases: Leases, lease: Lease): Effect.Effect<boolean, SinkError> =>
  Effect.suspend(() =>
    lease.committed === lease.transactions
      ? Effect.succeed(false)
      // It locks the row that such a transaction has locked, and increases the number that such a transaction checks.
      : Effect.as(commit(leases, lease, () => Effect.void, () => Effect.void), true)
  )

/** Lets the effect complete after an interrupt, for the given time at most. */
const completing = (timeout: Duration.Duration) => <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(effect), (fiber) =>
      restore(Fiber.join(fiber)).pipe(
        Effect.onInterrupt(() => Effect.ignore(joinWithTimeout(fiber, timeout)))
      ))
  )
