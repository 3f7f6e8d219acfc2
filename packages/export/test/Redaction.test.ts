import { Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import * as PostgresSink from "../src/postgres/PostgresSink.ts"
import * as SqliteSink from "../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../src/sqlite/SqliteStore.ts"
import { type PostgresServer, startServer } from "./PostgresServer.ts"
import { contentOf, urlOf } from "./PostgresTest.ts"
import { histories } from "./RedactionHistories.ts"
import { type RedactedDestination, suite } from "./RedactionTest.ts"
import { isLongRun } from "./Seed.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const sqlite: RedactedDestination = {
  layer: (folder) => SqliteSink.layer(join(folder, "payments.db")),
  open: (folder) => openMaintenance(join(folder, "payments.db"), "here"),
  // The bytes of the database, its log and its index.
  content: (folder) =>
    Effect.sync(() => readdirSync(folder).map((file) => readFileSync(join(folder, file), "utf8")).join("\n"))
}

const postgres: RedactedDestination = {
  layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
  open: (folder) => PostgresSink.maintenance(urlOf(server, basename(folder))),
  content: (folder) => Effect.promise(async () => JSON.stringify(await contentOf(server, basename(folder))))
}

suite("sqlite:FILE", sqlite)
suite("postgres://HOST", postgres)
histories("sqlite:FILE", sqlite, isLongRun ? 300 : 8)
histories("postgres://HOST", postgres, isLongRun ? 60 : 2)
