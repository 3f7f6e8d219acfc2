/** The tables of a PostgreSQL destination. They live in one schema; the table `destination` tells its version. */
import { Lists } from "@payments/core"
import { Duration, Effect } from "effect"
import { columnsOf, tableOf } from "../engine/Columns.ts"
import { NotADestination, SinkError } from "../Sink.ts"
import type { PostgresClient, Query } from "./PostgresClient.ts"
import { setIdleTimeout } from "./PostgresLease.ts"

/** Of the tables below; a schema that says more was written by a later version. */
const version = 2

/** A name as SQL writes it. */
export const quoted = (name: string): string => `"${name.replaceAll("\"", "\"\"")}"`

/**
 * Makes the schema and its tables where they are not there, or refuses what is. A program that says nothing for `idleTimeout`
 * while it makes them is cut off; one that works on for twice as long is not waited for.
 */
export const migrate = Effect.fnUntraced(function*(
  client: PostgresClient,
  schema: string,
  idleTimeout: Duration.Duration
): Effect.fn.Return<void, SinkError> {
  // The first word with the server: whoever cannot reach it is told at once.
  if ((yield* stateOf(client.once, client.location, schema)) === "current") return
  yield* client.transaction(Effect.fnUntraced(function*(query) {
    yield* query(
      `SELECT set_config('lock_timeout', '${2 * Duration.toMillis(idleTimeout)}', true), ${setIdleTimeout(idleTimeout)}`
    )
    // One program makes them.
    yield* query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`payments ${schema}`])
    const state = yield* stateOf(query, client.location, schema)
    if (state === "current") return
    // Even IF NOT EXISTS asks for the privilege to create one.
    if (state === "absent") yield* query(`CREATE SCHEMA ${quoted(schema)}`)
    const statements = state === "earlier" ? toVersion2(quoted(schema)) : tables(quoted(schema))
    for (const statement of statements) yield* query(statement)
  }))
})

/** Refuses a schema that is not a destination of this version. */
export const requireCurrent = (client: PostgresClient, schema: string): Effect.Effect<void, SinkError> =>
  Effect.flatMap(
    stateOf(client.once, client.location, schema),
    (state) =>
      state === "current" ? Effect.void : refuse(
        client.location,
        state === "earlier"
          ? "it was written by an earlier version of this program. Export into it first."
          : "nothing has been exported into it."
      )
  )

const refuse = (location: string, problem: string) =>
  Effect.fail(new SinkError({ location, reason: new NotADestination({ problem }) }))

const stateOf = Effect.fnUntraced(function*(
  query: Query,
  location: string,
  schema: string
): Effect.fn.Return<"absent" | "empty" | "earlier" | "current", SinkError> {
  const [found] = yield* query(
    `SELECT current_setting('server_encoding') AS encoding, n.oid IS NOT NULL AS there,
      EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid AND relkind <> 'i') AS used,
      (SELECT count(*) FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
        WHERE c.relnamespace = n.oid AND c.relname = 'destination' AND NOT a.attisdropped
          AND a.attname IN ('singleton', 'version', 'source', 'changes')) = 4 AS ours
    FROM (SELECT 1) AS one LEFT JOIN pg_namespace AS n ON n.nspname = $1`,
    [schema]
  )
  if (found?.["encoding"] !== "UTF8") {
    return yield* refuse(location, "the database is not encoded in UTF8. Choose another one.")
  }
  if (found["there"] !== true) return "absent"
  if (found["ours"] !== true) {
    return found["used"] === true
      ? yield* refuse(location, "the schema holds tables of something else. Choose another one (?schema=NAME).")
      : "empty"
  }
  const [row] = yield* query(`SELECT version FROM ${quoted(schema)}.destination`)
  const written = Number(row?.["version"])
  if (written > version) {
    return yield* refuse(location, "it was written by a later version of this program. Use that version.")
  }
  return written < version ? "earlier" : "current"
})

const sqlTypes = { text: "text", integer: "bigint", boolean: "boolean" } as const

/** From version 1. */
const toVersion2 = (s: string): ReadonlyArray<string> => [
  `ALTER TABLE ${s}.quarantine ALTER COLUMN raw TYPE text`,
  ...owner(s),
  `UPDATE ${s}.destination SET version = 2`
]

const tables = (s: string): ReadonlyArray<string> => [
  `CREATE TABLE ${s}.destination (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton), version integer NOT NULL, source text,
    -- The number of the last change. Locked until whoever takes the next ones has committed.
    changes bigint NOT NULL DEFAULT 0
  )`,
  `INSERT INTO ${s}.destination (version) VALUES (${version})`,
  `CREATE TABLE ${s}.leases (
    label text PRIMARY KEY, epoch bigint NOT NULL, commit bigint NOT NULL, owner text NOT NULL, holder text NOT NULL,
    expires timestamptz NOT NULL
  )`,
  `CREATE TABLE ${s}.scans (
    scan bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, list text NOT NULL, part text NOT NULL, asked text NOT NULL,
    state text NOT NULL CHECK (state IN ('running', 'complete', 'incomplete', 'abandoned')), checkpoint text,
    first_row bigint NOT NULL, pages bigint NOT NULL DEFAULT 0, records bigint NOT NULL DEFAULT 0,
    tally json NOT NULL, certificate json, started_at timestamptz NOT NULL, ended_at timestamptz
  )`,
  `CREATE UNIQUE INDEX one_running_scan ON ${s}.scans (list, part) WHERE state = 'running'`,
  `CREATE INDEX scans_of_a_part ON ${s}.scans (list, part, state, scan)`,
  `CREATE TABLE ${s}.seen (scan bigint NOT NULL, piece bigint NOT NULL, bits bytea NOT NULL, PRIMARY KEY (scan, piece))`,
  `CREATE TABLE ${s}.quarantine (
    scan bigint NOT NULL, list text NOT NULL, id text, path text NOT NULL, expected text NOT NULL,
    -- Text: json refuses some of what is quarantined.
    raw text NOT NULL
  )`,
  `CREATE INDEX quarantine_of_a_scan ON ${s}.quarantine (scan)`,
  `CREATE TABLE ${s}.changes (
    seq bigint PRIMARY KEY, list text NOT NULL, scan bigint NOT NULL, at timestamptz NOT NULL,
    kind text NOT NULL CHECK (kind IN ('insert', 'update', 'missing', 'returned')),
    id text COLLATE "C" NOT NULL, fields json NOT NULL, before json, after json
  )`,
  `CREATE INDEX changes_of_a_record ON ${s}.changes (list, id, seq)`,
  ...Lists.all.flatMap((list) => rowsOf(s, list)),
  ...owner(s)
]

/** Whose data it is: fingerprints of the keys that it was filled with, and the merchant ids that its records show. */
const owner = (s: string): ReadonlyArray<string> => [
  `CREATE TABLE IF NOT EXISTS ${s}.known_keys (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, salt text NOT NULL, fingerprint text NOT NULL,
    UNIQUE (salt, fingerprint)
  )`,
  `CREATE TABLE IF NOT EXISTS ${s}.known_merchants (merchant text COLLATE "C" PRIMARY KEY)`
]

/** The table of a list, and a view of it that tells when each row was last seen. */
const rowsOf = (s: string, list: Lists.AnyList): ReadonlyArray<string> => {
  const table = tableOf(list)
  // An index in the order of bytes is no order of a language, which a system's update may change.
  const columns = columnsOf(list).map(({ kind, name }) =>
    `${quoted(name)} ${sqlTypes[kind]}${name === "id" ? ` COLLATE "C" NOT NULL UNIQUE` : ""}`
  )
  return [
    `CREATE TABLE ${s}.${table} (
      "row" bigint PRIMARY KEY, ${columns.join(", ")}, raw json NOT NULL, hash text NOT NULL,
      first_seen_at timestamptz NOT NULL, changed_at timestamptz NOT NULL, missing_since timestamptz
    )`,
    `CREATE INDEX missing_${table} ON ${s}.${table} ("row") WHERE missing_since IS NOT NULL`,
    `CREATE VIEW ${s}.${table}_seen AS SELECT t.*, greatest(t.changed_at, (
      SELECT max(coalesce(scans.ended_at, scans.started_at)) FROM ${s}.scans JOIN ${s}.seen ON seen.scan = scans.scan
      WHERE scans.list = '${list.label}' AND seen.piece = t."row" / 8192 AND get_bit(seen.bits, (t."row" % 8192)::int) = 1
    )) AS last_seen_at FROM ${s}.${table} AS t`
  ]
}
