/** `postgres://HOST/DATABASE?schema=NAME`. What connects to the server is loaded when a destination is opened. */
import { Lists } from "@payments/core"
import { Config, Effect, Layer, Redacted, Result } from "effect"
import { resolve } from "node:path"
import { tableOf } from "../plan/Columns.ts"
import { parse, type PostgresUrl, shown } from "../postgres/PostgresUrl.ts"
import { postgresDialect } from "../statement/Dialect.ts"
import type { Driver } from "./Driver.ts"

export interface PostgresDestination {
  readonly _tag: "Postgres"
  readonly url: PostgresUrl
}

const sink = Effect.promise(() => import("../postgres/PostgresSink.ts"))
const access = Effect.promise(() => import("../postgres/PostgresAccess.ts"))
const snapshots = Effect.promise(() => import("../postgres/PostgresSnapshot.ts"))
const queries = Effect.promise(() => import("../postgres/PostgresQuery.ts"))

/** Why a text from this place may not contain a password. */
const passwordProblems = {
  argument:
    "Other users of this machine can read a password in an argument. Set PGPASSWORD, PGPASSFILE or PAYMENTS_TO instead.",
  file: "No password stands in this file. Set PGPASSFILE or PGPASSWORD instead.",
  environment: undefined
}

/** {@inheritDoc PostgresDriver.ts} */
export const postgres: Driver<PostgresDestination> = {
  kind: "Postgres",
  schemes: ["postgres", "postgresql"],
  form: ["postgres://HOST/DATABASE", "", ""],
  parse: ({ from, rest, text }) => {
    if (!rest.startsWith("//")) {
      return Result.fail("The two slashes after the colon are missing: write postgres://HOST/DATABASE.")
    }
    return Result.flatMap(parse(text), (url) => {
      const problem = passwordProblems[from]
      return problem !== undefined && url.password !== undefined
        ? Result.fail(problem)
        : Result.succeed({ _tag: "Postgres", url })
    })
  },
  encode: ({ url: { password, ...url }, ...destination }) => ({
    ...destination,
    url,
    password: password === undefined ? undefined : Redacted.value(password)
  }),
  decode: (message) => {
    const { password, url, ...destination } = message as Encoded // what `encode` returns
    return { ...destination, url: { ...url, password: password === undefined ? undefined : Redacted.make(password) } }
  },
  operations: (destination) => {
    const { runner, url } = destination
    return {
      shown: shown(url),
      location: `postgres://${url.host ?? ""}/${encodeURIComponent(url.database ?? "")}?schema=${
        encodeURIComponent(url.schema)
      }`,
      place: {
        isLocal: false,
        server: "PostgreSQL",
        accessProblem: Effect.flatMap(access, ({ accessProblem }) => accessProblem(url)),
        spelling: spellingOf(url),
        identity: Effect.flatMap(access, ({ identityOf }) => identityOf(url)),
        cleaning: cleaningOf(url)
      },
      dialect: postgresDialect,
      relativeTo: (folder) => ({
        ...destination,
        url: url.sslRootCert === undefined ? url : { ...url, sslRootCert: resolve(folder, url.sslRootCert) }
      }),
      layer: Layer.unwrap(Effect.map(sink, ({ layer }) => layer(url, undefined, undefined, runner))),
      reader: Effect.flatMap(sink, ({ reader }) => reader(url)),
      snapshot: Effect.flatMap(snapshots, ({ openSnapshot }) => openSnapshot(url)),
      maintenance: Effect.flatMap(sink, ({ maintenance }) => maintenance(url)),
      pendingMigration: Effect.flatMap(sink, ({ pendingMigration }) => pendingMigration(url)),
      query: (sql, parameters, asOf) =>
        Effect.flatMap(
          queries,
          ({ query, queryAsOf }) =>
            asOf === undefined ? query(url, sql, parameters) : queryAsOf(url, { sql, parameters, asOf })
        )
    }
  }
}

type Encoded = PostgresDestination & {
  readonly url: Omit<PostgresUrl, "password">
  readonly password: string | undefined
}

const spellingOf = Effect.fnUntraced(function*({ database, host, port, schema, user }: PostgresUrl) {
  const variable = (name: string) => Effect.orDie(Config.String(name).pipe(Config.withDefault(undefined)))
  return [
    "postgres",
    (host ?? (yield* variable("PGHOST")) ?? "localhost").toLowerCase(),
    port ?? (yield* variable("PGPORT")) ?? 5432,
    database ?? (yield* variable("PGDATABASE")) ?? user ?? (yield* variable("PGUSER")) ?? "",
    schema
  ].join(" ")
})

/** The tables that have personal data, other than those of the lists. */
const otherTables = ["changes", "quarantine", "scans"]

const cleaningOf = ({ schema }: PostgresUrl): string => {
  const quoted = /^[a-z_][a-z0-9_]*$/.test(schema) ? schema : `"${schema.replaceAll("\"", "\"\"")}"`
  const tables = [...Lists.all.map(tableOf), ...otherTables]
  // The planner's statistics contain values of columns. After ANALYZE replaces them, their old versions can be removed.
  return `VACUUM (FULL, ANALYZE) ${
    [...tables.map((table) => `${quoted}.${table}`), "pg_catalog.pg_statistic"].join(", ")
  };`
}
