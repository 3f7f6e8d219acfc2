/** Destinations in a test's PostgreSQL server, and access to their tables. */
import { PgConnection } from "@effect/sql-pg"
import type { Lists } from "@payments/core"
import { Duration, Effect, Result } from "effect"
import { basename } from "node:path"
import { tableOf } from "../../../copy/src/plan/Columns.ts"
import type { Times } from "../../../copy/src/postgres/PostgresLease.ts"
import { parse, type PostgresUrl } from "../../../copy/src/postgres/PostgresUrl.ts"
import { type PostgresServer, user } from "./PostgresServer.ts"
import type { StoredRow } from "./StoredRow.ts"

/** Returns the name of the schema that corresponds to a temporary folder. */
export const schemaOf = (folder: string): string => basename(folder)

/** Returns the URL of a destination, at the port of the server or of a proxy. */
export const urlOf = ({ port }: Pick<PostgresServer, "port">, schema: string): PostgresUrl =>
  Result.getOrThrow(parse(`postgres://${user}@127.0.0.1:${port}/postgres?schema=${schema}`))

/** About a tenth of the defaults. */
export const briefTimes: Times = {
  validity: Duration.seconds(3),
  renewalInterval: Duration.seconds(1),
  idleTimeout: Duration.seconds(1),
  interruptTimeout: Duration.seconds(1),
  lockTimeout: Duration.millis(500)
}

/** Makes 300 records, each marked with the name of the reader. */
export const recordsOf = (reader: string): ReadonlyArray<string> =>
  Array.from({ length: 300 }, (_, index) => `{"id":"por_${index}","reference":"${reader}"}`)

/** Opens a connection until the scope closes. On a busy machine, this may take longer than the driver's default of 5 s. */
export const connectionTo = ({ port }: Pick<PostgresServer, "port">, database = "postgres") =>
  PgConnection.make({ host: "127.0.0.1", port, username: user, database, connectTimeout: "2 minutes" })

export const query = (
  server: Pick<PostgresServer, "port">,
  sql: string,
  parameters: ReadonlyArray<unknown> = [],
  database = "postgres"
) =>
  Effect.runPromise(
    connectionTo(server, database).pipe(
      Effect.flatMap((connection) => connection.query(sql, parameters)),
      Effect.map(({ rows }) => rows),
      Effect.scoped
    )
  )

export const rowsOf = async (
  server: Pick<PostgresServer, "port">,
  schema: string,
  list: Lists.AnyList
): Promise<ReadonlyArray<StoredRow>> =>
  (await query(server, `SELECT id, raw::text FROM "${schema}".${tableOf(list)}`)).map(({ id, raw }) => ({
    id: String(id),
    raw: String(raw)
  }))

/** Returns the rows of all tables except the leases. */
export const contentOf = async (server: Pick<PostgresServer, "port">, schema: string): Promise<unknown> => {
  const tables = await query(
    server,
    "SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename <> 'leases' ORDER BY 1",
    [schema]
  )
  return Promise.all(tables.map(async ({ tablename }) => [
    tablename,
    await query(server, `SELECT ctid::text, t::text FROM "${schema}".${String(tablename)} AS t ORDER BY 1`)
  ]))
}
