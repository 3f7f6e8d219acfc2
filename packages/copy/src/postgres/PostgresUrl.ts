/**
 * Parses `postgres://HOST:PORT/DATABASE?schema=NAME`. `PostgresSettings.ts` adds what the URL leaves out. No message
 * repeats a part of the URL, because an invalid URL may contain a password in any place.
 */
import { Redacted, Result } from "effect"

/**
 * The TLS modes of PostgreSQL (https://www.postgresql.org/docs/current/libpq-ssl.html). Unlike in libpq, every mode
 * that requests TLS checks the certificate.
 */
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

/** Parses the URL, or fails with what is wrong with it. */
export const parse = (text: string): Result.Result<PostgresUrl, string> => {
  const url = URL.parse(text)
  // If a password has one of these characters unescaped, its rest would be parsed as a host, database or option.
  if (!/^postgres(ql)?:\/\//.test(text) || url === null || url.hash !== "" || /[/@]/.test(url.pathname.slice(1))) {
    return Result.fail("postgres: is not a URL. Percent-encode special characters in its parts, such as @ as %40.")
  }
  const given = url.searchParams
  if ([...given.keys()].some((name) => !options.has(name))) {
    return Result.fail("postgres: has an unknown option. The options are schema, sslmode, sslrootcert, host and user.")
  }
  const parts = [url.hostname, url.username, url.password, url.pathname.slice(1)].map(decoded)
  if (parts.includes(undefined)) {
    return Result.fail("postgres: has a % that starts no percent-encoding. Write it as %25.")
  }
  const [host = "", user = "", password = "", database = ""] = parts
  const schema = given.get("schema") ?? "payments"
  if (schema === "" || Buffer.byteLength(schema) > 63 || schema.includes("\0") || /^pg_/i.test(schema)) {
    return Result.fail("postgres: the name of a schema has 1 to 63 bytes and does not start with pg_.")
  }
  const sslMode = sslModes.find((mode) => mode === given.get("sslmode"))
  if (given.has("sslmode") && sslMode === undefined) {
    return Result.fail(`postgres: has no such sslmode; it has ${sslModes.join(", ")}.`)
  }
  const secret = given.get("password") ?? password
  return Result.succeed({
    host: given.get("host") ?? emptyToUndefined(host.replace(/^\[(.*)\]$/, "$1")),
    port: url.port === "" ? undefined : Number(url.port),
    user: given.get("user") ?? emptyToUndefined(user),
    password: secret === "" ? undefined : Redacted.make(secret),
    database: emptyToUndefined(database),
    schema,
    sslMode,
    sslRootCert: given.get("sslrootcert") ?? undefined
  })
}

/** Returns the URL as text, without the password. */
export const shown = ({ database = "", host = "", port, schema, user }: PostgresUrl): string => {
  const isSocket = host.startsWith("/")
  const place = isSocket ? "" : host.includes(":") ? `[${host}]` : encodeURIComponent(host)
  const login = user === undefined ? "" : `${encodeURIComponent(user)}@`
  const query = new URLSearchParams({ ...(isSocket ? { host } : {}), schema })
  return `postgres://${login}${place}${port === undefined ? "" : `:${port}`}/${encodeURIComponent(database)}?${query}`
}

const emptyToUndefined = (text: string): string | undefined => text === "" ? undefined : text

const decoded = (text: string): string | undefined => Result.getOrUndefined(Result.try(() => decodeURIComponent(text))) // the caller reports it
