/** Checks the rate limit store of a source: whether it answers, and whether this user may use its table. */
import { connect, type PostgresUrl, settingsOf } from "@payments/copy/postgres"
import { Effect } from "effect"
import { grant, name } from "../ratelimit/RateLimitTable.ts"
import { type Finding, ok, warning } from "./Finding.ts"

const check = "rate limit store"

/** It reads only the server's catalog. */
const query = `SELECT c.oid IS NOT NULL AS has_table, CASE
    WHEN c.oid IS NOT NULL THEN has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
      AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
    WHEN n.oid IS NOT NULL THEN has_schema_privilege(n.oid, 'CREATE')
    ELSE has_database_privilege(current_database(), 'CREATE') END AS is_usable
  FROM (SELECT $1::text AS schema) AS given LEFT JOIN pg_namespace AS n ON n.nspname = given.schema
    LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = '${name}'`

const withoutStore = "Until then, each process only keeps to its own request rate."

/** A problem is a warning: without the store, data is still read. */
export const checkRateLimitStore = (url: PostgresUrl): Effect.Effect<Finding> =>
  Effect.scoped(Effect.gen(function*() {
    const settings = yield* settingsOf(url)
    const client = yield* connect(settings)
    const [row] = yield* client.once(query, [url.schema])
    const place = settings.location
    if (row?.["is_usable"] !== true) {
      return warning(check, `${place}: the user lacks a privilege`, `${grant(url.schema)} ${withoutStore}`)
    }
    return ok(
      check,
      `${place}: ${row["has_table"] === true ? "the user has the privileges" : "the first request creates its table"}`
    )
  })).pipe(
    Effect.catch((error) =>
      Effect.succeed(warning(check, error.message.replace(/\.$/, ""), `Make the database available. ${withoutStore}`))
    )
  )
