import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { makeAuthority } from "@payments/testkit/postgres/Certificates"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { query, rowsOf } from "@payments/testkit/postgres/PostgresTest"
import { ConfigProvider, Effect, Layer, Result, Schedule } from "effect"
import { randomUUID } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { scan } from "../../src/index.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import { parse } from "../../src/postgres/PostgresUrl.ts"

/** A server with a certificate for 127.0.0.1, from an authority that Node does not trust. */
let server: PostgresServer
let folder: string
const fileOf = (name: "ours" | "other" | "none") => join(folder, `${name}.pem`)
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "payments-tls-"))
  const authority = makeAuthority("ours")
  writeFileSync(fileOf("ours"), authority.certificate)
  // An authority with the same name, but another key.
  writeFileSync(fileOf("other"), makeAuthority("ours").certificate)
  writeFileSync(fileOf("none"), "no certificate\n")
  server = await startServer([], authority.certify("127.0.0.1"))
})
afterAll(async () => {
  await server.stop()
  rmSync(folder, { recursive: true })
})

interface Attempt {
  readonly host?: string
  readonly options?: { readonly [name: string]: string }
  readonly env?: { readonly [name: string]: string }
}

const sink = (schema: string, { env = {}, host = "127.0.0.1", options = {} }: Attempt) =>
  PostgresSink.layer(
    Result.getOrThrow(
      parse(`postgres://${user}@${host}:${server.port}/postgres?${new URLSearchParams({ schema, ...options })}`)
    )
  ).pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({ PGPASSFILE: "/nowhere", ...env }))))

const newSchema = () => `t_${randomUUID()}`

/** The TLS state of the export's sessions, as the server reports it. */
const sessions = Effect.suspend(() =>
  Effect.promise(() =>
    query(
      server,
      "SELECT ssl, version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'payments'"
    )
  )
)

/** Waits until the server has ended the sessions of earlier exports, for which these did not wait. */
const noSessions = Effect.repeat(sessions, {
  until: (found) => found.length === 0,
  schedule: Schedule.spaced("20 millis")
})

describe("TLS to PostgreSQL", () => {
  it.live.each([
    { title: "in the URL", options: { sslmode: "verify-full", sslrootcert: "ours" }, env: {} },
    { title: "in the variables", options: {}, env: { PGSSLMODE: "verify-full", PGSSLROOTCERT: "ours" } },
    { title: "with sslmode=prefer", options: { sslmode: "prefer", sslrootcert: "ours" }, env: {} }
  ])(
    "is used for every connection if the certificate's authority is given ($title)",
    ({ env, options }) =>
      Effect.gen(function*() {
        const schema = newSchema()
        const inFolder = (given: Attempt["env"]) =>
          Object.fromEntries(
            Object.entries(given ?? {}).map(([name, value]) => [name, value === "ours" ? fileOf("ours") : value])
          )
        const layer = sink(schema, { options: inFolder(options), env: inFolder(env) })
        yield* Effect.gen(function*() {
          yield* scan("invoices")
          const found = yield* sessions
          assert.isAbove(found.length, 0)
          for (const session of found) assert.deepStrictEqual(session, { ssl: true, version: "TLSv1.3" })
        }).pipe(Effect.provide(Layer.merge(layer, layerTest({ invoices: [{ id: "a" }, { id: "b" }] }))))
        const rows = yield* Effect.promise(() => rowsOf(server, schema, Lists.invoices))
        assert.deepStrictEqual(rows.map(({ id }) => id).toSorted(), ["a", "b"])
      })
  )

  it.live.each<Attempt & { readonly title: string; readonly authority?: "ours" | "other" | "none" }>([
    { title: "of another authority of the same name", authority: "other", options: { sslmode: "verify-full" } },
    { title: "of another authority, with sslmode=require", authority: "other", options: { sslmode: "require" } },
    { title: "of an authority that is not given", options: { sslmode: "verify-full" } },
    { title: "of an authority that is not given, with sslmode=prefer", options: { sslmode: "prefer" } },
    { title: "if the authority's file has no certificate", authority: "none", options: { sslmode: "verify-full" } },
    { title: "for another host", host: "localhost", authority: "ours", options: { sslmode: "verify-full" } },
    { title: "for another host, verify-ca", host: "localhost", authority: "ours", options: { sslmode: "verify-ca" } }
  ])("rejects a certificate $title", ({ authority, host, options }) =>
    Effect.gen(function*() {
      const schema = newSchema()
      yield* noSessions
      const error = yield* Effect.flip(
        Effect.scoped(Layer.build(sink(schema, {
          ...(host === undefined ? {} : { host }),
          options: { ...options, ...(authority === undefined ? {} : { sslrootcert: fileOf(authority) }) }
        })))
      )
      assert.deepStrictEqual(error.reason._tag === "Failed" && error.reason.code, "TLS")
      assert.strictEqual(
        error.message,
        `postgres://${
          host ?? "127.0.0.1"
        }:${server.port}/postgres?schema=${schema}: the server's certificate is not valid. ` +
          "Name its authority's file with sslrootcert, or use the host name in the certificate (TLS)."
      )
      assert.deepStrictEqual(yield* sessions, [])
    }))

  it.live("is not used with sslmode=disable", () =>
    Effect.gen(function*() {
      yield* noSessions
      const layer = sink(newSchema(), { options: { sslmode: "disable" } })
      const found = yield* Effect.provide(sessions, layer)
      assert.deepStrictEqual(found.map(({ ssl }) => ssl), found.map(() => false))
      assert.isAbove(found.length, 0)
    }))
})
