import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { afterAll, beforeAll } from "vitest"
import { tableOf } from "../src/Columns.ts"
import * as PostgresSink from "../src/PostgresSink.ts"
import { type PostgresServer, startServer } from "./PostgresServer.ts"
import { rowsOf, schemaOf, urlOf } from "./PostgresTest.ts"
import { suite } from "./SinkTest.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

suite("postgres://HOST/DATABASE", {
  layer: (folder) => PostgresSink.layer(urlOf(server, schemaOf(folder))),
  read: (folder, list) => rowsOf(server, schemaOf(folder), list),
  snapshots: false
})
