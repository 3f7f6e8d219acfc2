/**
 * `postgres://HOST:PORT/DATABASE?schema=NAME`, as it is written. What it leaves out comes from PostgreSQL's own variables
 * (`PostgresSettings.ts`). No message repeats any of it: a password may stand where nobody looks for one.
 */
import { Redacted, Result } from "effect"

/** How far TLS goes. https://www.postgresql.org/docs/current/libpq-ssl.html; all that ask for it check the certificate. */
export const sslModes = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] as const
/** One of {@link sslModes}. */
export type SslMode = typeof sslModes[number]

/** A database, and the schema in it that is the destination. */
export interface PostgresUrl {
  readonly host: string | undefined
  readonly port: number | undefined
  readonly user: string | undefined
  readonly password: Redacted.Redacted | undefined
  readonly database: string | undefined
  readonly schema: string
  readonly sslMode: SslMode | undefined
  readonly sslRootCert: string | undefined
}

const options = new Set(["schema", "sslmode", "sslrootcert", "host", "user", "password"])

/** Reads the URL, or says what is wrong with it. */
export const parse = (text: string): Result.Result<PostgresUrl, string> => {
  const url = URL.parse(text)
  // Half of a password that holds one of these characters would be taken for a host, a database or an option.
  if (!/^postgres(ql)?:\/\//.test(text) || url === null || url.hash !== "" || /[/@]/.test(url.pathname.slice(1))) {
    return Result.fail("postgres: is no URL. Special characters in its parts are written as %40 and so on.")
  }
  const given = url.searchParams
  if ([...given.keys()].some((name) => !options.has(name))) {
    return Result.fail("postgres: has other options: schema, sslmode, sslrootcert, host and user.")
  }
  const parts = [url.hostname, url.username, url.password, url.pathname.slice(1)].map(decoded)
  if (parts.includes(undefined)) return Result.fail("postgres: holds a % that is no percent-encoding.")
  const [host = "", user = "", password = "", database = ""] = parts
  const schema = given.get("schema") ?? "payments"
  if (schema === "" || Buffer.byteLength(schema) > 63 || schema.includes("\0") || /^pg_/i.test(schema)) {
    return Result.fail("postgres: a schema has a name of 1 to 63 bytes that does not begin with pg_.")
  }
  const sslMode = sslModes.find((mode) => mode === given.get("sslmode"))
  if (given.has("sslmode") && sslMode === undefined) {
    return Result.fail(`postgres: has no such sslmode; it has ${sslModes.join(", ")}.`)
  }
  const secret = given.get("password") ?? password
  return Result.succeed({
    host: given.get("host") ?? orNothing(host.replace(/^\[(.*)\]$/, "$1")),
    port: url.port === "" ? undefined : Number(url.port),
    user: given.get("user") ?? orNothing(user),
    password: secret === "" ? undefined : Redacted.make(secret),
    database: orNothing(database),
    schema,
    sslMode,
    sslRootCert: given.get("sslrootcert") ?? undefined
  })
}

const orNothing = (text: string): string | undefined => text === "" ? undefined : text

const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined // the caller says so
  }
}
