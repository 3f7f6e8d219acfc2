/** Looking for rows before they are marked missing, in PostgreSQL. */
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { query, schemaOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Effect } from "effect"
import { afterAll, beforeAll } from "vitest"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { suite } from "./LookUpTest.ts"

let server: PostgresServer
beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.stop())

suite("PostgreSQL", {
  layer: (folder) => PostgresSink.layer(urlOf(server, schemaOf(folder))),
  reader: (folder) => PostgresSink.reader(urlOf(server, schemaOf(folder))),
  rechecked: (folder) =>
    Effect.map(
      Effect.promise(() => query(server, `SELECT id, rechecked FROM "${schemaOf(folder)}".invoices_seen`)),
      (rows) => new Map(rows.map(({ id, rechecked }) => [String(id), rechecked === null ? null : String(rechecked)]))
    )
})
