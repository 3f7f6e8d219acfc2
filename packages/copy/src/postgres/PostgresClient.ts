/**
 * The only file that uses the PostgreSQL driver. Connections are pooled. If the connection of a statement or a
 * transaction is lost, the client retries it for a while. So a restart of the server causes only a pause. No error
 * contains a statement, a value or the server's message, only the error code.
 */
import { PgClient, PgConnection, PgPool, PgTypes } from "@effect/sql-pg"
import { Monotonic } from "@payments/core"
import { Duration, Effect, Exit, type Layer, Option, Redacted, Schedule, Scope } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { errorCode } from "../filesystem/ErrorCode.ts"
import { DestinationFailed, DiskFull, type Login, SinkError, type SinkReason, Unavailable } from "../port/Sink.ts"
import { timeoutDetached } from "../port/Timeouts.ts"
import { multipleStatements, QueryError } from "../statement/Statement.ts"
import { shownMessage } from "../statement/StatementMessage.ts"
import type { Row } from "../store/StoredRows.ts"
import type { PostgresSettings } from "./PostgresSettings.ts"

/** Text is parsed as the type that the statement names. */
export type Parameter = string | null | PgTypes.Parameter

/** Runs one statement. */
export type Query = (
  sql: string,
  parameters?: ReadonlyArray<Parameter>
) => Effect.Effect<ReadonlyArray<Row>, SinkError>

/** The result of a statement: its rows, and their columns in order. */
export interface Result {
  readonly rows: ReadonlyArray<Row>
  readonly fields: ReadonlyArray<{ readonly name: string; readonly dataTypeId: number }>
}

/** A database. */
export interface PostgresClient {
  readonly location: string
  /** Runs an idempotent statement. If its connection is lost, the statement is run again. */
  readonly query: Query
  /** Runs a statement without retries. */
  readonly once: Query
  /** Runs a statement that writes without retries, also if the server's transactions are read-only by default. */
  readonly onceWriting: Query
  /**
   * Runs statements in one transaction (read committed). It may write unless the server's transactions are read-only,
   * by default or on a standby. An administrator, or a provider whose disk is full, sets that default to prevent
   * writes. If the connection is lost, the whole body is run again, even if only the response to COMMIT was lost. The
   * body must detect that an earlier run was committed.
   */
  readonly transaction: <A>(body: (query: Query) => Effect.Effect<A, SinkError>) => Effect.Effect<A, SinkError>
  /** Starts a transaction that reads and sees no later commit. It is rolled back when the scope closes. */
  readonly snapshot: Effect.Effect<Query, SinkError, Scope.Scope>
  /**
   * Starts a read-only transaction for a user's statements. It is rolled back when the scope closes. An interrupt
   * cancels the running statement. Messages repeat nothing but what stands in `typed`, the text of the user.
   */
  readonly readOnly: (typed: string) => Effect.Effect<
    (sql: string, parameters?: ReadonlyArray<Parameter>) => Effect.Effect<Result, SinkError | QueryError>,
    SinkError,
    Scope.Scope
  >
  /** {@inheritDoc PostgresClient.readOnly} It sees no later commit. */
  readonly readOnlySnapshot: PostgresClient["readOnly"]
}

/** Makes an array parameter of type text, for `unnest`. */
export const textArray = (values: ReadonlyArray<string | null>): Parameter => array(values, PgTypes.OID.text)
export const bigintArray = (values: ReadonlyArray<number | null>): Parameter =>
  array(values.map((value) => value === null ? null : BigInt(value)), PgTypes.OID.int8)
export const booleanArray = (values: ReadonlyArray<boolean | null>): Parameter => array(values, PgTypes.OID.bool)
export const byteaArray = (values: ReadonlyArray<Uint8Array>): Parameter => array(values, PgTypes.OID.bytea)

const array = (values: ReadonlyArray<unknown>, type: number): Parameter => {
  // The driver fails if PostgreSQL has no array of this type.
  const parameter = PgTypes.array(values, type)
  if (parameter._tag === "Failure") throw parameter.failure
  return parameter.success
}

/** SQL that formats a time as JavaScript does, under the column's name. */
export const iso = (column: string): string =>
  `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS ${column}`

/** Retries of a lost connection. 10 s suffice for a restart of a server. A program must end within 15 s of SIGTERM. */
const reconnectSchedule = Schedule.min([Schedule.exponential("10 millis"), Schedule.spaced("500 millis")]).pipe(
  Schedule.jittered,
  Monotonic.upTo("10 seconds")
)

/** How long closing the pool waits. If the server does not respond, an interrupted statement blocks its connection. */
const closeTimeout = Duration.seconds(1)

/** Probes that distinguish a server that no longer responds from one that is busy with a statement. */
export interface ProbeSettings {
  /** The time between two probes of a long statement. A probe opens a connection and runs a trivial statement. */
  readonly interval: Duration.Duration
  readonly timeout: Duration.Duration
}

export const probeSettings: ProbeSettings = { interval: Duration.seconds(30), timeout: Duration.seconds(10) }

/** Opens connections on demand, until the scope closes. */
export const connect = (
  settings: PostgresSettings,
  { interval, timeout }: ProbeSettings = probeSettings
): Effect.Effect<PostgresClient, SinkError, Scope.Scope> => {
  const { location } = settings
  const toSinkError = Effect.mapError((error: SqlError.SqlError | SinkError): SinkError =>
    error._tag === "SinkError" ? error : new SinkError({ location, reason: reasonOf(error, settings.login) })
  )
  const withRetries = <A, R>(self: Effect.Effect<A, SqlError.SqlError | SinkError, R>) =>
    toSinkError(
      Effect.retry(self, {
        while: (error) => error._tag === "SqlError" && isLost(error),
        schedule: reconnectSchedule
      })
    )
  const probe = Effect.scoped(
    Effect.flatMap(PgConnection.make(configOf(settings)), (connection) => connection.query("SELECT 1"))
  ).pipe(
    timeoutDetached(timeout),
    // A server that refuses a connection responds. The running statement then fails by itself.
    Effect.match({ onFailure: (error) => !isUnresponsive(error), onSuccess: Option.isSome })
  )
  const failWhenUnresponsive = Effect.repeat(Effect.andThen(Effect.sleep(interval), probe), {
    while: (isResponsive) => isResponsive
  }).pipe(
    Effect.andThen(Effect.fail(new SinkError({ location, reason: new Unavailable({ code: "no answer" }) })))
  )
  const probed = <A, E>(work: Effect.Effect<A, E>) => Effect.raceFirst(work, failWhenUnresponsive)
  const pooled = Effect.flatMap(
    Effect.acquireRelease(Scope.make(), (scope) => timeoutDetached(closeTimeout)(Scope.close(scope, Exit.void))),
    (scope) => toSinkError(Scope.provide(PgPool.make(configOf(settings)), scope))
  )
  return Effect.map(pooled, (pool) => clientOver(pool, location, { toSinkError, withRetries, probed }))
}

/** How the statements of a client fail and are repeated. */
interface Attempts {
  readonly toSinkError: <A, R>(
    self: Effect.Effect<A, SqlError.SqlError | SinkError, R>
  ) => Effect.Effect<A, SinkError, R>
  /** Runs again if the connection was lost. */
  readonly withRetries: Attempts["toSinkError"]
  /** Fails if the server stops responding. */
  readonly probed: <A, E>(work: Effect.Effect<A, E>) => Effect.Effect<A, E | SinkError>
}

const clientOver = (
  pool: PgPool.PgPool,
  location: string,
  { probed, toSinkError, withRetries }: Attempts
): PostgresClient => {
  const once = (sql: string, parameters: ReadonlyArray<Parameter> = []) =>
    probed(pool.use((connection) => Effect.map(connection.query(sql, parameters), ({ rows }) => rows)))
  const transact = <A>(
    body: (query: Query) => Effect.Effect<A, SinkError>,
    access: "" | " READ WRITE" = ""
  ): Effect.Effect<A, SqlError.SqlError | SinkError> =>
    Effect.scoped(Effect.flatMap(pool.reserve, (connection) => {
      // The body sees a SinkError. The retry outside needs the driver's error to know that the connection was lost.
      let lost: SqlError.SqlError | undefined
      const query: Query = (sql, parameters = []) =>
        connection.query(sql, parameters).pipe(
          Effect.tapError((error) => Effect.sync(() => void (lost = isLost(error) ? error : undefined))),
          Effect.map(({ rows }) => rows),
          toSinkError
        )
      return connection.query(`BEGIN ISOLATION LEVEL READ COMMITTED${access}`).pipe(
        Effect.andThen(body(query)),
        Effect.mapError((error) => lost ?? error),
        Effect.tap(() => connection.query("COMMIT")),
        // Closing the connection rolls the transaction back.
        Effect.onError(() => pool.invalidate(connection))
      )
    }))
  /** Starts a read-only transaction. Closing its connection rolls it back. */
  const reading = (level: "READ COMMITTED" | "REPEATABLE READ") =>
    withRetries(Effect.gen(function*() {
      const connection = yield* pool.reserve
      yield* Effect.addFinalizer(() => pool.invalidate(connection))
      yield* probed(connection.query(`BEGIN ISOLATION LEVEL ${level} READ ONLY`))
      return connection
    }))
  const typedIn = (level: "READ COMMITTED" | "REPEATABLE READ"): PostgresClient["readOnly"] => (typed) =>
    Effect.map(
      reading(level),
      (connection) => (sql, parameters = []) =>
        Effect.mapError(
          probed(connection.query(sql, parameters)),
          (error) =>
            error._tag === "SinkError"
              ? error
              : queryErrorOf(error, typed) ?? new SinkError({ location, reason: reasonOf(error) })
        )
    )
  return {
    location,
    once: (sql, parameters) => toSinkError(once(sql, parameters)),
    onceWriting: (sql, parameters) => toSinkError(probed(transact((query) => query(sql, parameters), " READ WRITE"))),
    query: (sql, parameters) => withRetries(once(sql, parameters)),
    transaction: (body) => withRetries(probed(transact(body))),
    snapshot: Effect.map(
      reading("REPEATABLE READ"),
      (connection): Query => (sql, parameters = []) =>
        toSinkError(Effect.map(probed(connection.query(sql, parameters)), ({ rows }) => rows))
    ),
    readOnly: typedIn("READ COMMITTED"),
    readOnlySnapshot: typedIn("REPEATABLE READ")
  }
}

/** One connection. */
export interface Session {
  /** The number of the server's process, as the server said it at the start. A pooler says another one. */
  readonly announcedPid: number
  /** Runs a statement without retries. */
  readonly query: Query
}

/** Opens one connection, which is never replaced by another one, until the scope closes. */
export const openSession = (settings: PostgresSettings): Effect.Effect<Session, SinkError, Scope.Scope> => {
  const toSinkError = Effect.mapError((error: SqlError.SqlError) =>
    new SinkError({ location: settings.location, reason: reasonOf(error, settings.login) })
  )
  return Effect.map(toSinkError(PgConnection.make(configOf(settings))), (connection): Session => ({
    announcedPid: connection.processId,
    query: (sql, parameters = []) => toSinkError(Effect.map(connection.query(sql, parameters), ({ rows }) => rows))
  }))
}

/**
 * Effect's client, for modules of Effect that use a database themselves. Its errors are not those of this program: see
 * {@link reasonOf}. Times without a time zone are UTC.
 */
export const layerSqlClient = (settings: PostgresSettings): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> =>
  PgClient.layer({ ...configOf(settings), maxConnections: 3, startupParameters: { TimeZone: "UTC" } })

const configOf = (settings: PostgresSettings): PgPool.Config => {
  const { authority, database, host, password, port, sslMode, user } = settings
  return {
    // The driver reads the TLS mode only from a URL. Some modes continue without TLS if the server has none.
    url: Redacted.make(`postgres:///?sslmode=${sslMode}`),
    ...(authority === undefined || sslMode === "disable" ? {} : { ssl: { ca: authority } }),
    host,
    port,
    username: user,
    password,
    database,
    applicationName: "payments",
    connectTimeout: "5 seconds",
    keepAlive: "10 seconds",
    // Enough for all lists at once, each with its lease.
    maxConnections: 6,
    // The server would keep a plan for an empty table while the table grows. Poolers lose prepared statements.
    prepare: false,
    // A record has 32 MiB at most, and three columns of a row may contain it.
    maxMessageSize: 128 * 1024 * 1024
  }
}

/** The code of the server or the system: a SQLSTATE, or a code such as `ECONNREFUSED`. */
const codeOf = ({ reason }: SqlError.SqlError): string | undefined => errorCode(reason.cause)

/**
 * Whether the connection is lost for a reason that may be temporary. The codes are class 08, and those of a server that
 * is unreachable, stops, starts or has no connection left.
 */
const isLost = (error: SqlError.SqlError): boolean => {
  const code = codeOf(error)
  return (error.reason._tag === "ConnectionError" && !isTls(code) && !lacksTls(error)) ||
    ["25P03", "53300", "57P01", "57P02", "57P03", "57P05"].includes(code ?? "")
}

const lacksTls = ({ reason }: SqlError.SqlError): boolean => reason.message?.includes("refused TLS") === true

/** OpenSSL's and Node's codes for invalid certificates. https://nodejs.org/api/tls.html#x509-certificate-error-codes */
const isTls = (code: string | undefined): boolean => code !== undefined && /CERT|SIGNATURE|ALTNAME|ERR_SSL/.test(code)

/**
 * The classes of errors that a user's statement causes. In order: unsupported, more than one row, a value, transaction,
 * cursor, function, schema, `WITH CHECK OPTION`, syntax or access, limit of the server, PL/pgSQL.
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const statementClasses = /^(0A|21|22|25|26|2F|34|38|39|3F|42|44|54|P0)/

/**
 * Returns the server's message about a user's statement: its first line, without values. Errors about a value
 * that the statement has read (Class 22), and errors of functions (38, 39, P0), get another message. The server's
 * message about them is all values. The lack of a privilege is an error of the statement too: the destination's own
 * tables were read before.
 */
const queryErrorOf = (error: SqlError.SqlError, typed: string): QueryError | undefined => {
  const code = codeOf(error) ?? ""
  if (!statementClasses.test(code) || isLost(error)) return undefined
  if (/^(22|38|39|P0)/.test(code)) {
    const problem = valueProblems[code] ??
      (code.startsWith("22") ? "a value is invalid for an operation of the query" : "a function of the query failed")
    return new QueryError({ problem: `The query cannot be carried out: ${problem} (${code}).` })
  }
  // The server reports several statements as a syntax error.
  const { cause } = error.reason
  const message = cause instanceof Error ? cause.message : ""
  const shown = shownMessage(message, typed)
  return new QueryError({
    problem: message.includes("multiple commands")
      ? multipleStatements
      : `The query cannot be carried out: ${shown.includes("…") ? `${shown} (${code})` : shown}.${
        code === "42501" ? " Read only what this user may read, or let its owner GRANT the privilege." : ""
      }`
  })
}

const valueProblems: { readonly [code: string]: string } = {
  "22003": "a number is too large for its type",
  "22012": "it divides by zero",
  "22P02": "a text is not a value of the type that the query expects"
}

/** Returns the reason of a driver's error. https://www.postgresql.org/docs/current/errcodes-appendix.html */
export const reasonOf = (error: SqlError.SqlError, login?: Login): SinkReason => {
  const code = codeOf(error)
  if (code === "53100" || code === "53200") return new DiskFull()
  if (isTls(code)) return new DestinationFailed({ code: "TLS" })
  if (isLost(error)) return new Unavailable({ code: code ?? (isUnresponsive(error) ? "no answer" : "connection lost") })
  if (code?.startsWith("28") === true) return new DestinationFailed({ code, login })
  if (code !== undefined) return new DestinationFailed({ code })
  if (lacksTls(error)) return new DestinationFailed({ code: "no TLS" })
  return error.reason._tag === "AuthenticationError"
    ? new DestinationFailed({ code: "no password", login })
    : new DestinationFailed({ code: error.reason._tag })
}

/** Whether the server took longer than `connectTimeout` to respond. */
const isUnresponsive = ({ reason }: SqlError.SqlError): boolean => reason.message?.includes("timed out") === true
