/** Creates the tables of a PostgreSQL schema, migrates those of earlier versions, and refuses other schemas. */
import { Lists } from "@payments/core"
import { Duration, Effect, Result } from "effect"
import { columnsOf, tableOf } from "../plan/Columns.ts"
import { AccessDenied, NotADestination, SinkError } from "../port/Sink.ts"
import { columnTypes } from "../sql/SqlDialect.ts"
import { quoted } from "../sql/SqlStatement.ts"
import {
  type Additions,
  additionsTo,
  isCurrent,
  type PendingMigration,
  pendingMigration,
  statementsOf,
  tablesIn,
  type TableStatements,
  writtenLater
} from "../store/Evolution.ts"
import { currentVersion, earlierVersion, migrationsAfter, oldestReadableVersion } from "../store/Migrations.ts"
import { readNumber, readOptional, readText, type Row, toRecordedColumn } from "../store/StoredRows.ts"
import type { PostgresClient, Query } from "./PostgresClient.ts"
import { setIdleTimeout } from "./PostgresLease.ts"

/** The table of the rate limit store, which may be in the schema of a destination. */
export const rateLimitTable = "payments_rate_limits"

type AllLists = ReadonlyArray<Lists.AnyList>

/**
 * Creates the schema and its tables, migrates an earlier version of them, and adds missing tables and columns; or
 * refuses the schema without a change. The server ends a transaction that is idle for `idleTimeout`. This program waits
 * twice as long for another program that migrates.
 */
export const migrate = Effect.fnUntraced(function*(
  client: PostgresClient,
  schema: string,
  idleTimeout: Duration.Duration,
  lists: AllLists = Lists.all
): Effect.fn.Return<void, SinkError> {
  // The first statement has no retries, so that an unreachable server is reported at once. If the tables are current,
  // this program reads only, so its user needs no privilege to create or change tables.
  const [access] = yield* client.once(`SELECT ${readOnly} AS read_only`)
  const refusal = readOnlyProblem(access)
  if (refusal !== undefined) return yield* new SinkError({ location: client.location, reason: refusal })
  const found = yield* stateOf(client.once, client.location, schema, lists)
  if (isCurrent(found)) return
  const quotedSchema = quoted(schema)
  yield* client.transaction(Effect.fnUntraced(function*(query) {
    yield* query(
      `SELECT set_config('lock_timeout', '${2 * Duration.toMillis(idleTimeout)}', true), ${setIdleTimeout(idleTimeout)}`
    )
    // Only one program may migrate at a time.
    yield* query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`payments ${schema}`])
    const before = yield* stateOf(query, client.location, schema, lists)
    if (isCurrent(before)) return
    // CREATE SCHEMA IF NOT EXISTS needs the privilege even if the schema exists.
    if (!before.exists) yield* query(`CREATE SCHEMA ${quotedSchema}`)
    const extended = new Set<string>()
    for (const { eachList, postgres } of migrationsAfter(before.from)) {
      for (const statement of postgres(quotedSchema)) yield* query(statement)
      if (eachList === undefined) continue
      for (const table of tablesIn(yield* recordedIn(query, quotedSchema))) {
        for (const statement of eachList(`${quotedSchema}.${table}`)) yield* query(statement)
        extended.add(table)
      }
    }
    if (before.from > 0 && before.from < before.to) yield* keepReaders(query, quotedSchema)
    const additions = yield* additionsIn(query, client.location, schema, lists)
    for (const statement of statementsOf(additions, tableStatements(quotedSchema))) yield* query(statement)
    const viewed = [...additions.tables, ...additions.columns.map((added) => added.list)]
    for (const list of [...viewed, ...lists.filter((one) => extended.has(tableOf(one)) && !viewed.includes(one))]) {
      yield* replaceView(query, schema, list)
    }
    yield* query(`UPDATE ${quotedSchema}.destination SET version = ${currentVersion}`)
  })).pipe(
    Effect.mapError((error) => {
      const code = error.reason._tag === "Failed" ? error.reason.code : undefined
      const problem = code === "42501" && found.from > 0
        ? deniedMigration(found)
        // Only a migration changes the type of a column. Elsewhere the code has other causes.
        : code === "0A000"
        ? blockedMigration
        : undefined
      return problem === undefined
        ? error
        : new SinkError({ location: client.location, reason: new AccessDenied({ problem }) })
    })
  )
})

/** SQL for the column `read_only` of {@link readOnlyProblem}. */
export const readOnly = `CASE WHEN pg_is_in_recovery() THEN 'standby'
  WHEN current_setting('default_transaction_read_only') = 'on' THEN 'default' END`

/** Returns why nothing can be written through the connection that returned the row, or undefined if it can. */
export const readOnlyProblem = (row: Row | undefined): AccessDenied | undefined => {
  const found = readOptional(row, "read_only")
  return found === undefined ? undefined : new AccessDenied({
    problem: found === "standby"
      ? "the server is a hot standby, which is read-only. Name the primary server."
      : "transactions are read-only there, because default_transaction_read_only is on. Turn it off for this user and database, or name another server."
  })
}

/** The tables that later versions than the first added and that every reader needs. */
const sharedTables = [
  "list_columns",
  "program_version",
  "consumers",
  "changes_pruned",
  "head_passes",
  "change_counts",
  "personal",
  "suppressed",
  "erasures",
  "rows_pruned",
  "generations",
  "facts"
]

export const deniedMigration = ({ from, to }: PendingMigration): string =>
  `${
    from < to
      ? `its tables have version ${from}, and this program needs version ${to}`
      : "it lacks tables or columns that this program adds"
  }. The user may not change the tables. Run payments migrate as the role that owns them, then run again.`

const blockedMigration =
  "a view, or another object of yours, uses a column of quarantine whose type has to change. Drop it, run again, and create it again."

/** Returns what {@link migrate} would do. Writes nothing. */
export const pendingIn = (
  client: PostgresClient,
  schema: string,
  lists: AllLists = Lists.all
): Effect.Effect<PendingMigration, SinkError> => stateOf(client.once, client.location, schema, lists)

/** Lets the roles that may read `destination` also read the tables that later versions added and every reader needs. */
const keepReaders = Effect.fnUntraced(function*(query: Query, quotedSchema: string) {
  const readers = yield* query(
    `SELECT DISTINCT pg_get_userbyid(nullif(a.grantee, 0)) AS name FROM pg_class AS c, aclexplode(c.relacl) AS a
    WHERE c.oid = to_regclass($1) AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner`,
    [`${quotedSchema}.destination`]
  )
  for (const reader of readers) {
    const name = readOptional(reader, "name")
    yield* query(
      `GRANT SELECT ON ${sharedTables.map((table) => `${quotedSchema}.${table}`).join(", ")} TO ${
        name === undefined ? "PUBLIC" : quoted(name)
      }`
    )
  }
})

/**
 * Refuses a schema that is not a destination, or one of a version that this program cannot read. It may lack columns
 * and lists that this program has.
 */
export const requireReadable = (
  client: PostgresClient,
  schema: string,
  lists: AllLists = Lists.all
): Effect.Effect<void, SinkError> =>
  Effect.flatMap(
    stateOf(client.once, client.location, schema, lists),
    ({ from }) =>
      from >= oldestReadableVersion
        ? Effect.void
        : refuse(client.location, {
          problem: from === 0 ? "nothing has been exported into it." : earlierVersion,
          isEmpty: from === 0
        })
  )

const refuse = (location: string, why: ConstructorParameters<typeof NotADestination>[0]) =>
  Effect.fail(new SinkError({ location, reason: new NotADestination(why) }))

interface State extends PendingMigration {
  readonly exists: boolean
}

const stateOf = Effect.fnUntraced(function*(
  query: Query,
  location: string,
  schema: string,
  lists: AllLists
): Effect.fn.Return<State, SinkError> {
  const [found] = yield* query(
    `SELECT current_setting('server_encoding') AS encoding, n.oid IS NOT NULL AS there,
      EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid AND relkind <> 'i' AND relname <> '${rateLimitTable}') AS used,
      (SELECT count(*) FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
        WHERE c.relnamespace = n.oid AND c.relname = 'destination' AND NOT a.attisdropped
          AND a.attname IN ('singleton', 'version', 'source', 'changes')) = 4 AS ours
    FROM (SELECT 1) AS one LEFT JOIN pg_namespace AS n ON n.nspname = $1`,
    [schema]
  )
  if (found?.["encoding"] !== "UTF8") {
    return yield* refuse(location, { problem: "the database is not encoded in UTF8. Choose another one." })
  }
  const exists = found["there"] === true
  if (!exists) return { exists, ...pendingMigration(0, undefined) }
  if (found["ours"] !== true) {
    return found["used"] === true
      ? yield* refuse(location, {
        problem: "the schema has tables of another program. Choose another one (?schema=NAME)."
      })
      : { exists, ...pendingMigration(0, undefined) }
  }
  const [row] = yield* query(`SELECT version FROM ${quoted(schema)}.destination`)
  const version = readNumber(row, "version")
  if (version > currentVersion) {
    return yield* refuse(location, { problem: writtenLater(yield* programIn(query, schema)), isLater: true })
  }
  const additions = version >= oldestReadableVersion ? yield* additionsIn(query, location, schema, lists) : undefined
  return { exists, ...pendingMigration(version, additions) }
})

/** Returns the version of the last program that changed the tables, or undefined if the tables do not record it. */
const programIn = Effect.fnUntraced(function*(query: Query, schema: string) {
  const [table] = yield* query("SELECT to_regclass($1) IS NOT NULL AS there", [`${quoted(schema)}.program_version`])
  if (table?.["there"] !== true) return undefined
  const [row] = yield* query(`SELECT version FROM ${quoted(schema)}.program_version`)
  return readOptional(row, "version")
})

/** Returns the tables and columns to add. Fails if this program must not use the schema. */
const additionsIn = Effect.fnUntraced(function*(
  query: Query,
  location: string,
  schema: string,
  lists: AllLists
): Effect.fn.Return<Additions, SinkError> {
  const quotedSchema = quoted(schema)
  const recorded = yield* query(
    `SELECT list, name, kind, unfilled_from, (SELECT version FROM ${quotedSchema}.program_version) AS program FROM ${quotedSchema}.list_columns`
  )
  const additions = additionsTo(recorded.map(toRecordedColumn), lists, readOptional(recorded[0], "program"))
  return Result.isFailure(additions) ? yield* refuse(location, additions.failure) : additions.success
})

const recordedIn = (query: Query, quotedSchema: string) =>
  Effect.map(
    query(`SELECT list, name, kind, unfilled_from FROM ${quotedSchema}.list_columns`),
    (recorded) => recorded.map(toRecordedColumn)
  )

const tableStatements = (quotedSchema: string): TableStatements => ({
  prefix: `${quotedSchema}.`,
  create: (list) => {
    const table = tableOf(list)
    // A system update may change the collation of a language, which would break an index. Byte order never changes.
    const columns = columnsOf(list).map(({ kind, name }) =>
      `${quoted(name)} ${columnTypes[kind]}${name === "id" ? ` COLLATE "C" NOT NULL UNIQUE` : ""}`
    )
    return [
      `CREATE TABLE ${quotedSchema}.${table} (
        "row" bigint PRIMARY KEY, ${columns.join(", ")}, raw json NOT NULL, hash text NOT NULL,
        first_seen_at timestamptz NOT NULL, changed_at timestamptz NOT NULL, missing_since timestamptz,
        rechecked text
      )`,
      `CREATE INDEX missing_${table} ON ${quotedSchema}.${table} ("row") WHERE missing_since IS NOT NULL`
    ]
  },
  addColumn: (list, { kind, name }) =>
    `ALTER TABLE ${quotedSchema}.${tableOf(list)} ADD COLUMN ${quoted(name)} ${columnTypes[kind]}`
})

/**
 * Creates the view that adds the time when each row was last seen, or adds the table's new columns to the view. New
 * columns come last: a replaced view must keep its columns in order, so that views that use it continue to work.
 */
const replaceView = Effect.fnUntraced(function*(query: Query, schema: string, list: Lists.AnyList) {
  const [quotedSchema, table] = [quoted(schema), tableOf(list)]
  const columnsIn = (relation: string) =>
    Effect.map(
      query(
        `SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
        ORDER BY attnum`,
        [`${quotedSchema}.${relation}`]
      ),
      (rows) => rows.map((row) => readText(row, "attname"))
    )
  const existing = yield* columnsIn(`${table}_seen`)
  const names = new Set(existing.length > 0 ? existing : [...(yield* columnsIn(table)), lastSeen])
  for (const { name } of [...columnsOf(list), { name: "rechecked" }]) names.add(name)
  const lastSeenAt = `greatest(t.changed_at, (
      SELECT max(coalesce(scans.ended_at, scans.started_at)) FROM ${quotedSchema}.scans JOIN ${quotedSchema}.seen ON seen.scan = scans.scan
      WHERE scans.list = '${list.label}' AND seen.piece = t."row" / 8192 AND get_bit(seen.bits, (t."row" % 8192)::int) = 1
    )) AS ${lastSeen}`
  const columns = [...names].map((name) => name === lastSeen ? lastSeenAt : `t.${quoted(name)}`)
  yield* query(
    `CREATE OR REPLACE VIEW ${quotedSchema}.${table}_seen AS SELECT ${
      columns.join(", ")
    } FROM ${quotedSchema}.${table} AS t`
  )
})

const lastSeen = "last_seen_at"
