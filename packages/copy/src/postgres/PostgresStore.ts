/**
 * A {@link Store} in one schema of a PostgreSQL database. A batch is one transaction of a few statements, each for all
 * its rows. A writer has a lease of its list (`PostgresLease.ts`).
 */
import type { Lists } from "@payments/core"
import { Effect, type Scope } from "effect"
import type { SinkError } from "../port/Sink.ts"
import { maintain } from "../sql/SqlMaintenance.ts"
import { readerOver } from "../sql/SqlReader.ts"
import { redactionOver } from "../sql/SqlRedaction.ts"
import { quoted } from "../sql/SqlStatement.ts"
import { type Locks, type Memory, writerOver } from "../sql/SqlWriter.ts"
import type { PendingMigration } from "../store/Evolution.ts"
import type { Maintenance, Reader, Store } from "../store/Store.ts"
import { connect, type PostgresClient, type Query } from "./PostgresClient.ts"
import { databaseOver, originOf } from "./PostgresDatabase.ts"
import { findOver } from "./PostgresFind.ts"
import * as Lease from "./PostgresLease.ts"
import { migrate, pendingIn, requireReadable } from "./PostgresSchema.ts"
import type { PostgresSettings } from "./PostgresSettings.ts"
import { sqlOver } from "./PostgresSql.ts"
import { statusTotalsOver } from "./PostgresStatuses.ts"

/** Opens the schema for writing, for a program that knows these lists. Creates a missing schema. */
export const openStore = (
  settings: PostgresSettings,
  times: Lease.Times = Lease.times,
  lists?: ReadonlyArray<Lists.AnyList>,
  runner?: string
): Effect.Effect<Store, SinkError, Scope.Scope> =>
  Effect.gen(function*() {
    const client = yield* connect(settings)
    yield* migrate(client, settings.schema, times.idleTimeout, lists)
    const schema = quoted(settings.schema)
    const origin = yield* originOf(client.once)
    const memory: Memory = { known: undefined }
    const leases = { client, schema, times, runner, origin, memory }
    return { ...readerOf(client, schema), ...writerOver(locksOf(leases)) }
  })

/** Opens an existing schema for reading, until the scope closes, for a program that knows these lists. */
export const openReader = (
  settings: PostgresSettings,
  lists?: ReadonlyArray<Lists.AnyList>
): Effect.Effect<Reader, SinkError, Scope.Scope> =>
  Effect.map(openExisting(settings, lists), ({ client, schema }) => readerOf(client, schema))

/** Returns what {@link openStore} would do to the tables of the schema. Writes nothing. */
export const pendingMigration = (settings: PostgresSettings): Effect.Effect<PendingMigration, SinkError> =>
  Effect.scoped(Effect.flatMap(connect(settings), (client) => pendingIn(client, settings.schema)))

/** Opens a snapshot of an existing schema, readable until the scope closes. `query` reads the same snapshot. */
export const openSnapshot = (
  settings: PostgresSettings
): Effect.Effect<
  { readonly reader: Reader; readonly query: Query; readonly schema: string },
  SinkError,
  Scope.Scope
> =>
  Effect.gen(function*() {
    const { client, schema } = yield* openExisting(settings, undefined)
    const query = yield* client.snapshot
    return { reader: readerOf({ ...client, query }, schema), query, schema }
  })

/** Opens an existing schema for maintenance, until the scope closes, for a program that knows these lists. */
export const openMaintenance = (
  settings: PostgresSettings,
  lists?: ReadonlyArray<Lists.AnyList>
): Effect.Effect<Maintenance, SinkError, Scope.Scope> =>
  Effect.map(
    openExisting(settings, lists),
    ({ client, schema }) => {
      const db = databaseOver(client, schema)
      return {
        ...readerOf(client, schema),
        ...maintain(db),
        ...redactionOver(db),
        // The server discards its log, and reuses the space of old row versions after a vacuum.
        emptyLog: Effect.void,
        wipe: Effect.void
      }
    }
  )

const openExisting = Effect.fnUntraced(function*(
  settings: PostgresSettings,
  lists: ReadonlyArray<Lists.AnyList> | undefined
): Effect.fn.Return<{ readonly client: PostgresClient; readonly schema: string }, SinkError, Scope.Scope> {
  const client = yield* connect(settings)
  yield* requireReadable(client, settings.schema, lists)
  return { client, schema: quoted(settings.schema) }
})

const readerOf = ({ location, query }: Pick<PostgresClient, "location" | "query">, schema: string): Reader =>
  readerOver(sqlOver(query, location, schema), {
    find: findOver(query, schema),
    statusTotals: statusTotalsOver(query, schema),
    // The server checks its pages itself.
    damage: Effect.succeed([]),
    holderOf: (label) => Lease.holderOf(query, schema, label)
  })

const locksOf = (leases: Lease.Leases & { readonly memory: Memory }): Locks => {
  const { client: { location }, memory, schema } = leases
  const acquired = new Map<string, Lease.Lease>()
  /** Runs a body with the list's lease. */
  const withLease = <A>({ label }: Lists.AnyList, body: (lease: Lease.Lease) => Effect.Effect<A, SinkError>) =>
    Effect.suspend(() => {
      const lease = acquired.get(label)
      return lease === undefined ? Effect.die(new Error(`${label} is not locked`)) : body(lease)
    })
  return {
    memory,
    lock: (label, onLocked) =>
      Effect.map(Lease.acquire(leases, label, onLocked), (lease) => void acquired.set(label, lease)),
    // Acquiring a lease takes it over. An interrupted transaction of an earlier scan may still run.
    takeOver: (label) =>
      Effect.suspend(() => {
        const lease = acquired.get(label)
        return lease === undefined ? Effect.succeed(true) : Lease.settle(leases, lease)
      }),
    transaction: (list, body, readResult) =>
      withLease(list, (lease) =>
        Lease.commit(
          leases,
          lease,
          (query, bound, numbering) => body(sqlOver(query, location, schema), bound, numbering),
          (query) => readResult(sqlOver(query, location, schema))
        )),
    statement: (list, statement) => withLease(list, (lease) => Lease.commitStatement(leases, lease, statement))
  }
}
