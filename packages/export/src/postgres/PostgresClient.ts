/**
 * The only file that knows the PostgreSQL driver. Connections are pooled; a statement or a transaction whose connection is
 * lost is run again for a while, so that a server that restarts costs a pause. No error holds a statement, a value or what
 * the server said: only its code.
 */
import { PgConnection, PgPool, PgTypes } from "@effect/sql-pg"
import { Monotonic } from "@payments/core"
import { Duration, Effect, Exit, Option, Redacted, Schedule, Scope } from "effect"
import type { SqlError } from "effect/sql"
import { atMost } from "../engine/AtMost.ts"
import type { Row } from "../engine/Rows.ts"
import { maskMessage, multipleStatements, QueryError } from "../query/Statement.ts"
import { Failed, Full, SinkError, type SinkReason, Unavailable } from "../Sink.ts"
import type { PostgresSettings } from "./PostgresSettings.ts"

/** A value beside a statement: text is read as the type that the statement names. */
export type Parameter = string | null | PgTypes.Parameter

/** Runs one statement. */
export type Query = (
  sql: string,
  parameters?: ReadonlyArray<Parameter>
) => Effect.Effect<ReadonlyArray<Row>, SinkError>

/** What the server gives for a statement: its rows, and their columns in order. */
export interface Result {
  readonly rows: ReadonlyArray<Row>
  readonly fields: ReadonlyArray<{ readonly name: string; readonly dataTypeId: number }>
}

/** A database. */
export interface PostgresClient {
  readonly location: string
  /** Runs a statement that may run twice: where its connection is lost, it is run again. */
  readonly query: Query
  /** Runs a statement once. */
  readonly once: Query
  /**
   * Runs statements in one transaction (read committed). Where its connection is lost all of it is run again, even if only
   * the answer to COMMIT was lost: the statements have to find out.
   */
  readonly transaction: <A>(body: (query: Query) => Effect.Effect<A, SinkError>) => Effect.Effect<A, SinkError>
  /**
   * Runs statements that somebody else has written, in a transaction that can write nothing and that is rolled back when the
   * scope closes. A statement that is interrupted is cancelled.
   */
  readonly readOnly: Effect.Effect<
    (sql: string) => Effect.Effect<Result, SinkError | QueryError>,
    SinkError,
    Scope.Scope
  >
}

/** A column of values, for `unnest`. */
export const texts = (values: ReadonlyArray<string | null>): Parameter => array(values, PgTypes.OID.text)
/** {@inheritDoc texts} */
export const integers = (values: ReadonlyArray<number | null>): Parameter =>
  array(values.map((value) => value === null ? null : BigInt(value)), PgTypes.OID.int8)
/** {@inheritDoc texts} */
export const booleans = (values: ReadonlyArray<boolean | null>): Parameter => array(values, PgTypes.OID.bool)
/** {@inheritDoc texts} */
export const binaries = (values: ReadonlyArray<Uint8Array>): Parameter => array(values, PgTypes.OID.bytea)

const array = (values: ReadonlyArray<unknown>, type: number): Parameter => {
  // The driver answers with the parameter, or with an error where there is no array of this type.
  const made = PgTypes.array(values, type)
  if (made._tag === "Failure") throw made.failure
  return made.success
}

/** How long a lost connection is opened anew: a server may restart, and a program that is to end has 15 s. */
const patience = Schedule.min([Schedule.exponential("10 millis"), Schedule.spaced("500 millis")]).pipe(
  Schedule.jittered,
  Monotonic.upTo("10 seconds")
)

/** How long a statement that was interrupted keeps its connection from being closed, where the server does not answer. */
const closingTakes = Duration.seconds(1)

/** Distinguishes a server that no longer answers from one that is busy with a statement. */
export interface Probing {
  /** What takes longer is accompanied by probes: a new connection and an empty statement, each so long after the last. */
  readonly after: Duration.Duration
  /** How long a probe may take. */
  readonly within: Duration.Duration
}

/** The usual one. */
export const probing: Probing = { after: Duration.seconds(30), within: Duration.seconds(10) }

/** Opens connections as they are needed, until the scope closes. */
export const connect = (
  settings: PostgresSettings,
  { after, within }: Probing = probing
): Effect.Effect<PostgresClient, SinkError, Scope.Scope> => {
  const { location } = settings
  const told = Effect.mapError((error: SqlError.SqlError | SinkError): SinkError =>
    error._tag === "SinkError" ? error : new SinkError({ location, reason: reasonOf(error) })
  )
  const lasting = <A, R>(self: Effect.Effect<A, SqlError.SqlError | SinkError, R>) =>
    told(Effect.retry(self, { while: (error) => error._tag === "SqlError" && isLost(error), schedule: patience }))
  const probe = Effect.scoped(
    Effect.flatMap(PgConnection.make(configOf(settings)), (connection) => connection.query("SELECT 1"))
  ).pipe(
    atMost(within),
    // A server that refuses a connection answers; the statement that is waited for finds out by itself.
    Effect.match({ onFailure: (error) => !isSilent(error), onSuccess: Option.isSome })
  )
  const silence = Effect.repeat(Effect.andThen(Effect.sleep(after), probe), { while: (answered) => answered }).pipe(
    Effect.andThen(Effect.fail(new SinkError({ location, reason: new Unavailable({ code: "no answer" }) })))
  )
  const answered = <A, E>(work: Effect.Effect<A, E>) => Effect.raceFirst(work, silence)
  const pooled = Effect.flatMap(
    Effect.acquireRelease(Scope.make(), (scope) => atMost(closingTakes)(Scope.close(scope, Exit.void))),
    (scope) => told(Scope.provide(PgPool.make(configOf(settings)), scope))
  )
  return Effect.map(pooled, (pool): PostgresClient => {
    const once = (sql: string, parameters: ReadonlyArray<Parameter> = []) =>
      answered(pool.use((connection) => Effect.map(connection.query(sql, parameters), ({ rows }) => rows)))
    const transact = <A>(
      body: (query: Query) => Effect.Effect<A, SinkError>
    ): Effect.Effect<A, SqlError.SqlError | SinkError> =>
      Effect.scoped(Effect.flatMap(pool.reserve, (connection) => {
        // What a lost connection does to a statement inside has to be known out here.
        let lost: SqlError.SqlError | undefined
        const query: Query = (sql, parameters = []) =>
          connection.query(sql, parameters).pipe(
            Effect.tapError((error) => Effect.sync(() => void (lost = isLost(error) ? error : undefined))),
            Effect.map(({ rows }) => rows),
            told
          )
        return connection.query("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").pipe(
          Effect.andThen(body(query)),
          Effect.mapError((error) => lost ?? error),
          Effect.tap(() => connection.query("COMMIT")),
          // What has not ended is rolled back with its connection.
          Effect.onError(() => pool.invalidate(connection))
        )
      }))
    return {
      location,
      once: (sql, parameters) => told(once(sql, parameters)),
      query: (sql, parameters) => lasting(once(sql, parameters)),
      transaction: (body) => lasting(answered(transact(body))),
      readOnly: lasting(Effect.gen(function*() {
        const connection = yield* pool.reserve
        yield* Effect.addFinalizer(() => pool.invalidate(connection))
        yield* answered(connection.query("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"))
        return (sql) =>
          Effect.mapError(
            answered(connection.query(sql)),
            (error) =>
              error._tag === "SinkError"
                ? error
                : refusedBy(error) ?? new SinkError({ location, reason: reasonOf(error) })
          )
      }))
    }
  })
}

const configOf = (settings: PostgresSettings): PgPool.Config => {
  const { authority, database, host, password, port, sslMode, user } = settings
  return {
    // The driver takes this mode, which goes on without TLS where the server has none, from a URL alone.
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
    // The lists side by side, each with its lease.
    maxConnections: 6,
    // A plan made while a table was empty would be kept while it grows; and poolers between here and there lose them.
    prepare: false,
    // A record is 32 MiB at most, and may stand in three columns of a row.
    maxMessageSize: 128 * 1024 * 1024
  }
}

/** What the server, or the system, calls it: a SQLSTATE, or such as `ECONNREFUSED`. */
const codeOf = ({ reason }: SqlError.SqlError): string | undefined => {
  const { cause } = reason
  return typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : undefined
}

/**
 * Whether the connection is gone, for a reason that may pass: Class 08, a server that cannot be reached, ends, starts or has
 * no connection left.
 */
const isLost = (error: SqlError.SqlError): boolean => {
  const code = codeOf(error)
  return (error.reason._tag === "ConnectionError" && !isTls(code) && !lacksTls(error)) ||
    ["25P03", "53300", "57P01", "57P02", "57P03", "57P05"].includes(code ?? "")
}

const lacksTls = ({ reason }: SqlError.SqlError): boolean => reason.message?.includes("refused TLS") === true

/** OpenSSL's and Node's names for certificates that do not hold. https://nodejs.org/api/tls.html#x509-certificate-error-codes */
const isTls = (code: string | undefined): boolean => code !== undefined && /CERT|SIGNATURE|ALTNAME|ERR_SSL/.test(code)

/**
 * What the server says of a statement that is wrong: its first line, without values. What it says of a value that a statement
 * has come upon (Class 22) would repeat that value.
 */
const refusedBy = (error: SqlError.SqlError): QueryError | undefined => {
  const code = codeOf(error) ?? ""
  if (code.startsWith("22")) {
    const what = valueProblems[code] ?? "a value does not suit what the query does with it"
    return new QueryError({ problem: `The query cannot be carried out: ${what} (${code}).` })
  }
  if (!/^(0A|25|34|42)/.test(code) || code === "42501") return undefined
  // More than one statement is a syntax error to the server, too.
  const { cause } = error.reason
  const message = cause instanceof Error ? cause.message : ""
  return new QueryError({
    problem: message.includes("multiple commands")
      ? multipleStatements
      : `The query cannot be carried out: ${maskMessage(message)}.`
  })
}

const valueProblems: { readonly [code: string]: string } = {
  "22003": "a number is too large for its type",
  "22012": "it divides by zero",
  "22P02": "a text is no value of the type that the query asks for"
}

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const reasonOf = (error: SqlError.SqlError): SinkReason => {
  const code = codeOf(error)
  if (code === "53100" || code === "53200") return new Full()
  if (isTls(code)) return new Failed({ code: "TLS" })
  if (isLost(error)) return new Unavailable({ code: code ?? (isSilent(error) ? "no answer" : "connection lost") })
  if (code !== undefined) return new Failed({ code })
  if (lacksTls(error)) return new Failed({ code: "no TLS" })
  return new Failed({ code: error.reason._tag === "AuthenticationError" ? "no password" : error.reason._tag })
}

/** The server took longer than `connectTimeout` to answer. */
const isSilent = ({ reason }: SqlError.SqlError): boolean => reason.message?.includes("timed out") === true
