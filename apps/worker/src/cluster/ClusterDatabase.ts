/** The checks of a cluster's database before a runner joins, and of `payments-worker check`. They write nothing. */
import { SinkError, SinkReason } from "@payments/copy"
import { connect, type PostgresSettings, settingsOf, textArray } from "@payments/copy/postgres"
import type { ClusterSettings } from "@payments/program/sources"
import { Effect } from "effect"
import { refusePooler } from "./Pooler.ts"

export interface ClusterDatabase {
  readonly settings: PostgresSettings
  readonly version: string
  /** A sentence about what is not as it should be. */
  readonly warning: string | undefined
}

/** The tables of Effect Cluster and of `Runners.ts`, without their prefix. */
const tables = ["runners", "locks", "runner_migrations", "processes", "sources"]

const query = `SELECT current_setting('server_version') AS version, current_schema() AS schema,
  current_setting('server_version_num')::integer < 140000 AS is_old,
  pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only,
  current_schema() IS NOT NULL AND (
    (SELECT count(*) = ${tables.length} AND bool_and(has_table_privilege(t.oid, 'SELECT') AND has_table_privilege(t.oid, 'INSERT')
      AND has_table_privilege(t.oid, 'UPDATE') AND has_table_privilege(t.oid, 'DELETE'))
    FROM unnest($1::text[]) AS name JOIN pg_class AS t ON t.oid = to_regclass(quote_ident(name)))
    OR has_schema_privilege(current_schema(), 'CREATE')) AS may_write`

/** Completes the settings from the environment. */
export const databaseOf = (url: ClusterSettings["url"]): Effect.Effect<PostgresSettings, SinkError> =>
  Effect.map(settingsOf(url), (settings) => ({ ...settings, location: locationOf(settings.location) }))

export const checkDatabase = Effect.fnUntraced(
  function*({ prefix, url }: ClusterSettings) {
    const settings = yield* databaseOf(url)
    yield* refusePooler(url)
    const client = yield* connect(settings)
    const [row] = yield* client.once(query, [textArray(tables.map((table) => `${prefix}_${table}`))])
    const refuse = (reason: SinkReason.SinkReason) => new SinkError({ location: settings.location, reason })
    if (row?.["read_only"] === true) return yield* refuse(new SinkReason.DestinationFailed({ code: "25006" }))
    if (row?.["may_write"] !== true) {
      return yield* refuse(
        new SinkReason.AccessDenied({
          problem: `this user may not create the tables of the cluster there. Grant CREATE on the schema ${
            String(row?.["schema"] ?? "public")
          }, or choose another database.`
        })
      )
    }
    const version = String(row["version"])
    const database: ClusterDatabase = {
      settings,
      version,
      warning: row["is_old"] === true
        ? `PostgreSQL ${version} does not end the session of a runner that hangs, so its sources are not taken over before its connection ends. Use version 14 or later.`
        : undefined
    }
    return database
  },
  Effect.scoped,
  Effect.mapError((error) =>
    error._tag === "SinkError" ? new SinkError({ ...error, location: locationOf(error.location) }) : error
  )
)

/** The tables of a cluster have a prefix instead of a schema. */
const locationOf = (location: string): string => `cluster ${location.replace(/^cluster |\?schema=.*$/g, "")}`
