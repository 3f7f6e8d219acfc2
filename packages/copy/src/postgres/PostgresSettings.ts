/**
 * The settings of a connection to PostgreSQL: from the URL, then from the variables that every PostgreSQL program reads
 * (https://www.postgresql.org/docs/current/libpq-envars.html), then from the usual defaults.
 */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { bitsOfOthers, readPlainFile } from "@payments/core"
import { Config, Effect, type FileSystem, Redacted } from "effect"
import { homedir, userInfo } from "node:os"
import { join } from "node:path"
import { type Login, SinkError, WrongSetting } from "../port/Sink.ts"
import { type PostgresUrl, type SslMode, sslModes } from "./PostgresUrl.ts"

/** The settings of a connection. */
export interface PostgresSettings {
  /** The destination's location, for messages. */
  readonly location: string
  /** A name, or the folder of a Unix socket. */
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: Redacted.Redacted | undefined
  readonly login: Login
  readonly database: string
  readonly schema: string
  readonly sslMode: SslMode
  /** A certificate authority's certificate, as PEM. */
  readonly authority: string | undefined
}

/** Completes the settings of a URL from the environment, files and defaults. */
export const settingsOf = Effect.fnUntraced(function*(
  url: PostgresUrl
): Effect.fn.Return<PostgresSettings, SinkError, FileSystem.FileSystem> {
  const variable = (name: string) => Effect.orDie(Config.String(name).pipe(Config.withDefault(undefined)))
  const host = url.host ?? (yield* variable("PGHOST")) ?? "localhost"
  const port = url.port ?? Number((yield* variable("PGPORT")) ?? 5432)
  const pgUser = yield* variable("PGUSER")
  const user = url.user ?? pgUser ?? userInfo().username
  const database = url.database ?? (yield* variable("PGDATABASE")) ?? user
  const place = host.startsWith("/") ? "" : `${host.includes(":") ? `[${host}]` : host}:${port}`
  const location = `postgres://${place}/${encodeURIComponent(database)}?schema=${encodeURIComponent(url.schema)}`
  const refuse = (problem: string) => new SinkError({ location, reason: new WrongSetting({ problem }) })
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    return yield* refuse("PGPORT is not a port. Correct it.")
  }
  const mode = url.sslMode ?? (yield* variable("PGSSLMODE")) ?? (isLocal(host) ? "disable" : "verify-full")
  const sslMode = sslModes.find((known) => known === mode)
  if (sslMode === undefined) {
    return yield* refuse(`PGSSLMODE is not one of ${sslModes.join(", ")}. Correct it.`)
  }
  const password = yield* variable("PGPASSWORD")
  const file = yield* variable("PGPASSFILE")
  const rootCert = url.sslRootCert ?? (yield* variable("PGSSLROOTCERT"))
  return {
    location,
    host,
    port,
    user,
    login: {
      user,
      userFrom: url.user !== undefined ? "the URL" : pgUser !== undefined ? "PGUSER" : "this system",
      passwordFrom: url.password !== undefined
        ? "the URL"
        : password !== undefined
        ? "PGPASSWORD"
        : "the password file"
    },
    database,
    schema: url.schema,
    sslMode,
    password: url.password ??
      (password === undefined
        ? yield* passwordIn(file ?? join(homedir(), ".pgpass"), [host, String(port), database, user]).pipe(
          Effect.mapError((problem) => refuse(`${file === undefined ? "the password file" : "PGPASSFILE"}: ${problem}`))
        )
        : Redacted.make(password)),
    authority: rootCert === undefined
      ? undefined
      : yield* readPlainFile(rootCert, { maxBytes: maxAuthorityBytes }).pipe(
        Effect.map(({ text }) => text),
        Effect.mapError(({ problem }) =>
          refuse(`${url.sslRootCert === undefined ? "PGSSLROOTCERT" : "sslrootcert"}: ${rootCert} ${problem}.`)
        )
      )
  }
}, Effect.provide(NodeFileSystem.layer))

/** The certificate authorities of a whole system have about 200 KiB. */
const maxAuthorityBytes = 4 * 1024 * 1024

const maxPasswordFileBytes = 1024 * 1024

/** Whether the connection stays on this machine. Such a connection needs no TLS. */
const isLocal = (host: string): boolean =>
  host.startsWith("/") || host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host)

/**
 * Returns the password of the first line that matches, or undefined if no line matches or the file does not exist.
 * https://www.postgresql.org/docs/current/libpq-pgpass.html
 */
const passwordIn = Effect.fnUntraced(function*(file: string, wanted: ReadonlyArray<string>) {
  // People set PGPASSFILE to /dev/null to disable the password file.
  if (file === "/dev/null") return undefined
  const found = yield* readPlainFile(file, { maxBytes: maxPasswordFileBytes }).pipe(
    Effect.catchIf(({ kind }) => kind === "notFound", () => Effect.undefined),
    Effect.mapError(({ problem }) => `${file} ${problem}.`)
  )
  if (found === undefined) return undefined
  if (bitsOfOthers(found) !== 0) {
    return yield* Effect.fail(`other users may read ${file}. Restrict it to its owner (chmod 600).`)
  }
  for (const line of found.text.split(/\r?\n/)) {
    if (line.startsWith("#")) continue
    // A colon or a backslash inside a field is escaped.
    const fields = [...line.matchAll(/((?:\\.|[^\\:])*)(?::|$)/g)].map(([, field = ""]) =>
      field.replace(/\\(.)/g, "$1")
    )
    const matches = wanted.every((value, index) => fields[index] === "*" || fields[index] === value)
    if (matches && fields[4] !== undefined) return Redacted.make(fields[4])
  }
  return undefined
})
