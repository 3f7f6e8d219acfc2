import { Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import * as PostgresSink from "../src/postgres/PostgresSink.ts"
import * as SqliteSink from "../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../src/sqlite/SqliteStore.ts"
import { type PostgresServer, startServer } from "./PostgresServer.ts"
import { contentOf, urlOf } from "./PostgresTest.ts"
import { suite } from "./RedactionTest.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

suite("sqlite:FILE", {
  layer: (folder) => SqliteSink.layer(join(folder, "payments.db")),
  open: (folder) => openMaintenance(join(folder, "payments.db"), "here"),
  // The bytes of the database, its log and its index.
  content: (folder) =>
    Effect.sync(() => readdirSync(folder).map((file) => readFileSync(join(folder, file), "latin1")).join("\n"))
})

suite("postgres://HOST", {
  layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
  open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder))),
  content: (folder) => Effect.promise(async () => JSON.stringify(await contentOf(server, basename(folder))))
})
