/** Which schema of PostgreSQL a URL names, and why this user may not write into it. Only reads the server's catalog. */
import { Effect, Option } from "effect"
import { AccessDenied, DestinationFailed, type SinkError, type SinkReason } from "../port/Sink.ts"
import { isCurrent } from "../store/Evolution.ts"
import { connect } from "./PostgresClient.ts"
import { deniedMigration, pendingIn, readOnly, readOnlyProblem } from "./PostgresSchema.ts"
import { settingsOf } from "./PostgresSettings.ts"
import type { PostgresUrl } from "./PostgresUrl.ts"

/** `SELECT`, `INSERT`, `UPDATE` and `DELETE` are needed on all tables of a schema. Only the owner may change tables. */
const accessQuery = `SELECT ${readOnly} AS read_only,
  CASE WHEN s.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
  ELSE has_schema_privilege(s.oid, 'USAGE') AND coalesce((
    SELECT bool_and(has_table_privilege(t.oid, 'SELECT') AND has_table_privilege(t.oid, 'INSERT')
      AND has_table_privilege(t.oid, 'UPDATE') AND has_table_privilege(t.oid, 'DELETE'))
    FROM pg_class AS t WHERE t.relnamespace = s.oid AND t.relkind IN ('r', 'p')
  ), has_schema_privilege(s.oid, 'CREATE')) END AS may_write,
  has_schema_privilege(s.oid, 'CREATE') AND (
    SELECT bool_and(pg_has_role(t.relowner, 'USAGE')) FROM pg_class AS t WHERE t.relnamespace = s.oid AND t.relkind IN ('r', 'p')
  ) AS may_migrate
  FROM (SELECT $1::text AS name) AS given LEFT JOIN pg_namespace AS s ON s.nspname = given.name`

/** Returns why an export could not write into the schema, or undefined if it could. */
export const accessProblem = (url: PostgresUrl): Effect.Effect<SinkReason | undefined, SinkError> =>
  Effect.scoped(Effect.gen(function*() {
    const client = yield* connect(yield* settingsOf(url))
    const [row] = yield* client.once(accessQuery, [url.schema])
    const refusal = readOnlyProblem(row)
    if (refusal !== undefined) return refusal
    if (row?.["may_write"] !== true) return new DestinationFailed({ code: "42501" })
    if (row["may_migrate"] === true) return undefined
    // Another check reports a schema that is not a destination of this program.
    const pending = yield* Effect.option(pendingIn(client, url.schema))
    return Option.isSome(pending) && pending.value.from > 0 && !isCurrent(pending.value)
      ? new AccessDenied({ problem: deniedMigration(pending.value) })
      : undefined
  }))

/** The moment when the server started, in microseconds, distinguishes servers. No privilege is needed to read it. */
const identityQuery = `SELECT concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
  (SELECT oid FROM pg_database WHERE datname = current_database())) AS place`

/** Returns a text that is the same for two URLs of one schema of one running server. */
export const identityOf = (url: PostgresUrl): Effect.Effect<string, SinkError> =>
  Effect.scoped(Effect.gen(function*() {
    const client = yield* connect(yield* settingsOf(url))
    const [row] = yield* client.once(identityQuery)
    return JSON.stringify(["postgres", String(row?.["place"]), url.schema])
  }))
