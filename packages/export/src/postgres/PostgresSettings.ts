/**
 * Where a PostgreSQL destination is and who asks: its URL, then the variables that every PostgreSQL program reads
 * (https://www.postgresql.org/docs/current/libpq-envars.html), then what is usual.
 */
import { Config, Effect, Redacted } from "effect"
import { readFile, stat } from "node:fs/promises"
import { homedir, userInfo } from "node:os"
import { join } from "node:path"
import { Failed, NotADestination, SinkError, type SinkReason } from "../Sink.ts"
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
): Effect.fn.Return<PostgresSettings, SinkError> {
  const variable = (name: string) => Effect.orDie(Config.String(name).pipe(Config.withDefault(undefined)))
  const host = url.host ?? (yield* variable("PGHOST")) ?? "localhost"
  const port = url.port ?? Number((yield* variable("PGPORT")) ?? 5432)
  const user = url.user ?? (yield* variable("PGUSER")) ?? userInfo().username
  const database = url.database ?? (yield* variable("PGDATABASE")) ?? user
  const place = host.startsWith("/") ? "" : `${host.includes(":") ? `[${host}]` : host}:${port}`
  const location = `postgres://${place}/${encodeURIComponent(database)}?schema=${encodeURIComponent(url.schema)}`
  const refuse = (reason: SinkReason) => new SinkError({ location, reason })
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    return yield* refuse(new NotADestination({ problem: "PGPORT is no port. Correct it." }))
  }
  const mode = url.sslMode ?? (yield* variable("PGSSLMODE")) ?? (isHere(host) ? "disable" : "verify-full")
  const sslMode = sslModes.find((known) => known === mode)
  if (sslMode === undefined) {
    return yield* refuse(new NotADestination({ problem: `PGSSLMODE is none of ${sslModes.join(", ")}. Correct it.` }))
  }
  const password = yield* variable("PGPASSWORD")
  const file = yield* variable("PGPASSFILE")
  const authority = url.sslRootCert ?? (yield* variable("PGSSLROOTCERT"))
  return yield* Effect.tryPromise({
    try: async () => ({
      location,
      host,
      port,
      user,
      database,
      schema: url.schema,
      sslMode,
      password: url.password ??
        (password === undefined
          ? await passwordIn(file ?? join(homedir(), ".pgpass"), [host, String(port), database, user])
          : Redacted.make(password)),
      authority: authority === undefined ? undefined : await readFile(authority, "utf8")
    }),
    catch: (error) => refuse(error instanceof Failed ? error : new Failed({ code: "sslrootcert" }))
  })
})

/** What never leaves this machine needs no TLS. */
const isHere = (host: string): boolean =>
  host.startsWith("/") || host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host)

/** The password of the first line that fits, none where there is no such file. https://www.postgresql.org/docs/current/libpq-pgpass.html */
const passwordIn = async (file: string, wanted: ReadonlyArray<string>): Promise<Redacted.Redacted | undefined> => {
  const mode = await stat(file).then((found) => found.isFile() ? found.mode : undefined, () => undefined)
  if (mode === undefined) return undefined
  if ((mode & 0o077) !== 0) throw new Failed({ code: "PGPASSFILE" })
  for (const line of (await readFile(file, "utf8")).split(/\r?\n/)) {
    if (line.startsWith("#")) continue
    // A colon or a backslash inside a field is escaped.
    const fields = [...line.matchAll(/((?:\\.|[^\\:])*)(?::|$)/g)].map(([, field = ""]) =>
      field.replace(/\\(.)/g, "$1")
    )
    const fits = wanted.every((value, index) => fields[index] === "*" || fields[index] === value)
    if (fits && fields[4] !== undefined) return Redacted.make(fields[4])
  }
  return undefined
}
