/**
 * Where a PostgreSQL destination is and who asks: its URL, then the variables that every PostgreSQL program reads
 * (https://www.postgresql.org/docs/current/libpq-envars.html), then what is usual.
 */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { readPlainFile } from "@payments/core"
import { Config, Effect, type FileSystem, Redacted } from "effect"
import { homedir, userInfo } from "node:os"
import { join } from "node:path"
import { SinkError, WrongSetting } from "../Sink.ts"
import { type PostgresUrl, type SslMode, sslModes } from "./PostgresUrl.ts"

/** All that a connection needs to know. */
export interface PostgresSettings {
  /** Where the rows are, for people. */
  readonly location: string
  /** A name, or the folder of a Unix socket. */
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: Redacted.Redacted | undefined
  readonly database: string
  readonly schema: string
  readonly sslMode: SslMode
  /** A certificate authority's certificate, as PEM. */
  readonly authority: string | undefined
}

/** Completes what a URL says. */
export const settingsOf = Effect.fnUntraced(function*(
  url: PostgresUrl
): Effect.fn.Return<PostgresSettings, SinkError, FileSystem.FileSystem> {
  const variable = (name: string) => Effect.orDie(Config.String(name).pipe(Config.withDefault(undefined)))
  const host = url.host ?? (yield* variable("PGHOST")) ?? "localhost"
  const port = url.port ?? Number((yield* variable("PGPORT")) ?? 5432)
  const user = url.user ?? (yield* variable("PGUSER")) ?? userInfo().username
  const database = url.database ?? (yield* variable("PGDATABASE")) ?? user
  const place = host.startsWith("/") ? "" : `${host.includes(":") ? `[${host}]` : host}:${port}`
  const location = `postgres://${place}/${encodeURIComponent(database)}?schema=${encodeURIComponent(url.schema)}`
  const refuse = (problem: string) => new SinkError({ location, reason: new WrongSetting({ problem }) })
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    return yield* refuse("PGPORT is no port. Correct it.")
  }
  const mode = url.sslMode ?? (yield* variable("PGSSLMODE")) ?? (isHere(host) ? "disable" : "verify-full")
  const sslMode = sslModes.find((known) => known === mode)
  if (sslMode === undefined) {
    return yield* refuse(`PGSSLMODE is none of ${sslModes.join(", ")}. Correct it.`)
  }
  const password = yield* variable("PGPASSWORD")
  const file = yield* variable("PGPASSFILE")
  const rootCert = url.sslRootCert ?? (yield* variable("PGSSLROOTCERT"))
  return {
    location,
    host,
    port,
    user,
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
      : yield* readPlainFile(rootCert, { maxBytes: largestAuthorities }).pipe(
        Effect.map(({ text }) => text),
        Effect.mapError(({ problem }) =>
          refuse(`${url.sslRootCert === undefined ? "PGSSLROOTCERT" : "sslrootcert"}: ${rootCert} ${problem}.`)
        )
      )
  }
}, Effect.provide(NodeFileSystem.layer))

/** Those of a whole system take some 200 KiB. */
const largestAuthorities = 4 * 1024 * 1024

const largestPasswordFile = 1024 * 1024

/** What never leaves this machine needs no TLS. */
const isHere = (host: string): boolean =>
  host.startsWith("/") || host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host)

/** The password of the first line that fits, none where there is no such file. https://www.postgresql.org/docs/current/libpq-pgpass.html */
const passwordIn = Effect.fnUntraced(function*(file: string, wanted: ReadonlyArray<string>) {
  // The usual way to name no password file.
  if (file === "/dev/null") return undefined
  const found = yield* readPlainFile(file, { maxBytes: largestPasswordFile }).pipe(
    Effect.catchIf(({ kind }) => kind === "notFound", () => Effect.undefined),
    Effect.mapError(({ problem }) => `${file} ${problem}.`)
  )
  if (found === undefined) return undefined
  if ((found.mode & 0o077) !== 0) {
    return yield* Effect.fail(`others may read ${file}. Make it its owner's alone (chmod 600).`)
  }
  for (const line of found.text.split(/\r?\n/)) {
    if (line.startsWith("#")) continue
    // A colon or a backslash inside a field is escaped.
    const fields = [...line.matchAll(/((?:\\.|[^\\:])*)(?::|$)/g)].map(([, field = ""]) =>
      field.replace(/\\(.)/g, "$1")
    )
    const fits = wanted.every((value, index) => fields[index] === "*" || fields[index] === value)
    if (fits && fields[4] !== undefined) return Redacted.make(fields[4])
  }
  return undefined
})
