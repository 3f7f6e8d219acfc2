/** Short transactions in a PostgreSQL schema, next to programs that export into it. */
import { Effect } from "effect"
import type { SinkError } from "../port/Sink.ts"
import { raw, type SqlDatabase, type Statement } from "../sql/SqlStatement.ts"
import type { PostgresClient, Query } from "./PostgresClient.ts"
import { setIdleTimeout, times } from "./PostgresLease.ts"
import { sqlOver, unknownOrigin } from "./PostgresSql.ts"

export const databaseOver = (
  { location, once, query, transaction }: PostgresClient,
  schema: string
): SqlDatabase => ({
  ...sqlOver(query, location, schema),
  transaction: (lock, body) =>
    transaction((run) =>
      Effect.andThen(
        // Unlike a lock of a table, this lock needs no privilege.
        run(
          `SELECT ${setIdleTimeout(times.idleTimeout)},
          pg_advisory_xact_lock${lock === "shared" ? "_shared" : ""}(hashtextextended($1, 0)),
          CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END`,
          [`payments changes ${schema}`]
        ),
        body(sqlOver(run, location, schema))
      )
    ),
  origin: originOf(once)
})

/** SQL for the identifier of the database system and its timeline, which every failover to a standby increments. */
const originSql =
  `(SELECT system_identifier FROM pg_control_system()) || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)`

/** Returns SQL for the server's identity, or for NULL if the server does not show it to this user. */
export const originOf = (once: Query): Effect.Effect<Statement, SinkError> =>
  once(`SELECT ${originSql} AS origin`).pipe(
    Effect.as(raw(originSql)),
    // A managed server may lack the functions, or deny them.
    Effect.catchReason("SinkError", "Failed", () => Effect.succeed(unknownOrigin))
  )
